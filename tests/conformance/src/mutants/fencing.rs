//! Old runs that are not kept out, and new ones that go too far.

use cofferdam::{Fence, InDoubt, SinkError, Sweep, TransactionId, async_trait};

use super::bug::{Bug, Sink, bug};
use crate::reference::{OpenTransaction, ReferenceHandle, is_stale};

/// Aborts all that is undecided and of which this is true.
async fn abort_where(
    sink: &Sink,
    is_to_go: impl Fn(&TransactionId) -> bool + Send,
) -> Result<Vec<InDoubt>, SinkError> {
    let mut stale = sink.undecided_ids().await?;
    stale.retain(is_to_go);
    for id in &stale {
        sink.drop_named(id.to_string()).await?;
    }
    Ok(stale.iter().map(|id| sink.undecided_one(id)).collect())
}

/// A recovery that is sound but for what it takes for stale.
async fn sweep_where(
    sink: &Sink,
    fence: &Fence<ReferenceHandle>,
    is_to_go: impl Fn(&TransactionId) -> bool + Send,
) -> Result<Vec<InDoubt>, SinkError> {
    sink.fence(&fence.job, &fence.sink, fence.epoch).await?;
    sink.checked_ids(fence).await?;
    sink.refuse_unknown_output(fence).await?;
    abort_where(sink, is_to_go).await
}

fn is_ours(id: &TransactionId, fence: &Fence<ReferenceHandle>) -> bool {
    id.job == fence.job && id.sink == fence.sink
}

fn is_decided(id: &TransactionId, fence: &Fence<ReferenceHandle>) -> bool {
    fence.decided.iter().any(|(decided, _)| decided == id)
}

bug! {
    /// Recovery aborts all that it finds, of newer epochs too.
    AbortAll, "M11",
    seen: "sweepers that take every prepared transaction for an orphan; citus 1029, greenplum 10393",
    caught_by: ["FEN-3", "FEN-4"]
}

#[async_trait]
impl Bug for AbortAll {
    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        sink.refuse_unknown_output(fence).await?;
        abort_where(sink, |id| is_ours(id, fence) && !is_decided(id, fence)).await
    }
}

bug! {
    /// Finds its transactions by a prefix of their names: job `a` aborts those of job `ab`.
    PrefixMatch, "M12",
    seen: "Flink's transactionalIdPrefix, of whose collisions the manual warns in prose",
    caught_by: ["FEN-7"]
}

#[async_trait]
impl Bug for PrefixMatch {
    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        sweep_where(sink, fence, |id| {
            let matches = id.to_string().starts_with(fence.job.as_str());
            matches && id.epoch < fence.epoch && !is_decided(id, fence)
        })
        .await
    }
}

bug! {
    /// Tells the system of no epoch, so that an old run writes on beside the new one.
    NoFence, "M13",
    seen: "iceberg 17551: two coordinators at once; any sink whose names carry no epoch and whose system knows none",
    caught_by: ["FEN-1"]
}

#[async_trait]
impl Bug for NoFence {
    async fn begin(&self, sink: &Sink, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        sink.begin_named(id.to_string(), id).await?;
        Ok(OpenTransaction::new(id))
    }

    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        sink.checked_ids(fence).await?;
        sink.refuse_unknown_output(fence).await?;
        abort_where(sink, |id| is_stale(id, fence)).await
    }
}

bug! {
    /// Writes again what a run has committed of which the checkpoint store does not know.
    IgnoresNewest, "M23",
    seen: "upsert sinks after a restore from an older savepoint: late replays overwrite newer values",
    caught_by: ["REC-9"]
}

#[async_trait]
impl Bug for IgnoresNewest {
    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        sink.fence(&fence.job, &fence.sink, fence.epoch).await?;
        sink.checked_ids(fence).await?;
        abort_where(sink, |id| is_stale(id, fence)).await
    }
}

bug! {
    /// Recovery aborts its own epoch as well: at most, not below.
    SweepsItself, "M30",
    seen: "`<=` for `<` in a comparison of epochs",
    caught_by: ["REC-2", "REC-7"]
}

#[async_trait]
impl Bug for SweepsItself {
    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        sweep_where(sink, fence, |id| {
            is_ours(id, fence) && id.epoch <= fence.epoch && !is_decided(id, fence)
        })
        .await
    }
}

bug! {
    /// Recovery leaves work of its own epoch alone, which it can't have written.
    SparesItsOwn, "M61",
    seen: "cofferdam-kafka before its second release: an older checkpoint folder was accepted, and 692 records came out twice",
    caught_by: ["FEN-9", "FEN-10"]
}

#[async_trait]
impl Bug for SparesItsOwn {
    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        sink.fence(&fence.job, &fence.sink, fence.epoch).await?;
        let mut late = fence.clone();
        late.sweep = Sweep::Late;
        sink.checked_ids(&late).await?;
        sink.refuse_unknown_output(fence).await?;
        abort_where(sink, |id| is_stale(id, fence)).await
    }
}

bug! {
    /// A late sweep is taken for a recovery: it finds the run's own work, and refuses it.
    NeverLate, "M62",
    seen: "a sweep that was written for the start alone, and is called once more by a timer",
    caught_by: ["FEN-11"]
}

#[async_trait]
impl Bug for NeverLate {
    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        let mut fence = fence.clone();
        fence.sweep = Sweep::Recovery;
        sink.sweep(&fence).await
    }
}

bug! {
    /// Recovery leaves what the run just before it left.
    SparesTheLast, "M51",
    seen: "`epoch - 1` counted twice, once where it is stored and once where it is compared",
    caught_by: ["LIV-1", "REC-1"]
}

#[async_trait]
impl Bug for SparesTheLast {
    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        sweep_where(sink, fence, |id| {
            is_stale(id, fence) && id.epoch.next() < fence.epoch
        })
        .await
    }
}

bug! {
    /// Recovery spares what has the name of a decided transaction. With two names in turn, that is every second one of its subtask.
    SparesNames, "M60",
    seen: "cofferdam-kafka before its first release: an id of its pool, used again after the commit, was spared and held up readers",
    caught_by: ["REC-14"]
}

#[async_trait]
impl Bug for SparesNames {
    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        let name = |id: &TransactionId| (id.epoch, id.subtask, id.checkpoint.0 % 2);
        sweep_where(sink, fence, |id| {
            let mut decided = fence.decided.iter();
            is_stale(id, fence) && !decided.any(|(decided, _)| name(decided) == name(id))
        })
        .await
    }
}

bug! {
    /// Recovery aborts what a decided checkpoint names.
    AbortsDecided, "M52",
    seen: "LaminarDB's file sink: *.tmp is cleaned up before recovery has asked for it",
    caught_by: ["REC-3"]
}

#[async_trait]
impl Bug for AbortsDecided {
    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        let mut fence = fence.clone();
        fence.decided.clear();
        sink.sweep(&fence).await
    }
}
