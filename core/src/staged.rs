//! A sink over a store that stages under a name and publishes by that name.

use std::collections::BTreeSet;
use std::fmt::{self, Debug};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::capabilities::Capabilities;
use crate::error::SinkError;
use crate::identity::{JobId, TransactionId};
use crate::sink::{CommitError, Committed, Fence, InDoubt, TwoPhaseCommitSinkFunction, Unfinished};

/// An outside system that keeps named pieces of data, each hidden until it is published: files in a folder, objects in a
/// bucket, tables beside a table. [`StagedSink`] makes a sink of it.
///
/// A name is that of one transaction, `job.sink.epoch.subtask.checkpoint`, and is used once. It holds only letters, digits and
/// `_`, `-`, `.`, and has 150 bytes at most.
///
/// A future may be dropped at any await, and the work behind it may be done later, as in
/// [`TwoPhaseCommitSinkFunction`]. All methods are called by several subtasks, and by several processes, at once.
#[async_trait]
pub trait StagingStore: Debug + Send + Sync + 'static {
    /// The record type that the pipeline hands over.
    type Input: Send + 'static;

    /// Returns the capabilities of the store. They stay the same over its life.
    fn capabilities(&self) -> Capabilities {
        Capabilities::TRANSACTIONAL
    }

    /// Returns the place where names are looked up, for messages: a folder, a bucket, a table. No secrets.
    fn location(&self) -> String;

    /// Makes records durable under a name, hidden from readers. There is at least one.
    ///
    /// *Must* refuse ([`ErrorKind::Rejected`](crate::ErrorKind::Rejected)) records that `publish` could not show.
    /// *After an error* a part may be staged: it is discarded by a later run.
    async fn stage(&self, name: &str, records: Vec<Self::Input>) -> Result<(), SinkError>;

    /// Publishes the data that is staged under a name, at one instant, and removes it from the staged data. Returns `false` if
    /// there was nothing to publish: the name is published already, or not staged.
    ///
    /// *Must* be idempotent: published data never appears twice, even if it is still staged.
    /// *Must* never leave a name neither staged nor published on the way.
    /// *Must* return only once the published data is durable, even if another process has published it.
    async fn publish(&self, name: &str) -> Result<bool, SinkError>;

    /// Removes the staged data of a name, if there is any. Published data stays.
    async fn discard(&self, name: &str) -> Result<(), SinkError>;

    /// Lists the names of all that is staged, whole or in part, that begin with a prefix. May list others too.
    async fn staged(&self, prefix: &str) -> Result<Vec<String>, SinkError>;

    /// Lists the names of all that is published, that begin with a prefix. May list others too. This is the evidence of
    /// commits.
    ///
    /// *Must* fail if the place can't be read or is not there: a name that is not listed is taken for lost.
    async fn published(&self, prefix: &str) -> Result<Vec<String>, SinkError>;
}

/// A sink over a [`StagingStore`]. It names transactions, proves outcomes, and aborts what older runs left.
///
/// Records of a transaction are kept in memory until its barrier, and staged at once then. A sink that can't hold the records of
/// a checkpoint in memory implements [`TwoPhaseCommitSinkFunction`].
///
/// # Errors
/// Those of the store, and:
/// * [`Fenced`](crate::ErrorKind::Fenced): work of a newer run is there, or of another process under the same epoch.
/// * [`Configuration`](crate::ErrorKind::Configuration): a checkpoint is published that the checkpoint store doesn't know.
#[derive(Debug, Clone)]
pub struct StagedSink<S> {
    store: S,
}

impl<S: StagingStore> StagedSink<S> {
    /// A sink that stages and publishes in `store`.
    pub fn new(store: S) -> Self {
        Self { store }
    }

    fn place(&self, id: &TransactionId) -> String {
        format!("{} in {}", id.dotted(), self.store.location())
    }

    async fn is_published(&self, name: &str) -> Result<bool, SinkError> {
        let published = self.store.published(name).await?;
        Ok(published.iter().any(|published| published == name))
    }

    /// Lists the staged and the published transactions whose names begin with a prefix.
    async fn list(
        &self,
        prefix: &str,
    ) -> Result<(BTreeSet<TransactionId>, BTreeSet<TransactionId>), SinkError> {
        // In this order, a name that is published meanwhile appears in both lists, and never in neither.
        let staged = ids(self.store.staged(prefix).await?);
        let published = ids(self.store.published(prefix).await?);
        Ok((staged, published))
    }
}

/// Returns the transactions that names stand for. Other names are foreign, and ignored.
fn ids(names: Vec<String>) -> BTreeSet<TransactionId> {
    let id = |name: String| TransactionId::from_dotted(&name).ok();
    names.into_iter().filter_map(id).collect()
}

/// An open transaction of a [`StagedSink`].
pub struct StagedTransaction<T> {
    id: TransactionId,
    records: Vec<T>,
}

impl<T> Debug for StagedTransaction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedTransaction")
            .field("id", &self.id)
            .field("records", &self.records.len())
            .finish()
    }
}

/// The handle of a prepared transaction of a [`StagedSink`]. Its name follows from the transaction's id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedHandle {
    /// The number of staged records, for operators.
    pub records: u64,
}

#[async_trait]
impl<S: StagingStore> TwoPhaseCommitSinkFunction for StagedSink<S> {
    type Input = S::Input;
    type Transaction = StagedTransaction<S::Input>;
    type Prepared = StagedHandle;

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn begin(&self, id: &TransactionId) -> Result<Self::Transaction, SinkError> {
        Ok(StagedTransaction {
            id: id.clone(),
            records: Vec::new(),
        })
    }

    async fn write(
        &self,
        transaction: &mut Self::Transaction,
        records: Vec<S::Input>,
    ) -> Result<(), SinkError> {
        transaction.records.extend(records);
        Ok(())
    }

    async fn pre_commit(
        &self,
        transaction: Self::Transaction,
    ) -> Result<Option<StagedHandle>, SinkError> {
        let StagedTransaction { id, records } = transaction;
        if records.is_empty() {
            return Ok(None);
        }
        let name = id.dotted();
        let (staged, published) = self.list(&name).await?;
        if staged.contains(&id) || published.contains(&id) {
            let message = format!("another process has begun {}", self.place(&id));
            return Err(SinkError::fenced(message).hint(
                "two runs of the job share an epoch: let them share one checkpoint store, and start the job again",
            ));
        }
        let handle = StagedHandle {
            records: records.len() as u64,
        };
        self.store.stage(&name, records).await?;
        Ok(Some(handle))
    }

    async fn commit(&self, id: &TransactionId, _: &StagedHandle) -> Result<Committed, CommitError> {
        let name = id.dotted();
        if self.store.publish(&name).await? {
            return Ok(Committed::Now);
        }
        // Not staged proves nothing: the evidence does.
        match self.is_published(&name).await? {
            true => Ok(Committed::Before),
            false => Err(CommitError::Lost(format!(
                "{} is neither staged nor published",
                self.place(id)
            ))),
        }
    }

    async fn abort(
        &self,
        unfinished: Unfinished<Self::Transaction, StagedHandle>,
    ) -> Result<(), SinkError> {
        // An open transaction is nowhere but in the value that is dropped here.
        let Unfinished::Prepared(id, _) = unfinished else {
            return Ok(());
        };
        let name = id.dotted();
        if self.is_published(&name).await? {
            let message = format!("can't abort {}: it is published", self.place(&id));
            return Err(SinkError::rejected(message));
        }
        self.store.discard(&name).await
    }

    async fn abort_stale(&self, fence: &Fence<StagedHandle>) -> Result<Vec<InDoubt>, SinkError> {
        let prefix = format!("{}.{}.", fence.job, fence.sink);
        let (staged, published) = self.list(&prefix).await?;
        for id in &staged {
            fence.check_prepared(id, self.place(id))?;
        }
        for id in &published {
            fence.check_committed(id, self.place(id))?;
        }
        let mut aborted = Vec::new();
        for id in staged.iter().filter(|id| fence.is_stale(id)) {
            self.store.discard(&id.dotted()).await?;
            // A second copy of what is published goes too, but nothing is aborted by that.
            if !published.contains(id) {
                aborted.push(InDoubt::new(id, self.place(id)));
            }
        }
        Ok(aborted)
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        let (staged, published) = self.list(&format!("{job}.")).await?;
        let mut in_doubt = staged.difference(&published).collect::<Vec<_>>();
        in_doubt.retain(|id| id.job == *job);
        let in_doubt = in_doubt.into_iter();
        Ok(in_doubt
            .map(|id| InDoubt::new(id, self.place(id)))
            .collect())
    }
}
