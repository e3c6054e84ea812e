//! A sink that appends to a journal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use cofferdam::{
    Capabilities, CommitError, Committed, Evidence, Fence, InDoubt, Isolation, JobId, SinkError,
    Sweep, TransactionId, TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};
use serde::{Deserialize, Serialize};

/// A sink that appends lines to a journal.
#[derive(Debug, Clone)]
pub(crate) struct JournalSink {
    pub(crate) folder: PathBuf,
}

/// A handle needs no more than the transaction's id, which the contract gives anyway; the count is for the operator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PreparedBlock {
    lines: usize,
}

/// What marks the end of a block.
pub(crate) const END: &str = "=== ";

impl JournalSink {
    fn journal(&self) -> PathBuf {
        self.folder.join("journal.txt")
    }

    /// Where a block waits for its decision. The name is a pure function of the id, so any process finds it.
    pub(crate) fn prepared(&self, id: &TransactionId) -> PathBuf {
        self.folder
            .join("prepared")
            .join(id.to_string().replace('/', "."))
    }

    fn waiting(&self, id: &TransactionId) -> InDoubt {
        InDoubt::new(id, self.prepared(id).display().to_string())
    }

    /// Every block that is prepared, by the names of its files.
    pub(crate) fn list_prepared(&self) -> io::Result<Vec<TransactionId>> {
        let entries = match fs::read_dir(self.folder.join("prepared")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            // Names of ours have no dots of their own, so this is the way back. What doesn't parse is not ours.
            ids.extend(
                name.to_str()
                    .and_then(|name| name.replace('.', "/").parse().ok()),
            );
        }
        Ok(ids)
    }

    /// Every block that is in the journal, by its end line.
    fn list_committed(&self) -> io::Result<Vec<TransactionId>> {
        let journal = match fs::read_to_string(self.journal()) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            journal => journal?,
        };
        let ends = finished(&journal)
            .lines()
            .filter_map(|line| line.strip_prefix(END));
        Ok(ends.filter_map(|id| id.parse().ok()).collect())
    }

    fn prepare(&self, id: &TransactionId, lines: &[String]) -> io::Result<()> {
        fs::create_dir_all(self.folder.join("prepared"))?;
        let mut file = File::create(self.prepared(id))?;
        for line in lines {
            writeln!(file, "{line}")?;
        }
        // Prepared is a promise: it has to survive the loss of power, with its name.
        file.sync_all()?;
        File::open(self.folder.join("prepared"))?.sync_all()
    }

    /// Appends a prepared block, once, however often and by however many processes it is called.
    fn append(&self, id: &TransactionId) -> io::Result<Option<Committed>> {
        let mut journal = OpenOptions::new();
        let mut journal = journal
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.journal())?;
        journal.lock()?;
        let mut text = String::new();
        journal.read_to_string(&mut text)?;
        // Evidence first: an id that is nowhere prepared may well be committed.
        if text
            .lines()
            .any(|line| line.strip_prefix(END) == Some(&id.to_string()))
        {
            remove(&self.prepared(id))?;
            return Ok(Some(Committed::Before));
        }
        let block = match fs::read_to_string(self.prepared(id)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            block => block?,
        };
        // A committer that died half-way has left half a block behind: it goes, and the whole one takes its place.
        let end = finished(&text).len() as u64;
        journal.set_len(end)?;
        journal.seek(SeekFrom::Start(end))?;
        journal.write_all(format!("{block}{END}{id}\n").as_bytes())?;
        journal.sync_all()?;
        remove(&self.prepared(id))?;
        Ok(Some(Committed::Now))
    }

    /// Does file work where it may block.
    async fn blocking<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Self) -> io::Result<T> + Send + 'static,
    ) -> Result<T, SinkError> {
        let sink = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&sink)).await;
        done.unwrap_or_else(|panic| Err(io::Error::other(panic)))
            .map_err(|cause| {
                let message = format!("can't {what} in {}", self.folder.display());
                match cause.kind() {
                    ErrorKind::PermissionDenied | ErrorKind::StorageFull => {
                        SinkError::configuration(message)
                            .hint("check rights and space of the folder")
                    }
                    _ => SinkError::transient(message),
                }
                .caused_by(cause)
            })
    }
}

/// The part of a journal that readers count: all up to the last end line.
pub(crate) fn finished(journal: &str) -> &str {
    let mut end = 0;
    let mut at = 0;
    for line in journal.split_inclusive('\n') {
        at += line.len();
        if line.starts_with(END) && line.ends_with('\n') {
            end = at;
        }
    }
    journal.get(..end).unwrap_or_default()
}

pub(crate) fn remove(path: &std::path::Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[async_trait]
impl TwoPhaseCommitSinkFunction for JournalSink {
    type Input = String;
    type Transaction = (TransactionId, Vec<String>);
    type Prepared = PreparedBlock;

    fn capabilities(&self) -> Capabilities {
        Capabilities::TRANSACTIONAL
            .with_isolation(Isolation::HiddenIf(
                "leave out what stands below the last line that begins with ===",
            ))
            .with_evidence(Evidence::Ledger)
    }

    async fn begin(&self, id: &TransactionId) -> Result<Self::Transaction, SinkError> {
        Ok((id.clone(), Vec::new()))
    }

    async fn write(
        &self,
        (_, lines): &mut Self::Transaction,
        records: Vec<String>,
    ) -> Result<(), SinkError> {
        if let Some(line) = records
            .iter()
            .find(|line| line.starts_with(END) || line.contains('\n'))
        {
            return Err(SinkError::rejected(format!(
                "{line:?} can't be told from the end of a block"
            )));
        }
        lines.extend(records);
        Ok(())
    }

    async fn pre_commit(
        &self,
        (id, lines): Self::Transaction,
    ) -> Result<Option<PreparedBlock>, SinkError> {
        if lines.is_empty() {
            return Ok(None);
        }
        let prepared = PreparedBlock { lines: lines.len() };
        self.blocking("prepare a block", move |sink| sink.prepare(&id, &lines))
            .await?;
        Ok(Some(prepared))
    }

    async fn commit(
        &self,
        id: &TransactionId,
        _: &PreparedBlock,
    ) -> Result<Committed, CommitError> {
        let ours = id.clone();
        let appended = self
            .blocking("append a block", move |sink| sink.append(&ours))
            .await?;
        appended.ok_or_else(|| {
            CommitError::Lost(format!(
                "{} is not there, and {} has no end line of it",
                self.prepared(id).display(),
                self.journal().display()
            ))
        })
    }

    async fn abort(
        &self,
        unfinished: Unfinished<Self::Transaction, PreparedBlock>,
    ) -> Result<(), SinkError> {
        match unfinished {
            // Nothing of it is anywhere but in the value that is dropped here.
            Unfinished::Open(..) => Ok(()),
            Unfinished::Prepared(id, _) => {
                let committed = self
                    .blocking("read the journal", Self::list_committed)
                    .await?;
                if committed.contains(&id) {
                    return Err(SinkError::rejected(format!("{id} is in the journal")));
                }
                self.blocking("remove a block", move |sink| remove(&sink.prepared(&id)))
                    .await
            }
        }
    }

    async fn abort_stale(&self, fence: &Fence<PreparedBlock>) -> Result<Vec<InDoubt>, SinkError> {
        let mut ids = self.blocking("list blocks", Self::list_prepared).await?;
        ids.retain(|id| id.job == fence.job && id.sink == fence.sink);
        let mut committed = self
            .blocking("read the journal", Self::list_committed)
            .await?;
        committed.retain(|id| id.job == fence.job && id.sink == fence.sink);
        for id in ids.iter().chain(&committed) {
            fence.check(id.epoch, id)?;
        }
        let newer = committed
            .iter()
            .find(|id| Some(id.checkpoint) > fence.newest);
        // Its records would be written again: somebody has lost the checkpoints that belong to this journal.
        if let (Sweep::Recovery, Some(newer)) = (fence.sweep, newer) {
            let message = format!("{newer} is in the journal, and no checkpoint knows of it");
            return Err(SinkError::configuration(message)
                .hint("bring back its checkpoints, or begin a new journal"));
        }
        let decided = |id: &TransactionId| fence.decided.iter().any(|(decided, _)| decided == id);
        ids.retain(|id| id.epoch < fence.epoch && !decided(id));
        let stale = ids.iter().map(|id| self.waiting(id)).collect();
        let remove_all =
            move |sink: &Self| ids.iter().try_for_each(|id| remove(&sink.prepared(id)));
        self.blocking("remove stale blocks", remove_all).await?;
        Ok(stale)
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        let ids = self.blocking("list blocks", Self::list_prepared).await?;
        let ours = ids.iter().filter(|id| id.job == *job);
        Ok(ours.map(|id| self.waiting(id)).collect())
    }
}
