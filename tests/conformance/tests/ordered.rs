//! The suite, on an ordered sink: it refuses to begin while a transaction of the same subtask is prepared.

use cofferdam::memory::{MemoryHandle, MemorySink, MemoryTransaction};
use cofferdam::{
    Capabilities, CommitError, Committed, Fence, InDoubt, JobId, SinkError, TransactionId,
    TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};
use cofferdam_conformance::{
    Factory, GoldenHandle, Observer, Reality, Row, Trouble, conformance_tests,
};

#[derive(Debug, Default)]
struct Ordered;

/// As a sink whose writes wait for locks that a prepared transaction holds, but that it says so at once.
#[derive(Debug, Clone)]
struct OrderedSink(MemorySink<String>);

#[async_trait]
impl TwoPhaseCommitSinkFunction for OrderedSink {
    type Input = String;
    type Transaction = MemoryTransaction<String>;
    type Prepared = MemoryHandle;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities().with_ordered(true)
    }

    async fn begin(&self, id: &TransactionId) -> Result<Self::Transaction, SinkError> {
        let lane = |id: &TransactionId| (id.sink.clone(), id.epoch, id.subtask);
        let prepared = self.0.in_doubt(&id.job).await?;
        let mut prepared = prepared.iter().filter_map(InDoubt::id);
        match prepared.find(|prepared| lane(prepared) == lane(id)) {
            Some(before) => Err(SinkError::rejected(format!("{before} holds the locks"))),
            None => self.0.begin(id).await,
        }
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
        self.0.abort_stale(fence).await
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        self.0.in_doubt(job).await
    }
}

#[async_trait]
impl Factory for Ordered {
    type Sink = OrderedSink;
    type Place = OrderedSink;

    fn name(&self) -> String {
        "ordered".to_owned()
    }

    fn reality(&self) -> Reality {
        Reality::Simulated
    }

    async fn place(&self) -> Result<OrderedSink, Trouble> {
        Ok(OrderedSink(MemorySink::new()))
    }

    async fn open(&self, place: &OrderedSink) -> Result<OrderedSink, Trouble> {
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
impl Observer for OrderedSink {
    async fn visible(&self) -> Result<Vec<Row>, Trouble> {
        let row = |text| Row {
            text,
            lane: Some("ordered".to_owned()),
        };
        Ok(self.0.visible().into_iter().map(row).collect())
    }
}

conformance_tests!(Ordered);
