//! Recoveries that do nothing, or not all, or in the wrong order.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cofferdam::{CommitError, Committed, Fence, InDoubt, SinkError, TransactionId, async_trait};

use super::bug::{Bug, NotedHandle, Sink, bug};
use crate::reference::{OpenTransaction, ReferenceHandle};

bug! {
    /// Commits only what this process has prepared; for the rest, logs that restoring is not implemented, and is content.
    RestoreNoop { prepared: Mutex<BTreeSet<TransactionId>> }, "M5",
    seen: "Arroyo: `Restoring from commit phase not yet implemented`, and Ok",
    caught_by: ["REC-2"]
}

#[async_trait]
impl Bug for RestoreNoop {
    async fn pre_commit(
        &self,
        sink: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        let id = transaction.id.clone();
        let handle = sink.prepare(transaction).await?;
        self.prepared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id);
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
            return Ok(Committed::Before);
        }
        sink.settle(id, &prepared.handle).await
    }
}

bug! {
    /// Recovery commits the first pending transaction, and takes the others for done.
    FirstOnly { began: AtomicBool, committed: AtomicBool }, "M14",
    seen: "sinks that keep one pending transaction in their state, and write several",
    caught_by: ["REC-6"]
}

#[async_trait]
impl Bug for FirstOnly {
    async fn begin(&self, sink: &Sink, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        self.began.store(true, Ordering::SeqCst);
        sink.open(id).await
    }

    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        let recovers = !self.began.load(Ordering::SeqCst);
        if recovers && self.committed.load(Ordering::SeqCst) {
            return Ok(Committed::Before);
        }
        let committed = sink.settle(id, &prepared.handle).await?;
        self.committed.store(true, Ordering::SeqCst);
        Ok(committed)
    }
}

bug! {
    /// Commits for subtask 0; nobody commits for the others.
    OnlySubtaskZero, "M15",
    seen: "committers that run in one subtask and are handed its own list only; arroyo 385",
    caught_by: ["ATO-5", "REC-3"]
}

#[async_trait]
impl Bug for OnlySubtaskZero {
    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        if id.subtask.0 > 0 {
            return Ok(Committed::Now);
        }
        sink.settle(id, &prepared.handle).await
    }
}

bug! {
    /// Never aborts what a crashed process has left.
    Leak, "M17",
    seen: "hanging Kafka transactions that pin the last stable offset (KIP-890), prepared ones that stop vacuum",
    caught_by: ["LIV-1", "CLE-2", "REC-12"]
}

#[async_trait]
impl Bug for Leak {
    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        sink.fence(&fence.job, &fence.sink, fence.epoch).await?;
        sink.refuse_unknown_output(fence).await?;
        Ok(Vec::new())
    }
}

bug! {
    /// Aborts what is prepared, and overlooks what is open.
    LeavesOpen, "M55",
    seen: "recovery from pg_prepared_xacts alone; ListMultipartUploads never asked",
    caught_by: ["LIV-1"]
}

#[async_trait]
impl Bug for LeavesOpen {
    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        let mut fence = fence.clone();
        let handle = |transaction: TransactionId| ReferenceHandle {
            transaction,
            rows: 0,
        };
        for one in sink.undecided().await? {
            if let (false, Ok(id)) = (one.prepared, one.transaction.parse::<TransactionId>()) {
                fence.decided.push((id.clone(), handle(id)));
            }
        }
        sink.sweep(&fence).await
    }
}

bug! {
    /// Begins before it has resolved what is in doubt, and so waits for its own locks.
    SelfDeadlock { postponed: Mutex<Option<Fence<ReferenceHandle>>> }, "M21",
    seen: "Postgres: a replay of the same keys blocks on the prepared transaction of the run before",
    caught_by: ["LIV-2"]
}

#[async_trait]
impl Bug for SelfDeadlock {
    async fn begin(&self, sink: &Sink, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        let older = |other: &TransactionId| {
            other.job == id.job && other.sink == id.sink && other.epoch < id.epoch
        };
        while sink.undecided_ids().await?.iter().any(older) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        sink.open(id).await
    }

    async fn pre_commit(
        &self,
        sink: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        let postponed = self
            .postponed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(fence) = postponed {
            sink.sweep(&fence).await?;
        }
        Ok(sink.prepare(transaction).await?.map(NotedHandle::from))
    }

    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        sink.fence(&fence.job, &fence.sink, fence.epoch).await?;
        sink.refuse_unknown_output(fence).await?;
        *self
            .postponed
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(fence.clone());
        Ok(Vec::new())
    }
}
