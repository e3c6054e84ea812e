//! Watching and stopping a job, also by Ctrl-C and SIGTERM.

use tokio::sync::watch;

use super::counts::Counters;
use super::failure::JobError;
use super::progress::Progress;
use super::stop::Stop;

/// Watches and stops a job that runs elsewhere.
#[derive(Debug, Clone)]
pub struct JobHandle {
    pub(super) stop: watch::Sender<Stop>,
    pub(super) progress: watch::Receiver<Progress>,
    pub(super) counters: Counters,
}

impl JobHandle {
    /// Asks the job to make a last checkpoint, commit it and end.
    ///
    /// The job ends within its [stop time-out](crate::Job::stop_timeout): if the last checkpoint is not committed by then, it
    /// leaves as [`stop_now`](Self::stop_now) does, with a warning that names what is not finished. While nothing runs
    /// (in standby, during recovery, and before a restart) it leaves at once.
    pub fn stop(&self) {
        self.stop.send_if_modified(|stop| {
            let first = *stop == Stop::No;
            if first {
                *stop = Stop::AfterCheckpoint;
            }
            first
        });
    }

    /// Asks the job to leave at once, without a last checkpoint. Nothing is lost: the next start continues from the newest
    /// one.
    ///
    /// Calls that are under way are dropped. A call that blocks its thread can't be: then [`Job::run`](crate::Job::run) returns,
    /// but a runtime waits for such threads when it is dropped (see `Runtime::shutdown_background` of tokio).
    pub fn stop_now(&self) {
        self.stop.send_replace(Stop::Now);
    }

    /// Where the job stands now. Counts run ahead of the checkpoint.
    pub fn progress(&self) -> Progress {
        self.progress.borrow().now(self.counters.totals())
    }

    /// Waits for the next state, epoch or checkpoint; false once the job has ended.
    ///
    /// Cancel safety: cancel safe.
    pub async fn changed(&mut self) -> bool {
        self.progress.changed().await.is_ok()
    }
}

/// Turns signals into requests to stop, for ever; returns only if signals can't be received.
pub(super) async fn stop_on_signals(handle: &JobHandle) -> JobError {
    loop {
        if let Err(error) = signal().await {
            return JobError::Plan(format!("Ctrl-C can't be listened to: {error}"));
        }
        // Read before it is acted on: the guard of `borrow` must not be held while the value is replaced.
        let asked = *handle.stop.borrow();
        match asked {
            Stop::No => handle.stop(),
            Stop::AfterCheckpoint | Stop::Now => handle.stop_now(),
        }
    }
}

#[cfg(unix)]
async fn signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn signal() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}
