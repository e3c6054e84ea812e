//! What must come out: by a plain loop over the input, split by split.

use std::collections::{BTreeMap, BTreeSet};

use crate::input::{Cut, LARGE, Record, Row, Rows, records};
use crate::pipeline::{Contents, number, take};
use crate::schedule::Shape;

/// What is wrong with the records of a plain pipeline as a reader sees them: of each split the first ones must be there,
/// in order, or all of them if the job is done.
#[must_use]
pub fn plain(rows: &Rows, visible: &[u64], done: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for id in visible {
        seen.entry(id / 10_000).or_default().push(*id);
    }
    for split in rows {
        let ids: Vec<u64> = records(split).map(|record| u64::from(record.id)).collect();
        let Some(first) = ids.first() else { continue };
        let seen = seen.remove(&(first / 10_000)).unwrap_or_default();
        if !ids.starts_with(&seen) || (done && seen.len() < ids.len()) {
            wrong.push(format!("of a split {ids:?} these are visible: {seen:?}"));
        }
    }
    wrong.extend(
        seen.values()
            .map(|ids| format!("{ids:?} are visible, and in no split")),
    );
    wrong
}

/// Which records are late: some must be, and some may be, as their split was idle before them.
#[derive(Debug, Default)]
struct Lateness {
    must: BTreeSet<u64>,
    may: BTreeSet<u64>,
}

/// All windows of a record, newest first.
fn covering(record: Record, cut: Cut) -> impl Iterator<Item = i64> {
    let last = record.at.div_euclid(cut.slide) * cut.slide;
    let starts = (0..).map(move |back| last - back * cut.slide);
    starts.take_while(move |start| start + cut.size > record.at)
}

fn is_open(start: i64, watermark: Option<i64>, cut: Cut) -> bool {
    watermark.is_none_or(|time| start + cut.size - 1 + cut.lateness > time)
}

/// Each record with the watermark of its split just before it, and whether the split was idle before.
fn stamped(split: &[Row], cut: Cut) -> Vec<(Record, Option<i64>, bool)> {
    let (mut newest, mut idle, mut stamped) = (None, false, Vec::new());
    for row in split {
        match row {
            Row::Idle => idle = true,
            Row::Record(record) => {
                let watermark = newest.map(|newest: i64| newest - cut.bound - 1);
                stamped.push((*record, watermark, idle));
                newest = newest.max(Some(record.at));
            }
        }
    }
    stamped
}

fn lateness(rows: &Rows, cut: Cut) -> Lateness {
    let mut late = Lateness::default();
    for (index, split) in rows.iter().enumerate() {
        // Event time goes on without an idle split, but not beyond what others have brought.
        let others = rows.iter().enumerate().filter(|(other, _)| *other != index);
        let furthest = others
            .flat_map(|(_, split)| records(split))
            .map(|record| record.at)
            .max();
        let furthest = furthest.map(|newest| newest - cut.bound - 1);
        for (record, watermark, idle) in stamped(split, cut) {
            let newest = covering(record, cut).next().unwrap_or(record.at);
            if !is_open(newest, watermark, cut) {
                late.must.insert(u64::from(record.id));
            } else if idle && furthest.is_some() && !is_open(newest, furthest, cut) {
                late.may.insert(u64::from(record.id));
            }
        }
    }
    late
}

/// The results of windows, if these records are late whatever their split says.
fn windows(rows: &Rows, shape: Shape, cut: Cut, late: &BTreeSet<u64>) -> Vec<u64> {
    let chained = shape == Shape::Chained;
    let slide = if chained { LARGE } else { cut.slide };
    let mut windows: BTreeMap<(i64, u8), Contents> = BTreeMap::new();
    for split in rows {
        for (record, watermark, _) in stamped(split, cut) {
            if late.contains(&u64::from(record.id)) {
                continue;
            }
            for start in covering(record, cut).filter(|start| is_open(*start, watermark, cut)) {
                let start = if chained {
                    start.div_euclid(LARGE) * LARGE
                } else {
                    start
                };
                take(windows.entry((start, record.key)).or_default(), record.id);
            }
        }
    }
    let number = |((start, key), contents)| number(start, slide, key, contents);
    let mut numbers: Vec<u64> = windows.into_iter().map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// What is wrong with the results of windows that a reader sees once the job is done, and how many records were late
/// only because their split was idle.
#[must_use]
pub fn windowed(
    rows: &Rows,
    shape: Shape,
    cut: Cut,
    visible: &[u64],
    late: Option<&[u64]>,
) -> (Vec<String>, usize) {
    let mut wrong = Vec::new();
    let Lateness { must, may } = lateness(rows, cut);
    let mut by_idleness = 0;
    let late: BTreeSet<u64> = match late {
        None => must,
        Some(seen) => {
            let late: BTreeSet<u64> = seen.iter().copied().collect();
            if late.len() < seen.len() {
                wrong.push(format!("some records are late twice: {seen:?}"));
            }
            let missing: Vec<_> = must.difference(&late).collect();
            let besides: Vec<_> = late
                .difference(&must)
                .filter(|id| !may.contains(id))
                .collect();
            if !missing.is_empty() || !besides.is_empty() {
                wrong.push(format!(
                    "{missing:?} are not late, {besides:?} are, and should not be"
                ));
            }
            by_idleness = late.difference(&must).count();
            late
        }
    };
    let expected = windows(rows, shape, cut, &late);
    let mut visible = visible.to_vec();
    visible.sort_unstable();
    if visible != expected {
        let text = |numbers: &[u64], but: &[u64]| {
            let others = numbers.iter().filter(|number| !but.contains(number));
            others
                .map(|number| format!("{number:x}"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        wrong.push(format!(
            "{} windows instead of {}: missing {}; besides {}",
            visible.len(),
            expected.len(),
            text(&expected, &visible),
            text(&visible, &expected),
        ));
    }
    (wrong, by_idleness)
}
