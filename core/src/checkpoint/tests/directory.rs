//! What only a directory has: files, rights, a disk that can be full.
#![cfg(unix)]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;

use super::super::{Create, DirectoryCheckpointStore, StoreError};
use super::*;

/// Tells a child which folder to work in.
const FOLDER: &str = "COFFERDAM_TEST_FOLDER";

/// The folder, if this process is the child of a test.
fn child() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Runs one test of this very program as a child, behind a command.
fn run_child(command: &mut Command, test: &str, folder: &Path) {
    let name = format!("checkpoint::tests::directory::{test}");
    command
        .args(["--exact", &name, "--nocapture"])
        .env(FOLDER, folder);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && text.contains("1 passed");
    assert!(passed, "{command:?}: {}\n{text}\n{errors}", output.status);
}

fn names(folder: &Path) -> Vec<OsString> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect()
}

fn wait_for<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn of_eight_threads_that_race_for_a_name_one_creates_it() {
    let folder = tempfile::tempdir().unwrap();
    let start = Barrier::new(8);
    let race = |name: &str, writer: u8| {
        let store = DirectoryCheckpointStore::open(folder.path()).unwrap();
        start.wait();
        wait_for(store.create(name, vec![writer; 4096])).unwrap()
    };
    for round in 0..10 {
        let name = format!("log/{round}");
        let created = std::thread::scope(|scope| {
            let racing: Vec<_> = (0..8)
                .map(|writer| {
                    scope.spawn({
                        let name = &name;
                        move || race(name, writer)
                    })
                })
                .collect();
            let answers = racing.into_iter().map(|thread| thread.join().unwrap());
            answers.filter(|answer| *answer == Create::Created).count()
        });
        assert_eq!(created, 1);
        let bytes = fs::read(folder.path().join(&name)).unwrap();
        assert!(
            bytes.len() == 4096 && bytes.iter().all(|byte| *byte == bytes[0]),
            "torn"
        );
    }
    assert_eq!(names(&folder.path().join(".aside")), [""; 0]);
}

#[tokio::test]
async fn what_died_aside_is_cleared_and_never_listed() {
    let folder = tempfile::tempdir().unwrap();
    let store = DirectoryCheckpointStore::open(folder.path()).unwrap();
    let created = store.create("log/a", b"a".to_vec()).await.unwrap();
    assert_eq!(created, Create::Created);
    fs::write(folder.path().join(".aside/0123-0"), b"half").unwrap();
    fs::write(folder.path().join("log/.hidden"), b"not ours").unwrap();
    assert_eq!(store.list("log/").await.unwrap(), ["log/a"]);
    let _reopened = DirectoryCheckpointStore::open(folder.path()).unwrap();
    assert_eq!(names(&folder.path().join(".aside")), [""; 0]);
}

fn says(error: &StoreError, expected: &[&str]) {
    let text = error.to_string();
    for expected in expected {
        assert!(
            text.contains(expected),
            "{text:?} does not say {expected:?}"
        );
    }
    assert!(
        !error.retriable,
        "a human has to do something first: {text}"
    );
}

#[tokio::test]
async fn no_name_leads_out_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim");
    fs::write(&victim, b"precious").unwrap();
    let store = DirectoryCheckpointStore::open(folder.path().join("store")).unwrap();
    let absolute = victim.display().to_string();
    for name in ["../victim", "log/../../victim", &absolute, ".aside/x", ""] {
        let created = store.create(name, Vec::new()).await;
        says(&created.unwrap_err(), &["can't create", name]);
        says(&store.read(name).await.unwrap_err(), &["can't read", name]);
        let deleted = store.delete(name).await;
        says(&deleted.unwrap_err(), &["can't delete", name]);
    }
    for prefix in ["../", "", "log", "log/../../"] {
        let listed = store.list(prefix).await;
        says(&listed.unwrap_err(), &["can't list", prefix]);
    }
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

/// A store with two objects, from which a folder is then taken.
async fn opened(root: &Path) -> DirectoryCheckpointStore {
    let store = DirectoryCheckpointStore::open(root).unwrap();
    for name in ["log/a", "state/a"] {
        let created = store.create(name, b"a".to_vec()).await.unwrap();
        assert_eq!(created, Create::Created);
    }
    store
}

/// No operation finds anything, writes anything or can be tried again.
async fn is_gone(store: &DirectoryCheckpointStore) {
    const HINT: &str = "bring the folder back";
    let gone = |error: StoreError| says(&error, &["was removed or replaced", HINT]);
    gone(store.read("log/a").await.unwrap_err());
    gone(store.list("log/").await.unwrap_err());
    gone(store.delete("log/a").await.unwrap_err());
    gone(store.create("log/b", Vec::new()).await.unwrap_err());
}

#[tokio::test]
async fn a_removed_folder_is_noticed_and_not_made_again() {
    for removed in ["", "log"] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let store = opened(&root).await;
        fs::remove_dir_all(root.join(removed)).unwrap();
        is_gone(&store).await;
        is_gone(&store.clone()).await;
        assert!(!root.join(removed).exists(), "made again: {removed:?}");
    }
    // No object was created yet: the folder for it is not made, either.
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let store = DirectoryCheckpointStore::open(&root).unwrap();
    fs::remove_dir_all(&root).unwrap();
    is_gone(&store).await;
    assert!(!root.exists(), "made again");
}

#[tokio::test]
async fn a_folder_in_the_place_of_a_removed_one_is_not_mistaken_for_it() {
    for replaced in ["", "log"] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let store = opened(&root).await;
        fs::remove_dir_all(root.join(replaced)).unwrap();
        fs::create_dir_all(root.join("log")).unwrap();
        fs::create_dir_all(root.join(".aside")).unwrap();
        fs::write(root.join("log/a"), b"of others").unwrap();
        is_gone(&store).await;
        assert_eq!(names(&root.join("log")), ["a"], "{replaced:?}");
    }
}

#[tokio::test]
async fn a_decision_in_a_replaced_folder_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let open =
        || -> Arc<dyn CheckpointStore> { Arc::new(DirectoryCheckpointStore::open(&root).unwrap()) };
    let mut old = take_over(&open()).await;
    decide(&mut old, 1).await;
    fs::remove_dir_all(&root).unwrap();
    let (mut new, kept) = recover(&open()).await;
    assert!(kept.is_empty());
    let error = old.decide(&manifest(2)).await.unwrap_err();
    assert!(!error.is_retriable(), "{error}");
    decide(&mut new, 1).await;
}

#[test]
fn a_file_in_the_place_of_the_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("checkpoints");
    fs::write(&file, b"precious").unwrap();
    let error = DirectoryCheckpointStore::open(&file).unwrap_err();
    let path = file.display().to_string();
    says(&error, &["can't open", &path, "a folder of its own"]);
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

#[test]
fn a_file_in_the_place_of_a_folder_within_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = DirectoryCheckpointStore::open(folder.path()).unwrap();
    fs::write(folder.path().join("log"), b"precious").unwrap();
    let error = wait_for(store.create("log/a", Vec::new())).unwrap_err();
    says(&error, &["can't create", "log/a", "a folder of its own"]);
}

#[test]
fn without_rights_the_error_says_which_are_needed() {
    const HINT: &str = "give this user the right to read and write there";
    if let Some(folder) = child() {
        let closed = folder.join("closed");
        let error = DirectoryCheckpointStore::open(&closed).unwrap_err();
        says(&error, &["can't open", "closed", "Permission denied", HINT]);
        let error = DirectoryCheckpointStore::open(folder.join("secret")).unwrap_err();
        says(&error, &["can't open", "secret", "Permission denied", HINT]);
        let store = DirectoryCheckpointStore::open(folder.join("half")).unwrap();
        let error = wait_for(store.create("log/a", Vec::new())).unwrap_err();
        says(
            &error,
            &["can't create", "half/log/a", "Permission denied", HINT],
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let allow =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    allow(folder.path(), 0o755);
    for name in ["closed", "secret", "half", "half/log", "half/.aside"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    allow(&folder.path().join("closed"), 0o555);
    allow(&folder.path().join("secret"), 0o000);
    // It can be opened, and nothing can be given a name in it.
    allow(&folder.path().join("half/.aside"), 0o777);
    allow(&folder.path().join("half/log"), 0o555);
    let own = std::env::current_exe().unwrap();
    // Nobody may keep root out, so root lets a user without rights try. That user needs to reach the program.
    if fs::metadata(folder.path()).unwrap().uid() == 0 {
        let copy = folder.path().join("program");
        fs::copy(own, &copy).unwrap();
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(copy);
        run_child(
            &mut command,
            "without_rights_the_error_says_which_are_needed",
            folder.path(),
        );
    } else {
        run_child(
            &mut Command::new(own),
            "without_rights_the_error_says_which_are_needed",
            folder.path(),
        );
    }
    // So that the folder can be removed.
    allow(&folder.path().join("secret"), 0o755);
}

#[test]
fn a_full_disk_is_a_clear_error_and_leaves_nothing_torn() {
    if let Some(folder) = child() {
        let store = DirectoryCheckpointStore::open(&folder).unwrap();
        let error = wait_for(store.create("log/big", vec![7; 1 << 20])).unwrap_err();
        says(&error, &["can't create", "log/big", "free some space"]);
        assert_eq!(wait_for(store.read("log/big")).unwrap(), None);
        assert_eq!(wait_for(store.list("log/")).unwrap(), [""; 0]);
        assert_eq!(names(&folder.join(".aside")), [""; 0]);
        let small = wait_for(store.create("log/big", vec![7; 100])).unwrap();
        assert_eq!(small, Create::Created, "the name is still free");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // A limit on the size of files, for a disk that is full: the write stops half-way in the same manner.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""]);
    command.arg(std::env::current_exe().unwrap());
    run_child(
        &mut command,
        "a_full_disk_is_a_clear_error_and_leaves_nothing_torn",
        folder.path(),
    );
}
