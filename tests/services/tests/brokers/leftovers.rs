use crate::support::{eventually, processes_with};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[test]
fn after_kill_9_of_the_owner_there_is_no_process_and_no_folder() {
    killed_when(|temporary, owner| {
        let mut bootstrap = String::new();
        BufReader::new(owner.stdout.take().unwrap())
            .read_line(&mut bootstrap)
            .unwrap();
        assert!(bootstrap.starts_with("127.0.0.1:"), "{bootstrap}");
        assert!(processes_with(temporary) > 0);
    });
}

#[test]
fn nor_when_it_is_killed_before_the_broker_runs() {
    killed_when(|temporary, _| {
        eventually("storage is formatted", || processes_with(temporary) > 0);
    });
}

/// Has a cluster started by a process, kills that when it is `far_enough`, and looks for what is left.
fn killed_when(far_enough: impl FnOnce(&Path, &mut Child)) {
    let temporary = tempfile::tempdir().unwrap();
    let mut owner = Command::new(env!("CARGO_BIN_EXE_cofferdam-services"))
        .arg("kafka")
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    far_enough(temporary.path(), &mut owner);
    let left = || fs::read_dir(temporary.path()).unwrap().count();
    assert_eq!(left(), 1, "the cluster's folder");
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("no process is left", || {
        processes_with(temporary.path()) == 0
    });
    assert_eq!(left(), 0);
}
