//! Whose turn it is, and who runs into the trap.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where a connection is to be cut, by the number of the turn since the proxy was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trap {
    Request(u64),
    Answer(u64),
}

#[derive(Debug, Default)]
struct Count {
    requests: u64,
    answers: u64,
    trap: Option<Trap>,
}

/// Counts the turns of all connections.
#[derive(Debug, Default)]
pub(super) struct Turns {
    count: Mutex<Count>,
}

impl Turns {
    pub(super) fn requests(&self) -> u64 {
        self.count().requests
    }

    pub(super) fn answers(&self) -> u64 {
        self.count().answers
    }

    pub(super) fn swallow_answer(&self, number: u64) {
        let mut count = self.count();
        count.trap = Some(Trap::Answer(count.answers + number));
    }

    pub(super) fn cut_before_request(&self, number: u64) {
        let mut count = self.count();
        count.trap = Some(Trap::Request(count.requests + number));
    }

    pub(super) fn is_armed(&self) -> bool {
        self.count().trap.is_some()
    }

    pub(super) fn disarm(&self) {
        self.count().trap = None;
    }

    /// A request has come from a client. Says whether it may pass.
    pub(super) fn request(&self) -> bool {
        let mut count = self.count();
        if count.trap == Some(Trap::Request(count.requests + 1)) {
            count.trap = None;
            return false;
        }
        count.requests += 1;
        true
    }

    /// An answer has come from the server. Says whether it may pass.
    pub(super) fn answer(&self) -> bool {
        let mut count = self.count();
        if count.trap == Some(Trap::Answer(count.answers + 1)) {
            count.trap = None;
            return false;
        }
        count.answers += 1;
        true
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
