//! The folders of an open store, held so that a removed or replaced one is noticed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A folder of the store was removed or replaced while the store was open.
#[derive(Debug, thiserror::Error)]
#[error("{} was removed or replaced while the checkpoint store was open", .0.display())]
pub(super) struct Vanished(PathBuf);

/// The folders that an open store has found or made.
///
/// An open file keeps its inode in use, so a folder that takes the place of a held one never has the same number.
#[derive(Debug, Default)]
pub(super) struct HeldFolders(Mutex<BTreeMap<PathBuf, Held>>);

#[derive(Debug)]
struct Held {
    file: File,
    durable: bool,
}

impl HeldFolders {
    /// Holds a folder from now on, unless it is missing or already held.
    pub(super) fn hold(&self, folder: &Path) -> io::Result<()> {
        let mut held = self.held();
        if held.contains_key(folder) {
            return Ok(());
        }
        let file = match File::open(folder) {
            Err(error) if is_missing(&error) => return Ok(()),
            file => file?,
        };
        if file.metadata()?.is_dir() {
            let durable = false;
            held.insert(folder.to_owned(), Held { file, durable });
        }
        Ok(())
    }

    pub(super) fn is_held(&self, folder: &Path) -> bool {
        self.held().contains_key(folder)
    }

    /// Returns whether a folder is known to survive power loss. That it exists does not say so: another thread or process may
    /// have created it just now, and not synced it yet.
    pub(super) fn is_durable(&self, folder: &Path) -> bool {
        self.held().get(folder).is_some_and(|held| held.durable)
    }

    pub(super) fn set_durable(&self, folder: &Path) {
        if let Some(held) = self.held().get_mut(folder) {
            held.durable = true;
        }
    }

    /// Checks that the path of a folder, if it is held, still leads to that folder.
    ///
    /// # Errors
    /// [`Vanished`], if it does not.
    pub(super) fn check(&self, folder: &Path) -> io::Result<()> {
        match self.held().get(folder) {
            Some(held) if !leads_to(folder, &held.file)? => {
                Err(io::Error::other(Vanished(folder.to_owned())))
            }
            _ => Ok(()),
        }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Held>> {
        // Whole between calls, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn leads_to(path: &Path, file: &File) -> io::Result<bool> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(same(&found, &file.metadata()?)),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn same(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn same(one: &std::fs::Metadata, _: &std::fs::Metadata) -> bool {
    one.is_dir()
}
