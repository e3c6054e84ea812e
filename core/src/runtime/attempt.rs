//! One run of a job: recovers, works, and ends.

use std::sync::{Arc, OnceLock};

use tokio::sync::watch;
use tracing::info;

use super::call::Calls;
use super::counts::Counters;
use super::failure::JobError;
use super::job::JobEnd;
use super::panics::caught;
use super::plan::Plan;
use super::progress::{JobState, Progress};
use super::recovery::Recovery;
use super::run::Run;
use super::settings::Settings;
use super::stop::{Stop, asked_to_stop};
use super::verdict::{Holder, Reached, Verdict, holder, verdict};
use crate::checkpoint::CheckpointStore;
use crate::identity::Epoch;

/// What stays the same over all runs of a job in this process.
pub(super) struct Attempt<'a> {
    pub(super) plan: &'a Plan,
    pub(super) settings: &'a Settings,
    pub(super) calls: Calls,
    pub(super) store: &'a Arc<dyn CheckpointStore>,
    pub(super) counters: &'a Counters,
    pub(super) progress: &'a watch::Sender<Progress>,
    pub(super) stop: watch::Receiver<Stop>,
}

impl Attempt<'_> {
    /// Runs the job once: recovers, works, and ends with everything committed, or with a verdict on why not.
    ///
    /// `held` is the epoch that this process took last, if any: the run does not begin if another process holds the job
    /// since.
    pub(super) async fn run(&self, held: &mut Option<Epoch>) -> Result<JobEnd, Verdict> {
        let (epoch, recovered) = (OnceLock::new(), OnceLock::new());
        let ended = caught(self.recover_and_drive(*held, &epoch, &recovered)).await;
        let reached = epoch.get().map(|epoch| Reached {
            epoch: *epoch,
            recovered: recovered.get().is_some(),
        });
        *held = reached.map(|reached| reached.epoch).or(*held);
        match ended {
            Ok(end) => Ok(end),
            Err(error) => {
                let judged = verdict(error, reached, self.store, &self.plan.job, &self.stop);
                let judged = caught(async { Ok(judged.await) }).await;
                // A store that panics has not said who holds the job; the next run asks it again before it takes over.
                Err(judged.unwrap_or_else(Verdict::Restart))
            }
        }
    }

    async fn recover_and_drive(
        &self,
        held: Option<Epoch>,
        epoch: &OnceLock<Epoch>,
        recovered: &OnceLock<()>,
    ) -> Result<JobEnd, JobError> {
        let mut stop = self.stop.clone();
        let run = tokio::select! {
            biased;
            () = asked_to_stop(&mut stop) => {
                info!(job = %self.plan.job, "asked to stop before the run began: left");
                return Ok(JobEnd::Left);
            }
            begun = self.begin(held, epoch) => match begun? {
                Some(run) => run,
                None => return Ok(JobEnd::AlreadyComplete),
            },
        };
        let _first: Result<(), ()> = recovered.set(());
        self.enter(JobState::Running);
        run.drive(stop).await
    }

    /// Recovers and sets up a run; `None` if the job is complete.
    async fn begin(
        &self,
        held: Option<Epoch>,
        epoch: &OnceLock<Epoch>,
    ) -> Result<Option<Run<'_>>, JobError> {
        self.enter(JobState::Recovering);
        if let Some(held) = held {
            self.still_holds(held).await?;
        }
        let recovery = Recovery {
            job: &self.plan.job,
            store: self.store,
            sinks: &self.plan.sinks,
            calls: self.calls,
            accepted: &self.settings.accepted_losses,
            epoch,
        };
        let recovered = recovery
            .run(|decisions| self.plan.check(decisions, self.settings))
            .await?;
        let epoch = recovered.log.epoch();
        let newest = recovered.decisions.newest.as_ref();
        let counts = newest.map(|newest| newest.counts.clone());
        self.counters.reset(&counts.unwrap_or_default());
        let checkpoint = newest.map(|newest| newest.checkpoint);
        info!(job = %self.plan.job, %epoch, checkpoint = checkpoint.map(|id| id.0), "recovered");
        self.progress
            .send_modify(|progress| progress.begun(epoch, checkpoint));
        if newest.is_some_and(|newest| newest.complete) {
            return Ok(None);
        }
        Run::launch(self, recovered).await.map(Some)
    }

    /// Fails if another process has taken the job over since this one held it.
    async fn still_holds(&self, epoch: Epoch) -> Result<(), JobError> {
        let job = &self.plan.job;
        match holder(self.store, job, epoch, &self.stop).await {
            Holder::Newer(by) => Err(JobError::Fenced {
                job: job.clone(),
                epoch,
                by,
            }),
            Holder::Unknown(error) => Err(error.into()),
            Holder::Ours | Holder::NotAsked => Ok(()),
        }
    }

    pub(super) fn enter(&self, state: JobState) {
        self.progress.send_modify(|progress| progress.state = state);
    }
}
