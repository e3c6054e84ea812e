//! Waiting for the process that holds a job to fall silent.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::failure::JobError;
use super::patience::ask_store;
use crate::checkpoint::{CheckpointLog, CheckpointStore};
use crate::error::chain;
use crate::identity::JobId;

/// How often the log is looked at, in each time that counts as silence.
const LOOKS: u32 = 10;
/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_millis(10);

/// Follows the log until no record has come for so long, or there is none at all. Writes nothing.
///
/// Cancel safety: cancel safe.
pub(super) async fn silence(
    store: &Arc<dyn CheckpointStore>,
    job: &JobId,
    silence: Duration,
) -> Result<(), JobError> {
    info!(%job, ?silence, "standby: waits until the process that holds the job is silent");
    let mut newest = None;
    let mut since = Instant::now();
    loop {
        match ask_store!(CheckpointLog::newest_number(Arc::clone(store), job.clone())).await {
            Ok(None) => {
                info!(%job, "standby: no process has held the job yet");
                return Ok(());
            }
            Ok(number) if number != newest => (newest, since) = (number, Instant::now()),
            Ok(_) if since.elapsed() >= silence => {
                info!(%job, ?silence, "standby: the holder is silent, so this process takes over");
                return Ok(());
            }
            Ok(_) => {}
            // What is not seen is not silence.
            Err(error) if error.is_retriable() => {
                warn!(%job, error = chain(&error), "standby: the checkpoint log can't be read");
                since = Instant::now();
            }
            Err(error) => return Err(error.into()),
        }
        sleep((silence / LOOKS).max(SHORTEST)).await;
    }
}
