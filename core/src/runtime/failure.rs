//! Why a job ends without having done its work.

use crate::checkpoint::CheckpointError;
use crate::error::{ErrorKind, SinkError, SourceError};
use crate::identity::{
    CheckpointId, Epoch, JobId, OperatorId, SinkId, SourceId, SubtaskIndex, TransactionId,
};
use crate::time::Timestamp;
use crate::window::AggregateError;

/// Why a job ended without having done its work.
///
/// Whatever it is: what decided checkpoints hold is kept, and the job goes on from the newest of them when it is started
/// again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The pipeline or a setting of the job can't work.
    #[error("this job can't be started: {0}")]
    Plan(String),
    /// The newest checkpoint does not fit this pipeline.
    #[error("checkpoint {checkpoint} does not fit this pipeline: {reason}")]
    OtherPipeline {
        /// The newest decided checkpoint.
        checkpoint: CheckpointId,
        /// What does not fit.
        reason: String,
    },
    /// The checkpoint store can't be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Operator state can't be stored or restored.
    #[error("state of operator {operator} in {object} can't be used: {cause}")]
    State {
        /// Whose state.
        operator: OperatorId,
        /// Where it is stored.
        object: String,
        /// What is wrong.
        cause: String,
    },
    /// An aggregate can't take a record in.
    #[error("operator {operator}, key {key}, window from {} to {} (milliseconds since 1970): {cause}", start.as_millis(), end.as_millis())]
    Aggregate {
        /// The window operator.
        operator: OperatorId,
        /// The key of the record, as JSON.
        key: String,
        /// Start of the window, included.
        start: Timestamp,
        /// End of the window, excluded.
        end: Timestamp,
        /// The reason.
        #[source]
        cause: AggregateError,
    },
    /// A source failed.
    #[error("source {source_id}: {cause}")]
    Source {
        /// Which.
        source_id: SourceId,
        /// How.
        #[source]
        cause: SourceError,
    },
    /// A sink failed before its checkpoint was decided: nothing of the checkpoint is visible.
    #[error("sink {sink}, subtask {subtask}, {action} for checkpoint {checkpoint}: {cause}")]
    Sink {
        /// Which.
        sink: SinkId,
        /// In which subtask.
        subtask: SubtaskIndex,
        /// What it was asked to do.
        action: &'static str,
        /// For which checkpoint.
        checkpoint: CheckpointId,
        /// How it failed.
        #[source]
        cause: SinkError,
    },
    /// A decided transaction can't be committed until someone changes something. It is kept, and committed at the next
    /// start.
    #[error(
        "sink {}: transaction {transaction} of a decided checkpoint can't be committed now: {cause}; \
         it is kept, and committed when the job is started again. Its handle: {handle}. If it can never be committed, \
         continue without its records: accept its loss by name: {transaction}", transaction.sink
    )]
    CommitRefused {
        /// Which.
        transaction: TransactionId,
        /// Its handle.
        handle: String,
        /// Why.
        #[source]
        cause: SinkError,
    },
    /// Proven: records of a decided checkpoint will never be visible.
    #[error(
        "sink {} has lost transaction {transaction} of decided checkpoint {checkpoint}: {reason}. \
         Its handle: {handle}. To go on without its records, accept this loss by name: {transaction}",
        transaction.sink
    )]
    Lost {
        /// The decided checkpoint.
        checkpoint: CheckpointId,
        /// The transaction.
        transaction: TransactionId,
        /// Its handle.
        handle: String,
        /// The proof.
        reason: String,
    },
    /// What older runs left in a sink can't be looked through or undone.
    #[error("sink {sink}: what older runs left can't be aborted: {cause}")]
    AbortStale {
        /// Which.
        sink: SinkId,
        /// Why.
        #[source]
        cause: SinkError,
    },
    /// A sink can't be asked what is in doubt.
    #[error("sink {sink}: what is in doubt can't be listed: {cause}")]
    InDoubt {
        /// Which.
        sink: SinkId,
        /// Why.
        #[source]
        cause: SinkError,
    },
    /// Another process runs this job now; this one has stopped. Nothing is lost or doubled.
    #[error(
        "job {job} was taken over: this process ran it as epoch {epoch}, and epoch {by} was started since. \
         Nothing is lost; let one process at a time run a job"
    )]
    Fenced {
        /// The job.
        job: JobId,
        /// This process's epoch.
        epoch: Epoch,
        /// The newer one.
        by: Epoch,
    },
    /// A checkpoint failed.
    #[error("rolled back: {0}")]
    RolledBack(String),
    /// A subtask or a connector panicked, most likely in a function of the pipeline.
    #[error("a subtask panicked: {0}")]
    Panicked(String),
    /// The same failure again and again, without a checkpoint in between: starting again does not help.
    #[error(
        "the same failure {times} times in a row, without a checkpoint between them, so the job does not start again: {cause}"
    )]
    Repeats {
        /// Number of times in a row.
        times: u32,
        /// The failure.
        #[source]
        cause: Box<JobError>,
    },
    /// The restart strategy has no attempts left.
    #[error(
        "gave up after {restarts} restarts without a checkpoint between them; the last failure: {cause}"
    )]
    GaveUp {
        /// Restarts in a row.
        restarts: u32,
        /// What ended the last run.
        #[source]
        cause: Box<JobError>,
    },
}

impl JobError {
    /// Returns whether starting from the newest checkpoint again may help, as far as the error says. Else the same would happen
    /// again, or a human has to decide.
    pub fn is_restartable(&self) -> bool {
        match self {
            Self::RolledBack(_) | Self::Panicked(_) => true,
            Self::Checkpoint(error) => error.is_retriable(),
            Self::Source { cause, .. } => cause.kind().is_retriable(),
            Self::Sink { cause, .. }
            | Self::AbortStale { cause, .. }
            | Self::InDoubt { cause, .. }
            | Self::CommitRefused { cause, .. } => cause.kind().is_retriable(),
            Self::Plan(_)
            | Self::OtherPipeline { .. }
            | Self::State { .. }
            | Self::Aggregate { .. }
            | Self::Lost { .. }
            | Self::Fenced { .. }
            | Self::Repeats { .. }
            | Self::GaveUp { .. } => false,
        }
    }

    /// Returns whether another process has taken the job over, as the checkpoint log says.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }

    /// Returns whether a connector claims that a newer epoch runs. Only the checkpoint log can confirm that: a transaction that has
    /// expired outside looks the same.
    pub(super) fn claims_takeover(&self) -> bool {
        let kind = match self {
            Self::Sink { cause, .. }
            | Self::AbortStale { cause, .. }
            | Self::CommitRefused { cause, .. } => cause.kind(),
            Self::Source { cause, .. } => cause.kind(),
            _ => return false,
        };
        kind == ErrorKind::Fenced
    }
}

/// Why a subtask ends early.
#[derive(Debug)]
pub enum Failure {
    /// Others have failed, or the run is given up: there is nothing to report.
    Cancelled,
    /// This subtask is the one that failed.
    Error(Box<JobError>),
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        Self::Error(Box::new(error))
    }
}
