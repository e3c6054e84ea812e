//! Where a job stands, for whoever watches it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::identity::{CheckpointId, Epoch};

/// What a job is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobState {
    /// It has not taken its epoch yet.
    #[default]
    Starting,
    /// It waits for the process that holds the job to fall silent: see [`Job::standby`](crate::Job::standby).
    Standby,
    /// It settles what earlier runs left, restores state and opens its sources.
    Recovering,
    /// It reads and writes.
    Running,
    /// It was asked to stop, or its input has ended: it makes and commits its last checkpoint.
    Stopping,
    /// A run has failed, and the next one begins after a delay.
    Restarting,
    /// It has ended.
    Ended,
}

/// Where a job stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What it is doing.
    pub state: JobState,
    /// The epoch of the current run.
    pub epoch: Epoch,
    /// The newest decided checkpoint; `None` while there is none.
    pub checkpoint: Option<CheckpointId>,
    /// How long ago this process decided it; `None` while it has decided none.
    pub checkpoint_age: Option<Duration>,
    /// How long it took, from its barrier to its decision; `None` while this process has decided none.
    pub checkpoint_duration: Option<Duration>,
    /// How many bytes of operator state were stored for it.
    pub checkpoint_size: u64,
    /// How many transactions are prepared and not known to be committed: of the decided checkpoints and of the one that
    /// is being decided.
    pub in_doubt: usize,
    /// How many times this process has started the job again after a failure.
    pub restarts: u32,
    /// Totals of the job over all its runs, by `name.what`: `records` of sources and sinks, `skipped` of sources,
    /// `windows` and `late` of window operators. What a run did after its last checkpoint is not counted twice.
    pub counts: BTreeMap<String, u64>,
    pub(super) decided_at: Option<Instant>,
}

impl Progress {
    pub(super) fn begun(&mut self, epoch: Epoch, checkpoint: Option<CheckpointId>) {
        (self.epoch, self.checkpoint) = (epoch, checkpoint);
        // Recovery has settled all.
        self.in_doubt = 0;
    }

    /// A checkpoint is decided whose barrier was sent at `begun`.
    pub(super) fn decided(&mut self, checkpoint: CheckpointId, begun: Instant, size: u64) {
        self.checkpoint = Some(checkpoint);
        self.checkpoint_duration = Some(begun.elapsed());
        self.checkpoint_size = size;
        self.decided_at = Some(Instant::now());
    }

    /// Changes nothing that anybody waits for: that is a state, an epoch or a checkpoint.
    pub(super) fn left_in_doubt(&mut self, transactions: usize) -> bool {
        self.in_doubt = transactions;
        false
    }

    /// As seen now, with these totals.
    pub(super) fn now(&self, counts: BTreeMap<String, u64>) -> Self {
        Self {
            checkpoint_age: self.decided_at.map(|at| at.elapsed()),
            counts,
            ..self.clone()
        }
    }

    /// A total by the name of a source, operator or sink; 0 if nothing was counted under it.
    pub fn count(&self, name: &str, what: &str) -> u64 {
        self.counts
            .get(&format!("{name}.{what}"))
            .copied()
            .unwrap_or(0)
    }
}
