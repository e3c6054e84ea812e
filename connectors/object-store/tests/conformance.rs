//! The conformance suite, on the sink of staged files.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use cofferdam::{TransactionId, async_trait};
use cofferdam_conformance::{
    Factory, GoldenHandle, Observer, Odd, Reality, Row, Trouble, conformance_tests,
};
use cofferdam_object_store::StagedFileSink;
use serde::{Serialize, Serializer, ser::Error};

#[derive(Debug, Default)]
struct StagedFiles;

/// A record: its text, or one that can't be written.
#[derive(Debug)]
enum Record {
    Text(String),
    Refused,
    Panicking,
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Refused => Err(S::Error::custom("no JSON can hold this")),
            Self::Panicking => panic!("a fault in the user's own code"),
        }
    }
}

/// An output folder.
struct Output {
    folder: PathBuf,
    /// Removes the folder; not in a process that was led here by its address.
    _owned: Option<tempfile::TempDir>,
}

#[async_trait]
impl Factory for StagedFiles {
    type Sink = StagedFileSink<Record>;
    type Place = Output;

    fn name(&self) -> String {
        "staged files".to_owned()
    }

    fn reality(&self) -> Reality {
        Reality::Real
    }

    async fn place(&self) -> Result<Output, Trouble> {
        let owned = tempfile::tempdir().map_err(|error| Trouble::failed("make a folder", error))?;
        Ok(Output {
            folder: owned.path().to_owned(),
            _owned: Some(owned),
        })
    }

    async fn open(&self, place: &Output) -> Result<Self::Sink, Trouble> {
        Ok(StagedFileSink::json_lines(&place.folder))
    }

    fn record(&self, text: &str) -> Record {
        Record::Text(text.to_owned())
    }

    fn odd_record(&self, odd: Odd) -> Result<Record, Trouble> {
        match odd {
            Odd::Refused => Ok(Record::Refused),
            Odd::Panicking => Ok(Record::Panicking),
            Odd::Oversize => Err(Trouble::unsupported("no record is too large")),
        }
    }

    fn golden_handles(&self) -> Vec<GoldenHandle> {
        vec![GoldenHandle {
            version: "0.1.0".to_owned(),
            json: include_str!("golden/handle-0.1.0.json").to_owned(),
        }]
    }

    async fn attach(&self, address: &str) -> Result<Output, Trouble> {
        Ok(Output {
            folder: address.into(),
            _owned: None,
        })
    }
}

fn failed(error: io::Error) -> Trouble {
    Trouble::failed("look into the folder", error)
}

/// Files of a folder, by name; none if it is not there, or if one goes while we look.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

impl Output {
    fn staging(&self) -> PathBuf {
        self.folder.join("_staging")
    }

    fn rows(folder: &Path) -> Result<Vec<Row>, Trouble> {
        let mut rows = Vec::new();
        for file in files(folder).map_err(failed)? {
            let text = match fs::read_to_string(&file) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                text => text.map_err(failed)?,
            };
            let lane = Some(file.display().to_string());
            rows.extend(text.lines().map(|line| Row {
                // Half a line is no JSON, and stays as it is: the suite sees that it is none of its texts.
                text: serde_json::from_str(line).unwrap_or_else(|_| line.to_owned()),
                lane: lane.clone(),
            }));
        }
        Ok(rows)
    }
}

#[async_trait]
impl Observer for Output {
    async fn visible(&self) -> Result<Vec<Row>, Trouble> {
        Self::rows(&self.folder)
    }

    async fn visible_without_isolation(&self) -> Result<Vec<Row>, Trouble> {
        let mut rows = Self::rows(&self.folder)?;
        rows.extend(Self::rows(&self.staging())?);
        Ok(rows)
    }

    async fn leftovers(&self) -> Result<Vec<String>, Trouble> {
        let files = files(&self.staging()).map_err(failed)?;
        Ok(files
            .iter()
            .map(|file| file.display().to_string())
            .collect())
    }

    async fn lose(&self, transaction: &TransactionId) -> Result<(), Trouble> {
        let name = transaction.to_string().replace('/', ".") + ".jsonl";
        fs::remove_file(self.staging().join(name)).map_err(failed)
    }

    fn address(&self) -> Option<String> {
        Some(self.folder.display().to_string())
    }
}

conformance_tests!(StagedFiles, report = "tests/conformance.json");
