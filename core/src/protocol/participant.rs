//! A sink subtask's part in checkpoints.

use std::collections::BTreeMap;

use super::{Decision, Vote};
use crate::identity::CheckpointId;

/// What a participant is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParticipantEvent<H> {
    /// The transaction of a checkpoint is prepared; without handle if it is empty.
    Prepared(CheckpointId, Option<H>),
    /// The transaction of a checkpoint can't be prepared, and is gone.
    NotPrepared(CheckpointId, String),
    /// A decision. May come late, twice, out of order, or never.
    Decision(Decision),
    /// The transaction of this checkpoint is committed, now or before.
    Committed(CheckpointId),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParticipantAction<H> {
    /// Answer the barrier. A vote to commit lists all that is prepared and not known to be committed, oldest first.
    Vote(CheckpointId, Vote<Vec<(CheckpointId, H)>>),
    /// Commit; if it is not possible yet, again, until it is.
    Commit(CheckpointId, H),
    /// Abort: decided against.
    Abort(CheckpointId, H),
    /// Tell the coordinator that all up to this decided checkpoint is committed.
    Confirm(CheckpointId),
}

/// A sink subtask: remembers what it has prepared until that is known to be committed.
///
/// One commit is under way at a time, in the order of checkpoints. The handle (`H`) is opaque.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Participant<H> {
    /// Prepared, and not known to be committed or aborted.
    pending: BTreeMap<CheckpointId, H>,
    committing: Option<CheckpointId>,
    decided: Option<CheckpointId>,
    confirmed: Option<CheckpointId>,
    /// Once a transaction is gone, no later checkpoint can be complete: it would lack its records.
    failed: Option<String>,
}

impl<H> Default for Participant<H> {
    fn default() -> Self {
        Self {
            pending: BTreeMap::new(),
            committing: None,
            decided: None,
            confirmed: None,
            failed: None,
        }
    }
}

impl<H: Clone> Participant<H> {
    /// A participant with nothing prepared.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an event, returns what is to be done, in order.
    pub fn on(&mut self, event: ParticipantEvent<H>) -> Vec<ParticipantAction<H>> {
        match event {
            ParticipantEvent::Prepared(checkpoint, handle) => {
                if let Some(handle) = handle {
                    self.pending.insert(checkpoint, handle);
                }
                vec![ParticipantAction::Vote(checkpoint, self.vote())]
            }
            ParticipantEvent::NotPrepared(checkpoint, reason) => {
                self.failed = Some(reason);
                vec![ParticipantAction::Vote(checkpoint, self.vote())]
            }
            ParticipantEvent::Decision(Decision::Commit(checkpoint)) => {
                self.decided = self.decided.max(Some(checkpoint));
                self.go_on()
            }
            ParticipantEvent::Decision(Decision::Abort(checkpoint)) => self.abort(checkpoint),
            ParticipantEvent::Committed(checkpoint) => {
                self.pending.remove(&checkpoint);
                if self.committing == Some(checkpoint) {
                    self.committing = None;
                }
                self.go_on()
            }
        }
    }

    fn vote(&self) -> Vote<Vec<(CheckpointId, H)>> {
        match &self.failed {
            Some(reason) => Vote::Abort(reason.clone()),
            None => Vote::Commit(
                self.pending
                    .iter()
                    .map(|(checkpoint, handle)| (*checkpoint, handle.clone()))
                    .collect(),
            ),
        }
    }

    fn go_on(&mut self) -> Vec<ParticipantAction<H>> {
        let (None, Some(decided)) = (self.committing, self.decided) else {
            return Vec::new();
        };
        if let Some((checkpoint, handle)) = self.pending.range(..=decided).next() {
            self.committing = Some(*checkpoint);
            return vec![ParticipantAction::Commit(*checkpoint, handle.clone())];
        }
        if self.confirmed >= Some(decided) {
            return Vec::new();
        }
        self.confirmed = Some(decided);
        vec![ParticipantAction::Confirm(decided)]
    }

    fn abort(&mut self, checkpoint: CheckpointId) -> Vec<ParticipantAction<H>> {
        // A decision to commit is final; what it covers is not undone by anything that comes later.
        let undecided = |prepared: &CheckpointId| {
            *prepared >= checkpoint && self.decided.is_none_or(|decided| *prepared > decided)
        };
        let aborted: Vec<CheckpointId> = self.pending.keys().copied().filter(undecided).collect();
        self.failed
            .get_or_insert_with(|| format!("checkpoint {checkpoint} was aborted"));
        aborted
            .into_iter()
            .filter_map(|checkpoint| Some((checkpoint, self.pending.remove(&checkpoint)?)))
            .map(|(checkpoint, handle)| ParticipantAction::Abort(checkpoint, handle))
            .collect()
    }
}
