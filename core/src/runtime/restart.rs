//! What happens after a run has failed.

use std::time::Duration;

use super::backoff::Backoff;
use super::failure::JobError;

/// So many times in a row the same panic ends the job.
const REPEATS: u32 = 3;

/// Whether and when a job whose run has failed goes on from its newest checkpoint, in the same process.
///
/// Only failures that may pass are tried again; a malformed record, a missing right or a proven loss ends the job at
/// once. A panic that repeats three times in a row, with the same message and without a checkpoint in between, ends the job
/// as well ([`JobError::Repeats`](crate::JobError::Repeats)): the same record would cause it again. A decided checkpoint resets
/// both counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestartStrategy {
    /// Never: the first failure ends the job.
    Never,
    /// After a fixed time, so many times in a row.
    FixedDelay {
        /// How many restarts in a row.
        restarts: u32,
        /// How long before each.
        delay: Duration,
    },
    /// After a time that doubles from restart to restart.
    ExponentialBackoff {
        /// How many restarts in a row.
        restarts: u32,
        /// How long before the first.
        first: Duration,
        /// The longest time before a restart.
        limit: Duration,
    },
}

impl RestartStrategy {
    /// The times in it, by name.
    pub(super) fn delays(&self) -> Vec<(&'static str, Duration)> {
        match *self {
            Self::Never => Vec::new(),
            Self::FixedDelay { delay, .. } => vec![("restart delay", delay)],
            Self::ExponentialBackoff { first, limit, .. } => {
                vec![("restart first", first), ("restart limit", limit)]
            }
        }
    }
}

impl Default for RestartStrategy {
    /// Ten restarts in a row, after half a second at first and half a minute at most.
    fn default() -> Self {
        Self::ExponentialBackoff {
            restarts: 10,
            first: Duration::from_millis(500),
            limit: Duration::from_secs(30),
        }
    }
}

/// Counts restarts in a row.
#[derive(Debug)]
pub(super) struct Restarts {
    strategy: RestartStrategy,
    pub(super) in_a_row: u32,
    backoff: Backoff,
    /// The last panic, and how often it came in a row.
    panic: Option<(String, u32)>,
}

impl Restarts {
    pub(super) fn new(strategy: RestartStrategy) -> Self {
        let backoff = match strategy {
            RestartStrategy::Never => Backoff::new(Duration::ZERO, Duration::ZERO),
            RestartStrategy::FixedDelay { delay, .. } => Backoff::new(delay, delay),
            RestartStrategy::ExponentialBackoff { first, limit, .. } => Backoff::new(first, limit),
        };
        Self {
            strategy,
            in_a_row: 0,
            backoff,
            panic: None,
        }
    }

    /// How many times in a row the same panic has ended a run, if that is too often.
    pub(super) fn repeats(&mut self, error: &JobError) -> Option<u32> {
        let JobError::Panicked(message) = error else {
            self.panic = None;
            return None;
        };
        let before = self.panic.take().filter(|(last, _)| last == message);
        let times = before.map_or(0, |(_, times)| times) + 1;
        self.panic = Some((message.clone(), times));
        (times >= REPEATS).then_some(times)
    }

    /// How long to wait before the next restart; `None` if there is to be none.
    pub(super) fn next(&mut self) -> Option<Duration> {
        let allowed = match self.strategy {
            RestartStrategy::Never => 0,
            RestartStrategy::FixedDelay { restarts, .. }
            | RestartStrategy::ExponentialBackoff { restarts, .. } => restarts,
        };
        (self.in_a_row < allowed).then(|| {
            self.in_a_row += 1;
            self.backoff.next()
        })
    }

    /// A run has got somewhere.
    pub(super) fn progressed(&mut self) {
        *self = Self::new(self.strategy.clone());
    }
}
