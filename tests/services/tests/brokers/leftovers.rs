use crate::support::{eventually, processes_with};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn after_kill_9_of_the_owner_there_is_no_process_and_no_folder() {
    let temporary = tempfile::tempdir().unwrap();
    let mut owner = Command::new(env!("CARGO_BIN_EXE_cofferdam-services"))
        .arg("kafka")
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut bootstrap = String::new();
    BufReader::new(owner.stdout.take().unwrap())
        .read_line(&mut bootstrap)
        .unwrap();
    assert!(bootstrap.starts_with("127.0.0.1:"), "{bootstrap}");
    let left = || fs::read_dir(temporary.path()).unwrap().count();
    assert_eq!(left(), 1, "the cluster's folder");
    assert!(processes_with(temporary.path()) > 0);

    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("no process is left", || {
        processes_with(temporary.path()) == 0
    });
    assert_eq!(left(), 0);
}
