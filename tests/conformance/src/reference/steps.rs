//! The calls of the sink, each from a few questions to the system.

use std::time::Duration;

use cofferdam::{
    CommitError, Committed, Epoch, ErrorKind, Fence, InDoubt, JobId, SinkError, SinkId, Sweep,
    TransactionId, Unfinished,
};

use super::client::{Failure, unexpected};
use super::sink::{OpenTransaction, ReferenceHandle, ReferenceSink};
use super::wire::{Answer, Refusal, Request, Undecided};

/// How many rows are sent at once.
const FLUSH: usize = 16;

/// Whom the system fences.
pub(crate) fn owner(job: &JobId, sink: &SinkId) -> String {
    format!("{job}/{sink}")
}

/// Names that are no ids are not ours.
fn ids(names: impl IntoIterator<Item = String>) -> impl Iterator<Item = TransactionId> {
    names.into_iter().filter_map(|name| name.parse().ok())
}

impl<T> ReferenceSink<T> {
    pub(crate) async fn open(&self, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        self.fence(&id.job, &id.sink, id.epoch).await?;
        self.begin_named(id.to_string(), id).await?;
        Ok(OpenTransaction::new(id))
    }

    /// From now on the system takes nothing from older epochs.
    pub(crate) async fn fence(
        &self,
        job: &JobId,
        sink: &SinkId,
        epoch: Epoch,
    ) -> Result<(), Failure> {
        let owner = owner(job, sink);
        let epoch = epoch.0;
        self.client.ask(Request::Fence { owner, epoch }).await?;
        Ok(())
    }

    pub(crate) async fn begin_named(
        &self,
        transaction: String,
        id: &TransactionId,
    ) -> Result<(), Failure> {
        let begin = Request::Begin {
            transaction,
            owner: owner(&id.job, &id.sink),
            writer: format!("{}/{}/{}", id.job, id.sink, id.subtask),
            epoch: id.epoch.0,
        };
        self.client.ask(begin).await?;
        Ok(())
    }

    pub(crate) async fn append(
        &self,
        transaction: &mut OpenTransaction,
        rows: Vec<String>,
    ) -> Result<(), SinkError> {
        transaction.buffer.extend(rows);
        while transaction.buffer.len() >= FLUSH {
            self.flush(transaction).await?;
        }
        Ok(())
    }

    /// Sends what is buffered, or the first part of it.
    pub(crate) async fn flush(&self, transaction: &mut OpenTransaction) -> Result<(), SinkError> {
        let OpenTransaction { id, buffer, sent } = transaction;
        let rows: Vec<String> = buffer.drain(..buffer.len().min(FLUSH)).collect();
        // Counted before they arrive: if they don't, `prepare` notices.
        *sent += rows.len() as u64;
        let transaction = id.to_string();
        match self.client.ask(Request::Append { transaction, rows }).await {
            Ok(_) => Ok(()),
            Err(failure) => Err(self.gone(id, failure).await),
        }
    }

    /// If an open transaction is no longer there: a newer epoch has swept it, or a crash of the system has lost it. The
    /// fence tells.
    pub(crate) async fn gone(&self, id: &TransactionId, failure: Failure) -> SinkError {
        let is_gone = matches!(failure, Failure::Refused(Refusal::NoSuchTransaction, _));
        if is_gone && let Err(fenced) = self.fence(&id.job, &id.sink, id.epoch).await {
            return fenced.into();
        }
        failure.into()
    }

    pub(crate) async fn prepare(
        &self,
        mut transaction: OpenTransaction,
    ) -> Result<Option<ReferenceHandle>, SinkError> {
        let prepared = self.try_prepare(&mut transaction).await;
        // Without a handle nobody asks for it again, and an open transaction holds up readers. If it can't be dropped
        // now, it is left to `abort_stale`; so it is where the outcome is unknown, after a wait that was long enough.
        let not_needed = match &prepared {
            Ok(handle) => handle.is_none(),
            Err(error) => error.kind() != ErrorKind::Unknown,
        };
        if not_needed {
            let _left_to_abort_stale = self.drop_named(transaction.id.to_string()).await;
        }
        prepared
    }

    async fn try_prepare(
        &self,
        transaction: &mut OpenTransaction,
    ) -> Result<Option<ReferenceHandle>, SinkError> {
        while !transaction.buffer.is_empty() {
            self.flush(transaction).await?;
        }
        let OpenTransaction { id, sent, .. } = transaction;
        if *sent == 0 {
            return Ok(None);
        }
        let rows = match self.prepare_named(id.to_string()).await {
            Ok(rows) => rows,
            Err(failure) => return Err(self.gone(id, failure).await),
        };
        if rows != *sent {
            let message = format!("{rows} rows of {id} have arrived, {sent} were sent");
            return Err(SinkError::transient(message));
        }
        Ok(Some(ReferenceHandle {
            transaction: id.clone(),
            rows,
        }))
    }

    /// Makes a transaction durable, and says how many rows it has.
    pub(crate) async fn prepare_named(&self, transaction: String) -> Result<u64, Failure> {
        match self.client.ask(Request::Prepare { transaction }).await? {
            Answer::Prepared { rows } => Ok(rows),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn settle(
        &self,
        id: &TransactionId,
        handle: &ReferenceHandle,
    ) -> Result<Committed, CommitError> {
        check_handle(id, handle)?;
        match self.commit_named(id.to_string()).await {
            Ok(()) => Ok(Committed::Now),
            // Not prepared proves nothing: look for the evidence.
            Err(Failure::Refused(Refusal::NoSuchTransaction, _)) => self.evidence(handle).await,
            Err(failure) => Err(SinkError::from(failure).into()),
        }
    }

    pub(crate) async fn commit_named(&self, transaction: String) -> Result<(), Failure> {
        self.client.ask(Request::Commit { transaction }).await?;
        Ok(())
    }

    async fn evidence(&self, handle: &ReferenceHandle) -> Result<Committed, CommitError> {
        let ReferenceHandle { transaction, rows } = handle;
        let entry = self.ledger_entry(transaction.to_string()).await;
        match entry.map_err(SinkError::from)? {
            Some(committed) if committed == *rows => Ok(Committed::Before),
            Some(committed) => Err(CommitError::Lost(format!(
                "{transaction} was prepared with {rows} rows, and the ledger has it with {committed}"
            ))),
            None => Err(CommitError::Lost(format!(
                "{transaction} is neither prepared nor in the ledger of {}",
                self.client.address()
            ))),
        }
    }

    /// How many rows were committed under a name.
    pub(crate) async fn ledger_entry(&self, transaction: String) -> Result<Option<u64>, Failure> {
        match self.client.ask(Request::Ledger { transaction }).await? {
            Answer::Ledger { rows } => Ok(rows),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn undo(
        &self,
        unfinished: Unfinished<OpenTransaction, ReferenceHandle>,
    ) -> Result<(), SinkError> {
        let id = match unfinished {
            Unfinished::Open(id, _) => id,
            Unfinished::Prepared(id, handle) => {
                check_handle(&id, &handle)?;
                id
            }
        };
        Ok(self.drop_named(id.to_string()).await?)
    }

    /// Drops a transaction, whether it is open, prepared, or not there. Committed ones stay, with an error.
    pub(crate) async fn drop_named(&self, transaction: String) -> Result<(), Failure> {
        match self.client.ask(Request::Abort { transaction }).await {
            Ok(_) | Err(Failure::Refused(Refusal::NoSuchTransaction, _)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    pub(crate) async fn sweep(
        &self,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        // First, so that what is listed below is all there will ever be of older epochs.
        self.fence(&fence.job, &fence.sink, fence.epoch).await?;
        let undecided = self.checked_ids(fence).await?;
        self.refuse_unknown_output(fence).await?;
        let mut stale = undecided;
        stale.retain(|id| is_stale(id, fence));
        for id in &stale {
            self.drop_named(id.to_string()).await?;
        }
        Ok(stale.iter().map(|id| self.undecided_one(id)).collect())
    }

    /// All that is undecided. What is there of the fence's own epoch or a newer one was written under another log.
    pub(crate) async fn checked_ids(
        &self,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<TransactionId>, SinkError> {
        let undecided = self.undecided_ids().await?;
        let committed = self.committed(&fence.job, &fence.sink).await?;
        let ours = |id: &&TransactionId| id.job == fence.job && id.sink == fence.sink;
        for id in undecided.iter().chain(&committed).filter(ours) {
            fence.check(id.epoch, id)?;
        }
        Ok(undecided)
    }

    pub(crate) fn undecided_one(&self, id: &TransactionId) -> InDoubt {
        let address = self.client.address();
        InDoubt::new(id, format!("transaction {id} at {address}"))
    }

    /// Output of checkpoints after the newest that is decided would be written a second time.
    pub(crate) async fn refuse_unknown_output(
        &self,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<(), SinkError> {
        if fence.sweep == Sweep::Late {
            return Ok(());
        }
        let mut committed = self.committed(&fence.job, &fence.sink).await?.into_iter();
        let Some(id) = committed.find(|id| Some(id.checkpoint) > fence.newest) else {
            return Ok(());
        };
        Err(SinkError::configuration(format!(
            "{id} is committed, and the checkpoint store knows of none so new"
        ))
        .hint("use the checkpoint store that the job was run with"))
    }

    pub(crate) async fn committed(
        &self,
        job: &JobId,
        sink: &SinkId,
    ) -> Result<Vec<TransactionId>, Failure> {
        let owner = owner(job, sink);
        match self.client.ask(Request::Committed { owner }).await? {
            Answer::Committed { transactions } => Ok(ids(transactions).collect()),
            other => Err(unexpected(&other)),
        }
    }

    /// All that is open or prepared, of everybody.
    pub(crate) async fn undecided(&self) -> Result<Vec<Undecided>, Failure> {
        match self.client.ask(Request::Undecided).await? {
            Answer::Undecided { transactions } => Ok(transactions),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn undecided_ids(&self) -> Result<Vec<TransactionId>, Failure> {
        let undecided = self.undecided().await?.into_iter();
        Ok(ids(undecided.map(|one| one.transaction)).collect())
    }

    pub(crate) async fn undecided_of(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        let mut in_doubt = Vec::new();
        for one in self.undecided().await? {
            let Ok(transaction) = one.transaction.parse::<TransactionId>() else {
                continue;
            };
            if transaction.job == *job {
                let expires_in = Duration::from_millis(one.expires_in_millis);
                in_doubt.push(
                    self.undecided_one(&transaction)
                        .with_expires_in(Some(expires_in)),
                );
            }
        }
        Ok(in_doubt)
    }
}

/// Compares names and epochs field by field: a job `a` has nothing to do with a job `ab`.
pub(crate) fn is_stale(id: &TransactionId, fence: &Fence<ReferenceHandle>) -> bool {
    let decided = || fence.decided.iter().any(|(decided, _)| decided == id);
    id.job == fence.job && id.sink == fence.sink && id.epoch < fence.epoch && !decided()
}

pub(crate) fn check_handle(id: &TransactionId, handle: &ReferenceHandle) -> Result<(), SinkError> {
    if handle.transaction == *id {
        return Ok(());
    }
    Err(SinkError::rejected(format!(
        "the handle of {id} names {}",
        handle.transaction
    )))
}
