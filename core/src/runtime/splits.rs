//! How far each split of a source subtask has been read, in position and in event time.

use std::collections::BTreeMap;

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
        self.splits.insert(
            split,
            SplitClock {
                position,
                newest,
                activity,
            },
        );
    }

    /// The clock of a split from which a batch has come: it is active.
    pub(crate) fn active(&mut self, split: &SplitId) -> &mut SplitClock<P> {
        let clock = self
            .splits
            .entry(split.clone())
            .or_insert_with(|| SplitClock {
                position: None,
                newest: None,
                activity: Activity::Active,
            });
        clock.activity = Activity::Active;
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
