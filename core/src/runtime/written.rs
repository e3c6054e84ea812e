//! State parts of this run that no decided checkpoint names, from what the driver receives anyway.

use std::collections::{BTreeMap, BTreeSet};

use super::subtask::Snapshot;
use crate::checkpoint::Manifest;
use crate::identity::CheckpointId;
use crate::protocol::{CoordinatorEvent, Vote};

/// The objects written for checkpoints that are not decided.
#[derive(Debug, Default)]
pub(super) struct WrittenState(BTreeMap<CheckpointId, Vec<String>>);

impl WrittenState {
    /// Takes in a vote. It may come after its checkpoint was dropped.
    pub(super) fn on(&mut self, event: &CoordinatorEvent<Snapshot>) {
        let CoordinatorEvent::Voted {
            checkpoint,
            vote: Vote::Commit(snapshot),
            ..
        } = event
        else {
            return;
        };
        if !snapshot.state.is_empty() {
            let objects = snapshot.state.iter().map(|part| part.object.clone());
            self.0.entry(*checkpoint).or_default().extend(objects);
        }
    }

    /// Returns the objects of dropped checkpoints: those up to the decided one that it does not name.
    pub(super) fn dropped(&mut self, decided: &Manifest) -> Vec<String> {
        let later = self.0.split_off(&decided.checkpoint.next());
        let written = std::mem::replace(&mut self.0, later)
            .into_values()
            .flatten();
        let named: BTreeSet<&str> = (decided.state.iter())
            .map(|part| part.object.as_str())
            .collect();
        written
            .filter(|object| !named.contains(object.as_str()))
            .collect()
    }
}
