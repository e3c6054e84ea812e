//! What a record of Kafka is made of, how it becomes a record of the pipeline, and the way back.

mod decode;
mod encode;
mod record;

pub use self::decode::{Bytes, DecodeError, Decoder, Json, Utf8};
pub use self::encode::{EncodeError, Encoder, OutgoingRecord, WithKey};
pub use self::record::{ConsumedRecord, KafkaRecord};
