//! File work on threads that may block.

use cofferdam::SinkError;
use tokio::task::spawn_blocking;

/// Runs file work of a sink beside the async threads.
///
/// Once begun it runs to its end, even if the caller is dropped; so each piece of work has to leave the folder in a
/// state that a crash could have left.
pub(crate) async fn blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<SinkError> + Send + 'static,
{
    match spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(cut_off) => Err(
            SinkError::unknown("file work was cut off before it answered")
                .hint("the async runtime is shutting down, or the work panicked")
                .caused_by(cut_off)
                .into(),
        ),
    }
}
