//! A store and a sink that say what they have promised.

use std::fmt::Debug;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cofferdam::{
    Capabilities, CheckpointStore, CommitError, Committed, Create, Fence, InDoubt, JobId,
    SinkError, StoreError, TransactionId, TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};
use cofferdam_object_store::{StagedFile, StagedFileSink, StagedTransaction};
use serde::Serialize;

/// Writes a line to standard output when a promise is given, and before it is taken back. May end the process at one.
#[derive(Debug, Clone, Default)]
pub struct Witness {
    speaks: bool,
    dies_at: Option<(String, u32)>,
    reached: Arc<AtomicU32>,
}

impl Witness {
    /// One that says nothing.
    pub fn silent() -> Self {
        Self::default()
    }

    /// One that speaks, and ends the process as it says this word for the n-th time.
    pub fn new(dies_at: Option<(String, u32)>) -> Self {
        Self {
            speaks: true,
            dies_at,
            reached: Arc::default(),
        }
    }

    fn say(&self, word: &str, of: &str) {
        if !self.speaks {
            return;
        }
        // Standard output writes a line at once.
        println!("{word} {of}");
        std::io::stdout().flush().expect("standard output is there");
        if let Some((dies_at, times)) = &self.dies_at
            && word == dies_at
            && self.reached.fetch_add(1, Ordering::SeqCst) + 1 == *times
        {
            // As sudden as SIGKILL: no destructor runs, nothing is flushed.
            std::process::abort();
        }
    }
}

/// Says `created` and `deleting` with the name of an object.
#[derive(Debug)]
pub(crate) struct WitnessedStore<S> {
    pub(crate) inner: S,
    pub(crate) witness: Witness,
}

#[async_trait]
impl<S: CheckpointStore> CheckpointStore for WitnessedStore<S> {
    async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<Create, StoreError> {
        let created = self.inner.create(name, bytes).await?;
        self.witness.say("created", name);
        Ok(created)
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.read(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.inner.list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.witness.say("deleting", name);
        self.inner.delete(name).await
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}

/// Says `prepared`, `committing`, `committed` and `aborting` with the name of a file, and `sweeping` with that of a sink.
#[derive(Debug)]
pub(crate) struct WitnessedSink<T> {
    pub(crate) inner: StagedFileSink<T>,
    pub(crate) witness: Witness,
}

#[async_trait]
impl<T: Serialize + Debug + Send + 'static> TwoPhaseCommitSinkFunction for WitnessedSink<T> {
    type Input = T;
    type Transaction = StagedTransaction;
    type Prepared = StagedFile;

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn begin(&self, id: &TransactionId) -> Result<StagedTransaction, SinkError> {
        self.inner.begin(id).await
    }

    async fn write(
        &self,
        transaction: &mut StagedTransaction,
        records: Vec<T>,
    ) -> Result<(), SinkError> {
        self.inner.write(transaction, records).await
    }

    async fn pre_commit(
        &self,
        transaction: StagedTransaction,
    ) -> Result<Option<StagedFile>, SinkError> {
        let prepared = self.inner.pre_commit(transaction).await?;
        if let Some(file) = &prepared {
            self.witness.say("prepared", &file.name);
        }
        Ok(prepared)
    }

    async fn commit(
        &self,
        id: &TransactionId,
        prepared: &StagedFile,
    ) -> Result<Committed, CommitError> {
        self.witness.say("committing", &prepared.name);
        let committed = self.inner.commit(id, prepared).await?;
        self.witness.say("committed", &prepared.name);
        Ok(committed)
    }

    async fn abort(
        &self,
        unfinished: Unfinished<StagedTransaction, StagedFile>,
    ) -> Result<(), SinkError> {
        if let Unfinished::Prepared(_, file) = &unfinished {
            self.witness.say("aborting", &file.name);
        }
        self.inner.abort(unfinished).await
    }

    async fn abort_stale(&self, fence: &Fence<StagedFile>) -> Result<Vec<InDoubt>, SinkError> {
        self.witness.say("sweeping", fence.sink.as_str());
        self.inner.abort_stale(fence).await
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        self.inner.in_doubt(job).await
    }
}
