//! What a record of Kafka is made of, and how it becomes a record of the pipeline.

mod decode;
mod record;

pub use self::decode::{Bytes, DecodeError, Decoder, Json, Utf8};
pub use self::record::{ConsumedRecord, KafkaRecord};
