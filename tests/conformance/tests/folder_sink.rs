//! The suite, on the sink of the page that teaches how to write one.

#[path = "../../../core/src/docs/folder_sink.rs"]
#[allow(missing_docs, reason = "its text is a doc")]
mod folder_sink;

use std::fs;

use cofferdam::{StagedSink, TransactionId, async_trait};
use cofferdam_conformance::{
    Factory, GoldenHandle, Observer, Reality, Row, Trouble, conformance_tests,
};

#[derive(Debug, Default)]
struct Folders;

struct Folder(tempfile::TempDir);

#[async_trait]
impl Factory for Folders {
    type Sink = StagedSink<folder_sink::Folder>;
    type Place = Folder;

    fn name(&self) -> String {
        "folder (docs)".to_owned()
    }

    fn reality(&self) -> Reality {
        Reality::Real
    }

    async fn place(&self) -> Result<Folder, Trouble> {
        let folder =
            tempfile::tempdir().map_err(|error| Trouble::failed("make a folder", error))?;
        Ok(Folder(folder))
    }

    async fn open(&self, place: &Folder) -> Result<Self::Sink, Trouble> {
        Ok(StagedSink::new(folder_sink::Folder {
            path: place.0.path().to_owned(),
        }))
    }

    fn record(&self, text: &str) -> String {
        text.to_owned()
    }

    fn golden_handles(&self) -> Vec<GoldenHandle> {
        vec![GoldenHandle {
            version: "1".to_owned(),
            json: r#"{"records":10}"#.to_owned(),
        }]
    }
}

impl Folder {
    fn rows(&self, shown: impl Fn(&str) -> bool) -> Result<Vec<Row>, Trouble> {
        let failed = |error| Trouble::failed("read the folder", error);
        let mut rows = Vec::new();
        for entry in fs::read_dir(self.0.path()).map_err(failed)? {
            let name = entry
                .map_err(failed)?
                .file_name()
                .to_string_lossy()
                .into_owned();
            // A file may get its visible name while we look; then the next look finds it.
            let Ok(text) = fs::read_to_string(self.0.path().join(&name)) else {
                continue;
            };
            if shown(&name) {
                let lane = Some(name);
                rows.extend(text.lines().map(|line| Row {
                    text: line.to_owned(),
                    lane: lane.clone(),
                }));
            }
        }
        Ok(rows)
    }
}

#[async_trait]
impl Observer for Folder {
    async fn visible(&self) -> Result<Vec<Row>, Trouble> {
        self.rows(|name| !name.starts_with('_'))
    }

    async fn visible_without_isolation(&self) -> Result<Vec<Row>, Trouble> {
        self.rows(|_| true)
    }

    async fn lose(&self, transaction: &TransactionId) -> Result<(), Trouble> {
        let name = format!("_staged.{}", transaction.dotted());
        fs::remove_file(self.0.path().join(name))
            .map_err(|error| Trouble::failed("take a file away", error))
    }
}

conformance_tests!(Folders);
