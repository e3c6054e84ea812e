//! From a record of the pipeline to a record of Kafka.

use std::error::Error;

use cofferdam::Timestamp;
use rdkafka::message::{Header, OwnedHeaders};
use serde::Serialize;

use super::decode::{Bytes, Json};

/// Why a value can't be encoded. It is shown, so it must not hold secrets.
pub type EncodeError = Box<dyn Error + Send + Sync>;

/// Makes records of Kafka from records of a pipeline.
///
/// A closure is one:
///
/// ```
/// use cofferdam_kafka::{KafkaConnection, KafkaSink, OutgoingRecord};
///
/// struct Reading { sensor: String, celsius: f64 }
///
/// let kafka = KafkaConnection::new("localhost:9092");
/// let sink = KafkaSink::with(&kafka, "readings", |reading: &Reading, record: &mut OutgoingRecord| {
///     record.key().extend_from_slice(reading.sensor.as_bytes());
///     record.value().extend_from_slice(reading.celsius.to_string().as_bytes());
///     if reading.celsius > 100.0 {
///         record.topic("alarms");
///     }
///     Ok(())
/// });
/// ```
pub trait Encoder<T>: Send + Sync + 'static {
    /// Fills a record, which comes without key, value and headers, and is bound for the sink's own topic.
    ///
    /// # Errors
    /// Why the value can't be written. The same value fails again, so the job stops.
    fn encode(&self, value: &T, record: &mut OutgoingRecord) -> Result<(), EncodeError>;
}

impl<T, F> Encoder<T> for F
where
    F: Fn(&T, &mut OutgoingRecord) -> Result<(), EncodeError> + Send + Sync + 'static,
{
    fn encode(&self, value: &T, record: &mut OutgoingRecord) -> Result<(), EncodeError> {
        self(value, record)
    }
}

/// Values as JSON, without a key.
impl<T: Serialize + 'static> Encoder<T> for Json<T> {
    fn encode(&self, value: &T, record: &mut OutgoingRecord) -> Result<(), EncodeError> {
        Ok(serde_json::to_writer(record.value(), value)?)
    }
}

/// Text or bytes as they are, without a key.
impl<T: AsRef<[u8]>> Encoder<T> for Bytes {
    fn encode(&self, value: &T, record: &mut OutgoingRecord) -> Result<(), EncodeError> {
        record.value().extend_from_slice(value.as_ref());
        Ok(())
    }
}

/// An encoder, with a key added to its records.
#[derive(Debug, Clone, Copy)]
pub struct WithKey<S, F> {
    pub(crate) encoder: S,
    pub(crate) key: F,
}

impl<T, S, F> Encoder<T> for WithKey<S, F>
where
    S: Encoder<T>,
    F: Fn(&T, &mut Vec<u8>) + Send + Sync + 'static,
{
    fn encode(&self, value: &T, record: &mut OutgoingRecord) -> Result<(), EncodeError> {
        (self.key)(value, record.key());
        self.encoder.encode(value, record)
    }
}

/// A record on its way into Kafka. Its buffers are used again for the next one.
///
/// Without a value it is a tombstone.
#[derive(Debug, Default)]
pub struct OutgoingRecord {
    key: Vec<u8>,
    has_key: bool,
    value: Vec<u8>,
    has_value: bool,
    topic: String,
    partition: Option<i32>,
    timestamp: Option<i64>,
    headers: Option<OwnedHeaders>,
}

impl OutgoingRecord {
    /// Gives the record a key, and returns where to write it. Records of one key go to one partition, the same that Java
    /// clients choose.
    pub fn key(&mut self) -> &mut Vec<u8> {
        self.has_key = true;
        &mut self.key
    }

    /// Gives the record a value, and returns where to write it.
    pub fn value(&mut self) -> &mut Vec<u8> {
        self.has_value = true;
        &mut self.value
    }

    /// Sends the record to this topic instead of the sink's own.
    pub fn topic(&mut self, topic: &str) {
        self.topic.clear();
        self.topic.push_str(topic);
    }

    /// Sends the record to this partition, whatever its key.
    pub fn partition(&mut self, partition: i32) {
        self.partition = Some(partition);
    }

    /// Stamps the record with this time instead of the time of its sending.
    pub fn timestamp(&mut self, timestamp: Timestamp) {
        self.timestamp = Some(timestamp.as_millis());
    }

    /// Adds a header.
    pub fn header(&mut self, name: &str, value: &[u8]) {
        let headers = self.headers.take().unwrap_or_default();
        self.headers = Some(headers.insert(Header {
            key: name,
            value: Some(value),
        }));
    }

    /// Back to nothing, with the buffers kept.
    pub(crate) fn clear(&mut self) {
        self.key.clear();
        self.value.clear();
        self.topic.clear();
        self.has_key = false;
        self.has_value = false;
        self.partition = None;
        self.timestamp = None;
        self.headers = None;
    }

    /// Whether it is bound for the sink's own topic, with a partition by its key and nothing besides key and value.
    pub(crate) fn is_plain(&self) -> bool {
        self.topic.is_empty()
            && self.partition.is_none()
            && self.timestamp.is_none()
            && self.headers.is_none()
    }

    pub(crate) fn key_bytes(&self) -> Option<&[u8]> {
        self.has_key.then_some(&self.key[..])
    }

    pub(crate) fn value_bytes(&self) -> Option<&[u8]> {
        self.has_value.then_some(&self.value[..])
    }

    /// As the client library takes it.
    pub(crate) fn as_record<'a>(
        &'a self,
        topic: &'a str,
    ) -> rdkafka::producer::BaseRecord<'a, [u8], [u8]> {
        let topic = if self.topic.is_empty() {
            topic
        } else {
            &self.topic
        };
        rdkafka::producer::BaseRecord {
            topic,
            partition: self.partition,
            payload: self.value_bytes(),
            key: self.key_bytes(),
            timestamp: self.timestamp,
            headers: self.headers.clone(),
            delivery_opaque: (),
        }
    }
}
