//! How many transactions are in doubt, from what the driver hears anyway.

use std::collections::BTreeMap;

use super::subtask::Snapshot;
use crate::identity::CheckpointId;
use crate::protocol::{CoordinatorEvent, ParticipantId, Vote};

/// By participant, of which checkpoints it has prepared transactions that are not known to be committed.
#[derive(Debug, Default)]
pub(super) struct InDoubtCount(BTreeMap<ParticipantId, Vec<CheckpointId>>);

impl InDoubtCount {
    /// Takes in a vote, which lists all that is prepared and not known to be committed, or a confirmation, which ends it.
    pub(super) fn on(&mut self, event: &CoordinatorEvent<Snapshot>) {
        match event {
            CoordinatorEvent::Voted {
                participant,
                vote: Vote::Commit(snapshot),
                ..
            } => {
                let prepared = snapshot.transactions.iter().map(|one| one.id.checkpoint);
                self.0.insert(*participant, prepared.collect());
            }
            CoordinatorEvent::Confirmed {
                checkpoint,
                participant,
            } => {
                if let Some(prepared) = self.0.get_mut(participant) {
                    prepared.retain(|prepared| prepared > checkpoint);
                }
            }
            _ => {}
        }
    }

    pub(super) fn total(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}
