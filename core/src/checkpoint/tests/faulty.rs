//! Stores that lose answers, or keep a writer waiting.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::super::{CheckpointStore, Create, MemoryCheckpointStore, StoreError};

/// What becomes of a create.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    AppliedUnanswered,
    NotApplied,
}

/// A store whose next creates fail as told.
#[derive(Debug)]
pub(super) struct Lossy {
    inner: MemoryCheckpointStore,
    faults: Mutex<VecDeque<Fault>>,
}

impl Lossy {
    pub(super) fn new(
        inner: &MemoryCheckpointStore,
        faults: impl IntoIterator<Item = Fault>,
    ) -> Self {
        Self {
            inner: inner.clone(),
            faults: Mutex::new(faults.into_iter().collect()),
        }
    }

    pub(super) fn lose_next(&self, fault: Fault) {
        self.faults().push_back(fault);
    }

    fn faults(&self) -> MutexGuard<'_, VecDeque<Fault>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_answer(name: &str) -> StoreError {
    StoreError {
        action: "create",
        object: name.to_owned(),
        retriable: true,
        hint: None,
        cause: "the connection is gone".into(),
    }
}

/// A store whose creates wait until they are let through.
#[derive(Debug)]
pub(super) struct Slow {
    inner: MemoryCheckpointStore,
    /// One permit for each create that waits.
    pub(super) waiting: Semaphore,
    pub(super) let_through: Semaphore,
}

impl Slow {
    pub(super) fn new(inner: &MemoryCheckpointStore) -> Self {
        Self {
            inner: inner.clone(),
            waiting: Semaphore::new(0),
            let_through: Semaphore::new(0),
        }
    }
}

macro_rules! store {
    ($type:ty, $self:ident, $name:ident, $bytes:ident, $create:block) => {
        #[async_trait]
        impl CheckpointStore for $type {
            async fn create(&$self, $name: &str, $bytes: Vec<u8>) -> Result<Create, StoreError> $create

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
    };
}

store!(Lossy, self, name, bytes, {
    let fault = self.faults().pop_front();
    match fault {
        None => self.inner.create(name, bytes).await,
        Some(Fault::NotApplied) => Err(no_answer(name)),
        Some(Fault::AppliedUnanswered) => {
            let _unanswered = self.inner.create(name, bytes).await?;
            Err(no_answer(name))
        }
    }
});

store!(Slow, self, name, bytes, {
    self.waiting.add_permits(1);
    // Never closed, so the only answer is a permit.
    if let Ok(permit) = self.let_through.acquire().await {
        permit.forget();
    }
    self.inner.create(name, bytes).await
});
