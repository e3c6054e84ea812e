//! The outside systems of the world: what is prepared, what readers see, and the ledger of commits.

use std::collections::{BTreeMap, BTreeSet};

use cofferdam::{Epoch, SinkId, TransactionId};

/// The handle of a prepared transaction: how many records it has.
pub type Handle = usize;

/// What was done to a transaction, and by a process of which epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Made visible; with whether the log held a decision that names it.
    Committed { decided: bool },
    /// Undone; with whether the log held a decision that names it.
    Aborted { decided: bool },
    /// A commit found neither transaction nor evidence.
    Lost,
}

#[derive(Debug, Default)]
pub struct Outside {
    pub prepared: BTreeMap<TransactionId, Vec<u64>>,
    /// In order of commits. This is the ledger, too.
    pub visible: Vec<(TransactionId, Vec<u64>)>,
    pub aborted: BTreeSet<TransactionId>,
    pub deeds: Vec<(Epoch, TransactionId, Deed)>,
}

impl Outside {
    pub fn prepare(&mut self, id: TransactionId, records: Vec<u64>) -> Handle {
        let handle = records.len();
        self.prepared.insert(id, records);
        handle
    }

    pub fn is_committed(&self, id: &TransactionId) -> bool {
        self.visible.iter().any(|(visible, _)| visible == id)
    }

    /// Returns whether it is visible now; `false` means lost.
    pub fn commit(&mut self, by: Epoch, id: &TransactionId, decided: bool) -> bool {
        if self.is_committed(id) {
            return true;
        }
        let found = self.prepared.remove(id);
        let deed = match &found {
            Some(_) => Deed::Committed { decided },
            None => Deed::Lost,
        };
        self.deeds.push((by, id.clone(), deed));
        let is_found = found.is_some();
        self.visible
            .extend(found.map(|records| (id.clone(), records)));
        is_found
    }

    pub fn abort(&mut self, by: Epoch, id: &TransactionId, decided: bool) {
        self.prepared.remove(id);
        self.aborted.insert(id.clone());
        self.deeds.push((by, id.clone(), Deed::Aborted { decided }));
    }

    /// What `abort_stale` finds: of older epochs, and not named by the checkpoint.
    pub fn stale(
        &self,
        sink: &SinkId,
        epoch: Epoch,
        named: &[(TransactionId, Handle)],
    ) -> Vec<TransactionId> {
        self.prepared
            .keys()
            .filter(|id| id.sink == *sink && id.epoch < epoch)
            .filter(|id| named.iter().all(|(named, _)| named != *id))
            .cloned()
            .collect()
    }
}
