//! What a run does while it waits: for commits, before sources may read on, and for its end, once it was asked to stop.

use std::time::Duration;

use tracing::{debug, info, warn};

use super::patient_wait::PatientWait;
use super::progress::JobState;
use super::run::{End, Run};

/// How often a stop that waits is reported about.
const STOP_REPORTS: Duration = Duration::from_secs(5);
/// How often sources that are held back are reported about.
const HOLD_REPORTS: Duration = Duration::from_secs(10);

impl Run<'_> {
    /// Holds the sources back: no checkpoint can begin before older ones are committed, so all that is read would go into
    /// transactions that stay open.
    pub(super) fn hold(&mut self) {
        let job = &self.attempt.plan.job;
        debug!(%job, commits = %self.in_doubt, "sources are held back until older checkpoints are committed");
        let limit = self.attempt.plan.longest_hold(self.attempt.settings);
        self.held = Some(PatientWait::begin(limit, HOLD_REPORTS));
        self.tell_sources(true);
    }

    /// Lets the sources read again.
    pub(super) fn release(&mut self) {
        self.held = None;
        self.tell_sources(false);
    }

    fn tell_sources(&self, held: bool) {
        for source in &self.holds {
            source.send_replace(held);
        }
    }

    /// Reports about sources that are held back, or ends the run: its open transactions would grow too old.
    pub(super) fn hold_waits(&mut self) -> Option<End> {
        let held = self.held.as_mut()?;
        held.reported();
        let (job, commits, age) = (&self.attempt.plan.job, &self.in_doubt, held.age());
        warn!(%job, %commits, ?age, "no checkpoint can begin, and sources are held back, until these are committed");
        held.is_over().then(|| {
            End::RolledBack(format!(
                "no checkpoint could begin for {age:?}, as older ones wait for their commits: {commits}"
            ))
        })
    }

    /// Begins to stop.
    pub(super) fn stop_begins(&mut self) {
        let limit = self.attempt.settings.stop_timeout;
        let (job, commits) = (&self.attempt.plan.job, &self.in_doubt);
        info!(%job, ?limit, %commits, "asked to stop: waits for a last checkpoint and all commits");
        self.attempt.enter(JobState::Stopping);
        self.stopping = Some(PatientWait::begin(limit, STOP_REPORTS));
    }

    /// Reports about a stop that waits, or ends the run where it is.
    pub(super) fn stop_waits(&mut self) -> Option<End> {
        let stopping = self.stopping.as_mut()?;
        stopping.reported();
        let (age, over) = (stopping.age(), stopping.is_over());
        let (job, commits) = (&self.attempt.plan.job, &self.in_doubt);
        let step = match (&self.under_way, &self.manifest) {
            (Some((barrier, _)), _) => format!("votes for checkpoint {}", barrier.checkpoint),
            (None, Some(manifest)) => format!("the decision of checkpoint {}", manifest.checkpoint),
            (None, None) => "commits".to_owned(),
        };
        match over {
            true => {
                warn!(%job, step, %commits, ?age, "not stopped in time: left; the next start finishes this");
            }
            false => warn!(%job, step, %commits, ?age, "the stop waits"),
        }
        over.then_some(End::Left)
    }
}
