//! The suite, on a sink of which outside names do not tell the checkpoint, and whose system forgets soon.

use std::time::Duration;

use cofferdam::memory::{MemoryHandle, MemorySink, MemoryTransaction};
use cofferdam::{
    Capabilities, CommitError, Committed, Fence, InDoubt, JobId, SinkError, TransactionId,
    TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};
use cofferdam_conformance::{
    Factory, GoldenHandle, Observer, Reality, Row, Trouble, conformance_tests,
};

/// Less than a job with the usual settings lets pass.
const EXPIRY: Duration = Duration::from_secs(45);

#[derive(Debug, Default)]
struct Pool;

/// As it is with names out of a pool: who finds one knows whose it is, and not of when.
#[derive(Debug, Clone)]
struct PooledSink(MemorySink<String>);

fn by_name(found: Vec<InDoubt>) -> Vec<InDoubt> {
    let name = |mut found: InDoubt| {
        found.checkpoint = None;
        found.with_expires_in(Some(EXPIRY))
    };
    found.into_iter().map(name).collect()
}

#[async_trait]
impl TwoPhaseCommitSinkFunction for PooledSink {
    type Input = String;
    type Transaction = MemoryTransaction<String>;
    type Prepared = MemoryHandle;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities().with_expiry(Some(EXPIRY))
    }

    async fn begin(&self, id: &TransactionId) -> Result<Self::Transaction, SinkError> {
        self.0.begin(id).await
    }

    async fn write(
        &self,
        transaction: &mut Self::Transaction,
        records: Vec<String>,
    ) -> Result<(), SinkError> {
        self.0.write(transaction, records).await
    }

    async fn pre_commit(
        &self,
        transaction: Self::Transaction,
    ) -> Result<Option<MemoryHandle>, SinkError> {
        self.0.pre_commit(transaction).await
    }

    async fn commit(
        &self,
        id: &TransactionId,
        prepared: &MemoryHandle,
    ) -> Result<Committed, CommitError> {
        self.0.commit(id, prepared).await
    }

    async fn abort(
        &self,
        unfinished: Unfinished<Self::Transaction, MemoryHandle>,
    ) -> Result<(), SinkError> {
        self.0.abort(unfinished).await
    }

    async fn abort_stale(&self, fence: &Fence<MemoryHandle>) -> Result<Vec<InDoubt>, SinkError> {
        Ok(by_name(self.0.abort_stale(fence).await?))
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        Ok(by_name(self.0.in_doubt(job).await?))
    }
}

#[async_trait]
impl Factory for Pool {
    type Sink = PooledSink;
    type Place = PooledSink;

    fn name(&self) -> String {
        "pooled names".to_owned()
    }

    fn reality(&self) -> Reality {
        Reality::Simulated
    }

    async fn place(&self) -> Result<PooledSink, Trouble> {
        Ok(PooledSink(MemorySink::new()))
    }

    async fn open(&self, place: &PooledSink) -> Result<PooledSink, Trouble> {
        Ok(place.clone())
    }

    fn record(&self, text: &str) -> String {
        text.to_owned()
    }

    fn golden_handles(&self) -> Vec<GoldenHandle> {
        vec![GoldenHandle {
            version: "0.1.0".to_owned(),
            json: r#"{"records":3}"#.to_owned(),
        }]
    }
}

#[async_trait]
impl Observer for PooledSink {
    async fn visible(&self) -> Result<Vec<Row>, Trouble> {
        let row = |text| Row {
            text,
            lane: Some("pool".to_owned()),
        };
        Ok(self.0.visible().into_iter().map(row).collect())
    }
}

conformance_tests!(Pool);
