use std::io;
use std::path::PathBuf;

use cofferdam::{Capabilities, Isolation, SinkError, StagingStore, async_trait};
use tokio::fs::{self, File};

/// Lines in files of a folder, one file a transaction.
#[derive(Debug, Clone)]
pub struct Folder {
    pub path: PathBuf,
}

impl Folder {
    fn staged_file(&self, name: &str) -> PathBuf {
        self.path.join(format!("_staged.{name}"))
    }

    /// Makes the names in the folder durable.
    async fn sync(&self) -> Result<(), SinkError> {
        let folder = File::open(&self.path).await.map_err(failed)?;
        folder.sync_all().await.map_err(failed)
    }
}

fn failed(cause: io::Error) -> SinkError {
    SinkError::transient("the folder can't be used").caused_by(cause)
}

/// Returns `false` if there was no file to rename or to remove.
fn found(done: io::Result<()>) -> Result<bool, SinkError> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        done => done.map(|()| true).map_err(failed),
    }
}

#[async_trait]
impl StagingStore for Folder {
    type Input = String;

    fn capabilities(&self) -> Capabilities {
        Capabilities::TRANSACTIONAL
            .with_isolation(Isolation::HiddenIf("leave out names that begin with _"))
    }

    fn location(&self) -> String {
        self.path.display().to_string()
    }

    async fn stage(&self, name: &str, lines: Vec<String>) -> Result<(), SinkError> {
        let path = self.staged_file(name);
        let text = lines.join("\n") + "\n";
        fs::write(&path, text).await.map_err(failed)?;
        let file = File::open(&path).await.map_err(failed)?;
        file.sync_all().await.map_err(failed)?;
        self.sync().await
    }

    async fn publish(&self, name: &str) -> Result<bool, SinkError> {
        let renamed = fs::rename(self.staged_file(name), self.path.join(name)).await;
        let published = found(renamed)?;
        // Also if another process has renamed it: that one may have died before it came to this.
        self.sync().await?;
        Ok(published)
    }

    async fn discard(&self, name: &str) -> Result<(), SinkError> {
        found(fs::remove_file(self.staged_file(name)).await).map(drop)
    }

    async fn staged(&self, _: &str) -> Result<Vec<String>, SinkError> {
        let names = self.published("").await?.into_iter();
        let staged = names.filter_map(|name| Some(name.strip_prefix("_staged.")?.to_owned()));
        Ok(staged.collect())
    }

    async fn published(&self, _: &str) -> Result<Vec<String>, SinkError> {
        let mut names = Vec::new();
        let mut entries = fs::read_dir(&self.path).await.map_err(failed)?;
        while let Some(entry) = entries.next_entry().await.map_err(failed)? {
            // Names that are not those of transactions, `_staged.…` among them, are left alone.
            names.extend(entry.file_name().into_string());
        }
        Ok(names)
    }
}
