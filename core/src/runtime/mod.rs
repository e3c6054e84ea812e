//! Running pipelines: subtasks, commits, recovery, restarts.

mod attempt;
mod backoff;
mod call;
mod committer;
mod counts;
mod erased;
mod failure;
mod flush;
mod handle;
mod in_doubt;
mod inputs;
mod job;
mod late_sweep;
mod left_out;
mod log_keeper;
mod order;
mod panics;
mod patience;
mod patient_wait;
mod plan;
mod progress;
mod recovery;
mod restart;
mod resume;
mod run;
mod settings;
mod sink_stage;
mod site;
mod source_subtask;
mod splits;
mod standby;
mod stop;
mod subtask;
mod sweep;
mod tear_down;
mod verdict;
mod waits;
mod written;

pub use counts::Count;
pub use failure::{Failure, JobError};
pub use handle::JobHandle;
pub use job::{Job, JobEnd, JobReport};
pub use plan::{Flow, Head};
pub use progress::{JobState, Progress};
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
