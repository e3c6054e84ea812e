//! An exactly-once sink into SQLite, from the first line to the last, and a job that dies twice on its way into it.
//!
//! Rows wait in a table of their own, under the name of their transaction. A commit moves them into the table that
//! readers read, and notes that it did, in *one* transaction of SQLite: so there is no moment at which one is true and
//! the other is not. The sink stands in `sink.rs`; in `conformance.rs` the suite crashes it at every step.

#![allow(clippy::doc_markdown, reason = "SQLite is a name, not code")]

#[cfg(test)]
mod conformance;
mod sink;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fs, process};

use clap::Parser;
use cofferdam::{DirectoryCheckpointStore, EventTime, Pipeline, Timestamp};
use cofferdam_object_store::FileSource;
use rusqlite::Connection;
use rusqlite::types::Value;
use serde::{Deserialize, Serialize};

use self::sink::{SqliteSink, TableRow};

/// A departure; it was cancelled if it never departed.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Flight {
    scheduled: jiff::Timestamp,
    departed: Option<jiff::Timestamp>,
    carrier: String,
    flight: i64,
    origin: String,
    destination: String,
}

impl TableRow for Flight {
    const TABLE: &'static str = "cancelled";
    const COLUMNS: &'static str =
        "scheduled TEXT NOT NULL, carrier TEXT NOT NULL CHECK (carrier <> ''),
        flight INTEGER NOT NULL, origin TEXT NOT NULL, destination TEXT NOT NULL";

    fn values(&self) -> Vec<Value> {
        vec![
            self.scheduled.to_string().into(),
            self.carrier.clone().into(),
            self.flight.into(),
            self.origin.clone().into(),
            self.destination.clone().into(),
        ]
    }
}

/// Emptied at each start, so it is not for the user to name.
const FOLDER: &str = "output/sqlite";

/// Cancelled flights of a quarter, into a table of SQLite: the job dies twice on the way, and each flight is there once.
#[derive(Debug, Parser)]
struct Options {
    /// CSV file or folder of files with departures; plain, gzip or zstd.
    #[arg(long, default_value = "examples/data/departures-2013-q1.csv.gz")]
    input: PathBuf,
    /// Only run the job, on what is there, and die after so many departures, as if by `kill -9`.
    #[arg(long)]
    die_after: Option<u64>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if options.die_after.is_some() {
        return run(&options).await;
    }
    if Path::new(FOLDER).exists() {
        fs::remove_dir_all(FOLDER)?;
    }
    fs::create_dir_all(FOLDER)?;
    for die_after in ["30000", "35000"] {
        let mut child = process::Command::new(std::env::current_exe()?);
        child.args(["--die-after", die_after, "--input"]);
        let status = child.arg(&options.input).status()?;
        println!("a run ended with {status}, and left this:");
        count()?;
    }
    run(&options).await?;
    println!("the last run came to the end of the input:");
    count()
}

async fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let flights = FileSource::<Flight>::csv(options.input.as_path());
    let time = |flight: &Flight| Timestamp::from_millis(flight.scheduled.as_millisecond());
    let cancelled = SqliteSink::open(Path::new(FOLDER).join("flights.db"))?;
    let checkpoints = DirectoryCheckpointStore::open(Path::new(FOLDER).join("checkpoints"))?;
    let (seen, die_after) = (Arc::new(AtomicU64::new(0)), options.die_after);
    Pipeline::new("flights")
        .source("departures", flights, EventTime::of(time))
        .filter(move |flight| {
            if Some(seen.fetch_add(1, Ordering::Relaxed)) == die_after {
                process::abort();
            }
            flight.departed.is_none()
        })
        .sink("cancelled", cancelled)
        .job(checkpoints)
        .checkpoint_interval(Duration::from_millis(10))
        .run()
        .await?;
    Ok(())
}

/// Plain SQL, as any reader of the database would write it.
fn count() -> Result<(), Box<dyn Error>> {
    let database = Connection::open(Path::new(FOLDER).join("flights.db"))?;
    for (what, sql) in [
        ("cancelled flights", "SELECT count(*) FROM cancelled"),
        (
            "… all different",
            "SELECT count(DISTINCT scheduled || carrier || flight) FROM cancelled",
        ),
        ("staged flights", "SELECT count(*) FROM staged_cancelled"),
        (
            "commits",
            "SELECT count(*) FROM cofferdam_transactions WHERE state = 'committed'",
        ),
    ] {
        let count: u64 = database.query_row(sql, [], |row| row.get(0))?;
        println!("  {what:<17} {count:>6}");
    }
    Ok(())
}
