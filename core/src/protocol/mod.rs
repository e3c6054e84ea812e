//! The protocol, as pure state machines: events in, actions out; no I/O, no clock, no randomness.
//!
//! The runtime drives these very machines, and so does the model check: there is no second implementation.
//!
//! | machine | decides |
//! | --- | --- |
//! | [`Coordinator`] | when a barrier goes out, when a checkpoint is decided, dropped or rolled back |
//! | [`Participant`] | what a sink subtask votes, when it commits and what it confirms |
//! | [`Alignment`] | which inputs of a subtask are held back until the barrier has come on all |
//! | [`Settlement`] | the order of recovery: epoch, newest decision, settle, abort what is stale, record, begin |

mod alignment;
mod coordinator;
mod participant;
mod settlement;

pub use alignment::{Alignment, AlignmentError};
pub use coordinator::{Coordinator, CoordinatorAction, CoordinatorEvent, CoordinatorSettings};
pub use participant::{Participant, ParticipantAction, ParticipantEvent};
pub use settlement::{NewestCheckpoint, Settlement, SettlementAction, SettlementEvent};

use crate::identity::CheckpointId;

/// A participant's answer to a barrier.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vote<S> {
    /// It has prepared, and can commit after any crash; with what the checkpoint has to keep of it.
    Commit(S),
    /// It can't prepare, for this reason.
    Abort(String),
}

/// The outcome of a checkpoint.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It is in the log: everything prepared up to it is to be committed.
    Commit(CheckpointId),
    /// It will never be in the log: it and what is later is to be aborted.
    Abort(CheckpointId),
}

/// A barrier: it divides the records of a checkpoint from those of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Barrier {
    /// The checkpoint that it ends.
    pub checkpoint: CheckpointId,
    /// Whether it is the last of this run: nothing is read after it.
    pub last: bool,
}

/// The number of a participant of a checkpoint, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParticipantId(pub usize);
