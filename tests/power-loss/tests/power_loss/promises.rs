//! What the job was told is durable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cofferdam_power_loss::{CHECKPOINTS, RESULTS, Tree};

/// Promises of the store and the sink that were given and not taken back.
#[derive(Debug, Clone, Default)]
pub struct Promises {
    /// Where something must be, at one of the paths, and what.
    files: BTreeMap<Promise, (Vec<PathBuf>, Arc<Vec<u8>>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Promise {
    Created(String),
    Prepared(String),
    Committed(String),
}

impl Promises {
    /// Notes what a witness said, at a time when a process saw this.
    pub fn hear(&mut self, word: &str, of: &str, now: &Tree) {
        let published = Path::new(RESULTS).join(of);
        let name = of.to_owned();
        match word {
            "created" => {
                let object = Path::new(CHECKPOINTS).join(of);
                self.promise(Promise::Created(name), vec![object], now);
            }
            "deleting" => {
                self.files.remove(&Promise::Created(name));
            }
            "prepared" => {
                let staged = Path::new(RESULTS).join("_staging").join(of);
                self.promise(Promise::Prepared(name), vec![staged, published], now);
            }
            "aborting" => {
                self.files.remove(&Promise::Prepared(name));
            }
            // All that is decided was committed before.
            "sweeping" => self
                .files
                .retain(|promise, _| !matches!(promise, Promise::Prepared(_))),
            "committed" => self.promise(Promise::Committed(name), vec![published], now),
            "committing" => {}
            _ => panic!("a witness said {word:?}"),
        }
    }

    fn promise(&mut self, promise: Promise, paths: Vec<PathBuf>, now: &Tree) {
        let content = paths
            .iter()
            .find_map(|path| now.get(path).cloned().flatten());
        let content = content.unwrap_or_else(|| panic!("{promise:?}, and it is not there"));
        self.files.insert(promise, (paths, content));
    }

    /// How many promises stand.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// All that was promised is there.
    pub fn check(&self, tree: &Tree) -> Result<(), String> {
        for (promise, (paths, content)) in &self.files {
            let mut found = paths.iter().filter_map(|path| tree.get(path));
            if !found.any(|found| found.as_ref() == Some(content)) {
                return Err(format!("{promise:?} and then not there, or not whole"));
            }
        }
        Ok(())
    }
}
