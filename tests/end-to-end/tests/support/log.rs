//! Reads a checkpoint folder as an operator would, with no code of the library.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// What a checkpoint folder holds now.
#[derive(Debug, Default)]
pub struct Log {
    /// Each decision with the transactions that it names, as `<job>/<sink>/<epoch>/<subtask>/<checkpoint>`.
    pub decisions: BTreeMap<u64, Vec<String>>,
    pub takeovers: usize,
    /// State parts that decisions name.
    pub state: BTreeSet<String>,
    /// Names of the records, ascending.
    pub records: Vec<PathBuf>,
}

impl Log {
    /// Reads what can be read: a running job deletes retired records at any time.
    pub fn read(checkpoints: &Path) -> Self {
        let mut log = Self {
            records: names(&checkpoints.join("log")),
            ..Self::default()
        };
        for path in &log.records {
            let text = match fs::read_to_string(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                text => text.expect("a log record"),
            };
            let (_, content) = text.split_once('\n').expect("a header");
            let record: Value = serde_json::from_str(content).expect("JSON");
            log.takeovers += usize::from(record["kind"] == "takeover");
            let Some(manifest) = record.get("manifest") else {
                continue;
            };
            let text = |value: &Value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let transactions = manifest["transactions"].as_array().expect("transactions");
            let named = transactions.iter().map(|named| id(&named["id"])).collect();
            let checkpoint = manifest["checkpoint"].as_u64().expect("a checkpoint");
            log.decisions.insert(checkpoint, named);
            let parts = manifest["state"].as_array().expect("state");
            log.state
                .extend(parts.iter().map(|part| text(&part["object"])));
        }
        log
    }
}

fn id(id: &Value) -> String {
    match id {
        Value::String(text) => text.clone(),
        fields => ["job", "sink", "epoch", "subtask", "checkpoint"]
            .map(|field| fields[field].to_string().replace('"', ""))
            .join("/"),
    }
}

/// The files in a folder, sorted; none if there is no folder.
pub fn names(folder: &Path) -> Vec<PathBuf> {
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Vec::new();
        }
        entries => entries.expect("a folder"),
    };
    let mut names: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    names.sort();
    names
}
