//! From a record of Kafka to a record of the pipeline.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use super::record::{ConsumedRecord, KafkaRecord};

/// Why a record can't be decoded. It is shown, so it must not hold secrets.
pub type DecodeError = Box<dyn Error + Send + Sync>;

/// Makes records of a pipeline from records of Kafka. Closures are decoders:
///
/// ```
/// use cofferdam_kafka::{KafkaConnection, KafkaRecord, KafkaSource};
///
/// let connection = KafkaConnection::new("localhost:9092");
/// let sizes = KafkaSource::with(&connection, ["orders"], |record: KafkaRecord<'_>| {
///     Ok(record.value().map(<[u8]>::len))
/// });
/// ```
///
/// It runs on the thread that reads, so it should be quick, and it must give the same for the same record: after a
/// restart records are decoded again.
pub trait Decoder: Send + Sync + 'static {
    /// What it makes.
    type Output: Send + 'static;

    /// Decodes a record. `None` leaves it out, a tombstone for instance: that is no fault, and is not counted as skipped.
    ///
    /// # Errors
    /// The record is malformed: [`KafkaSource::on_malformed`](crate::KafkaSource::on_malformed) says what is done then.
    fn decode(&self, record: KafkaRecord<'_>) -> Result<Option<Self::Output>, DecodeError>;
}

impl<T, F> Decoder for F
where
    T: Send + 'static,
    F: Fn(KafkaRecord<'_>) -> Result<Option<T>, DecodeError> + Send + Sync + 'static,
{
    type Output = T;

    fn decode(&self, record: KafkaRecord<'_>) -> Result<Option<T>, DecodeError> {
        self(record)
    }
}

/// Values as JSON. Tombstones are left out.
pub struct Json<T>(PhantomData<fn() -> T>);

impl<T> Default for Json<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T> fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Json")
    }
}

impl<T: DeserializeOwned + Send + 'static> Decoder for Json<T> {
    type Output = T;

    fn decode(&self, record: KafkaRecord<'_>) -> Result<Option<T>, DecodeError> {
        let value = record.value().map(serde_json::from_slice).transpose();
        value.map_err(DecodeError::from)
    }
}

/// Values as text. Tombstones are left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Utf8;

impl Decoder for Utf8 {
    type Output = String;

    fn decode(&self, record: KafkaRecord<'_>) -> Result<Option<String>, DecodeError> {
        let text = record.value().map(str::from_utf8).transpose()?;
        Ok(text.map(str::to_owned))
    }
}

/// Records whole, as they are, tombstones too.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bytes;

impl Decoder for Bytes {
    type Output = ConsumedRecord;

    fn decode(&self, record: KafkaRecord<'_>) -> Result<Option<ConsumedRecord>, DecodeError> {
        Ok(Some(record.into()))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on panics")]
mod tests {
    use super::*;
    use crate::native::Headers;

    fn record(value: Option<&'static [u8]>) -> KafkaRecord<'static> {
        KafkaRecord {
            topic: "orders",
            partition: 2,
            offset: 7,
            timestamp: None,
            key: Some(b"key"),
            value,
            headers: Headers::none(),
        }
    }

    #[test]
    fn a_tombstone_is_left_out_where_the_value_is_the_record() {
        assert_eq!(Json::<u32>::default().decode(record(None)).unwrap(), None);
        assert_eq!(Utf8.decode(record(None)).unwrap(), None);
        let whole = Bytes.decode(record(None)).unwrap().unwrap();
        assert_eq!(
            (whole.value, whole.key.as_deref()),
            (None, Some(&b"key"[..]))
        );
    }

    #[test]
    fn an_empty_value_is_no_tombstone() {
        assert_eq!(Utf8.decode(record(Some(b""))).unwrap().as_deref(), Some(""));
        assert!(Json::<u32>::default().decode(record(Some(b""))).is_err());
    }

    #[test]
    fn what_is_neither_json_nor_text_is_malformed() {
        assert_eq!(
            Json::default().decode(record(Some(b"17"))).unwrap(),
            Some(17)
        );
        assert!(
            Json::<u32>::default()
                .decode(record(Some(b"17 x")))
                .is_err()
        );
        assert!(Utf8.decode(record(Some(b"\xff"))).is_err());
    }
}
