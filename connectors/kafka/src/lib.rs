//! Kafka.
mod connection;
mod records;
mod source;
mod wire;
pub use connection::{BearerToken, KafkaConnection, Sasl, Tls, TokenSource};
pub use records::{Bytes, ConsumedRecord, DecodeError, Decoder, Json, KafkaRecord, Utf8};
pub use source::{KafkaPosition, KafkaReader, KafkaSource, Start};
