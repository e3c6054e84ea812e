//! How late do flights leave? Hourly windows per airport and airline over 80,000 real departures, exactly once.
//!
//! Event time is the *scheduled* departure, while flights stand in the file in the order in which they really left: so
//! delayed flights come late. A window waits for an hour of disorder and an hour of lateness; what comes later still
//! goes to a sink of its own.
//!
//! Kill it (`--rate 20000` gives you time), start it again, and compare: the output is the same as that of a run that
//! was never killed.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use cofferdam::{
    CheckpointId, DirectoryCheckpointStore, EventTime, Job, JobEnd, JobHandle, LateRecord,
    Pipeline, Progress, Source, SourceError, SourceEvent, SourceReader, SplitId, TransactionId,
    WindowResult, Windows, async_trait, count, fold, max, mean,
};
use cofferdam_object_store::{FileSource, OnMalformed, StagedFileSink};
use serde::{Deserialize, Serialize};

const HOUR: Duration = Duration::from_secs(3600);

/// Hourly delays of departures per airport and airline, exactly once: kill it, start it again, get the same output.
#[derive(Debug, Parser)]
struct Options {
    /// CSV file or folder of files with departures; plain, gzip or zstd.
    #[arg(long, default_value = "examples/data/departures-2013-q1.csv.gz")]
    input: PathBuf,
    /// Folder for results/, late/ and checkpoints/.
    #[arg(long, default_value = "output/departures")]
    output: PathBuf,
    /// Parallel subtasks; may change from start to start.
    #[arg(long, default_value_t = 2)]
    parallelism: u32,
    /// Milliseconds from checkpoint to checkpoint.
    #[arg(long, default_value_t = 200)]
    checkpoint_interval_ms: u64,
    /// Read at most so many flights a second, so that there is time to kill it. 0: as fast as it goes.
    #[arg(long, default_value_t = 0)]
    rate: u32,
    /// Count rows that can't be read, and go on, instead of stopping at the first.
    #[arg(long)]
    skip_malformed: bool,
    /// Go on without the records of this transaction, which an earlier run has reported as lost.
    #[arg(long)]
    accept_loss: Vec<TransactionId>,
    /// Show what happens inside, phase by phase.
    #[arg(long, short)]
    verbose: bool,
}

/// A row of the input.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Flight {
    scheduled: jiff::Timestamp,
    departed: Option<jiff::Timestamp>,
    carrier: String,
    flight: u32,
    origin: String,
    destination: String,
}

impl Flight {
    /// Minutes between schedule and departure, negative if it left early; `None` if it was cancelled.
    fn delay_minutes(&self) -> Option<i64> {
        Some((self.departed?.as_second() - self.scheduled.as_second()) / 60)
    }
}

/// A line of the results.
#[derive(Debug, Serialize)]
struct HourlyDelay {
    hour: jiff::Timestamp,
    origin: String,
    carrier: String,
    flights: u64,
    cancelled: u64,
    mean_delay_minutes: Option<f64>,
    worst_delay_minutes: Option<i64>,
}

type Key = (String, String);
type Delays = (u64, u64, Option<f64>, Option<i64>);

/// The pipeline: from departures to hourly delays, with a way out for late flights.
fn pipeline(options: &Options) -> Pipeline {
    let malformed = if options.skip_malformed {
        OnMalformed::Skip
    } else {
        OnMalformed::Fail
    };
    let flights = FileSource::<Flight>::csv(options.input.as_path()).on_malformed(malformed);
    let scheduled =
        |flight: &Flight| cofferdam::Timestamp::from_millis(flight.scheduled.as_millisecond());
    let delays = (
        count(),
        fold(0, |cancelled: &mut u64, flight: &Flight| {
            *cancelled += u64::from(flight.departed.is_none());
        }),
        mean(|flight: &Flight| flight.delay_minutes().map(|minutes| minutes as f64)),
        max(Flight::delay_minutes),
    );
    Pipeline::new("departures")
        .source(
            "flights",
            Throttled::new(flights, options.rate),
            EventTime::of(scheduled).out_of_order_by(HOUR),
        )
        .key_by(|flight| (flight.origin.clone(), flight.carrier.clone()))
        .window(Windows::tumbling(HOUR))
        .late_records(
            "late",
            |late: LateRecord<Key, Flight>| late.value,
            StagedFileSink::json_lines(options.output.join("late")),
        )
        .allowed_lateness(HOUR)
        .aggregate("hourly", delays)
        .map(hourly_delay)
        .sink(
            "results",
            StagedFileSink::json_lines(options.output.join("results")),
        )
}

fn hourly_delay(result: WindowResult<Key, Delays>) -> HourlyDelay {
    let (origin, carrier) = result.key;
    let (flights, cancelled, mean_delay_minutes, worst_delay_minutes) = result.value;
    // A window's start lies within what a timestamp can show, as it was one of the input.
    let hour = jiff::Timestamp::from_millisecond(result.start.as_millis()).unwrap_or_default();
    HourlyDelay {
        hour,
        origin,
        carrier,
        flights,
        cancelled,
        mean_delay_minutes,
        worst_delay_minutes,
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let level = if options.verbose {
        "cofferdam=debug"
    } else {
        "cofferdam=warn"
    };
    tracing_subscriber::fmt()
        .with_env_filter(level)
        .with_writer(std::io::stderr)
        .init();
    match run(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  caused by: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let checkpoints = DirectoryCheckpointStore::open(options.output.join("checkpoints"))?;
    let job = pipeline(options)
        .job(checkpoints)
        .parallelism(options.parallelism)
        .checkpoint_interval(Duration::from_millis(options.checkpoint_interval_ms))
        .stop_on_ctrl_c();
    let job = options
        .accept_loss
        .iter()
        .cloned()
        .fold(job, Job::accept_loss);
    let handle = job.handle();
    let started = Instant::now();
    let report = tokio::select! {
        report = job.run() => report?,
        never = show_progress(handle) => match never {},
    };
    summary(
        report.end,
        &report.progress,
        started.elapsed(),
        &options.output,
    )?;
    Ok(())
}

/// Shows where the job stands, for as long as it is waited for.
async fn show_progress(handle: JobHandle) -> Infallible {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let progress = handle.progress();
        let checkpoint = progress
            .checkpoint
            .map_or("none yet".to_owned(), |id| id.to_string());
        eprintln!(
            "{:>7} flights read, {:>6} windows closed, {:>5} late; checkpoint {checkpoint}",
            progress.count("flights", "records"),
            progress.count("hourly", "windows"),
            progress.count("hourly", "late"),
        );
    }
}

fn summary(
    end: JobEnd,
    progress: &Progress,
    took: Duration,
    output: &Path,
) -> Result<(), std::io::Error> {
    match end {
        JobEnd::Completed => println!("complete, in {took:.1?}"),
        JobEnd::AlreadyComplete => println!("already complete: nothing was read or written"),
        JobEnd::Stopped => println!("stopped after a last checkpoint; start it again to go on"),
        JobEnd::Left => {
            println!("left at once; start it again to go on from the newest checkpoint");
        }
    }
    let results = output.join("results");
    for (what, count) in [
        ("flights read", progress.count("flights", "records")),
        ("rows skipped", progress.count("flights", "skipped")),
        ("windows written", progress.count("results", "records")),
        ("late flights", progress.count("late", "records")),
        ("checkpoints", progress.checkpoint.unwrap_or_default().0),
        ("run of this job", progress.epoch.0),
        ("result files", count_files(&results)?),
    ] {
        println!("  {what:<16} {count:>8}");
    }
    println!(
        "results: {}, late flights: {}",
        results.display(),
        output.join("late").display()
    );
    Ok(())
}

/// Files that a reader sees: staged ones lie in a folder whose name begins with an underscore.
fn count_files(folder: &Path) -> Result<u64, std::io::Error> {
    if !folder.exists() {
        return Ok(0);
    }
    let mut files = 0;
    for entry in std::fs::read_dir(folder)? {
        files += u64::from(entry?.file_type()?.is_file());
    }
    Ok(files)
}

/// A source that is read at a limited rate: a wrapper, as any source can have one.
#[derive(Debug)]
struct Throttled<S> {
    inner: S,
    rate: u32,
}

impl<S> Throttled<S> {
    fn new(inner: S, rate: u32) -> Self {
        Self { inner, rate }
    }
}

struct ThrottledReader<R> {
    inner: R,
    rate: u32,
    next: tokio::time::Instant,
}

#[async_trait]
impl<S: Source> Source for Throttled<S> {
    type Record = S::Record;
    type Position = S::Position;
    type Reader = ThrottledReader<S::Reader>;

    async fn splits(&self, known: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        self.inner.splits(known).await
    }

    async fn open(
        &self,
        splits: Vec<(SplitId, Option<S::Position>)>,
    ) -> Result<Self::Reader, SourceError> {
        let inner = self.inner.open(splits).await?;
        Ok(ThrottledReader {
            inner,
            rate: self.rate,
            next: tokio::time::Instant::now(),
        })
    }

    async fn notify(
        &self,
        checkpoint: CheckpointId,
        positions: &[(SplitId, S::Position)],
    ) -> Result<(), SourceError> {
        self.inner.notify(checkpoint, positions).await
    }
}

#[async_trait]
impl<R: SourceReader> SourceReader for ThrottledReader<R> {
    type Record = R::Record;
    type Position = R::Position;

    async fn next(&mut self) -> Result<SourceEvent<R::Record, R::Position>, SourceError> {
        // Waiting comes first, and taking last: a future that is dropped here has taken nothing.
        tokio::time::sleep_until(self.next).await;
        let event = self.inner.next().await?;
        if let SourceEvent::Batch(batch) = &event
            && self.rate > 0
        {
            let worth = f64::from(u32::try_from(batch.records.len()).unwrap_or(u32::MAX));
            let pause = Duration::from_secs_f64(worth / f64::from(self.rate));
            self.next = self.next.max(tokio::time::Instant::now()) + pause;
        }
        Ok(event)
    }
}
