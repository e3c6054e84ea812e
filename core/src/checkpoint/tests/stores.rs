//! What every store has to do.

use super::super::{Create, DirectoryCheckpointStore};
use super::*;

async fn does_what_a_store_has_to(store: &dyn CheckpointStore) {
    assert_eq!(store.list("log/").await.unwrap(), [""; 0]);
    assert_eq!(store.read("log/a").await.unwrap(), None);
    store.delete("log/a").await.unwrap();

    assert_eq!(
        store.create("log/b", b"first".to_vec()).await.unwrap(),
        Create::Created
    );
    assert_eq!(
        store.create("log/b", b"second".to_vec()).await.unwrap(),
        Create::Exists
    );
    assert_eq!(
        store.read("log/b").await.unwrap().unwrap(),
        b"first",
        "never overwritten"
    );
    assert_eq!(
        store.create("log/empty", Vec::new()).await.unwrap(),
        Create::Created
    );
    assert_eq!(store.read("log/empty").await.unwrap(), Some(Vec::new()));

    for name in [
        "log/c",
        "log/a",
        "log/10",
        "log/9",
        "log/deep/er/x",
        "log/deep/a",
        "logs/z",
        "top",
    ] {
        assert_eq!(
            store.create(name, Vec::new()).await.unwrap(),
            Create::Created,
            "{name}"
        );
    }
    let listed = store.list("log/").await.unwrap();
    let expected = [
        "log/10",
        "log/9",
        "log/a",
        "log/b",
        "log/c",
        "log/deep/a",
        "log/deep/er/x",
        "log/empty",
    ];
    assert_eq!(
        listed, expected,
        "in order, with folders, and without others"
    );
    assert_eq!(
        store.list("log/deep/").await.unwrap(),
        ["log/deep/a", "log/deep/er/x"]
    );

    store.delete("log/b").await.unwrap();
    store.delete("log/b").await.unwrap();
    assert_eq!(store.read("log/b").await.unwrap(), None);
    assert_eq!(
        store.create("log/b", b"again".to_vec()).await.unwrap(),
        Create::Created
    );
    assert_eq!(store.read("log/b").await.unwrap().unwrap(), b"again");
}

#[tokio::test]
async fn memory_does_what_a_store_has_to() {
    let store = MemoryCheckpointStore::new();
    does_what_a_store_has_to(&store).await;
    assert!(
        store.clone().read("log/a").await.unwrap().is_some(),
        "clones share"
    );
}

#[tokio::test]
async fn a_directory_does_what_a_store_has_to() {
    let folder = tempfile::tempdir().unwrap();
    let store = DirectoryCheckpointStore::open(folder.path().join("deep/er")).unwrap();
    does_what_a_store_has_to(&store).await;
    let reopened = DirectoryCheckpointStore::open(folder.path().join("deep/er")).unwrap();
    assert_eq!(
        reopened.read("log/b").await.unwrap().unwrap(),
        b"again",
        "it is on the disk"
    );
}
