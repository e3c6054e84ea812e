//! The handle of a prepared transaction.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cofferdam::TransactionId;
use serde::{Deserialize, Serialize};

/// All that any process needs to finish a prepared Kafka transaction, and to tell later whether it was committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedTransaction {
    /// Whose it is.
    pub transaction: TransactionId,
    /// The cluster that has it.
    pub cluster: String,
    /// Its transactional id.
    pub transactional_id: String,
    /// The producer that wrote it. This one and its epoch write no other transaction.
    pub producer_id: i64,
    /// The producer's epoch, by which Kafka fences.
    pub producer_epoch: i16,
    /// When it began, in milliseconds since 1970, by the broker's clock.
    pub started_at: i64,
    /// How long the cluster keeps it from then on, in milliseconds.
    pub timeout: i64,
    /// The version of `EndTxn` that finishes it; what a repeated request means depends on it.
    pub end_txn_version: i16,
    /// The group whose offset the transaction moves: the evidence of its commit.
    pub evidence_group: String,
    /// How many records it has, for the message about a loss.
    pub records: u64,
}

impl PreparedTransaction {
    /// When the cluster aborts it, in milliseconds since 1970; `None` if never, or in more than a hundred years.
    pub fn expires_at(&self) -> Option<i64> {
        // What never expires has the largest timeout that there is (KIP-939).
        (self.timeout < i64::from(i32::MAX)).then(|| self.started_at.saturating_add(self.timeout))
    }

    /// What is left until then, by the clock of this machine.
    pub fn expires_in(&self) -> Option<Duration> {
        let left = self.expires_at()?.saturating_sub(now());
        Some(Duration::from_millis(u64::try_from(left).unwrap_or(0)))
    }

    /// How long ago it began.
    pub(crate) fn age(&self) -> Duration {
        let age = now().saturating_sub(self.started_at);
        Duration::from_millis(u64::try_from(age).unwrap_or(0))
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}
