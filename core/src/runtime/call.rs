//! Time limits and warnings for calls to sinks, sources and checkpoint stores.

use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use crate::checkpoint::{CheckpointStore, Create, StoreError};
use crate::error::{SinkError, SourceError};
use crate::sink::CommitError;

/// Time that a call may take before a warning; it doubles from warning to warning.
const WARN_AFTER: Duration = Duration::from_secs(10);
const HINT: &str = "is the system reachable? Job::call_timeout sets the limit";

/// Makes calls that may hang.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    limit: Duration,
}

/// An error that a call without an answer ends with: it proves nothing about the call's effect.
pub(crate) trait NoAnswer {
    fn no_answer(call: &'static str, on: &dyn Display, limit: Duration) -> Self;
}

impl NoAnswer for SinkError {
    fn no_answer(call: &'static str, _: &dyn Display, limit: Duration) -> Self {
        Self::unknown(format!("{call} gave no answer within {limit:?}")).hint(HINT)
    }
}

impl NoAnswer for SourceError {
    fn no_answer(call: &'static str, _: &dyn Display, limit: Duration) -> Self {
        Self::unknown(format!("{call} gave no answer within {limit:?}")).hint(HINT)
    }
}

impl NoAnswer for CommitError {
    fn no_answer(call: &'static str, on: &dyn Display, limit: Duration) -> Self {
        Self::NotYet(SinkError::no_answer(call, on, limit))
    }
}

impl NoAnswer for StoreError {
    fn no_answer(call: &'static str, on: &dyn Display, limit: Duration) -> Self {
        Self {
            action: call,
            object: on.to_string(),
            retriable: true,
            hint: Some(HINT),
            cause: format!("no answer within {limit:?}").into(),
        }
    }
}

impl Calls {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit }
    }

    /// Waits for a call, warns while it takes long, and drops it at the limit.
    pub(crate) async fn wait<T, E: NoAnswer>(
        self,
        call: &'static str,
        on: &(dyn Display + Sync),
        answer: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let mut answer = pin!(answer);
        let begun = Instant::now();
        let mut warn_after = WARN_AFTER;
        loop {
            // A call that answers at once never registers the timer.
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = sleep_until(begun + warn_after.min(self.limit)) => {}
            }
            let (age, limit) = (begun.elapsed(), self.limit);
            if age >= limit {
                warn!(call, %on, ?age, "no answer: given up");
                return Err(E::no_answer(call, on, limit));
            }
            warn!(call, %on, ?age, ?limit, "no answer yet");
            warn_after = warn_after.saturating_mul(2);
        }
    }
}

/// A checkpoint store whose calls have a time limit.
#[derive(Debug)]
pub(super) struct TimedStore {
    pub(super) inner: Arc<dyn CheckpointStore>,
    pub(super) calls: Calls,
}

impl TimedStore {
    fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.inner.location())
    }
}

#[async_trait]
impl CheckpointStore for TimedStore {
    async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<Create, StoreError> {
        let create = self.inner.create(name, bytes);
        self.calls.wait("create", &self.object(name), create).await
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self.inner.read(name);
        self.calls.wait("read", &self.object(name), read).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let list = self.inner.list(prefix);
        self.calls.wait("list", &self.object(prefix), list).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        let delete = self.inner.delete(name);
        self.calls.wait("delete", &self.object(name), delete).await
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}
