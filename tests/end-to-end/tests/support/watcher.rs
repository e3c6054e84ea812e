//! A reader that looks at the output all the time, while the job is killed and started again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::log::Log;
use super::model::{LateRow, Row};
use super::site::visible;

/// Everything the reader saw.
#[derive(Debug, Default)]
pub struct Watcher {
    files: BTreeMap<PathBuf, String>,
    /// Transactions that some decision named. A decision may be retired before the next look.
    named: BTreeSet<String>,
    pub looks: u32,
}

impl Watcher {
    /// Looks until it is told to stop, and once more after that.
    pub fn watch(output: &Path, checkpoints: &Path, stop: &AtomicBool) -> Self {
        let mut watcher = Self::default();
        loop {
            let last = stop.load(Ordering::SeqCst);
            watcher.look(output, checkpoints);
            if last {
                return watcher;
            }
        }
    }

    /// The output first, the log after it: what is visible has been decided *before*, so its decision is in the log
    /// that is read now, or was retired, which only happens to checkpoints older than all that are kept.
    fn look(&mut self, output: &Path, checkpoints: &Path) {
        self.looks += 1;
        let mut found = visible(&output.join("results"));
        found.extend(visible(&output.join("late")));
        self.nothing_vanished(&found);
        let mut unproven: Vec<PathBuf> = Vec::new();
        for (path, text) in found {
            if let Some(before) = self.files.get(&path) {
                assert_eq!(*before, text, "{path:?} was changed after it was published");
                continue;
            }
            assert_whole(&path, &text);
            unproven.push(path.clone());
            self.files.insert(path, text);
        }
        // A record may be retired between listing and reading the log: then the next look shows a newer oldest one.
        for _ in 0..5 {
            let log = Log::read(checkpoints);
            self.named.extend(log.decisions.values().flatten().cloned());
            let oldest = log.decisions.keys().next().copied();
            unproven.retain(|path| {
                let transaction = transaction(path);
                let retired = oldest.is_some_and(|oldest| checkpoint(&transaction) < oldest);
                !retired && !self.named.contains(&transaction)
            });
            if unproven.is_empty() {
                return;
            }
        }
        panic!("visible, and named by no decided checkpoint: {unproven:?}");
    }

    fn nothing_vanished(&self, found: &[(PathBuf, String)]) {
        let found: BTreeSet<&PathBuf> = found.iter().map(|(path, _)| path).collect();
        let mut seen = self.files.keys();
        if let Some(gone) = seen.find(|path| !found.contains(path)) {
            panic!("{gone:?} was visible, and is gone");
        }
    }

    /// The transactions of all files it saw.
    pub fn transactions(&self) -> BTreeSet<String> {
        self.files.keys().map(|path| transaction(path)).collect()
    }
}

/// Every line of a file can be read, and the last one is complete.
fn assert_whole(path: &Path, text: &str) {
    assert!(text.ends_with('\n'), "{path:?} is empty or cut");
    let late = path.parent().is_some_and(|folder| folder.ends_with("late"));
    for line in text.lines() {
        let read = match late {
            true => serde_json::from_str::<LateRow>(line).map(drop),
            false => serde_json::from_str::<Row>(line).map(drop),
        };
        read.unwrap_or_else(|error| panic!("{path:?}: {error}: {line}"));
    }
}

/// `<job>.<sink>.<epoch>.<subtask>.<checkpoint>.jsonl` names its transaction.
fn transaction(path: &Path) -> String {
    let name = path.file_stem().expect("a name").to_str().expect("text");
    name.replace('.', "/")
}

fn checkpoint(transaction: &str) -> u64 {
    let (_, checkpoint) = transaction.rsplit_once('/').expect("a transaction");
    checkpoint.parse().expect("a checkpoint")
}
