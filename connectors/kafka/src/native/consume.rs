//! Many records for one call into librdkafka.
//!
//! `rdkafka` takes records one by one, each with an event and a reference count around it, and that costs as much as all
//! else in reading. So records take a queue of ours, which is emptied by the batch, while everything that is no record
//! (log, errors, tokens) stays in the consumer's own queue for [`BaseConsumer::poll`].
//!
//! The rules of its `unsafe` code:
//!
//! * A pointer that librdkafka hands over is owned by one value here, which gives it back once, when it is dropped.
//! * What a record lends (its bytes, its topic's name, its headers) borrows from that value.
//! * The queue holds its consumer, and nothing lent outlives a borrow of the queue: so all is given back before the
//!   consumer is gone.
//! * No reference to a C struct is made, only its fields are read: an error code that a newer broker sends may be none
//!   of the variants of the binding's `enum`, and a reference would promise that it is.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;
use std::time::Duration;
use std::vec;

use rdkafka::bindings as c;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use crate::connection::ClientEvents;

/// The most messages that one read returns.
pub(crate) const LARGEST_READ: usize = 1024;

/// A consumer, and the queue that the records of its partitions go to.
pub(crate) struct BatchQueue {
    queue: NonNull<c::rd_kafka_queue_t>,
    /// Where librdkafka puts the pointers of a read. Empty between reads.
    buffer: Vec<*mut c::rd_kafka_message_t>,
    consumer: BaseConsumer<ClientEvents>,
}

impl BatchQueue {
    pub(crate) fn new(consumer: BaseConsumer<ClientEvents>) -> Self {
        // SAFETY: the client is alive; it is held for longer than the queue.
        let queue = unsafe { c::rd_kafka_queue_new(consumer.client().native_ptr()) };
        Self {
            queue: NonNull::new(queue).expect("librdkafka aborts when it has no memory"),
            buffer: Vec::with_capacity(LARGEST_READ),
            consumer,
        }
    }

    pub(crate) fn consumer(&self) -> &BaseConsumer<ClientEvents> {
        &self.consumer
    }

    /// Has the messages of a partition put into this queue. To be called before the partition is assigned. `false` if
    /// librdkafka knows no such partition.
    pub(crate) fn take_from(&self, topic: &str, partition: i32) -> bool {
        let Ok(topic) = CString::new(topic) else {
            return false;
        };
        let client = self.consumer.client().native_ptr();
        // SAFETY: client and name are alive; the name is copied. What comes back is null, or ours to destroy: the
        // partition and the forwarding hold references of their own.
        unsafe {
            let from = c::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition);
            if from.is_null() {
                return false;
            }
            c::rd_kafka_queue_forward(from, self.queue.as_ptr());
            c::rd_kafka_queue_destroy(from);
        }
        true
    }

    /// Returns all that is there, up to [`LARGEST_READ`]. If there is nothing, waits for the first message.
    pub(crate) fn read(&mut self, patience: Duration) -> Messages<'_> {
        // A call with a time-out waits until its buffer is full, so it is made for one message only.
        if !self.fill(Duration::ZERO, LARGEST_READ) && self.fill(patience, 1) {
            self.fill(Duration::ZERO, LARGEST_READ - 1);
        }
        Messages {
            left: self.buffer.drain(..),
        }
    }

    /// Adds up to `most` messages to the buffer; whether there were any.
    fn fill(&mut self, patience: Duration, most: usize) -> bool {
        let patience = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        let filled = self.buffer.len();
        let most = most.min(self.buffer.capacity() - filled);
        // SAFETY: the queue is alive, and `most` pointers have room behind those that are in the buffer.
        let read = unsafe {
            let room = self.buffer.as_mut_ptr().add(filled);
            c::rd_kafka_consume_batch_queue(self.queue.as_ptr(), patience, room, most)
        };
        // Negative on an error, which only a queue of another kind gives.
        let read = usize::try_from(read).unwrap_or(0);
        // SAFETY: the first `read` of them are now set.
        unsafe { self.buffer.set_len(filled + read) };
        read > 0
    }
}

impl Drop for BatchQueue {
    fn drop(&mut self) {
        // SAFETY: it is ours, nothing lent by it is left, and the consumer is dropped after it.
        unsafe { c::rd_kafka_queue_destroy(self.queue.as_ptr()) };
    }
}

/// The messages of one read. Those that nobody takes are given back with it.
pub(crate) struct Messages<'a> {
    left: vec::Drain<'a, *mut c::rd_kafka_message_t>,
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let raw = NonNull::new(self.left.next()?).expect("librdkafka reports no null messages");
        Some(Message {
            raw,
            queue: PhantomData,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl Drop for Messages<'_> {
    fn drop(&mut self) {
        self.by_ref().for_each(drop);
    }
}

/// A record, or an event in the stream of records.
pub(crate) struct Message<'a> {
    raw: NonNull<c::rd_kafka_message_t>,
    queue: PhantomData<&'a BatchQueue>,
}

impl Drop for Message<'_> {
    fn drop(&mut self) {
        // SAFETY: it is ours, and what it lent borrows from this value.
        unsafe { c::rd_kafka_message_destroy(self.raw.as_ptr()) };
    }
}

/// Reads a field of a message without making a reference to the whole.
macro_rules! field {
    ($message:expr, $field:ident) => {{
        let raw = $message.raw.as_ptr();
        // SAFETY: the message is alive until its value is dropped, and the field is plain data.
        unsafe { (&raw const (*raw).$field).read() }
    }};
}

impl Message<'_> {
    /// The error code, 0 for a record.
    pub(crate) fn code(&self) -> i32 {
        let raw = self.raw.as_ptr();
        // SAFETY: as in `field!`; the C enum is an `int`, and any `int` may be in it.
        unsafe { (&raw const (*raw).err).cast::<i32>().read() }
    }

    /// What the error is, in words.
    pub(crate) fn error(&self) -> String {
        // SAFETY: the message is alive; the text is null or a C string that lives as long as it.
        unsafe {
            let text = c::rd_kafka_message_errstr(self.raw.as_ptr());
            text_of(text).unwrap_or_default().into_owned()
        }
    }

    /// The topic's name.
    pub(crate) fn topic(&self) -> &[u8] {
        let topic = field!(self, rkt);
        if topic.is_null() {
            return b"";
        }
        // SAFETY: the message holds its topic, the topic its name, a C string.
        unsafe { CStr::from_ptr(c::rd_kafka_topic_name(topic)).to_bytes() }
    }

    pub(crate) fn partition(&self) -> i32 {
        field!(self, partition)
    }

    pub(crate) fn offset(&self) -> i64 {
        field!(self, offset)
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        let (start, length) = (field!(self, key), field!(self, key_len));
        // SAFETY: they belong together, and live as long as the message.
        unsafe { bytes(start, length) }
    }

    pub(crate) fn value(&self) -> Option<&[u8]> {
        let (start, length) = (field!(self, payload), field!(self, len));
        // SAFETY: they belong together, and live as long as the message.
        unsafe { bytes(start, length) }
    }

    /// Milliseconds since 1970, if the record has a timestamp.
    pub(crate) fn timestamp(&self) -> Option<i64> {
        // SAFETY: the message is alive; the kind of timestamp isn't asked for.
        let millis = unsafe { c::rd_kafka_message_timestamp(self.raw.as_ptr(), ptr::null_mut()) };
        (millis != -1).then_some(millis)
    }

    pub(crate) fn headers(&self) -> Headers<'_> {
        Headers {
            message: Some(self.raw),
            next: 0,
            lent: PhantomData,
        }
    }
}

/// The headers of a record. They are looked for once somebody asks.
#[derive(Clone)]
pub(crate) struct Headers<'a> {
    message: Option<NonNull<c::rd_kafka_message_t>>,
    next: usize,
    lent: PhantomData<&'a [u8]>,
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

#[cfg(test)]
impl Headers<'static> {
    pub(crate) fn none() -> Self {
        Self {
            message: None,
            next: 0,
            lent: PhantomData,
        }
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = (Cow<'a, str>, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let message = self.message?;
        let mut list = ptr::null_mut();
        // SAFETY: the message is alive for 'a, not shared with other threads, and keeps the list that it parses here.
        unsafe { c::rd_kafka_message_headers(message.as_ptr(), &raw mut list) };
        // Left null if there are none.
        let list = NonNull::new(list)?;
        let mut name: *const c_char = ptr::null();
        let mut value: *const c_void = ptr::null();
        let mut length = 0;
        // SAFETY: the list lives as long as the message that 'a borrows from; so do the name, a C string, and the value
        // of that length.
        unsafe {
            let found = c::rd_kafka_header_get_all(
                list.as_ptr(),
                self.next,
                &raw mut name,
                &raw mut value,
                &raw mut length,
            );
            if found != c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                return None;
            }
            self.next += 1;
            Some((text_of(name)?, bytes(value, length)))
        }
    }
}

/// # Safety
/// Null, or `length` bytes that stay as they are for `'a`.
unsafe fn bytes<'a>(start: *const c_void, length: usize) -> Option<&'a [u8]> {
    // SAFETY: as the caller promises.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start.cast(), length) })
}

/// # Safety
/// Null, or a C string that stays as it is for `'a`.
unsafe fn text_of<'a>(start: *const c_char) -> Option<Cow<'a, str>> {
    // SAFETY: as the caller promises.
    (!start.is_null()).then(|| unsafe { CStr::from_ptr(start) }.to_string_lossy())
}
