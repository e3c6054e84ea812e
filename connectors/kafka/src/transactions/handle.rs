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
    /// When the cluster aborts it, in milliseconds since 1970; `None` if never.
    pub fn expires_at(&self) -> Option<i64> {
        expires_at(self.started_at, self.timeout)
    }

    /// What is left until then, by the clock of this machine.
    pub fn expires_in(&self) -> Option<Duration> {
        expires_in(self.started_at, self.timeout)
    }

    /// How long ago it began.
    pub(crate) fn age(&self) -> Duration {
        let age = now().saturating_sub(self.started_at);
        Duration::from_millis(u64::try_from(age).unwrap_or(0))
    }
}

/// When a cluster aborts a transaction; `None` if never: what never expires has the largest timeout that there is (KIP-939).
fn expires_at(started_at: i64, timeout: i64) -> Option<i64> {
    (timeout < i64::from(i32::MAX)).then(|| started_at.saturating_add(timeout))
}

/// What is left until a cluster aborts a transaction; `None` if it never does.
pub(crate) fn expires_in(started_at: i64, timeout: i64) -> Option<Duration> {
    let left = expires_at(started_at, timeout)?.saturating_sub(now());
    Some(Duration::from_millis(u64::try_from(left).unwrap_or(0)))
}

/// Milliseconds since 1970.
pub(super) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}
