//! What becomes of a value on its way into Kafka.

use std::error::Error;

use cofferdam::Timestamp;
use rdkafka::message::{Header, OwnedHeaders};
use serde::Serialize;

/// Turns values into records.
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
pub trait Serializer<T>: Send + Sync + 'static {
    /// Fills a record, which comes without key, value and headers, and is bound for the sink's own topic.
    ///
    /// # Errors
    /// Why the value can't be written. The same value fails again, so the job stops.
    fn serialize(
        &self,
        value: &T,
        record: &mut OutgoingRecord,
    ) -> Result<(), Box<dyn Error + Send + Sync>>;
}

impl<T, F> Serializer<T> for F
where
    F: Fn(&T, &mut OutgoingRecord) -> Result<(), Box<dyn Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
{
    fn serialize(
        &self,
        value: &T,
        record: &mut OutgoingRecord,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        self(value, record)
    }
}

/// Values as JSON, by serde; without a key.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

impl<T: Serialize> Serializer<T> for Json {
    fn serialize(
        &self,
        value: &T,
        record: &mut OutgoingRecord,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(serde_json::to_writer(record.value(), value)?)
    }
}

/// Values that are text or bytes, as they are; without a key.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bytes;

impl<T: AsRef<[u8]>> Serializer<T> for Bytes {
    fn serialize(
        &self,
        value: &T,
        record: &mut OutgoingRecord,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        record.value().extend_from_slice(value.as_ref());
        Ok(())
    }
}

/// A serializer, with a key added to its records.
#[derive(Debug, Clone, Copy)]
pub struct WithKey<S, F> {
    pub(crate) serializer: S,
    pub(crate) key: F,
}

impl<T, S, F> Serializer<T> for WithKey<S, F>
where
    S: Serializer<T>,
    F: Fn(&T, &mut Vec<u8>) + Send + Sync + 'static,
{
    fn serialize(
        &self,
        value: &T,
        record: &mut OutgoingRecord,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        (self.key)(value, record.key());
        self.serializer.serialize(value, record)
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
            payload: self.has_value.then_some(&self.value[..]),
            key: self.has_key.then_some(&self.key[..]),
            timestamp: self.timestamp,
            headers: self.headers.clone(),
            delivery_opaque: (),
        }
    }
}
