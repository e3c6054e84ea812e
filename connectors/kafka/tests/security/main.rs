//! Signing in, rights, and all that a cluster can refuse: on real brokers, by the sink, the source and the admin.

mod broker;
mod canary;
mod clusters;
mod job;
mod records;
mod refusals;
mod rights;
mod rules;
mod signing_in;
