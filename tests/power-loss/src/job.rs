//! The job: counts and sums of readings by sensor and second, into files.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cofferdam::{
    DirectoryCheckpointStore, EventTime, Job, Pipeline, RestartStrategy, StoreError, Timestamp,
    WindowResult, Windows, count, sum,
};
use cofferdam_object_store::StagedFileSink;
use serde::Serialize;

use crate::source::{BATCH, BATCHES, Pace, Reading, Readings, SPLITS};
use crate::witness::{Witness, WitnessedSink, WitnessedStore};

/// Where checkpoints are kept, in the folder of the job. A run begins with nothing but that.
pub const CHECKPOINTS: &str = "checkpoints";
/// Where results are written, in the folder of the job.
pub const RESULTS: &str = "output/results";

const SECOND: i64 = 1000;

#[derive(Debug, Serialize)]
struct Row {
    sensor: usize,
    start: i64,
    count: u64,
    sum: i64,
    /// Lets a file have a few blocks.
    unit: &'static str,
}

impl Row {
    fn new(sensor: usize, start: i64, (count, sum): (u64, i64)) -> Self {
        Self {
            sensor,
            start,
            count,
            sum,
            unit: "thousandths of a degree above absolute zero",
        }
    }
}

/// The job, in a folder.
///
/// # Errors
/// If the checkpoint store can't be opened.
pub fn job(folder: &Path, pace: Pace, witness: Witness) -> Result<Job, StoreError> {
    let store = WitnessedStore {
        inner: DirectoryCheckpointStore::open(folder.join(CHECKPOINTS))?,
        witness: witness.clone(),
    };
    let sink = WitnessedSink {
        inner: StagedFileSink::json_lines(folder.join(RESULTS)),
        witness,
    };
    let event_time = EventTime::of(|reading: &Reading| Timestamp::from_millis(reading.time));
    let statistics = (count(), sum(|reading: &Reading| reading.value));
    let job = Pipeline::new("readings")
        .source("readings", Readings::new(pace), event_time)
        .key_by(|reading| reading.sensor)
        .window(Windows::tumbling(Duration::from_secs(1)))
        .aggregate("statistics", statistics)
        .map(|result: WindowResult<usize, (u64, i64)>| {
            Row::new(result.key, result.start.as_millis(), result.value)
        })
        .sink("results", sink)
        .job(store)
        .parallelism(2)
        .shards(4)
        .checkpoint_interval(pace.checkpoint_interval())
        .retained_checkpoints(1)
        .restart(RestartStrategy::Never);
    Ok(job)
}

/// All lines that the job has to write, sorted.
pub fn expected() -> Vec<String> {
    let mut windows: BTreeMap<(usize, i64), (u64, i64)> = BTreeMap::new();
    for split in 0..SPLITS {
        for position in 0..BATCHES * BATCH {
            let reading = Reading::of(split, position);
            let start = reading.time / SECOND * SECOND;
            let (count, sum) = windows.entry((reading.sensor, start)).or_default();
            (*count, *sum) = (*count + 1, *sum + reading.value);
        }
    }
    let text = |((sensor, start), value)| {
        serde_json::to_string(&Row::new(sensor, start, value)).expect("a plain struct")
    };
    let mut lines: Vec<String> = windows.into_iter().map(text).collect();
    lines.sort_unstable();
    lines
}
