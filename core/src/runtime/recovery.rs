//! Recovery: drives the [`Settlement`] of a run, before anything begins.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use tracing::{Instrument, info, info_span, warn};

use super::backoff::Backoff;
use super::call::Calls;
use super::committer::commit;
use super::erased::ErasedSink;
use super::failure::JobError;
use super::patience::ask_store;
use super::sink_stage::phase_span;
use super::sweep::abort_stale;
use crate::checkpoint::{
    CheckpointError, CheckpointLog, CheckpointStore, Decisions, Manifest, Nonce, Written,
    read_state,
};
use crate::error::{ErrorKind, SinkError, chain};
use crate::identity::{CheckpointId, Epoch, JobId, OperatorId, SinkId, TransactionId};
use crate::protocol::{NewestCheckpoint, Settlement, SettlementAction, SettlementEvent};
use crate::sink::Fence;

/// Where a run begins.
pub(super) struct Recovered {
    pub(super) log: CheckpointLog,
    /// The decisions in the log; everything that the newest of them names is settled.
    pub(super) decisions: Decisions,
}

/// Takes the next epoch, settles what is decided, aborts what is stale.
pub(super) struct Recovery<'a> {
    pub(super) job: &'a JobId,
    pub(super) store: &'a Arc<dyn CheckpointStore>,
    pub(super) sinks: &'a BTreeMap<SinkId, Arc<dyn ErasedSink>>,
    pub(super) calls: Calls,
    pub(super) accepted: &'a [TransactionId],
    /// Set as soon as an epoch is taken.
    pub(super) epoch: &'a OnceLock<Epoch>,
}

impl Recovery<'_> {
    /// Runs recovery to its end. `check` looks at the decisions before anything outside is touched.
    ///
    /// Cancel safety: dropping the future is a crash; the next recovery starts over.
    pub(super) async fn run(
        &self,
        check: impl Fn(&Decisions) -> Result<(), JobError>,
    ) -> Result<Recovered, JobError> {
        let (mut settlement, first) =
            Settlement::<String>::new(self.sinks.keys().cloned(), self.accepted.to_vec());
        let (mut log, mut decisions) = (None, Decisions::default());
        let mut next = Some(first);
        while let Some(action) = next {
            let event = match action {
                SettlementAction::TakeEpoch => {
                    let taken = log.insert(self.take_epoch().await?).epoch();
                    SettlementEvent::EpochTaken(*self.epoch.get_or_init(|| taken))
                }
                SettlementAction::ReadNewest => {
                    decisions = self.read_newest(log.as_mut()).await?;
                    check(&decisions)?;
                    SettlementEvent::Newest(newest_of(&decisions))
                }
                SettlementAction::Commit(id, handle) => self.settle(id, &handle).await?,
                SettlementAction::AbortStale {
                    sink,
                    epoch,
                    decided,
                } => {
                    let newest = decisions.newest.as_ref();
                    let over = decisions.settled && newest.is_some_and(|newest| newest.complete);
                    let mut fence = Fence::new(self.job.clone(), sink.clone(), epoch);
                    fence.newest = newest.map(|newest| newest.checkpoint);
                    fence.decided = decided;
                    match self.abort_stale(&fence, over).await {
                        // The job has nothing left to do, so it does not depend on its outside systems any more.
                        Err(error) if over && !error.claims_takeover() => {
                            warn!(job = %self.job, %sink, error = chain(&error), "left as it is");
                        }
                        aborted => aborted?,
                    }
                    SettlementEvent::StaleAborted(sink)
                }
                SettlementAction::RecordSettled {
                    checkpoint,
                    accepted,
                } => {
                    self.record_settled(log.as_mut(), checkpoint, &accepted)
                        .await?;
                    SettlementEvent::Recorded
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
        Ok(Recovered { log, decisions })
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

    async fn read_newest(&self, log: Option<&mut CheckpointLog>) -> Result<Decisions, JobError> {
        let Some(log) = log else {
            return Ok(Decisions::default());
        };
        let span = info_span!("read_newest", job = %self.job, epoch = %log.epoch());
        Ok(ask_store!(log.recover()).instrument(span).await?)
    }

    async fn record_settled(
        &self,
        log: Option<&mut CheckpointLog>,
        checkpoint: CheckpointId,
        accepted: &[TransactionId],
    ) -> Result<(), JobError> {
        let Some(log) = log else {
            return Ok(());
        };
        let (job, epoch) = (self.job, log.epoch());
        let span = info_span!("record_settled", %job, %epoch, %checkpoint);
        let settle = ask_store!(log.settle(checkpoint, accepted));
        match settle.instrument(span).await? {
            Written::Done => Ok(()),
            Written::Fenced { by, .. } => Err(JobError::Fenced {
                job: job.clone(),
                epoch,
                by,
            }),
        }
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
            match commit(self.calls, &**sink, &id, handle)
                .instrument(phase_span!("settle", &id))
                .await
            {
                Ok(Ok(committed)) => {
                    info!(transaction = %id, ?committed, "settled");
                    return Ok(SettlementEvent::Committed(id));
                }
                Ok(Err(error)) => wait(&id, &error, &mut backoff).await,
                Err(JobError::Lost { reason, .. }) => return Ok(SettlementEvent::Lost(id, reason)),
                // The sink can prove neither a commit nor a loss, and never will: an operator has decided.
                Err(JobError::CommitRefused { cause, .. })
                    if self.accepted.contains(&id) && cause.kind() != ErrorKind::Fenced =>
                {
                    let reason = chain(&cause);
                    warn!(transaction = %id, reason, "its loss is accepted");
                    return Ok(SettlementEvent::Lost(id, reason));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Aborts what older epochs left in a sink. An error that may pass is tried again, unless it is to be tried `once`.
    async fn abort_stale(&self, fence: &Fence<String>, once: bool) -> Result<(), JobError> {
        let Some(sink) = self.sinks.get(&fence.sink) else {
            return Ok(());
        };
        let swept = abort_stale(&**sink, fence, self.calls, once).await;
        swept.map_err(|cause| JobError::AbortStale {
            sink: fence.sink.clone(),
            cause,
        })
    }
}

async fn wait(what: &impl std::fmt::Display, error: &SinkError, backoff: &mut Backoff) {
    let delay = backoff.next();
    warn!(%what, error = chain(error), ?delay, "recovery waits");
    tokio::time::sleep(delay).await;
}

fn newest_of(decisions: &Decisions) -> Option<NewestCheckpoint<String>> {
    let newest = decisions.newest.as_ref()?;
    let transactions = newest.transactions.iter();
    let pairs = transactions.map(|prepared| (prepared.id.clone(), prepared.handle.clone()));
    Some(NewestCheckpoint {
        checkpoint: newest.checkpoint,
        prepared: pairs.collect(),
        settled: decisions.settled,
        complete: newest.complete,
    })
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
