//! The death of a process in the middle of a pipeline.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Where a process dies: at the n-th call to its sink or its store.
#[derive(Debug, Clone)]
pub(crate) struct Crash(Arc<CrashState>);

#[derive(Debug)]
struct CrashState {
    /// Calls that are left; it dies when there are none.
    left: AtomicU64,
    died: Notify,
}

impl Crash {
    /// At this call, counted from 1: before it for an odd number, after it for an even one.
    pub(crate) fn at(nth: u64) -> Self {
        Self(Arc::new(CrashState {
            left: AtomicU64::new(nth),
            died: Notify::new(),
        }))
    }

    pub(crate) fn never() -> Self {
        Self::at(u64::MAX)
    }

    pub(super) async fn step(&self) {
        if self.0.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.now().await;
        }
    }

    /// Dies: the caller never goes on.
    pub(super) async fn now(&self) {
        self.0.died.notify_one();
        std::future::pending::<()>().await;
    }

    pub(super) async fn around<T>(&self, call: impl Future<Output = T>) -> T {
        self.step().await;
        let output = call.await;
        self.step().await;
        output
    }

    /// Waits for it.
    pub(super) async fn died(&self) {
        self.0.died.notified().await;
    }
}
