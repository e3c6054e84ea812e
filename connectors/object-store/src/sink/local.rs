//! The output folder on a local file system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cofferdam::{SinkError, TransactionId};

use super::name;
use super::transaction::StagedFile;
use crate::error::sink_error;

/// Where files wait for the decision. Its name tells readers to pass it over.
const STAGING: &str = "_staging";

/// What a file holds, for comparison with a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) bytes: u64,
    pub(super) crc32: u32,
}

impl From<&StagedFile> for Content {
    fn from(handle: &StagedFile) -> Self {
        Self {
            bytes: handle.bytes,
            crc32: handle.crc32,
        }
    }
}

/// The output folder, with the folder for staged files in it. All its methods block.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    root: PathBuf,
    staging: PathBuf,
    /// Whether the names of both, and of all folders around them, are known to survive power loss.
    durable: Arc<AtomicBool>,
}

impl Folder {
    pub(super) fn new(root: PathBuf) -> Self {
        let staging = root.join(STAGING);
        Self {
            root,
            staging,
            durable: Arc::default(),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn staging(&self) -> &Path {
        &self.staging
    }

    /// Where a file is before commit.
    pub(super) fn staged(&self, name: &str) -> PathBuf {
        self.staging.join(name)
    }

    /// Where a file is after commit.
    pub(super) fn published(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Creates a staged file, and the folders around it, which are durable then. Never opens a file that exists.
    pub(super) fn create(&self, name: &str) -> Result<File, SinkError> {
        let path = self.staged(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let mut created = options.open(&path);
        let missing = matches!(&created, Err(cause) if cause.kind() == io::ErrorKind::NotFound);
        if missing {
            fs::create_dir_all(&self.staging)
                .map_err(|cause| sink_error("create the folder", &self.staging, cause))?;
            created = options.open(&path);
        }
        let file = created.map_err(|cause| match cause.kind() {
            // An id belongs to one epoch, and an epoch to one process; the runtime begins no id twice. So this file
            // is another process's, which can't be told dead from here: stop, and leave the file alone.
            io::ErrorKind::AlreadyExists => SinkError::fenced(format!(
                "another process has begun this very transaction: {} exists",
                path.display()
            ))
            .hint("two runs of the job share an epoch: let them share one checkpoint store, and start the job again")
            .caused_by(cause),
            _ => sink_error("create", &path, cause),
        })?;
        if missing || !self.durable.load(Ordering::SeqCst) {
            sync_names(&self.staging)?;
            self.durable.store(true, Ordering::SeqCst);
        }
        Ok(file)
    }

    /// Makes the names of staged files durable.
    pub(super) fn sync_staging(&self) -> Result<(), SinkError> {
        sync_folder(&self.staging)
    }

    /// Makes the names of published files durable.
    pub(super) fn sync_root(&self) -> Result<(), SinkError> {
        sync_folder(&self.root)
    }

    /// Whether there is a folder for staged files: without it, a missing file proves nothing.
    pub(super) fn is_there(&self) -> Result<bool, SinkError> {
        exists(&self.staging)
    }

    /// The transactions of the staged files, with the files' names. Other names are not ours.
    pub(super) fn list_staged(&self) -> Result<Vec<(TransactionId, String)>, SinkError> {
        list(&self.staging)
    }

    /// The transactions of the published files, with the files' names. Other names are not ours.
    pub(super) fn list_published(&self) -> Result<Vec<(TransactionId, String)>, SinkError> {
        list(&self.root)
    }
}

/// Reads a file through; `None` if there is none.
pub(super) fn content(path: &Path) -> Result<Option<Content>, SinkError> {
    let failed = |cause| sink_error("read", path, cause);
    let mut file = match File::open(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let mut crc = crc32fast::Hasher::new();
    let mut bytes = 0;
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => {
                return Ok(Some(Content {
                    bytes,
                    crc32: crc.finalize(),
                }));
            }
            Ok(read) => {
                bytes += read as u64;
                crc.update(&buffer[..read]);
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(failed(cause)),
        }
    }
}

/// Removes a file; `false` if there was none.
pub(super) fn remove(path: &Path) -> Result<bool, SinkError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(sink_error("remove", path, cause)),
    }
}

pub(super) fn exists(path: &Path) -> Result<bool, SinkError> {
    path.try_exists()
        .map_err(|cause| sink_error("look up", path, cause))
}

/// Makes the name of a folder durable, and the names of all around it: a file in a folder that a power cut takes away is
/// gone too.
///
/// That they exist does not say that they are: whoever created them may have died, or not come to sync them yet.
fn sync_names(folder: &Path) -> Result<(), SinkError> {
    let failed = |cause| sink_error("look up", folder, cause);
    for around in folder.canonicalize().map_err(failed)?.ancestors().skip(1) {
        // Where a file system is mounted is not written in it.
        if !on_one_file_system(around, folder).map_err(failed)? {
            break;
        }
        match open_and_sync(around) {
            // Whoever may not read a folder has not created what is in it.
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced.map_err(|cause| sink_error("sync the folder", around, cause))?,
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

fn sync_folder(folder: &Path) -> Result<(), SinkError> {
    open_and_sync(folder).map_err(|cause| sink_error("sync the folder", folder, cause))
}

fn open_and_sync(folder: &Path) -> io::Result<()> {
    // Elsewhere folders can't be opened; there the file system alone answers for names.
    if cfg!(not(unix)) {
        return Ok(());
    }
    File::open(folder)?.sync_all()
}

fn list(folder: &Path) -> Result<Vec<(TransactionId, String)>, SinkError> {
    let failed = |cause| sink_error("list", folder, cause);
    let entries = match fs::read_dir(folder) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let file_name = entry.file_name();
        let Some(file_name) = file_name.to_str() else {
            continue;
        };
        let Some(id) = name::parse(file_name) else {
            continue;
        };
        if entry.file_type().map_err(failed)?.is_file() {
            found.push((id, file_name.to_owned()));
        }
    }
    found.sort();
    Ok(found)
}
