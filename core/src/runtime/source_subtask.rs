//! A subtask that reads splits of a source.

use tokio::sync::{mpsc, watch};

use super::counts::Count;
use super::failure::{Failure, JobError};
use super::flush::FlushClock;
use super::run::Event;
use super::splits::SplitClocks;
use super::subtask::{Seat, Subtask};
use crate::checkpoint::SplitSnapshot;
use crate::error::SourceError;
use crate::identity::SourceId;
use crate::pipeline::{Record, Signal, Stage, TimestampAssigner};
use crate::protocol::Barrier;
use crate::source::{Source, SourceBatch, SourceEvent, SourceReader};
use crate::time::Timestamp;

/// Reads splits, stamps records with event time, and lets barriers in between batches.
pub(crate) struct SourceSubtask<S: Source, A> {
    pub(crate) id: SourceId,
    /// `None` if all splits of this subtask are finished.
    pub(crate) reader: Option<S::Reader>,
    pub(crate) assigner: A,
    pub(crate) clocks: SplitClocks<S::Position>,
    pub(crate) barriers: mpsc::Receiver<Barrier>,
    /// Whether it must not read now: barriers still pass.
    pub(crate) hold: watch::Receiver<bool>,
    pub(crate) seat: Seat,
    pub(crate) records: Count,
    pub(crate) skipped: Count,
    /// What was last said about event time.
    pub(crate) said: Signal,
}

/// What the subtask waits for.
enum Next<R, P> {
    Barrier(Option<Barrier>),
    Event(Result<SourceEvent<R, P>, SourceError>),
    VoteFailed(Failure),
    FlushDue,
    Released,
}

impl<S: Source, A: TimestampAssigner<S::Record>> SourceSubtask<S, A> {
    pub(crate) async fn run<N: Stage<S::Record>>(mut self, stage: N) -> Result<(), Failure> {
        let mut subtask = Subtask::new(self.seat.clone(), stage);
        let result = self.read(&mut subtask).await;
        if result.is_err() {
            subtask.cancel().await;
        }
        result
    }

    async fn read<N: Stage<S::Record>>(
        &mut self,
        subtask: &mut Subtask<S::Record, N>,
    ) -> Result<(), Failure> {
        let mut flush = FlushClock::new();
        if self.reader.is_none() {
            // Windows that were restored may close now.
            flush.start();
            self.exhausted(subtask).await?;
        }
        loop {
            // A source that always has something, before a chain that never waits, would keep its worker for ever: no
            // barrier would get through, as channels refuse a task that has used up its turn.
            tokio::task::coop::consume_budget().await;
            let held = *self.hold.borrow_and_update();
            let next = tokio::select! {
                biased;
                failure = subtask.vote_failed() => Next::VoteFailed(failure),
                barrier = self.barriers.recv() => Next::Barrier(barrier),
                () = flush.due() => Next::FlushDue,
                Ok(()) = self.hold.changed(), if held => Next::Released,
                event = next(self.reader.as_mut()), if !held => Next::Event(event),
            };
            match next {
                Next::VoteFailed(failure) => return Err(failure),
                Next::Barrier(None) => return Err(Failure::Cancelled),
                Next::Barrier(Some(barrier)) => {
                    self.barrier(barrier, subtask).await?;
                    if barrier.last {
                        return subtask.votes_cast().await;
                    }
                }
                Next::Released => {}
                Next::FlushDue => subtask.signal(Signal::Flush).await?,
                Next::Event(event) => {
                    flush.start();
                    match event.map_err(|cause| self.failed(cause))? {
                        SourceEvent::Batch(batch) => {
                            self.stamp(batch, subtask);
                            let behind = self.event_time().unwrap_or(Signal::BatchEnd);
                            subtask.signal(behind).await?;
                        }
                        SourceEvent::Idle(split) => {
                            self.clocks.idle(&split);
                            self.tell_event_time(subtask).await?;
                        }
                        SourceEvent::Finished(split) => {
                            self.clocks.finished(&split);
                            self.tell_event_time(subtask).await?;
                        }
                        SourceEvent::End => {
                            self.reader = None;
                            self.exhausted(subtask).await?;
                        }
                    }
                }
            }
        }
    }

    /// Gives each record its event time, and the watermark of its split just before it, and takes it into the chain.
    fn stamp<N: Stage<S::Record>>(
        &mut self,
        batch: SourceBatch<S::Record, S::Position>,
        subtask: &mut Subtask<S::Record, N>,
    ) {
        self.records.add(batch.records.len() as u64);
        self.skipped.add(batch.skipped);
        self.records.publish();
        self.skipped.publish();
        let clock = self.clocks.active(&batch.split);
        clock.position = Some(batch.position);
        let mut newest = clock.newest.unwrap_or(Timestamp::MIN);
        let mut watermark = clock
            .newest
            .map_or(Timestamp::MIN, |newest| self.assigner.watermark(newest));
        let any = !batch.records.is_empty();
        for value in batch.records {
            let timestamp = self.assigner.timestamp(&value);
            subtask.push(Record {
                value,
                timestamp,
                watermark,
            });
            if timestamp > newest {
                newest = timestamp;
                watermark = self.assigner.watermark(newest);
            }
        }
        if any {
            clock.newest = Some(newest);
        }
    }

    /// What is new about event time, if anything.
    fn event_time(&mut self) -> Option<Signal> {
        if !A::HAS_EVENT_TIME {
            return None;
        }
        let watermark = self
            .clocks
            .watermark(|newest| self.assigner.watermark(newest));
        let now = watermark.map_or(Signal::Idle, Signal::Watermark);
        (now != self.said).then(|| {
            self.said = now;
            now
        })
    }

    async fn tell_event_time<N: Stage<S::Record>>(
        &mut self,
        subtask: &mut Subtask<S::Record, N>,
    ) -> Result<(), Failure> {
        match self.event_time() {
            Some(signal) => subtask.signal(signal).await,
            None => Ok(()),
        }
    }

    async fn exhausted<N: Stage<S::Record>>(
        &mut self,
        subtask: &mut Subtask<S::Record, N>,
    ) -> Result<(), Failure> {
        if A::HAS_EVENT_TIME {
            self.said = Signal::Watermark(Timestamp::MAX);
            subtask.signal(self.said).await?;
        }
        let told = self.seat.events.send(Event::Exhausted).await;
        told.map_err(|_| Failure::Cancelled)
    }

    async fn barrier<N: Stage<S::Record>>(
        &mut self,
        barrier: Barrier,
        subtask: &mut Subtask<S::Record, N>,
    ) -> Result<(), Failure> {
        let splits: Vec<SplitSnapshot> = self.clocks.snapshot(&self.id).map_err(|error| {
            self.failed(SourceError::rejected("a position can't be stored").caused_by(error))
        })?;
        let (records, skipped) = (&mut self.records, &mut self.skipped);
        let count = |cut: &mut _| {
            records.cut(cut);
            skipped.cut(cut);
        };
        subtask.barrier(barrier, splits, count).await
    }

    fn failed(&self, cause: SourceError) -> JobError {
        JobError::Source {
            source_id: self.id.clone(),
            cause,
        }
    }
}

async fn next<R: SourceReader>(
    reader: Option<&mut R>,
) -> Result<SourceEvent<R::Record, R::Position>, SourceError> {
    match reader {
        Some(reader) => reader.next().await,
        None => std::future::pending().await,
    }
}
