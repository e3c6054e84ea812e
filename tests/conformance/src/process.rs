//! One process of a job, as far as a sink can tell: an instance of the sink, and the calls that a runtime makes.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use cofferdam::{
    Capabilities, CheckpointId, CommitError, Committed, Epoch, Fence, InDoubt, SinkError,
    TransactionId, TwoPhaseCommitSinkFunction, Unfinished,
};

use crate::check::{Stop, chain};
use crate::factory::Factory;
use crate::history::Event;
use crate::site::{Site, job, sink};
use crate::token::Token;

type Sink<F> = <F as Factory>::Sink;
type Transaction<F> = <Sink<F> as TwoPhaseCommitSinkFunction>::Transaction;
type Prepared<F> = <Sink<F> as TwoPhaseCommitSinkFunction>::Prepared;

/// A handle as a checkpoint keeps it: text.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Handle {
    pub(crate) id: TransactionId,
    pub(crate) json: String,
}

/// An open transaction.
pub(crate) struct Open<F: Factory> {
    pub(crate) id: TransactionId,
    transaction: Transaction<F>,
}

/// An instance of the sink. Each call has a time limit, and its errors are searched for secrets.
pub(crate) struct Process<F: Factory> {
    site: Arc<Site<F>>,
    sink: Sink<F>,
}

impl<F: Factory> fmt::Debug for Process<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sink.fmt(f)
    }
}

impl<F: Factory> Process<F> {
    pub(crate) fn new(site: Arc<Site<F>>, sink: Sink<F>) -> Self {
        site.look_for_secrets(&format!("{sink:?} {sink:#?}"));
        Self { site, sink }
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.sink.capabilities()
    }

    pub(crate) fn site(&self) -> &Site<F> {
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

    pub(crate) async fn begin(&self, id: &TransactionId) -> Result<Open<F>, SinkError> {
        let transaction = self.limited("begin", self.sink.begin(id)).await?;
        Ok(Open {
            id: id.clone(),
            transaction,
        })
    }

    /// Writes records of these numbers.
    pub(crate) async fn write_records(
        &self,
        open: &mut Open<F>,
        records: Vec<u64>,
    ) -> Result<(), SinkError> {
        let text = |record: &u64| {
            let writer = open.id.clone();
            let token = Token {
                record: *record,
                writer,
            };
            self.site.factory.record(&token.to_string())
        };
        let inputs = records.iter().map(text).collect();
        self.site.note(Event::Wrote {
            writer: open.id.clone(),
            records,
        });
        self.limited("write", self.sink.write(&mut open.transaction, inputs))
            .await
    }

    /// Writes so many new records.
    pub(crate) async fn write(&self, open: &mut Open<F>, count: u64) -> Result<(), SinkError> {
        let records = self.site.new_records(count);
        self.write_records(open, records).await
    }

    /// Writes something that is no ordinary record.
    pub(crate) async fn write_input(
        &self,
        open: &mut Open<F>,
        input: <Sink<F> as TwoPhaseCommitSinkFunction>::Input,
    ) -> Result<(), SinkError> {
        self.limited("write", self.sink.write(&mut open.transaction, vec![input]))
            .await
    }

    /// What comes back is text: nothing is smuggled from one process to another.
    pub(crate) async fn pre_commit(&self, open: Open<F>) -> Result<Option<Handle>, SinkError> {
        let Open { id, transaction } = open;
        let prepared = self
            .limited("pre_commit", self.sink.pre_commit(transaction))
            .await?;
        let Some(prepared) = prepared else {
            return Ok(None);
        };
        let json = serde_json::to_string(&prepared)
            .map_err(|error| SinkError::rejected("the handle is no JSON").caused_by(error))?;
        self.site.look_for_secrets(&json);
        Ok(Some(Handle { id, json }))
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

    /// Reads a handle back from its text.
    pub(crate) fn decode(&self, handle: &Handle) -> Result<Prepared<F>, SinkError> {
        serde_json::from_str(&handle.json)
            .map_err(|error| SinkError::rejected("the handle can't be read").caused_by(error))
    }

    pub(crate) async fn commit(&self, handle: &Handle) -> Result<Committed, CommitError> {
        let prepared = self.decode(handle)?;
        self.limited("commit", self.sink.commit(&handle.id, &prepared))
            .await
    }

    pub(crate) async fn abort_open(&self, open: Open<F>) -> Result<(), SinkError> {
        self.site.note(Event::DecidedAgainst(vec![open.id.clone()]));
        let unfinished = Unfinished::Open(open.id, open.transaction);
        self.limited("abort", self.sink.abort(unfinished)).await
    }

    /// Aborts without a word in the history: the check knows better whether that is right.
    pub(crate) async fn abort(&self, handle: &Handle) -> Result<(), SinkError> {
        let unfinished = Unfinished::Prepared(handle.id.clone(), self.decode(handle)?);
        self.limited("abort", self.sink.abort(unfinished)).await
    }

    pub(crate) async fn abort_stale(
        &self,
        epoch: u64,
        newest: u64,
        decided: &[Handle],
    ) -> Result<Vec<TransactionId>, SinkError> {
        let with_handle = |handle: &Handle| Ok((handle.id.clone(), self.decode(handle)?));
        let fence = Fence {
            job: job(),
            sink: sink(),
            epoch: Epoch(epoch),
            newest: (newest > 0).then_some(CheckpointId(newest)),
            decided: decided
                .iter()
                .map(with_handle)
                .collect::<Result<_, SinkError>>()?,
        };
        self.limited("abort_stale", self.sink.abort_stale(&fence))
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
            // Now or before: both are fine.
            let _: Committed = self.commit(handle).await?;
        }
        self.abort_stale(epoch, newest, decided).await?;
        self.nothing_in_doubt_before(epoch).await
    }

    pub(crate) async fn nothing_in_doubt_before(&self, epoch: u64) -> Result<(), Stop> {
        let mut in_doubt = self.in_doubt().await?;
        in_doubt.retain(|found| found.transaction.sink == sink());
        match in_doubt
            .iter()
            .find(|found| found.transaction.epoch < Epoch(epoch))
        {
            Some(found) => Err(Stop::failed(format!(
                "{} is in doubt after epoch {epoch} has recovered",
                found.transaction
            ))),
            None => Ok(()),
        }
    }

    /// The sink itself, for calls that have no place above.
    pub(crate) fn sink(&self) -> &Sink<F> {
        &self.sink
    }
}
