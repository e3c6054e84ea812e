//! The outside systems: what is open, prepared, visible or gone.

use std::collections::BTreeMap;
use std::fmt;

use cofferdam::{CheckpointId, Epoch, IdentityError, JobId, SinkId, SubtaskIndex, TransactionId};

/// A [`TransactionId`] without its names: a state holds many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transaction {
    pub(crate) sink: usize,
    pub(crate) epoch: Epoch,
    pub(crate) subtask: usize,
    pub(crate) checkpoint: CheckpointId,
}

impl Transaction {
    /// The id that the machines are given.
    pub(crate) fn id(self) -> TransactionId {
        TransactionId {
            job: JobId::new("orders").expect("a name"),
            sink: sink_id(self.sink),
            epoch: self.epoch,
            subtask: SubtaskIndex(u32::try_from(self.subtask).expect("few subtasks")),
            checkpoint: self.checkpoint,
        }
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sink,
            epoch,
            subtask,
            checkpoint,
        } = self;
        write!(f, "sink {sink}/{epoch}/{subtask}/{checkpoint}")
    }
}

pub(crate) fn sink_id(sink: usize) -> SinkId {
    let name: Result<SinkId, IdentityError> = SinkId::new(sink.to_string());
    name.expect("a name")
}

pub(crate) fn sink_number(sink: &SinkId) -> usize {
    sink.as_str().parse().expect("made by sink_id")
}

/// What has become of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Begun, and known outside.
    Open,
    /// Durable, invisible.
    Prepared,
    /// Visible. This is the evidence, too.
    Committed,
    /// Undone.
    Aborted,
    /// Prepared once, and forgotten by the outside system.
    Expired,
}

impl Fate {
    pub(crate) fn in_doubt(self) -> bool {
        matches!(self, Self::Open | Self::Prepared)
    }
}

/// A transaction in the outside system.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot {
    pub(crate) fate: Fate,
    /// Which shares of the records before its barrier are in it.
    pub(crate) shares: Vec<usize>,
    /// The newest epoch in the log when it came to be in doubt: newer than its own if a zombie wrote it.
    pub(crate) beside: Epoch,
}

/// What a commit found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Transaction,
    Evidence,
    Nothing,
}

/// All outside systems.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Outside {
    pub(crate) slots: BTreeMap<Transaction, Slot>,
    /// Whether an older epoch has undone what belongs to a newer one.
    pub(crate) trespassed: bool,
    /// Whether an abort was ever asked of something committed.
    pub(crate) abort_refused: bool,
}

impl Outside {
    pub(crate) fn open(&mut self, id: Transaction, shares: Vec<usize>, beside: Epoch) {
        self.slots.insert(
            id,
            Slot {
                fate: Fate::Open,
                shares,
                beside,
            },
        );
    }

    /// Whether it is prepared now; not if a newer epoch has undone it before.
    pub(crate) fn prepare(&mut self, id: Transaction, shares: Vec<usize>, beside: Epoch) -> bool {
        match self.slots.get_mut(&id) {
            Some(slot) if slot.fate == Fate::Open => slot.fate = Fate::Prepared,
            Some(_) => return false,
            None => {
                self.open(id, shares, beside);
                return self.prepare(id, Vec::new(), beside);
            }
        }
        true
    }

    pub(crate) fn commit(&mut self, id: Transaction) -> Found {
        match self.slots.get_mut(&id) {
            Some(slot) if slot.fate == Fate::Prepared => {
                slot.fate = Fate::Committed;
                Found::Transaction
            }
            Some(slot) if slot.fate == Fate::Committed => Found::Evidence,
            _ => Found::Nothing,
        }
    }

    pub(crate) fn abort(&mut self, by: Epoch, id: Transaction) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        self.abort_refused |= slot.fate == Fate::Committed;
        if slot.fate.in_doubt() {
            slot.fate = Fate::Aborted;
            self.trespassed |= by < id.epoch;
        }
    }

    pub(crate) fn expire(&mut self, id: Transaction) {
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.fate = Fate::Expired;
        }
    }

    pub(crate) fn fate(&self, id: Transaction) -> Option<Fate> {
        self.slots.get(&id).map(|slot| slot.fate)
    }

    pub(crate) fn with_fate(&self, fate: Fate) -> impl Iterator<Item = (Transaction, &Slot)> {
        self.slots
            .iter()
            .filter(move |(_, slot)| slot.fate == fate)
            .map(|(id, slot)| (*id, slot))
    }

    pub(crate) fn in_doubt(&self) -> impl Iterator<Item = (Transaction, &Slot)> {
        self.slots
            .iter()
            .filter(|(_, slot)| slot.fate.in_doubt())
            .map(|(id, slot)| (*id, slot))
    }
}
