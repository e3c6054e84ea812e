//! What a run does while it waits: for room to begin a checkpoint, and for its end, once it was asked to stop.

use std::time::Duration;

use tracing::{debug, info, warn};

use super::patient_wait::PatientWait;
use super::progress::JobState;
use super::run::{End, Run};

/// How often a stop that waits is reported about.
const STOP_REPORTS: Duration = Duration::from_secs(5);
/// How often sources that are held back are reported about.
const HOLD_REPORTS: Duration = Duration::from_secs(10);
/// How long a decision may take before sources are held back.
const SLOW_DECISION: Duration = Duration::from_secs(1);

impl Run<'_> {
    /// Returns whether all that is read now would go into transactions that stay open: no checkpoint can begin before older ones are
    /// committed, or before the log answers.
    pub(super) fn is_held_up(&self) -> bool {
        let deciding = self.deciding.as_ref();
        let slow = deciding.is_some_and(|(_, since)| since.elapsed() >= SLOW_DECISION);
        slow || self.coordinator.waits_for_commits()
    }

    /// Holds the sources back.
    pub(super) fn hold(&mut self) {
        let (job, waits_for, commits) = (&self.attempt.plan.job, self.waits_for(), &self.in_doubt);
        debug!(%job, waits_for, %commits, "no checkpoint can begin: sources are held back");
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
        let (age, over) = (held.age(), held.is_over());
        let (job, waits_for, commits) = (&self.attempt.plan.job, self.waits_for(), &self.in_doubt);
        warn!(%job, waits_for, %commits, ?age, "no checkpoint can begin: sources are held back");
        over.then(|| {
            End::RolledBack(format!(
                "no checkpoint could begin for {age:?}, waiting for {waits_for}; to be committed: {commits}"
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
        let (job, waits_for, commits) = (&self.attempt.plan.job, self.waits_for(), &self.in_doubt);
        if over {
            warn!(%job, waits_for, %commits, ?age, "not stopped in time: left; the next start finishes this");
            return Some(End::Left);
        }
        warn!(%job, waits_for, %commits, ?age, "the stop waits");
        None
    }

    /// The step that comes next, for messages.
    fn waits_for(&self) -> String {
        match (&self.under_way, &self.deciding) {
            (Some((barrier, _)), _) => format!("votes for checkpoint {}", barrier.checkpoint),
            (None, Some((manifest, _))) => {
                format!("the decision of checkpoint {}", manifest.checkpoint)
            }
            (None, None) => "commits".to_owned(),
        }
    }
}
