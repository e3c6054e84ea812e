//! Dropping a future at any of its awaits: to the sink, that is a crash of its caller.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

/// When a future is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// As soon as it waits for the n-th time: what it asked for is under way.
    Waiting(usize),
    /// When it is woken after it has waited n times: what it asked for is done, and nobody has heard of it.
    Woken(usize),
}

impl Cut {
    /// All ways to cut a future that waits no more than `waits` times.
    pub(crate) fn all(waits: usize) -> impl Iterator<Item = Self> {
        (1..=waits).flat_map(|wait| [Self::Waiting(wait), Self::Woken(wait)])
    }
}

/// Polls a future until it is done or has waited as often as the cut allows; then the caller can drop it, or go on.
pub(crate) async fn poll_until<T>(
    mut future: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    cut: Cut,
) -> Option<T> {
    let mut waited = 0;
    poll_fn(move |context| {
        if cut == Cut::Woken(waited) {
            return Poll::Ready(None);
        }
        match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => {
                waited += 1;
                if cut == Cut::Waiting(waited) {
                    Poll::Ready(None)
                } else {
                    Poll::Pending
                }
            }
        }
    })
    .await
}

/// Runs a future until it is done, or drops it at the cut.
pub(crate) async fn cut<T>(future: impl Future<Output = T>, at: Cut) -> Option<T> {
    poll_until(pin!(future), at).await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    async fn steps(done: &AtomicUsize) -> usize {
        for _ in 0..3 {
            tokio::task::yield_now().await;
            done.fetch_add(1, Ordering::Relaxed);
        }
        done.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn a_future_is_dropped_at_each_of_its_awaits() {
        for (at, expected, finished) in [
            (Cut::Waiting(1), 0, false),
            (Cut::Woken(1), 0, false),
            (Cut::Waiting(3), 2, false),
            (Cut::Waiting(4), 3, true),
        ] {
            let done = AtomicUsize::new(0);
            let output = cut(steps(&done), at).await;
            assert_eq!(
                (output.is_some(), done.into_inner()),
                (finished, expected),
                "{at:?}"
            );
        }
    }
}
