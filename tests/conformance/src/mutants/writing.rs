//! Rows that are lost, doubled or out of order before the handle is there.

use cofferdam::{SinkError, async_trait};

use super::bug::{Bug, NotedHandle, Sink, bug, encode};
use crate::reference::{
    Failure, OpenTransaction, ReferenceHandle, ReferenceRecord, Refusal, Request,
};

bug! {
    /// Does not flush the last buffer in pre-commit.
    ForgetTail, "M3",
    seen: "producers that are not flushed before the barrier; Beam's and Flink's early buffering sinks",
    caught_by: ["VIS-3", "DUR-1"]
}

#[async_trait]
impl Bug for ForgetTail {
    async fn pre_commit(
        &self,
        sink: &Sink,
        mut transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        transaction.buffer.clear();
        Ok(sink.prepare(transaction).await?.map(NotedHandle::from))
    }
}

bug! {
    /// Sends batches side by side, so that an earlier one may land after a later one.
    Reorder, "M22",
    seen: "Kafka producers with several requests in flight and retries, without idempotence",
    caught_by: ["CON-5"]
}

#[async_trait]
impl Bug for Reorder {
    async fn write(
        &self,
        sink: &Sink,
        transaction: &mut OpenTransaction,
        records: Vec<ReferenceRecord>,
    ) -> Result<(), SinkError> {
        for batch in encode(&records).chunks(16).rev() {
            sink.append(transaction, batch.to_vec()).await?;
        }
        Ok(())
    }
}

/// Prepares whatever has arrived.
async fn prepare_uncounted(
    sink: &Sink,
    mut transaction: OpenTransaction,
) -> Result<Option<NotedHandle>, SinkError> {
    while !transaction.buffer.is_empty() {
        sink.flush(&mut transaction).await?;
    }
    let OpenTransaction { id, .. } = transaction;
    let rows = match sink.prepare_named(id.to_string()).await {
        Ok(rows) => rows,
        Err(failure) => return Err(sink.gone(&id, failure).await),
    };
    if rows == 0 {
        sink.drop_named(id.to_string()).await?;
        return Ok(None);
    }
    Ok(Some(
        ReferenceHandle {
            transaction: id,
            rows,
        }
        .into(),
    ))
}

bug! {
    /// Logs that a batch could not be written, goes on, and does not count what has arrived.
    SwallowedWrite, "M33",
    seen: "SeaTunnel 11534: the first record of a transaction lost, nothing compared the counts",
    caught_by: ["ERR-3", "ATO-2"]
}

#[async_trait]
impl Bug for SwallowedWrite {
    async fn write(
        &self,
        sink: &Sink,
        transaction: &mut OpenTransaction,
        records: Vec<ReferenceRecord>,
    ) -> Result<(), SinkError> {
        let _logged = sink.append(transaction, encode(&records)).await;
        Ok(())
    }

    async fn pre_commit(
        &self,
        sink: &Sink,
        mut transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        while !transaction.buffer.is_empty() {
            let _logged = sink.flush(&mut transaction).await;
        }
        prepare_uncounted(sink, transaction).await
    }
}

bug! {
    /// Sends a batch again if no answer comes, without a number by which the system could tell that it has it.
    RetriedWrite, "M34",
    seen: "Flink's JDBC XA sink with maxRetries above 0; Redpanda Connect 4387",
    caught_by: ["IDE-8"]
}

#[async_trait]
impl Bug for RetriedWrite {
    async fn write(
        &self,
        sink: &Sink,
        transaction: &mut OpenTransaction,
        records: Vec<ReferenceRecord>,
    ) -> Result<(), SinkError> {
        let append = Request::Append {
            transaction: transaction.id.to_string(),
            rows: encode(&records),
        };
        match sink.client.ask(append.clone()).await {
            Err(Failure::Network(_)) => sink.client.ask(append).await?,
            answer => answer?,
        };
        Ok(())
    }

    async fn pre_commit(
        &self,
        sink: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        prepare_uncounted(sink, transaction).await
    }
}

bug! {
    /// Cuts off what is too long for the system, and tells nobody.
    Truncates, "M35",
    seen: "MySQL without strict mode, and sinks that set it so",
    caught_by: ["ERR-4"]
}

#[async_trait]
impl Bug for Truncates {
    async fn write(
        &self,
        sink: &Sink,
        transaction: &mut OpenTransaction,
        records: Vec<ReferenceRecord>,
    ) -> Result<(), SinkError> {
        let mut rows = encode(&records);
        rows.iter_mut().for_each(|row| row.truncate(1000));
        sink.append(transaction, rows).await
    }
}

bug! {
    /// Takes a transaction without rows for a mistake.
    RefusesEmpty, "M36",
    seen: "flink 22126, rust-rdkafka 349: commit of a transaction to which no partition was added fails",
    caught_by: ["ATO-4"]
}

#[async_trait]
impl Bug for RefusesEmpty {
    async fn pre_commit(
        &self,
        sink: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        let id = transaction.id.clone();
        match sink.prepare(transaction).await? {
            Some(handle) => Ok(Some(handle.into())),
            None => Err(SinkError::rejected(format!("{id} is empty"))),
        }
    }
}

bug! {
    /// Leaves a transaction without rows open, since there is nothing to prepare.
    ForgetsEmpty, "M37",
    seen: "Postgres sinks that keep `idle in transaction` sessions between checkpoints",
    caught_by: ["ATO-4"]
}

#[async_trait]
impl Bug for ForgetsEmpty {
    async fn pre_commit(
        &self,
        sink: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        if transaction.sent == 0 && transaction.buffer.is_empty() {
            return Ok(None);
        }
        Ok(sink.prepare(transaction).await?.map(NotedHandle::from))
    }
}

bug! {
    /// Makes room for one more prepared transaction by aborting the oldest.
    MakesRoom, "M38",
    seen: "pools of transactional ids that are used again before the old transaction is decided",
    caught_by: ["LIV-3"]
}

#[async_trait]
impl Bug for MakesRoom {
    async fn pre_commit(
        &self,
        sink: &Sink,
        mut transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        while !transaction.buffer.is_empty() {
            sink.flush(&mut transaction).await?;
        }
        if transaction.sent == 0 {
            return Ok(sink.prepare(transaction).await?.map(NotedHandle::from));
        }
        let OpenTransaction { id, .. } = transaction;
        loop {
            match sink.prepare_named(id.to_string()).await {
                Ok(rows) => {
                    let transaction = id;
                    return Ok(Some(ReferenceHandle { transaction, rows }.into()));
                }
                Err(Failure::Refused(Refusal::TooManyPrepared, _)) => {
                    let mut known = sink.undecided_ids().await?;
                    known.retain(|one| one.job == id.job && one.subtask == id.subtask);
                    if let Some(oldest) = known.first().filter(|oldest| **oldest != id) {
                        sink.drop_named(oldest.to_string()).await?;
                    }
                }
                Err(failure) => return Err(sink.gone(&id, failure).await),
            }
        }
    }
}
