//! A checkpoint store in a directory: survives the death of the process and the loss of power.

mod held;

use std::error::Error as StdError;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;

use self::held::{HeldFolders, Vanished};
use super::name::{check_object_name, check_object_prefix};
use super::store::{CheckpointStore, Create, StoreError};

/// Where objects are written before they get their name. Never listed.
const ASIDE: &str = ".aside";

/// Keeps checkpoints in a directory of a local file system (Linux, macOS).
///
/// An object is written aside, synced, and then given its name by a hard link, which fails if the name is taken: so an
/// object is never seen in part, and of two processes that race one wins. File and folder are synced before
/// [`create`](CheckpointStore::create) returns. A directory belongs to one job.
///
/// A directory that is removed or replaced while the store is open is an error from then on. The store never makes it
/// again.
#[derive(Debug, Clone)]
pub struct DirectoryCheckpointStore {
    root: Arc<Path>,
    /// Sets the aside files of this process apart from those of others.
    nonce: u64,
    next_aside: Arc<AtomicU64>,
    /// Folders that this store has found or made. None is made twice: a new one would begin the log from nothing.
    held: Arc<HeldFolders>,
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
            held: Arc::default(),
        };
        let aside = store.root.join(ASIDE);
        fs::create_dir_all(&aside)
            .and_then(|()| sync_names(&aside))
            .and_then(|()| store.clear_aside())
            .and_then(|()| store.held.hold(&aside))
            .and_then(|()| store.held.hold(&store.root))
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
        if !self.held.is_durable(folder) {
            self.make(folder)?;
            for around in folder.ancestors().skip(1) {
                if around.starts_with(&self.root) {
                    sync_folder(around)?;
                }
            }
            self.held.set_durable(folder);
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

    /// Makes a folder below the root, and those around it. Neither the root nor a held folder is ever made again.
    fn make(&self, folder: &Path) -> io::Result<()> {
        if folder == self.root.as_ref() || self.held.is_held(folder) {
            return Ok(());
        }
        self.make(folder.parent().unwrap_or(&self.root))?;
        match fs::create_dir(folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made?,
        }
        self.held.hold(folder)
    }

    /// Checks that the folders of an operation are those that this store opened or made.
    fn check(&self, folder: &Path) -> io::Result<()> {
        self.held.check(&self.root)?;
        self.held.check(&self.root.join(ASIDE))?;
        self.held.check(folder)
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
            // A name that is not UTF-8, or that no object may have, is not one of ours.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let name = format!("{prefix}{name}");
            if check_object_name(&name).is_err() {
                continue;
            }
            if entry.file_type()?.is_dir() {
                self.list_into(&format!("{name}/"), names)?;
            } else {
                names.push(name);
            }
        }
        Ok(())
    }

    fn error(&self, action: &'static str, name: &str, cause: io::Error) -> StoreError {
        let vanished = cause
            .get_ref()
            .is_some_and(<dyn StdError + Send + Sync>::is::<Vanished>);
        let (retriable, hint) = match cause.kind() {
            _ if vanished => (
                false,
                Some(
                    "bring the folder back, then start the job again; without it the job starts from nothing",
                ),
            ),
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

    /// Runs file work on an object, or on all objects of a folder, where it may block.
    ///
    /// What is found or written in a folder that was removed or replaced counts for nothing, so the folders are checked
    /// after the work, too.
    async fn blocking<T: Send + 'static>(
        &self,
        action: &'static str,
        name: &str,
        work: impl FnOnce(&Self, &str) -> io::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (store, owned) = (self.clone(), name.to_owned());
        let work = move || {
            let folder = match owned.rsplit_once('/') {
                Some((folder, _)) => store.root.join(folder),
                None => store.root.to_path_buf(),
            };
            store.held.hold(&folder)?;
            store.check(&folder)?;
            let done = work(&store, &owned);
            store.check(&folder)?;
            done
        };
        tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|panic| Err(io::Error::other(panic)))
            .map_err(|error| self.error(action, name, error))
    }
}

#[async_trait]
impl CheckpointStore for DirectoryCheckpointStore {
    async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<Create, StoreError> {
        check_object_name(name).map_err(StoreError::refused_name("create", self.location()))?;
        self.blocking("create", name, move |store, name| {
            store.create_blocking(name, &bytes)
        })
        .await
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        check_object_name(name).map_err(StoreError::refused_name("read", self.location()))?;
        let read = |store: &Self, name: &str| match fs::read(store.root.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        self.blocking("read", name, read).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        check_object_prefix(prefix).map_err(StoreError::refused_name("list", self.location()))?;
        self.blocking("list", prefix, Self::list_blocking).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        check_object_name(name).map_err(StoreError::refused_name("delete", self.location()))?;
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
