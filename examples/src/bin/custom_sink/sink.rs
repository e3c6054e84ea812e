//! The sink: a journal as a staging store.

use std::io::{self, ErrorKind};

use cofferdam::{Capabilities, Evidence, Isolation, SinkError, StagingStore, async_trait};
use tokio::task::spawn_blocking;

use super::journal::{END, Journal};

/// Does work on a journal, on a thread that may block.
async fn blocking<T: Send + 'static>(
    journal: &Journal,
    work: impl FnOnce(Journal) -> io::Result<T> + Send + 'static,
) -> Result<T, SinkError> {
    let (journal, location) = (journal.clone(), journal.location());
    let done = spawn_blocking(move || work(journal)).await;
    let done = done.unwrap_or_else(|panic| Err(io::Error::other(panic)));
    done.map_err(|cause| {
        let message = format!("can't use the journal in {location}");
        match cause.kind() {
            ErrorKind::PermissionDenied | ErrorKind::StorageFull => {
                SinkError::configuration(message)
            }
            _ => SinkError::transient(message),
        }
        .caused_by(cause)
    })
}

#[async_trait]
impl StagingStore for Journal {
    type Input = String;

    fn capabilities(&self) -> Capabilities {
        let setting = "leave out what stands below the last line that begins with ===";
        Capabilities::TRANSACTIONAL
            .with_isolation(Isolation::HiddenIf(setting))
            .with_evidence(Evidence::Ledger)
    }

    fn location(&self) -> String {
        self.folder().display().to_string()
    }

    async fn stage(&self, name: &str, lines: Vec<String>) -> Result<(), SinkError> {
        let odd = |line: &&String| line.starts_with(END) || line.contains('\n');
        if let Some(line) = lines.iter().find(odd) {
            let message = format!("{line:?} can't be told from the end of a block");
            return Err(SinkError::rejected(message));
        }
        let name = name.to_owned();
        blocking(self, move |journal| journal.stage(&name, &lines)).await
    }

    async fn publish(&self, name: &str) -> Result<bool, SinkError> {
        let name = name.to_owned();
        blocking(self, move |journal| journal.append(&name)).await
    }

    async fn discard(&self, name: &str) -> Result<(), SinkError> {
        let name = name.to_owned();
        blocking(self, move |journal| journal.discard(&name)).await
    }

    async fn staged(&self, _: &str) -> Result<Vec<String>, SinkError> {
        blocking(self, |journal| journal.staged_blocks()).await
    }

    async fn published(&self, _: &str) -> Result<Vec<String>, SinkError> {
        blocking(self, |journal| journal.blocks()).await
    }
}
