//! The transactions that are in doubt, from what the driver hears anyway.

use std::collections::BTreeMap;
use std::fmt;

use tokio::time::Instant;

use super::subtask::Snapshot;
use crate::identity::TransactionId;
use crate::protocol::{CoordinatorEvent, ParticipantId, Vote};

/// Number of transactions that a message names.
const NAMED: usize = 4;

/// By participant, the prepared transactions that are not known to be committed, each with when it was first heard of.
#[derive(Debug, Default)]
pub(super) struct InDoubtList(BTreeMap<ParticipantId, Vec<(TransactionId, Instant)>>);

impl InDoubtList {
    /// Takes in a vote, which lists all that is prepared and not known to be committed, or a confirmation, which ends it.
    pub(super) fn on(&mut self, event: &CoordinatorEvent<Snapshot>) {
        match event {
            CoordinatorEvent::Voted {
                participant,
                vote: Vote::Commit(snapshot),
                ..
            } => {
                let before = self.0.remove(participant).unwrap_or_default();
                let prepared = snapshot.transactions.iter().map(|one| {
                    let known = before.iter().find(|(id, _)| *id == one.id);
                    let since = known.map_or_else(Instant::now, |(_, since)| *since);
                    (one.id.clone(), since)
                });
                self.0.insert(*participant, prepared.collect());
            }
            CoordinatorEvent::Confirmed {
                checkpoint,
                participant,
            } => {
                if let Some(prepared) = self.0.get_mut(participant) {
                    prepared.retain(|(id, _)| id.checkpoint > *checkpoint);
                }
            }
            _ => {}
        }
    }

    pub(super) fn total(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

/// Names the oldest, with their ages.
impl fmt::Display for InDoubtList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: Vec<_> = self.0.values().flatten().collect();
        all.sort_by_key(|(_, since)| *since);
        for (index, (id, since)) in all.iter().take(NAMED).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            let seconds = since.elapsed().as_secs();
            write!(f, "{comma}{id} ({seconds} s)")?;
        }
        match all.len() {
            0 => f.write_str("none"),
            all if all > NAMED => write!(f, " and {} more", all - NAMED),
            _ => Ok(()),
        }
    }
}
