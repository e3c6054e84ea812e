//! A job: a pipeline with a checkpoint store, over all runs in this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::warn;

use super::attempt::Attempt;
use super::counts::Counters;
use super::failure::JobError;
use super::plan::Plan;
use super::restart::{RestartStrategy, Restarts};
use super::stop::{Stop, asked_to_stop};
use crate::checkpoint::CheckpointStore;
use crate::error::chain;
use crate::identity::{CheckpointId, Epoch, TransactionId};
use crate::shard::MAX_SHARDS;
use crate::sink::InDoubt;

/// A pipeline that is ready to run, with its checkpoint store. Made by [`Pipeline::job`](crate::Pipeline::job).
#[derive(Debug)]
pub struct Job {
    plan: Result<Plan, String>,
    store: Arc<dyn CheckpointStore>,
    settings: Settings,
    stop_on_ctrl_c: bool,
    counters: Counters,
    progress: watch::Sender<Progress>,
    stop: watch::Sender<Stop>,
}

/// The longest time that can be set: clocks can't count much longer ones, and none is of use.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// What can be set about a job.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) parallelism: u32,
    pub(crate) shards: u32,
    pub(crate) checkpoint_interval: Duration,
    pub(crate) checkpoint_timeout: Duration,
    pub(crate) tolerable_failures: u32,
    pub(crate) max_unconfirmed: usize,
    pub(crate) retained_checkpoints: usize,
    pub(crate) restart: RestartStrategy,
    pub(crate) accepted_losses: Vec<TransactionId>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            parallelism: 1,
            shards: 128,
            checkpoint_interval: Duration::from_secs(1),
            checkpoint_timeout: Duration::from_secs(60),
            tolerable_failures: 3,
            // Commits may fall behind barriers by so much before they hold them up.
            max_unconfirmed: 4,
            retained_checkpoints: 3,
            restart: RestartStrategy::default(),
            accepted_losses: Vec::new(),
        }
    }
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobEnd {
    /// All input is read, and everything is committed.
    Completed,
    /// An earlier run had completed the job: nothing was read or written.
    AlreadyComplete,
    /// It was told to stop: a last checkpoint is made, and everything is committed. It can be started again.
    Stopped,
    /// It was told to leave at once. What was under way is done again by the next start; nothing is lost.
    Left,
}

/// What a job has done when it ends well.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JobReport {
    /// How it ended.
    pub end: JobEnd,
    /// Where it stands.
    pub progress: Progress,
}

/// Where a job stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The epoch of the current run.
    pub epoch: Epoch,
    /// The newest decided checkpoint; `None` while there is none.
    pub checkpoint: Option<CheckpointId>,
    /// How many transactions are prepared and not known to be committed: of the decided checkpoints and of the one that
    /// is being decided.
    pub in_doubt: usize,
    /// How many times this process has started the job again after a failure.
    pub restarts: u32,
    /// Totals of the job over all its runs, by `name.what`: `records` of sources and sinks, `skipped` of sources,
    /// `windows` and `late` of window operators. What a run did after its last checkpoint is not counted twice.
    pub counts: BTreeMap<String, u64>,
}

impl Progress {
    pub(super) fn begun(&mut self, epoch: Epoch, checkpoint: Option<CheckpointId>) {
        (self.epoch, self.checkpoint) = (epoch, checkpoint);
        // Recovery has settled all.
        self.in_doubt = 0;
    }

    pub(super) fn decided(&mut self, checkpoint: CheckpointId) {
        self.checkpoint = Some(checkpoint);
    }

    /// Changes nothing that anybody waits for: that is an epoch or a checkpoint.
    pub(super) fn left_in_doubt(&mut self, transactions: usize) -> bool {
        self.in_doubt = transactions;
        false
    }

    /// A total by the name of a source, operator or sink; 0 if nothing was counted under it.
    pub fn count(&self, name: &str, what: &str) -> u64 {
        self.counts
            .get(&format!("{name}.{what}"))
            .copied()
            .unwrap_or(0)
    }
}

/// Watches and stops a job that runs elsewhere.
#[derive(Debug, Clone)]
pub struct JobHandle {
    stop: watch::Sender<Stop>,
    progress: watch::Receiver<Progress>,
    counters: Counters,
}

impl JobHandle {
    /// Asks the job to make a last checkpoint, commit it and end.
    pub fn stop(&self) {
        self.stop.send_if_modified(|stop| {
            let first = *stop == Stop::No;
            if first {
                *stop = Stop::AfterCheckpoint;
            }
            first
        });
    }

    /// Asks the job to leave at once, without a last checkpoint. Nothing is lost: the next start goes on from the newest
    /// one.
    pub fn stop_now(&self) {
        self.stop.send_replace(Stop::Now);
    }

    /// Where the job stands now. Counts run ahead of the checkpoint.
    pub fn progress(&self) -> Progress {
        let progress = self.progress.borrow().clone();
        Progress {
            counts: self.counters.totals(),
            ..progress
        }
    }

    /// Waits for the next epoch or checkpoint; false once the job has ended.
    ///
    /// Cancel safety: cancel safe.
    pub async fn changed(&mut self) -> bool {
        self.progress.changed().await.is_ok()
    }
}

impl Job {
    pub(crate) fn new(plan: Result<Plan, String>, store: Arc<dyn CheckpointStore>) -> Self {
        Self {
            plan,
            store,
            settings: Settings::default(),
            stop_on_ctrl_c: false,
            counters: Counters::default(),
            progress: watch::Sender::new(Progress::default()),
            stop: watch::Sender::new(Stop::No),
        }
    }

    /// How many subtasks each part of the pipeline has; 1 if not set. May change from start to start.
    #[must_use]
    pub fn parallelism(mut self, parallelism: u32) -> Self {
        self.settings.parallelism = parallelism;
        self
    }

    /// Into how many shards keyed state is divided: the greatest parallelism that the job can ever have; 128 if not set,
    /// at most 32,768.
    /// Fixed once the job has a checkpoint.
    #[must_use]
    pub fn shards(mut self, shards: u32) -> Self {
        self.settings.shards = shards;
        self
    }

    /// How often a checkpoint is made, and with it output becomes visible; 1 s if not set. In a run that goes
    /// on from a checkpoint the first comes after a quarter of that, as readers wait since the run before. At most 30 days.
    ///
    /// With a sink whose outside system keeps transactions for a limited time, the job is refused if interval and
    /// [time-out](Self::checkpoint_timeout) leave too little of it: see [`Capabilities::expiry`](crate::Capabilities::expiry).
    #[must_use]
    pub fn checkpoint_interval(mut self, interval: Duration) -> Self {
        self.settings.checkpoint_interval = interval;
        self
    }

    /// How long the votes of a checkpoint may take before it is dropped; 60 s if not set. At most 30 days.
    #[must_use]
    pub fn checkpoint_timeout(mut self, timeout: Duration) -> Self {
        self.settings.checkpoint_timeout = timeout;
        self
    }

    /// How many checkpoints in a row may be dropped before the job rolls back; 3 if not set.
    #[must_use]
    pub fn tolerable_checkpoint_failures(mut self, failures: u32) -> Self {
        self.settings.tolerable_failures = failures;
        self
    }

    /// How many decided checkpoints are kept; 3 if not set, 1 at least. One with anything in doubt is kept in any case.
    #[must_use]
    pub fn retained_checkpoints(mut self, checkpoints: usize) -> Self {
        self.settings.retained_checkpoints = checkpoints;
        self
    }

    /// What happens after a run has failed. No delay is longer than 30 days.
    #[must_use]
    pub fn restart(mut self, strategy: RestartStrategy) -> Self {
        self.settings.restart = strategy;
        self
    }

    /// Accepts that the records of a transaction which is proven lost ([`JobError::Lost`]) will never be visible, so
    /// that the job can go on without them.
    #[must_use]
    pub fn accept_loss(mut self, transaction: TransactionId) -> Self {
        self.settings.accepted_losses.push(transaction);
        self
    }

    /// Lets Ctrl-C (SIGINT) and, on Unix, SIGTERM stop the job as [`JobHandle::stop`] does, and a second one as
    /// [`JobHandle::stop_now`].
    #[must_use]
    pub fn stop_on_ctrl_c(mut self) -> Self {
        self.stop_on_ctrl_c = true;
        self
    }

    /// All transactions of this job that are in doubt in its sinks now: prepared or left open by any run. For the
    /// operator; running the job settles them.
    ///
    /// # Errors
    /// [`JobError::Plan`] if the pipeline is not sound, [`JobError::InDoubt`] if a sink can't be asked.
    pub async fn in_doubt(&self) -> Result<Vec<InDoubt>, JobError> {
        let plan = self.plan()?;
        let mut in_doubt = Vec::new();
        for (id, sink) in &plan.sinks {
            let found = sink.in_doubt(&plan.job).await;
            let found = found.map_err(|cause| JobError::InDoubt {
                sink: id.clone(),
                cause,
            })?;
            // A sink tells of the whole job; two sinks in one system would both tell.
            in_doubt.extend(found.into_iter().filter(|found| found.sink == *id));
        }
        Ok(in_doubt)
    }

    fn plan(&self) -> Result<&Plan, JobError> {
        self.plan
            .as_ref()
            .map_err(|problem| JobError::Plan(problem.clone()))
    }

    /// A handle to watch and stop the job with.
    pub fn handle(&self) -> JobHandle {
        JobHandle {
            stop: self.stop.clone(),
            progress: self.progress.subscribe(),
            counters: self.counters.clone(),
        }
    }

    /// Runs the job: recovers what an earlier run left, works until the input ends or it is told to stop, commits
    /// everything, and returns.
    ///
    /// # Errors
    /// [`JobError`], if it can't go on. Nothing decided is lost; starting the job again goes on from its newest
    /// checkpoint.
    ///
    /// Cancel safety: dropping the future is a crash; the next start recovers.
    pub async fn run(self) -> Result<JobReport, JobError> {
        let run = async {
            let end = self.run_until_end().await?;
            let progress = Progress {
                counts: self.counters.totals(),
                ..self.progress.borrow().clone()
            };
            Ok(JobReport { end, progress })
        };
        if !self.stop_on_ctrl_c {
            return run.await;
        }
        let handle = self.handle();
        tokio::select! {
            biased;
            report = run => report,
            error = stop_on_signals(&handle) => Err(error),
        }
    }

    async fn run_until_end(&self) -> Result<JobEnd, JobError> {
        let plan = self.plan()?;
        self.settings.check()?;
        plan.check_expiry(&self.settings)?;
        let attempt = Attempt {
            plan,
            settings: &self.settings,
            store: &self.store,
            counters: &self.counters,
            progress: &self.progress,
            stop: self.stop.subscribe(),
        };
        let mut restarts = Restarts::new(self.settings.restart.clone());
        let mut reached = None;
        loop {
            let error = match attempt.run().await {
                Ok(end) => return Ok(end),
                Err(error) => error,
            };
            let checkpoint = self.progress.borrow().checkpoint;
            if checkpoint > reached {
                reached = checkpoint;
                restarts.progressed();
            }
            if !error.is_restartable() {
                return Err(error);
            }
            let Some(delay) = restarts.next() else {
                return Err(match restarts.in_a_row {
                    0 => error,
                    restarts => JobError::GaveUp {
                        restarts,
                        cause: Box::new(error),
                    },
                });
            };
            warn!(job = %plan.job, error = chain(&error), ?delay, "the run failed: it starts again");
            self.progress.send_modify(|progress| progress.restarts += 1);
            let mut stop = self.stop.subscribe();
            tokio::select! {
                biased;
                // Asked to stop while nothing runs: everything decided is in the store, and settled at the next start.
                () = asked_to_stop(&mut stop) => return Ok(JobEnd::Left),
                () = tokio::time::sleep(delay) => {}
            }
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), JobError> {
        let refuse = |what: String| Err(JobError::Plan(what));
        let Self {
            parallelism,
            shards,
            ..
        } = self;
        if *shards > MAX_SHARDS {
            return refuse(format!(
                "shards is set to {shards}: at most {MAX_SHARDS} are allowed"
            ));
        }
        if *parallelism == 0 || *shards == 0 {
            return refuse("parallelism and shards begin at 1".to_owned());
        }
        if parallelism > shards {
            return refuse(format!(
                "a parallelism of {parallelism} needs as many shards, and there are {shards}"
            ));
        }
        if self.checkpoint_interval.is_zero() || self.checkpoint_timeout.is_zero() {
            return refuse("checkpoint interval and timeout can't be zero".to_owned());
        }
        let set = [
            ("checkpoint_interval", self.checkpoint_interval),
            ("checkpoint_timeout", self.checkpoint_timeout),
        ];
        let mut set = set.into_iter().chain(self.restart.delays());
        if let Some((setting, set)) = set.find(|(_, set)| *set > LONGEST) {
            return refuse(format!(
                "{setting} is set to {set:?}: at most {LONGEST:?} (30 days) are allowed"
            ));
        }
        if self.retained_checkpoints == 0 {
            return refuse("at least one checkpoint has to be kept".to_owned());
        }
        Ok(())
    }
}

/// Turns signals into requests to stop, for ever; returns only if signals can't be received.
async fn stop_on_signals(handle: &JobHandle) -> JobError {
    loop {
        if let Err(error) = signal().await {
            return JobError::Plan(format!("Ctrl-C can't be listened to: {error}"));
        }
        // Read before it is acted on: the guard of `borrow` must not be held while the value is replaced.
        let asked = *handle.stop.borrow();
        match asked {
            Stop::No => handle.stop(),
            Stop::AfterCheckpoint | Stop::Now => handle.stop_now(),
        }
    }
}

#[cfg(unix)]
async fn signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn signal() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}
