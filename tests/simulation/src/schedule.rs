//! A schedule: what a job works on, and all that goes wrong, laid down before it runs.
//!
//! Faults are data, not coin flips during the run. So a schedule can be kept as a file, means the same after the code
//! has changed, and can be made smaller fault by fault.

use serde::{Deserialize, Serialize};

use crate::flaw::Flaw;

/// Everything that determines a simulation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// From which records, delays and moments of reading follow.
    pub seed: u64,
    /// What is demanded.
    pub mode: Mode,
    /// What the job works on.
    pub workload: Workload,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// What is built wrong on purpose, to see whether it is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flaw: Option<Flaw>,
}

/// What is demanded of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Nothing wrong is ever seen. Faults may be such that the job never ends.
    Safety,
    /// That, and faults end: then the job completes within bounded time, everything is visible, and nothing in doubt.
    Liveness,
}

/// What a job works on, and how it is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// From sources to sinks.
    pub shape: Shape,
    /// How many splits the source has.
    pub splits: usize,
    /// How many records each split has.
    pub records: usize,
    /// How many records come at once, at most.
    pub batch: usize,
    /// Whether splits are idle at times.
    pub idle: bool,
    /// The longest time between two batches of a split's reader, in virtual milliseconds.
    pub pause: u64,
    /// The subtasks of the first start, the second, and so on; the last holds for all that follow.
    pub parallelism: Vec<u32>,
    /// In virtual milliseconds.
    pub checkpoint_interval: u64,
    /// In virtual milliseconds.
    pub checkpoint_timeout: u64,
    /// How many decided checkpoints are kept.
    pub retained: usize,
    /// How many prepared transactions a subtask may hold, if that is limited.
    pub max_prepared: Option<usize>,
    /// True if a transaction of a subtask begins only after the one before it is committed.
    #[serde(default)]
    pub ordered: bool,
    /// How often a process starts its job again by itself.
    pub restarts: u32,
    /// The longest delay before and after the effect of each call, in virtual milliseconds.
    pub delay: u64,
    /// A reader looks at each change of this number.
    pub look_every: u64,
}

/// From sources to sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// One source, one sink.
    Plain,
    /// Two sources, each with a sink of its own.
    Twice,
    /// Windows, without a place for late records.
    Windows {
        /// How many windows cover a record.
        covering: u32,
    },
    /// Windows, and a sink for late records.
    Late {
        /// How many windows cover a record.
        covering: u32,
    },
    /// Windows over the results of windows, and a sink for records that are late for the first.
    Chained,
}

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// In the process of this number, from 0.
    pub process: usize,
    /// When.
    pub moment: Moment,
    /// What.
    pub effect: Effect,
}

/// When something goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// At calls of one operation, counted from 1 in each process.
    Call {
        /// The operation; any, if none is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<Op>,
        /// The first call.
        from: u32,
        /// The last call.
        to: u32,
        /// Before or after its effect.
        when: When,
    },
    /// So many virtual milliseconds after the process was started.
    Time(u64),
}

/// Before the effect of a call, or after it: then only its answer is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// The call has no effect.
    Before,
    /// It has, and the caller does not learn it.
    After,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The process dies.
    Crash,
    /// The process stands still for so many virtual milliseconds, while a successor is started.
    Freeze(u64),
    /// The caller gets an error that says that nothing is known.
    Unknown,
    /// The caller gets an error that says that trying again does not help.
    Refused,
    /// The caller gets an error, and the effect comes so many virtual milliseconds later, whatever becomes of the
    /// process.
    Later(u64),
    /// The process dies, and the effect of its last request comes so many virtual milliseconds later.
    CrashLater(u64),
    /// The request arrives twice; the caller gets the second answer.
    Twice,
    /// The answer takes so many virtual milliseconds.
    Delay(u64),
    /// The connector panics.
    Panic,
    /// The job is asked to stop. Only at a time.
    Stop,
    /// The job is started a second time, while this process runs. Only at a time.
    StartTwice,
}

/// All that a job asks of what is around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "they are the operations of the contracts")]
pub enum Op {
    Begin,
    Write,
    PreCommit,
    Commit,
    Abort,
    AbortStale,
    CreateState,
    CreateDecision,
    CreateTakeover,
    CreateSettled,
    Read,
    List,
    Delete,
    Splits,
    Open,
    Next,
    Notify,
}

impl Op {
    /// All operations.
    pub const ALL: [Self; 17] = [
        Self::Begin,
        Self::Write,
        Self::PreCommit,
        Self::Commit,
        Self::Abort,
        Self::AbortStale,
        Self::CreateState,
        Self::CreateDecision,
        Self::CreateTakeover,
        Self::CreateSettled,
        Self::Read,
        Self::List,
        Self::Delete,
        Self::Splits,
        Self::Open,
        Self::Next,
        Self::Notify,
    ];

    /// Whether it is asked of the checkpoint store.
    #[must_use]
    pub fn is_of_the_store(self) -> bool {
        matches!(
            self,
            Self::CreateState
                | Self::CreateDecision
                | Self::CreateTakeover
                | Self::CreateSettled
                | Self::Read
                | Self::List
                | Self::Delete
        )
    }

    /// Whether its effect can come later than its answer, or twice, by itself: a request over a wire.
    #[must_use]
    pub fn is_request(self) -> bool {
        matches!(
            self,
            Self::Commit
                | Self::AbortStale
                | Self::CreateState
                | Self::CreateDecision
                | Self::CreateTakeover
                | Self::CreateSettled
                | Self::Delete
                | Self::Notify
        )
    }
}

impl Schedule {
    /// As text that [`Schedule::parse`] reads.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data can be written")
    }

    /// Reads what [`Schedule::text`] wrote.
    ///
    /// # Errors
    /// If it is no schedule.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The number of subtasks in the process of this number.
    #[must_use]
    pub fn parallelism(&self, process: usize) -> u32 {
        let all = &self.workload.parallelism;
        all.get(process).or(all.last()).copied().unwrap_or(1)
    }
}
