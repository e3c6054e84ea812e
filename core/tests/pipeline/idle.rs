//! Windows when all splits are idle: they close up to the greatest watermark, and none gives a second result.

use cofferdam::JobEnd;

use crate::plan::{Mode, Op, Plan, When};
use crate::rows::{Row, Rows};
use crate::world::{Event, Outcome, TUMBLING, World, expected, ms, run, sorted};

fn event(id: u32, at: i64) -> Event {
    Event { id, key: 1, at }
}

fn idle_at_the_end(events: &[Event]) -> Vec<Row<Event>> {
    let records = events.iter().cloned().map(Row::Record);
    records.chain([Row::Idle]).collect()
}

#[tokio::test(start_paused = true)]
async fn the_last_split_to_go_idle_closes_windows_up_to_the_greatest_watermark() {
    let slow: Vec<Event> = (0..10).map(|id| event(id, i64::from(id) * 100)).collect();
    let fast: Vec<Event> = (10..=20)
        .map(|id| event(id, i64::from(id - 10) * 500))
        .collect();
    let ahead = vec![event(30, 0), event(31, 5000)];
    for (other, furthest) in [(fast, 5000), (ahead, 5000)] {
        let events = vec![slow.clone(), other];
        let open = furthest - TUMBLING.bound - 1 - TUMBLING.size - TUMBLING.lateness + 1;
        let closed: Vec<_> = expected(&events, TUMBLING).0;
        let closed: Vec<_> = (closed.into_iter())
            .filter(|window| window.0 <= open)
            .collect();
        assert!(closed.len() >= 2);
        for parallelism in 1..=4 {
            for events in [events.clone(), events.iter().rev().cloned().collect()] {
                let source = Rows {
                    endless: true,
                    ..Rows::new(
                        events.iter().map(|split| idle_at_the_end(split)).collect(),
                        3,
                    )
                };
                let world = World::over(source, events, TUMBLING);
                let plan = Plan::none();
                let job = world.job(&plan).parallelism(parallelism);
                let handle = job.handle();
                let stop = async {
                    // All that can come has come.
                    tokio::time::sleep(ms(300)).await;
                    handle.stop();
                };
                let (outcome, ()) = tokio::join!(run(job, &plan), stop);
                assert_eq!(outcome.end(), Some(JobEnd::Stopped));
                assert_eq!(sorted(world.results.visible()), closed, "{parallelism}");
                assert_eq!(world.late.visible(), []);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_split_that_comes_back_behind_the_flush_opens_no_closed_window() {
    let idle = |count| (0..count).map(|_| Row::Idle);
    let first = [Row::Record(event(1, 0)), Row::Record(event(2, 900))].into_iter();
    // In bounds for its own split: that one's watermark is 849.
    let first = first.chain(idle(12)).chain([Row::Record(event(3, 950))]);
    let first: Vec<_> = first.chain([Row::Record(event(4, 6000))]).collect();
    let second = [Row::Record(event(5, 5000))].into_iter();
    let second: Vec<_> = second
        .chain(idle(30))
        .chain([Row::Record(event(6, 6000))])
        .collect();
    let mut late = 0;
    for parallelism in 1..=3 {
        for crash in [None, Some(1), Some(3), Some(5), Some(8)] {
            let source = Rows::new(vec![first.clone(), second.clone()], 2);
            let world = World::over(source, Vec::new(), TUMBLING);
            if let Some(n) = crash {
                let plan = Plan::at(Op::CreateDecision, n, Mode::Crash(When::After));
                run(world.job(&plan).parallelism(parallelism), &plan).await;
            }
            let job = world.job(&Plan::none()).parallelism(parallelism);
            let Outcome::Ended(Ok(report)) = run(job, &Plan::none()).await else {
                panic!("it does not end well");
            };
            let results = sorted(world.results.visible());
            let mut starts: Vec<i64> = results.iter().map(|result| result.0).collect();
            starts.dedup();
            assert_eq!(starts, [0, 500, 5000, 6000], "{results:?}");
            assert_eq!(results.len(), 4, "a second result: {results:?}");
            // Record 3 is in its window, or late and handed on as such.
            let late_records = world.late.visible();
            let ids = results.into_iter().flat_map(|result| result.2);
            let all = ids.chain(late_records.iter().map(|late| late.1)).collect();
            assert_eq!(sorted::<u32>(all), [1, 2, 3, 4, 5, 6]);
            let counted = report.progress.count("windows", "late");
            assert_eq!(counted, late_records.len() as u64);
            late += late_records.len();
            if crash.is_none() {
                assert_eq!(late_records, [(1, 3)], "{parallelism}");
            }
        }
    }
    assert!(late >= 3, "{late}");
}
