//! Asking the checkpoint store until it answers.

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::Backoff;
use crate::checkpoint::CheckpointError;
use crate::error::chain;

/// How often a store that gives no answer is asked, with backoff: about half a minute.
const ATTEMPTS: u32 = 12;
/// Time for which it is asked if its answers are slow; it is asked twice at least.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a store that gives no answer is waited for.
pub(super) struct Patience {
    backoff: Backoff,
    attempt: u32,
    begun: Instant,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self {
            backoff: Backoff::of_calls(),
            attempt: 1,
            begun: Instant::now(),
        }
    }

    /// Waits until it is time to ask again; gives the error back if there is no use in that.
    pub(super) async fn wait(&mut self, error: CheckpointError) -> Result<(), CheckpointError> {
        let slow = self.attempt > 1 && self.begun.elapsed() >= PATIENCE;
        if !error.is_retriable() || slow || self.attempt == ATTEMPTS {
            return Err(error);
        }
        self.attempt += 1;
        let delay = self.backoff.next();
        tracing::warn!(
            error = chain(&error),
            ?delay,
            "no answer from the checkpoint store"
        );
        tokio::time::sleep(delay).await;
        Ok(())
    }
}

/// Asks the checkpoint store, by an expression that gives a future, until it answers. A macro, since a closure that lends
/// to its future can't be spawned yet.
macro_rules! ask_store {
    ($ask:expr) => {
        async {
            let mut patience = $crate::runtime::patience::Patience::new();
            loop {
                match $ask.await {
                    Ok(answer) => break Ok(answer),
                    Err(error) => match patience.wait(error).await {
                        Ok(()) => {}
                        Err(error) => break Err(error),
                    },
                }
            }
        }
    };
}
pub(super) use ask_store;
