//! A subtask that reads splits of a source.

use std::fmt;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tracing::warn;

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
use crate::source::{OnMalformed, Source, SourceBatch, SourceEvent, SourceReader};
use crate::time::Timestamp;

/// How long a split may hold back the watermark in silence before that is warned about.
const SILENCE: Duration = Duration::from_secs(10);

/// Reads splits, stamps records with event time, and lets barriers in between batches.
pub(crate) struct SourceSubtask<S: Source, A> {
    pub(crate) id: SourceId,
    /// `None` if all splits of this subtask are finished.
    pub(crate) reader: Option<S::Reader>,
    pub(crate) assigner: A,
    pub(crate) clocks: SplitClocks<S::Position>,
    pub(crate) barriers: mpsc::Receiver<Barrier>,
    /// True if it must not read now: barriers still pass.
    pub(crate) hold: watch::Receiver<bool>,
    pub(crate) seat: Seat,
    pub(crate) records: Count,
    pub(crate) skipped: Count,
    /// What was last said about event time.
    pub(crate) said: Signal,
    /// True if windows wait for the watermark.
    pub(crate) windows: bool,
}

/// What the subtask waits for.
enum Next<R, P> {
    Barrier(Option<Barrier>),
    Event(Result<SourceEvent<R, P>, SourceError>),
    VoteFailed(Failure),
    FlushDue,
    Silence,
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
        let mut silence = interval_at(Instant::now() + SILENCE, SILENCE);
        silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let windows = A::HAS_EVENT_TIME && self.windows;
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
                // Before the next event: a busy split must not hide one that is silent.
                _ = silence.tick(), if windows && !held && self.reader.is_some() => Next::Silence,
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
                Next::Silence => self.warn_of_silence(),
                Next::Event(event) => {
                    flush.start();
                    match event.map_err(|cause| self.failed(cause))? {
                        SourceEvent::Batch(batch) => {
                            self.stamp(batch, subtask)?;
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
    /// Records too far ahead of the clock fail the job or are left out.
    fn stamp<N: Stage<S::Record>>(
        &mut self,
        batch: SourceBatch<S::Record, S::Position>,
        subtask: &mut Subtask<S::Record, N>,
    ) -> Result<(), JobError> {
        let (count, mut skipped) = (batch.records.len() as u64, 0);
        let latest = self.assigner.latest();
        let clock = self.clocks.active(&batch.split);
        let mut newest = clock.newest.unwrap_or(Timestamp::MIN);
        let mut watermark = clock
            .newest
            .map_or(Timestamp::MIN, |newest| self.assigner.watermark(newest));
        let mut records = batch.records.into_iter();
        while let Some(value) = records.next() {
            let timestamp = self.assigner.timestamp(&value);
            let before = watermark;
            if timestamp > newest {
                if timestamp > latest {
                    match self.assigner.on_malformed() {
                        OnMalformed::Fail => {
                            let index = count - records.len() as u64;
                            let place = format_args!(
                                "record {index} of the {count} of split {} before position {:?}",
                                batch.split, batch.position
                            );
                            return Err(self.failed(too_far_ahead(place, timestamp)));
                        }
                        OnMalformed::Skip => {
                            skipped += 1;
                            continue;
                        }
                    }
                }
                newest = timestamp;
                watermark = self.assigner.watermark(newest);
            }
            subtask.push(Record {
                value,
                timestamp,
                watermark: before,
            });
        }
        clock.position = Some(batch.position);
        if skipped < count {
            clock.newest = Some(newest);
        }
        self.records.add(count - skipped);
        self.skipped.add(batch.skipped + skipped);
        self.records.publish();
        self.skipped.publish();
        Ok(())
    }

    fn warn_of_silence(&mut self) {
        if let Some((split, silent)) = self.clocks.held_back_by(SILENCE) {
            let (job, subtask) = (&self.seat.job, self.seat.subtask);
            warn!(
                %job, source = %self.id, %subtask, %split, ?silent,
                "nothing of this split was read, and it is not idle: it holds back the watermark, and windows stay open"
            );
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
        let before = self.said;
        let Some(now) = self.event_time() else {
            return Ok(());
        };
        if now == Signal::Idle {
            // No split is left that others could wait for: windows close up to the greatest watermark.
            let of = |newest| self.assigner.watermark(newest);
            let greatest = self.clocks.greatest_idle(of);
            if let (Signal::Watermark(before), Some(greatest)) = (before, greatest)
                && greatest > before
            {
                subtask.signal(Signal::Watermark(greatest)).await?;
            }
        }
        subtask.signal(now).await
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

#[cold]
fn too_far_ahead(place: fmt::Arguments<'_>, timestamp: Timestamp) -> SourceError {
    let millis = timestamp.as_millis();
    SourceError::rejected(format!(
        "{place}: its event time, {millis} ms since 1970, is further ahead of the clock than `at_most_ahead` allows"
    ))
    .hint("correct the record, allow more, or leave such records out: `EventTime::on_malformed(OnMalformed::Skip)`")
}

async fn next<R: SourceReader>(
    reader: Option<&mut R>,
) -> Result<SourceEvent<R::Record, R::Position>, SourceError> {
    match reader {
        Some(reader) => reader.next().await,
        None => std::future::pending().await,
    }
}
