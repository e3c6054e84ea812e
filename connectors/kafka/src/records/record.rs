//! A record as it was read.

use std::borrow::Cow;
use std::fmt;

use cofferdam::Timestamp;

use crate::native::Headers;

/// A record of Kafka while it is decoded: it lies in the memory of the client, and is lent.
#[derive(Clone)]
pub struct KafkaRecord<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) timestamp: Option<Timestamp>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: Headers<'a>,
}

impl<'a> KafkaRecord<'a> {
    /// The topic that it was read from.
    pub fn topic(&self) -> &'a str {
        self.topic
    }

    /// The partition that it was read from.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// Its place in the partition.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// When it was created or appended, as the topic is set; `None` if it tells nothing.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }

    /// The key, if there is one.
    pub fn key(&self) -> Option<&'a [u8]> {
        self.key
    }

    /// The value; `None` in a tombstone, by which a compacted topic forgets a key.
    pub fn value(&self) -> Option<&'a [u8]> {
        self.value
    }

    /// Its headers, in order: names (not unique) and values.
    pub fn headers(&self) -> impl Iterator<Item = (Cow<'a, str>, Option<&'a [u8]>)> + use<'a> {
        self.headers.clone()
    }
}

impl fmt::Debug for KafkaRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaRecord")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("offset", &self.offset)
            .field("timestamp", &self.timestamp)
            .finish_non_exhaustive()
    }
}

/// A record of Kafka, whole: what [`KafkaSource::bytes`](crate::KafkaSource::bytes) reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumedRecord {
    /// The topic that it was read from.
    pub topic: String,
    /// The partition that it was read from.
    pub partition: i32,
    /// Its place in the partition.
    pub offset: i64,
    /// When it was created or appended, as the topic is set; `None` if it tells nothing.
    pub timestamp: Option<Timestamp>,
    /// The key, if there is one.
    pub key: Option<Vec<u8>>,
    /// The value; `None` in a tombstone.
    pub value: Option<Vec<u8>>,
    /// Its headers, in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl From<KafkaRecord<'_>> for ConsumedRecord {
    fn from(record: KafkaRecord<'_>) -> Self {
        let headers = record.headers();
        Self {
            topic: record.topic.to_owned(),
            partition: record.partition,
            offset: record.offset,
            timestamp: record.timestamp,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: headers
                .map(|(name, value)| (name.into_owned(), value.map(<[u8]>::to_vec)))
                .collect(),
        }
    }
}
