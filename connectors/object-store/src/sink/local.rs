//! The output folder on a local file system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

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
}

impl Folder {
    pub(super) fn new(root: PathBuf) -> Self {
        let staging = root.join(STAGING);
        Self { root, staging }
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

    /// Creates a staged file, and the folders around it. Never opens one that exists.
    pub(super) fn create(&self, name: &str) -> Result<File, SinkError> {
        let path = self.staged(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let created = match options.open(&path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                ensure_folder(&self.staging)?;
                options.open(&path)
            }
            created => created,
        };
        created.map_err(|cause| match cause.kind() {
            // An id belongs to one epoch, and an epoch to one process; the runtime begins no id twice. So this file
            // is another process's, which can't be told dead from here: stop, and leave the file alone.
            io::ErrorKind::AlreadyExists => SinkError::fenced(format!(
                "another process has begun this very transaction: {} exists",
                path.display()
            ))
            .hint("two runs of the job share an epoch: let them share one checkpoint store, and start the job again")
            .caused_by(cause),
            _ => sink_error("create", &path, cause),
        })
    }

    /// Makes the names of staged files durable.
    pub(super) fn sync_staging(&self) -> Result<(), SinkError> {
        sync_folder(&self.staging)
    }

    /// Makes the names of published files, and of the staging folder, durable.
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

/// Creates a folder with those around it, each durable: a file in a folder that a power cut takes away is gone too.
fn ensure_folder(folder: &Path) -> Result<(), SinkError> {
    let failed = |cause| sink_error("create the folder", folder, cause);
    match fs::create_dir(folder) {
        Ok(()) => {}
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {
            return Ok(());
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            let Some(parent) = parent(folder) else {
                return Err(failed(cause));
            };
            ensure_folder(parent)?;
            match fs::create_dir(folder) {
                // Another subtask was quicker.
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
                created => created.map_err(failed)?,
            }
        }
        Err(cause) => return Err(failed(cause)),
    }
    sync_folder(parent(folder).unwrap_or(Path::new(".")))
}

/// The folder around a path. That of a bare name is the current one, which exists.
fn parent(path: &Path) -> Option<&Path> {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
}

fn sync_folder(folder: &Path) -> Result<(), SinkError> {
    // Elsewhere folders can't be opened; there the file system alone answers for names.
    if cfg!(not(unix)) {
        return Ok(());
    }
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|cause| sink_error("sync the folder", folder, cause))
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
