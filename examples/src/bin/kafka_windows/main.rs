//! From Kafka to Kafka, exactly once: orders in, revenue per shop and minute out.
//!
//! `--demo` shows it in one command: it starts a broker, fills the input, runs the job, and reads what came out as any
//! `read_committed` consumer would. To kill the job with `kill -9`, and see the next run go on, the broker has to outlive
//! it: start one in another terminal with `cargo run -p cofferdam-services -- kafka --port 9092`, then `--prepare`, run,
//! kill, run again, and look with `--summary`.

mod connection;
mod demo;

use std::convert::Infallible;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use cofferdam::{
    CheckpointStore, DirectoryCheckpointStore, EventTime, Job, JobEnd, JobHandle, JobReport,
    MemoryCheckpointStore, Pipeline, Timestamp, TransactionId, WindowResult, Windows, count, sum,
};
use cofferdam_kafka::{KafkaConnection, KafkaSink, KafkaSource};
use serde::{Deserialize, Serialize};

const MINUTE: Duration = Duration::from_secs(60);

/// How much older than the newest one of its partition an order may be.
const DISORDER: Duration = Duration::from_secs(5);

/// Revenue per shop and minute, from topic to topic, exactly once: kill it, start it again, get the same output.
#[derive(Debug, Parser)]
struct Options {
    /// Start a broker, fill the input, run the job and show its output; then all of it is gone.
    #[arg(long, conflicts_with_all = ["bootstrap", "prepare", "summary"])]
    demo: bool,
    /// Make the topics on a cluster without security, fill the input with orders, and end.
    #[arg(long, conflicts_with_all = ["summary", "tls", "ca_file", "sasl_mechanism"])]
    prepare: bool,
    /// Read both topics, compare them, and end.
    #[arg(long)]
    summary: bool,
    /// How many orders --demo and --prepare make.
    #[arg(long, default_value_t = 200_000)]
    orders: u32,
    /// Addresses of brokers, separated by commas.
    #[arg(long, default_value = "127.0.0.1:9092")]
    bootstrap: String,
    #[command(flatten)]
    security: connection::Security,
    /// The topic to read.
    #[arg(long, default_value = "orders")]
    input: String,
    /// The topic to write.
    #[arg(long, default_value = "revenue")]
    output: String,
    /// Show the job's positions as the offsets of this group.
    #[arg(long)]
    group: Option<String>,
    /// Read what there is at the first start, close all windows, and end. Otherwise it waits for more until Ctrl-C.
    #[arg(long)]
    bounded: bool,
    /// Parallel subtasks; may change from start to start.
    #[arg(long, default_value_t = 2)]
    parallelism: u32,
    /// Milliseconds from checkpoint to checkpoint.
    #[arg(long, default_value_t = 500)]
    checkpoint_interval_ms: u64,
    /// Folder for checkpoints.
    #[arg(long, default_value = "output/kafka_windows")]
    checkpoints: PathBuf,
    /// Go on without the records of this transaction, which an earlier run has reported as lost.
    #[arg(long)]
    accept_loss: Vec<TransactionId>,
    /// Show what happens inside, phase by phase.
    #[arg(long, short)]
    verbose: bool,
}

/// A record of the input.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    /// When it was placed, in milliseconds since 1970: the event time.
    millis: i64,
    shop: String,
    cents: u64,
}

/// A record of the output.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Revenue {
    /// The start of the minute, in milliseconds since 1970.
    minute: i64,
    shop: String,
    orders: u64,
    cents: u64,
}

/// The pipeline: from orders to revenue per shop and minute.
fn pipeline(options: &Options, kafka: &KafkaConnection) -> Pipeline {
    // A partition without orders does not hold back the windows of the others for long.
    let mut orders = KafkaSource::json::<Order>(kafka, [&*options.input]).idle_after(DISORDER);
    if options.bounded || options.demo {
        orders = orders.bounded();
    }
    if let Some(group) = &options.group {
        orders = orders.group(&**group);
    }
    let revenue = KafkaSink::json(kafka, &*options.output)
        .key(|revenue: &Revenue, key| key.extend_from_slice(revenue.shop.as_bytes()));
    let placed = EventTime::of(|order: &Order| Timestamp::from_millis(order.millis));
    Pipeline::new("kafka-windows")
        .source("orders", orders, placed.out_of_order_by(DISORDER))
        .key_by(|order| order.shop.clone())
        .window(Windows::tumbling(MINUTE))
        .aggregate("per-minute", (count(), sum(|order: &Order| order.cents)))
        .map(revenue_of)
        .sink("revenue", revenue)
}

fn revenue_of(result: WindowResult<String, (u64, u64)>) -> Revenue {
    let (orders, cents) = result.value;
    Revenue {
        minute: result.start.as_millis(),
        shop: result.key,
        orders,
        cents,
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let level = if options.verbose {
        "cofferdam=debug,cofferdam_kafka=debug"
    } else {
        "cofferdam=warn,cofferdam_kafka=warn"
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

async fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    if options.demo {
        let broker = demo::start_broker().await?;
        let kafka = KafkaConnection::new(broker.bootstrap());
        demo::prepare(options, &kafka, &broker.bootstrap()).await?;
        run_job(options, &kafka, MemoryCheckpointStore::new()).await?;
        return demo::summary(options, &kafka).await;
    }
    let kafka = options.security.connection(&options.bootstrap)?;
    if options.prepare {
        return demo::prepare(options, &kafka, &options.bootstrap).await;
    }
    if options.summary {
        return demo::summary(options, &kafka).await;
    }
    let checkpoints = DirectoryCheckpointStore::open(&options.checkpoints)?;
    run_job(options, &kafka, checkpoints).await
}

async fn run_job(
    options: &Options,
    kafka: &KafkaConnection,
    checkpoints: impl CheckpointStore,
) -> Result<(), Box<dyn Error>> {
    let job = pipeline(options, kafka)
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
    tell(&report, started.elapsed());
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
            "{:>7} orders read, {:>5} windows closed, {:>3} late; checkpoint {checkpoint}",
            progress.count("orders", "records"),
            progress.count("per-minute", "windows"),
            progress.count("per-minute", "late"),
        );
    }
}

fn tell(JobReport { end, progress, .. }: &JobReport, took: Duration) {
    match end {
        JobEnd::Completed => println!("complete, in {took:.1?}"),
        JobEnd::AlreadyComplete => println!("already complete: nothing was read or written"),
        JobEnd::Stopped => println!("stopped after a last checkpoint; start it again to go on"),
        JobEnd::Left => {
            println!("left at once; start it again to go on from the newest checkpoint");
        }
    }
    for (what, count) in [
        ("orders read", progress.count("orders", "records")),
        ("windows written", progress.count("revenue", "records")),
        ("late orders", progress.count("per-minute", "late")),
        ("checkpoints", progress.checkpoint.unwrap_or_default().0),
        ("run of this job", progress.epoch.0),
    ] {
        println!("  {what:<16} {count:>8}");
    }
}
