//! A source and a sink in memory: the reference for whoever writes their own, and handy in tests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::capabilities::{Capabilities, Evidence};
use crate::error::{SinkError, SourceError};
use crate::identity::{CheckpointId, JobId, TransactionId};
use crate::sink::{CommitError, Committed, Fence, InDoubt, TwoPhaseCommitSinkFunction, Unfinished};
use crate::source::{Source, SourceBatch, SourceEvent, SourceReader, SplitId};

/// The "outside system": a list that readers see, and what is held back from them.
#[derive(Debug)]
struct Shelf<T> {
    visible: Vec<T>,
    /// Prepared, by the text of their transaction ids.
    prepared: BTreeMap<TransactionId, Vec<T>>,
    /// The ledger: which transactions were committed.
    committed: Vec<TransactionId>,
}

/// A sink that keeps the whole contract, in memory. Clones share what they hold, so a clone that outlives a "crashed"
/// job shows what its readers see, and a new job with a clone finishes what the old one left.
pub struct MemorySink<T> {
    shelf: Arc<Mutex<Shelf<T>>>,
}

impl<T> MemorySink<T> {
    /// An empty sink.
    pub fn new() -> Self {
        let shelf = Shelf {
            visible: Vec::new(),
            prepared: BTreeMap::new(),
            committed: Vec::new(),
        };
        Self {
            shelf: Arc::new(Mutex::new(shelf)),
        }
    }

    /// What a reader sees: all committed records, in the order of commits.
    pub fn visible(&self) -> Vec<T>
    where
        T: Clone,
    {
        self.shelf().visible.clone()
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf<T>> {
        // Whole between calls, so a panic elsewhere does not spoil it.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for MemorySink<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for MemorySink<T> {
    fn clone(&self) -> Self {
        Self {
            shelf: Arc::clone(&self.shelf),
        }
    }
}

impl<T> fmt::Debug for MemorySink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shelf {
            visible, prepared, ..
        } = &*self.shelf();
        f.debug_struct("MemorySink")
            .field("visible", &visible.len())
            .field("prepared", &prepared.keys())
            .finish_non_exhaustive()
    }
}

/// An open transaction of a [`MemorySink`].
#[derive(Debug)]
pub struct MemoryTransaction<T> {
    id: TransactionId,
    records: Vec<T>,
}

/// The handle of a prepared transaction of a [`MemorySink`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryHandle {
    records: usize,
}

#[async_trait]
impl<T: Send + 'static> TwoPhaseCommitSinkFunction for MemorySink<T> {
    type Input = T;
    type Transaction = MemoryTransaction<T>;
    type Prepared = MemoryHandle;

    fn capabilities(&self) -> Capabilities {
        Capabilities::TRANSACTIONAL.with_evidence(Evidence::Ledger)
    }

    async fn begin(&self, id: &TransactionId) -> Result<MemoryTransaction<T>, SinkError> {
        Ok(MemoryTransaction {
            id: id.clone(),
            records: Vec::new(),
        })
    }

    async fn write(
        &self,
        transaction: &mut MemoryTransaction<T>,
        records: Vec<T>,
    ) -> Result<(), SinkError> {
        transaction.records.extend(records);
        Ok(())
    }

    async fn pre_commit(
        &self,
        transaction: MemoryTransaction<T>,
    ) -> Result<Option<MemoryHandle>, SinkError> {
        let MemoryTransaction { id, records } = transaction;
        if records.is_empty() {
            return Ok(None);
        }
        let handle = MemoryHandle {
            records: records.len(),
        };
        self.shelf().prepared.insert(id, records);
        Ok(Some(handle))
    }

    async fn commit(&self, id: &TransactionId, _: &MemoryHandle) -> Result<Committed, CommitError> {
        let mut shelf = self.shelf();
        if shelf.committed.contains(id) {
            return Ok(Committed::Before);
        }
        let Some(records) = shelf.prepared.remove(id) else {
            return Err(CommitError::Lost(format!(
                "{id} is neither prepared nor in the ledger"
            )));
        };
        shelf.visible.extend(records);
        shelf.committed.push(id.clone());
        Ok(Committed::Now)
    }

    async fn abort(
        &self,
        unfinished: Unfinished<MemoryTransaction<T>, MemoryHandle>,
    ) -> Result<(), SinkError> {
        // An open transaction is nowhere but in the value that is dropped here.
        if let Unfinished::Prepared(id, _) = unfinished {
            let mut shelf = self.shelf();
            if shelf.committed.contains(&id) {
                return Err(SinkError::rejected(format!("{id} is committed")));
            }
            shelf.prepared.remove(&id);
        }
        Ok(())
    }

    async fn abort_stale(&self, fence: &Fence<MemoryHandle>) -> Result<Vec<InDoubt>, SinkError> {
        let mut shelf = self.shelf();
        for id in shelf.prepared.keys() {
            fence.check_prepared(id, id)?;
        }
        for id in &shelf.committed {
            fence.check_committed(id, id)?;
        }
        let prepared = shelf.prepared.keys();
        let stale: Vec<TransactionId> = prepared.filter(|id| fence.is_stale(id)).cloned().collect();
        for id in &stale {
            shelf.prepared.remove(id);
        }
        Ok(stale.iter().map(in_memory).collect())
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        let shelf = self.shelf();
        let ours = shelf.prepared.keys().filter(|id| id.job == *job);
        Ok(ours.map(in_memory).collect())
    }
}

fn in_memory(id: &TransactionId) -> InDoubt {
    InDoubt::new(id, "memory")
}

/// A source over records in memory; each inner list is a split. Ends when all are read.
#[derive(Clone)]
pub struct MemorySource<T> {
    splits: Arc<[Vec<T>]>,
}

impl<T> MemorySource<T> {
    /// A source of these splits.
    pub fn new(splits: impl IntoIterator<Item = Vec<T>>) -> Self {
        Self {
            splits: splits.into_iter().collect(),
        }
    }
}

impl<T> fmt::Debug for MemorySource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySource")
            .field("splits", &self.splits.len())
            .finish_non_exhaustive()
    }
}

/// Records in a batch of a [`MemorySource`].
const MEMORY_BATCH: usize = 64;

#[async_trait]
impl<T: Clone + Send + Sync + 'static> Source for MemorySource<T> {
    type Record = T;
    type Position = usize;
    type Reader = MemoryReader<T>;

    async fn splits(&self, _: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        // Padded, so that order of names is order of splits.
        Ok((0..self.splits.len())
            .map(|index| SplitId::new(format!("{index:06}")))
            .collect())
    }

    async fn open(
        &self,
        splits: Vec<(SplitId, Option<usize>)>,
    ) -> Result<MemoryReader<T>, SourceError> {
        let open = |(id, position): (SplitId, Option<usize>)| {
            let index = id
                .as_str()
                .parse()
                .ok()
                .filter(|index| *index < self.splits.len());
            let index = index
                .ok_or_else(|| SourceError::configuration(format!("there is no split {id}")))?;
            Ok((id, index, position.unwrap_or(0)))
        };
        let splits = splits
            .into_iter()
            .map(open)
            .collect::<Result<_, SourceError>>()?;
        Ok(MemoryReader {
            all: Arc::clone(&self.splits),
            splits,
            next: 0,
        })
    }

    async fn notify(&self, _: CheckpointId, _: &[(SplitId, usize)]) -> Result<(), SourceError> {
        Ok(())
    }
}

/// Reads splits of a [`MemorySource`], in turns.
pub struct MemoryReader<T> {
    all: Arc<[Vec<T>]>,
    splits: Vec<(SplitId, usize, usize)>,
    next: usize,
}

impl<T> fmt::Debug for MemoryReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryReader")
            .field("splits", &self.splits)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<T: Clone + Send + Sync + 'static> SourceReader for MemoryReader<T> {
    type Record = T;
    type Position = usize;

    async fn next(&mut self) -> Result<SourceEvent<T, usize>, SourceError> {
        // A turn of the runtime for others, before anything is taken: so it is cancel safe.
        tokio::task::yield_now().await;
        if self.splits.is_empty() {
            return Ok(SourceEvent::End);
        }
        let at = self.next % self.splits.len();
        let (id, index, position) = &mut self.splits[at];
        let rest = self.all[*index].get(*position..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(SourceEvent::Finished(self.splits.remove(at).0));
        }
        let records = rest.iter().take(MEMORY_BATCH).cloned().collect::<Vec<T>>();
        *position += records.len();
        self.next = at + 1;
        let (split, position) = (id.clone(), *position);
        Ok(SourceEvent::Batch(SourceBatch {
            split,
            records,
            position,
            skipped: 0,
        }))
    }
}
