//! Commits what a sink subtask has prepared, beside the writes of its next transactions.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::Instrument;

use super::backoff::Backoff;
use super::call::Calls;
use super::erased::ErasedSink;
use super::failure::{Failure, JobError};
use super::run::Event;
use super::sink_stage::phase_span;
use super::subtask::Snapshot;
use crate::checkpoint::PreparedTransaction;
use crate::error::{SinkError, chain};
use crate::identity::{CheckpointId, TransactionId};
use crate::protocol::{
    CoordinatorEvent, Decision, Participant, ParticipantAction, ParticipantEvent, ParticipantId,
    Vote,
};
use crate::sink::{CommitError, Committed};

/// Drives the [`Participant`] of one sink subtask.
pub(super) struct Committer {
    pub(super) participant: ParticipantId,
    /// The id of its transactions but for the checkpoint.
    pub(super) id: TransactionId,
    pub(super) sink: Arc<dyn ErasedSink>,
    pub(super) prepared: mpsc::Receiver<ParticipantEvent<String>>,
    pub(super) decisions: watch::Receiver<Option<Decision>>,
    pub(super) events: mpsc::Sender<Event>,
    /// Tells the sink stage of the newest checkpoint whose transaction is committed.
    pub(super) committed: watch::Sender<Option<CheckpointId>>,
    /// When each transaction was prepared that is not known to be committed.
    pub(super) since: BTreeMap<CheckpointId, Instant>,
    pub(super) calls: Calls,
}

/// What came of a try to commit. The inner error is one to try again after.
type Answer = Result<Result<Committed, SinkError>, JobError>;

/// The commit that is under way: a try that waits or runs.
struct UnderWay {
    id: TransactionId,
    handle: String,
    backoff: Backoff,
    /// When this try begins.
    at: Instant,
    attempt: Pin<Box<dyn Future<Output = Answer> + Send>>,
}

impl UnderWay {
    fn new(
        calls: Calls,
        sink: &Arc<dyn ErasedSink>,
        id: TransactionId,
        handle: String,
        backoff: Backoff,
        at: Instant,
    ) -> Self {
        let call = (Arc::clone(sink), id.clone(), handle.clone());
        let attempt = Box::pin(async move {
            tokio::time::sleep_until(at).await;
            let (sink, id, handle) = call;
            commit(calls, &*sink, &id, &handle).await
        });
        Self {
            id,
            handle,
            backoff,
            at,
            attempt,
        }
    }
}

impl Committer {
    /// Runs until the run is over: then a try that is running is waited for, and no new one begun.
    pub(super) async fn run(mut self) -> Result<(), Failure> {
        let mut machine = Participant::new();
        let mut under_way: Option<UnderWay> = None;
        loop {
            let event = tokio::select! {
                biased;
                changed = self.decisions.changed() => match changed {
                    Err(_) => return finish(under_way).await,
                    Ok(()) => match *self.decisions.borrow_and_update() {
                        Some(decision) => ParticipantEvent::Decision(decision),
                        None => continue,
                    },
                },
                Some(event) = self.prepared.recv() => {
                    if let ParticipantEvent::Prepared(checkpoint, Some(_)) = &event {
                        self.since.insert(*checkpoint, Instant::now());
                    }
                    event
                }
                answer = attempt(&mut under_way) => {
                    match self.answered(answer?, &mut under_way) {
                        Some(checkpoint) => ParticipantEvent::Committed(checkpoint),
                        None => continue,
                    }
                }
            };
            for action in machine.on(event) {
                self.act(action, &mut under_way).await?;
            }
        }
    }

    /// Tells which checkpoint is committed, or arranges the next try.
    fn answered(
        &mut self,
        answer: Result<Committed, SinkError>,
        under_way: &mut Option<UnderWay>,
    ) -> Option<CheckpointId> {
        let UnderWay {
            id,
            handle,
            mut backoff,
            ..
        } = under_way.take()?;
        match answer {
            Ok(_) => {
                self.since.remove(&id.checkpoint);
                self.committed.send_replace(Some(id.checkpoint));
                Some(id.checkpoint)
            }
            Err(error) => {
                let delay = backoff.next();
                let since = self.since.get(&id.checkpoint);
                let age = since.map(Instant::elapsed).unwrap_or_default();
                tracing::warn!(transaction = %id, error = chain(&error), ?age, ?delay, "not committed yet");
                let at = Instant::now() + delay;
                *under_way = Some(UnderWay::new(
                    self.calls, &self.sink, id, handle, backoff, at,
                ));
                None
            }
        }
    }

    async fn act(
        &self,
        action: ParticipantAction<String>,
        under_way: &mut Option<UnderWay>,
    ) -> Result<(), Failure> {
        match action {
            ParticipantAction::Vote(checkpoint, vote) => {
                let vote = match vote {
                    Vote::Abort(reason) => Vote::Abort(reason),
                    Vote::Commit(prepared) => Vote::Commit(Snapshot {
                        transactions: prepared
                            .into_iter()
                            .map(|(checkpoint, handle)| PreparedTransaction {
                                id: self.id_of(checkpoint),
                                handle,
                            })
                            .collect(),
                        ..Snapshot::default()
                    }),
                };
                let participant = self.participant;
                let span = phase_span!("vote", &self.id_of(checkpoint));
                self.tell(CoordinatorEvent::Voted {
                    checkpoint,
                    participant,
                    vote,
                })
                .instrument(span)
                .await
            }
            ParticipantAction::Commit(checkpoint, handle) => {
                let (id, backoff) = (self.id_of(checkpoint), Backoff::of_calls());
                *under_way = Some(UnderWay::new(
                    self.calls,
                    &self.sink,
                    id,
                    handle,
                    backoff,
                    Instant::now(),
                ));
                Ok(())
            }
            ParticipantAction::Abort(checkpoint, handle) => {
                let id = self.id_of(checkpoint);
                let abort = self.sink.abort(&id, &handle);
                let abort = self.calls.wait("abort", &id, abort);
                if let Err(error) = abort.instrument(phase_span!("abort", &id)).await {
                    // Not swallowed: it is stale to the next epoch, which aborts it before it begins.
                    tracing::warn!(transaction = %id, error = chain(&error), "left to recovery");
                }
                Ok(())
            }
            ParticipantAction::Confirm(checkpoint) => {
                let span = phase_span!("confirm", &self.id_of(checkpoint));
                let participant = self.participant;
                self.tell(CoordinatorEvent::Confirmed {
                    checkpoint,
                    participant,
                })
                .instrument(span)
                .await
            }
        }
    }

    fn id_of(&self, checkpoint: CheckpointId) -> TransactionId {
        TransactionId {
            checkpoint,
            ..self.id.clone()
        }
    }

    async fn tell(&self, event: CoordinatorEvent<Snapshot>) -> Result<(), Failure> {
        self.events
            .send(Event::Protocol(event))
            .await
            .map_err(|_| Failure::Cancelled)
    }
}

/// The answer of the try that is under way. Dropping this future does not drop the try.
async fn attempt(under_way: &mut Option<UnderWay>) -> Answer {
    match under_way {
        Some(under_way) => under_way.attempt.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Lets a try that has begun come to its end; what is not committed then is settled by the next run.
async fn finish(mut under_way: Option<UnderWay>) -> Result<(), Failure> {
    if under_way
        .as_ref()
        .is_some_and(|under_way| under_way.at <= Instant::now())
    {
        // Committed or not yet, the next run finds out; a loss is reported now.
        let _settled_by_recovery = attempt(&mut under_way).await?;
    }
    Ok(())
}

/// Commits once.
pub(super) async fn commit(
    calls: Calls,
    sink: &dyn ErasedSink,
    id: &TransactionId,
    handle: &str,
) -> Answer {
    let commit = calls.wait("commit", id, sink.commit(id, handle));
    let commit = commit.instrument(phase_span!("commit", id));
    match commit.await {
        Ok(committed) => Ok(Ok(committed)),
        Err(CommitError::NotYet(error)) if error.kind().is_retriable() => Ok(Err(error)),
        Err(CommitError::NotYet(cause)) => {
            let (transaction, handle) = (id.clone(), handle.to_owned());
            Err(JobError::CommitRefused {
                transaction,
                handle,
                cause,
            })
        }
        Err(CommitError::Lost(reason)) => Err(JobError::Lost {
            checkpoint: id.checkpoint,
            transaction: id.clone(),
            handle: handle.to_owned(),
            reason,
        }),
    }
}
