//! Records on their way out of Kafka and into it.

mod outgoing;

pub use self::outgoing::{Bytes, Json, OutgoingRecord, Serializer, WithKey};
