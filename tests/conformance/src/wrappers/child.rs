//! A child process with a sink, which gets to a step and is killed there.
//!
//! The child is this very executable: it runs the one test that calls [`child_process`], with its task in the
//! environment.

use std::process::Stdio;
use std::sync::Arc;

use cofferdam::{CheckpointId, TransactionId};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

use crate::check::Stop;
use crate::factory::Factory;
use crate::history::Event;
use crate::process::{Handle, Process};
use crate::site::Site;
use crate::subject::{Subject, attach};
use crate::trial::Trial;
use crate::trouble::Trouble;
use crate::wrappers::polls::{Cut, cut};

/// Where the child stops and waits for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// A transaction is open.
    Begun,
    /// Half of the records are written.
    Writing,
    /// All records are written.
    Written,
    /// The transaction is prepared.
    Prepared,
    /// The commit waits for the n-th time.
    Committing(usize),
    /// Not at all: it makes checkpoint after checkpoint of [`SHARE`] records each, tells each handle before it commits,
    /// and stops when no records are left.
    Nowhere,
}

/// Records of one checkpoint of a child that stops nowhere.
pub(crate) const SHARE: usize = 20;

/// The transactions of such a child, one checkpoint after the other.
fn shares(
    first: &TransactionId,
    records: &[u64],
) -> impl Iterator<Item = (TransactionId, Vec<u64>)> {
    records
        .chunks(SHARE)
        .zip(first.checkpoint.0..)
        .map(|(share, checkpoint)| {
            let checkpoint = CheckpointId(checkpoint);
            let id = TransactionId {
                checkpoint,
                ..first.clone()
            };
            (id, share.to_vec())
        })
}

#[derive(Debug, Serialize, Deserialize)]
struct Task {
    address: String,
    transaction: TransactionId,
    records: Vec<u64>,
    stop_at: Step,
}

/// What the child says when it is there.
#[derive(Debug, Serialize, Deserialize)]
enum Reached {
    Step {
        handle: Option<Handle>,
        finished: bool,
    },
    Failed(String),
}

const TASK: &str = "COFFERDAM_CONFORMANCE_CHILD";
const REACHED: &str = "COFFERDAM-CONFORMANCE-CHILD ";

/// A child process on its way to a step.
#[derive(Debug)]
pub(crate) struct Child {
    process: tokio::process::Child,
    lines: Lines<BufReader<ChildStdout>>,
    finished: bool,
}

impl Child {
    /// Starts a child that writes these records, and stops at a step.
    pub(crate) async fn start(
        trial: &Trial,
        transaction: &TransactionId,
        records: Vec<u64>,
        stop_at: Step,
    ) -> Result<Self, Stop> {
        let unsupported = |reason: &str| Stop::Unsupported(reason.to_owned());
        let address = trial
            .place()
            .address()
            .ok_or_else(|| unsupported("the outside system lives in the process of the test"))?;
        let test = trial
            .child_test
            .ok_or_else(|| unsupported("there is no test to play the child"))?;
        let writes = match stop_at {
            Step::Nowhere => shares(transaction, &records).collect(),
            _ => vec![(transaction.clone(), records.clone())],
        };
        for (writer, records) in writes {
            trial.site.note(Event::Wrote { writer, records });
        }
        let task = Task {
            address,
            transaction: transaction.clone(),
            records,
            stop_at,
        };
        let failed = |error: std::io::Error| Trouble::failed("start a child process", error);
        let task = serde_json::to_string(&task).map_err(|error| failed(error.into()))?;
        let mut process = Command::new(std::env::current_exe().map_err(failed)?)
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(TASK, task)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let stdout = process.stdout.take().expect("its output is piped");
        Ok(Self {
            process,
            lines: BufReader::new(stdout).lines(),
            finished: false,
        })
    }

    /// Waits until the child is there; its handle, if it has prepared.
    pub(crate) async fn reached(&mut self) -> Result<Option<Handle>, Stop> {
        self.hear()
            .await?
            .ok_or_else(|| Stop::failed("the child process ended before it had reached its step"))
    }

    /// The next that the child tells; `None` when it has ended.
    async fn hear(&mut self) -> Result<Option<Option<Handle>>, Stop> {
        let failed = |error| Trouble::failed("listen to a child process", error);
        while let Some(line) = self.lines.next_line().await.map_err(failed)? {
            // The harness may have written something before it on the same line.
            let Some((_, reached)) = line.split_once(REACHED) else {
                continue;
            };
            return match serde_json::from_str(reached) {
                Ok(Reached::Step { handle, finished }) => {
                    self.finished = finished;
                    Ok(Some(handle))
                }
                Ok(Reached::Failed(what)) => {
                    Err(Stop::failed(format!("in the child process: {what}")))
                }
                // It died within the line: so it went no further, and nothing was told.
                Err(error) if error.is_eof() => Ok(None),
                Err(error) => Err(Trouble::failed("understand a child process", error).into()),
            };
        }
        Ok(None)
    }

    /// Whether the child was done before it came to the step.
    pub(crate) fn finished(&self) -> bool {
        self.finished
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) -> Result<(), Stop> {
        self.process.kill().await.map_err(cannot_kill)
    }

    /// SIGKILL; and all handles that it has told since it was asked last.
    pub(crate) async fn kill_and_hear(mut self) -> Result<Vec<Handle>, Stop> {
        self.process.kill().await.map_err(cannot_kill)?;
        let mut heard = Vec::new();
        // The last that a child tells, when it is done, has no handle.
        while let Some(Some(handle)) = self.hear().await? {
            heard.push(handle);
        }
        Ok(heard)
    }
}

fn cannot_kill(error: std::io::Error) -> Stop {
    Trouble::failed("kill a child process", error).into()
}

/// Plays the part of a process that is killed, if the environment has a task for it; else does nothing. To be called by
/// one test of each executable that runs the suite; [`conformance_tests`](crate::conformance_tests) makes it.
pub fn child_process<F: Factory>() {
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime
        .expect("a runtime needs threads and sockets, which a test may have")
        .block_on(async {
            let reached = match serde_json::from_str(&task) {
                Ok(task) => attach_and_play::<F>(task).await,
                Err(error) => Err(Trouble::failed("understand the task", error).into()),
            };
            let failed = |stop| Reached::Failed(format!("{stop:?}"));
            tell(&reached.unwrap_or_else(failed)).await;
        });
}

fn say(reached: &Reached) {
    println!(
        "{REACHED}{}",
        serde_json::to_string(reached).unwrap_or_default()
    );
}

/// Says how far it came, and waits for its end.
async fn tell(reached: &Reached) {
    say(reached);
    std::future::pending::<()>().await;
}

async fn attach_and_play<F: Factory>(task: Task) -> Result<Reached, Stop> {
    let subject = attach::<F>(&task.address).await?;
    play(subject, task).await
}

async fn play(subject: Arc<dyn Subject>, task: Task) -> Result<Reached, Stop> {
    let Task {
        transaction,
        records,
        stop_at,
        ..
    } = task;
    let sink = subject.open().await?;
    let process = Process::new(Arc::new(Site::new(subject)), sink);
    let there = |handle, finished| Reached::Step { handle, finished };
    if stop_at == Step::Nowhere {
        for (id, share) in shares(&transaction, &records) {
            let handle = process.prepare_records(&id, share).await?;
            say(&there(Some(handle.clone()), false));
            process.settle(&handle).await?;
        }
        return Ok(there(None, true));
    }
    let mut open = process.begin(&transaction).await?;
    if stop_at == Step::Begun {
        tell(&there(None, false)).await;
    }
    let (first, second) = records.split_at(records.len() / 2);
    process.write_records(&mut open, first.to_vec()).await?;
    if stop_at == Step::Writing {
        tell(&there(None, false)).await;
    }
    process.write_records(&mut open, second.to_vec()).await?;
    if stop_at == Step::Written {
        tell(&there(None, false)).await;
    }
    let handle = process.pre_commit(open).await?;
    let (Step::Committing(waits), Some(prepared)) = (stop_at, &handle) else {
        return Ok(there(handle, false));
    };
    let committed = cut(process.commit(prepared), Cut::Waiting(waits)).await;
    let finished = committed.transpose()?.is_some();
    Ok(there(handle, finished))
}
