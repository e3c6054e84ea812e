//! A process of the job: the machines of core, and what their drivers hold.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use cofferdam::protocol::{
    Barrier, Coordinator, Decision, Participant, Settlement, SettlementAction,
};
use cofferdam::{CheckpointId, Epoch};

use crate::log::{Manifest, Record};
use crate::outside::{Transaction, sink_id};

/// Where a process is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Process {
    /// Not started.
    Waiting,
    /// In recovery.
    Recovering(Arc<Recovery>),
    /// Recovered: runs, or ends its run.
    Running(Arc<Run>),
    /// Ended, and how.
    Ended(End),
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// It crashed while it ran.
    Crashed,
    /// It crashed in its recovery.
    CrashedInRecovery,
    /// Everything that it decided is committed.
    Finished(Epoch),
    /// It found something lost that is decided.
    Lost,
    /// The record that it was to recover from is deleted: newer epochs have moved on.
    Outrun,
    /// The same, but no newer epoch is there.
    Unreadable,
}

/// A recovery: the settlement and its next step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Recovery {
    pub(crate) settlement: Settlement<Transaction>,
    pub(crate) action: SettlementAction<Transaction>,
    pub(crate) held: Held,
    pub(crate) newest: Option<Manifest>,
    pub(crate) kept: BTreeMap<CheckpointId, usize>,
    /// What the sink has listed as stale, and is about to abort.
    pub(crate) listed: Option<Vec<Transaction>>,
}

/// The log as its holder knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Held {
    pub(crate) epoch: Epoch,
    /// The number of the newest record, which is its own.
    pub(crate) newest: usize,
    /// The number of the newest decision.
    pub(crate) newest_decision: Option<usize>,
    /// The newest settled checkpoint.
    pub(crate) settled: Option<CheckpointId>,
}

impl Recovery {
    pub(crate) fn new(sinks: usize) -> Self {
        let (settlement, action) = Settlement::new((0..sinks).map(sink_id), Vec::new());
        Self {
            settlement,
            action,
            held: Held::default(),
            newest: None,
            kept: BTreeMap::new(),
            listed: None,
        }
    }
}

/// What a committer tells the coordinator, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Message {
    /// A vote; without what is prepared if it is to abort.
    Vote(CheckpointId, Option<Vec<Transaction>>),
    /// All up to this checkpoint is committed.
    Confirm(CheckpointId),
}

/// A sink subtask: the participant, and what its driver holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subtask {
    pub(crate) sink: usize,
    pub(crate) subtask: usize,
    pub(crate) machine: Participant<()>,
    pub(crate) inbox: VecDeque<Barrier>,
    pub(crate) committing: Option<CheckpointId>,
    pub(crate) told: VecDeque<Message>,
}

/// A run: the coordinator, its participants, and what their drivers hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Run {
    pub(crate) coordinator: Coordinator<Vec<Transaction>>,
    pub(crate) subtasks: Vec<Subtask>,
    pub(crate) parallelism: usize,
    pub(crate) held: Held,
    /// What it recovered from.
    pub(crate) from: Option<Manifest>,
    pub(crate) kept: BTreeMap<CheckpointId, usize>,
    pub(crate) begun: CheckpointId,
    pub(crate) stopping: bool,
    /// Votes of the source that the coordinator has not heard.
    pub(crate) source_told: VecDeque<CheckpointId>,
    /// The barrier that is voted on, as the clock of the driver sees it.
    pub(crate) under_way: Option<Barrier>,
    pub(crate) deciding: Option<(Barrier, Record)>,
    /// The last checkpoint, once it is to be recorded as settled.
    pub(crate) settling: Option<CheckpointId>,
    /// All that participants were ever to be told: any of it may reach them now, or again, or never.
    pub(crate) notified: Vec<Decision>,
    /// Decided checkpoints that are to be deleted.
    pub(crate) retiring: Vec<CheckpointId>,
    pub(crate) over: Option<Over>,
}

/// Why a coordinator gave up its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Over {
    /// To recover.
    RolledBack,
    /// This newer epoch holds the job.
    Fenced(Epoch),
}

impl Run {
    pub(crate) fn transaction(&self, subtask: usize, checkpoint: CheckpointId) -> Transaction {
        let Subtask { sink, subtask, .. } = self.subtasks[subtask];
        Transaction {
            sink,
            epoch: self.held.epoch,
            subtask,
            checkpoint,
        }
    }

    /// Whether its coordinator still works.
    pub(crate) fn is_on(&self) -> bool {
        self.over.is_none()
    }
}

impl Process {
    /// The epoch that it holds, or once held.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Recovering(recovery) => Some(recovery.held.epoch),
            Self::Running(run) => Some(run.held.epoch),
            Self::Waiting | Self::Ended(_) => None,
        }
    }

    /// Its run, if its coordinator still works.
    pub(crate) fn run(&self) -> Option<&Run> {
        match self {
            Self::Running(run) if run.is_on() => Some(run),
            _ => None,
        }
    }
}
