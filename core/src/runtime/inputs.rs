//! The inputs of a subtask behind an exchange: one channel from each subtask before it.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tokio::sync::mpsc;

use super::failure::{Failure, JobError};
use super::flush::FlushClock;
use super::subtask::{Seat, Subtask};
use crate::pipeline::{Element, Signal, Stage};
use crate::protocol::Alignment;
use crate::time::Timestamp;

/// Merges channels, holding back those whose barrier has come.
pub(crate) struct Inputs<T> {
    channels: Vec<mpsc::Receiver<Element<T>>>,
    /// Of each input; `None` while it is idle.
    watermarks: Vec<Option<Timestamp>>,
    merged: Timestamp,
    alignment: Alignment,
    /// Where to look first: so that no input waits for ever behind a busy one.
    first: usize,
}

impl<T: Send + 'static> Inputs<T> {
    pub(crate) fn new(channels: Vec<mpsc::Receiver<Element<T>>>) -> Self {
        Self {
            watermarks: vec![Some(Timestamp::MIN); channels.len()],
            merged: Timestamp::MIN,
            alignment: Alignment::new(channels.len()),
            channels,
            first: 0,
        }
    }

    /// The next element of any input that is not held back, with the input's index; `None` if an input has ended, which
    /// in a run that goes well none does before the last barrier.
    async fn next(&mut self) -> Option<(usize, Element<T>)> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, Element<T>)>> {
        let count = self.channels.len();
        for offset in 0..count {
            let input = (self.first + offset) % count;
            if self.alignment.is_held(input) {
                continue;
            }
            if let Poll::Ready(element) = self.channels[input].poll_recv(context) {
                self.first = (input + 1) % count;
                return Poll::Ready(element.map(|element| (input, element)));
            }
        }
        Poll::Pending
    }

    /// Takes in what an input says of event time; returns what is new about all of them together.
    fn event_time(&mut self, input: usize, watermark: Option<Timestamp>) -> Option<Signal> {
        self.watermarks[input] = watermark;
        let ended = |watermark: &Option<Timestamp>| *watermark == Some(Timestamp::MAX);
        let least = match self.watermarks.iter().all(ended) {
            true => Some(Timestamp::MAX),
            // An input that has ended says nothing about one that is idle, and may go on.
            false => {
                let going_on = self.watermarks.iter().filter(|input| !ended(input));
                going_on.flatten().min().copied()
            }
        };
        let Some(least) = least else {
            return Some(Signal::Idle);
        };
        // After a time of idleness it may be behind what was handed on, which stands.
        (least > self.merged).then(|| {
            self.merged = least;
            Signal::Watermark(least)
        })
    }

    /// Runs a subtask on these inputs, up to the last barrier.
    pub(crate) async fn run<N: Stage<T>>(mut self, seat: Seat, stage: N) -> Result<(), Failure> {
        let mut subtask = Subtask::new(seat, stage);
        let result = self.feed(&mut subtask).await;
        if result.is_err() {
            subtask.cancel().await;
        }
        result
    }

    async fn feed<N: Stage<T>>(&mut self, subtask: &mut Subtask<T, N>) -> Result<(), Failure> {
        let mut flush = FlushClock::new();
        loop {
            let element = tokio::select! {
                biased;
                failure = subtask.vote_failed() => return Err(failure),
                () = flush.due() => {
                    subtask.signal(Signal::Flush).await?;
                    continue;
                }
                element = self.next() => element,
            };
            flush.start();
            match element.ok_or(Failure::Cancelled)? {
                (_, Element::Batch(records)) => {
                    for record in records {
                        subtask.push(record);
                    }
                    subtask.signal(Signal::BatchEnd).await?;
                }
                (input, Element::Watermark(watermark)) => {
                    if let Some(signal) = self.event_time(input, Some(watermark)) {
                        subtask.signal(signal).await?;
                    }
                }
                (input, Element::Idle) => {
                    if let Some(signal) = self.event_time(input, None) {
                        subtask.signal(signal).await?;
                    }
                }
                (input, Element::Barrier(barrier)) => {
                    let aligned = self.alignment.barrier(input, barrier);
                    // A fault of this library, not of the input: recover from the newest checkpoint.
                    let aligned =
                        aligned.map_err(|error| JobError::RolledBack(error.to_string()))?;
                    if let Some(barrier) = aligned {
                        subtask.barrier(barrier, Vec::new(), |_| {}).await?;
                        if barrier.last {
                            return subtask.votes_cast().await;
                        }
                    }
                }
            }
        }
    }
}
