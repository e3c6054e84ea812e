//! The pipeline, wherever it reads and writes.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cofferdam::{
    DirectoryCheckpointStore, EventTime, Job, LateRecord, Pipeline, RestartStrategy, Source,
    StoreError, Timestamp, TwoPhaseCommitSinkFunction, WindowResult, Windows, count, max, mean,
    min, sum,
};
use serde::{Deserialize, Serialize};

use crate::options::{JobOptions, Variant};
use crate::slow::{SlowSource, SlowStore};

/// How far readings may be out of order.
const BOUND: Duration = Duration::from_secs(2);

/// A line of input.
#[derive(Debug, Deserialize)]
pub(crate) struct Reading {
    time: i64,
    sensor: String,
    value: i64,
    /// It stands for so many samples.
    samples: i64,
}

#[derive(Debug, Clone)]
struct Sample {
    time: i64,
    sensor: String,
    value: i64,
}

/// A result.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) sensor: String,
    start: i64,
    end: i64,
    count: u64,
    sum: i64,
    min: Option<i64>,
    max: Option<i64>,
    mean: Option<f64>,
}

/// A sample that came too late for all its windows.
#[derive(Debug, Serialize)]
pub(crate) struct LateRow {
    pub(crate) sensor: String,
    time: i64,
    value: i64,
}

type Statistics = (u64, i64, Option<i64>, Option<i64>, Option<f64>);

/// The job that the options ask for, from a source into a sink for results and one for late records.
pub(crate) fn job<S, R, L>(
    options: &JobOptions,
    source: S,
    results: R,
    late: L,
) -> Result<Job, StoreError>
where
    S: Source<Record = Reading>,
    R: TwoPhaseCommitSinkFunction<Input = Row>,
    L: TwoPhaseCommitSinkFunction<Input = LateRow>,
{
    let (windows, lateness) = match options.variant {
        Variant::Tumbling => (Windows::tumbling(Duration::from_secs(5)), 1000),
        Variant::Sliding => (
            Windows::sliding(Duration::from_secs(10), Duration::from_millis(2500)),
            1500,
        ),
    };
    let event_time = EventTime::of(|reading: &Reading| Timestamp::from_millis(reading.time))
        .out_of_order_by(BOUND);
    let statistics = (
        count(),
        sum(|sample: &Sample| sample.value),
        min(|sample: &Sample| Some(sample.value)),
        max(|sample: &Sample| Some(sample.value)),
        mean(value),
    );
    let source = SlowSource {
        inner: source,
        delay: Duration::from_millis(options.batch_delay),
    };
    let pipeline = Pipeline::new(&*options.job)
        .source("readings", source, event_time)
        .filter(|reading| reading.value >= 0)
        .flat_map(samples)
        .map(in_tenths)
        .key_by(|sample| sample.sensor.clone())
        .window(windows)
        .allowed_lateness(Duration::from_millis(lateness))
        .late_records("late", late_row, late)
        .aggregate("statistics", statistics)
        .map(row)
        .sink("results", results);
    let job = pipeline
        .job(store(options)?)
        .parallelism(options.parallelism)
        .checkpoint_interval(Duration::from_millis(options.interval))
        .retained_checkpoints(options.retained)
        .restart(RestartStrategy::FixedDelay {
            restarts: options.restarts,
            delay: Duration::from_millis(50),
        })
        .stop_on_ctrl_c();
    Ok(job)
}

fn store(options: &JobOptions) -> Result<SlowStore<DirectoryCheckpointStore>, StoreError> {
    Ok(SlowStore {
        inner: DirectoryCheckpointStore::open(&options.checkpoints)?,
        delay: Duration::from_millis(options.decision_delay),
        taken_over: AtomicBool::new(false),
    })
}

fn samples(reading: Reading) -> impl Iterator<Item = Sample> + Send {
    (0..reading.samples).map(move |number| Sample {
        time: reading.time,
        sensor: reading.sensor.clone(),
        value: reading.value + number,
    })
}

fn in_tenths(sample: Sample) -> Sample {
    Sample {
        value: sample.value * 10,
        ..sample
    }
}

#[expect(clippy::cast_precision_loss, reason = "values stay far below 2⁵³")]
fn value(sample: &Sample) -> Option<f64> {
    Some(sample.value as f64)
}

fn row(result: WindowResult<String, Statistics>) -> Row {
    let (count, sum, min, max, mean) = result.value;
    Row {
        sensor: result.key,
        start: result.start.as_millis(),
        end: result.end.as_millis(),
        count,
        sum,
        min,
        max,
        mean,
    }
}

fn late_row(late: LateRecord<String, Sample>) -> LateRow {
    LateRow {
        sensor: late.key,
        time: late.value.time,
        value: late.value.value,
    }
}
