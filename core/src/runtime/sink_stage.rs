//! The end of a chain that writes into a sink.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tracing::Instrument;

use super::call::Calls;
use super::counts::Count;
use super::erased::encode;
use super::failure::{Failure, JobError};
use super::order::CommitOrder;
use super::site::Site;
use crate::error::{SinkError, chain};
use crate::identity::{SinkId, TransactionId};
use crate::pipeline::{BATCH, Cut, Record, Signal, Stage, Tail};
use crate::protocol::{Barrier, ParticipantEvent};
use crate::sink::{TwoPhaseCommitSinkFunction, Unfinished};

/// How many records the stage of an ordered sink collects while it waits for a commit, before it holds its input back.
const HELD: usize = 16 * BATCH;

/// The plan of a chain's end that writes into a sink.
pub struct SinkTail<S> {
    pub(crate) id: SinkId,
    pub(crate) sink: Arc<S>,
}

impl<S> Clone for SinkTail<S> {
    fn clone(&self) -> Self {
        Self {
            id: self.id.clone(),
            sink: Arc::clone(&self.sink),
        }
    }
}

impl<S> fmt::Debug for SinkTail<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkTail")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl<S: TwoPhaseCommitSinkFunction> Tail<S::Input> for SinkTail<S> {
    type Stage = SinkStage<S>;

    fn stage(&self, site: &mut Site<'_>) -> Result<SinkStage<S>, Failure> {
        let first = site.transaction(&self.id);
        let (committer, committed) = site.committer(&first, Arc::new(Arc::clone(&self.sink)));
        Ok(SinkStage {
            sink: Arc::clone(&self.sink),
            committer,
            order: CommitOrder::new(self.sink.capabilities().ordered, committed),
            calls: site.calls(),
            records: site.count(&self.id, "records"),
            id: first,
            open: None,
            batch: Vec::with_capacity(BATCH),
        })
    }
}

/// Writes records into the transaction of the current checkpoint, and prepares it at the barrier.
pub struct SinkStage<S: TwoPhaseCommitSinkFunction> {
    sink: Arc<S>,
    committer: mpsc::Sender<ParticipantEvent<String>>,
    order: CommitOrder,
    calls: Calls,
    records: Count,
    /// The current transaction; begun once it has a record.
    id: TransactionId,
    open: Option<S::Transaction>,
    batch: Vec<S::Input>,
}

impl<S: TwoPhaseCommitSinkFunction> fmt::Debug for SinkStage<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkStage")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

macro_rules! phase_span {
    ($phase:literal, $id:expr) => {{
        let TransactionId { job, sink, epoch, subtask, checkpoint } = $id;
        tracing::info_span!($phase, %job, %epoch, %sink, %subtask, %checkpoint)
    }};
}
pub(super) use phase_span;

impl<S: TwoPhaseCommitSinkFunction> SinkStage<S> {
    async fn write(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.order.wait().await?;
        let mut transaction = match self.open.take() {
            Some(transaction) => transaction,
            None => self
                .calls
                .wait("begin", &self.id, self.sink.begin(&self.id))
                .instrument(phase_span!("begin", &self.id))
                .await
                .map_err(|error| self.failed("begin", error))?,
        };
        self.records.add(self.batch.len() as u64);
        self.records.publish();
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        let write = self.sink.write(&mut transaction, batch);
        let write = self.calls.wait("write", &self.id, write);
        let written = write.instrument(phase_span!("write", &self.id)).await;
        // Kept open also after an error: cancelling the run aborts it.
        self.open = Some(transaction);
        written.map_err(|error| self.failed("write", error))
    }

    /// Writes what has gathered. An ordered sink whose turn has not come collects more of it, up to a bound.
    async fn write_in_order(&mut self) -> Result<(), Failure> {
        match self.batch.len() < HELD && !self.order.may_begin() {
            true => Ok(()),
            false => self.write().await,
        }
    }

    async fn pre_commit(&mut self, barrier: Barrier) -> Result<(), Failure> {
        self.write().await?;
        let prepared = match self.open.take() {
            None => Ok(None),
            Some(transaction) => {
                let prepared = self.sink.pre_commit(transaction);
                self.calls
                    .wait("pre_commit", &self.id, prepared)
                    .instrument(phase_span!("pre_commit", &self.id))
                    .await
            }
        };
        let handle = prepared.and_then(|prepared| {
            prepared
                .map(|prepared| encode(&self.id, &prepared))
                .transpose()
        });
        let (event, result) = match handle {
            Ok(handle) => (
                ParticipantEvent::Prepared(barrier.checkpoint, handle),
                Ok(()),
            ),
            Err(error) => (
                ParticipantEvent::NotPrepared(barrier.checkpoint, chain(&error)),
                Err(self.failed("pre-commit", error)),
            ),
        };
        if matches!(event, ParticipantEvent::Prepared(_, Some(_))) {
            self.order.prepared(&self.id);
        }
        let told = self.committer.send(event).await;
        self.id.checkpoint = barrier.checkpoint.next();
        result.and_then(|()| told.map_err(|_| Failure::Cancelled))
    }

    async fn cancel(&mut self) {
        self.batch.clear();
        if let Some(transaction) = self.open.take() {
            let unfinished = Unfinished::Open(self.id.clone(), transaction);
            let abort = self.sink.abort(unfinished);
            if let Err(error) = self.calls.wait("abort", &self.id, abort).await {
                // Not swallowed: whatever is left is stale to the next epoch, which aborts it before it begins.
                tracing::warn!(transaction = %self.id, error = chain(&error), "left to recovery");
            }
        }
    }

    fn failed(&self, action: &'static str, cause: SinkError) -> Failure {
        let TransactionId {
            sink,
            subtask,
            checkpoint,
            ..
        } = self.id.clone();
        JobError::Sink {
            sink,
            subtask,
            action,
            checkpoint,
            cause,
        }
        .into()
    }
}

#[async_trait]
impl<S: TwoPhaseCommitSinkFunction> Stage<S::Input> for SinkStage<S> {
    #[inline]
    fn push(&mut self, record: Record<S::Input>) {
        self.batch.push(record.value);
    }

    async fn signal(&mut self, signal: Signal, cut: &mut Cut) -> Result<(), Failure> {
        match signal {
            Signal::BatchEnd | Signal::Watermark(_) if self.batch.len() >= BATCH => {
                self.write_in_order().await
            }
            Signal::Flush => self.write_in_order().await,
            Signal::BatchEnd | Signal::Watermark(_) | Signal::Idle => Ok(()),
            Signal::Barrier(barrier) => {
                self.pre_commit(barrier).await?;
                self.records.cut(cut);
                Ok(())
            }
            Signal::Cancel => {
                self.cancel().await;
                Ok(())
            }
        }
    }
}
