//! Kafka.
mod connection;
mod error;
mod records;
mod sink;
mod transactions;
mod wire;
pub use connection::{BearerToken, KafkaConnection, Sasl, Tls, TokenSource};
pub use records::{Bytes, Json, OutgoingRecord, Serializer, WithKey};
pub use sink::{KafkaSink, KafkaTransaction};
pub use transactions::{PreparedTransaction, TransactionAdmin, TransactionDescription, TransactionState};
