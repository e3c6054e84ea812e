//! A job: a pipeline with a checkpoint store, over all runs in this process.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::warn;

use super::attempt::Attempt;
use super::call::{Calls, TimedStore};
use super::counts::Counters;
use super::failure::JobError;
use super::handle::{JobHandle, stop_on_signals};
use super::panics::caught;
use super::plan::Plan;
use super::progress::{JobState, Progress};
use super::restart::{RestartStrategy, Restarts};
use super::settings::Settings;
use super::standby::silence;
use super::stop::{Stop, asked_to_stop};
use super::verdict::Verdict;
use crate::checkpoint::CheckpointStore;
use crate::error::chain;
use crate::identity::TransactionId;
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

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobEnd {
    /// All input is read, and everything is committed.
    Completed,
    /// An earlier run had completed the job: nothing was read or written.
    AlreadyComplete,
    /// It was told to stop: a last checkpoint is made, and everything is committed. It can be started again.
    Stopped,
    /// It was asked to leave at once, or to stop while nothing ran, or it did not stop in time. The next start finishes what
    /// was under way; nothing is lost.
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

    /// How long one call to a sink, a source or the checkpoint store may take; 120 s if not set. A call that takes longer
    /// is dropped, and counts as one without an answer: a commit and a call of recovery are tried again, a checkpoint
    /// store is asked again, and any other call rolls the job back. Calls that take longer than 10 s are warned about.
    ///
    /// [`SourceReader::next`](crate::SourceReader::next) may wait for ever. Independent of the
    /// [checkpoint time-out](Self::checkpoint_timeout), which drops a checkpoint whose votes are late while the call that
    /// delays them continues. So keep this limit above the time that the slowest pre-commit or write may need.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.settings.call_timeout = timeout;
        self
    }

    /// How long a job that is [asked to stop](JobHandle::stop) may take for its last checkpoint and the commits that are under
    /// way; 60 s if not set. After that it leaves, and the next start finishes what is left. Keep it below the time
    /// that a supervisor waits before it kills the process.
    #[must_use]
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.settings.stop_timeout = timeout;
        self
    }

    /// Waits at the start until the process that holds the job has been silent for this time, that is, has written no record
    /// to the checkpoint log, instead of taking the job over at once. If no process has held it yet, the job starts at once.
    ///
    /// Set it in all processes of the job, longer than the slowest checkpoint takes: see [`docs::running`](crate::docs::running). Without it
    /// the newest process takes over at once.
    #[must_use]
    pub fn standby(mut self, silence: Duration) -> Self {
        self.settings.standby = Some(silence);
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

    /// Accepts that the records of a decided transaction may never be visible, so that the job can continue without
    /// them: one that is proven lost ([`JobError::Lost`]), or one that the sink refuses to commit for good
    /// ([`JobError::CommitRefused`]). What is left of it in the outside system is aborted.
    ///
    /// The checkpoint log records it, so that it is given once.
    #[must_use]
    pub fn accept_loss(mut self, transaction: TransactionId) -> Self {
        self.settings.accepted_losses.push(transaction);
        self
    }

    /// Removes a source from the job: the newest checkpoint has its positions, the pipeline no longer has the source, and
    /// that is on purpose. To rename a source, remove the old name; the new one is read from its start.
    #[must_use]
    pub fn remove_source(mut self, name: impl Into<String>) -> Self {
        self.settings.removed.sources.insert(name.into());
        self
    }

    /// Removes an operator from the job: its state in the newest checkpoint is dropped on purpose.
    #[must_use]
    pub fn remove_operator(mut self, name: impl Into<String>) -> Self {
        self.settings.removed.operators.insert(name.into());
        self
    }

    /// Removes a sink from the job. The job must have ended cleanly with it before, so that nothing it wrote is in doubt.
    /// To rename a sink, remove the old name.
    #[must_use]
    pub fn remove_sink(mut self, name: impl Into<String>) -> Self {
        self.settings.removed.sinks.insert(name.into());
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
            let found = sink.in_doubt(&plan.job);
            let found = self.calls().wait("in_doubt", id, found).await;
            let found = found.map_err(|cause| JobError::InDoubt {
                sink: id.clone(),
                cause,
            })?;
            // A sink tells of the whole job; two sinks in one system would both tell.
            in_doubt.extend(found.into_iter().filter(|found| found.sink == *id));
        }
        Ok(in_doubt)
    }

    fn calls(&self) -> Calls {
        Calls::new(self.settings.call_timeout)
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
            self.progress
                .send_modify(|progress| progress.state = JobState::Ended);
            let progress = self.progress.borrow().now(self.counters.totals());
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
        let calls = self.calls();
        let inner = Arc::clone(&self.store);
        let store: Arc<dyn CheckpointStore> = Arc::new(TimedStore { inner, calls });
        let attempt = Attempt {
            plan,
            settings: &self.settings,
            calls,
            store: &store,
            counters: &self.counters,
            progress: &self.progress,
            stop: self.stop.subscribe(),
        };
        if let Some(time) = self.settings.standby {
            attempt.enter(JobState::Standby);
            let mut stop = self.stop.subscribe();
            tokio::select! {
                biased;
                () = asked_to_stop(&mut stop) => return Ok(JobEnd::Left),
                silent = caught(silence(&store, &plan.job, time)) => silent?,
            }
        }
        let mut restarts = Restarts::new(self.settings.restart.clone());
        let (mut reached, mut held) = (None, None);
        loop {
            let error = match attempt.run(&mut held).await {
                Ok(end) => return Ok(end),
                Err(Verdict::End(error)) => return Err(error),
                Err(Verdict::Restart(error)) => error,
            };
            let checkpoint = self.progress.borrow().checkpoint;
            if checkpoint > reached {
                reached = checkpoint;
                restarts.progressed();
            }
            let mut stop = self.stop.subscribe();
            if *stop.borrow() != Stop::No {
                warn!(job = %plan.job, error = chain(&error), "the run failed while it was asked to stop: left");
                return Ok(JobEnd::Left);
            }
            if let Some(times) = restarts.repeats(&error) {
                let cause = Box::new(error);
                return Err(JobError::Repeats { times, cause });
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
            self.progress.send_modify(|progress| {
                progress.restarts += 1;
                progress.state = JobState::Restarting;
            });
            tokio::select! {
                biased;
                // Asked to stop while nothing runs: everything decided is in the store, and settled at the next start.
                () = asked_to_stop(&mut stop) => return Ok(JobEnd::Left),
                () = tokio::time::sleep(delay) => {}
            }
        }
    }
}
