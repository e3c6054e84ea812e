//! A sink for a system that Cofferdam has never heard of: a journal.
//!
//! A journal is one text file to which blocks of lines are appended. A block ends with a line that names the transaction
//! which wrote it; what stands below the last end line is unfinished, and readers leave it out. That end line is all
//! it takes: it makes a block visible at one instant, and it is the *evidence* by which a second commit sees that the
//! first one worked.
//!
//! The program writes the cancelled flights of three months into such a journal, crashes twice on the way, continues, and
//! then reads the journal: each cancelled flight stands in it once.
//!
//! The journal is in `journal.rs`, and the sink, a [`StagingStore`](cofferdam::StagingStore), in `sink.rs`; in
//! `conformance.rs` the suite crashes it at every step.

#[cfg(test)]
mod conformance;
mod journal;
mod sink;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use cofferdam::{DirectoryCheckpointStore, JobEnd, NoEventTime, Pipeline, StagedSink};
use cofferdam_object_store::FileSource;
use serde::Deserialize;

use self::journal::{END, Journal};

/// Writes cancelled flights into a journal through a sink of its own, crashing twice on the way.
#[derive(Debug, Parser)]
struct Options {
    /// CSV file with departures.
    #[arg(long, default_value = "examples/data/departures-2013-q1.csv.gz")]
    input: PathBuf,
    /// Folder for the journal and its checkpoints; begun anew.
    #[arg(long, default_value = "output/custom_sink")]
    output: PathBuf,
}

/// What the example needs of a row.
#[derive(Debug, Deserialize)]
struct Flight {
    scheduled: String,
    departed: Option<String>,
    carrier: String,
    flight: u32,
    origin: String,
}

fn pipeline(options: &Options, journal: &Journal) -> Pipeline {
    Pipeline::new("cancelled-flights")
        .source(
            "flights",
            FileSource::<Flight>::csv(options.input.as_path()),
            NoEventTime,
        )
        .filter(|flight| flight.departed.is_none())
        .map(|flight| {
            format!(
                "{} {}{} from {}",
                flight.scheduled, flight.carrier, flight.flight, flight.origin
            )
        })
        .sink("journal", StagedSink::new(journal.clone()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    if options.output.exists() {
        fs::remove_dir_all(&options.output)?;
    }
    let journal = Journal::open(&options.output)?;
    let checkpoints = options.output.join("checkpoints");
    for run in 1.. {
        let job = pipeline(&options, &journal)
            .job(DirectoryCheckpointStore::open(&checkpoints)?)
            .checkpoint_interval(Duration::from_millis(3));
        let mut handle = job.handle();
        // The first two runs are cut off once they have decided a checkpoint: nobody cleans up after them.
        let two_more_checkpoints = async {
            for _ in 0..3 {
                handle.changed().await;
            }
        };
        let report = tokio::select! {
            report = job.run() => report?,
            () = two_more_checkpoints, if run <= 2 => {
                println!("run {run}: crashed after checkpoint {:?}", handle.progress().checkpoint);
                continue;
            }
        };
        println!(
            "run {run}: {:?}, {} lines",
            report.end,
            report.progress.count("journal", "records")
        );
        if report.end == JobEnd::Completed {
            break;
        }
    }

    let text = journal.finished()?;
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(END)).collect();
    let total = lines.len();
    lines.sort_unstable();
    lines.dedup();
    println!(
        "{total} cancelled flights in {}, {} of them different",
        options.output.display(),
        lines.len()
    );
    Ok(())
}
