//! One verdict on a failed run: the job starts again, or it ends, and with which error.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tracing::warn;

use super::failure::JobError;
use super::patience::ask_store;
use super::stop::{Stop, asked_to_stop, left};
use crate::checkpoint::{CheckpointError, CheckpointLog, CheckpointStore};
use crate::error::chain;
use crate::identity::{Epoch, JobId};

/// How long the log is asked for the holder once the job was asked to stop.
const AFTER_STOP: Duration = Duration::from_secs(5);

/// What follows from the failure of a run.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Recover from the newest checkpoint.
    Restart(JobError),
    /// Starting again does not help, or would take the job from another process.
    End(JobError),
}

/// How far a run had come when it failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached {
    pub(super) epoch: Epoch,
    /// True if recovery was done.
    pub(super) recovered: bool,
}

/// What the log says about the holder of the job.
#[derive(Debug)]
pub(super) enum Holder {
    /// The run that failed.
    Ours,
    /// A newer epoch.
    Newer(Epoch),
    /// The log gave no answer.
    Unknown(CheckpointError),
    /// The job was asked to stop, and there was no time left to ask.
    NotAsked,
}

/// Asks the log who holds the job.
pub(super) async fn holder(
    store: &Arc<dyn CheckpointStore>,
    job: &JobId,
    epoch: Epoch,
    stop: &watch::Receiver<Stop>,
) -> Holder {
    let (mut now, mut soon) = (stop.clone(), stop.clone());
    let asked = ask_store!(CheckpointLog::holder(Arc::clone(store), job.clone()));
    tokio::select! {
        biased;
        () = left(&mut now) => Holder::NotAsked,
        held = asked => match held {
            Ok(Some(by)) if by > epoch => Holder::Newer(by),
            Ok(_) => Holder::Ours,
            Err(unanswered) => Holder::Unknown(unanswered),
        },
        () = async { asked_to_stop(&mut soon).await; sleep(AFTER_STOP).await } => Holder::NotAsked,
    }
}

/// Judges the error of a run. `reached` is `None` if it failed before it took an epoch.
pub(super) async fn verdict(
    error: JobError,
    reached: Option<Reached>,
    store: &Arc<dyn CheckpointStore>,
    job: &JobId,
    stop: &watch::Receiver<Stop>,
) -> Verdict {
    match reached {
        Some(reached) if concerns_the_holder(&error) => {
            let holder = holder(store, job, reached.epoch, stop).await;
            held_against(error, reached, holder, job)
        }
        _ => by_itself(error),
    }
}

/// Returns whether the log has to be asked: the error claims a takeover, or blames what a newer epoch may have changed, which
/// retires checkpoints and continues in the outside systems; or the job would start again, which takes it from a newer
/// epoch.
fn concerns_the_holder(error: &JobError) -> bool {
    match error {
        JobError::Checkpoint(error) => error.is_missing() || error.is_retriable(),
        JobError::Sink { .. }
        | JobError::CommitRefused { .. }
        | JobError::Lost { .. }
        | JobError::AbortStale { .. } => true,
        error => error.claims_takeover() || error.is_restartable(),
    }
}

fn held_against(error: JobError, reached: Reached, holder: Holder, job: &JobId) -> Verdict {
    let epoch = reached.epoch;
    match holder {
        Holder::Newer(by) => {
            warn!(%job, %epoch, %by, error = chain(&error), "taken over: the newer epoch judges this");
            let job = job.clone();
            Verdict::End(JobError::Fenced { job, epoch, by })
        }
        Holder::Ours if error.claims_takeover() && reached.recovered => {
            warn!(%job, %epoch, error = chain(&error), "fenced, but the log names no newer epoch: rolls back");
            Verdict::Restart(error)
        }
        // Recovery has just taken a new epoch, and meets one that this log does not know. Another restart would raise
        // the epoch beyond it, and write again what is there.
        Holder::Ours if error.claims_takeover() => {
            warn!(
                %job, %epoch,
                "an outside system has seen a newer epoch than the checkpoint log: is the checkpoint store an older copy?"
            );
            Verdict::End(error)
        }
        Holder::Ours | Holder::NotAsked => by_itself(error),
        // Not known to be damage, and not known to be none.
        Holder::Unknown(unanswered) => {
            warn!(%job, %epoch, error = chain(&error), "can't be told from a takeover");
            by_itself(unanswered.into())
        }
    }
}

fn by_itself(error: JobError) -> Verdict {
    match error.is_restartable() {
        true => Verdict::Restart(error),
        false => Verdict::End(error),
    }
}
