//! What the framework costs: generator → map → `key_by` → tumbling window sum → discard, against a hand-written loop that
//! does the same work on one thread with the same hash table; and what checkpoints cost on top.
//!
//! `cargo bench -p cofferdam-benches --bench framework_tax`; `RECORDS` and `RUNS` may be set.

use std::collections::VecDeque;
use std::time::Duration;

use cofferdam::{
    CheckpointId, DirectoryCheckpointStore, EventTime, MemoryCheckpointStore, Pipeline, Source,
    SourceBatch, SourceError, SourceEvent, SourceReader, SplitId, Timestamp, Windows, async_trait,
    sum,
};
use cofferdam_benches::{in_turn, millions_per_second, number, speed_ratio, time};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

const KEYS: u64 = 10_000;
const WINDOW: Duration = Duration::from_secs(10);
/// Event time between two records, in microseconds: a window holds a million records.
const STEP_MICROS: u64 = 10;

#[derive(Clone, Copy)]
struct Event {
    user: u64,
    cents: u64,
    millis: i64,
}

/// The i-th record: pseudo-random, the same in every run.
#[inline]
fn event(index: u64) -> Event {
    let mut random = index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    random = (random ^ (random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    random ^= random >> 27;
    Event {
        user: random % KEYS,
        cents: (random >> 40) % 10_000,
        millis: i64::try_from(index * STEP_MICROS / 1000).unwrap_or(i64::MAX),
    }
}

/// The work of `map`: something small that can't be left out.
#[inline]
fn net(event: Event) -> Event {
    Event {
        cents: event.cents - event.cents / 5,
        ..event
    }
}

/// The same windows by hand: the best loop that this author can write.
fn by_hand(records: u64) -> u64 {
    let size = i64::try_from(WINDOW.as_millis()).unwrap_or(i64::MAX);
    let new_table = || HashMap::<u64, u64, _>::with_hasher(FixedState::with_seed(7));
    let mut open: VecDeque<(i64, HashMap<u64, u64, FixedState>)> = VecDeque::new();
    let mut spare = Vec::new();
    let (mut results, mut watermark, mut hot) = (0, i64::MIN, 0);
    for index in 0..records {
        let event = net(event(index));
        let start = event.millis - event.millis.rem_euclid(size);
        if open.get(hot).is_none_or(|(open, _)| *open != start) {
            hot = match open.binary_search_by_key(&start, |(start, _)| *start) {
                Ok(at) => at,
                Err(at) => {
                    open.insert(at, (start, spare.pop().unwrap_or_else(new_table)));
                    at
                }
            };
        }
        *open[hot].1.entry(event.user).or_default() += event.cents;
        if event.millis > watermark {
            watermark = event.millis;
            while open
                .front()
                .is_some_and(|(start, _)| start + size <= watermark)
            {
                if let Some((_, mut table)) = open.pop_front() {
                    results += std::hint::black_box(table.drain().count() as u64);
                    spare.push(table);
                }
                hot = hot.saturating_sub(1);
            }
        }
    }
    results
        + open
            .into_iter()
            .map(|(_, table)| table.len() as u64)
            .sum::<u64>()
}

#[derive(Debug)]
struct Generator {
    records: u64,
}

struct GeneratorReader {
    split: SplitId,
    next: u64,
    end: u64,
}

const BATCH: u64 = 1024;

#[async_trait]
impl Source for Generator {
    type Record = Event;
    type Position = u64;
    type Reader = GeneratorReader;

    async fn splits(&self, _: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        Ok(vec![SplitId::new("generator")])
    }

    async fn open(
        &self,
        splits: Vec<(SplitId, Option<u64>)>,
    ) -> Result<GeneratorReader, SourceError> {
        let (split, position) = splits
            .into_iter()
            .next()
            .ok_or_else(|| SourceError::configuration("the generator has one split"))?;
        Ok(GeneratorReader {
            split,
            next: position.unwrap_or(0),
            end: self.records,
        })
    }

    async fn notify(&self, _: CheckpointId, _: &[(SplitId, u64)]) -> Result<(), SourceError> {
        Ok(())
    }
}

#[async_trait]
impl SourceReader for GeneratorReader {
    type Record = Event;
    type Position = u64;

    async fn next(&mut self) -> Result<SourceEvent<Event, u64>, SourceError> {
        if self.next == self.end {
            return Ok(SourceEvent::End);
        }
        let from = self.next;
        self.next = self.end.min(from + BATCH);
        let records = (from..self.next).map(event).collect();
        let (split, position) = (self.split.clone(), self.next);
        Ok(SourceEvent::Batch(SourceBatch {
            split,
            records,
            position,
            skipped: 0,
        }))
    }
}

/// The pipeline. Returns the number of results, and of checkpoints.
fn by_cofferdam(records: u64, parallelism: u32, every: Option<Duration>) -> (u64, u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let event_time = EventTime::of(|event: &Event| Timestamp::from_millis(event.millis));
    let pipeline = Pipeline::new("tax")
        .source("generator", Generator { records }, event_time)
        .map(net)
        .key_by(|event| event.user)
        .window(Windows::tumbling(WINDOW))
        .aggregate("sums", sum(|event: &Event| event.cents))
        .discard();
    let folder = tempfile::tempdir().expect("a folder");
    let job = match every {
        None => pipeline
            .job(MemoryCheckpointStore::new())
            .checkpoint_interval(Duration::from_secs(3600)),
        Some(every) => {
            let store = DirectoryCheckpointStore::open(folder.path()).expect("a checkpoint store");
            pipeline.job(store).checkpoint_interval(every)
        }
    };
    let report = runtime
        .block_on(job.parallelism(parallelism).run())
        .expect("the job ends well");
    let checkpoints = report
        .progress
        .checkpoint
        .map_or(0, |checkpoint| checkpoint.0);
    (report.progress.count("sums", "windows"), checkpoints)
}

fn main() {
    let (records, runs) = (number("RECORDS", 10_000_000), number("RUNS", 5));
    assert_eq!(
        by_cofferdam(records, 1, None).0,
        by_hand(records),
        "the same results"
    );

    println!(
        "{records} records, {KEYS} keys, windows of {WINDOW:?}; medians of {runs} runs in turn"
    );
    for parallelism in [1, 2] {
        let (hand, ours) = in_turn(
            runs,
            || time(|| by_hand(records)),
            || time(|| by_cofferdam(records, parallelism, None)),
        );
        println!(
            "parallelism {parallelism}: by hand {:.1} M/s, cofferdam {:.1} M/s, ratio {:.2}",
            millions_per_second(records, hand),
            millions_per_second(records, ours),
            speed_ratio(hand, ours)
        );
    }
    // Long enough for many checkpoints, so that what is measured is not the start and the end of a job.
    let (records, every) = (10 * records, Duration::from_millis(100));
    let mut checkpoints = 0;
    let (without, with) = in_turn(
        runs,
        || time(|| by_cofferdam(records, 1, None)),
        || time(|| checkpoints = by_cofferdam(records, 1, Some(every)).1),
    );
    let cost = (with.as_secs_f64() / without.as_secs_f64() - 1.0) * 100.0;
    println!(
        "{records} records, checkpoints every {every:?} ({checkpoints} in the last run): \
         {without:.2?} to {with:.2?}, {cost:+.1} %"
    );
}
