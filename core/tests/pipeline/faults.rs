//! Every operation, every way to go wrong, every time: run, die, run again until done, and look.

use std::iter::successors;
use std::sync::Arc;
use std::time::Duration;

use cofferdam::memory::MemorySource;
use cofferdam::{DirectoryCheckpointStore, JobError, RestartStrategy};

use crate::plan::{Mode, Op, Plan, When};
use crate::spans::CrashAt;
use crate::world::{Event, Outcome, World, ms, run};

/// A limit for the times at which an operation can go wrong, far beyond what a run reaches.
const MANY: usize = 2000;

/// Each time, up to the end of a run.
const EACH: fn(usize) -> usize = |n| n + 1;
/// Each of the first times, then every third: where crashes of one subtask try each.
const SOME: fn(usize) -> usize = |n| if n < 6 { n + 1 } else { n + 3 };

/// Runs with a fault, and then without until done. Whether the fault came to pass.
async fn survive(
    world: World<MemorySource<Event>>,
    plan: &Plan,
    parallelism: u32,
    restart: RestartStrategy,
) -> bool {
    let job = world.job(plan).parallelism(parallelism).restart(restart);
    let outcome = run(job, plan).await;
    match &outcome {
        Outcome::Ended(Ok(_)) => {}
        Outcome::Ended(Err(error)) => {
            assert!(plan.fired() > 0, "{error}");
            assert!(
                error.is_restartable() || matches!(error, JobError::GaveUp { .. }),
                "{error}"
            );
        }
        Outcome::Crashed => {}
    }
    if outcome.end().is_none() {
        world.finish(parallelism).await;
    }
    world.check().await;
    plan.fired() > 0
}

/// All times of all operations, of these modes. `fresh` makes the world before the run with the fault.
async fn enumerate(
    modes: &[Mode],
    parallelism: u32,
    restart: RestartStrategy,
    fresh: impl AsyncFn() -> World<MemorySource<Event>>,
    next: fn(usize) -> usize,
) {
    for op in Op::ALL {
        for mode in modes {
            let mut times = 0;
            for n in successors(Some(1), |n| Some(next(*n))).take_while(|n| *n < MANY) {
                let plan = Plan::at(op, n, *mode);
                let world = fresh().await;
                if !survive(world, &plan, parallelism, restart.clone()).await {
                    break;
                }
                times = n;
            }
            assert!(
                times > 0 || !ALWAYS.contains(&op),
                "{op:?} was never reached"
            );
        }
    }
}

/// What each run does, wherever it begins.
const ALWAYS: [Op; 15] = [
    Op::Begin,
    Op::Write,
    Op::PreCommit,
    Op::Commit,
    Op::AbortStale,
    Op::CreateState,
    Op::CreateDecision,
    Op::CreateTakeover,
    Op::CreateSettled,
    Op::List,
    Op::Delete,
    Op::Splits,
    Op::Open,
    Op::Next,
    Op::Notify,
];

async fn fresh() -> World<MemorySource<Event>> {
    World::new()
}

/// A job that has died between a decision and its commit, while the next transaction was prepared.
pub async fn after_a_crash(parallelism: u32) -> World<MemorySource<Event>> {
    let world = World::new();
    let held = Plan::during(Op::Commit, 3, MANY, Mode::Hold(When::Before));
    let held = held.and(Op::CreateDecision, 4, Mode::Crash(When::Before));
    let outcome = run(world.job(&held).parallelism(parallelism), &held).await;
    assert!(matches!(outcome, Outcome::Crashed), "{outcome:?}");
    let in_doubt = world.job(&Plan::none()).in_doubt().await.unwrap();
    let decided = world.observed.decided();
    let (committable, stale): (Vec<_>, Vec<_>) = in_doubt
        .into_iter()
        .partition(|found| decided.iter().any(|id| found.may_be(id)));
    assert!(!committable.is_empty() && !stale.is_empty());
    world
}

fn restarts() -> RestartStrategy {
    RestartStrategy::FixedDelay {
        restarts: 3,
        delay: ms(1),
    }
}

macro_rules! enumerations {
    ($($name:ident: $modes:expr, $next:expr, $parallelism:literal, $restart:expr, $fresh:expr;)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            enumerate(&$modes, $parallelism, $restart, $fresh, $next).await;
        }
    )*};
}

enumerations! {
    crashes_of_one_subtask: Mode::CRASHES, EACH, 1, RestartStrategy::Never, fresh;
    crashes_of_two_subtasks: Mode::CRASHES, SOME, 2, RestartStrategy::Never, fresh;
    crashes_of_four_subtasks: Mode::CRASHES, SOME, 4, RestartStrategy::Never, fresh;
    errors_end_the_run: Mode::ERRORS, SOME, 1, RestartStrategy::Never, fresh;
    errors_start_the_run_again: Mode::ERRORS, SOME, 2, restarts(), fresh;
    panics_end_the_run: Mode::PANICS, SOME, 2, RestartStrategy::Never, fresh;
    panics_start_the_run_again: Mode::PANICS, SOME, 1, restarts(), fresh;
    crashes_after_a_crash: Mode::CRASHES, SOME, 1, RestartStrategy::Never, async || after_a_crash(1).await;
    crashes_after_a_crash_of_two: Mode::CRASHES, SOME, 2, RestartStrategy::Never, async || after_a_crash(2).await;
    errors_after_a_crash: Mode::ERRORS, SOME, 1, restarts(), async || after_a_crash(1).await;
    panics_after_a_crash: Mode::PANICS, SOME, 2, restarts(), async || after_a_crash(2).await;
}

#[tokio::test(start_paused = true)]
async fn an_abort_that_goes_wrong_is_made_good_by_the_next_run() {
    // Aborts come when a run fails otherwise: a read that fails, with a transaction open.
    for mode in [Mode::ERRORS, Mode::CRASHES, Mode::PANICS].as_flattened() {
        for n in 1..=3 {
            let plan = Plan::at(
                Op::Next,
                12,
                Mode::Error(cofferdam::ErrorKind::Transient, When::Before),
            );
            let plan = plan.and(Op::Abort, n, *mode);
            survive(World::new(), &plan, 2, RestartStrategy::Never).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn recovery_that_dies_time_after_time_converges() {
    for op in [
        Op::CreateTakeover,
        Op::CreateSettled,
        Op::List,
        Op::Read,
        Op::Commit,
        Op::AbortStale,
        Op::Open,
    ] {
        for mode in Mode::CRASHES {
            let world = after_a_crash(2).await;
            for n in [1, 1, 2, 1, 2, 3] {
                let plan = Plan::at(op, n, mode);
                run(world.job(&plan).parallelism(2), &plan).await;
            }
            world.finish(2).await;
            world.check().await;
        }
    }
}

const SPANS: [&str; 14] = [
    "take_over",
    "read_newest",
    "settle",
    "abort_stale",
    "record_settled",
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

async fn crash_at_spans(parallelism: u32, after: bool, next: fn(usize) -> usize) {
    for name in SPANS {
        for when in [When::Before, When::After] {
            let mut times = 0;
            for n in successors(Some(1), |n| Some(next(*n))).take_while(|n| *n < MANY) {
                let world = match after {
                    true => after_a_crash(parallelism).await,
                    false => World::new(),
                };
                let plan = Plan::none();
                let guard = CrashAt::watch(&plan, name, when, n);
                let outcome = run(world.job(&plan).parallelism(parallelism), &plan).await;
                drop(guard);
                if matches!(outcome, Outcome::Crashed) {
                    world.finish(parallelism).await;
                }
                world.check().await;
                if plan.fired() == 0 {
                    break;
                }
                times = n;
            }
            assert!(
                times > 0 || (name == "settle" && !after),
                "{name} was never reached"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn crashes_at_each_step_of_the_protocol() {
    crash_at_spans(1, false, EACH).await;
}

#[tokio::test(start_paused = true)]
async fn crashes_at_each_step_of_the_protocol_in_two_subtasks() {
    crash_at_spans(2, false, SOME).await;
}

#[tokio::test(start_paused = true)]
async fn crashes_at_each_step_after_a_crash() {
    crash_at_spans(1, true, SOME).await;
}

/// Real threads and real time: the order of things is another one each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn crashes_on_many_threads() {
    for op in [
        Op::Write,
        Op::PreCommit,
        Op::CreateState,
        Op::CreateDecision,
        Op::Commit,
        Op::Next,
    ] {
        for mode in Mode::CRASHES {
            for n in [1, 3, 6] {
                let world = World {
                    pause: Duration::from_micros(100),
                    interval: ms(1),
                    ..World::new()
                };
                survive(world, &Plan::at(op, n, mode), 4, RestartStrategy::Never).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_over_a_directory() {
    for op in [
        Op::CreateState,
        Op::CreateDecision,
        Op::CreateTakeover,
        Op::Delete,
        Op::Commit,
    ] {
        for mode in [Mode::CRASHES, Mode::ERRORS].as_flattened() {
            let folder = tempfile::tempdir().unwrap();
            let open = || Arc::new(DirectoryCheckpointStore::open(folder.path()).unwrap());
            let world = World {
                pause: ms(1),
                interval: ms(2),
                store: open(),
                ..World::new()
            };
            let plan = Plan::at(op, 2, *mode);
            run(world.job(&plan).parallelism(2), &plan).await;
            // Another process: nothing but the folder is left of the store.
            let world = World {
                store: open(),
                ..world
            };
            world.finish(2).await;
            world.check().await;
        }
    }
}
