//! Commits that are taken for what they are not.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cofferdam::{
    CommitError, Committed, ErrorKind, SinkError, TransactionId, TwoPhaseCommitSinkFunction,
    Unfinished, async_trait,
};

use super::bug::{Bug, Call, NotedHandle, Sink, bug};
use crate::reference::OpenTransaction;

bug! {
    /// Takes an unknown transaction for one that was committed before.
    UnknownIsDone, "M8",
    seen: "SeaTunnel 11569: `unknown xid` counts as committed; NoSuchUpload counts as completed",
    caught_by: ["REC-10", "IDE-6"]
}

#[async_trait]
impl Bug for UnknownIsDone {
    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        match sink.settle(id, &prepared.handle).await {
            Err(CommitError::Lost(_)) => Ok(Committed::Before),
            settled => settled,
        }
    }
}

bug! {
    /// Takes an answer that did not come for a failure: rolls back, and reports a loss.
    UnknownIsFailed, "M9",
    seen: "table formats that delete their files after a commit whose answer was lost; Materialize 38441",
    caught_by: ["IDE-7"]
}

#[async_trait]
impl Bug for UnknownIsFailed {
    fn has_deadline(&self, call: Call) -> bool {
        call != Call::Commit
    }

    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        match sink.commit(id, &prepared.handle).await {
            Err(CommitError::NotYet(error)) if error.kind() == ErrorKind::Unknown => {
                let failed = Unfinished::Prepared(id.clone(), prepared.handle.clone());
                let _rolled_back = sink.abort(failed).await;
                Err(CommitError::Lost(format!("the commit of {id} has failed")))
            }
            committed => committed,
        }
    }
}

bug! {
    /// Aborts when it can't read whether it is to commit.
    ReadErrorMeansAbort, "M10",
    seen: "LaminarDB: reconcile_prepared_on_init aborts when the decision store can't be read",
    caught_by: ["IDE-7"]
}

#[async_trait]
impl Bug for ReadErrorMeansAbort {
    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        if let Err(failure) = sink.ledger_entry(id.to_string()).await {
            let error = SinkError::from(failure);
            let dropped = sink.drop_named(id.to_string()).await;
            dropped.map_err(SinkError::from)?;
            return Err(error.into());
        }
        sink.settle(id, &prepared.handle).await
    }
}

bug! {
    /// Logs a failed commit, and goes on as if it had succeeded.
    Swallow, "M16",
    seen: "Flink's Kafka committer: fenced, invalid state and unknown producer are logged and discarded",
    caught_by: ["ERR-7", "REC-11"]
}

#[async_trait]
impl Bug for Swallow {
    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        match sink.settle(id, &prepared.handle).await {
            Err(CommitError::NotYet(error)) if error.kind().is_retriable() => Err(error.into()),
            Err(_logged) => Ok(Committed::Now),
            settled => settled,
        }
    }
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

bug! {
    /// Asks its own clock whether a transaction has expired; if not, one that is gone must have been committed.
    LocalClock, "M25",
    seen: "resume logic that compares transaction.timeout.ms with the local clock",
    caught_by: ["REC-11"]
}

#[async_trait]
impl Bug for LocalClock {
    async fn pre_commit(
        &self,
        sink: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        let noted = |handle| NotedHandle {
            handle,
            note: now().as_secs().to_string(),
        };
        Ok(sink.prepare(transaction).await?.map(noted))
    }

    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        let since = prepared
            .note
            .parse()
            .map(Duration::from_secs)
            .unwrap_or_default();
        let kept = sink.capabilities().expiry.unwrap_or(Duration::MAX);
        match sink.settle(id, &prepared.handle).await {
            Err(CommitError::Lost(_)) if now() < since + kept => Ok(Committed::Before),
            settled => settled,
        }
    }
}

bug! {
    /// Takes for evidence that the subtask has committed something of as many rows.
    CountIsEvidence, "M42",
    seen: "recovery that compares sizes or counts instead of tokens; S3 uploads found again by their length",
    caught_by: ["REC-10"]
}

#[async_trait]
impl Bug for CountIsEvidence {
    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        let lost = match sink.settle(id, &prepared.handle).await {
            Err(CommitError::Lost(lost)) => lost,
            settled => return settled,
        };
        let committed = sink
            .committed(&id.job, &id.sink)
            .await
            .map_err(SinkError::from)?;
        for other in committed.iter().filter(|other| other.subtask == id.subtask) {
            let rows = sink
                .ledger_entry(other.to_string())
                .await
                .map_err(SinkError::from)?;
            if rows == Some(prepared.handle.rows) {
                return Ok(Committed::Before);
            }
        }
        Err(CommitError::Lost(lost))
    }
}

bug! {
    /// Commits what the handle names, whichever transaction it is asked for.
    TrustsHandle, "M43",
    seen: "handles without a check of their owner: a swapped file commits a foreign transaction",
    caught_by: ["DUR-5"]
}

#[async_trait]
impl Bug for TrustsHandle {
    async fn commit(
        &self,
        sink: &Sink,
        _: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        sink.settle(&prepared.handle.transaction, &prepared.handle)
            .await
    }
}
