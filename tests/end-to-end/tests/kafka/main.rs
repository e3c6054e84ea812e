//! Kafka to Kafka, exactly once: real jobs and real brokers, killed, frozen and cut off; what `read_committed` readers see is
//! counted.
//!
//! Tests that leave the broker alone share one, each with a job and topics of its own.

mod brokers;
mod cluster;
mod commits;
mod expiry;
mod ids;
mod points;
mod quiet;
mod random;
mod reader;
mod relay;
mod rescale;
mod site;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "it is shared with the tests over files")]
mod support;
mod zombies;
