//! The command lines of the victims.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use cofferdam::TransactionId;

use crate::crash::CrashPoint;

/// How the input is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated values.
    Csv,
    /// One JSON value a line.
    Jsonl,
}

/// Which windows are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Variant {
    /// 5 s, one after another; 1 s of allowed lateness.
    Tumbling,
    /// 10 s, a new one each 2.5 s; 1.5 s of allowed lateness.
    Sliding,
}

/// What can be said of the job wherever it reads and writes.
#[derive(Debug, Clone, Args)]
pub struct JobOptions {
    /// The folder of the checkpoints.
    #[arg(long)]
    pub checkpoints: PathBuf,
    /// The job's name.
    #[arg(long, default_value = "readings")]
    pub job: String,
    /// Which windows are computed.
    #[arg(long, value_enum, default_value = "tumbling")]
    pub variant: Variant,
    /// Subtasks of each part of the pipeline.
    #[arg(long, default_value_t = 1)]
    pub parallelism: u32,
    /// Milliseconds between checkpoints.
    #[arg(long, default_value_t = 20)]
    pub interval: u64,
    /// How many decided checkpoints are kept.
    #[arg(long, default_value_t = 3)]
    pub retained: usize,
    /// How often in a row the process starts the job again after a failure that may pass.
    #[arg(long, default_value_t = 2)]
    pub restarts: u32,
    /// Milliseconds to wait before each batch of input.
    #[arg(long, default_value_t = 0)]
    pub batch_delay: u64,
    /// Milliseconds to wait before each decision is written.
    #[arg(long, default_value_t = 0)]
    pub decision_delay: u64,
    /// Aborts the process at the n-th opening or closing of a span: `<before|after>:<span>:<n>`.
    #[arg(long)]
    pub crash_at: Option<CrashPoint>,
    /// Appends a line to this file at each opening and closing of a span.
    #[arg(long)]
    pub trace: Option<PathBuf>,
}

/// Counts, adds up and compares readings of sensors by windows of event time, from files into files.
#[derive(Debug, Clone, Parser)]
pub struct FileOptions {
    /// What goes for all jobs.
    #[command(flatten)]
    pub job: JobOptions,
    /// A file or folder to read; may be given several times.
    #[arg(long, required = true)]
    pub input: Vec<PathBuf>,
    /// How the input is written.
    #[arg(long, value_enum, default_value = "csv")]
    pub format: Format,
    /// The folder of the results' folder `results` and the late records' folder `late`.
    #[arg(long)]
    pub output: PathBuf,
    /// Leaves out what can't be read as a record.
    #[arg(long)]
    pub skip_malformed: bool,
}

/// Counts, adds up and compares readings of sensors by windows of event time, from the topic `<job>.input` into the topics
/// `<job>.results` and `<job>.late`.
#[derive(Debug, Clone, Parser)]
pub struct KafkaOptions {
    /// What goes for all jobs.
    #[command(flatten)]
    pub job: JobOptions,
    /// The brokers to connect to first.
    #[arg(long)]
    pub brokers: String,
    /// Milliseconds for which the brokers keep a transaction.
    #[arg(long)]
    pub transaction_timeout: Option<u64>,
    /// Milliseconds that the votes of a checkpoint may take.
    #[arg(long)]
    pub checkpoint_timeout: Option<u64>,
    /// How many checkpoints in a row may be dropped.
    #[arg(long)]
    pub tolerable_failures: Option<u32>,
    /// A transaction whose loss is accepted; may be given several times.
    #[arg(long)]
    pub accept_loss: Vec<TransactionId>,
}
