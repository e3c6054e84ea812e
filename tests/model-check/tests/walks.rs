//! Drawn ways through worlds that are too large to explore: more processes, more subtasks, all faults together.

use std::cell::RefCell;
use std::collections::BTreeSet;

use cofferdam_model_check::{Bounds, examples, walk};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

fn bounds() -> impl Strategy<Value = Bounds> {
    let sizes = (prop::collection::vec(1..=2usize, 4), 1..=2usize, 2..=5u64);
    let settings = (0..3u32, 1..4usize, 1..4usize, prop::bool::weighted(0.75));
    let faults = (any::<bool>(), any::<bool>(), 0..3usize, 0..6u64);
    (sizes, settings, faults).prop_map(|(sizes, settings, faults)| {
        let (parallelism, sinks, checkpoints) = sizes;
        let (tolerable_failures, max_unconfirmed, retained, subsumes) = settings;
        let (opens, source, late_writes, empty) = faults;
        Bounds {
            parallelism,
            late_writes,
            opens,
            source,
            empty: (empty > 0).then_some((0, empty)),
            tolerable_failures,
            max_unconfirmed,
            subsumes,
            retained,
            twice: true,
            time_outs: true,
            refusals: true,
            stops: true,
            ..Bounds::new(4, sinks, checkpoints)
        }
    })
}

#[test]
fn every_rule_holds_on_every_way() {
    let met: RefCell<BTreeSet<&'static str>> = RefCell::default();
    let could: RefCell<BTreeSet<&'static str>> = RefCell::default();
    // More than the default, so that all examples come up in any run.
    let mut config = ProptestConfig::with_source_file(file!());
    config.cases = config.cases.max(1024);
    let drawn = (bounds(), prop::collection::vec(any::<u16>(), 20..250));
    let walked = TestRunner::new(config).run(&drawn, |(bounds, picks)| {
        let walk = walk(&bounds, &picks);
        met.borrow_mut().extend(walk.met);
        could.borrow_mut().extend(examples(&bounds));
        match walk.violation {
            Some(violation) => Err(TestCaseError::fail(violation.text())),
            None => Ok(()),
        }
    });
    if let Err(failure) = walked {
        panic!("{failure}");
    }
    let (met, could) = (met.into_inner(), could.into_inner());
    let missed: Vec<_> = could.difference(&met).collect();
    assert!(missed.is_empty(), "no way ever came to: {missed:?}");
}
