//! How long to wait before trying again.

use std::time::Duration;

/// Doubles from attempt to attempt up to a limit.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    next: Duration,
    limit: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, limit: Duration) -> Self {
        Self { next: first, limit }
    }

    /// For calls to an outside system.
    pub(crate) fn of_calls() -> Self {
        Self::new(Duration::from_millis(20), Duration::from_secs(10))
    }

    pub(crate) fn next(&mut self) -> Duration {
        let delay = self.next.min(self.limit);
        self.next = delay.saturating_mul(2);
        delay
    }
}
