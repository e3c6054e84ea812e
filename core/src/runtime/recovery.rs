//! Recovery: drives the [`Settlement`] of a run, before anything begins.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use tracing::{Instrument, info, info_span};

use super::backoff::Backoff;
use super::committer::commit;
use super::erased::ErasedSink;
use super::failure::JobError;
use super::patience::ask_store;
use super::sink_stage::phase_span;
use crate::checkpoint::{
    CheckpointError, CheckpointLog, CheckpointStore, Manifest, Nonce, read_state,
};
use crate::error::{SinkError, chain};
use crate::identity::{CheckpointId, Epoch, JobId, OperatorId, SinkId, TransactionId};
use crate::protocol::{Settlement, SettlementAction, SettlementEvent};
use crate::sink::Fence;

/// Where a run begins.
pub(super) struct Recovered {
    pub(super) log: CheckpointLog,
    /// The newest decided checkpoint; all that it names is settled.
    pub(super) newest: Option<Manifest>,
    /// All decided checkpoints in the log.
    pub(super) kept: Vec<CheckpointId>,
}

/// Takes the next epoch, settles what is decided, aborts what is stale.
pub(super) struct Recovery<'a> {
    pub(super) job: &'a JobId,
    pub(super) store: &'a Arc<dyn CheckpointStore>,
    pub(super) sinks: &'a BTreeMap<SinkId, Arc<dyn ErasedSink>>,
    pub(super) accepted: &'a [TransactionId],
    /// Set as soon as an epoch is taken.
    pub(super) epoch: &'a OnceLock<Epoch>,
}

impl Recovery<'_> {
    /// Runs recovery to its end. `check` looks at the newest checkpoint before anything outside is touched.
    ///
    /// Cancel safety: dropping the future is a crash; the next recovery starts over.
    pub(super) async fn run(
        &self,
        check: impl Fn(&Manifest) -> Result<(), JobError>,
    ) -> Result<Recovered, JobError> {
        let (mut settlement, first) =
            Settlement::<String>::new(self.sinks.keys().cloned(), self.accepted.to_vec());
        let (mut log, mut newest, mut kept) = (None, None, Vec::new());
        let mut next = Some(first);
        while let Some(action) = next {
            let event = match action {
                SettlementAction::TakeEpoch => {
                    let taken = log.insert(self.take_epoch().await?).epoch();
                    SettlementEvent::EpochTaken(*self.epoch.get_or_init(|| taken))
                }
                SettlementAction::ReadNewest => {
                    (newest, kept) = self.read_newest(log.as_mut()).await?;
                    newest.as_ref().map(&check).transpose()?;
                    SettlementEvent::Newest(newest.as_ref().map(prepared))
                }
                SettlementAction::Commit(id, handle) => self.settle(id, &handle).await?,
                SettlementAction::AbortStale {
                    sink,
                    epoch,
                    decided,
                } => {
                    let newest = newest.as_ref().map(|newest| newest.checkpoint);
                    let mut fence = Fence::new(self.job.clone(), sink.clone(), epoch);
                    (fence.newest, fence.decided) = (newest, decided);
                    self.abort_stale(&fence).await?;
                    SettlementEvent::StaleAborted(sink)
                }
                SettlementAction::Begin(_) => break,
                SettlementAction::StopLost {
                    checkpoint,
                    transaction,
                    handle,
                    reason,
                } => {
                    return Err(JobError::Lost {
                        checkpoint,
                        transaction,
                        handle,
                        reason,
                    });
                }
            };
            next = settlement.on(event);
        }
        let log = log.ok_or_else(|| JobError::Plan("recovery took no epoch".to_owned()))?;
        Ok(Recovered { log, newest, kept })
    }

    async fn take_epoch(&self) -> Result<CheckpointLog, JobError> {
        // One nonce for all tries: a record whose answer was lost is recognised.
        let nonce = Nonce::random();
        let (store, job) = (self.store, self.job);
        let take_over = ask_store!(CheckpointLog::take_over(
            Arc::clone(store),
            job.clone(),
            nonce.clone()
        ));
        Ok(take_over.instrument(info_span!("take_over", %job)).await?)
    }

    async fn read_newest(
        &self,
        log: Option<&mut CheckpointLog>,
    ) -> Result<(Option<Manifest>, Vec<CheckpointId>), JobError> {
        let Some(log) = log else {
            return Ok((None, Vec::new()));
        };
        let span = info_span!("read_newest", job = %self.job, epoch = %log.epoch());
        Ok(ask_store!(log.recover()).instrument(span).await?)
    }

    /// Commits until there is an answer. It can't be given up: records of a decided checkpoint depend on it.
    async fn settle(
        &self,
        id: TransactionId,
        handle: &str,
    ) -> Result<SettlementEvent<String>, JobError> {
        let Some(sink) = self.sinks.get(&id.sink) else {
            let reason = format!(
                "it names transaction {id}, and there is no sink {}",
                id.sink
            );
            return Err(JobError::OtherPipeline {
                checkpoint: id.checkpoint,
                reason,
            });
        };
        let mut backoff = Backoff::of_calls();
        loop {
            match commit(&**sink, &id, handle)
                .instrument(phase_span!("settle", &id))
                .await
            {
                Ok(Ok(committed)) => {
                    info!(transaction = %id, ?committed, "settled");
                    return Ok(SettlementEvent::Committed(id));
                }
                Ok(Err(error)) => wait(&id, &error, &mut backoff).await,
                Err(JobError::Lost { reason, .. }) => return Ok(SettlementEvent::Lost(id, reason)),
                Err(error) => return Err(error),
            }
        }
    }

    async fn abort_stale(&self, fence: &Fence<String>) -> Result<(), JobError> {
        let Fence { sink, epoch, .. } = fence;
        let Some(erased) = self.sinks.get(sink) else {
            return Ok(());
        };
        let mut backoff = Backoff::of_calls();
        loop {
            let span = info_span!("abort_stale", job = %self.job, %epoch, %sink);
            match erased.abort_stale(fence).instrument(span).await {
                Ok(aborted) => {
                    for transaction in aborted {
                        info!(%transaction, "aborted: an older epoch left it undecided");
                    }
                    return Ok(());
                }
                Err(error) if error.kind().is_retriable() => wait(sink, &error, &mut backoff).await,
                Err(cause) => {
                    return Err(JobError::AbortStale {
                        sink: sink.clone(),
                        cause,
                    });
                }
            }
        }
    }
}

async fn wait(what: &impl std::fmt::Display, error: &SinkError, backoff: &mut Backoff) {
    let delay = backoff.next();
    tracing::warn!(%what, error = chain(error), ?delay, "recovery waits");
    tokio::time::sleep(delay).await;
}

fn prepared(manifest: &Manifest) -> (CheckpointId, Vec<(TransactionId, String)>) {
    let transactions = manifest.transactions.iter();
    let pairs = transactions.map(|prepared| (prepared.id.clone(), prepared.handle.clone()));
    (manifest.checkpoint, pairs.collect())
}

/// Reads all operator state that a checkpoint names.
pub(super) async fn restore(
    store: &dyn CheckpointStore,
    manifest: &Manifest,
) -> Result<BTreeMap<OperatorId, Vec<(String, Vec<u8>)>>, CheckpointError> {
    let mut state: BTreeMap<OperatorId, Vec<(String, Vec<u8>)>> = BTreeMap::new();
    for part in &manifest.state {
        let content = ask_store!(read_state(store, part)).await?;
        state
            .entry(part.operator.clone())
            .or_default()
            .push((part.object.clone(), content));
    }
    Ok(state)
}
