//! Recovers from what a loss of power has left, with the job itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use cofferdam_power_loss::{CHECKPOINTS, Pace, RESULTS, Tree, Witness, expected, job, materialise};
use serde_json::Value;

use super::history;

/// Far more than it takes.
const LONG: Duration = Duration::from_secs(30);

/// Starts the job on a tree and lets it come to its end: each line is visible once, and nothing is left over.
pub fn recover(tree: &Tree) -> Result<(), String> {
    let folder = history::folder();
    materialise(tree, folder.path()).expect("room for a tree");
    run(folder.path())?;
    check(folder.path())
}

fn run(folder: &Path) -> Result<(), String> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    let job = job(folder, Pace::Free, Witness::silent()).map_err(|error| error.to_string())?;
    runtime.block_on(async {
        match tokio::time::timeout(LONG, job.run()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(format!("the job stops: {error}")),
            Err(_) => return Err(format!("the job is not done after {LONG:?}")),
        }
        Ok(())
    })
}

/// Exactly what must come out is visible, and nothing else is there.
pub fn check(folder: &Path) -> Result<(), String> {
    let output = folder.join(RESULTS);
    let mut lines = Vec::new();
    for name in names(&output) {
        let text = fs::read_to_string(output.join(name)).expect("a published file");
        lines.extend(text.lines().map(str::to_owned));
    }
    lines.sort_unstable();
    let expected = expected();
    if lines != expected {
        let (found, wanted) = (lines.len(), expected.len());
        return Err(format!("{found} lines for {wanted}, or others"));
    }
    let staged = names(&output.join("_staging"));
    let checkpoints = folder.join(CHECKPOINTS);
    let aside = names(&checkpoints.join(".aside"));
    let mut named = BTreeSet::new();
    let records = names(&checkpoints.join("log"));
    for record in &records {
        let text = fs::read_to_string(checkpoints.join("log").join(record)).expect("a record");
        let (_, json) = text.split_once('\n').expect("a header");
        let record: Value = serde_json::from_str(json).expect("JSON");
        let parts = record["manifest"]["state"].as_array();
        for part in parts.into_iter().flatten() {
            named.insert(part["object"].as_str().expect("a name").to_owned());
        }
    }
    let mut parts = names(&checkpoints.join("state"));
    parts.retain(|part| !named.contains(&format!("state/{part}")));
    // The takeover, the last decision, and a few before it: only a decision retires another, and there may be none to make.
    match staged.is_empty() && aside.is_empty() && parts.is_empty() && records.len() <= 2 + 3 {
        true => Ok(()),
        false => Err(format!(
            "left over: staged {staged:?}, aside {aside:?}, state {parts:?}, of the log {records:?}"
        )),
    }
}

/// The files in a folder; none if there is no folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let files = entries
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.file_type().expect("a type").is_file());
    let mut names: Vec<String> = files
        .map(|file| file.file_name().into_string().expect("text"))
        .collect();
    names.sort_unstable();
    names
}
