//! What must come out: a plain loop over the readings, which shares no code with the library.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::data::{Files, Reading};

const BOUND: i64 = 2000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    Tumbling,
    Sliding,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Self::Tumbling => "tumbling",
            Self::Sliding => "sliding",
        }
    }

    /// Size, slide and allowed lateness.
    fn lengths(self) -> (i64, i64, i64) {
        match self {
            Self::Tumbling => (5000, 5000, 1000),
            Self::Sliding => (10_000, 2500, 1500),
        }
    }
}

/// A line of the results. Fields in the order in which they are written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    sensor: String,
    start: i64,
    end: i64,
    count: i32,
    sum: i64,
    min: i64,
    max: i64,
    mean: f64,
}

/// A line of the late records.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateRow {
    sensor: String,
    time: i64,
    value: i64,
}

/// Lines of results and late records, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    pub results: Vec<String>,
    pub late: Vec<String>,
}

impl Lines {
    /// These are the wanted ones, each as often as it is wanted.
    pub fn assert_equal(&self, wanted: &Self, what: &str) {
        assert_same(what, "results", &self.results, &wanted.results);
        assert_same(what, "late records", &self.late, &wanted.late);
    }

    /// These are some of the wanted ones: no line doubled, none made up.
    pub fn assert_within(&self, wanted: &Self, what: &str) {
        for (found, wanted) in [(&self.results, &wanted.results), (&self.late, &wanted.late)] {
            let wanted = counted(wanted);
            for (line, count) in counted(found) {
                let allowed = wanted.get(line).copied().unwrap_or(0);
                assert!(
                    count <= allowed,
                    "{what}: {count} times, for {allowed}: {line}"
                );
            }
        }
    }
}

pub fn expected(files: &Files, variant: Variant) -> Lines {
    let (size, slide, lateness) = variant.lengths();
    let mut windows: BTreeMap<(i64, &str), Vec<i64>> = BTreeMap::new();
    let mut late = Vec::new();
    for file in files {
        // The newest time in this file before the reading at hand.
        let mut newest: Option<i64> = None;
        for reading in file {
            let Reading {
                time,
                sensor,
                value,
                samples,
            } = reading;
            let watermark = newest.map(|newest| newest - BOUND - 1);
            newest = newest.max(Some(*time));
            if *value < 0 {
                continue;
            }
            let is_open = |start: i64| {
                watermark.is_none_or(|watermark| watermark < start + size - 1 + lateness)
            };
            let covering =
                (0..size / slide).map(|back| time - time.rem_euclid(slide) - back * slide);
            let open: Vec<i64> = covering.filter(|start| is_open(*start)).collect();
            for sample in 0..*samples {
                let value = (value + sample) * 10;
                for start in &open {
                    windows.entry((*start, sensor)).or_default().push(value);
                }
                if open.is_empty() {
                    let (sensor, time) = (sensor.clone(), *time);
                    late.push(line(&LateRow {
                        sensor,
                        time,
                        value,
                    }));
                }
            }
        }
    }
    let row = |((start, sensor), values): (&(i64, &str), &Vec<i64>)| {
        let sum = values.iter().sum::<i64>();
        let count = i32::try_from(values.len()).expect("few values");
        let exact = f64::from(i32::try_from(sum).expect("a small sum"));
        line(&Row {
            sensor: (*sensor).to_owned(),
            start: *start,
            end: start + size,
            count,
            sum,
            min: *values.iter().min().expect("a value"),
            max: *values.iter().max().expect("a value"),
            mean: exact / f64::from(count),
        })
    };
    let mut results: Vec<String> = windows.iter().map(row).collect();
    results.sort();
    late.sort();
    Lines { results, late }
}

fn line(row: &impl Serialize) -> String {
    serde_json::to_string(row).expect("a line")
}

fn counted(lines: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(line.as_str()).or_default() += 1;
    }
    counts
}

/// Compares as multisets; tells a few differences, not thousands of lines.
fn assert_same(what: &str, which: &str, found: &[String], wanted: &[String]) {
    if found == wanted {
        return;
    }
    let (found_counts, wanted_counts) = (counted(found), counted(wanted));
    let differ = |line: &&&str| found_counts.get(**line) != wanted_counts.get(**line);
    let all = found_counts.keys().chain(wanted_counts.keys());
    let some: Vec<_> = all.filter(differ).take(5).collect();
    panic!(
        "{what}: {} {which} instead of {}; these differ, and maybe more: {some:#?}",
        found.len(),
        wanted.len()
    );
}
