//! Many random schedules: nothing is wrong in any, and each rare event is reached in some.

use cofferdam_simulation::{Rare, draw, simulate, sweep};

const SCHEDULES: u64 = 10_000;

#[test]
fn nothing_is_wrong_and_every_rare_event_is_reached() {
    let sweep = sweep(0..SCHEDULES, 1, |seed| draw(seed, None), |_, _| {});
    if let Some((seed, schedule)) = sweep.failed.first() {
        let wrong = simulate(schedule).wrong.join("\n");
        panic!(
            "seed {seed}: {wrong}\nmake it smaller: cargo run --release -p cofferdam-simulation -- --seed {seed}"
        );
    }
    assert_eq!(sweep.schedules, SCHEDULES);
    let never: Vec<Rare> = sweep.reached.never().collect();
    assert!(
        never.is_empty(),
        "never reached: {never:?}\n{}",
        sweep.reached
    );
}
