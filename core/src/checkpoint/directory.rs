//! A checkpoint store in a directory: survives the death of the process and the loss of power.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::store::{CheckpointStore, Create, StoreError};

/// Where objects are written before they get their name. Never listed.
const ASIDE: &str = ".aside";

/// Keeps checkpoints in a directory of a local file system (Linux, macOS).
///
/// An object is written aside, synced, and then given its name by a hard link, which fails if the name is taken: so an
/// object is never seen in part, and of two processes that race one wins. File and folder are synced before
/// [`create`](CheckpointStore::create) returns. A directory belongs to one job.
#[derive(Debug, Clone)]
pub struct DirectoryCheckpointStore {
    root: Arc<Path>,
    /// Sets the aside files of this process apart from those of others.
    nonce: u64,
    next_aside: Arc<AtomicU64>,
    /// Folders that are synced up to the root.
    durable: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl DirectoryCheckpointStore {
    /// A store in `root`, which is created if it is missing.
    ///
    /// # Errors
    /// If the directory can't be created or listed.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root: PathBuf = root.into();
        let store = Self {
            root: root.into(),
            nonce: RandomState::new().hash_one(std::process::id()),
            next_aside: Arc::default(),
            durable: Arc::default(),
        };
        let aside = store.root.join(ASIDE);
        fs::create_dir_all(&aside)
            .and_then(|()| sync_names(&aside))
            .and_then(|()| store.clear_aside())
            .map_err(|error| store.error("open", "", error))?;
        Ok(store)
    }

    /// Removes what died between writing aside and linking. A process that races with this one, and loses an aside
    /// file to it, gets an error from `create`, reads back, and tries again.
    fn clear_aside(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join(ASIDE))? {
            remove_if_there(&entry?.path())?;
        }
        Ok(())
    }

    fn create_blocking(&self, name: &str, bytes: &[u8]) -> io::Result<Create> {
        let target = self.root.join(name);
        let folder = target.parent().unwrap_or(&self.root);
        if !self.is_durable(folder) {
            fs::create_dir_all(folder)?;
            for around in folder.ancestors().skip(1) {
                if around.starts_with(&self.root) {
                    sync_folder(around)?;
                }
            }
            self.durable().insert(folder.to_owned());
        }
        let number = self.next_aside.fetch_add(1, Ordering::Relaxed);
        let aside = self
            .root
            .join(ASIDE)
            .join(format!("{:016x}-{number}", self.nonce));
        let written = write_synced(&aside, bytes).and_then(|()| link(&aside, &target));
        let removed = remove_if_there(&aside);
        let created = written?;
        removed?;
        // Also when it existed: its creator may have died between link and sync, and "exists" is as final as "created".
        sync_folder(folder)?;
        Ok(created)
    }

    /// Whether a folder is known to survive power loss. That it exists does not say so: another thread or process may
    /// have created it just now, and not synced it yet.
    fn is_durable(&self, folder: &Path) -> bool {
        self.durable().contains(folder)
    }

    fn durable(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        // Whole between calls, so a panic elsewhere does not spoil it.
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list_blocking(&self, prefix: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        self.list_into(prefix, &mut names)?;
        names.sort_unstable();
        Ok(names)
    }

    fn list_into(&self, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
        let entries = match fs::read_dir(self.root.join(prefix)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // A name that is not UTF-8, or is hidden, can't be one of ours.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            if entry.file_type()?.is_dir() {
                self.list_into(&format!("{prefix}{name}/"), names)?;
            } else {
                names.push(format!("{prefix}{name}"));
            }
        }
        Ok(())
    }

    fn error(&self, action: &'static str, name: &str, cause: io::Error) -> StoreError {
        let (retriable, hint) = match cause.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => (
                false,
                Some("give this user the right to read and write there"),
            ),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => (
                false,
                Some("free some space, then start the job again: it goes on where it was"),
            ),
            ErrorKind::NotADirectory | ErrorKind::IsADirectory | ErrorKind::AlreadyExists => (
                false,
                Some("the checkpoint store needs a folder of its own"),
            ),
            _ => (true, None),
        };
        let object = self.root.join(name).display().to_string();
        StoreError {
            action,
            object,
            retriable,
            hint,
            cause: cause.into(),
        }
    }

    /// Runs file work where it may block.
    async fn blocking<T: Send + 'static>(
        &self,
        action: &'static str,
        name: &str,
        work: impl FnOnce(&Self, &str) -> io::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (store, owned) = (self.clone(), name.to_owned());
        tokio::task::spawn_blocking(move || work(&store, &owned))
            .await
            .unwrap_or_else(|panic| Err(io::Error::other(panic)))
            .map_err(|error| self.error(action, name, error))
    }
}

#[async_trait]
impl CheckpointStore for DirectoryCheckpointStore {
    async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<Create, StoreError> {
        self.blocking("create", name, move |store, name| {
            store.create_blocking(name, &bytes)
        })
        .await
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let read = |store: &Self, name: &str| match fs::read(store.root.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        self.blocking("read", name, read).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.blocking("list", prefix, Self::list_blocking).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.blocking("delete", name, |store, name| {
            remove_if_there(&store.root.join(name))
        })
        .await
    }

    fn location(&self) -> String {
        self.root.display().to_string()
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn link(from: &Path, to: &Path) -> io::Result<Create> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(Create::Created),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Create::Exists),
        Err(error) => Err(error),
    }
}

/// Makes the name of a folder durable, and the names of all around it.
///
/// That they exist does not say that they are: whoever created them may have died, or not come to sync them yet.
fn sync_names(folder: &Path) -> io::Result<()> {
    for around in folder.canonicalize()?.ancestors().skip(1) {
        // Where a file system is mounted is not written in it.
        if !on_one_file_system(around, folder)? {
            break;
        }
        match sync_folder(around) {
            // Whoever may not read a folder has not created what is in it.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    Ok(())
}

#[cfg(unix)]
fn on_one_file_system(one: &Path, other: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(fs::metadata(one)?.dev() == fs::metadata(other)?.dev())
}

#[cfg(not(unix))]
fn on_one_file_system(_: &Path, _: &Path) -> io::Result<bool> {
    Ok(true)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
