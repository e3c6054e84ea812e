//! Real services for tests, on a fresh machine: Kafka brokers from Maven Central's artifacts.
//!
//! Java 17 and Maven are all that has to be there (on Debian `default-jre-headless` and `maven`; `openssl` for guarded
//! listeners). The jars, 54 MB, are downloaded once and kept in `~/.cache/cofferdam`.
//!
//! ```
//! use cofferdam_services::Kafka;
//! use std::net::TcpStream;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let kafka = Kafka::builder().set("num.partitions", "4").start()?; // some five seconds
//! println!("clients connect to {}", kafka.bootstrap());
//!
//! kafka.kill(1)?; // as a crash would; its data stays
//! assert!(TcpStream::connect(kafka.address(1)).is_err());
//! kafka.start_node(1)?;
//! assert!(TcpStream::connect(kafka.address(1)).is_ok());
//! # Ok(())
//! # } // here it is killed, and its data removed
//! ```
//!
//! | you want to | look at |
//! | --- | --- |
//! | share one broker among the tests of a process | [`Kafka::shared`] |
//! | lose a node, or have a release of Kafka 3 | [`KafkaBuilder::nodes`], [`KafkaBuilder::version`] |
//! | crash, stop, freeze, bring back | [`Kafka::kill`], [`Kafka::stop`], [`Kafka::pause`], [`Kafka::start_node`] |
//! | authenticate, and be refused | [`KafkaBuilder::secure`], [`security`], [`Kafka::allow`] |
//! | have one from the command line | `cargo run -p cofferdam-services -- kafka --help` |
//!
//! Any number of clusters run side by side, in any number of processes. **None outlives the process that started it**,
//! even if that is killed with `kill -9`, or keeps the cluster in a `static`: each node has a small shell for a supervisor,
//! which waits for the end of a pipe, then kills the node and removes the cluster's data.

mod cache;
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
