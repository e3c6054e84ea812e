//! When records that wait for a batch to fill have waited long enough.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// How long records wait for others to travel with. Far below a checkpoint interval, so that a sink has little left to
/// write when the barrier comes; and far above the time that a batch takes to fill under load.
const PATIENCE: Duration = Duration::from_millis(20);

/// Tells a subtask when to hand over batches that did not fill.
pub(super) struct FlushClock {
    sleep: Pin<Box<Sleep>>,
    runs: bool,
}

impl FlushClock {
    pub(super) fn new() -> Self {
        Self {
            sleep: Box::pin(sleep(PATIENCE)),
            runs: false,
        }
    }

    /// Records may wait from now on, if none did before.
    pub(super) fn start(&mut self) {
        if !self.runs {
            self.sleep.as_mut().reset(Instant::now() + PATIENCE);
            self.runs = true;
        }
    }

    /// Returns once the first record since the last time has waited long enough; never, if none came.
    ///
    /// Cancel safety: it is. The time goes on.
    pub(super) async fn due(&mut self) {
        if !self.runs {
            return std::future::pending().await;
        }
        self.sleep.as_mut().await;
        self.runs = false;
    }
}
