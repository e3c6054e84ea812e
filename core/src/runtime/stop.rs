//! How a job is asked to end.

use tokio::sync::watch;

/// Whether the job is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    No,
    AfterCheckpoint,
    Now,
}

/// Returns once the job is told to leave at once.
pub(super) async fn left(stop: &mut watch::Receiver<Stop>) {
    wait_for(stop, |stop| stop == Stop::Now).await;
}

/// Returns once the job is asked to end, in whatever way.
pub(super) async fn asked_to_stop(stop: &mut watch::Receiver<Stop>) {
    wait_for(stop, |stop| stop != Stop::No).await;
}

async fn wait_for(stop: &mut watch::Receiver<Stop>, wanted: impl Fn(Stop) -> bool) {
    // Without a sender left, no one can ask any more.
    if stop.wait_for(|stop| wanted(*stop)).await.is_err() {
        std::future::pending::<()>().await;
    }
}
