//! The suite, on the memory sink of the core: the reference for what a sink has to do.

use cofferdam::memory::MemorySink;
use cofferdam::{TransactionId, TwoPhaseCommitSinkFunction, Unfinished, async_trait};
use cofferdam_conformance::{
    Factory, GoldenHandle, Observer, Reality, Row, Trouble, conformance_tests,
};

#[derive(Debug, Default)]
struct Memory;

/// A clone shares what the sink holds, as a client shares a server.
struct Shelf(MemorySink<String>);

#[async_trait]
impl Factory for Memory {
    type Sink = MemorySink<String>;
    type Place = Shelf;

    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn reality(&self) -> Reality {
        Reality::Simulated
    }

    async fn place(&self) -> Result<Shelf, Trouble> {
        Ok(Shelf(MemorySink::new()))
    }

    async fn open(&self, place: &Shelf) -> Result<MemorySink<String>, Trouble> {
        Ok(place.0.clone())
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
impl Observer for Shelf {
    async fn visible(&self) -> Result<Vec<Row>, Trouble> {
        let row = |text| Row {
            text,
            lane: Some("shelf".to_owned()),
        };
        Ok(self.0.visible().into_iter().map(row).collect())
    }

    async fn leftovers(&self) -> Result<Vec<String>, Trouble> {
        let in_doubt = self
            .0
            .in_doubt(&"conformance".to_owned().try_into().expect("a name"))
            .await;
        let in_doubt = in_doubt.map_err(|error| Trouble::failed("list what is in doubt", error))?;
        Ok(in_doubt
            .into_iter()
            .map(|found| found.to_string())
            .collect())
    }

    async fn lose(&self, transaction: &TransactionId) -> Result<(), Trouble> {
        let handle = serde_json::from_str(r#"{"records":0}"#).expect("a handle");
        let aborted = self
            .0
            .abort(Unfinished::Prepared(transaction.clone(), handle))
            .await;
        aborted.map_err(|error| Trouble::failed("take a transaction away", error))
    }
}

conformance_tests!(Memory, report = "reports/memory.json");
