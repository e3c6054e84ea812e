//! The sink of staged files.

mod encoder;
mod local;
mod name;
mod settle;
mod transaction;

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use cofferdam::{
    Capabilities, CommitError, Committed, Fence, InDoubt, Isolation, JobId, SinkError,
    TransactionId, TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};
use serde::Serialize;

use self::local::Folder;
pub use self::transaction::{StagedFile, StagedTransaction};
use crate::blocking::blocking;
use crate::format::Format;

/// Writes one file for each transaction, which becomes visible as a whole.
///
/// A file is written in the folder `_staging` within the output folder; `commit` gives it its name in the output
/// folder. The name tells whose it is: `<job>.<sink>.<epoch>.<subtask>.<checkpoint>.<extension>`.
///
/// # Errors
/// * [`Fenced`](cofferdam::ErrorKind::Fenced): a newer run is at work, or another process under the same epoch: the
///   file of a transaction to begin is there already. It is left alone.
/// * [`Configuration`](cofferdam::ErrorKind::Configuration): the disk is full, a right or a folder is missing, or the
///   output folder holds files of a run that the checkpoint store doesn't know.
/// * [`Rejected`](cofferdam::ErrorKind::Rejected): a record that the format can't hold; a handle that names a file of
///   another transaction.
pub struct StagedFileSink<T> {
    folder: Folder,
    format: Format,
    records: PhantomData<fn(T)>,
}

impl<T: Serialize + Send + 'static> StagedFileSink<T> {
    /// Writes JSON Lines: one value a line.
    pub fn json_lines(folder: impl Into<PathBuf>) -> Self {
        Self::new(folder.into(), Format::JsonLines)
    }

    /// Writes CSV: the names of the fields of `T` as header line, then one record a line. `T` must be a flat struct.
    pub fn csv(folder: impl Into<PathBuf>) -> Self {
        Self::new(folder.into(), Format::Csv)
    }

    fn new(root: PathBuf, format: Format) -> Self {
        Self {
            folder: Folder::new(root),
            format,
            records: PhantomData,
        }
    }
}

impl<T> fmt::Debug for StagedFileSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedFileSink")
            .field("folder", &self.folder.root())
            .field("format", &self.format)
            .finish()
    }
}

#[async_trait]
impl<T: Serialize + Send + 'static> TwoPhaseCommitSinkFunction for StagedFileSink<T> {
    type Input = T;
    type Transaction = StagedTransaction;
    type Prepared = StagedFile;

    fn capabilities(&self) -> Capabilities {
        Capabilities::TRANSACTIONAL.with_isolation(Isolation::HiddenIf(
            "leave out names that begin with _ or ., as readers of file sets do",
        ))
    }

    async fn begin(&self, id: &TransactionId) -> Result<StagedTransaction, SinkError> {
        let (folder, format, id) = (self.folder.clone(), self.format, id.clone());
        blocking(move || begin(&folder, format, id)).await
    }

    async fn write(
        &self,
        transaction: &mut StagedTransaction,
        records: Vec<T>,
    ) -> Result<(), SinkError> {
        transaction.write(records).await
    }

    async fn pre_commit(
        &self,
        mut transaction: StagedTransaction,
    ) -> Result<Option<StagedFile>, SinkError> {
        let folder = self.folder.clone();
        blocking(move || {
            let prepared = pre_commit(&folder, &mut transaction);
            // Without a handle nobody will ask for the file. If it can't be removed, it is left to `abort_stale`.
            if !matches!(prepared, Ok(Some(_)))
                && let Err(error) = local::remove(&transaction.path)
            {
                tracing::warn!(%error, "a file that is not needed is still staged");
            }
            prepared
        })
        .await
    }

    async fn commit(
        &self,
        id: &TransactionId,
        prepared: &StagedFile,
    ) -> Result<Committed, CommitError> {
        let (folder, id, prepared) = (self.folder.clone(), id.clone(), prepared.clone());
        blocking(move || settle::publish(&folder, &id, &prepared)).await
    }

    async fn abort(
        &self,
        unfinished: Unfinished<StagedTransaction, StagedFile>,
    ) -> Result<(), SinkError> {
        let folder = self.folder.clone();
        blocking(move || match unfinished {
            Unfinished::Open(_, transaction) => {
                let path = transaction.path.clone();
                // Closed first: some systems don't remove open files.
                drop(transaction);
                local::remove(&path).map(|_| ())
            }
            Unfinished::Prepared(id, prepared) => settle::withdraw(&folder, &id, &prepared),
        })
        .await
    }

    async fn abort_stale(&self, fence: &Fence<StagedFile>) -> Result<Vec<InDoubt>, SinkError> {
        let (folder, fence) = (self.folder.clone(), fence.clone());
        blocking(move || settle::sweep(&folder, &fence)).await
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        let (folder, job) = (self.folder.clone(), job.clone());
        blocking(move || in_doubt(&folder, &job)).await
    }
}

fn begin(
    folder: &Folder,
    format: Format,
    id: TransactionId,
) -> Result<StagedTransaction, SinkError> {
    if id.job.as_str().starts_with('_') {
        return Err(SinkError::configuration(format!(
            "readers pass over names that begin with `_`, and so over the files of job {}",
            id.job
        ))
        .hint("choose a job id that begins otherwise"));
    }
    let name = name::file_name(&id, format);
    if local::exists(&folder.published(&name))? {
        return Err(settle::newer_output(folder, &id, &name));
    }
    let file = folder.create(&name)?;
    let path = folder.staged(&name);
    Ok(StagedTransaction::new(id, name, path, file, format))
}

fn pre_commit(
    folder: &Folder,
    transaction: &mut StagedTransaction,
) -> Result<Option<StagedFile>, SinkError> {
    let Some(prepared) = transaction.finish()? else {
        return Ok(None);
    };
    folder.sync_staging()?;
    // A newer epoch may have swept the file while it was written: an open file outlives its name.
    if local::exists(&transaction.path)? {
        Ok(Some(prepared))
    } else {
        Err(SinkError::fenced(format!(
            "{} was removed while it was written",
            transaction.path.display()
        ))
        .hint("a newer run of the job has swept it"))
    }
}

fn in_doubt(folder: &Folder, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
    let mut found = Vec::new();
    for (id, name) in folder.list_staged()? {
        // A second name of published data is in no doubt.
        if id.job == *job && !local::exists(&folder.published(&name))? {
            found.push(InDoubt::new(
                &id,
                folder.staged(&name).display().to_string(),
            ));
        }
    }
    Ok(found)
}
