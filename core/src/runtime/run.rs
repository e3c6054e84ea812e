//! A run that has begun: drives the [`Coordinator`] to the last commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use tracing::{info, warn};

use super::attempt::Attempt;
use super::failure::{Failure, JobError};
use super::in_doubt::InDoubtList;
use super::job::JobEnd;
use super::late_sweep::late_sweeps;
use super::left_out::LeftOut;
use super::log_keeper::{LogRequest, keep_log};
use super::panics::panicked;
use super::patient_wait::{PatientWait, due};
use super::plan::check_readers;
use super::progress::JobState;
use super::recovery::{Recovered, restore};
use super::site::Launch;
use super::stop::{Stop, asked_to_stop, left};
use super::subtask::Snapshot;
use super::written::WrittenState;
use crate::checkpoint::{Decisions, Manifest};
use crate::identity::{CheckpointId, Epoch};
use crate::protocol::{
    Barrier, Coordinator, CoordinatorAction, CoordinatorEvent, CoordinatorSettings, Decision,
};
use crate::shard::Sharding;

/// What subtasks, committers and the log keeper tell.
#[derive(Debug)]
pub(crate) enum Event {
    /// For the coordinator.
    Protocol(CoordinatorEvent<Snapshot>),
    /// A source subtask has no more input.
    Exhausted,
    /// The record of another run was there before this run's decision, which so is never written. `Fenced` follows.
    Unwritten,
}

/// How many events may wait for the driver.
const EVENTS: usize = 256;
/// How many requests may wait for the log keeper: a decision, and retired checkpoints.
const LOG_REQUESTS: usize = 1024;

/// A run that has begun.
pub(super) struct Run<'a> {
    pub(super) attempt: &'a Attempt<'a>,
    epoch: Epoch,
    pub(super) coordinator: Coordinator<Snapshot>,
    pub(super) tasks: JoinSet<Result<(), Failure>>,
    pub(super) events: mpsc::Receiver<Event>,
    pub(super) barriers: Vec<mpsc::Sender<Barrier>>,
    pub(super) log: mpsc::Sender<LogRequest>,
    pub(super) decisions: Vec<watch::Sender<Option<Decision>>>,
    /// The checkpoint after the newest that is decided: what was prepared from here on, no decision names.
    first_undecided: CheckpointId,
    /// Whether it began from a checkpoint.
    resumed: bool,
    /// Totals at that checkpoint.
    counts: BTreeMap<String, u64>,
    /// When the checkpoint under way is too late, and whether all input had ended when it began.
    pub(super) under_way: Option<(Barrier, Instant)>,
    /// When its barrier was sent, and how many bytes of state it has stored.
    begun: Instant,
    size: u64,
    /// Tells each source subtask whether to read.
    pub(super) holds: Vec<watch::Sender<bool>>,
    /// Sources are held back until more commits are confirmed.
    pub(super) held: Option<PatientWait>,
    /// The job was asked to stop.
    pub(super) stopping: Option<PatientWait>,
    complete: bool,
    /// Source subtasks that still read.
    reading: usize,
    /// What is being decided, and since when.
    pub(super) deciding: Option<(Arc<Manifest>, Instant)>,
    pub(super) in_doubt: InDoubtList,
    left_out: LeftOut,
    written: WrittenState,
}

/// What ends a run.
pub(super) enum End {
    Finished,
    Fenced(Epoch),
    RolledBack(String),
    Left,
}

/// What the driver waits for.
enum Next {
    Task(Result<Result<(), Failure>, tokio::task::JoinError>),
    Event(Event),
    Stop,
    Trigger,
    TimedOut(Barrier),
    Held,
    Stopping,
}

impl<'a> Run<'a> {
    /// Sets up all tasks of a job that has recovered.
    pub(super) async fn launch(
        attempt: &'a Attempt<'a>,
        recovered: Recovered,
    ) -> Result<Self, JobError> {
        let Recovered { log, decisions } = recovered;
        let Decisions { newest, kept, .. } = decisions;
        let (events_in, events) = mpsc::channel(EVENTS);
        let state = match &newest {
            Some(newest) => restore(&**attempt.store, newest).await?,
            None => BTreeMap::new(),
        };
        let mut launch = Launch {
            job: attempt.plan.job.clone(),
            calls: attempt.calls,
            epoch: log.epoch(),
            first: kept.iter().max().copied().unwrap_or_default().next(),
            parallelism: attempt.settings.parallelism,
            sharding: Sharding::new(attempt.settings.shards, attempt.settings.parallelism),
            store: Arc::clone(attempt.store),
            state,
            splits: newest
                .as_ref()
                .map(|newest| newest.splits.clone())
                .unwrap_or_default(),
            counters: attempt.counters.clone(),
            events: events_in.clone(),
            windows: !attempt.plan.operators.is_empty(),
            tasks: Vec::new(),
            barriers: Vec::new(),
            holds: Vec::new(),
            decisions: Vec::new(),
            participants: 0,
            committers: BTreeSet::new(),
        };
        let first_undecided = launch.first;
        for flow in &attempt.plan.flows {
            flow.launch(&mut launch).await?;
        }
        let limit = attempt
            .plan
            .max_prepared()
            .unwrap_or(attempt.settings.max_unconfirmed);
        let coordinator = CoordinatorSettings {
            participants: launch.participants,
            committers: launch.committers,
            tolerable_failures: attempt.settings.tolerable_failures,
            max_unconfirmed: limit.min(attempt.settings.max_unconfirmed),
            // What rides with later checkpoints is counted by nobody: so where the number is limited, nothing rides.
            subsumes: attempt.plan.max_prepared().is_none(),
            retained: attempt.settings.retained_checkpoints,
        };
        let (log_requests, requests) = mpsc::channel(LOG_REQUESTS);
        let epoch = log.epoch();
        let counts = newest.as_ref().map(|newest| newest.counts.clone());
        let counts = counts.unwrap_or_default();
        let mut tasks = JoinSet::new();
        tasks.spawn(keep_log(attempt.plan.job.clone(), log, requests, events_in));
        for task in launch.tasks {
            tasks.spawn(task);
        }
        let newest_checkpoint = newest.as_ref().map(|newest| newest.checkpoint);
        for sweep in late_sweeps(attempt, epoch, newest_checkpoint, &mut launch.decisions) {
            tasks.spawn(sweep.run());
        }
        Ok(Self {
            attempt,
            epoch,
            coordinator: Coordinator::new(coordinator, &kept),
            tasks,
            events,
            reading: launch.barriers.len(),
            barriers: launch.barriers,
            holds: launch.holds,
            held: None,
            stopping: None,
            begun: Instant::now(),
            size: 0,
            log: log_requests,
            decisions: launch.decisions,
            first_undecided,
            resumed: newest.is_some(),
            left_out: LeftOut::since(counts.clone()),
            counts,
            under_way: None,
            complete: false,
            deciding: None,
            in_doubt: InDoubtList::default(),
            written: WrittenState::default(),
        })
    }

    /// Works until the job ends, and takes down all that it set up.
    pub(super) async fn drive(mut self, stop: watch::Receiver<Stop>) -> Result<JobEnd, JobError> {
        let end = self.events_until_end(stop.clone()).await;
        let failed = match end {
            Ok(End::Left) => {
                self.drop_tasks().await;
                None
            }
            _ => self.tear_down(stop).await,
        };
        match end? {
            End::Finished => match failed {
                Some(error) => Err(error),
                None if self.complete => Ok(JobEnd::Completed),
                None => Ok(JobEnd::Stopped),
            },
            End::Left => Ok(JobEnd::Left),
            End::Fenced(by) => {
                let job = self.attempt.plan.job.clone();
                Err(JobError::Fenced {
                    job,
                    epoch: self.epoch,
                    by,
                })
            }
            // The task that failed knows better than the vote that it cast.
            End::RolledBack(reason) => Err(failed.unwrap_or(JobError::RolledBack(reason))),
        }
    }

    async fn events_until_end(&mut self, mut stop: watch::Receiver<Stop>) -> Result<End, JobError> {
        let every = self.attempt.settings.checkpoint_interval;
        // What the run before left undecided is written once more, and readers wait for it since then.
        let first = if self.resumed { every / 4 } else { every };
        let mut ticks = interval_at(Instant::now() + first, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut asked = stop.clone();
        loop {
            let next = tokio::select! {
                biased;
                Some(task) = self.tasks.join_next() => Next::Task(task),
                () = left(&mut stop) => return Ok(End::Left),
                () = asked_to_stop(&mut asked), if self.stopping.is_none() => Next::Stop,
                Some(event) = self.events.recv() => Next::Event(event),
                barrier = too_late(self.under_way) => Next::TimedOut(barrier),
                () = due(self.stopping) => Next::Stopping,
                () = due(self.held) => Next::Held,
                _ = ticks.tick() => Next::Trigger,
            };
            let event = match next {
                Next::Task(Ok(Ok(()) | Err(Failure::Cancelled))) => continue,
                Next::Task(Ok(Err(Failure::Error(error)))) => return Err(*error),
                Next::Task(Err(error)) => return Err(panicked(error)),
                Next::Event(Event::Exhausted) => {
                    self.reading = self.reading.saturating_sub(1);
                    if self.reading > 0 {
                        continue;
                    }
                    self.attempt.enter(JobState::Stopping);
                    CoordinatorEvent::Stop
                }
                Next::Event(Event::Unwritten) => {
                    // What is prepared would wait for the next sweep, and may hold up readers until then.
                    self.notify(Decision::Abort(self.first_undecided));
                    continue;
                }
                Next::Event(Event::Protocol(event)) => {
                    self.in_doubt.on(&event);
                    self.written.on(&event);
                    let progress = self.attempt.progress;
                    progress
                        .send_if_modified(|progress| progress.left_in_doubt(self.in_doubt.total()));
                    event
                }
                Next::Stop => {
                    self.stop_begins();
                    CoordinatorEvent::Stop
                }
                Next::Stopping => match self.stop_waits() {
                    Some(end) => return Ok(end),
                    None => continue,
                },
                Next::Held => match self.hold_waits() {
                    Some(end) => return Ok(end),
                    None => continue,
                },
                Next::Trigger => CoordinatorEvent::Trigger,
                Next::TimedOut(barrier) => {
                    let (job, checkpoint) = (&self.attempt.plan.job, barrier.checkpoint);
                    // The last is not dropped, as nothing can follow it.
                    self.under_way = barrier.last.then(|| (barrier, self.deadline()));
                    warn!(%job, %checkpoint, last = barrier.last, "votes are late");
                    CoordinatorEvent::TimedOut(checkpoint)
                }
            };
            let triggered = matches!(event, CoordinatorEvent::Trigger);
            let mut end = self.take(event)?;
            match (self.held, self.is_held_up()) {
                (None, true) if triggered => self.hold(),
                (Some(_), false) if end.is_none() => {
                    self.release();
                    ticks.reset();
                    // The checkpoint that was due.
                    end = self.take(CoordinatorEvent::Trigger)?;
                }
                _ => {}
            }
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    fn take(&mut self, event: CoordinatorEvent<Snapshot>) -> Result<Option<End>, JobError> {
        for action in self.coordinator.on(event) {
            if let Some(end) = self.act(action)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    fn act(&mut self, action: CoordinatorAction<Snapshot>) -> Result<Option<End>, JobError> {
        match action {
            CoordinatorAction::Inject(barrier) => self.inject(barrier)?,
            CoordinatorAction::Decide {
                barrier,
                snapshots,
                settled,
            } => {
                self.under_way = None;
                self.size = snapshots.iter().map(|snapshot| snapshot.size).sum();
                let manifest = self.manifest_of(barrier, snapshots);
                check_readers(&manifest)?;
                let manifest = Arc::new(manifest);
                self.deciding = Some((Arc::clone(&manifest), Instant::now()));
                self.request(LogRequest::Decide(manifest, settled))?;
            }
            CoordinatorAction::Notify(decision) => {
                self.notify(decision);
                if let Decision::Commit(checkpoint) = decision {
                    self.decided(checkpoint)?;
                }
            }
            CoordinatorAction::Settle(checkpoint) => {
                self.request(LogRequest::Settle(checkpoint))?;
            }
            CoordinatorAction::Retire(checkpoint) => {
                self.request(LogRequest::Retire(checkpoint))?;
            }
            CoordinatorAction::RollBack(reason) => return Ok(Some(End::RolledBack(reason))),
            CoordinatorAction::StopFenced(by) => return Ok(Some(End::Fenced(by))),
            CoordinatorAction::Finish => return Ok(Some(End::Finished)),
        }
        Ok(None)
    }

    fn notify(&self, decision: Decision) {
        for committer in &self.decisions {
            committer.send_replace(Some(decision));
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.attempt.settings.checkpoint_timeout
    }

    fn inject(&mut self, barrier: Barrier) -> Result<(), JobError> {
        let (job, epoch) = (&self.attempt.plan.job, self.epoch);
        tracing::debug!(%job, %epoch, checkpoint = %barrier.checkpoint, "barrier");
        self.under_way = Some((barrier, self.deadline()));
        self.begun = Instant::now();
        self.complete = self.reading == 0;
        for source in &self.barriers {
            match source.try_send(barrier) {
                // A source that is gone has failed, and says so itself.
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
                Err(mpsc::error::TrySendError::Full(_)) => {
                    let reason = "a source has not taken barriers for long".to_owned();
                    return Err(JobError::RolledBack(reason));
                }
            }
        }
        Ok(())
    }

    fn manifest_of(&self, barrier: Barrier, snapshots: Vec<Snapshot>) -> Manifest {
        let settings = self.attempt.settings;
        let mut manifest = Manifest {
            checkpoint: barrier.checkpoint,
            parallelism: settings.parallelism,
            shards: settings.shards,
            complete: barrier.last && self.complete,
            sinks: self.attempt.plan.sinks.keys().cloned().collect(),
            splits: Vec::new(),
            state: Vec::new(),
            transactions: Vec::new(),
            counts: self.counts.clone(),
        };
        for snapshot in snapshots {
            manifest.splits.extend(snapshot.splits);
            manifest.state.extend(snapshot.state);
            manifest.transactions.extend(snapshot.transactions);
            for (name, count) in snapshot.counts {
                *manifest.counts.entry(name).or_default() += count;
            }
        }
        manifest
    }

    fn decided(&mut self, checkpoint: CheckpointId) -> Result<(), JobError> {
        self.first_undecided = checkpoint.next();
        self.attempt
            .progress
            .send_modify(|progress| progress.decided(checkpoint, self.begun, self.size));
        let Some((manifest, _)) = self.deciding.take() else {
            return Ok(());
        };
        let dropped = self.written.dropped(&manifest);
        if !dropped.is_empty() {
            self.request(LogRequest::Discard(dropped))?;
        }
        let (job, epoch) = (&self.attempt.plan.job, self.epoch);
        let in_doubt = manifest.transactions.len();
        info!(%job, %epoch, %checkpoint, in_doubt, "decided");
        self.left_out.warn(self.attempt.plan, &manifest.counts);
        for (id, source) in &self.attempt.plan.sources {
            let (id, source, manifest) = (id.clone(), Arc::clone(source), Arc::clone(&manifest));
            let calls = self.attempt.calls;
            self.tasks.spawn(async move {
                let notified = calls.wait("notify", &id, source.notify(&id, &manifest));
                notified.await.map_err(|cause| {
                    JobError::Source {
                        source_id: id,
                        cause,
                    }
                    .into()
                })
            });
        }
        Ok(())
    }

    fn request(&self, request: LogRequest) -> Result<(), JobError> {
        self.log.try_send(request).map_err(|_| {
            JobError::RolledBack("the checkpoint log does not take requests".to_owned())
        })
    }
}

async fn too_late(under_way: Option<(Barrier, Instant)>) -> Barrier {
    match under_way {
        Some((barrier, deadline)) => {
            sleep_until(deadline).await;
            barrier
        }
        None => std::future::pending().await,
    }
}
