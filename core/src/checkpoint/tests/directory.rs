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
