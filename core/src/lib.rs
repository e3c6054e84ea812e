//! begin → write → pre-commit → decision → commit or abort: sinks that write **exactly once**, driven by checkpoints.
//!
//! A pipeline reads (files, Kafka), works on records (map, key, event-time windows) and writes to outside systems. Every
//! second or so a *barrier* passes through it; what each sink wrote since the last one is *prepared*: durable in the
//! outside system, and invisible. When all have prepared, one record in a log *decides* the checkpoint, and everything
//! prepared is committed, by this process or, if it dies, by the next. Nothing is seen before its checkpoint is decided;
//! everything decided is seen, once.
//!
//! # A crash, and going on
//!
//! ```
//! use cofferdam::memory::{MemorySink, MemorySource};
//! use cofferdam::{JobEnd, MemoryCheckpointStore, NoEventTime, Pipeline};
//! # use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let numbers = MemorySource::new([(0..1_000_000).collect::<Vec<u64>>()]);
//! let squares = MemorySink::new(); // the outside system: it outlives the crash
//! let checkpoints = MemoryCheckpointStore::new(); // so do the checkpoints
//! let job = || {
//!     Pipeline::new("squares")
//!         .source("numbers", numbers.clone(), NoEventTime)
//!         .map(|number| number * number)
//!         .sink("squares", squares.clone())
//!         .job(checkpoints.clone())
//!         .checkpoint_interval(Duration::from_millis(1))
//! };
//!
//! // The first run dies as soon as it has decided a checkpoint: its future is dropped, nobody cleans up.
//! let first = job();
//! let mut handle = first.handle();
//! tokio::select! {
//!     _ = first.run() => {}
//!     _ = async { while handle.progress().checkpoint.is_none() { handle.changed().await; } } => {}
//! }
//!
//! // The second run settles what the first one left, goes on, and ends.
//! let report = job().run().await?;
//! assert_eq!(report.end, JobEnd::Completed);
//! let mut visible = squares.visible();
//! visible.sort_unstable();
//! assert_eq!(visible, (0..1_000_000).map(|number| number * number).collect::<Vec<u64>>());
//! # Ok(())
//! # }
//! ```
//!
//! # Where to go from here
//!
//! | you want to | look at |
//! | --- | --- |
//! | put a pipeline together | [`Pipeline`], [`Windows`], [`Aggregate`], [`Job`] |
//! | write a sink for a system of your own | [`StagedSink`], [`TwoPhaseCommitSinkFunction`], [`docs::writing_a_sink`] |
//! | write a source | [`Source`], [`SourceReader`] |
//! | keep checkpoints somewhere else | [`CheckpointStore`] |
//! | know what is promised, and what is not | [`docs::guarantees`] |
//! | run it in production: time limits, stops, a standby | [`docs::running`] |
//! | see how checkpoints are agreed on | [`protocol`] |
//!
//! Connectors are crates of their own; `cofferdam-object-store` has files as source and as sink.
//!
//! # What is written where
//!
//! `tracing` spans go with each phase: `take_over`, `read_newest`, `settle`, `abort_stale`, `record_settled` in recovery;
//! `snapshot`, `begin`, `write`, `pre_commit`, `vote`, `decide`, `commit`, `confirm`, `retire` in a checkpoint; `discard` when one
//! is dropped, `abort` when one is decided against; `abort_stale` once more while a run works, `record_settled` at its end. Their fields have the same names everywhere: `job`, `epoch`, `sink`, `subtask`, `checkpoint`.

mod at_least_once;
mod capabilities;
mod checkpoint;
pub mod docs;
mod envelope;
mod error;
mod fence;
mod identity;
pub mod memory;
mod pipeline;
pub mod protocol;
mod runtime;
mod shard;
mod sink;
mod source;
mod staged;
mod time;
mod window;

pub use async_trait::async_trait;

pub use at_least_once::{AtLeastOnce, NeverPrepared, RecordWriter};
pub use capabilities::{AtomicUnit, Capabilities, Evidence, Fencing, Isolation, Resume};
pub use checkpoint::{
    CheckpointError, CheckpointStore, Create, DirectoryCheckpointStore, MAX_OBJECT_NAME_LENGTH,
    MemoryCheckpointStore, ObjectNameError, StoreError, check_object_name, check_object_prefix,
};
pub use envelope::EnvelopeError;
pub use error::{ErrorKind, SinkError, SourceError};
pub use identity::{
    CheckpointId, Epoch, IdentityError, JobId, MAX_NAME_LENGTH, OperatorId, SinkId, SourceId,
    SubtaskIndex, TransactionId,
};
pub use pipeline::{EventTime, KeyedStream, NoEventTime, Pipeline, Stream, WindowedStream};
pub use runtime::{
    Job, JobEnd, JobError, JobHandle, JobReport, JobState, Progress, RestartStrategy,
};
pub use sink::{
    CommitError, Committed, Fence, InDoubt, Sweep, TwoPhaseCommitSinkFunction, Unfinished,
};
pub use source::{OnMalformed, Source, SourceBatch, SourceEvent, SourceReader, SplitId};
pub use staged::{StagedHandle, StagedSink, StagedTransaction, StagingStore};
pub use time::Timestamp;
pub use window::{
    Addend, Aggregate, AggregateError, LateRecord, WindowResult, Windows, count, fold, max, mean,
    min, sum,
};
