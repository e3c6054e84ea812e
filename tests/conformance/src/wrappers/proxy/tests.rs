//! The proxy before a server that counts what it is sent, and before the reference system.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod counter;
mod reference;
