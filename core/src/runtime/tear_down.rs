//! The end of a run: its tasks end, or are dropped.

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::warn;

use super::failure::{Failure, JobError};
use super::panics::panicked;
use super::run::Run;
use super::stop::{Stop, left};
use crate::error::chain;

/// How long the tasks of a run that is over may take to end, before they are dropped.
const GRACE: Duration = Duration::from_secs(30);
/// How long tasks that are dropped may take: only code that blocks its thread takes any time.
const DROPPED: Duration = Duration::from_secs(5);

impl Run<'_> {
    /// Ends all tasks, and returns their first failure. They end by themselves once their channels are closed; those that
    /// don't end in time, or are still there when the job is asked to leave at once, are dropped.
    pub(super) async fn tear_down(&mut self, mut stop: watch::Receiver<Stop>) -> Option<JobError> {
        // Committers end when decisions do, sources when barriers do, everything behind a source with it.
        self.decisions.clear();
        (self.log, _) = mpsc::channel(1);
        self.barriers.clear();
        self.holds.clear();
        self.events.close();
        let rest = self.stopping.map_or(GRACE, |stopping| stopping.remaining());
        let deadline = Instant::now() + GRACE.min(rest);
        let mut first = None;
        loop {
            // Events are closed, so that no task waits for ever to send one.
            tokio::select! {
                biased;
                task = self.tasks.join_next() => match task {
                    None => return first,
                    Some(Ok(Err(Failure::Error(error)))) => {
                        warn!(job = %self.attempt.plan.job, error = chain(&*error), "a subtask failed");
                        first.get_or_insert(*error);
                    }
                    Some(Err(error)) if error.is_panic() => {
                        first.get_or_insert_with(|| panicked(error));
                    }
                    Some(Ok(Ok(()) | Err(Failure::Cancelled)) | Err(_)) => {}
                },
                () = left(&mut stop) => {
                    self.drop_tasks().await;
                    return first;
                }
                () = sleep_until(deadline) => {
                    warn!(job = %self.attempt.plan.job, "subtasks did not end in time: dropped");
                    self.drop_tasks().await;
                    return first;
                }
            }
        }
    }

    /// Drops all tasks where they are. The next run settles what they leave.
    pub(super) async fn drop_tasks(&mut self) {
        if timeout(DROPPED, self.tasks.shutdown()).await.is_err() {
            warn!(job = %self.attempt.plan.job, "subtasks block their threads: left behind");
        }
    }
}
