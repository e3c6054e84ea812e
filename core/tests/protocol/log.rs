//! The checkpoint log of the world: numbered records, created if absent.

use cofferdam::{CheckpointId, Create, Epoch, TransactionId};

use crate::outside::Handle;

/// What a decision holds.
#[derive(Debug, Clone)]
pub struct Decided {
    pub checkpoint: CheckpointId,
    pub position: u64,
    pub prepared: Vec<(TransactionId, Handle)>,
}

#[derive(Debug, Clone)]
pub struct Record {
    pub epoch: Epoch,
    pub nonce: u64,
    /// `None` for a takeover.
    pub decided: Option<Decided>,
    /// Deleted by retention. Its number stays taken here: numbers that come free are tested with the real log.
    pub retired: bool,
}

#[derive(Debug, Default)]
pub struct Log {
    pub records: Vec<Record>,
}

impl Log {
    pub fn create(&mut self, number: usize, record: &Record) -> Create {
        if number < self.records.len() {
            return Create::Exists;
        }
        assert_eq!(number, self.records.len(), "a number was left out");
        self.records.push(record.clone());
        Create::Created
    }

    pub fn epoch(&self) -> Epoch {
        self.records.last().map_or(Epoch(0), |newest| newest.epoch)
    }

    /// All decisions, retired ones too, oldest first.
    pub fn decisions(&self) -> impl DoubleEndedIterator<Item = &Decided> {
        self.records
            .iter()
            .filter_map(|record| record.decided.as_ref())
    }

    /// Decisions below a record number that are still there, oldest first.
    pub fn kept(&self, below: usize) -> impl DoubleEndedIterator<Item = &Decided> {
        self.records[..below]
            .iter()
            .filter(|record| !record.retired)
            .filter_map(|record| record.decided.as_ref())
    }

    /// The newest decision below a record number. The inner `None`: it was deleted since.
    pub fn newest_decision(&self, below: usize) -> Option<Option<&Decided>> {
        let newest = self.records[..below]
            .iter()
            .rfind(|record| record.decided.is_some())?;
        Some(newest.decided.as_ref().filter(|_| !newest.retired))
    }

    pub fn names(&self, id: &TransactionId) -> bool {
        self.decisions()
            .any(|decided| decided.prepared.iter().any(|(named, _)| named == id))
    }

    pub fn retire(&mut self, checkpoint: CheckpointId) -> Option<Decided> {
        let record = self.records.iter_mut().find(|record| {
            record
                .decided
                .as_ref()
                .is_some_and(|decided| decided.checkpoint == checkpoint)
        })?;
        record.retired = true;
        record.decided.clone()
    }
}
