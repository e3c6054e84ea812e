//! Transactions under names that are not a pure function of all of their id.

use std::hash::{BuildHasher, RandomState};

use cofferdam::{
    CommitError, Committed, Epoch, Fence, InDoubt, JobId, SinkError, SubtaskIndex, TransactionId,
    Unfinished, async_trait,
};

use super::bug::{Bug, NotedHandle, Sink, bug};
use crate::reference::{Failure, OpenTransaction, ReferenceHandle, Refusal};

fn without_subtask(id: &TransactionId) -> TransactionId {
    let subtask = SubtaskIndex(0);
    TransactionId {
        subtask,
        ..id.clone()
    }
}

fn without_epoch(id: &TransactionId) -> TransactionId {
    let epoch = Epoch(0);
    TransactionId {
        epoch,
        ..id.clone()
    }
}

/// Opens a transaction under another name. One of that name is taken for an earlier attempt of its own.
async fn open_as(sink: &Sink, alias: TransactionId) -> Result<OpenTransaction, SinkError> {
    match sink.begin_named(alias.to_string(), &alias).await {
        Ok(()) | Err(Failure::Refused(Refusal::Exists, _)) => Ok(OpenTransaction::new(&alias)),
        Err(failure) => Err(failure.into()),
    }
}

/// Aborts it under its other name.
async fn undo_alias(
    sink: &Sink,
    unfinished: Unfinished<OpenTransaction, ReferenceHandle>,
) -> Result<(), SinkError> {
    let alias = match unfinished {
        Unfinished::Open(_, transaction) => transaction.id,
        Unfinished::Prepared(_, handle) => handle.transaction,
    };
    Ok(sink.drop_named(alias.to_string()).await?)
}

bug! {
    /// Names of transactions lack the subtask: two subtasks meet in one.
    NoSubtaskInName, "M24",
    seen: "materialize 23363: the parallel index was the whole difference between two transactional ids",
    caught_by: ["CON-2", "REC-8"]
}

#[async_trait]
impl Bug for NoSubtaskInName {
    async fn begin(&self, sink: &Sink, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        sink.fence(&id.job, &id.sink, id.epoch).await?;
        open_as(sink, without_subtask(id)).await
    }

    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        sink.settle(&without_subtask(id), &prepared.handle).await
    }

    async fn abort(
        &self,
        sink: &Sink,
        unfinished: Unfinished<OpenTransaction, ReferenceHandle>,
    ) -> Result<(), SinkError> {
        undo_alias(sink, unfinished).await
    }
}

bug! {
    /// Names of transactions lack the epoch: a replay meets what the run before it left under the same name.
    NoEpochInName, "M53",
    seen: "SeaTunnel 10459: an xid used again after a restart; staged files named by checkpoint alone",
    caught_by: ["REC-1"]
}

#[async_trait]
impl Bug for NoEpochInName {
    async fn begin(&self, sink: &Sink, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        open_as(sink, without_epoch(id)).await
    }

    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        sink.settle(&without_epoch(id), &prepared.handle).await
    }

    async fn abort(
        &self,
        sink: &Sink,
        unfinished: Unfinished<OpenTransaction, ReferenceHandle>,
    ) -> Result<(), SinkError> {
        undo_alias(sink, unfinished).await
    }

    // Without epochs in names it can't tell old from new, and leaves everything as it is.
    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        sink.refuse_unknown_output(fence).await?;
        Ok(Vec::new())
    }
}

/// Something that differs from start to start.
#[derive(Debug)]
pub struct Salt(u16);

impl Default for Salt {
    fn default() -> Self {
        Self(RandomState::new().hash_one(()) as u16)
    }
}

bug! {
    /// Names of transactions are random for each start, so that nobody finds those of the start before.
    RandomName { salt: Salt }, "M54",
    seen: "iceberg 18038: a random transactional id for each start, zombies never fenced",
    caught_by: ["LIV-1", "CLE-2"]
}

#[async_trait]
impl Bug for RandomName {
    async fn begin(&self, sink: &Sink, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        sink.fence(&id.job, &id.sink, id.epoch).await?;
        let job = id.job.as_str();
        let salted = format!("{}-{:04x}", &job[..job.len().min(40)], self.salt.0);
        let job = JobId::new(salted).map_err(|error| SinkError::rejected(error.to_string()))?;
        open_as(sink, TransactionId { job, ..id.clone() }).await
    }

    async fn commit(
        &self,
        sink: &Sink,
        _: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        // Whatever the handle names: another start had another name for it.
        let alias = &prepared.handle.transaction;
        sink.settle(alias, &prepared.handle).await
    }

    async fn abort(
        &self,
        sink: &Sink,
        unfinished: Unfinished<OpenTransaction, ReferenceHandle>,
    ) -> Result<(), SinkError> {
        undo_alias(sink, unfinished).await
    }
}
