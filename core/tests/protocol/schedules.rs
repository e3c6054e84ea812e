//! Drawn schedules over a world of several processes.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::process::Over;
use crate::rules;
use crate::schedule::{Settings, Step, settings, steps};
use crate::world::{Seen, World};

/// Takes all steps, then lets the job come to rest.
fn play(settings: Settings, schedule: &[Step], parallelism: u32, records: u64, late: bool) -> Seen {
    let mut world = World::new(settings);
    for step in schedule {
        world.take(step);
    }
    whoever_holds_the_job_comes_to_an_end(&mut world, late);
    let who = world.quiet(parallelism);
    rules::nothing_is_in_doubt(&world);
    rules::every_decided_transaction_is_visible(&world);
    rules::visible_is_what_was_read(&world);
    world.stop(who, records, false);
    assert_eq!(
        world.over(who),
        Some(Over::Finished),
        "the last checkpoint came to no end"
    );
    rules::nothing_is_in_doubt(&world);
    rules::visible_is_what_was_read(&world);
    world.seen
}

/// A run that is asked to stop ends, whatever was lost before, as soon as nothing more is lost.
fn whoever_holds_the_job_comes_to_an_end(world: &mut World, late: bool) {
    let holder = (0..world.processes.len())
        .find(|who| world.holds(*who) && world.processes[*who].is_running());
    if let Some(who) = holder {
        world.settle_down(who);
        world.stop(who, 1, late);
        let over = world.over(who);
        assert!(
            matches!(over, Some(Over::Finished | Over::RolledBack)),
            "a run that was asked to stop hangs: {over:?}"
        );
    }
}

#[test]
fn every_rule_holds_under_every_schedule() {
    let seen: RefCell<BTreeMap<&'static str, usize>> = RefCell::default();
    // More than the default, so that the rare events below come up in any run.
    let mut config = ProptestConfig::with_source_file(file!());
    config.cases = config.cases.max(512);
    let mut runner = TestRunner::new(config);
    let drawn = (settings(), steps(), 1..=3u32, 0..5u64, any::<bool>());
    let played = runner.run(
        &drawn,
        |(settings, schedule, parallelism, records, late)| {
            for (what, count) in play(settings, &schedule, parallelism, records, late).counts() {
                *seen.borrow_mut().entry(what).or_default() += count;
            }
            Ok(())
        },
    );
    if let Err(failure) = played {
        panic!("{failure}");
    }
    let seen = seen.into_inner();
    for (what, count) in seen {
        assert!(count > 0, "no schedule ever reached: {what}");
    }
}
