//! One process of a job, as far as a sink can tell: an instance of the sink, and the calls that a runtime makes.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use cofferdam::{
    Capabilities, CheckpointId, CommitError, Committed, Epoch, Fence, InDoubt, JobId, SinkError,
    Sweep, TransactionId, Unfinished,
};

use crate::check::{Stop, chain};
use crate::factory::Odd;
use crate::history::Event;
use crate::site::{Site, job, sink};
use crate::subject::{AnyTransaction, Instance};
use crate::token::Token;

/// A handle as a checkpoint keeps it: text.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Handle {
    pub(crate) id: TransactionId,
    pub(crate) json: String,
}

/// An open transaction.
pub(crate) struct Open {
    pub(crate) id: TransactionId,
    transaction: AnyTransaction,
}

/// An instance of the sink. Each call has a time limit, and its errors are searched for secrets.
pub(crate) struct Process {
    site: Arc<Site>,
    sink: Box<dyn Instance>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sink.fmt(f)
    }
}

impl Process {
    pub(crate) fn new(site: Arc<Site>, sink: Box<dyn Instance>) -> Self {
        site.look_for_secrets(&format!("{sink:?} {sink:#?}"));
        Self { site, sink }
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.sink.capabilities()
    }

    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// A call that must come back. One that doesn't is noted, and fails the check.
    async fn limited<T, E>(
        &self,
        call: &str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E>
    where
        E: From<SinkError> + std::error::Error + 'static,
    {
        let limit = self.site.call_limit();
        let result = tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            self.site
                .violation(format!("{call} gave no answer within {limit:?}"));
            Err(SinkError::unknown(format!("{call} gave no answer")).into())
        });
        if let Err(error) = &result {
            self.site
                .look_for_secrets(&format!("{} {error:?}", chain(error)));
        }
        result
    }

    pub(crate) async fn begin(&self, id: &TransactionId) -> Result<Open, SinkError> {
        let transaction = self.limited("begin", self.sink.begin(id)).await?;
        Ok(Open {
            id: id.clone(),
            transaction,
        })
    }

    /// Writes records of these numbers.
    pub(crate) async fn write_records(
        &self,
        open: &mut Open,
        records: Vec<u64>,
    ) -> Result<(), SinkError> {
        let text = |record: &u64| {
            let writer = open.id.clone();
            let token = Token {
                record: *record,
                writer,
            };
            token.to_string()
        };
        let texts = records.iter().map(text).collect();
        self.site.note(Event::Wrote {
            writer: open.id.clone(),
            records,
        });
        self.limited("write", self.sink.write(&mut open.transaction, texts))
            .await
    }

    /// Writes so many new records.
    pub(crate) async fn write(&self, open: &mut Open, count: u64) -> Result<(), SinkError> {
        let records = self.site.new_records(count);
        self.write_records(open, records).await
    }

    /// Writes a record that is not as it should be.
    pub(crate) async fn write_odd(&self, open: &mut Open, odd: Odd) -> Result<(), SinkError> {
        self.limited("write", self.sink.write_odd(&mut open.transaction, odd))
            .await
    }

    pub(crate) async fn pre_commit(&self, open: Open) -> Result<Option<Handle>, SinkError> {
        let Open { id, transaction } = open;
        let handle = self
            .limited("pre_commit", self.sink.pre_commit(transaction))
            .await?;
        Ok(handle.map(|json| {
            self.site.look_for_secrets(&json);
            Handle { id, json }
        }))
    }

    /// A transaction of so many new records, prepared.
    pub(crate) async fn prepare(&self, id: &TransactionId, count: u64) -> Result<Handle, Stop> {
        self.prepare_records(id, self.site.new_records(count)).await
    }

    /// A transaction of these records, prepared.
    pub(crate) async fn prepare_records(
        &self,
        id: &TransactionId,
        records: Vec<u64>,
    ) -> Result<Handle, Stop> {
        let count = records.len();
        let mut open = self.begin(id).await?;
        self.write_records(&mut open, records).await?;
        let handle = self.pre_commit(open).await?;
        handle.ok_or_else(|| {
            Stop::failed(format!(
                "pre_commit of {id} returned no handle for {count} records"
            ))
        })
    }

    /// Reads a handle from its text, and writes it again.
    pub(crate) fn reread(&self, handle: &Handle) -> Result<String, SinkError> {
        self.sink.reread(&handle.json)
    }

    pub(crate) async fn commit(&self, handle: &Handle) -> Result<Committed, CommitError> {
        let commit = self.sink.commit(&handle.id, &handle.json);
        self.limited("commit", commit).await
    }

    /// Commits what is decided; by this call or by one before, both are fine.
    pub(crate) async fn settle(&self, handle: &Handle) -> Result<(), Stop> {
        match self.commit(handle).await? {
            Committed::Now | Committed::Before => Ok(()),
        }
    }

    pub(crate) async fn decide_and_settle(&self, handle: &Handle) -> Result<(), Stop> {
        self.site.note(Event::Decided(vec![handle.id.clone()]));
        self.settle(handle).await
    }

    pub(crate) async fn abort_open(&self, open: Open) -> Result<(), SinkError> {
        self.site.note(Event::DecidedAgainst(vec![open.id.clone()]));
        let unfinished = Unfinished::Open(open.id, open.transaction);
        self.limited("abort", self.sink.abort(unfinished)).await
    }

    /// Aborts without a word in the history: the check knows better whether that is right.
    pub(crate) async fn abort(&self, handle: &Handle) -> Result<(), SinkError> {
        let unfinished = Unfinished::Prepared(handle.id.clone(), handle.json.clone());
        self.limited("abort", self.sink.abort(unfinished)).await
    }

    pub(crate) async fn abort_stale(
        &self,
        epoch: u64,
        newest: u64,
        decided: &[Handle],
    ) -> Result<Vec<InDoubt>, SinkError> {
        self.abort_stale_of(job(), epoch, newest, decided).await
    }

    /// As if a job of this name had a fence.
    pub(crate) async fn abort_stale_of(
        &self,
        job: JobId,
        epoch: u64,
        newest: u64,
        decided: &[Handle],
    ) -> Result<Vec<InDoubt>, SinkError> {
        let fence = fence(job, epoch, newest, decided);
        self.limited("abort_stale", self.sink.abort_stale(fence))
            .await
    }

    /// As a run does while it works.
    pub(crate) async fn sweep_late(
        &self,
        epoch: u64,
        newest: u64,
        decided: &[Handle],
    ) -> Result<Vec<InDoubt>, SinkError> {
        let mut fence = fence(job(), epoch, newest, decided);
        fence.sweep = Sweep::Late;
        self.limited("abort_stale", self.sink.abort_stale(fence))
            .await
    }

    pub(crate) async fn in_doubt(&self) -> Result<Vec<InDoubt>, SinkError> {
        self.limited("in_doubt", self.sink.in_doubt(&job())).await
    }

    /// What a runtime does at a start: commits what is decided, then aborts what is stale. Afterwards nothing of an
    /// older epoch may be in doubt.
    pub(crate) async fn recover(
        &self,
        epoch: u64,
        newest: u64,
        decided: &[Handle],
    ) -> Result<(), Stop> {
        for handle in decided {
            self.settle(handle).await?;
        }
        self.abort_stale(epoch, newest, decided).await?;
        self.nothing_in_doubt_before(epoch).await
    }

    pub(crate) async fn nothing_in_doubt_before(&self, epoch: u64) -> Result<(), Stop> {
        let mut in_doubt = self.in_doubt().await?;
        in_doubt.retain(|found| found.sink == sink());
        match in_doubt.iter().find(|found| found.epoch < Epoch(epoch)) {
            Some(found) => Err(Stop::failed(format!(
                "{found} is in doubt after epoch {epoch} has recovered"
            ))),
            None => Ok(()),
        }
    }
}

fn fence(job: JobId, epoch: u64, newest: u64, decided: &[Handle]) -> Fence<String> {
    let mut fence = Fence::new(job, sink(), Epoch(epoch));
    fence.newest = (newest > 0).then_some(CheckpointId(newest));
    let decided = decided.iter();
    fence.decided = decided
        .map(|handle| (handle.id.clone(), handle.json.clone()))
        .collect();
    fence
}
