//! Kafka.
mod connection;
mod wire;
pub use connection::{BearerToken, KafkaConnection, Sasl, Tls, TokenSource};
