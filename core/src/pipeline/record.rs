//! Records on their way through a pipeline.

use crate::time::Timestamp;

/// A value with its event time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<T> {
    pub(crate) value: T,
    pub(crate) timestamp: Timestamp,
    /// The watermark of the record's own split just before it. A record is late by this, not by what other splits have
    /// read meanwhile: so lateness, and with it every result, is the same in every run, at any parallelism.
    pub(crate) watermark: Timestamp,
}

impl<T> Record<T> {
    pub(crate) fn with<U>(self, value: impl FnOnce(T) -> U) -> Record<U> {
        Record {
            value: value(self.value),
            timestamp: self.timestamp,
            watermark: self.watermark,
        }
    }
}

/// A value with its key and the key's hash, which picks shard and subtask and is never computed again.
#[derive(Debug, Clone)]
pub struct Keyed<K, T> {
    pub(crate) hash: u64,
    pub(crate) key: K,
    pub(crate) value: T,
}
