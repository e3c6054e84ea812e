//! What a thread that reads has gathered, and what it tells.

use cofferdam::{SourceError, SourceEvent};
use rdkafka::error::KafkaError;

use super::position::{KafkaPosition, Partition};

/// What the thread tells its reader.
pub(super) enum Told<R> {
    Event(SourceEvent<R, KafkaPosition>),
    Failed(SourceError),
    /// The client met something that may end the job: to be looked into.
    Suspicious,
    /// The offset of a partition is not there.
    OutOfRange(Partition, i64),
}

/// Why the thread ends.
pub(super) enum Over {
    /// Nobody listens.
    Unheard,
    Failed(SourceError),
    OutOfRange(Partition, i64),
    /// All is read.
    End,
}

/// Records of one split that are not told yet.
pub(super) struct Batch<R> {
    pub(super) split: usize,
    pub(super) records: Vec<R>,
    pub(super) skipped: u64,
    pub(super) bytes: usize,
}

impl<R> Default for Batch<R> {
    fn default() -> Self {
        Self {
            split: 0,
            records: Vec::new(),
            skipped: 0,
            bytes: 0,
        }
    }
}

/// librdkafka refused to do something that it does for everybody.
pub(super) fn refused(trying: &str, error: KafkaError) -> Over {
    Over::Failed(SourceError::transient(format!("can't {trying}")).caused_by(error))
}
