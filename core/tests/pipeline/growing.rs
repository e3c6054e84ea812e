//! A source in which splits appear while it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cofferdam::{
    CheckpointId, JobEnd, Source, SourceBatch, SourceError, SourceEvent, SourceReader, SplitId,
    async_trait,
};

use crate::plan::{Mode, Op, Plan, When};
use crate::world::{Event, TUMBLING, World, events, ms, run};

/// How many splits there are from the start.
const OLD: usize = 3;
/// How many records of the first split are read before its reader finds the new one.
const FOUND_AT: usize = 8;
/// Records in a batch.
const BATCH: usize = 4;

/// What it was asked and told, over all runs.
#[derive(Debug, Default)]
struct Heard {
    /// The splits that the runtime knew, start by start.
    known: Vec<Vec<SplitId>>,
    /// Where the new split was opened.
    opened: BTreeSet<Option<usize>>,
    /// Splits that somebody reads in this run.
    read: BTreeSet<usize>,
}

/// Three splits, and one more that comes when it is time.
#[derive(Debug, Clone)]
struct Growing {
    splits: Arc<Vec<Vec<Event>>>,
    /// Whether the new one is told by its second reader as well, which is wrong.
    twice: bool,
    heard: Arc<Mutex<Heard>>,
}

impl Growing {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(index: usize) -> SplitId {
    SplitId::new(index.to_string())
}

fn index(split: &SplitId) -> usize {
    split.as_str().parse().unwrap()
}

#[async_trait]
impl Source for Growing {
    type Record = Event;
    type Position = usize;
    type Reader = GrowingReader;

    async fn splits(&self, known: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        let mut heard = self.heard();
        heard.known.push(known.to_vec());
        heard.read = (0..OLD).chain(known.iter().map(index)).collect();
        Ok((0..OLD).map(name).collect())
    }

    async fn open(
        &self,
        splits: Vec<(SplitId, Option<usize>)>,
    ) -> Result<GrowingReader, SourceError> {
        let new = splits.iter().filter(|(split, _)| index(split) == OLD);
        self.heard().opened.extend(new.map(|(_, at)| *at));
        let at = |(split, at): (SplitId, Option<usize>)| (index(&split), at.unwrap_or(0));
        Ok(GrowingReader {
            source: self.clone(),
            splits: splits.into_iter().map(at).collect(),
        })
    }

    async fn notify(&self, _: CheckpointId, _: &[(SplitId, usize)]) -> Result<(), SourceError> {
        Ok(())
    }
}

/// Reads its splits one after another: so the new one for long gives no record.
#[derive(Debug)]
struct GrowingReader {
    source: Growing,
    splits: BTreeMap<usize, usize>,
}

impl GrowingReader {
    /// Whether this reader finds the new split now.
    fn finds(&mut self) -> bool {
        let is_time = self.splits.get(&0).is_some_and(|at| *at >= FOUND_AT);
        let fresh = is_time && self.source.heard().read.insert(OLD);
        let again = self.source.twice && self.splits.contains_key(&1);
        (fresh || again) && !self.splits.contains_key(&OLD)
    }
}

#[async_trait]
impl SourceReader for GrowingReader {
    type Record = Event;
    type Position = usize;

    async fn next(&mut self) -> Result<SourceEvent<Event, usize>, SourceError> {
        tokio::task::yield_now().await;
        let batch = |split, records, position| {
            SourceEvent::Batch(SourceBatch {
                split: name(split),
                records,
                position,
                skipped: 0,
            })
        };
        if self.finds() {
            self.splits.insert(OLD, 0);
            return Ok(batch(OLD, Vec::new(), 0));
        }
        let Some((&split, at)) = self.splits.iter_mut().next() else {
            return Ok(SourceEvent::End);
        };
        let rest = &self.source.splits[split][*at..];
        if rest.is_empty() {
            self.splits.remove(&split);
            return Ok(SourceEvent::Finished(name(split)));
        }
        let records: Vec<Event> = rest.iter().take(BATCH).cloned().collect();
        *at += records.len();
        Ok(batch(split, records, *at))
    }
}

fn world() -> World<Growing> {
    let mut splits = events(OLD + 1, 48);
    // Nothing in the new split is older than what was read when it is found, and much is older than what is read then.
    for event in &mut splits[OLD] {
        event.at += 1300;
    }
    let source = Growing {
        splits: Arc::new(splits.clone()),
        twice: false,
        heard: Arc::default(),
    };
    World {
        alone: false,
        ..World::over(source, splits, TUMBLING)
    }
}

#[tokio::test(start_paused = true)]
async fn a_split_that_comes_later_is_read_exactly_once_from_wherever_the_job_goes_on() {
    let mut opened = BTreeSet::new();
    for (before, after) in [(1, 1), (1, 3), (3, 1), (2, 4)] {
        for n in 1.. {
            let world = world();
            let plan = Plan::at(Op::Next, n, Mode::Crash(When::Before));
            let outcome = run(world.job(&plan).parallelism(before), &plan).await;
            if outcome.end().is_none() {
                world.finish(after).await;
            }
            world.check().await;
            opened.extend(world.source.heard().opened.iter().copied());
            if outcome.end() == Some(JobEnd::Completed) {
                break;
            }
        }
    }
    // After the empty batch alone, between its records, and never as if it were new.
    assert!(opened.contains(&Some(0)) && opened.len() > 3, "{opened:?}");
    assert!(!opened.contains(&None), "{opened:?}");
}

#[tokio::test(start_paused = true)]
async fn a_source_is_told_the_splits_of_the_newest_checkpoint() {
    let world = world();
    let plan = Plan::at(Op::Next, 1, Mode::Crash(When::Before));
    run(world.job(&plan), &plan).await;
    let job = world.job(&Plan::none());
    let handle = job.handle();
    let stop = async {
        while handle.progress().count("events", "records") < 150 {
            tokio::time::sleep(ms(1)).await;
        }
        handle.stop();
    };
    let plan = Plan::none();
    let (outcome, ()) = tokio::join!(run(job, &plan), stop);
    assert_eq!(outcome.end(), Some(JobEnd::Stopped));
    world.finish(2).await;
    world.check().await;
    let all: Vec<SplitId> = (0..=OLD).map(name).collect();
    // The second start is the first still: no checkpoint was made before it. The third knows the finished ones too.
    assert_eq!(world.source.heard().known, [vec![], vec![], all]);
}

#[tokio::test(start_paused = true)]
async fn a_split_that_two_readers_tell_of_stops_the_job() {
    let mut world = world();
    world.source.twice = true;
    let plan = Plan::none();
    let error = run(world.job(&plan).parallelism(3), &plan).await.error();
    assert_eq!(
        error.to_string(),
        "source events: two of its readers read split 3"
    );
    assert!(!error.is_restartable());
}
