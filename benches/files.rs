//! File to file: CSV in, JSON Lines out, against reading, parsing and writing the same bytes by hand with the same
//! libraries on one thread. Both sync their output to disk.
//!
//! `cargo bench -p cofferdam-benches --bench files`; `RECORDS` and `RUNS` may be set.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use cofferdam::{DirectoryCheckpointStore, NoEventTime, Pipeline};
use cofferdam_benches::{in_turn, millions_per_second, number, speed_ratio, time};
use cofferdam_object_store::{FileSource, StagedFileSink};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Sale {
    user: String,
    item: String,
    amount_cents: u64,
    ts: i64,
}

fn write_input(path: &Path, records: u64) {
    let mut out = BufWriter::new(File::create(path).expect("an input file"));
    writeln!(out, "user,item,amount_cents,ts").expect("written");
    for index in 0..records {
        let (user, item) = (index * 7919 % 10_000, index * 31 % 1000);
        writeln!(
            out,
            "u{user},i{item},{},{}",
            index * 13 % 10_000,
            1_700_000_000_000 + index
        )
        .expect("written");
    }
    out.flush().expect("written");
}

fn by_hand(input: &Path, output: &Path) {
    let mut reader = csv::ReaderBuilder::new()
        .buffer_capacity(256 << 10)
        .from_reader(File::open(input).expect("the input"));
    let headers = reader.headers().expect("headers").clone();
    let mut out =
        BufWriter::with_capacity(256 << 10, File::create(output).expect("an output file"));
    let mut row = csv::StringRecord::new();
    while reader.read_record(&mut row).expect("a row") {
        let sale: Sale = row.deserialize(Some(&headers)).expect("a sale");
        serde_json::to_writer(&mut out, &sale).expect("written");
        out.write_all(b"\n").expect("written");
    }
    out.into_inner()
        .expect("written")
        .sync_all()
        .expect("synced");
}

fn by_cofferdam(input: &Path, output: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let checkpoints = DirectoryCheckpointStore::open(output.join("checkpoints")).expect("a store");
    let job = Pipeline::new("files")
        .source("sales", FileSource::<Sale>::csv(input), NoEventTime)
        .sink("copy", StagedFileSink::json_lines(output.join("sales")))
        .job(checkpoints)
        .checkpoint_interval(Duration::from_secs(1));
    runtime.block_on(job.run()).expect("the job ends well");
}

fn main() {
    let (records, runs) = (number("RECORDS", 3_000_000), number("RUNS", 5));
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("input.csv");
    write_input(&input, records);
    let bytes = std::fs::metadata(&input).expect("the input").len();
    println!(
        "{records} records, {} MiB of CSV; medians of {runs} runs in turn",
        bytes >> 20
    );
    // Each run gets a folder of its own, removed outside the measured time.
    let fresh = || tempfile::tempdir_in(folder.path()).expect("a folder");
    let (hand, ours) = in_turn(
        runs,
        || {
            let output = fresh();
            time(|| by_hand(&input, &output.path().join("sales.jsonl")))
        },
        || {
            let output = fresh();
            time(|| by_cofferdam(&input, output.path()))
        },
    );
    println!(
        "by hand {:.2} M/s, cofferdam {:.2} M/s, ratio {:.2}",
        millions_per_second(records, hand),
        millions_per_second(records, ours),
        speed_ratio(hand, ours)
    );
}
