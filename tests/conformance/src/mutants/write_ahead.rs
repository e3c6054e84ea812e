//! Sinks that keep the rows in the handle, and write them when they commit. A marker in the ledger is to tell whether
//! they have; but rows and marker are two steps.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cofferdam::{CommitError, Committed, SinkError, TransactionId, async_trait};

use super::bug::{Bug, NotedHandle, Sink, bug, encode};
use crate::reference::{
    Failure, OpenTransaction, ReferenceHandle, ReferenceRecord, Refusal, Request,
};

/// What separates rows in a note. Rows have none.
const SEPARATOR: char = ' ';

/// Prepares a marker without rows, and notes the rows in the handle.
async fn prepare_marker(
    sink: &Sink,
    transaction: OpenTransaction,
) -> Result<Option<NotedHandle>, SinkError> {
    let OpenTransaction { id, buffer, .. } = transaction;
    if buffer.is_empty() {
        sink.drop_named(id.to_string()).await?;
        return Ok(None);
    }
    let rows = match sink.prepare_named(id.to_string()).await {
        Ok(rows) => rows,
        Err(failure) => return Err(sink.gone(&id, failure).await),
    };
    Ok(Some(NotedHandle {
        handle: ReferenceHandle {
            transaction: id,
            rows,
        },
        note: buffer.join(&SEPARATOR.to_string()),
    }))
}

async fn insert(sink: &Sink, prepared: &NotedHandle) -> Result<(), SinkError> {
    let rows = prepared.note.split(SEPARATOR).map(str::to_owned).collect();
    sink.client.ask(Request::Insert { rows }).await?;
    Ok(())
}

bug! {
    /// Writes the rows, and looks at the token afterwards.
    LateToken, "M44",
    seen: "iceberg 17340: recovered files sent again without a look at the token",
    caught_by: ["IDE-1", "IDE-2"]
}

#[async_trait]
impl Bug for LateToken {
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
        sink: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        prepare_marker(sink, transaction).await
    }

    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        insert(sink, prepared).await?;
        sink.settle(id, &prepared.handle).await
    }
}

bug! {
    /// Looks at the token first; then writes the rows, then the token: a crash in between doubles the rows.
    TwoSteps, "M45",
    seen: "Flink's write-ahead sink, whose CheckpointCommitter stands beside the data",
    caught_by: ["IDE-3", "IDE-7", "REC-13"]
}

#[async_trait]
impl Bug for TwoSteps {
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
        sink: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        prepare_marker(sink, transaction).await
    }

    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        let token = sink
            .ledger_entry(id.to_string())
            .await
            .map_err(SinkError::from)?;
        if token.is_some() {
            return Ok(Committed::Before);
        }
        let waiting = sink.undecided_ids().await.map_err(SinkError::from)?;
        if waiting.contains(id) {
            insert(sink, prepared).await?;
        }
        sink.settle(id, &prepared.handle).await
    }
}

bug! {
    /// Writes the rows again, when a commit finds that it can't be made a second time.
    AppendOnRetry { written: Mutex<BTreeMap<TransactionId, Vec<String>>> }, "M7",
    seen: "risingwave 25690, materialize 38441: a lost answer, a hidden retry, the same rows twice",
    caught_by: ["IDE-1", "IDE-7"]
}

#[async_trait]
impl Bug for AppendOnRetry {
    async fn write(
        &self,
        sink: &Sink,
        transaction: &mut OpenTransaction,
        records: Vec<ReferenceRecord>,
    ) -> Result<(), SinkError> {
        let rows = encode(&records);
        {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            let known = written.entry(transaction.id.clone()).or_default();
            known.extend_from_slice(&rows);
        }
        sink.append(transaction, rows).await
    }

    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        let written = self
            .written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
            .cloned();
        match (sink.commit_named(id.to_string()).await, written) {
            (Ok(()), _) => Ok(Committed::Now),
            (Err(Failure::Refused(Refusal::NoSuchTransaction, _)), Some(rows)) => {
                let inserted = sink.client.ask(Request::Insert { rows }).await;
                inserted.map_err(SinkError::from)?;
                Ok(Committed::Now)
            }
            (Err(Failure::Refused(Refusal::NoSuchTransaction, _)), None) => {
                sink.settle(id, &prepared.handle).await
            }
            (Err(failure), _) => Err(SinkError::from(failure).into()),
        }
    }
}
