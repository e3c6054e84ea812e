//! A plain writer as a sink: at least once, and no more.

use std::fmt::Debug;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::capabilities::Capabilities;
use crate::error::SinkError;
use crate::identity::{JobId, TransactionId};
use crate::sink::{CommitError, Committed, Fence, InDoubt, TwoPhaseCommitSinkFunction, Unfinished};

/// Writes records into a system that knows no transactions.
#[async_trait]
pub trait RecordWriter: Debug + Send + Sync + 'static {
    /// What the pipeline hands over.
    type Input: Send + 'static;

    /// Writes a batch of records, in order. May buffer. Called by all subtasks at once.
    ///
    /// *After an error* it is unknown which of them are written; the job rolls back and writes them again.
    async fn write(&self, records: Vec<Self::Input>) -> Result<(), SinkError>;

    /// Makes all that was written before this call durable.
    ///
    /// *Must* fail if any record whose [`write`](Self::write) had returned can't be made durable, also if another
    /// subtask wrote it: the checkpoint counts on it.
    async fn flush(&self) -> Result<(), SinkError>;
}

/// A sink over a [`RecordWriter`]: no record of a decided checkpoint is missing, and that is all.
///
/// What it does **not** give:
/// * *Exactly once.* After a crash or a rollback, the records since the newest decided checkpoint are written again, by
///   the side of those of the first time. Readers have to bear duplicates, or tell them by a key.
/// * *Isolation.* Readers see records at once: before their checkpoint is decided, and also if it never is.
/// * *Fencing.* A process that was taken over goes on writing until it notices: those records are duplicates too.
///
/// Its [`capabilities`](TwoPhaseCommitSinkFunction::capabilities) say so:
/// [`Capabilities::AT_LEAST_ONCE`]. A job may have sinks of both kinds; each gives what it declares.
///
/// ```
/// use cofferdam::{AtLeastOnce, RecordWriter, SinkError, async_trait};
///
/// #[derive(Debug)]
/// struct Lines;
///
/// #[async_trait]
/// impl RecordWriter for Lines {
///     type Input = String;
///
///     async fn write(&self, records: Vec<String>) -> Result<(), SinkError> {
///         records.iter().for_each(|record| println!("{record}"));
///         Ok(())
///     }
///
///     async fn flush(&self) -> Result<(), SinkError> {
///         Ok(())
///     }
/// }
///
/// let sink = AtLeastOnce::new(Lines);
/// ```
#[derive(Debug, Clone)]
pub struct AtLeastOnce<W> {
    writer: W,
}

impl<W> AtLeastOnce<W> {
    /// A sink that writes through `writer`.
    pub fn new(writer: W) -> Self {
        Self { writer }
    }
}

/// The handle of a prepared transaction of [`AtLeastOnce`]: there is none, ever.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum NeverPrepared {}

#[async_trait]
impl<W: RecordWriter> TwoPhaseCommitSinkFunction for AtLeastOnce<W> {
    type Input = W::Input;
    type Transaction = ();
    type Prepared = NeverPrepared;

    fn capabilities(&self) -> Capabilities {
        Capabilities::AT_LEAST_ONCE
    }

    async fn begin(&self, _: &TransactionId) -> Result<(), SinkError> {
        Ok(())
    }

    async fn write(&self, (): &mut (), records: Vec<W::Input>) -> Result<(), SinkError> {
        self.writer.write(records).await
    }

    async fn pre_commit(&self, (): ()) -> Result<Option<NeverPrepared>, SinkError> {
        self.writer.flush().await?;
        Ok(None)
    }

    async fn commit(
        &self,
        _: &TransactionId,
        prepared: &NeverPrepared,
    ) -> Result<Committed, CommitError> {
        match *prepared {}
    }

    async fn abort(&self, _: Unfinished<(), NeverPrepared>) -> Result<(), SinkError> {
        // What is written is written.
        Ok(())
    }

    async fn abort_stale(&self, _: &Fence<NeverPrepared>) -> Result<Vec<InDoubt>, SinkError> {
        Ok(Vec::new())
    }

    async fn in_doubt(&self, _: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        Ok(Vec::new())
    }
}
