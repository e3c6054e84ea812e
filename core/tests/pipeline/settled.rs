//! What is recorded as settled is not asked about again, whatever has become of its evidence.

use cofferdam::memory::{MemorySink, MemorySource};
use cofferdam::{ErrorKind, JobEnd, JobError, TransactionId};

use crate::plan::{HOUR, Mode, Op, Plan, When};
use crate::world::{Event, Outcome, World, ms, run};

type Memory = World<MemorySource<Event>>;

const REFUSED: Mode = Mode::Error(ErrorKind::Configuration, When::Before);
const AWAY: Mode = Mode::Error(ErrorKind::Transient, When::Before);

/// The same job and checkpoints, but the outside systems have forgotten everything: evidence, and visible output.
fn forgotten(world: &Memory) -> Memory {
    World {
        results: MemorySink::new(),
        late: MemorySink::new(),
        ..world.clone()
    }
}

/// Runs the job until it has decided some checkpoints, and stops it.
async fn stopped() -> Memory {
    let world = World::new();
    let plan = Plan::at(Op::Next, 8, Mode::Hold(When::Before));
    let job = world.job(&plan).parallelism(2);
    let handle = job.handle();
    let stop = async {
        plan.reached().await;
        handle.stop();
        plan.release();
    };
    let (outcome, ()) = tokio::join!(run(job, &plan), stop);
    assert_eq!(outcome.end(), Some(JobEnd::Stopped));
    assert!(plan.calls(Op::Commit) > 0, "something was committed");
    world
}

#[tokio::test(start_paused = true)]
async fn a_completed_job_starts_again_without_its_evidence() {
    let world = World::new();
    world.finish(2).await;
    world.check().await;
    for parallelism in [1, 2, 4] {
        let (world, plan) = (forgotten(&world), Plan::none());
        let outcome = run(world.job(&plan).parallelism(parallelism), &plan).await;
        assert_eq!(outcome.end(), Some(JobEnd::AlreadyComplete), "{outcome:?}");
        assert_eq!(plan.calls(Op::Commit), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_completed_job_does_not_depend_on_its_outside_systems() {
    let world = World::new();
    world.finish(2).await;
    for mode in [AWAY, REFUSED] {
        let plan = Plan::during(Op::AbortStale, 1, usize::MAX, mode);
        let begun = tokio::time::Instant::now();
        let outcome = run(world.job(&plan), &plan).await;
        assert_eq!(outcome.end(), Some(JobEnd::AlreadyComplete), "{outcome:?}");
        assert!(begun.elapsed() < HOUR / 60, "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_stopped_goes_on_without_its_evidence() {
    let world = stopped().await;
    let (before, plan) = (world.results.visible().len(), Plan::none());
    let world = forgotten(&world);
    // Dies before it has committed anything of its own.
    let plan = plan.and(Op::PreCommit, 1, Mode::Crash(When::Before));
    let outcome = run(world.job(&plan).parallelism(2), &plan).await;
    assert!(matches!(outcome, Outcome::Crashed), "{outcome:?}");
    assert_eq!(plan.calls(Op::Commit), 0);
    world.finish(2).await;
    let all = crate::world::expected(&world.events, world.shape).0.len();
    assert_eq!(before + world.results.visible().len(), all);
}

/// A crash between a decision and its commits: recovery commits, records that, and the start after it asks nothing.
#[tokio::test(start_paused = true)]
async fn what_recovery_has_settled_is_not_settled_by_the_next_one() {
    let world = World::new();
    let plan = Plan::at(Op::Commit, 3, Mode::Crash(When::Before));
    run(world.job(&plan).parallelism(2), &plan).await;
    let plan = Plan::at(Op::Splits, 1, Mode::Crash(When::Before));
    run(world.job(&plan).parallelism(2), &plan).await;
    assert!(plan.calls(Op::Commit) > 0);
    let world = forgotten(&world);
    let plan = Plan::at(Op::Splits, 1, Mode::Crash(When::Before));
    let outcome = run(world.job(&plan).parallelism(2), &plan).await;
    assert!(matches!(outcome, Outcome::Crashed), "{outcome:?}");
    assert_eq!(plan.calls(Op::Commit), 0);
}

/// A job that dies after its last commit, and before the log says so, finds everything committed.
#[tokio::test(start_paused = true)]
async fn a_crash_before_the_record_leaves_a_job_that_settles_again() {
    for when in [When::Before, When::After] {
        let world = World::new();
        let plan = Plan::at(Op::CreateSettled, 1, Mode::Crash(when));
        run(world.job(&plan).parallelism(2), &plan).await;
        let plan = Plan::none();
        let outcome = run(world.job(&plan).parallelism(2), &plan).await;
        assert_eq!(outcome.end(), Some(JobEnd::AlreadyComplete), "{outcome:?}");
        assert_eq!(plan.calls(Op::Commit) > 0, when == When::Before);
        world.check().await;
    }
}

/// Each kind of commit that can't be done for good is accepted by name, and once.
#[tokio::test(start_paused = true)]
async fn a_loss_is_accepted_once_also_of_what_the_sink_refuses_to_judge() {
    let world = World::new();
    let plan = Plan::at(Op::Commit, 2, REFUSED);
    let refused = run(world.job(&plan), &plan).await.error();
    let (text, accepted) = (refused.to_string(), transaction(&refused));
    assert!(text.contains("accept its loss by name"), "{text}");
    world.observed.accept(&accepted);
    // The first that recovery settles is the one that was refused; it is refused again, and accepted.
    let plan = Plan::at(Op::Commit, 1, REFUSED).and(Op::Splits, 1, Mode::Crash(When::Before));
    let job = world.job(&plan).accept_loss(accepted.clone());
    let outcome = run(job, &plan).await;
    assert!(matches!(outcome, Outcome::Crashed), "{outcome:?}");
    // What was left of it is aborted, and not kept for ever.
    let in_doubt = world.job(&Plan::none()).in_doubt().await.unwrap();
    assert!(!in_doubt.iter().any(|found| found.may_be(&accepted)));
    let outcome = run(world.job(&Plan::none()), &Plan::none()).await;
    assert_eq!(outcome.end(), Some(JobEnd::Completed), "{outcome:?}");
}

fn transaction(refused: &JobError) -> TransactionId {
    match refused {
        JobError::CommitRefused { transaction, .. } => transaction.clone(),
        other => panic!("{other}"),
    }
}

/// A run that is overtaken while it records its end has committed everything, and says so.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_overtaken_at_its_very_end_is_completed() {
    let world = World {
        interval: ms(100_000),
        alone: false,
        ..World::new()
    };
    let plan = Plan::at(Op::CreateSettled, 1, Mode::Hold(When::Before));
    let overtaken = async {
        plan.reached().await;
        let successor = run(world.job(&Plan::none()), &Plan::none()).await;
        assert_eq!(successor.end(), Some(JobEnd::AlreadyComplete));
        plan.release();
    };
    let (outcome, ()) = tokio::join!(run(world.job(&plan), &plan), overtaken);
    assert_eq!(outcome.end(), Some(JobEnd::Completed), "{outcome:?}");
    world.check().await;
}
