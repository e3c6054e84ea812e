//! How far each split of a source subtask has been read, in position and in event time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::checkpoint::SplitSnapshot;
use crate::identity::SourceId;
use crate::source::SplitId;
use crate::time::Timestamp;

/// Where a split stands. Idle and finished are two things: an idle split goes on some day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    Active,
    Idle,
    Finished,
}

/// One split.
#[derive(Debug)]
pub(crate) struct SplitClock<P> {
    pub(crate) position: Option<P>,
    /// The newest event time seen.
    pub(crate) newest: Option<Timestamp>,
    activity: Activity,
    /// The time of the last batch.
    heard: Instant,
    /// True if its silence since then has been warned about.
    warned: bool,
}

impl<P> SplitClock<P> {
    fn new(position: Option<P>, newest: Option<Timestamp>, activity: Activity) -> Self {
        Self {
            position,
            newest,
            activity,
            heard: Instant::now(),
            warned: false,
        }
    }
}

/// All splits of a source subtask.
#[derive(Debug)]
pub(crate) struct SplitClocks<P> {
    splits: BTreeMap<SplitId, SplitClock<P>>,
}

impl<P: serde::Serialize> SplitClocks<P> {
    pub(crate) fn new() -> Self {
        Self {
            splits: BTreeMap::new(),
        }
    }

    /// Adds a split as a checkpoint left it, or a new one.
    pub(crate) fn add(
        &mut self,
        split: SplitId,
        position: Option<P>,
        newest: Option<Timestamp>,
        finished: bool,
    ) {
        let activity = if finished {
            Activity::Finished
        } else {
            Activity::Active
        };
        let clock = SplitClock::new(position, newest, activity);
        self.splits.insert(split, clock);
    }

    /// The clock of a split from which a batch has come: it is active.
    pub(crate) fn active(&mut self, split: &SplitId) -> &mut SplitClock<P> {
        let clock = self
            .splits
            .entry(split.clone())
            .or_insert_with(|| SplitClock::new(None, None, Activity::Active));
        clock.activity = Activity::Active;
        clock.heard = Instant::now();
        clock.warned = false;
        clock
    }

    pub(crate) fn idle(&mut self, split: &SplitId) {
        self.active(split).activity = Activity::Idle;
    }

    pub(crate) fn finished(&mut self, split: &SplitId) {
        self.active(split).activity = Activity::Finished;
    }

    /// The watermark of the subtask: the least of its active splits; `None` if there is none of these, as then no split
    /// says anything about event time.
    pub(crate) fn watermark(&self, of: impl Fn(Timestamp) -> Timestamp) -> Option<Timestamp> {
        let active = self
            .splits
            .values()
            .filter(|clock| clock.activity == Activity::Active);
        active
            .map(|clock| clock.newest.map_or(Timestamp::MIN, &of))
            .min()
    }

    /// The greatest watermark of the idle splits; `None` if there is none.
    pub(crate) fn greatest_idle(&self, of: impl Fn(Timestamp) -> Timestamp) -> Option<Timestamp> {
        let idle = self
            .splits
            .values()
            .filter(|clock| clock.activity == Activity::Idle);
        idle.filter_map(|clock| clock.newest.map(&of)).max()
    }

    /// The split that holds back the watermark, and for how long nothing of it was read, if that is longer than `patience`.
    /// Each silence of a split is returned once.
    pub(crate) fn held_back_by(&mut self, patience: Duration) -> Option<(&SplitId, Duration)> {
        let active = self
            .splits
            .iter_mut()
            .filter(|(_, clock)| clock.activity == Activity::Active);
        // Of several with the same event time, the one that has been silent for longest.
        let (split, clock) = active.min_by_key(|(_, clock)| (clock.newest, clock.heard))?;
        let silent = clock.heard.elapsed();
        if silent < patience || std::mem::replace(&mut clock.warned, true) {
            return None;
        }
        Some((split, silent))
    }

    pub(crate) fn snapshot(
        &self,
        source: &SourceId,
    ) -> Result<Vec<SplitSnapshot>, serde_json::Error> {
        let snapshot = |(split, clock): (&SplitId, &SplitClock<P>)| {
            Ok(SplitSnapshot {
                source: source.clone(),
                split: split.clone(),
                position: clock
                    .position
                    .as_ref()
                    .map(serde_json::to_value)
                    .transpose()?,
                newest: clock.newest,
                finished: clock.activity == Activity::Finished,
            })
        };
        self.splits.iter().map(snapshot).collect()
    }
}
