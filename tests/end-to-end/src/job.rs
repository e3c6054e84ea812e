//! The pipeline.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cofferdam::{
    DirectoryCheckpointStore, EventTime, Job, LateRecord, Pipeline, RestartStrategy, StoreError,
    Timestamp, WindowResult, Windows, count, max, mean, min, sum,
};
use cofferdam_object_store::{FileSource, OnMalformed, StagedFileSink};
use serde::{Deserialize, Serialize};

use crate::options::{Format, Options, Variant};
use crate::slow::{SlowSource, SlowStore};

/// How far readings may be out of order.
const BOUND: Duration = Duration::from_secs(2);

#[derive(Debug, Deserialize)]
struct Reading {
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

#[derive(Debug, Serialize)]
struct Row {
    sensor: String,
    start: i64,
    end: i64,
    count: u64,
    sum: i64,
    min: Option<i64>,
    max: Option<i64>,
    mean: Option<f64>,
}

#[derive(Debug, Serialize)]
struct LateRow {
    sensor: String,
    time: i64,
    value: i64,
}

type Statistics = (u64, i64, Option<i64>, Option<i64>, Option<f64>);

/// The job that the options ask for.
///
/// # Errors
/// If the checkpoint store can't be opened.
pub fn job(options: &Options) -> Result<Job, StoreError> {
    let Options {
        output, variant, ..
    } = options;
    let (windows, lateness) = match variant {
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
    let late = StagedFileSink::json_lines(output.join("late"));
    let results = StagedFileSink::json_lines(output.join("results"));
    let pipeline = Pipeline::new(&*options.job)
        .source("readings", source(options), event_time)
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

fn source(options: &Options) -> SlowSource<FileSource<Reading>> {
    let paths = options.input.clone();
    let source = match options.format {
        Format::Csv => FileSource::csv(paths),
        Format::Jsonl => FileSource::json_lines(paths),
    };
    let on_malformed = match options.skip_malformed {
        true => OnMalformed::Skip,
        false => OnMalformed::Fail,
    };
    SlowSource {
        inner: source.on_malformed(on_malformed),
        delay: Duration::from_millis(options.batch_delay),
    }
}

fn store(options: &Options) -> Result<SlowStore<DirectoryCheckpointStore>, StoreError> {
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
