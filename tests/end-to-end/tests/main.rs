//! Kills real jobs, stops them, gives them bad input, and counts what comes out: each record exactly once.

mod bad_input;
mod kill;
mod support;
