//! Crashes at every step of the protocol, and again at the same step of the recovery.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::support::data::{self, Files, Format};
use crate::support::model::Variant;
use crate::support::site::{Site, Start};

/// Every step that the library shows as a span.
const SPANS: [&str; 13] = [
    "take_over",
    "read_newest",
    "settle",
    "abort_stale",
    "begin",
    "write",
    "pre_commit",
    "snapshot",
    "vote",
    "decide",
    "commit",
    "confirm",
    "retire",
];

/// Steps of recovery: they need a run before that leaves decided transactions uncommitted.
const RECOVERY: [&str; 4] = ["take_over", "read_newest", "settle", "abort_stale"];
/// Steps that a start takes once.
const ONCE: [&str; 2] = ["take_over", "read_newest"];

#[test]
fn a_crash_at_any_step_changes_nothing() {
    let files = data::generate(7, &[8000, 10_000]);
    let points: Vec<(&str, &str, u32)> = SPANS
        .iter()
        .flat_map(|span| ["before", "after"].map(|edge| (*span, edge)))
        .flat_map(|(span, edge)| (1..=3).map(move |number| (span, edge, number)))
        .collect();
    let next = AtomicUsize::new(0);
    let reached = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((span, edge, number)) =
                    points.get(next.fetch_add(1, Ordering::SeqCst))
                {
                    let crashes = crash(&files, span, edge, *number);
                    let mut reached = reached.lock().expect("no panic");
                    reached.insert((*span, *edge, *number), crashes);
                }
            });
        }
    });
    let reached = reached.into_inner().expect("no panic");
    let crashes: u32 = reached.values().sum();
    let points = reached.values().filter(|crashes| **crashes > 0).count();
    println!("{crashes} crashes at {points} points");
    for ((span, edge, number), crashes) in &reached {
        assert!(
            *number > limit(span) || *crashes > 0,
            "never reached: {edge} {span} {number}"
        );
    }
}

/// How often a start of the job can come to this step.
fn limit(span: &str) -> u32 {
    match span {
        once if ONCE.contains(&once) => 1,
        // For each of the two sinks.
        "abort_stale" => 2,
        _ => 3,
    }
}

/// How often the point was reached: at the first start, and at the second.
///
/// A busy machine may make too few checkpoints for it; then the input comes slower.
fn crash(files: &Files, span: &str, edge: &str, number: u32) -> u32 {
    let tries = if number <= limit(span) { 5 } else { 1 };
    let mut crashes = 0;
    for slowness in 1..=tries {
        crashes = try_to_crash(files, span, &format!("{edge}:{span}:{number}"), slowness);
        if crashes > 0 {
            break;
        }
    }
    crashes
}

fn try_to_crash(files: &Files, span: &str, point: &str, slowness: u64) -> u32 {
    let start = |crash_at: Option<&str>| Start {
        parallelism: 2,
        interval: 10,
        batch_delay: 25 * slowness * slowness,
        retained: 1,
        crash_at: crash_at.map(str::to_owned),
        ..Start::default()
    };
    let site = match RECOVERY.contains(&span) {
        true => in_doubt(files, &start),
        false => Site::new(files, Format::Csv, Variant::Tumbling),
    };
    let mut crashes = 0;
    for _ in 0..2 {
        let end = site.run(&start(Some(point)));
        if !end.was_aborted() {
            // A crash behind the last decision leaves nothing to do.
            end.report();
            break;
        }
        site.assert_nothing_doubled(point);
        crashes += 1;
    }
    site.run(&start(None)).report();
    site.assert_exact(point);
    site.assert_retention(point, 1 + 4);
    crashes
}

/// A job that died with decided transactions of all subtasks of both sinks in doubt.
fn in_doubt(files: &Files, start: &impl Fn(Option<&str>) -> Start) -> Site {
    for interval in [150, 300, 3_600_000] {
        let site = Site::new(files, Format::Csv, Variant::Tumbling);
        let end = site.run(&Start {
            interval,
            ..start(Some("before:commit:1"))
        });
        assert!(end.was_aborted(), "{end:#?}");
        let (_, in_doubt) = site.log().decisions.pop_last().expect("a decision");
        if in_doubt.len() == 4 {
            return site;
        }
        // The machine was busy, and one file not begun: no window could close. The last checkpoint has everything.
    }
    panic!("the last checkpoint has too few transactions");
}
