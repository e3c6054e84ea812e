//! Promises that a crash breaks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use cofferdam::{CommitError, Committed, SinkError, TransactionId, Unfinished, async_trait};

use super::bug::{Bug, NotedHandle, Sink, bug, encode};
use crate::reference::{
    BackDoor, Failure, OpenTransaction, ReferenceHandle, ReferenceRecord, Refusal, Request,
};

bug! {
    /// Keeps the rows in memory until commit: the handle is good in this process only.
    MemoryHandle { rows: Mutex<BTreeMap<TransactionId, Vec<String>>> }, "M6",
    seen: "sinks that commit from their live connection; Arroyo's Kafka sink",
    caught_by: ["DUR-1", "DUR-2"]
}

#[async_trait]
impl Bug for MemoryHandle {
    async fn begin(&self, _: &Sink, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        Ok(OpenTransaction::new(id))
    }

    async fn write(
        &self,
        _: &Sink,
        transaction: &mut OpenTransaction,
        records: Vec<ReferenceRecord>,
    ) -> Result<(), SinkError> {
        transaction.buffer.extend(encode(&records));
        Ok(())
    }

    async fn pre_commit(
        &self,
        _: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        let OpenTransaction { id, buffer, .. } = transaction;
        if buffer.is_empty() {
            return Ok(None);
        }
        let handle = ReferenceHandle {
            transaction: id.clone(),
            rows: buffer.len() as u64,
        };
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.insert(id, buffer);
        Ok(Some(handle.into()))
    }

    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        let rows = self
            .rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(id);
        if let Some(rows) = rows {
            let mut transaction = sink.open(id).await?;
            sink.append(&mut transaction, rows).await?;
            sink.prepare(transaction).await?;
        }
        sink.settle(id, &prepared.handle).await
    }

    async fn abort(
        &self,
        sink: &Sink,
        unfinished: Unfinished<OpenTransaction, ReferenceHandle>,
    ) -> Result<(), SinkError> {
        let (Unfinished::Open(id, _) | Unfinished::Prepared(id, _)) = &unfinished;
        self.rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(id);
        sink.undo(unfinished).await
    }
}

bug! {
    /// Declares that any process resumes, and lets none but its own.
    Liar { prepared: Mutex<BTreeSet<TransactionId>> }, "M26",
    seen: "LaminarDB: capability flags are set by the author, not earned by a test",
    caught_by: ["ERR-6", "REC-2"]
}

#[async_trait]
impl Bug for Liar {
    async fn pre_commit(
        &self,
        sink: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        let mut prepared = BTreeSet::from([transaction.id.clone()]);
        let handle = sink.prepare(transaction).await?;
        let mut known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        known.append(&mut prepared);
        Ok(handle.map(NotedHandle::from))
    }

    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        let known = self
            .prepared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(id);
        if !known {
            let message = format!("{id} was prepared by another process");
            return Err(SinkError::configuration(message).into());
        }
        sink.settle(id, &prepared.handle).await
    }
}

bug! {
    /// Prepares only when it commits: until then the rows are in the memory of the system.
    NotPrepared, "M40",
    seen: "flush taken for pre-commit: what the system has received is not what it has made durable",
    caught_by: ["DUR-3"]
}

#[async_trait]
impl Bug for NotPrepared {
    async fn pre_commit(
        &self,
        sink: &Sink,
        mut transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        while !transaction.buffer.is_empty() {
            sink.flush(&mut transaction).await?;
        }
        let OpenTransaction { id, sent, .. } = transaction;
        if sent == 0 {
            sink.drop_named(id.to_string()).await?;
            return Ok(None);
        }
        let handle = ReferenceHandle {
            transaction: id,
            rows: sent,
        };
        Ok(Some(handle.into()))
    }

    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        match sink.prepare_named(id.to_string()).await {
            Ok(_) | Err(Failure::Refused(Refusal::NotOpen | Refusal::NoSuchTransaction, _)) => {}
            Err(failure) => return Err(SinkError::from(failure).into()),
        }
        sink.settle(id, &prepared.handle).await
    }
}

bug! {
    /// Commits in the memory of the system, which makes it durable some time later.
    UnsyncedCommit, "M41",
    seen: "NATS 2.12.1 (Jepsen): writes acknowledged up to two minutes before they are flushed; synchronous_commit = off",
    caught_by: ["DUR-4"]
}

#[async_trait]
impl Bug for UnsyncedCommit {
    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        let transaction = id.to_string();
        let door = BackDoor::CommitInMemory { transaction };
        match sink.client.ask(Request::BackDoor(door)).await {
            Ok(_) => Ok(Committed::Now),
            Err(_) => sink.settle(id, &prepared.handle).await,
        }
    }
}

bug! {
    /// Opening a sink aborts whatever is prepared.
    AbortOnOpen, "M4",
    seen: "init_transactions of librdkafka: Arroyo and LaminarDB lose decided transactions by it",
    caught_by: ["REC-2", "DUR-1", "DUR-2"]
}

#[async_trait]
impl Bug for AbortOnOpen {
    async fn opened(&self, sink: &Sink) -> Result<(), SinkError> {
        let Ok(undecided) = sink.undecided_ids().await else {
            return Ok(());
        };
        for id in undecided {
            sink.drop_named(id.to_string()).await?;
        }
        Ok(())
    }
}
