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
/// Steps that a start takes once; `abort_stale` is taken for each of the two sinks.
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
        let limit = match *span {
            once if ONCE.contains(&once) => 1,
            "abort_stale" => 2,
            _ => 3,
        };
        assert!(
            *number > limit || *crashes > 0,
            "never reached: {edge} {span} {number}"
        );
    }
}

/// How often the point was reached: at the first start, and at the second.
fn crash(files: &Files, span: &str, edge: &str, number: u32) -> u32 {
    let point = format!("{edge}:{span}:{number}");
    let start = |crash_at: Option<&str>| Start {
        parallelism: 2,
        interval: 10,
        batch_delay: 30,
        retained: 2,
        crash_at: crash_at.map(str::to_owned),
        ..Start::default()
    };
    let mut site = Site::new(files, Format::Csv, Variant::Tumbling);
    if RECOVERY.contains(&span) {
        // Several batches of both files go into the first checkpoint, so that all subtasks of both sinks have something
        // to commit. How long that takes is for the machine to say: try longer times until it is so.
        let enough = [150, 300, 600, 1200, 2400]
            .into_iter()
            .find_map(|interval| {
                let site = Site::new(files, Format::Csv, Variant::Tumbling);
                let end = site.run(&Start {
                    interval,
                    ..start(Some("before:commit:1"))
                });
                assert!(end.was_aborted(), "{point}: {end:#?}");
                let (_, in_doubt) = site.log().decisions.pop_last().expect("a decision");
                (in_doubt.len() >= 3).then_some(site)
            });
        site = enough.expect("a first checkpoint with three transactions");
    }
    let mut crashes = 0;
    for _ in 0..2 {
        let end = site.run(&start(Some(&point)));
        if !end.was_aborted() {
            // A crash behind the last decision leaves nothing to do.
            end.report();
            break;
        }
        site.assert_nothing_doubled(&point);
        crashes += 1;
    }
    site.run(&start(None)).report();
    site.assert_exact(&point);
    site.assert_retention(&point, 2 + 4);
    crashes
}
