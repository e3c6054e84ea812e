//! The window operator: adds records to open windows, and hands on results when the watermark closes them.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::description::Description;
use super::panes::{Pane, Panes, Progress};
use super::shape::shape_of;
use super::{Aggregate, AggregateError, WindowResult, Windows};
use crate::identity::OperatorId;
use crate::pipeline::{BATCH, Chain, Cut, Keyed, Record, Signal, Stage, Tail};
use crate::runtime::{Count, Failure, JobError, Site};
use crate::shard::Sharding;
use crate::time::{Timestamp, millis};

/// The plan of a window operator.
pub struct WindowChain<K, T, A, L> {
    pub(crate) operator: OperatorId,
    pub(crate) windows: Windows,
    pub(crate) lateness: Duration,
    pub(crate) aggregate: A,
    pub(crate) late: L,
    pub(crate) records: PhantomData<fn() -> (K, T)>,
}

impl<K, T, A: Clone, L: Clone> Clone for WindowChain<K, T, A, L> {
    fn clone(&self) -> Self {
        Self {
            operator: self.operator.clone(),
            aggregate: self.aggregate.clone(),
            late: self.late.clone(),
            ..*self
        }
    }
}

impl<K, T, A, L> fmt::Debug for WindowChain<K, T, A, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowChain")
            .field("operator", &self.operator)
            .finish_non_exhaustive()
    }
}

impl<K, T, A, L> Chain for WindowChain<K, T, A, L>
where
    K: Eq + Hash + Clone + Serialize + DeserializeOwned + Send + 'static,
    T: Send + 'static,
    A: Aggregate<T>,
    L: Tail<Keyed<K, T>>,
{
    type In = Keyed<K, T>;
    type Out = WindowResult<K, A::Output>;
    type Stage<N: Stage<Self::Out>> = WindowStage<K, T, A, N, L::Stage>;

    fn stage<N: Stage<Self::Out>>(
        &self,
        site: &mut Site<'_>,
        next: N,
    ) -> Result<Self::Stage<N>, Failure> {
        let sharding = site.sharding();
        let mut panes = Panes::new();
        let description = Description::new(
            self.windows,
            self.aggregate.name(),
            shape_of::<K>(),
            shape_of::<A::Accumulator>(),
        );
        let (mut watermark, mut closed) = (Timestamp::MIN, i64::MIN);
        for (object, content) in site.state(&self.operator) {
            let stored = panes
                .decode(content, &sharding, site.subtask(), &description)
                .map_err(|error| JobError::State {
                    operator: self.operator.clone(),
                    object: object.clone(),
                    cause: error.to_string(),
                })?;
            // Watermarks go to all subtasks alike, so at a barrier all have the same.
            watermark = watermark.max(stored.watermark);
            closed = closed.max(stored.closed);
        }
        let size = self.windows.size_millis();
        let mut stage = WindowStage {
            operator: self.operator.clone(),
            size,
            slide: self.windows.slide_millis(),
            lateness: self.lateness,
            aggregate: self.aggregate.clone(),
            description,
            sharding,
            panes,
            newest_start: 0,
            watermark,
            span: size.saturating_add(millis(self.lateness)) - 1,
            closed,
            failed: None,
            next,
            late: self.late.stage(site)?,
            late_records: site.count(&self.operator, "late"),
            results: site.count(&self.operator, "windows"),
            records: PhantomData,
        };
        // A longer lateness opens no window again that has given its result.
        stage.closed = closed.max(stage.closed_start(watermark));
        Ok(stage)
    }
}

/// The window operator in a subtask.
pub struct WindowStage<K, T, A: Aggregate<T>, N, L> {
    operator: OperatorId,
    size: i64,
    slide: i64,
    lateness: Duration,
    aggregate: A,
    description: Description,
    sharding: Sharding,
    panes: Panes<K, A::Accumulator>,
    /// Start of the newest window of the record before: the next record mostly has the same, which saves a division.
    newest_start: i64,
    watermark: Timestamp,
    /// From the start of a window to the watermark that closes it.
    span: i64,
    /// The newest start of a closed window, by the subtask's watermark.
    closed: i64,
    /// A record that the aggregate refused: the next signal fails, before anything is stored or handed on.
    failed: Option<Box<JobError>>,
    next: N,
    late: L,
    late_records: Count,
    results: Count,
    records: PhantomData<fn() -> T>,
}

impl<K, T, A: Aggregate<T>, N, L> fmt::Debug for WindowStage<K, T, A, N, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowStage")
            .field("operator", &self.operator)
            .finish_non_exhaustive()
    }
}

impl<K, T, A: Aggregate<T>, N, L> WindowStage<K, T, A, N, L> {
    /// The newest start of a window that is closed at a watermark: start + span <= watermark.
    fn closed_start(&self, watermark: Timestamp) -> i64 {
        if watermark == Timestamp::MAX {
            return i64::MAX;
        }
        watermark.as_millis().saturating_sub(self.span)
    }

    /// The start of the newest window that covers a time.
    ///
    /// A window whose start can't be told from [`Timestamp::MIN`] is never open: it counts as closed.
    fn newest_start(&mut self, time: i64) -> i64 {
        let start = time.saturating_sub(time.rem_euclid(self.slide));
        // At the ends of event time, the distance of another time to this start would be cut off, or wrap around.
        if start > i64::MIN && start.checked_add(self.slide).is_some() {
            self.newest_start = start;
        }
        start
    }

    #[cold]
    #[inline(never)]
    fn fail(&mut self, key: impl Serialize, start: i64, cause: AggregateError) {
        // The first failure is the one that counts.
        if self.failed.is_none() {
            let end = start.saturating_add(self.size);
            self.failed = Some(Box::new(JobError::Aggregate {
                operator: self.operator.clone(),
                key: shown(&key),
                start: Timestamp::from_millis(start),
                end: Timestamp::from_millis(end),
                cause,
            }));
        }
    }
}

/// A key as text, for errors.
fn shown(key: &impl Serialize) -> String {
    const LONGEST: usize = 200;
    let Ok(mut text) = serde_json::to_string(key) else {
        return "that can't be shown".to_owned();
    };
    if let Some((cut, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(cut);
        text.push('…');
    }
    text
}

impl<K, T, A, N, L> WindowStage<K, T, A, N, L>
where
    K: Eq + Hash + Clone + Serialize + DeserializeOwned + Send + 'static,
    T: Send + 'static,
    A: Aggregate<T>,
    N: Stage<WindowResult<K, A::Output>>,
    L: Stage<Keyed<K, T>>,
{
    async fn close(&mut self, watermark: Timestamp, cut: &mut Cut) -> Result<(), Failure> {
        let closed = self.closed_start(watermark);
        while let Some(Pane { start, mut slots }) = self.panes.take_oldest(closed) {
            let end = start.saturating_add(self.size);
            let timestamp = Timestamp::from_millis(end - 1);
            let (start, end) = (Timestamp::from_millis(start), Timestamp::from_millis(end));
            for (sent, slot) in (1..).zip(slots.drain()) {
                let value = self.aggregate.finish(slot.accumulator);
                let value = WindowResult {
                    key: slot.key,
                    start,
                    end,
                    value,
                };
                // No later operator can find a result late: the watermark that is handed on is held back behind it.
                self.next.push(Record {
                    value,
                    timestamp,
                    watermark: Timestamp::MIN,
                });
                self.results.add(1);
                if sent % BATCH == 0 {
                    self.next.signal(Signal::BatchEnd, cut).await?;
                }
            }
            self.panes.give_back(slots);
        }
        Ok(())
    }

    fn snapshot(&mut self, cut: &mut Cut) -> Result<(), Failure> {
        let progress = Progress {
            watermark: self.watermark,
            closed: self.closed,
        };
        let state = (self.panes).encode(&self.sharding, &self.description, progress);
        let state = state.map_err(|error| JobError::State {
            operator: self.operator.clone(),
            object: "a new state part".to_owned(),
            cause: error.to_string(),
        })?;
        cut.state
            .extend(state.map(|content| (self.operator.clone(), content)));
        self.late_records.cut(cut);
        self.results.cut(cut);
        Ok(())
    }
}

#[async_trait]
impl<K, T, A, N, L> Stage<Keyed<K, T>> for WindowStage<K, T, A, N, L>
where
    K: Eq + Hash + Clone + Serialize + DeserializeOwned + Send + 'static,
    T: Send + 'static,
    A: Aggregate<T>,
    N: Stage<WindowResult<K, A::Output>>,
    L: Stage<Keyed<K, T>>,
{
    // Always: as a call of its own it takes records over the stack, which costs a third (benches/framework_tax).
    #[inline(always)]
    fn push(&mut self, record: Record<Keyed<K, T>>) {
        let time = record.timestamp.as_millis();
        let mut start = self.newest_start;
        if !(0..self.slide).contains(&time.wrapping_sub(start)) {
            start = self.newest_start(time);
        }
        let closed = self
            .closed
            .max(record.watermark.as_millis().saturating_sub(self.span));
        if start <= closed {
            self.late_records.add(1);
            self.late.push(record);
            return;
        }
        let Keyed { hash, key, value } = record.value;
        // From the newest window that covers the record back to the oldest that is open.
        let bound = closed.max(time.saturating_sub(self.size));
        loop {
            let create = || self.aggregate.create();
            let accumulator = self.panes.accumulator(start, hash, &key, create);
            if let Err(error) = self.aggregate.add(accumulator, &value) {
                // The key is moved: a call that borrows it would keep every record in memory.
                self.fail(key, start, error);
                return;
            }
            start = start.saturating_sub(self.slide);
            if start <= bound {
                return;
            }
        }
    }

    async fn signal(&mut self, signal: Signal, cut: &mut Cut) -> Result<(), Failure> {
        let mut handed_on = signal;
        if signal != Signal::Cancel
            && let Some(error) = self.failed.take()
        {
            return Err(Failure::Error(error));
        }
        match signal {
            Signal::Watermark(watermark) => {
                self.close(watermark, cut).await?;
                self.watermark = self.watermark.max(watermark);
                self.closed = self.closed.max(self.closed_start(self.watermark));
                handed_on = Signal::Watermark(watermark.saturating_sub(self.lateness));
            }
            Signal::Barrier(_) => self.snapshot(cut)?,
            // Open windows have results to come, behind which no later operator may get: it waits for this subtask at its
            // last watermark. Whatever ends the idleness comes to all subtasks.
            Signal::Idle => handed_on = Signal::BatchEnd,
            Signal::BatchEnd | Signal::Flush | Signal::Cancel => {}
        }
        self.late.signal(signal, cut).await?;
        self.next.signal(handed_on, cut).await
    }
}
