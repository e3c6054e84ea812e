//! The order of begins and commits in a subtask of an ordered sink.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::failure::Failure;
use crate::identity::{CheckpointId, TransactionId};

/// Time between two warnings of an ordered sink's stage that waits for a commit.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// Tells the stage of an ordered sink when it may begin its next transaction. Never holds back another sink.
pub(super) struct CommitOrder {
    ordered: bool,
    /// The newest checkpoint whose transaction is committed, from the committer of this subtask.
    committed: watch::Receiver<Option<CheckpointId>>,
    /// The transaction that has to be committed before the next one begins.
    before: Option<TransactionId>,
}

impl CommitOrder {
    pub(super) fn new(ordered: bool, committed: watch::Receiver<Option<CheckpointId>>) -> Self {
        Self {
            ordered,
            committed,
            before: None,
        }
    }

    /// Takes note of a prepared transaction.
    pub(super) fn prepared(&mut self, id: &TransactionId) {
        if self.ordered {
            self.before = Some(id.clone());
        }
    }

    /// Returns whether the next transaction may begin now.
    pub(super) fn may_begin(&mut self) -> bool {
        let committed = &self.committed;
        self.before
            .take_if(|before| *committed.borrow() >= Some(before.checkpoint));
        self.before.is_none()
    }

    /// Waits until the next transaction may begin. Fails once the committer has ended: the run is over.
    ///
    /// The commit does not depend on the waiting subtask. All subtasks before this one have passed the barrier on to all
    /// subtasks behind them before they send a record of the next checkpoint, so every participant can still vote.
    pub(super) async fn wait(&mut self) -> Result<(), Failure> {
        let since = Instant::now();
        while !self.may_begin() {
            match timeout(WARN_EVERY, self.committed.changed()).await {
                Ok(changed) => changed.map_err(|_| Failure::Cancelled)?,
                Err(_) => {
                    if let Some(transaction) = &self.before {
                        let waited = since.elapsed();
                        warn!(%transaction, ?waited, "an ordered sink waits for this commit: its input is held back");
                    }
                }
            }
        }
        Ok(())
    }
}
