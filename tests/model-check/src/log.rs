//! The checkpoint log: numbered records, created if absent; and, beside it, all that was ever decided.

use std::collections::BTreeMap;

use cofferdam::{CheckpointId, Create, Epoch};

use crate::outside::Transaction;

/// What a decision holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Manifest {
    pub(crate) checkpoint: CheckpointId,
    pub(crate) prepared: Vec<Transaction>,
}

/// A record of the log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    pub(crate) epoch: Epoch,
    /// The number of the process that wrote it: its nonce.
    pub(crate) owner: usize,
    /// The number of the newest decision below it.
    pub(crate) previous_decision: Option<usize>,
    /// The newest settled checkpoint.
    pub(crate) settled: Option<CheckpointId>,
    /// `None` for a takeover, and for a record that only says what is settled.
    pub(crate) decided: Option<Manifest>,
}

/// A decision that counts, kept after its record is deleted: the rules look at it, no driver does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decided {
    pub(crate) epoch: Epoch,
    pub(crate) manifest: Manifest,
    pub(crate) retired: bool,
}

/// The log of the job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Log {
    pub(crate) records: BTreeMap<usize, Record>,
    pub(crate) history: Vec<Decided>,
    /// Whether an older epoch has deleted what belongs to a newer one.
    pub(crate) trespassed: bool,
}

impl Log {
    /// Creates a record if its number is free. It counts if none of a higher number is there.
    pub(crate) fn create(&mut self, number: usize, record: &Record) -> Create {
        if self.records.contains_key(&number) {
            return Create::Exists;
        }
        let counts = number > self.newest();
        self.records.insert(number, record.clone());
        if let (true, Some(manifest)) = (counts, &record.decided) {
            self.history.push(Decided {
                epoch: record.epoch,
                manifest: manifest.clone(),
                retired: false,
            });
        }
        Create::Created
    }

    /// The number of the newest record; 0 if there is none.
    pub(crate) fn newest(&self) -> usize {
        self.records.keys().next_back().copied().unwrap_or(0)
    }

    pub(crate) fn epoch(&self) -> Epoch {
        let newest = self.records.values().next_back();
        newest.map_or(Epoch(0), |newest| newest.epoch)
    }

    /// The newest settled checkpoint, as the newest record says.
    pub(crate) fn settled(&self) -> Option<CheckpointId> {
        let newest = self.records.values().next_back();
        newest.and_then(|newest| newest.settled)
    }

    /// The number of the newest decision that counts, by the chain from the newest record.
    pub(crate) fn newest_decision(&self) -> Option<usize> {
        let (number, newest) = self.records.iter().next_back()?;
        match newest.decided {
            Some(_) => Some(*number),
            None => newest.previous_decision,
        }
    }

    /// Follows the chain of decisions from this number. The inner `None`: the first is not there.
    pub(crate) fn chain(&self, from: Option<usize>) -> Option<Vec<(usize, &Manifest)>> {
        let mut chain = Vec::new();
        let mut next = from;
        while let Some(number) = next {
            let record = self.records.get(&number);
            match record.and_then(|record| Some((record, record.decided.as_ref()?))) {
                Some((record, manifest)) => {
                    chain.push((number, manifest));
                    next = record.previous_decision;
                }
                None if chain.is_empty() => return None,
                None => next = None,
            }
        }
        Some(chain)
    }

    pub(crate) fn delete(&mut self, by: Epoch, number: usize) {
        let Some(record) = self.records.remove(&number) else {
            return;
        };
        self.trespassed |= by < record.epoch;
        let Some(manifest) = record.decided else {
            return;
        };
        let of_this = self.history.iter_mut().filter(|decided| {
            decided.epoch == record.epoch && decided.manifest.checkpoint == manifest.checkpoint
        });
        of_this.for_each(|decided| decided.retired = true);
    }

    /// Whether any decision that counts names it.
    pub(crate) fn names(&self, id: Transaction) -> bool {
        let mut manifests = self.history.iter().map(|decided| &decided.manifest);
        manifests.any(|manifest| manifest.prepared.contains(&id))
    }
}
