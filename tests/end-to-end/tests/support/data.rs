//! Input: several files of readings that are out of order, some hopelessly.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;

use super::random::Random;

#[derive(Debug, Clone)]
pub struct Reading {
    pub time: i64,
    pub sensor: String,
    pub value: i64,
    pub samples: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Csv,
    JsonLines,
}

/// Readings file by file, in the order of the files.
pub type Files = Vec<Vec<Reading>>;

/// Lines that the file source reads at once: positions in checkpoints are multiples of it.
const BATCH: usize = 1024;

pub const CSV_HEADER: &str = "time,sensor,value,samples\n";

/// Readings of so many files, with so many lines each, over the same time.
pub fn generate(seed: u64, lines: &[usize]) -> Files {
    let mut random = Random::new(seed);
    let longest = lines.iter().copied().max().unwrap_or(0);
    lines
        .iter()
        .map(|&lines| readings(&mut random, lines, longest))
        .collect()
}

fn readings(random: &mut Random, lines: usize, longest: usize) -> Vec<Reading> {
    let number = |number: u64| i64::try_from(number).expect("a small number");
    // About ten readings a second in the longest file.
    let span = number(longest as u64) * 100;
    let step = span / number(lines as u64).max(1);
    (0..lines)
        .map(|line| {
            let time = 1_700_000_000_000 + number(line as u64) * step;
            // Up to 2 s behind is in bounds.
            let mut behind = match random.below(100) {
                0..60 => random.below(300),
                60..97 => random.below(3000),
                _ => 4000 + random.below(40_000),
            };
            let mut value = number(random.below(1000)) - 50;
            // The first of a batch, and so of a run, is late by what was read in the run before.
            if line > 0 && line % BATCH == 0 {
                (behind, value) = (30_000, value.abs());
            }
            Reading {
                time: time - number(behind),
                sensor: format!("sensor-{:02}", random.below(12)),
                value,
                samples: number(random.below(4)),
            }
        })
        .collect()
}

pub fn csv_text(readings: &[Reading]) -> String {
    let mut writer = csv::Writer::from_writer(CSV_HEADER.as_bytes().to_vec());
    for reading in readings {
        let Reading {
            time,
            sensor,
            value,
            samples,
        } = reading;
        let fields = [
            time.to_string(),
            sensor.clone(),
            value.to_string(),
            samples.to_string(),
        ];
        writer.write_record(fields).expect("memory");
    }
    String::from_utf8(writer.into_inner().expect("memory")).expect("text")
}

pub fn json_text(readings: &[Reading]) -> String {
    let line = |reading: &Reading| {
        let Reading {
            time,
            sensor,
            value,
            samples,
        } = reading;
        let line = serde_json::json!({
            "time": time, "sensor": sensor, "value": value, "samples": samples,
        });
        format!("{line}\n")
    };
    readings.iter().map(line).collect()
}

pub fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

/// Writes the files, in turn plain, with gzip, and with zstd, and returns their paths.
pub fn write(folder: &Path, files: &Files, format: Format) -> Vec<PathBuf> {
    fs::create_dir_all(folder).expect("the input folder");
    let mut paths = Vec::new();
    for (number, readings) in files.iter().enumerate() {
        let (text, extension) = match format {
            Format::Csv => (csv_text(readings), "csv"),
            Format::JsonLines => (json_text(readings), "jsonl"),
        };
        let (bytes, suffix) = match number % 3 {
            0 => (text.into_bytes(), ""),
            1 => (gzip(&text), ".gz"),
            _ => (
                zstd::encode_all(text.as_bytes(), 1).expect("memory"),
                ".zst",
            ),
        };
        let path = folder.join(format!("{number}.{extension}{suffix}"));
        fs::write(&path, bytes).expect("an input file");
        paths.push(path);
    }
    paths
}
