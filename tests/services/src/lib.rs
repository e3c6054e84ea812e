//! Real services for tests, on a fresh machine: Kafka brokers from Maven Central's artifacts, with Java and Maven alone.

mod error;
mod kafka;
mod ports;
mod programs;
mod supervised;

pub use error::ServiceError;
pub use kafka::{
    Kafka, KafkaBuilder, KafkaVersion, Operation, Resource, UnknownVersion, fetch, security,
};

use std::hash::{BuildHasher, Hasher, RandomState};

/// Enough chance to keep processes apart that start at once.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
