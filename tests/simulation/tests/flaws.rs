//! What is built wrong on purpose is found; and what is found can be made small.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use cofferdam_simulation::{Flaw, Schedule, draw, shrink, simulate, sweep};

/// Within how many seeds each flaw is found.
const SEEDS: u64 = 4000;

fn flawed(seed: u64, flaw: Flaw) -> Schedule {
    Schedule {
        flaw: Some(flaw),
        ..draw(seed, None)
    }
}

fn fails(schedule: &Schedule) -> bool {
    !simulate(schedule).wrong.is_empty()
}

#[test]
fn every_flaw_is_found() {
    for flaw in Flaw::ALL {
        let sweep = sweep(0..SEEDS, 1, |seed| flawed(seed, flaw), |_, _| {});
        let first = sweep.failed.first().map(|(seed, _)| *seed);
        println!("{flaw:?}: seed {first:?}");
        assert!(first.is_some(), "{flaw:?} is not found in {SEEDS} seeds");
    }
}

/// A sink that shows records again: to be seen, it takes a commit that is made twice. Where the first schedule crashes
/// between a commit and the next log record, no smaller schedule is near; so the smallest of a few counts.
#[test]
fn a_failing_schedule_is_made_small() {
    let found = (0..).map(|seed| flawed(seed, Flaw::AppendsOnRetry));
    let large = found.filter(|schedule| schedule.faults.len() > 3);
    let small = large
        .filter(fails)
        .take(4)
        .map(|large| shrink(&large, fails));
    let size = |small: &Schedule| (small.faults.len(), small.workload.records);
    let small = small.min_by_key(size).unwrap();
    assert!(fails(&small));
    assert!(small.faults.len() <= 2, "{}", small.text());
    let workload = &small.workload;
    assert!(
        workload.records <= 4 && workload.splits <= 2 && workload.delay <= 8,
        "{}",
        small.text()
    );
    // What is small is small again.
    assert_eq!(shrink(&small, fails), small);
}

#[test]
fn a_schedule_that_does_not_fail_is_left_as_it_is() {
    let schedule = draw(1, None);
    assert_eq!(shrink(&schedule, fails), schedule);
}
