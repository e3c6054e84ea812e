//! Windows give the same results in every run: whatever the order, the parallelism, the checkpoints, the crashes.

use std::collections::BTreeMap;

use cofferdam::memory::MemorySink;
use cofferdam::{
    EventTime, Job, JobEnd, MemoryCheckpointStore, NoEventTime, Pipeline, Timestamp, Windows,
    count, sum,
};
use proptest::prelude::*;

use crate::plan::{Mode, Op, Plan, When};
use crate::rows::{Row, Rows};
use crate::world::{Event, Outcome, Shape, TUMBLING, World, expected, ms, run, sorted};
use crate::wrappers::FaultySource;

/// Records of one split: key, how far time goes on, how far the record is behind.
fn split() -> impl Strategy<Value = Vec<(u8, i64, i64)>> {
    let behind = prop_oneof![6 => 0..60i64, 1 => 0..600i64];
    prop::collection::vec((0..4u8, 0..30i64, behind), 0..50)
}

fn numbered(splits: Vec<Vec<(u8, i64, i64)>>, from: i64) -> Vec<Vec<Event>> {
    let mut id = 0;
    let mut number = |split: Vec<(u8, i64, i64)>| {
        let mut now = from;
        let event = |(key, on, behind)| {
            now += on;
            id += 1;
            let at = now - behind;
            Event { id, key, at }
        };
        split.into_iter().map(event).collect()
    };
    splits.into_iter().map(&mut number).collect()
}

pub fn rows(events: &[Vec<Event>], batch: usize) -> Rows<Event> {
    let row = |split: &Vec<Event>| split.iter().cloned().map(Row::Record).collect();
    Rows::new(events.iter().map(row).collect(), batch)
}

fn shape() -> impl Strategy<Value = Shape> {
    let slide = prop_oneof![Just(100), Just(50), Just(30)];
    (slide, 0..60i64, 0..60i64).prop_map(|(slide, lateness, bound)| Shape {
        size: 100,
        slide,
        lateness,
        bound,
    })
}

fn kill() -> impl Strategy<Value = (Op, usize, Mode, u32)> {
    let op = prop::sample::select(Op::ALL.to_vec());
    let mode = prop_oneof![
        Just(Mode::Crash(When::Before)),
        Just(Mode::Crash(When::After)),
        Just(Mode::Panic(When::Before)),
    ];
    (op, 1..20usize, mode, 1..=4u32)
}

pub fn in_paused_time(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(test);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn results_are_those_of_a_plain_loop(
        splits in prop::collection::vec(split(), 1..=4),
        shape in shape(),
        from in prop_oneof![Just(0i64), Just(-700), Just(1_700_000_000_000)],
        batch in 1..12usize,
        kills in prop::collection::vec(kill(), 0..4),
        parallelism in 1..=4u32,
    ) {
        let events = numbered(splits, from);
        in_paused_time(async {
            let world = World { pause: ms(1), interval: ms(2), ..World::over(rows(&events, batch), events, shape) };
            // Each run at a parallelism of its own: whatever dies is gone on with by more subtasks, or fewer.
            for (op, n, mode, parallelism) in kills {
                let plan = Plan::at(op, n, mode);
                run(world.job(&plan).parallelism(parallelism), &plan).await;
            }
            world.finish(parallelism).await;
            world.check().await;
        });
    }

    #[test]
    fn a_job_goes_on_at_another_parallelism(
        splits in prop::collection::vec(split(), 1..=4),
        shape in shape(),
        stops in prop::collection::vec((1..=4u32, 1..5usize), 1..4),
    ) {
        let events = numbered(splits, 0);
        in_paused_time(async {
            let world = World { pause: ms(1), interval: ms(2), ..World::over(rows(&events, 3), events, shape) };
            for (parallelism, checkpoints) in stops {
                let plan = Plan::none();
                let job = world.job(&plan).parallelism(parallelism);
                let mut handle = job.handle();
                let stop = async {
                    for _ in 0..checkpoints {
                        handle.changed().await;
                    }
                    handle.stop();
                };
                let (outcome, ()) = tokio::join!(run(job, &plan), stop);
                assert!(outcome.end().is_some(), "{outcome:?}");
            }
            world.finish(2).await;
            world.check().await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn the_events_of_these_tests_have_late_ones_and_out_of_order_ones() {
    let world = World::new();
    let (results, late) = expected(&world.events, TUMBLING);
    assert!(
        results.len() > 20 && late.len() > 10,
        "{} {}",
        results.len(),
        late.len()
    );
}

#[tokio::test(start_paused = true)]
async fn counts_are_exact_over_crashes() {
    let world = World::new();
    for n in [3, 5, 7] {
        let plan = Plan::at(Op::CreateDecision, n, Mode::Crash(When::After));
        run(world.job(&plan).parallelism(2), &plan).await;
    }
    let Outcome::Ended(Ok(report)) = run(world.job(&Plan::none()), &Plan::none()).await else {
        panic!("it does not end well");
    };
    let (results, late) = expected(&world.events, world.shape);
    let records: usize = world.events.iter().map(Vec::len).sum();
    let count = |name, what| report.progress.count(name, what);
    assert_eq!(count("events", "records"), records as u64);
    assert_eq!(count("windows", "windows"), results.len() as u64);
    assert_eq!(count("results", "records"), results.len() as u64);
    assert_eq!(count("windows", "late"), late.len() as u64);
    assert_eq!(count("late", "records"), late.len() as u64);
}

type Total = (i64, u8, u64);
type Totals = MemorySink<Total>;

/// Windows over windows: counts of the small ones, added up in larger ones.
fn chained(world: &World<Rows<Event>>, totals: &Totals, plan: &Plan) -> Job {
    let source = FaultySource {
        inner: world.source.clone(),
        plan: plan.clone(),
        pause: ms(1),
    };
    let event_time = EventTime::of(|event: &Event| Timestamp::from_millis(event.at));
    Pipeline::new("faults")
        .source(
            "events",
            source,
            event_time.out_of_order_by(ms(world.shape.bound)),
        )
        .key_by(|event| (event.key, event.id % 7))
        .window(Windows::tumbling(ms(world.shape.size)))
        .allowed_lateness(ms(world.shape.lateness))
        .late_records(
            "late",
            |late| (late.value.key, late.value.id),
            world.faulty(&world.late, plan),
        )
        .aggregate("small", count())
        .key_by(|small| small.key.0)
        .window(Windows::tumbling(ms(4 * world.shape.size)))
        .aggregate(
            "large",
            sum(|small: &cofferdam::WindowResult<_, u64>| small.value),
        )
        .map(|large| (large.start.as_millis(), large.key, large.value))
        .sink("totals", world.faulty(totals, plan))
        .job(world.store(plan))
        .checkpoint_interval(ms(2))
        .restart(cofferdam::RestartStrategy::Never)
}

const SMALL: Shape = Shape {
    size: 100,
    slide: 100,
    ..TUMBLING
};

/// Rows for [`chained`], and what it must make of them.
fn for_chained() -> (World<Rows<Event>>, Vec<Total>) {
    let events = crate::world::events(3, 120);
    let mut large: BTreeMap<(i64, u8), u64> = BTreeMap::new();
    for (start, key, ids) in expected(&events, SMALL).0 {
        *large.entry((start.div_euclid(400) * 400, key)).or_default() += ids.len() as u64;
    }
    let large = large
        .into_iter()
        .map(|((start, key), sum)| (start, key, sum));
    (
        World::over(rows(&events, 7), events, SMALL),
        large.collect(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_barrier_that_comes_late_on_one_input_holds_the_others_back() {
    // The first windows of one subtask are held up at their barrier; those of the other go on into the next checkpoint.
    // The crash comes behind the decision, so what was mixed up would be counted twice.
    let mut held = 0;
    for n in 1..=8 {
        for decision in 1..=6 {
            let (world, large) = for_chained();
            let totals = Totals::new();
            let plan = Plan::at(Op::PreCommit, n, Mode::Hold(When::Before));
            let plan = plan.and(Op::CreateDecision, decision, Mode::Crash(When::After));
            let release = async {
                plan.reached().await;
                tokio::time::sleep(ms(8)).await;
                plan.release();
                std::future::pending::<Outcome>().await
            };
            tokio::select! {
                _ = run(chained(&world, &totals, &plan).parallelism(2), &plan) => {}
                _ = release => {}
            }
            held += plan.fired() / 2;
            let plan = Plan::none();
            run(chained(&world, &totals, &plan).parallelism(2), &plan).await;
            assert_eq!(sorted(totals.visible()), large, "{n} {decision}");
            let late = expected(&world.events, world.shape).1;
            assert_eq!(sorted(world.late.visible()), late, "{n} {decision}");
        }
    }
    assert!(held > 3, "{held}");
}

#[tokio::test(start_paused = true)]
async fn windows_that_were_idle_still_hand_on_what_they_hold() {
    // All splits pause, while the first windows of one subtask are held up; then all go on. The second windows must wait
    // for what it still holds.
    for n in 1..=8 {
        for records in [5, 10, 20] {
            let (world, _) = for_chained();
            let pausing = |split: &Vec<Event>| {
                let parts = split.chunks(records).flat_map(|part| {
                    let part = part.iter().cloned().map(Row::Record);
                    part.chain([Row::Idle])
                });
                parts.collect()
            };
            let source = Rows::new(world.events.iter().map(pausing).collect(), 20);
            let world = World { source, ..world };
            let totals = Totals::new();
            let plan = Plan::at(Op::PreCommit, n, Mode::Hold(When::Before));
            let release = async {
                plan.reached().await;
                tokio::time::sleep(ms(6)).await;
                plan.release();
            };
            let job = chained(&world, &totals, &plan).parallelism(3);
            let (outcome, ()) = tokio::join!(run(job, &plan), release);
            let Outcome::Ended(Ok(report)) = outcome else {
                panic!("it does not end well");
            };
            assert_eq!(report.progress.count("large", "late"), 0, "{n} {records}");
            let small: u64 = totals.visible().iter().map(|total| total.2).sum();
            let late = report.progress.count("small", "late");
            assert_eq!(small + late, 360, "{n} {records}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_split_that_was_idle_opens_no_window_that_is_closed() {
    // Split 0 says nothing while split 1 closes its windows, and goes on after a restart.
    let record = |id, at| Row::Record(Event { id, key: 1, at });
    let quiet = [record(0, 0)].into_iter();
    let quiet = quiet
        .chain((0..30).map(|_| Row::Idle))
        .chain([record(1, 100)]);
    let busy = (2..60).map(|id| record(id, i64::from(id) * 100));
    for parallelism in [1, 2] {
        let source = Rows::new(vec![quiet.clone().collect(), busy.clone().collect()], 1);
        let world = World::over(source, Vec::new(), TUMBLING);
        let plan = Plan::at(Op::CreateDecision, 16, Mode::Crash(When::After));
        run(world.job(&plan).parallelism(parallelism), &plan).await;
        let visible = world.results.visible().len();
        assert!(
            plan.fired() > 0 && visible > 0,
            "{} {visible}",
            plan.calls(Op::CreateDecision)
        );
        world.finish(parallelism).await;
        assert_eq!(world.late.visible(), [(1, 1)]);
        let mut starts: Vec<i64> = world.results.visible().iter().map(|out| out.0).collect();
        starts.sort_unstable();
        let wanted: Vec<i64> = (0..12).map(|window| window * 500).collect();
        assert_eq!(starts, wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_split_that_ends_does_not_close_windows_for_one_that_is_idle() {
    let record = |id, at| Row::Record(Event { id, key: 1, at });
    let quiet = [record(0, 0)].into_iter();
    let quiet = quiet.chain((0..40).map(|_| Row::Idle));
    let quiet: Vec<_> = quiet.chain([record(1, 2000), record(2, 2600)]).collect();
    let busy: Vec<_> = (3..20).map(|id| record(id, i64::from(id) * 100)).collect();
    for parallelism in [1, 2, 3] {
        let source = Rows::new(vec![quiet.clone(), busy.clone()], 1);
        let world = World::over(source, Vec::new(), TUMBLING);
        world.finish(parallelism).await;
        assert_eq!(world.late.visible(), []);
        let results = world.results.visible();
        let ids: usize = results.iter().map(|(_, _, ids)| ids.len()).sum();
        assert_eq!(ids, 20, "{results:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn windows_over_windows_lose_nothing() {
    for parallelism in 1..=4 {
        for kill in [None, Some(4), Some(11), Some(23)] {
            let (world, large) = for_chained();
            let totals = Totals::new();
            if let Some(n) = kill {
                let plan = Plan::at(Op::Next, n, Mode::Crash(When::After));
                let job = chained(&world, &totals, &plan).parallelism(5 - parallelism);
                run(job, &plan).await;
            }
            let plan = Plan::none();
            let job = chained(&world, &totals, &plan).parallelism(parallelism);
            let Outcome::Ended(Ok(report)) = run(job, &plan).await else {
                panic!("it does not end well");
            };
            assert_eq!(sorted(totals.visible()), large, "{parallelism} {kill:?}");
            assert_eq!(report.progress.count("large", "late"), 0);
            assert_eq!(world.observed.violations(), Vec::<String>::new());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_without_windows_is_exact_too() {
    for parallelism in [1, 3] {
        for n in 1..12 {
            let world = World::new();
            let sink = MemorySink::new();
            let job = |plan: &Plan| {
                let source = FaultySource {
                    inner: world.source.clone(),
                    plan: plan.clone(),
                    pause: ms(2),
                };
                Pipeline::new("faults")
                    .source("events", source, NoEventTime)
                    .filter(|event| event.id % 3 != 0)
                    .flat_map(|event| [event.id, event.id + 10_000])
                    .sink("ids", world.faulty(&sink, plan))
                    .job(world.store(plan))
                    .checkpoint_interval(ms(3))
                    .parallelism(parallelism)
            };
            let plan = Plan::at(Op::Commit, n, Mode::Crash(When::After));
            run(job(&plan), &plan).await;
            run(job(&Plan::none()), &Plan::none()).await;
            let wanted = world
                .events
                .iter()
                .flatten()
                .map(|event| event.id)
                .filter(|id| id % 3 != 0);
            let wanted: Vec<u32> = wanted.flat_map(|id| [id, id + 10_000]).collect();
            assert_eq!(sorted(sink.visible()), sorted(wanted));
            assert_eq!(world.observed.violations(), Vec::<String>::new());
        }
    }
}

/// Split 0 has one record, and may say that nothing comes for now; split 1 goes on. Nothing ends.
async fn visible_while_a_split_is(idle: bool, parallelism: u32) -> usize {
    let quiet = [Row::Record(Event {
        id: 0,
        key: 0,
        at: 0,
    })]
    .into_iter();
    let quiet = quiet.chain(idle.then_some(Row::Idle)).collect();
    let busy = (1..100).map(|id| {
        Row::Record(Event {
            id,
            key: 1,
            at: i64::from(id) * 100,
        })
    });
    let source = Rows {
        endless: true,
        ..Rows::new(vec![quiet, busy.collect()], 10)
    };
    let world = World::over(source, Vec::new(), TUMBLING);
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
    world.results.visible().len()
}

#[tokio::test(start_paused = true)]
async fn an_idle_split_does_not_hold_windows_open_and_a_quiet_one_does() {
    for parallelism in [1, 2, 3] {
        // With more subtasks than splits, one has none: it holds nothing back either.
        assert_eq!(visible_while_a_split_is(false, parallelism).await, 0);
        assert!(visible_while_a_split_is(true, parallelism).await >= 18);
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_source_completes() {
    for splits in [0, 3] {
        let events = vec![Vec::new(); splits];
        let world = World::over(rows(&events, 3), events, TUMBLING);
        world.finish(2).await;
        world.check().await;
        assert_eq!(world.observed.handles(), 0);
    }
    let job = Pipeline::new("empty")
        .source("nothing", Rows::<u32>::new(Vec::new(), 1), NoEventTime)
        .sink("sink", MemorySink::new())
        .job(MemoryCheckpointStore::new());
    assert_eq!(job.run().await.unwrap().end, JobEnd::Completed);
}
