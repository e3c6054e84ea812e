//! Child processes.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Far more than anything here takes.
pub const LONG: Duration = Duration::from_secs(60);

/// Waits for a condition, and fails loudly if it does not come.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {LONG:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A running victim. Dropped, it is killed and reaped.
#[derive(Debug)]
pub struct Victim {
    child: Child,
    pub stdout: PathBuf,
    pub stderr: PathBuf,
    pub trace: PathBuf,
}

/// How a victim ended.
#[derive(Debug)]
pub struct End {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    /// Spans that had opened, and not closed.
    pub open_spans: Vec<String>,
    /// Which spans opened and closed, in order.
    pub trace: String,
}

impl End {
    /// Whether it had come to work: any span had opened.
    pub fn worked(&self) -> bool {
        !self.trace.is_empty()
    }

    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }

    pub fn was_aborted(&self) -> bool {
        self.status.signal() == Some(6)
    }

    /// The line that tells why it failed.
    pub fn error(&self) -> &str {
        assert_eq!(self.status.code(), Some(1), "{self:#?}");
        let mut lines = self.stderr.lines();
        lines
            .find(|line| line.starts_with("error: "))
            .unwrap_or_else(|| panic!("no error line: {self:#?}"))
    }

    /// The report of a victim that ended well.
    pub fn report(&self) -> serde_json::Value {
        assert!(self.status.success(), "{self:#?}");
        serde_json::from_str(&self.stdout).expect("a report")
    }
}

impl Victim {
    pub fn spawn(mut command: Command, stdout: PathBuf, stderr: PathBuf, trace: PathBuf) -> Self {
        command.stdout(File::create(&stdout).expect("stdout"));
        command.stderr(File::create(&stderr).expect("stderr"));
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} can't be run: {error}"));
        Self {
            child,
            stdout,
            stderr,
            trace,
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &kill]).status();
        assert!(sent.expect("sh").success(), "{kill}");
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("a child");
    }

    /// Whether it is stopped by a signal, all threads of it.
    pub fn is_stopped(&self) -> bool {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.child.id()));
        super::log::names(&tasks).iter().all(|task| {
            let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
            stat.rsplit_once(") ")
                .is_some_and(|(_, state)| state.starts_with('T'))
        })
    }

    /// How often spans of a name have opened, or closed.
    pub fn reached(&self, edge: &str) -> usize {
        let trace = fs::read_to_string(&self.trace).unwrap_or_default();
        trace.lines().filter(|line| *line == edge).count()
    }

    /// Whether spans of a name have opened, or closed, so many times.
    pub fn has_reached(&self, edge: &str, times: usize) -> bool {
        self.reached(edge) >= times
    }

    pub fn wait(self) -> End {
        self.wait_within(LONG)
    }

    /// Waits for the end. One that does not come is a failure of its own.
    pub fn wait_within(mut self, limit: Duration) -> End {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            if Instant::now() > deadline {
                let stderr = fs::read_to_string(&self.stderr).unwrap_or_default();
                panic!("it still runs after {limit:?}: {stderr}");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let trace = read(&self.trace);
        let mut open_spans: Vec<String> = Vec::new();
        for line in trace.lines() {
            match line.split_once(' ') {
                Some(("before", span)) => open_spans.push(span.to_owned()),
                Some(("after", span)) => {
                    let at = open_spans.iter().position(|open| open == span);
                    open_spans.remove(at.expect("an open span"));
                }
                _ => panic!("a trace line {line:?}"),
            }
        }
        End {
            status,
            stdout: read(&self.stdout),
            stderr: read(&self.stderr),
            open_spans,
            trace,
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // Either may fail if it has ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
