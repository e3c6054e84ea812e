use std::path::PathBuf;
use std::{fs, io};

use cofferdam::{
    Capabilities, CommitError, Committed, Fence, InDoubt, Isolation, JobId, SinkError,
    TransactionId, TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};

/// Lines in files of a folder, one file a transaction.
#[derive(Debug, Clone)]
pub struct FolderSink {
    pub folder: PathBuf,
}

impl FolderSink {
    fn staged(&self, id: &TransactionId) -> PathBuf {
        self.folder
            .join(format!("_staged.{}", id.to_string().replace('/', ".")))
    }

    fn visible(&self, id: &TransactionId) -> PathBuf {
        self.folder.join(id.to_string().replace('/', "."))
    }

    fn waiting(&self, id: &TransactionId) -> InDoubt {
        InDoubt::new(id, self.staged(id).display().to_string())
    }

    fn list_staged(&self) -> io::Result<Vec<TransactionId>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|name| name.strip_prefix("_staged."));
            ids.extend(name.and_then(|name| name.replace('.', "/").parse().ok()));
        }
        Ok(ids)
    }
}

fn failed(cause: io::Error) -> SinkError {
    SinkError::transient("the folder can't be used").caused_by(cause)
}

/// Removing what is not there is done already.
fn remove(path: PathBuf) -> Result<(), SinkError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}

#[async_trait]
impl TwoPhaseCommitSinkFunction for FolderSink {
    type Input = String;
    type Transaction = (TransactionId, String);
    type Prepared = ();

    fn capabilities(&self) -> Capabilities {
        Capabilities::TRANSACTIONAL
            .with_isolation(Isolation::HiddenIf("leave out names that begin with _"))
            .with_refuses_older_state(false)
    }

    async fn begin(&self, id: &TransactionId) -> Result<Self::Transaction, SinkError> {
        Ok((id.clone(), String::new()))
    }

    async fn write(
        &self,
        (_, text): &mut Self::Transaction,
        lines: Vec<String>,
    ) -> Result<(), SinkError> {
        for line in lines {
            text.push_str(&line);
            text.push('\n');
        }
        Ok(())
    }

    async fn pre_commit(&self, (id, text): Self::Transaction) -> Result<Option<()>, SinkError> {
        if text.is_empty() {
            return Ok(None);
        }
        fs::write(self.staged(&id), text).map_err(failed)?;
        Ok(Some(()))
    }

    async fn commit(&self, id: &TransactionId, (): &()) -> Result<Committed, CommitError> {
        match fs::rename(self.staged(id), self.visible(id)) {
            Ok(()) => Ok(Committed::Now),
            // Not staged proves nothing: look for the evidence.
            Err(_) if self.visible(id).exists() => Ok(Committed::Before),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(CommitError::Lost(
                format!("{id} is neither staged nor visible"),
            )),
            Err(error) => Err(failed(error).into()),
        }
    }

    async fn abort(&self, unfinished: Unfinished<Self::Transaction, ()>) -> Result<(), SinkError> {
        match unfinished {
            // It is nowhere but in the value that is dropped here.
            Unfinished::Open(..) => Ok(()),
            Unfinished::Prepared(id, ()) if self.visible(&id).exists() => {
                Err(SinkError::rejected(format!("{id} is committed")))
            }
            Unfinished::Prepared(id, ()) => remove(self.staged(&id)),
        }
    }

    async fn abort_stale(&self, fence: &Fence<()>) -> Result<Vec<InDoubt>, SinkError> {
        let mut stale = self.list_staged().map_err(failed)?;
        stale.retain(|id| id.job == fence.job && id.sink == fence.sink);
        for id in &stale {
            fence.check(id.epoch, id)?;
        }
        let decided = |id: &TransactionId| fence.decided.iter().any(|(decided, ())| decided == id);
        stale.retain(|id| id.epoch < fence.epoch && !decided(id));
        for id in &stale {
            remove(self.staged(id))?;
        }
        Ok(stale.iter().map(|id| self.waiting(id)).collect())
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        let ids = self.list_staged().map_err(failed)?;
        let ours = ids.iter().filter(|id| id.job == *job);
        Ok(ours.map(|id| self.waiting(id)).collect())
    }
}
