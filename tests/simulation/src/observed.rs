//! What is seen from outside, over all processes of a job.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use cofferdam::{CheckpointId, Epoch, SinkId, SplitId, TransactionId};
use cofferdam_conformance::{Event, History};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::rare::{Rare, Reached};
use crate::schedule::Op;

/// What a call is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A transaction.
    Transaction(TransactionId),
    /// An object of the store, or a prefix.
    Object(String),
    /// A split.
    Split(SplitId),
    /// Something else.
    Other,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transaction(id) => id.fmt(f),
            Self::Object(name) => name.fmt(f),
            Self::Split(split) => split.fmt(f),
            Self::Other => Ok(()),
        }
    }
}

/// One line of the log of all calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Virtual milliseconds since the start.
    pub at: u64,
    /// Which process.
    pub process: usize,
    /// Which operation; none for what concerns the whole process.
    pub op: Option<Op>,
    /// Its number in the process.
    pub call: u32,
    /// What about.
    pub subject: Subject,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            process,
            op,
            call,
            subject,
            what,
        } = self;
        match op {
            Some(op) => write!(
                f,
                "{at:>6}  process {process}  {op:?} {call}  {subject}  {what}"
            ),
            None => write!(f, "{at:>6}  process {process}  {what}"),
        }
    }
}

/// Everything that is known. Clones share it.
#[derive(Debug, Clone)]
pub struct Observed {
    facts: Arc<Mutex<Facts>>,
    start: Instant,
}

/// What is known, in full.
#[derive(Debug, Default)]
pub struct Facts {
    /// All calls.
    pub log: Vec<Entry>,
    /// What happened in each sink.
    pub histories: BTreeMap<SinkId, History>,
    /// Named by a decision that stands.
    pub decided: BTreeSet<TransactionId>,
    /// Checkpoints that are decided.
    pub checkpoints: BTreeSet<CheckpointId>,
    /// Shown to readers.
    pub committed: BTreeSet<TransactionId>,
    /// The newest checkpoint that the log records as settled, and the epoch that did.
    pub settled: Option<(CheckpointId, Epoch)>,
    /// What must not have happened.
    pub violations: Vec<String>,
    /// Rare events.
    pub reached: Reached,
    /// The newest process that has been started.
    pub newest: usize,
    /// How many processes in a row died during recovery.
    pub recoveries_failed: u32,
    /// Effects that are still to come.
    pub late: Vec<JoinHandle<()>>,
    /// How many times something visible changed.
    pub changes: u64,
}

impl Observed {
    /// Nothing is known, at the start of virtual time.
    #[must_use]
    pub fn new() -> Self {
        Self {
            facts: Arc::default(),
            start: Instant::now(),
        }
    }

    /// Looks at what is known, or adds to it.
    pub fn with<T>(&self, act: impl FnOnce(&mut Facts) -> T) -> T {
        act(&mut self.facts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Virtual milliseconds since the start.
    #[must_use]
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Writes a line of the log.
    pub fn log(&self, process: usize, op: Option<(Op, u32)>, subject: Subject, what: String) {
        let at = self.now();
        let entry = Entry {
            at,
            process,
            op: op.map(|(op, _)| op),
            call: op.map_or(0, |(_, call)| call),
            subject,
            what,
        };
        self.with(|facts| facts.log.push(entry));
    }

    /// Adds to the history of a sink.
    pub fn event(&self, sink: &SinkId, event: Event) {
        self.with(|facts| facts.histories.entry(sink.clone()).or_default().push(event));
    }

    /// Notes a violation if something does not hold.
    pub fn demand(&self, holds: bool, violation: impl FnOnce() -> String) {
        if !holds {
            self.with(|facts| facts.violations.push(violation()));
        }
    }

    /// A rare event has come to pass.
    pub fn reached(&self, rare: Rare) {
        self.with(|facts| facts.reached.count(rare));
    }
}

impl Default for Observed {
    fn default() -> Self {
        Self::new()
    }
}

impl Facts {
    /// Decided, and not shown yet.
    pub fn pending(&self) -> impl Iterator<Item = &TransactionId> {
        self.decided.difference(&self.committed)
    }

    /// A decision stands: of a checkpoint, with transactions.
    pub fn decide(&mut self, checkpoint: CheckpointId, named: Vec<TransactionId>) {
        for id in &named {
            if self.decided.contains(id) {
                self.reached.count(Rare::NamedAgain);
            } else if id.checkpoint < checkpoint && !self.checkpoints.contains(&id.checkpoint) {
                self.reached.count(Rare::Subsumed);
            }
        }
        self.checkpoints.insert(checkpoint);
        let mut by_sink: BTreeMap<SinkId, Vec<TransactionId>> = BTreeMap::new();
        for id in named {
            if self.decided.insert(id.clone()) {
                by_sink.entry(id.sink.clone()).or_default().push(id);
            }
        }
        for (sink, ids) in by_sink {
            self.histories
                .entry(sink)
                .or_default()
                .push(Event::Decided(ids));
        }
    }

    /// A checkpoint is recorded as settled. Everything decided up to it must be shown to readers.
    pub fn settle(&mut self, checkpoint: CheckpointId, epoch: Epoch) {
        let covered = self.pending().find(|id| id.checkpoint <= checkpoint);
        if let Some(id) = covered.cloned() {
            self.violations.push(format!(
                "{checkpoint} is recorded as settled before {id} is committed"
            ));
        }
        if self.settled.is_none_or(|(newest, _)| newest < checkpoint) {
            self.settled = Some((checkpoint, epoch));
        }
    }

    /// Returns whether a recovery of this epoch knows that this checkpoint is settled.
    #[must_use]
    pub fn is_settled(&self, newest: Option<CheckpointId>, by: Epoch) -> bool {
        self.settled
            .is_some_and(|(settled, epoch)| newest == Some(settled) && epoch < by)
    }

    /// A transaction was aborted, by whatever call.
    pub fn abort(&mut self, id: &TransactionId, by: &str) {
        if self.decided.contains(id) {
            self.violations
                .push(format!("{id} is decided, and aborted by {by}"));
        }
        let history = self.histories.entry(id.sink.clone()).or_default();
        history.push(Event::DecidedAgainst(vec![id.clone()]));
    }

    /// A process has died.
    pub fn died(&mut self, in_recovery: bool) {
        let pending: Vec<&TransactionId> = self.decided.difference(&self.committed).collect();
        let beside = |id: &&TransactionId| {
            let other =
                |done: &TransactionId| done.checkpoint == id.checkpoint && done.sink != id.sink;
            self.committed.iter().any(other)
        };
        let between = pending.iter().any(beside);
        if !pending.is_empty() {
            self.reached.count(Rare::CrashBeforeCommit);
        }
        if between {
            self.reached.count(Rare::CrashBetweenSinks);
        }
        self.recoveries_failed = if in_recovery {
            self.recoveries_failed + 1
        } else {
            0
        };
        if self.recoveries_failed == 2 {
            self.reached.count(Rare::CrashInRecoveryTwice);
        }
    }
}
