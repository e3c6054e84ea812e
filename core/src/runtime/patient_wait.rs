//! Waits with a limit, which are reported about repeatedly.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// A wait that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct PatientWait {
    begun: Instant,
    limit: Duration,
    report: Duration,
    every: Duration,
}

impl PatientWait {
    /// Begins a wait that ends after `limit` and is due for a report `every` so often.
    pub(super) fn begin(limit: Duration, every: Duration) -> Self {
        Self {
            begun: Instant::now(),
            limit,
            report: every,
            every,
        }
    }

    pub(super) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn remaining(&self) -> Duration {
        self.limit.saturating_sub(self.age())
    }

    pub(super) fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Schedules the next report.
    pub(super) fn reported(&mut self) {
        self.report = self.report.saturating_add(self.every);
    }
}

/// Returns once the wait, if there is one, is due for a report or over.
pub(super) async fn due(wait: Option<PatientWait>) {
    match wait {
        Some(wait) => sleep_until(wait.begun + wait.report.min(wait.limit)).await,
        None => std::future::pending().await,
    }
}
