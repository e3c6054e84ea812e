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

/// Where event time stands in an input.
#[derive(Debug, Clone, Copy)]
struct EventTime {
    watermark: Timestamp,
    idle: bool,
}

impl EventTime {
    fn has_ended(&self) -> bool {
        self.watermark == Timestamp::MAX
    }
}

/// Merges channels, holding back those whose barrier has come.
pub(crate) struct Inputs<T> {
    channels: Vec<mpsc::Receiver<Element<T>>>,
    /// Of each input.
    event_times: Vec<EventTime>,
    merged: Timestamp,
    alignment: Alignment,
    /// Where to look first: so that no input waits for ever behind a busy one.
    first: usize,
}

impl<T: Send + 'static> Inputs<T> {
    pub(crate) fn new(channels: Vec<mpsc::Receiver<Element<T>>>) -> Self {
        Self {
            event_times: vec![
                EventTime {
                    watermark: Timestamp::MIN,
                    idle: false
                };
                channels.len()
            ],
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

    /// Hands on what is new about the event time of all inputs together.
    async fn event_time<N: Stage<T>>(
        &mut self,
        subtask: &mut Subtask<T, N>,
    ) -> Result<(), Failure> {
        // An input that has ended says nothing about one that is idle, and may go on.
        let going_on = || self.event_times.iter().filter(|input| !input.has_ended());
        let active = going_on().filter(|input| !input.idle);
        let idle = || going_on().filter(|input| input.idle);
        let watermarks = (
            active.map(|input| input.watermark).min(),
            idle().map(|input| input.watermark).max(),
        );
        let (watermark, is_idle) = match watermarks {
            (Some(least), _) => (least, false),
            // No input is left that others could wait for: windows close up to the greatest watermark.
            (None, Some(greatest)) => (greatest, true),
            (None, None) => (Timestamp::MAX, false),
        };
        // After a time of idleness it may be behind what was handed on, which stands.
        if watermark > self.merged {
            self.merged = watermark;
            subtask.signal(Signal::Watermark(watermark)).await?;
        }
        match is_idle {
            true => subtask.signal(Signal::Idle).await,
            false => Ok(()),
        }
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
                    self.event_times[input] = EventTime {
                        watermark,
                        idle: false,
                    };
                    self.event_time(subtask).await?;
                }
                (input, Element::Idle) => {
                    self.event_times[input].idle = true;
                    self.event_time(subtask).await?;
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
