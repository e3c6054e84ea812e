//! The suite, on a sink that declares what it lacks: what it skips and what it still demands.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cofferdam::{AtLeastOnce, RecordWriter, SinkError, async_trait};
use cofferdam_conformance::{Factory, Observer, Reality, Row, Trouble, Verdict, run_all};

/// A list to which records are added at once.
#[derive(Debug, Default, Clone)]
struct List(Arc<Mutex<Vec<String>>>);

impl List {
    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl RecordWriter for List {
    type Input = String;

    async fn write(&self, records: Vec<String>) -> Result<(), SinkError> {
        self.lines().extend(records);
        Ok(())
    }

    async fn flush(&self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[async_trait]
impl Observer for List {
    async fn visible(&self) -> Result<Vec<Row>, Trouble> {
        let row = |text: &String| Row {
            text: text.clone(),
            lane: Some("list".to_owned()),
        };
        Ok(self.lines().iter().map(row).collect())
    }
}

#[derive(Debug, Default)]
struct Lists;

#[async_trait]
impl Factory for Lists {
    type Sink = AtLeastOnce<List>;
    type Place = List;

    fn name(&self) -> String {
        "list".to_owned()
    }

    fn reality(&self) -> Reality {
        Reality::Simulated
    }

    async fn place(&self) -> Result<List, Trouble> {
        Ok(List::default())
    }

    async fn open(&self, place: &List) -> Result<AtLeastOnce<List>, Trouble> {
        Ok(AtLeastOnce::new(place.clone()))
    }

    fn record(&self, text: &str) -> String {
        text.to_owned()
    }
}

#[tokio::test]
async fn a_plain_writer_passes_what_it_promises_and_skips_the_rest_with_its_reason() {
    let report = run_all::<Lists>(None).await;
    assert_eq!(report.failed(), Vec::<&str>::new(), "{report}");
    let passed = |id: &str| {
        let result = report.results.iter().find(|result| result.id == id);
        result.is_some_and(|result| result.verdict == Verdict::Passed)
    };
    assert!(passed("VIS-3") && passed("ERR-6"), "{report}");
    for result in &report.results {
        if let Verdict::Skipped(reason) = &result.verdict {
            let why = ["declares resume: None", "declares isolation: Immediate"];
            let lacks = ["the observer can't", "can't be restarted", "no record is"];
            let known = why.iter().chain(&lacks).any(|known| reason.contains(known));
            assert!(known, "{}: {reason}", result.id);
        }
    }
    assert!(
        report.to_string().contains("declares resume: None"),
        "{report}"
    );
}
