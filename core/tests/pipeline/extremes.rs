//! Windows at the ends of event time.

use proptest::prelude::*;

use crate::plan::{Mode, Op, Plan, When};
use crate::windows::{in_paused_time, rows};
use crate::world::{Event, Shape, TUMBLING, World, ms, run};

/// Records at the ends of event time, and between them.
fn extreme_split() -> impl Strategy<Value = Vec<(u8, i64)>> {
    let at = prop_oneof![
        (0..200i64).prop_map(|above| i64::MIN + above),
        (0..200i64).prop_map(|below| i64::MAX - below),
        -500..500i64,
        any::<i64>(),
    ];
    prop::collection::vec((0..3u8, at), 0..12)
}

fn extreme_shape() -> impl Strategy<Value = Shape> {
    // No powers of two: at those, a window that is cut off at one end continues at the other.
    let length = prop_oneof![1..300i64, Just((1 << 40) + 7), Just((1 << 59) + 13)];
    let far = || prop_oneof![Just(0), 0..300i64, Just(1 << 59)];
    (length, 1..=3i64, far(), far()).prop_map(|(slide, times, lateness, bound)| Shape {
        size: slide * times,
        slide,
        lateness,
        bound,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn results_at_the_ends_of_event_time_are_those_of_a_plain_loop(
        splits in prop::collection::vec(extreme_split(), 1..=4),
        shape in extreme_shape(),
        batch in 1..6usize,
        killed in 1..12usize,
        parallelism in 1..=3u32,
    ) {
        let mut id = 0;
        let mut event = |(key, at)| {
            id += 1;
            Event { id, key, at }
        };
        let events: Vec<Vec<Event>> = (splits.into_iter())
            .map(|split| split.into_iter().map(&mut event).collect())
            .collect();
        in_paused_time(async {
            let world = World { pause: ms(1), interval: ms(2), ..World::over(rows(&events, batch), events, shape) };
            let plan = Plan::at(Op::Next, killed, Mode::Crash(When::After));
            run(world.job(&plan).parallelism(4 - parallelism), &plan).await;
            world.finish(parallelism).await;
            world.check().await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn splits_at_both_ends_of_event_time_end() {
    // The distance between the two wraps around to less than a window.
    for (first, second) in [(i64::MAX, i64::MIN), (i64::MIN, i64::MAX)] {
        let split = |id, at| vec![Event { id, key: 1, at }];
        let events = vec![split(1, first), split(2, second)];
        let world = World::over(rows(&events, 1), events, TUMBLING);
        world.finish(1).await;
        world.check().await;
    }
}
