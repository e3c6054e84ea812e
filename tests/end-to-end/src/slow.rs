//! A source and a checkpoint store that take their time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cofferdam::{
    CheckpointId, CheckpointStore, Create, Source, SourceError, SourceEvent, SourceReader, SplitId,
    StoreError, async_trait,
};
use tokio::time::{Instant, sleep, sleep_until};

/// Waits before each batch of another source.
#[derive(Debug)]
pub(crate) struct SlowSource<S> {
    pub(crate) inner: S,
    pub(crate) delay: Duration,
}

/// Waits before each batch of another reader.
pub(crate) struct SlowReader<R> {
    inner: R,
    delay: Duration,
    /// Kept over calls: whoever drops a call waits no longer for it.
    next: Instant,
}

#[async_trait]
impl<S: Source> Source for SlowSource<S> {
    type Record = S::Record;
    type Position = S::Position;
    type Reader = SlowReader<S::Reader>;

    async fn splits(&self, known: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        self.inner.splits(known).await
    }

    async fn open(
        &self,
        splits: Vec<(SplitId, Option<S::Position>)>,
    ) -> Result<Self::Reader, SourceError> {
        Ok(SlowReader {
            inner: self.inner.open(splits).await?,
            delay: self.delay,
            next: Instant::now() + self.delay,
        })
    }

    async fn notify(
        &self,
        checkpoint: CheckpointId,
        positions: &[(SplitId, S::Position)],
    ) -> Result<(), SourceError> {
        self.inner.notify(checkpoint, positions).await
    }
}

#[async_trait]
impl<R: SourceReader> SourceReader for SlowReader<R> {
    type Record = R::Record;
    type Position = R::Position;

    async fn next(&mut self) -> Result<SourceEvent<R::Record, R::Position>, SourceError> {
        sleep_until(self.next).await;
        let event = self.inner.next().await?;
        self.next = Instant::now() + self.delay;
        Ok(event)
    }
}

/// Waits before each log record that another store creates, but for the first: the takeover.
#[derive(Debug)]
pub(crate) struct SlowStore<S> {
    pub(crate) inner: S,
    pub(crate) delay: Duration,
    pub(crate) taken_over: AtomicBool,
}

#[async_trait]
impl<S: CheckpointStore> CheckpointStore for SlowStore<S> {
    async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<Create, StoreError> {
        if name.starts_with("log/") && self.taken_over.swap(true, Ordering::SeqCst) {
            sleep(self.delay).await;
        }
        self.inner.create(name, bytes).await
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.read(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.inner.list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.inner.delete(name).await
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}
