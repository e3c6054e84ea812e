//! Pipelines whose sinks write exactly once, by checkpoint-driven two-phase commit.

mod capabilities;
mod error;
mod identity;
mod sink;
mod source;

pub use async_trait::async_trait;

pub use capabilities::{AtomicUnit, Capabilities, Evidence, Fencing, Isolation, Resume};
pub use error::{ErrorKind, SinkError, SourceError};
pub use identity::{
    CheckpointId, Epoch, IdentityError, JobId, MAX_NAME_LENGTH, OperatorId, SinkId, SourceId,
    SubtaskIndex, TransactionId,
};
pub use sink::{CommitError, Committed, Fence, InDoubt, TwoPhaseCommitSinkFunction, Unfinished};
pub use source::{Source, SourceBatch, SourceEvent, SourceReader, SplitId};
