//! The source contract: replayable splits, positions that snapshot and restore.

use std::fmt;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::SourceError;
use crate::identity::CheckpointId;

/// The name of a split: an ordered, replayable part of a source, such as a file or a partition. Stable over runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SplitId(Arc<str>);

impl SplitId {
    /// Wraps a name; any text will do.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SplitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a source does about input that can't be read as a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnMalformed {
    /// Stop with an error that says where it is.
    #[default]
    Fail,
    /// Leave it out and count it: see [`SourceBatch::skipped`].
    Skip,
}

/// A source that can be read again from any position that it has given out.
///
/// The runtime divides the splits among subtasks and opens one [`SourceReader`] in each. Positions are taken into
/// every checkpoint; after a crash the readers are opened at the positions of the newest decided checkpoint, and what
/// they return then must be what they returned the first time: the same records in the same order, split by split.
///
/// # New splits
/// A reader may tell of splits that it was not opened with, because they have come since. From its first event on
/// (an empty batch will do) such a split is one of the subtask: its position is in the next checkpoint, its event time
/// counts, and until its first record it holds back the watermark as any other does. After a restart it may be opened by
/// another subtask, also at another parallelism. No two readers may tell of the same split: let one of them look for new
/// ones, or let them agree through the source that opened them.
#[async_trait]
pub trait Source: Debug + Send + Sync + 'static {
    /// What it reads.
    type Record: Send + 'static;
    /// Where a split goes on: after the last record that was returned. Stored as JSON in the checkpoint.
    type Position: Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static;
    /// The reader of one subtask.
    type Reader: SourceReader<Record = Self::Record, Position = Self::Position>;

    /// All splits that exist now. Splits in the checkpoint that are not finished are read even if not named here.
    ///
    /// `known` are the splits in the newest checkpoint, finished ones too; empty at the very first start. With it a source
    /// whose user chooses where to begin can tell the first start, to which that choice applies, from a split that has
    /// come since: nothing of that one was read or passed over, so it is read from its start. A choice is made for good once
    /// its position is in a checkpoint; so tell it by an empty batch before anything else.
    async fn splits(&self, known: &[SplitId]) -> Result<Vec<SplitId>, SourceError>;

    /// Opens a reader. `None` as position: from the start of the split (or where the user chose to begin), as no position of
    /// it is in the checkpoint.
    ///
    /// *Must* fail, not skip, if a position can't be restored exactly.
    async fn open(
        &self,
        splits: Vec<(SplitId, Option<Self::Position>)>,
    ) -> Result<Self::Reader, SourceError>;

    /// Tells that a checkpoint is decided, with the positions in it: a chance to let go of what won't be read again,
    /// or to show progress outside. May come late, twice, or never.
    async fn notify(
        &self,
        checkpoint: CheckpointId,
        positions: &[(SplitId, Self::Position)],
    ) -> Result<(), SourceError>;
}

/// Reads the splits of one subtask.
#[async_trait]
pub trait SourceReader: Send + 'static {
    /// See [`Source::Record`].
    type Record: Send + 'static;
    /// See [`Source::Position`].
    type Position: Send + 'static;

    /// Waits for what comes next.
    ///
    /// *Cancel safety*: it must be cancel safe. If the future is dropped, nothing is lost: the next call returns
    /// what this one would have. The runtime drops it whenever something else comes first: a barrier, or records that have
    /// waited long enough for a batch to fill.
    /// *After an error* the reader is dropped; the job rolls back or stops.
    async fn next(&mut self) -> Result<SourceEvent<Self::Record, Self::Position>, SourceError>;
}

/// What a reader has to tell.
#[derive(Debug)]
pub enum SourceEvent<R, P> {
    /// Records of one split, in order.
    Batch(SourceBatch<R, P>),
    /// The split has nothing now and does not hold back the watermark until its next batch.
    Idle(SplitId),
    /// The split has ended for good: it is not opened again and holds back no watermark.
    Finished(SplitId),
    /// All splits have ended, and none will come.
    End,
}

/// Records of one split, in order.
#[derive(Debug)]
pub struct SourceBatch<R, P> {
    /// The split that they come from.
    pub split: SplitId,
    /// Some hundreds to a few thousand records; may be empty to move the position alone.
    pub records: Vec<R>,
    /// Where to go on after the last of them.
    pub position: P,
    /// How many records before `position` were left out since the last batch, because they could not be read and the
    /// source was told to skip such.
    pub skipped: u64,
}
