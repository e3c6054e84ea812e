//! Our own client of the Kafka protocol, for what moves no records: looking at transactions, finishing them, offsets.
//!
//! librdkafka can't finish a transaction that another process prepared: its `init_transactions` aborts it. The messages
//! come from `kafka-protocol`; connections, TLS and SASL are here.

mod cluster;
mod connection;
mod error;
mod sasl;
mod scram;
mod stream;

pub(crate) use self::cluster::{Cluster, Coordinator, Deadline, SPREADING};
pub(crate) use self::error::{WireError, name_of};
