//! The conformance suite, on the journal: `cargo test -p cofferdam-examples --bin custom_sink`.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use cofferdam::{TransactionId, async_trait};
use cofferdam_conformance::{
    Factory, GoldenHandle, Observer, Odd, Reality, Row, Trouble, conformance_tests,
};

use super::sink::{END, JournalSink, finished, remove};

#[derive(Debug, Default)]
struct Journal;

/// A folder with a journal, which is removed in the end; not by a process that was led here by its address.
struct Place(
    PathBuf,
    #[expect(dead_code, reason = "kept to be dropped")] Option<tempfile::TempDir>,
);

#[async_trait]
impl Factory for Journal {
    type Sink = JournalSink;
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

    async fn open(&self, place: &Place) -> Result<JournalSink, Trouble> {
        Ok(JournalSink {
            folder: place.0.clone(),
        })
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
            json: r#"{"lines":42}"#.to_owned(),
        }]
    }
}

fn failed(error: io::Error) -> Trouble {
    Trouble::failed("look at the journal", error)
}

#[async_trait]
impl Observer for Place {
    async fn visible(&self) -> Result<Vec<Row>, Trouble> {
        Ok(rows(finished(&self.text()?)))
    }

    async fn visible_without_isolation(&self) -> Result<Vec<Row>, Trouble> {
        Err(Trouble::unsupported(
            "only a process that dies within an append leaves more to see",
        ))
    }

    async fn leftovers(&self) -> Result<Vec<String>, Trouble> {
        let folder = self.0.clone();
        let prepared = JournalSink { folder }.list_prepared().map_err(failed)?;
        Ok(prepared.iter().map(ToString::to_string).collect())
    }

    async fn lose(&self, transaction: &TransactionId) -> Result<(), Trouble> {
        let folder = self.0.clone();
        remove(&JournalSink { folder }.prepared(transaction)).map_err(failed)
    }

    fn address(&self) -> Option<String> {
        Some(self.0.display().to_string())
    }
}

impl Place {
    fn text(&self) -> Result<String, Trouble> {
        match fs::read_to_string(self.0.join("journal.txt")) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            text => text.map_err(failed),
        }
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

conformance_tests!(Journal, report = "reports/journal.json");
