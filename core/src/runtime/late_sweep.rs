//! The sweep of a run that works: it aborts what a run before it opened after recovery had looked.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tracing::warn;

use super::attempt::Attempt;
use super::call::Calls;
use super::erased::ErasedSink;
use super::failure::{Failure, JobError};
use super::sweep::abort_stale;
use crate::error::{ErrorKind, chain};
use crate::identity::{CheckpointId, Epoch, SinkId};
use crate::protocol::Decision;
use crate::sink::{Fence, Sweep};

/// Time that a run works before it sweeps again. A run that was overtaken finds that out at its next checkpoint, and opens
/// nothing afterwards; until the sweep, what it opened meanwhile may hold up readers.
const AFTER: Duration = Duration::from_secs(10);

/// Sweeps one sink, once.
pub(super) struct LateSweep {
    pub(super) sink: Arc<dyn ErasedSink>,
    pub(super) fence: Fence<String>,
    pub(super) calls: Calls,
    /// Closed once the run is over.
    pub(super) run: watch::Receiver<Option<Decision>>,
}

/// Returns the sweeps of a run, one for each sink; none for the first run of a job, which has no older ones. Each holds on to
/// a receiver of what is decided, and ends with it.
pub(super) fn late_sweeps(
    attempt: &Attempt<'_>,
    epoch: Epoch,
    newest: Option<CheckpointId>,
    decisions: &mut Vec<watch::Sender<Option<Decision>>>,
) -> Vec<LateSweep> {
    let sinks = attempt.plan.sinks.iter().filter(|_| epoch > Epoch(1));
    let sweep = |(id, sink): (&SinkId, &Arc<dyn ErasedSink>)| {
        let mut fence = Fence::new(attempt.plan.job.clone(), id.clone(), epoch);
        // What the newest checkpoint names is committed since recovery: there is nothing to spare.
        (fence.newest, fence.sweep) = (newest, Sweep::Late);
        let (decided, run) = watch::channel(None);
        decisions.push(decided);
        LateSweep {
            sink: Arc::clone(sink),
            fence,
            calls: attempt.calls,
            run,
        }
    };
    sinks.map(sweep).collect()
}

impl LateSweep {
    /// Sweeps after a while. A run that ends before that leaves the sweep to the next start.
    pub(super) async fn run(self) -> Result<(), Failure> {
        let mut run = self.run.clone();
        let is_over = async { while run.changed().await.is_ok() {} };
        tokio::select! {
            biased;
            () = is_over => Ok(()),
            swept = self.sweep() => swept,
        }
    }

    async fn sweep(&self) -> Result<(), Failure> {
        sleep(AFTER).await;
        let sink = &self.fence.sink;
        match abort_stale(&*self.sink, &self.fence, self.calls, false).await {
            Ok(()) => Ok(()),
            Err(cause) if cause.kind() == ErrorKind::Fenced => {
                let sink = sink.clone();
                Err(JobError::AbortStale { sink, cause }.into())
            }
            // Nothing of this run depends on it, and the next start sweeps before it begins.
            Err(error) => {
                warn!(%sink, error = chain(&error), "not swept: left to the next start");
                Ok(())
            }
        }
    }
}
