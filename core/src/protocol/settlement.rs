//! The order of recovery.

use std::collections::VecDeque;

use crate::identity::{CheckpointId, Epoch, SinkId, TransactionId};

/// The newest decided checkpoint, as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestCheckpoint<H> {
    /// Its number.
    pub checkpoint: CheckpointId,
    /// The transactions that it names as prepared, oldest first.
    pub prepared: Vec<(TransactionId, H)>,
    /// True if the log records that all of these are settled: committed, or lost with an operator's consent.
    pub settled: bool,
    /// True if all input had ended, so that there is nothing to resume.
    pub complete: bool,
}

/// Input of a [`Settlement`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettlementEvent<H> {
    /// The next epoch is taken.
    EpochTaken(Epoch),
    /// The newest decided checkpoint; `None` if none was ever decided.
    Newest(Option<NewestCheckpoint<H>>),
    /// The transaction is committed, now or before.
    Committed(TransactionId),
    /// The transaction is proven lost.
    Lost(TransactionId, String),
    /// What older epochs left of this sink is aborted.
    StaleAborted(SinkId),
    /// The log records that the checkpoint is settled.
    Recorded,
}

/// What is to be done next. A step that gets no answer is done again, for as long as it takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SettlementAction<H> {
    /// Take the next epoch in the checkpoint log.
    TakeEpoch,
    /// Read the newest decided checkpoint.
    ReadNewest,
    /// Commit what the decided checkpoint names.
    Commit(TransactionId, H),
    /// Abort what epochs older than this one left, except for these.
    AbortStale {
        /// Which sink.
        sink: SinkId,
        /// The new epoch.
        epoch: Epoch,
        /// What the decided checkpoint names of this sink.
        decided: Vec<(TransactionId, H)>,
    },
    /// Record in the log that the newest decided checkpoint is settled.
    RecordSettled {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The transactions whose loss was accepted.
        accepted: Vec<TransactionId>,
    },
    /// Restore state and begin, from this checkpoint or from the start.
    Begin(Option<CheckpointId>),
    /// A decided transaction is lost: stop, name it.
    StopLost {
        /// The checkpoint that names it.
        checkpoint: CheckpointId,
        /// The transaction.
        transaction: TransactionId,
        /// Its handle.
        handle: H,
        /// Why it is proven lost.
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Step {
    Epoch,
    Newest,
    Settling,
    Aborting,
    Recording,
    Over,
}

/// Recovery: epoch → newest decision → settle → abort what is stale → record → begin. Never in another order, one step at
/// a time.
///
/// A checkpoint that the log records as settled is not settled again: its evidence may have expired in the outside
/// system since.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Settlement<H> {
    step: Step,
    epoch: Epoch,
    checkpoint: Option<CheckpointId>,
    decided: Vec<(TransactionId, H)>,
    unsettled: VecDeque<(TransactionId, H)>,
    sinks: VecDeque<SinkId>,
    accepted: Vec<TransactionId>,
    /// Lost, and accepted.
    given_up: Vec<TransactionId>,
    /// True if the log has to record that the checkpoint is settled.
    unrecorded: bool,
}

impl<H: Clone> Settlement<H> {
    /// For a job with these sinks. Losses in `accepted` do not stop it: an operator has accepted them.
    pub fn new(
        sinks: impl IntoIterator<Item = SinkId>,
        accepted: Vec<TransactionId>,
    ) -> (Self, SettlementAction<H>) {
        let settlement = Self {
            step: Step::Epoch,
            epoch: Epoch(0),
            checkpoint: None,
            decided: Vec::new(),
            unsettled: VecDeque::new(),
            sinks: sinks.into_iter().collect(),
            accepted,
            given_up: Vec::new(),
            unrecorded: false,
        };
        (settlement, SettlementAction::TakeEpoch)
    }

    /// Takes the answer to the last action, returns the next; `None` if the event answers another action, or nothing is
    /// left to do.
    pub fn on(&mut self, event: SettlementEvent<H>) -> Option<SettlementAction<H>> {
        match (&self.step, event) {
            (Step::Epoch, SettlementEvent::EpochTaken(epoch)) => {
                self.epoch = epoch;
                self.step = Step::Newest;
                Some(SettlementAction::ReadNewest)
            }
            (Step::Newest, SettlementEvent::Newest(newest)) => {
                if let Some(newest) = newest {
                    self.checkpoint = Some(newest.checkpoint);
                    if !newest.settled {
                        self.unrecorded = newest.complete || !newest.prepared.is_empty();
                        self.unsettled = newest.prepared.iter().cloned().collect();
                        self.decided = newest.prepared;
                    }
                }
                self.step = Step::Settling;
                self.settle()
            }
            (Step::Settling, SettlementEvent::Committed(transaction))
                if self.is_next(&transaction) =>
            {
                self.unsettled.pop_front();
                self.settle()
            }
            (Step::Settling, SettlementEvent::Lost(transaction, reason))
                if self.is_next(&transaction) =>
            {
                let (transaction, handle) = self.unsettled.pop_front()?;
                if self.accepted.contains(&transaction) {
                    // Nothing spares what may be left of it any more.
                    self.decided.retain(|(id, _)| *id != transaction);
                    self.given_up.push(transaction);
                    return self.settle();
                }
                self.step = Step::Over;
                let checkpoint = self.checkpoint.unwrap_or_default();
                Some(SettlementAction::StopLost {
                    checkpoint,
                    transaction,
                    handle,
                    reason,
                })
            }
            (Step::Aborting, SettlementEvent::StaleAborted(sink))
                if self.sinks.front() == Some(&sink) =>
            {
                self.sinks.pop_front();
                self.abort_stale()
            }
            (Step::Recording, SettlementEvent::Recorded) => self.begin(),
            _ => None,
        }
    }

    fn is_next(&self, transaction: &TransactionId) -> bool {
        self.unsettled
            .front()
            .is_some_and(|(next, _)| next == transaction)
    }

    fn settle(&mut self) -> Option<SettlementAction<H>> {
        if let Some((transaction, handle)) = self.unsettled.front() {
            return Some(SettlementAction::Commit(
                transaction.clone(),
                handle.clone(),
            ));
        }
        self.step = Step::Aborting;
        self.abort_stale()
    }

    fn abort_stale(&mut self) -> Option<SettlementAction<H>> {
        if let Some(sink) = self.sinks.front() {
            let of_sink = |(id, _): &&(TransactionId, H)| id.sink == *sink;
            return Some(SettlementAction::AbortStale {
                sink: sink.clone(),
                epoch: self.epoch,
                decided: self.decided.iter().filter(of_sink).cloned().collect(),
            });
        }
        match self.checkpoint.filter(|_| self.unrecorded) {
            Some(checkpoint) => {
                self.step = Step::Recording;
                Some(SettlementAction::RecordSettled {
                    checkpoint,
                    accepted: self.given_up.clone(),
                })
            }
            None => self.begin(),
        }
    }

    fn begin(&mut self) -> Option<SettlementAction<H>> {
        self.step = Step::Over;
        Some(SettlementAction::Begin(self.checkpoint))
    }
}
