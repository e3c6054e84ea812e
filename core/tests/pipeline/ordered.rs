//! Sinks whose transactions begin only after the commit of the one before.

use cofferdam::memory::{MemorySink, MemorySource};
use cofferdam::{Job, JobEnd, NoEventTime, Pipeline, RestartStrategy};

use crate::plan::{Mode, Op, Plan, When};
use crate::warnings::Warnings;
use crate::world::{Event, Outcome, World, ms, run};

/// Each begin is held against the commits before it: see `Faulty`.
fn ordered() -> World<MemorySource<Event>> {
    World {
        ordered: true,
        ..World::new()
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_begins_after_the_commit_before_it() {
    for parallelism in [1, 2, 4] {
        for mode in [Mode::ERRORS[0], Mode::ERRORS[1]] {
            let world = ordered();
            let plan = Plan::during(Op::Commit, 1, 12, mode);
            let outcome = run(world.job(&plan).parallelism(parallelism), &plan).await;
            assert_eq!(outcome.end(), Some(JobEnd::Completed), "{outcome:?}");
            assert!(plan.fired() >= 12, "{}", plan.fired());
            world.check().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn also_through_crashes() {
    for op in [
        Op::Begin,
        Op::Write,
        Op::PreCommit,
        Op::CreateDecision,
        Op::Commit,
    ] {
        for mode in Mode::CRASHES {
            for (n, parallelism) in (1..9).zip([1, 2, 4].into_iter().cycle()) {
                let world = ordered();
                let plan = Plan::at(op, n, mode).and(Op::Commit, 2, Mode::ERRORS[1]);
                run(world.job(&plan).parallelism(parallelism), &plan).await;
                world.finish(parallelism).await;
                world.check().await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_checkpoint_rolls_back() {
    let world = ordered();
    let plan = Plan::at(Op::PreCommit, 2, Mode::Hold(When::After));
    let restart = RestartStrategy::FixedDelay {
        restarts: 1,
        delay: ms(1),
    };
    let job = world.job(&plan).checkpoint_timeout(ms(20)).restart(restart);
    let slow = async {
        plan.reached().await;
        tokio::time::sleep(ms(40)).await;
        plan.release();
    };
    let (outcome, ()) = tokio::join!(run(job, &plan), slow);
    let Outcome::Ended(Ok(report)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(report.progress.restarts, 1);
    world.check().await;
}

const BATCH: usize = 64;
/// Batches that come to four times what the stage may hold.
const BATCHES: usize = 1024;
/// What the stage may hold, in batches.
const HELD: usize = 256;

fn rows() -> Vec<usize> {
    (0..BATCH * BATCHES).collect()
}

/// Slow numbers into an ordered sink.
fn numbers(world: &World<MemorySource<Event>>, sink: &MemorySink<usize>, plan: &Plan) -> Job {
    let source = crate::wrappers::FaultySource {
        inner: MemorySource::new([rows()]),
        plan: plan.clone(),
        pause: ms(1),
    };
    Pipeline::new("faults")
        .source("input", source, NoEventTime)
        .sink("numbers", world.faulty(sink, plan))
        .job(world.store(plan))
        // So long that the stage is full before the next checkpoint is due.
        .checkpoint_interval(ms(300))
        .restart(RestartStrategy::Never)
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_hangs_holds_the_input_back() {
    let (world, sink) = (ordered(), MemorySink::new());
    let plan = Plan::at(Op::Commit, 1, Mode::Hold(When::Before));
    let (warnings, _watch) = Warnings::watch();
    let job = numbers(&world, &sink, &plan);
    let slow = async {
        plan.reached().await;
        let before = plan.calls(Op::Next);
        tokio::time::sleep(ms(60_000)).await;
        let read = plan.calls(Op::Next) - before;
        // Neither a full batch nor a flush waits below the bound; above it, nothing more is read.
        assert!((HELD - 16..HELD + 16).contains(&read), "{read} batches");
        assert_eq!(plan.calls(Op::Begin), 1);
        plan.release();
    };
    let (outcome, ()) = tokio::join!(run(job, &plan), slow);
    assert_eq!(outcome.end(), Some(JobEnd::Completed), "{outcome:?}");
    assert_eq!(world.observed.violations(), [""; 0]);
    assert_eq!(sink.visible(), rows());
    let named = warnings.with(&["waits for this commit", "faults/numbers/1/0/1"]);
    assert!((2..=10).contains(&named), "{:?}", warnings.all());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_meanwhile_is_not_held_up() {
    let (world, sink) = (ordered(), MemorySink::new());
    // The commit never returns, and the operator leaves.
    let plan = Plan::at(Op::Commit, 1, Mode::Hold(When::Before));
    let job = numbers(&world, &sink, &plan);
    let handle = job.handle();
    let leave = async {
        plan.reached().await;
        tokio::time::sleep(ms(5000)).await;
        handle.stop_now();
    };
    let (outcome, ()) = tokio::join!(run(job, &plan), leave);
    assert_eq!(outcome.end(), Some(JobEnd::Left), "{outcome:?}");
    let plan = Plan::none();
    let outcome = run(numbers(&world, &sink, &plan), &plan).await;
    assert_eq!(outcome.end(), Some(JobEnd::Completed), "{outcome:?}");
    assert_eq!(world.observed.violations(), [""; 0]);
    assert_eq!(sink.visible(), rows());
}
