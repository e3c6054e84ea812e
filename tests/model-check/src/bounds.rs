//! How large a world is explored, and what may go wrong in it.

use crate::Mutant;

/// The size of a model and the faults that may happen in it. Crashes, zombies and unanswered calls always may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// How many subtasks each sink has, of each process that may ever be started.
    pub parallelism: Vec<usize>,
    /// How many sinks there are.
    pub sinks: usize,
    /// The number of the last checkpoint that is begun.
    pub checkpoints: u64,
    /// How many writes to the log, in all, may be applied later than their process waits for an answer.
    pub late_writes: usize,
    /// Whether votes may be too late.
    pub time_outs: bool,
    /// Whether a sink may fail to prepare.
    pub refusals: bool,
    /// Whether runs are asked to stop.
    pub stops: bool,
    /// Whether an open transaction is there for others to see and to abort. If not, it is there once it is prepared.
    pub opens: bool,
    /// How many prepared transactions the outside systems may forget.
    pub expiries: usize,
    /// Whether the source votes, too; it has nothing to commit. If not, its vote is taken for granted.
    pub source: bool,
    /// Whether a confirmation may be heard twice.
    pub twice: bool,
    /// Whether a coordinator hears at once what its subtasks tell. That leaves out much, and saves much.
    pub prompt: bool,
    /// A sink and a checkpoint whose transactions have no records.
    pub empty: Option<(usize, u64)>,
    /// As [`CoordinatorSettings::tolerable_failures`](cofferdam::protocol::CoordinatorSettings::tolerable_failures).
    pub tolerable_failures: u32,
    /// As [`CoordinatorSettings::max_unconfirmed`](cofferdam::protocol::CoordinatorSettings::max_unconfirmed).
    pub max_unconfirmed: usize,
    /// As [`CoordinatorSettings::subsumes`](cofferdam::protocol::CoordinatorSettings::subsumes).
    pub subsumes: bool,
    /// As [`CoordinatorSettings::retained`](cofferdam::protocol::CoordinatorSettings::retained).
    pub retained: usize,
    /// The mistake that the drivers make.
    pub mutant: Option<Mutant>,
}

impl Bounds {
    /// Sinks of one subtask each, and no fault but crashes, zombies and unanswered calls.
    pub fn new(processes: usize, sinks: usize, checkpoints: u64) -> Self {
        Self {
            parallelism: vec![1; processes],
            sinks,
            checkpoints,
            late_writes: 0,
            time_outs: false,
            refusals: false,
            stops: false,
            opens: false,
            expiries: 0,
            source: false,
            twice: false,
            prompt: false,
            empty: None,
            tolerable_failures: 1,
            max_unconfirmed: 2,
            subsumes: true,
            retained: 1,
            mutant: None,
        }
    }

    /// The same world with drivers that make a mistake.
    #[must_use]
    pub fn with(self, mutant: Mutant) -> Self {
        Self {
            mutant: Some(mutant),
            ..self
        }
    }

    pub(crate) fn makes(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Into how many shares the records between two barriers are divided.
    pub(crate) fn shares(&self) -> usize {
        self.parallelism.iter().copied().max().unwrap_or(1)
    }

    /// The shares that a subtask writes for a checkpoint.
    pub(crate) fn shares_of(
        &self,
        (sink, subtask): (usize, usize),
        checkpoint: u64,
        parallelism: usize,
    ) -> Vec<usize> {
        if self.empty == Some((sink, checkpoint)) {
            return Vec::new();
        }
        (0..self.shares())
            .filter(|share| share % parallelism == subtask)
            .collect()
    }
}
