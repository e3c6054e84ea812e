//! Rows that are seen too early, too late, or in part.

use std::time::Duration;

use cofferdam::{
    Capabilities, CommitError, Committed, Isolation, SinkError, TransactionId,
    TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};

use super::bug::{Bug, NotedHandle, Sink, bug, encode};
use crate::reference::{
    self, BackDoor, Discipline, Failure, OpenTransaction, ReferenceHandle, ReferenceRecord,
    Refusal, Request,
};

bug! {
    /// Commits in pre-commit, so that readers see what may yet be aborted.
    Eager, "M1",
    seen: "LaminarDB's Postgres sink, which says COMMIT in pre_commit and calls itself two-phase",
    caught_by: ["VIS-2"]
}

#[async_trait]
impl Bug for Eager {
    async fn pre_commit(
        &self,
        sink: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        let prepared = sink.prepare(transaction).await?;
        if let Some(handle) = &prepared {
            sink.commit_named(handle.transaction.to_string()).await?;
        }
        Ok(prepared.map(NotedHandle::from))
    }
}

bug! {
    /// Writes straight to the target, and calls it a transaction.
    Dirty, "M2",
    seen: "any at-least-once writer behind a transactional interface; Cassandra and Elasticsearch sinks",
    caught_by: ["VIS-1"]
}

#[async_trait]
impl Bug for Dirty {
    async fn begin(&self, _: &Sink, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        Ok(OpenTransaction::new(id))
    }

    async fn write(
        &self,
        sink: &Sink,
        transaction: &mut OpenTransaction,
        records: Vec<ReferenceRecord>,
    ) -> Result<(), SinkError> {
        let rows = encode(&records);
        transaction.sent += rows.len() as u64;
        sink.client.ask(Request::Insert { rows }).await?;
        Ok(())
    }

    async fn pre_commit(
        &self,
        _: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        let OpenTransaction { id, sent, .. } = transaction;
        let handle = ReferenceHandle {
            transaction: id,
            rows: sent,
        };
        Ok((sent > 0).then(|| handle.into()))
    }

    async fn commit(
        &self,
        _: &Sink,
        _: &TransactionId,
        _: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        Ok(Committed::Now)
    }

    async fn abort(
        &self,
        _: &Sink,
        _: Unfinished<OpenTransaction, ReferenceHandle>,
    ) -> Result<(), SinkError> {
        Ok(())
    }
}

/// How many rows a torn commit shows at once.
const PART: usize = 10;

bug! {
    /// Shows a transaction part by part.
    Torn, "M18",
    seen: "sinks with several files a checkpoint, renamed one after another; Hive-style partitions",
    caught_by: ["ATO-1"]
}

#[async_trait]
impl Bug for Torn {
    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        let parts = usize::try_from(prepared.handle.rows).unwrap_or(usize::MAX) / PART;
        for _ in 0..parts {
            let door = BackDoor::CommitRows {
                transaction: id.to_string(),
                rows: PART,
            };
            match sink.client.ask(Request::BackDoor(door)).await {
                Ok(_) => {}
                Err(Failure::Refused(Refusal::NoSuchTransaction, _)) => break,
                Err(failure) => return Err(SinkError::from(failure).into()),
            }
        }
        match sink.commit_named(id.to_string()).await {
            Ok(()) => return Ok(Committed::Now),
            Err(Failure::Refused(Refusal::NoSuchTransaction, _)) => {}
            Err(failure) => return Err(SinkError::from(failure).into()),
        }
        match sink.ledger_entry(id.to_string()).await {
            Ok(Some(_)) => Ok(Committed::Before),
            Ok(None) => Err(CommitError::Lost(format!("{id} is not in the ledger"))),
            Err(failure) => Err(SinkError::from(failure).into()),
        }
    }
}

bug! {
    /// Declares that readers see nothing before commit, whatever they do; in truth they need a setting for that.
    Understated, "M31",
    seen: "most Kafka sinks: read_uncommitted is what consumers do by default",
    caught_by: ["VIS-7"]
}

#[async_trait]
impl Bug for Understated {
    fn capabilities(&self, sink: &Sink) -> Capabilities {
        sink.capabilities().with_isolation(Isolation::Hidden)
    }
}

bug! {
    /// Says that it has committed, and does so a little later, in the background.
    Later, "M32",
    seen: "asynchronous producers whose delivery reports nobody waits for",
    caught_by: ["VIS-6"]
}

#[async_trait]
impl Bug for Later {
    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        let sink = reference::sink(sink.client.address(), Discipline::Sound);
        let (id, handle) = (id.clone(), prepared.handle.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            sink.commit(&id, &handle).await
        });
        Ok(Committed::Now)
    }
}
