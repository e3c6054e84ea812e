//! The suite for stores, on the stores of the core, and on broken ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cofferdam::{
    CheckpointStore, Create, DirectoryCheckpointStore, MemoryCheckpointStore, StoreError,
    async_trait, check_object_name, check_object_prefix,
};
use cofferdam_conformance::stores;

/// Opens a store in memory at each place, and gives all that open the same place the same one.
fn in_memory<S: CheckpointStore>(
    wrap: impl Fn(MemoryCheckpointStore) -> S,
) -> impl FnMut(&str) -> Result<Arc<dyn CheckpointStore>, StoreError> {
    let mut places: BTreeMap<String, MemoryCheckpointStore> = BTreeMap::new();
    move |place| {
        let store = places.entry(place.to_owned()).or_default().clone();
        Ok(Arc::new(wrap(store)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_passes() {
    let results = stores::check(in_memory(|store| store)).await;
    assert_eq!(stores::failures(&results), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_passes() {
    let folder = tempfile::tempdir().expect("a folder");
    let results = stores::check(|place| {
        let store = DirectoryCheckpointStore::open(folder.path().join(place))?;
        Ok(Arc::new(store))
    });
    assert_eq!(stores::failures(&results.await), "");
}

/// A fault of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    AbsentIsEmpty,
    Overwrites,
    LooksThenCreates,
    WritesInTwoSteps,
    ListsInReverse,
    ListsByText,
    ListsTheOldest,
    KeepsTheNameOfDeleted,
    DeletesWhatIsThere,
    TakesAnyName,
    CutsLarge,
    KeepsToItself,
}

impl Bug {
    /// Each fault, with the check that it has to fail.
    const ALL: [(Self, &str); 13] = [
        (Self::AbsentIsEmpty, "STO-1"),
        (Self::DeletesWhatIsThere, "STO-1"),
        (Self::Overwrites, "STO-2"),
        (Self::LooksThenCreates, "STO-3"),
        (Self::WritesInTwoSteps, "STO-4"),
        (Self::ListsInReverse, "STO-5"),
        (Self::ListsByText, "STO-5"),
        (Self::ListsTheOldest, "STO-6"),
        (Self::KeepsTheNameOfDeleted, "STO-7"),
        (Self::TakesAnyName, "STO-8"),
        (Self::CutsLarge, "STO-9"),
        (Self::KeepsToItself, "STO-10"),
        (Self::WritesInTwoSteps, "STO-11"),
    ];
}

/// A store with a fault.
#[derive(Debug)]
struct Broken(Bug, MemoryCheckpointStore);

impl Broken {
    async fn replace(&self, name: &str, bytes: Vec<u8>) -> Result<Create, StoreError> {
        self.1.delete(name).await?;
        self.1.create(name, bytes).await
    }

    /// The names that start with a text.
    async fn starting(&self, text: &str) -> Result<Vec<String>, StoreError> {
        let mut names = Vec::new();
        for folder in ["log", "logs", "log-1", "state"] {
            names.extend(self.1.list(&format!("{folder}/")).await?);
        }
        names.retain(|name| name.starts_with(text));
        names.sort_unstable();
        Ok(names)
    }
}

#[async_trait]
impl CheckpointStore for Broken {
    async fn create(&self, name: &str, mut bytes: Vec<u8>) -> Result<Create, StoreError> {
        if self.0 == Bug::TakesAnyName && check_object_name(name).is_err() {
            return Ok(Create::Created);
        }
        let exists = self.1.read(name).await?.is_some();
        match self.0 {
            Bug::Overwrites => return self.replace(name, bytes).await,
            Bug::LooksThenCreates if !exists => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                return self.replace(name, bytes).await;
            }
            Bug::WritesInTwoSteps if !exists => {
                let half = bytes[..bytes.len() / 2].to_vec();
                if self.1.create(name, half).await? == Create::Exists {
                    return Ok(Create::Exists);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                return self.replace(name, bytes).await;
            }
            Bug::CutsLarge => bytes.truncate(4 << 20),
            _ => {}
        }
        self.1.create(name, bytes).await
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        if self.0 == Bug::TakesAnyName && check_object_name(name).is_err() {
            return Ok(None);
        }
        let found = self.1.read(name).await?;
        let empty = self.0 == Bug::AbsentIsEmpty;
        Ok(found.or_else(|| empty.then(Vec::new)))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        if self.0 == Bug::TakesAnyName && check_object_prefix(prefix).is_err() {
            return Ok(Vec::new());
        }
        let mut names = self.1.list(prefix).await?;
        match self.0 {
            Bug::ListsInReverse => names.reverse(),
            Bug::ListsByText => names = self.starting(prefix.trim_end_matches('/')).await?,
            Bug::ListsTheOldest => names.truncate(50),
            _ => {}
        }
        Ok(names)
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        if self.0 == Bug::TakesAnyName && check_object_name(name).is_err() {
            return Ok(());
        }
        if self.0 == Bug::DeletesWhatIsThere && self.1.read(name).await?.is_none() {
            return Err(StoreError {
                action: "delete",
                object: name.to_owned(),
                retriable: false,
                hint: None,
                cause: "it does not exist".into(),
            });
        }
        if self.0 == Bug::KeepsTheNameOfDeleted {
            return self.replace(name, Vec::new()).await.map(|_| ());
        }
        self.1.delete(name).await
    }

    fn location(&self) -> String {
        format!("{:?}", self.0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_check_fails_a_broken_store() {
    let mut failing = BTreeSet::new();
    for (bug, check) in Bug::ALL {
        let wrap = move |store| match bug {
            Bug::KeepsToItself => Broken(bug, MemoryCheckpointStore::new()),
            _ => Broken(bug, store),
        };
        let results = stores::check(in_memory(wrap)).await;
        let failures = stores::failures(&results);
        let failed = failures
            .lines()
            .any(|line| line.starts_with(&format!("{check} ")));
        assert!(failed, "{bug:?} does not fail {check}: {failures}");
        failing.insert(check);
    }
    assert_eq!(failing, stores::ids().collect());
}
