//! A checkpoint store in memory: for tests and examples.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::name::{check_object_name, check_object_prefix};
use super::store::{CheckpointStore, Create, StoreError};

/// Keeps checkpoints in memory. Clones share their objects, so a clone that outlives a "crashed" job resumes it.
#[derive(Clone, Default)]
pub struct MemoryCheckpointStore {
    objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl MemoryCheckpointStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> T {
        // The map is whole between calls, so a panic elsewhere does not spoil it.
        act(&mut self.objects.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for MemoryCheckpointStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryCheckpointStore")
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl CheckpointStore for MemoryCheckpointStore {
    async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<Create, StoreError> {
        check_object_name(name).map_err(StoreError::refused_name("create", self.location()))?;
        Ok(self.with(|objects| {
            if objects.contains_key(name) {
                return Create::Exists;
            }
            objects.insert(name.to_owned(), bytes);
            Create::Created
        }))
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        check_object_name(name).map_err(StoreError::refused_name("read", self.location()))?;
        Ok(self.with(|objects| objects.get(name).cloned()))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        check_object_prefix(prefix).map_err(StoreError::refused_name("list", self.location()))?;
        Ok(self.with(|objects| {
            objects
                .keys()
                .filter(|name| name.starts_with(prefix))
                .cloned()
                .collect()
        }))
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        check_object_name(name).map_err(StoreError::refused_name("delete", self.location()))?;
        self.with(|objects| objects.remove(name));
        Ok(())
    }

    fn location(&self) -> String {
        "memory".to_owned()
    }
}
