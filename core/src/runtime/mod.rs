//! Running pipelines: subtasks, commits, recovery, restarts.

mod attempt;
mod backoff;
mod committer;
mod counts;
mod erased;
mod failure;
mod flush;
mod in_doubt;
mod inputs;
mod job;
mod log_keeper;
mod overtaken;
mod panics;
mod patience;
mod plan;
mod recovery;
mod restart;
mod run;
mod sink_stage;
mod site;
mod source_subtask;
mod splits;
mod stop;
mod subtask;
mod written;

pub use counts::Count;
pub use failure::{Failure, JobError};
pub use job::{Job, JobEnd, JobHandle, JobReport, Progress};
pub use plan::{Flow, Head};
pub use restart::RestartStrategy;
pub use sink_stage::SinkTail;
pub use site::{Launch, Site};

pub(crate) use erased::ErasedSink;
#[cfg(test)]
pub(crate) use erased::encode;
pub(crate) use inputs::Inputs;
pub(crate) use plan::{ErasedSource, Plan, position_of};
pub(crate) use source_subtask::SourceSubtask;
pub(crate) use splits::SplitClocks;
