//! Tells damage, and failures that may pass, from the work of a newer epoch.

use std::sync::Arc;

use tracing::warn;

use super::failure::JobError;
use super::patience::ask_store;
use crate::checkpoint::{CheckpointLog, CheckpointStore};
use crate::error::chain;
use crate::identity::{Epoch, JobId};

/// What a failed run of this epoch ends with, if a newer epoch may be behind its error, or would be the victim of another
/// try. Only the holder of the job can judge that: so the log is looked at once more, and whoever was overtaken says that
/// instead.
pub(super) async fn or_fenced(
    error: JobError,
    store: &Arc<dyn CheckpointStore>,
    job: &JobId,
    epoch: Epoch,
) -> JobError {
    match ask_store!(CheckpointLog::holder(Arc::clone(store), job.clone())).await {
        Ok(Some(by)) if by > epoch => {
            warn!(%job, %epoch, %by, error = chain(&error), "taken over: this is for the newer epoch to judge");
            let job = job.clone();
            JobError::Fenced { job, epoch, by }
        }
        Ok(_) => error,
        // Not known to be damage, and not known to be none.
        Err(unanswered) => {
            warn!(%job, %epoch, error = chain(&error), "can't be told from a takeover");
            unanswered.into()
        }
    }
}
