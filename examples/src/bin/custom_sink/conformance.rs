//! The conformance suite, on the journal: `cargo test -p cofferdam-examples --bin custom_sink`.

use std::io;
use std::path::PathBuf;

use cofferdam::{StagedSink, TransactionId, async_trait};
use cofferdam_conformance::{
    Factory, GoldenHandle, Observer, Odd, Reality, Row, Trouble, conformance_tests,
};

use super::journal::{END, Journal};

#[derive(Debug, Default)]
struct Journals;

/// A folder with a journal, which is removed in the end; not by a process that was led here by its address.
struct Place(
    PathBuf,
    #[expect(dead_code, reason = "kept to be dropped")] Option<tempfile::TempDir>,
);

#[async_trait]
impl Factory for Journals {
    type Sink = StagedSink<Journal>;
    type Place = Place;

    fn name(&self) -> String {
        "journal (example)".to_owned()
    }

    fn reality(&self) -> Reality {
        Reality::Real
    }

    async fn place(&self) -> Result<Place, Trouble> {
        let folder = tempfile::tempdir().map_err(failed)?;
        Ok(Place(folder.path().to_owned(), Some(folder)))
    }

    async fn attach(&self, address: &str) -> Result<Place, Trouble> {
        Ok(Place(address.into(), None))
    }

    async fn open(&self, place: &Place) -> Result<Self::Sink, Trouble> {
        Ok(StagedSink::new(place.journal()?))
    }

    fn record(&self, text: &str) -> String {
        text.to_owned()
    }

    fn odd_record(&self, odd: Odd) -> Result<String, Trouble> {
        match odd {
            Odd::Refused => Ok(format!("{END}x")),
            _ => Err(Trouble::unsupported("any line can be written")),
        }
    }

    fn golden_handles(&self) -> Vec<GoldenHandle> {
        vec![GoldenHandle {
            version: "0.1.0".to_owned(),
            json: r#"{"records":42}"#.to_owned(),
        }]
    }
}

fn failed(error: io::Error) -> Trouble {
    Trouble::failed("look at the journal", error)
}

#[async_trait]
impl Observer for Place {
    async fn visible(&self) -> Result<Vec<Row>, Trouble> {
        Ok(rows(&self.journal()?.finished().map_err(failed)?))
    }

    async fn visible_without_isolation(&self) -> Result<Vec<Row>, Trouble> {
        Err(Trouble::unsupported(
            "only a process that dies within an append leaves more to see",
        ))
    }

    async fn leftovers(&self) -> Result<Vec<String>, Trouble> {
        self.journal()?.staged_blocks().map_err(failed)
    }

    async fn lose(&self, transaction: &TransactionId) -> Result<(), Trouble> {
        let journal = self.journal()?;
        journal.discard(&transaction.dotted()).map_err(failed)
    }

    fn address(&self) -> Option<String> {
        Some(self.0.display().to_string())
    }
}

impl Place {
    fn journal(&self) -> Result<Journal, Trouble> {
        Journal::open(&self.0).map_err(failed)
    }
}

fn rows(journal: &str) -> Vec<Row> {
    let lines = journal.lines().filter(|line| !line.starts_with(END));
    let row = |line: &str| Row {
        text: line.to_owned(),
        lane: Some("journal".to_owned()),
    };
    lines.map(row).collect()
}

conformance_tests!(Journals, report = "reports/journal.json");
