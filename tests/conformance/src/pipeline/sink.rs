//! A sink of record numbers, over the sink under test.

use std::fmt;

use cofferdam::{
    Capabilities, CommitError, Committed, Fence, InDoubt, JobId, SinkError, Sweep, TransactionId,
    TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};

use super::crash::Crash;
use crate::history::Event;
use crate::process::{Handle, Open, Process};

/// See the module.
pub(super) struct PipelineSink {
    pub(super) process: Process,
    pub(super) crash: Crash,
}

impl fmt::Debug for PipelineSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.process.fmt(f)
    }
}

impl PipelineSink {
    fn aborted(&self, ids: Vec<TransactionId>) {
        self.process.site().note(Event::DecidedAgainst(ids));
    }
}

#[async_trait]
impl TwoPhaseCommitSinkFunction for PipelineSink {
    type Input = u64;
    type Transaction = Open;
    type Prepared = Handle;

    fn capabilities(&self) -> Capabilities {
        self.process.capabilities()
    }

    async fn begin(&self, id: &TransactionId) -> Result<Open, SinkError> {
        self.crash.around(self.process.begin(id)).await
    }

    async fn write(&self, open: &mut Open, records: Vec<u64>) -> Result<(), SinkError> {
        self.crash
            .around(self.process.write_records(open, records))
            .await
    }

    async fn pre_commit(&self, open: Open) -> Result<Option<Handle>, SinkError> {
        self.crash.around(self.process.pre_commit(open)).await
    }

    async fn commit(&self, _: &TransactionId, handle: &Handle) -> Result<Committed, CommitError> {
        self.crash.around(self.process.commit(handle)).await
    }

    async fn abort(&self, unfinished: Unfinished<Open, Handle>) -> Result<(), SinkError> {
        match unfinished {
            Unfinished::Open(_, open) => self.crash.around(self.process.abort_open(open)).await,
            Unfinished::Prepared(id, handle) => {
                self.aborted(vec![id]);
                self.crash.around(self.process.abort(&handle)).await
            }
        }
    }

    async fn abort_stale(&self, fence: &Fence<Handle>) -> Result<Vec<InDoubt>, SinkError> {
        let newest = fence.newest.map_or(0, |newest| newest.0);
        let decided: Vec<Handle> = fence
            .decided
            .iter()
            .map(|(_, handle)| handle.clone())
            .collect();
        let epoch = fence.epoch.0;
        let aborted = match fence.sweep {
            Sweep::Recovery => {
                let abort = self.process.abort_stale(epoch, newest, &decided);
                self.crash.around(abort).await?
            }
            Sweep::Late => {
                let abort = self.process.sweep_late(epoch, newest, &decided);
                self.crash.around(abort).await?
            }
        };
        // Of one whose checkpoint is not known, the history says nothing.
        self.aborted(aborted.iter().filter_map(InDoubt::id).collect());
        Ok(aborted)
    }

    async fn in_doubt(&self, _: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        self.process.in_doubt().await
    }
}
