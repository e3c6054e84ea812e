//! One run of a job: recovers, works, and ends.

use std::sync::{Arc, OnceLock};

use tokio::sync::watch;
use tracing::info;

use super::counts::Counters;
use super::failure::JobError;
use super::job::{JobEnd, Progress, Settings};
use super::overtaken::or_fenced;
use super::panics::caught;
use super::plan::Plan;
use super::recovery::Recovery;
use super::run::Run;
use super::stop::{Stop, left};
use crate::checkpoint::CheckpointStore;
use crate::identity::Epoch;

/// What stays the same over all runs of a job in this process.
pub(super) struct Attempt<'a> {
    pub(super) plan: &'a Plan,
    pub(super) settings: &'a Settings,
    pub(super) store: &'a Arc<dyn CheckpointStore>,
    pub(super) counters: &'a Counters,
    pub(super) progress: &'a watch::Sender<Progress>,
    pub(super) stop: watch::Receiver<Stop>,
}

impl Attempt<'_> {
    /// Runs the job once: recovers, works, and ends with everything committed, or with the reason why not.
    pub(super) async fn run(&self) -> Result<JobEnd, JobError> {
        let epoch = OnceLock::new();
        let attempt = async {
            match (self.recover_and_drive(&epoch).await, epoch.get()) {
                (Err(error), Some(epoch)) if error.may_be_of_a_takeover() => {
                    let mut stop = self.stop.clone();
                    tokio::select! {
                        biased;
                        () = left(&mut stop) => Ok(JobEnd::Left),
                        error = or_fenced(error, self.store, &self.plan.job, *epoch) => Err(error),
                    }
                }
                (ended, _) => ended,
            }
        };
        caught(attempt).await
    }

    async fn recover_and_drive(&self, epoch: &OnceLock<Epoch>) -> Result<JobEnd, JobError> {
        let recovery = Recovery {
            job: &self.plan.job,
            store: self.store,
            sinks: &self.plan.sinks,
            accepted: &self.settings.accepted_losses,
            epoch,
        };
        let mut stop = self.stop.clone();
        let recovered = tokio::select! {
            biased;
            () = left(&mut stop) => return Ok(JobEnd::Left),
            recovered = recovery.run(|decisions| self.plan.check(decisions, self.settings)) => recovered?,
        };
        let epoch = recovered.log.epoch();
        let newest = recovered.decisions.newest.as_ref();
        let counts = newest.map(|newest| newest.counts.clone());
        self.counters.reset(&counts.unwrap_or_default());
        let checkpoint = newest.map(|newest| newest.checkpoint);
        info!(job = %self.plan.job, %epoch, checkpoint = checkpoint.map(|id| id.0), "recovered");
        self.progress
            .send_modify(|progress| progress.begun(epoch, checkpoint));
        if newest.is_some_and(|newest| newest.complete) {
            return Ok(JobEnd::AlreadyComplete);
        }
        let run = tokio::select! {
            biased;
            () = left(&mut stop) => return Ok(JobEnd::Left),
            launched = Run::launch(self, recovered) => launched?,
        };
        run.drive(stop).await
    }
}
