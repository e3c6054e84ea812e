//! Kafka.
mod connection;
mod error;
mod records;
mod sink;
mod source;
mod transactions;
mod wire;
pub use connection::{BearerToken, KafkaConnection, Sasl, Tls, TokenSource};
pub use records::{
    Bytes, ConsumedRecord, DecodeError, Decoder, EncodeError, Encoder, Json, KafkaRecord,
    OutgoingRecord, Utf8, WithKey,
};
pub use sink::{KafkaSink, KafkaTransaction};
pub use source::{KafkaPosition, KafkaReader, KafkaSource, Start};
pub use transactions::{
    PreparedTransaction, TransactionAdmin, TransactionDescription, TransactionState,
};
