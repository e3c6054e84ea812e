//! Panics of code that is not ours, as errors.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use super::failure::JobError;

/// The error of a task that panicked.
pub(super) fn panicked(error: tokio::task::JoinError) -> JobError {
    let text = error.to_string();
    let message = error
        .try_into_panic()
        .ok()
        .and_then(|panic| message(&*panic));
    JobError::Panicked(message.unwrap_or(text))
}

fn message(panic: &(dyn Any + Send)) -> Option<String> {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
}

/// Turns a panic of a connector during recovery, where it runs in no task of its own, into the error that it would be
/// in a subtask.
pub(super) async fn caught<T>(
    attempt: impl Future<Output = Result<T, JobError>>,
) -> Result<T, JobError> {
    let mut attempt = pin!(attempt);
    // What panicked is not polled again, and the next run takes nothing from it but what is in the store.
    let polled = poll_fn(|context| {
        catch_unwind(AssertUnwindSafe(|| attempt.as_mut().poll(context)))
            .map_or_else(|panic| Poll::Ready(Err(panic)), |polled| polled.map(Ok))
    });
    polled.await.unwrap_or_else(|panic| {
        let text = message(&*panic).unwrap_or_else(|| "without a message".to_owned());
        Err(JobError::Panicked(text))
    })
}
