//! Real brokers: that they start, answer, die and come back, and that nothing is left of them.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod cluster;
mod fetching;
mod leftovers;
mod secure;
mod support;
