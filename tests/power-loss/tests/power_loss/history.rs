//! Recorded runs of the job.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use cofferdam_power_loss::{CALLS, Call, Disk, Step, Tree, parse};
use tempfile::TempDir;

/// A run of the job, from start to end or death.
#[derive(Debug, Clone)]
pub struct Run {
    /// How it knew its folder.
    pub root: PathBuf,
    pub steps: Arc<Vec<Step>>,
}

/// A folder in memory if there is one: recovery syncs as on any disk, and waits for none.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    made.expect("a folder for the test")
}

/// Runs the job on what is in the folder, and records its system calls.
pub fn record(folder: &Path, arguments: &[&str]) -> Run {
    let trace = self::folder();
    let trace = trace.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args([
        "-f",
        "--seccomp-bpf",
        "-xx",
        "-s",
        "1000000",
        "-e",
        CALLS,
        "-o",
    ]);
    strace.arg(&trace).arg(env!("CARGO_BIN_EXE_recorded"));
    strace.arg(folder).args(arguments).current_dir("/");
    strace.stdout(Stdio::null());
    let output = strace.output().unwrap_or_else(|error| {
        panic!("strace can't be run ({error}): install it, as ./test does")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    let text = fs::read_to_string(&trace).unwrap_or_default();
    let dies = arguments.len() > 1;
    let end = match dies {
        true => "+++ killed by SIGABRT",
        false => "+++ exited with 0 +++",
    };
    assert!(
        text.lines().any(|line| line.contains(end)),
        "no {end:?} in the trace; strace needs the right to trace a process (in a container: SYS_PTRACE): {said}"
    );
    assert_ne!(output.status.success(), dies, "{}: {said}", output.status);
    let steps = parse(&text).unwrap_or_else(|error| panic!("strace wrote {error:?}"));
    Run {
        root: folder.to_owned(),
        steps: Arc::new(steps),
    }
}

/// Three runs on one disk: the first dies with a transaction decided and not committed, the second with one prepared and
/// not decided, the third comes to its end.
pub fn three_runs() -> Vec<Run> {
    again_if_cut_off(|| {
        let folder = folder();
        let mut disk = Disk::empty();
        let mut runs = Vec::new();
        for arguments in [
            &["paced", "committing", "3"][..],
            &["paced", "prepared", "2"],
            &["paced"],
        ] {
            runs.push(record(folder.path(), arguments));
            play(&mut disk, &runs[runs.len() - 1..])?;
            compare(&disk, folder.path())?;
        }
        Ok(runs)
    })
}

/// Records again if the death of a process cut off a call, of which the trace can't tell whether it took effect, or if
/// the trace has two threads' calls in an order in which they can't have been.
pub fn again_if_cut_off<T>(record: impl Fn() -> Result<T, String>) -> T {
    let mut reasons = Vec::new();
    while reasons.len() < 5 {
        match record() {
            Ok(recorded) => return recorded,
            Err(reason) => reasons.push(reason),
        }
    }
    panic!("no trace is sound: {reasons:#?}");
}

/// Does what the runs did.
pub fn play(disk: &mut Disk, runs: &[Run]) -> Result<(), String> {
    for run in runs {
        disk.begin_process(&run.root);
        for step in &*run.steps {
            disk.apply(step)?;
        }
    }
    Ok(())
}

/// What the job wrote to standard output in a step.
pub fn said(step: &Step) -> Option<(&str, &str)> {
    let Call::Write {
        descriptor: 1,
        bytes,
        ..
    } = &step.call
    else {
        return None;
    };
    std::str::from_utf8(bytes).ok()?.trim_end().split_once(' ')
}

/// The model has seen all that has become of the folder.
pub fn compare(disk: &Disk, folder: &Path) -> Result<(), String> {
    let real = read(folder);
    let model = disk.now();
    let differs = |path: &&PathBuf| real.get(*path) != model.get(*path);
    let paths: Vec<_> = real.keys().chain(model.keys()).filter(differs).collect();
    match paths.is_empty() {
        true => Ok(()),
        false => Err(format!("disk and model differ in {paths:?}")),
    }
}

fn read(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut rest = vec![PathBuf::new()];
    while let Some(folder) = rest.pop() {
        for entry in fs::read_dir(root.join(&folder)).expect("a folder") {
            let entry = entry.expect("an entry");
            let path = folder.join(entry.file_name());
            let is_folder = entry.file_type().expect("a type").is_dir();
            let content = match is_folder {
                true => None,
                false => Some(Arc::new(fs::read(entry.path()).expect("a file"))),
            };
            if is_folder {
                rest.push(path.clone());
            }
            tree.insert(path, content);
        }
    }
    tree
}
