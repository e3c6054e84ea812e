//! The checkpoints of a pipeline, and what goes wrong where they are kept.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use cofferdam::{
    CheckpointStore, Create, MemoryCheckpointStore, StoreError, TransactionId, async_trait,
};

use super::RECORDS;
use super::crash::Crash;
use crate::history::Event;
use crate::site::Site;
use crate::trial::Trial;

/// The checkpoints of a pipeline, over all its runs; what is decided goes into the history.
pub(crate) struct Decisions {
    store: MemoryCheckpointStore,
    site: Arc<Site>,
    /// Which record numbers the pipeline reads.
    pub(super) first_record: u64,
    fault: Arc<Mutex<Option<StoreFault>>>,
    crash: Crash,
}

#[derive(Debug, Clone, Copy)]
struct StoreFault {
    /// Writes of decisions until it happens.
    left: u64,
    applied: bool,
    crash: bool,
}

impl Decisions {
    pub(crate) fn new(trial: &Trial) -> Self {
        Self {
            store: MemoryCheckpointStore::new(),
            site: Arc::clone(&trial.site),
            first_record: trial.site.new_records(RECORDS)[0],
            fault: Arc::default(),
            crash: Crash::never(),
        }
    }

    /// The n-th write of a decision fails, after it was done or without; the process may die there too.
    pub(crate) fn fail_at(&self, left: u64, applied: bool, crash: bool) {
        let fault = StoreFault {
            left,
            applied,
            crash,
        };
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }

    /// The crash that goes with the fault.
    pub(crate) fn crash(&self) -> Crash {
        self.crash.clone()
    }
}

impl Clone for Decisions {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            site: Arc::clone(&self.site),
            first_record: self.first_record,
            fault: Arc::clone(&self.fault),
            crash: self.crash.clone(),
        }
    }
}

/// The store of a [`Decisions`], in one process.
pub(super) struct PipelineStore {
    pub(super) decisions: Decisions,
    pub(super) crash: Crash,
}

impl fmt::Debug for PipelineStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decisions.store.fmt(f)
    }
}

/// The transactions that a decision names, from the form in which the log keeps it; `None` if it is no decision.
fn named(name: &str, record: &[u8]) -> Option<Vec<TransactionId>> {
    let header = record.iter().position(|byte| *byte == b'\n')?;
    let body = record.get(header + 1..)?;
    let record: serde_json::Value = serde_json::from_slice(body).ok()?;
    let transactions = record.get("manifest")?.get("transactions")?.as_array()?;
    let id = |transaction: &serde_json::Value| transaction.get("id")?.as_str()?.parse().ok();
    name.starts_with("log/")
        .then(|| transactions.iter().filter_map(id).collect())
}

impl PipelineStore {
    /// The fault that is due at this write of a decision.
    fn fault(&self) -> Option<StoreFault> {
        let mut fault = self
            .decisions
            .fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let due = fault.as_mut()?;
        due.left -= 1;
        if due.left == 0 { fault.take() } else { None }
    }

    async fn decide(
        &self,
        name: &str,
        bytes: Vec<u8>,
        ids: Vec<TransactionId>,
    ) -> Result<Create, StoreError> {
        let fault = self.fault();
        let applied = fault.is_none_or(|fault| fault.applied);
        let mut created = Create::Exists;
        if applied {
            created = self.decisions.store.create(name, bytes).await?;
            if created == Create::Created {
                self.decisions.site.note(Event::Decided(ids));
            }
        }
        match fault {
            None => Ok(created),
            Some(fault) => {
                if fault.crash {
                    self.crash.now().await;
                }
                Err(StoreError {
                    action: "create",
                    object: name.to_owned(),
                    retriable: true,
                    hint: None,
                    cause: "no answer came".into(),
                })
            }
        }
    }
}

#[async_trait]
impl CheckpointStore for PipelineStore {
    async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<Create, StoreError> {
        match named(name, &bytes) {
            Some(ids) => self.crash.around(self.decide(name, bytes, ids)).await,
            None => {
                self.crash
                    .around(self.decisions.store.create(name, bytes))
                    .await
            }
        }
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.decisions.store.read(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.decisions.store.list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.decisions.store.delete(name).await
    }

    fn location(&self) -> String {
        self.decisions.store.location()
    }
}
