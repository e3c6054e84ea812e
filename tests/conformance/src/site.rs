//! What all processes of a trial share: the place, the history, and what was found wrong on the way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cofferdam::{CheckpointId, Epoch, JobId, SinkId, SubtaskIndex, TransactionId};

use crate::factory::Factory;
use crate::history::{Event, History};
use crate::observer::Observer;

/// The job of all trials. Each trial has a place of its own, so they don't meet.
pub(crate) fn job() -> JobId {
    JobId::new("conformance").expect("a name of letters")
}

/// The sink of all trials.
pub(crate) fn sink() -> SinkId {
    SinkId::new("sink").expect("a name of letters")
}

/// A transaction of [`job`] and [`sink`].
pub(crate) fn id(epoch: u64, subtask: u32, checkpoint: u64) -> TransactionId {
    TransactionId {
        job: job(),
        sink: sink(),
        epoch: Epoch(epoch),
        subtask: SubtaskIndex(subtask),
        checkpoint: CheckpointId(checkpoint),
    }
}

/// See the module.
pub(crate) struct Site<F: Factory> {
    pub(crate) factory: F,
    pub(crate) place: F::Place,
    history: Mutex<History>,
    violations: Mutex<Vec<String>>,
    next_record: AtomicU64,
}

impl<F: Factory> Site<F> {
    pub(crate) fn new(factory: F, place: F::Place) -> Self {
        Self {
            factory,
            place,
            history: Mutex::default(),
            violations: Mutex::default(),
            next_record: AtomicU64::new(1),
        }
    }

    /// How long one call may take: the sink's own deadline, and time for a busy machine.
    pub(crate) fn call_limit(&self) -> Duration {
        self.factory.patience() * 2 + Duration::from_secs(1)
    }

    pub(crate) fn new_records(&self, count: u64) -> Vec<u64> {
        let first = self.next_record.fetch_add(count, Ordering::Relaxed);
        (first..first + count).collect()
    }

    pub(crate) fn note(&self, event: Event) {
        lock(&self.history).push(event);
    }

    pub(crate) fn history(&self) -> History {
        lock(&self.history).clone()
    }

    /// Something that must never be, wherever it is found.
    pub(crate) fn violation(&self, what: String) {
        lock(&self.violations).push(what);
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        lock(&self.violations).clone()
    }

    pub(crate) fn look_for_secrets(&self, text: &str) {
        for secret in self.place.secrets() {
            if text.contains(&secret) {
                // The secret itself is not shown here either.
                let around = text.replace(&secret, "<secret>");
                self.violation(format!("a secret is told: {around}"));
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whole between calls, so a panic elsewhere does not spoil it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
