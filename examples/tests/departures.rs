//! The main job as a user runs it: killed, started again, complete, and the same as a plain loop over the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use jiff::Timestamp;
use serde_json::{Value, json};

const HOUR: i64 = 3_600_000;

fn input() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/departures-2013-q1.csv.gz")
}

fn departures(output: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_departures"));
    command
        .arg("--input")
        .arg(input())
        .arg("--output")
        .arg(output)
        .args(more);
    command
}

fn end(mut command: Command) -> Output {
    let output = command.output().expect("departures starts");
    assert!(output.status.success(), "{output:?}");
    output
}

/// All lines of the files that a reader sees.
fn visible(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let files = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file());
    let texts = files.map(|path| fs::read_to_string(path).expect("a file"));
    let mut lines: Vec<String> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lines.sort();
    lines
}

/// The same windows by a plain loop: results, and the number of late flights.
fn by_hand() -> (Vec<Value>, usize) {
    let file = fs::File::open(input()).expect("the input");
    let mut rows = csv::Reader::from_reader(MultiGzDecoder::new(file));
    let mut windows: BTreeMap<(i64, String, String), Vec<Option<i64>>> = BTreeMap::new();
    let (mut newest, mut late) = (None, 0);
    for row in rows.records() {
        let row = row.expect("a row");
        let millis = |field: usize| {
            row[field]
                .parse::<Timestamp>()
                .ok()
                .map(Timestamp::as_millisecond)
        };
        let scheduled = millis(0).expect("a schedule");
        let start = scheduled - scheduled.rem_euclid(HOUR);
        // An hour of disorder, an hour of lateness.
        let watermark = newest.map(|newest: i64| newest - HOUR - 1);
        if watermark.is_some_and(|watermark| start + HOUR - 1 + HOUR <= watermark) {
            late += 1;
        } else {
            let delay = millis(1).map(|departed| (departed / 1000 - scheduled / 1000) / 60);
            windows
                .entry((start, row[5].to_owned(), row[2].to_owned()))
                .or_default()
                .push(delay);
        }
        newest = newest.max(Some(scheduled));
    }
    let result = |((start, origin, carrier), delays): ((i64, String, String), Vec<Option<i64>>)| {
        let left: Vec<i64> = delays.iter().flatten().copied().collect();
        let mean = (!left.is_empty()).then(|| left.iter().sum::<i64>() as f64 / left.len() as f64);
        json!({
            "hour": Timestamp::from_millisecond(start).expect("a time").to_string(),
            "origin": origin,
            "carrier": carrier,
            "flights": delays.len(),
            "cancelled": delays.len() - left.len(),
            "mean_delay_minutes": mean,
            "worst_delay_minutes": left.iter().max(),
        })
    };
    (windows.into_iter().map(result).collect(), late)
}

fn assert_same_as_by_hand(output: &Path) {
    let (mut expected, late) = by_hand();
    let lines = visible(&output.join("results"));
    let mut found: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let key = |value: &Value| {
        [
            value["hour"].to_string(),
            value["origin"].to_string(),
            value["carrier"].to_string(),
        ]
    };
    expected.sort_by_key(key);
    found.sort_by_key(key);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        // Both from text: reading a float may round its last bit.
        let expected: &Value = &serde_json::from_str(&expected.to_string()).expect("JSON");
        assert_eq!(found, expected);
    }
    assert_eq!(visible(&output.join("late")).len(), late);
}

#[test]
fn killed_again_and_again_it_ends_with_the_same_output_and_then_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path();
    for (kills, parallelism) in ["1", "4", "2"].iter().enumerate() {
        let slow = [
            "--rate",
            "40000",
            "--checkpoint-interval-ms",
            "20",
            "--parallelism",
            parallelism,
        ];
        let mut child = departures(output, &slow)
            .stderr(Stdio::null())
            .spawn()
            .expect("departures starts");
        // Killed once it has published something more: so each run gets somewhere.
        let deadline = Instant::now() + Duration::from_secs(60);
        let before = visible(&output.join("results")).len();
        while visible(&output.join("results")).len() == before {
            assert!(
                Instant::now() < deadline,
                "nothing was published before kill {kills}"
            );
            assert!(
                child.try_wait().expect("a child").is_none(),
                "it ended before kill {kills}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
    }
    let last = end(departures(output, &[]));
    assert!(
        String::from_utf8_lossy(&last.stdout).starts_with("complete"),
        "{last:?}"
    );
    assert_same_as_by_hand(output);

    let before = visible(&output.join("results"));
    let again = end(departures(output, &["--parallelism", "3"]));
    assert!(
        String::from_utf8_lossy(&again.stdout).starts_with("already complete"),
        "{again:?}"
    );
    assert_eq!(visible(&output.join("results")), before);
}

#[test]
fn the_example_of_a_custom_sink_writes_each_line_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_custom_sink"));
    command
        .arg("--input")
        .arg(input())
        .arg("--output")
        .arg(folder.path().join("journal"));
    let output = end(command);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("2643 cancelled flights") && text.contains("2643 of them different"),
        "{text}"
    );
}
