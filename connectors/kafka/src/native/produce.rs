//! Many records for one call into librdkafka.
//!
//! `rdkafka` hands over records one by one; each time librdkafka looks up the topic, takes its locks and reads two clocks.
//! By the batch it does that once; and once for each partition, if the records of one partition follow each other.

use std::borrow::Cow;
use std::ffi::{CString, c_void};
use std::ptr::{self, NonNull};

use cofferdam::SinkError;
use rdkafka::bindings as c;
use rdkafka::producer::{BaseProducer, Producer as _, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;

use crate::records::OutgoingRecord;

/// `RD_KAFKA_PARTITION_UA`: the partitioner decides.
const BY_KEY: i32 = -1;

/// The error codes of this call are librdkafka's own, of the version that the bindings are made for: each is in the enum.
const NO_ERROR: c::rd_kafka_resp_err_t = c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;

/// Records for one topic, whose keys decide their partition. Keys and values lie in one piece of memory.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    records: Vec<Span>,
}

/// Where a record lies.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// Its key begins here, its value right behind.
    start: usize,
    key: Option<usize>,
    value: Option<usize>,
    partition: i32,
}

impl Batch {
    pub(crate) fn push(&mut self, record: &OutgoingRecord) {
        let (start, key, value) = (self.bytes.len(), record.key_bytes(), record.value_bytes());
        self.bytes.extend_from_slice(key.unwrap_or_default());
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let (key, value) = (key.map(<[u8]>::len), value.map(<[u8]>::len));
        self.records.push(Span {
            start,
            key,
            value,
            partition: BY_KEY,
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
    }

    /// The records from `first` on, as librdkafka takes them. The pointers are good until the batch changes.
    fn messages(&self, first: usize) -> Vec<c::rd_kafka_message_t> {
        let bytes = &self.bytes;
        let part = |start: usize, length: Option<usize>| match length {
            // Empty is not the same as none: an empty value is no tombstone.
            Some(length) => (bytes[start..].as_ptr().cast_mut().cast::<c_void>(), length),
            None => (ptr::null_mut(), 0),
        };
        let message = |span: &Span| {
            let (key, key_len) = part(span.start, span.key);
            let (payload, len) = part(span.start + span.key.unwrap_or(0), span.value);
            c::rd_kafka_message_t {
                err: NO_ERROR,
                rkt: ptr::null_mut(),
                partition: span.partition,
                payload,
                len,
                key,
                key_len,
                offset: 0,
                _private: ptr::null_mut(),
            }
        };
        self.records[first..].iter().map(message).collect()
    }
}

/// A producer, with the topic that batches go to.
pub(crate) struct BatchProducer<C: ProducerContext + 'static> {
    topic: NonNull<c::rd_kafka_topic_t>,
    name: CString,
    producer: BaseProducer<C>,
    /// How many the topic has; `None` if that is not known, or another partitioner than that of Java clients is asked for.
    partitions: Option<i32>,
}

// SAFETY: librdkafka's objects may be used from any thread, and from several at once; the producer is sent as it is.
unsafe impl<C: ProducerContext + 'static> Send for BatchProducer<C> where BaseProducer<C>: Send {}
// SAFETY: as above.
unsafe impl<C: ProducerContext + 'static> Sync for BatchProducer<C> where BaseProducer<C>: Sync {}

impl<C: ProducerContext + 'static> BatchProducer<C> {
    /// # Errors
    /// If the name of the topic is none.
    pub(crate) fn new(producer: BaseProducer<C>, topic: &str) -> Result<Self, SinkError> {
        let refused = || SinkError::configuration(format!("{topic:?} is no name of a topic"));
        let name = CString::new(topic).map_err(|_| refused())?;
        let client = producer.client().native_ptr();
        // SAFETY: client and name are alive; the name is copied, and no settings are handed over.
        let topic = unsafe { c::rd_kafka_topic_new(client, name.as_ptr(), ptr::null_mut()) };
        let topic = NonNull::new(topic).ok_or_else(refused)?;
        Ok(Self {
            topic,
            name,
            producer,
            partitions: None,
        })
    }

    pub(crate) fn producer(&self) -> &BaseProducer<C> {
        &self.producer
    }

    /// The topic's name.
    pub(crate) fn topic(&self) -> Cow<'_, str> {
        self.name.to_string_lossy()
    }

    /// Chooses among so many partitions, as Java clients do.
    pub(crate) fn choose_partitions(&mut self, count: usize) {
        self.partitions = i32::try_from(count).ok().filter(|count| *count > 0);
    }

    /// Puts the records of one partition one behind the other, in their order. Those without a key are librdkafka's to
    /// place.
    pub(crate) fn arrange(&self, batch: &mut Batch) {
        let Some(partitions) = self.partitions else {
            return;
        };
        let Batch { bytes, records } = batch;
        for span in records.iter_mut() {
            let Some(length) = span.key else { continue };
            let key = &bytes[span.start..span.start + length];
            // SAFETY: topic and key are alive, there is a partition, and the last two are not looked at.
            span.partition = unsafe {
                c::rd_kafka_msg_partitioner_murmur2(
                    self.topic.as_ptr(),
                    key.as_ptr().cast(),
                    key.len(),
                    partitions,
                    ptr::null_mut(),
                    ptr::null_mut(),
                )
            };
        }
        records.sort_by_key(|span| span.partition);
    }

    /// Hands over the records of a batch from `first` on. Returns how many were taken; fewer than all if the client's
    /// buffer is full.
    pub(crate) fn send_batch(
        &self,
        batch: &Batch,
        first: usize,
    ) -> Result<usize, RDKafkaErrorCode> {
        let mut messages = batch.messages(first);
        let count = i32::try_from(messages.len()).unwrap_or(i32::MAX);
        // SAFETY: topic and messages are alive; F_COPY has keys and values copied, so nothing is kept of them.
        let taken = unsafe {
            c::rd_kafka_produce_batch(
                self.topic.as_ptr(),
                BY_KEY,
                c::RD_KAFKA_MSG_F_COPY | c::RD_KAFKA_MSG_F_PARTITION,
                messages.as_mut_ptr(),
                count,
            )
        };
        if taken == count {
            return Ok(messages.len());
        }
        for (index, message) in messages.iter().enumerate() {
            if message.err != NO_ERROR {
                return match RDKafkaErrorCode::from(message.err) {
                    RDKafkaErrorCode::QueueFull => Ok(index),
                    code => Err(code),
                };
            }
        }
        Ok(messages.len())
    }
}

impl<C: ProducerContext + 'static> Drop for BatchProducer<C> {
    fn drop(&mut self) {
        // SAFETY: it is ours, and its client is alive: fields are dropped after this.
        unsafe { c::rd_kafka_topic_destroy(self.topic.as_ptr()) };
    }
}
