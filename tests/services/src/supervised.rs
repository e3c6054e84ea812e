use crate::ServiceError;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How often a condition is looked at that nobody announces.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// A process that lives no longer than this one: a small shell holds a pipe from here, and kills when it ends.
#[derive(Debug)]
pub(crate) struct Supervised {
    supervisor: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    id: u32,
    ended: PathBuf,
}

impl Supervised {
    /// Starts `command`, with its output added to `log` in its `own` folder. `all` is removed when this process is gone.
    pub(crate) fn start(all: &Path, own: &Path, command: &[String]) -> Result<Self, ServiceError> {
        let ended = own.join("ended");
        if ended.exists() {
            fs::remove_file(&ended).map_err(ServiceError::io("remove", &ended))?;
        }
        let mut supervisor = Command::new("sh")
            .args(["-c", include_str!("supervisor.sh"), "supervisor"])
            .args([all, own])
            .args(command)
            .current_dir("/") // nothing of the service's own lands in the folder of a test
            .process_group(0) // Ctrl-C in a terminal is for the owner alone
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(ServiceError::io("run", "sh"))?;
        let orders = supervisor.stdin.take();
        let mut answers = BufReader::new(supervisor.stdout.take().expect("it is piped"));
        let mut id = String::new();
        answers
            .read_line(&mut id)
            .map_err(ServiceError::io("hear from the supervisor in", own))?;
        let id = id.trim().parse().map_err(|_| ServiceError::Failed {
            doing: "the supervisor".to_owned(),
            output: id,
        })?;
        Ok(Self {
            supervisor,
            orders,
            answers,
            id,
            ended,
        })
    }

    /// The number of the service's process.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.exists()
    }

    /// Whether it has ended within this time.
    pub(crate) fn ends_within(&self, limit: Duration) -> bool {
        let start = Instant::now();
        while !self.has_ended() {
            if start.elapsed() > limit {
                return false;
            }
            thread::sleep(POLL);
        }
        true
    }

    /// Whether it has ended by itself, and well.
    pub(crate) fn has_succeeded(&self) -> bool {
        fs::read_to_string(&self.ended).is_ok_and(|status| status.trim() == "0")
    }

    /// Sends a signal, by its name without `SIG`; to nobody if the service has ended.
    pub(crate) fn signal(&mut self, name: &str) -> Result<(), ServiceError> {
        let mut answer = String::new();
        self.order(name)
            .and_then(|()| self.answers.read_line(&mut answer))
            .map_err(ServiceError::io(
                "send a signal to the service of",
                &self.ended,
            ))?;
        Ok(())
    }

    /// Lets go of a service that has ended, and leaves its files.
    pub(crate) fn leave(mut self) -> Result<(), ServiceError> {
        self.order("leave")
            .map_err(ServiceError::io("let go of the service of", &self.ended))
    }

    fn order(&mut self, order: &str) -> std::io::Result<()> {
        let mut orders = self.orders.as_ref().expect("taken only by drop");
        writeln!(orders, "{order}")
    }

    /// Asks the supervisor to kill and clean up, without waiting.
    pub(crate) fn abandon(&mut self) {
        self.orders = None;
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.abandon();
        drop(self.supervisor.wait());
    }
}
