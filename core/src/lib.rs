//! Pipelines whose sinks write exactly once, by checkpoint-driven two-phase commit.

mod at_least_once;
mod capabilities;
mod checkpoint;
mod envelope;
mod error;
mod identity;
pub mod memory;
mod pipeline;
pub mod protocol;
mod runtime;
mod shard;
mod sink;
mod source;
mod time;
mod window;

pub use async_trait::async_trait;

pub use at_least_once::{AtLeastOnce, NeverPrepared, RecordWriter};
pub use capabilities::{AtomicUnit, Capabilities, Evidence, Fencing, Isolation, Resume};
pub use checkpoint::{
    CheckpointError, CheckpointStore, Create, DirectoryCheckpointStore, MemoryCheckpointStore,
    StoreError,
};
pub use envelope::EnvelopeError;
pub use error::{ErrorKind, SinkError, SourceError};
pub use identity::{
    CheckpointId, Epoch, IdentityError, JobId, MAX_NAME_LENGTH, OperatorId, SinkId, SourceId,
    SubtaskIndex, TransactionId,
};
pub use pipeline::{EventTime, KeyedStream, NoEventTime, Pipeline, Stream, WindowedStream};
pub use runtime::{Job, JobEnd, JobError, JobHandle, JobReport, Progress, RestartStrategy};
pub use sink::{CommitError, Committed, Fence, InDoubt, TwoPhaseCommitSinkFunction, Unfinished};
pub use source::{Source, SourceBatch, SourceEvent, SourceReader, SplitId};
pub use time::Timestamp;
pub use window::{Aggregate, LateRecord, WindowResult, Windows, count, fold, max, mean, min, sum};
