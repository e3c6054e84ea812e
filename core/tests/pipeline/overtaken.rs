//! A process that is overtaken in mid-recovery says so, whatever it finds gone; and damage is not taken for that.

use std::future::pending;
use std::time::Duration;

use cofferdam::memory::MemorySource;
use cofferdam::{
    CheckpointError, ErrorKind, Job, JobEnd, JobError, JobId, TwoPhaseCommitSinkFunction,
};

use crate::faults::after_a_crash;
use crate::plan::{Mode, Op, Plan, When};
use crate::world::{Event, Outcome, World, run};

type Memory = World<MemorySource<Event>>;

/// What a process asks before it goes on.
const RECOVERY: [Op; 9] = [
    Op::CreateTakeover,
    Op::CreateSettled,
    Op::Read,
    Op::List,
    Op::Delete,
    Op::Commit,
    Op::AbortStale,
    Op::Splits,
    Op::Open,
];
/// About as many calls of one operation as a recovery makes.
const CALLS: usize = 6;

/// A job that has died with state, and with transactions to settle and to abort.
async fn world() -> Memory {
    World {
        alone: false,
        ..after_a_crash(2).await
    }
}

/// Keeps as little as it may: so what others have read about is soon gone.
fn job(world: &Memory, plan: &Plan) -> Job {
    world.job(plan).parallelism(2).retained_checkpoints(1)
}

/// Holds a process at a call of its recovery, until its successor has come as far as the plan `reaches` says, or to its
/// end. Gives both ends; `None` if the process has no such call.
async fn overtake(
    world: &Memory,
    held: &Plan,
    reaches: Option<&Plan>,
) -> Option<(Outcome, Outcome)> {
    let zombie = async {
        let outcome = run(job(world, held), held).await;
        if let Some(reaches) = reaches {
            reaches.release();
        }
        outcome
    };
    let successor = async {
        held.reached().await;
        let none = Plan::none();
        let works = run(job(world, reaches.unwrap_or(&none)), &none);
        let wake = async {
            if let Some(reaches) = reaches {
                reaches.reached().await;
                held.release();
            }
            pending().await
        };
        let outcome = tokio::select! {
            outcome = works => outcome,
            never = wake => never,
        };
        held.release();
        outcome
    };
    tokio::select! {
        biased;
        ends = async { tokio::join!(zombie, successor) } => Some(ends),
        () = tokio::time::sleep(Duration::from_secs(120)) => {
            assert_eq!(held.fired(), 0);
            None
        }
    }
}

/// Every call of recovery, before and after its effect; `look` says whether both ended as they should.
async fn each_call(reaches: impl Fn() -> Option<Plan>, look: impl Fn(&Outcome, &Outcome) -> bool) {
    for op in RECOVERY {
        for when in [When::Before, When::After] {
            let mut times = 0;
            // A second settled record is written at the end of a run.
            let calls = if op == Op::CreateSettled { 1 } else { CALLS };
            for n in 1..=calls {
                let (world, held) = (world().await, Plan::at(op, n, Mode::Hold(when)));
                let Some((zombie, successor)) = overtake(&world, &held, reaches().as_ref()).await
                else {
                    break;
                };
                let well = look(&zombie, &successor);
                assert!(well, "{op:?} {n} {when:?}: {zombie:?}, {successor:?}");
                times = n;
                let last = run(job(&world, &Plan::none()), &Plan::none()).await;
                assert_eq!(last.end(), Some(JobEnd::AlreadyComplete), "{last:?}");
                world.check().await;
            }
            assert!(times > 0, "{op:?} was never reached");
        }
    }
}

fn fenced(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Ended(Err(error)) if error.is_fenced())
}

#[tokio::test(start_paused = true)]
async fn whoever_wakes_in_recovery_after_the_job_is_done_finds_no_damage() {
    each_call(
        || None,
        |zombie, successor| {
            successor.end() == Some(JobEnd::Completed)
                && (fenced(zombie) || zombie.end() == Some(JobEnd::AlreadyComplete))
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn whoever_wakes_in_recovery_while_another_works_finds_no_damage() {
    each_call(
        || Some(Plan::at(Op::CreateDecision, 4, Mode::Hold(When::Before))),
        // Held before it took its epoch, it is the one that takes over.
        |zombie, successor| match zombie.end() {
            Some(JobEnd::Completed) => fenced(successor),
            _ => fenced(zombie) && successor.end() == Some(JobEnd::Completed),
        },
    )
    .await;
}

/// What a sink says to whoever is overtaken is for its successor to judge; said to the one that runs, it stands.
#[tokio::test(start_paused = true)]
async fn a_sink_that_refuses_is_blamed_by_the_newest_epoch_alone() {
    for (asleep, op) in [
        (Op::Delete, Op::Commit),
        (Op::Delete, Op::AbortStale),
        (Op::Next, Op::Begin),
    ] {
        let refused = Mode::Error(ErrorKind::Configuration, When::Before);
        let plan = || Plan::at(asleep, 1, Mode::Hold(When::Before)).and(op, 1, refused);
        let (world, held) = (world().await, plan());
        let (zombie, _) = overtake(&world, &held, None).await.unwrap();
        let error = zombie.error();
        assert!(matches!(error, JobError::Fenced { .. }), "{op:?}: {error}");
        assert_eq!(held.fired(), 2, "{op:?}");

        let alone = plan();
        alone.release();
        let error = run(job(&self::world().await, &alone), &alone).await.error();
        let stands = matches!(
            error,
            JobError::CommitRefused { .. } | JobError::AbortStale { .. } | JobError::Sink { .. }
        );
        assert!(stands && !error.is_fenced(), "{op:?}: {error}");
    }
}

/// To start again is to take the job over: a failure that may pass is no reason to take it from a successor.
#[tokio::test(start_paused = true)]
async fn whoever_fails_after_it_was_overtaken_does_not_take_the_job_back() {
    for (asleep, op, mode) in [
        (Op::Delete, Op::Splits, transient()),
        (Op::Next, Op::Begin, transient()),
        (Op::Next, Op::Write, transient()),
        (Op::Next, Op::PreCommit, transient()),
        (Op::Next, Op::Begin, Mode::Panic(When::Before)),
    ] {
        let world = world().await;
        let held = Plan::at(asleep, 1, Mode::Hold(When::Before)).and(op, 1, mode);
        let (zombie, successor) = overtake(&world, &held, None).await.unwrap();
        assert_eq!(successor.end(), Some(JobEnd::Completed), "{op:?}");
        assert!(fenced(&zombie), "{op:?}: {zombie:?}");
        world.check().await;
    }
}

fn transient() -> Mode {
    Mode::Error(ErrorKind::Transient, When::Before)
}

/// Holds a process before its n-th read, deletes all of these objects, and lets it go on.
async fn damaged(read: usize, objects: &str) -> JobError {
    let (world, held) = (
        world().await,
        Plan::at(Op::Read, read, Mode::Hold(When::Before)),
    );
    let damage = async {
        held.reached().await;
        let names = world.store.list(objects).await.unwrap();
        // The newest record is the takeover, and says who holds the job.
        let keep = usize::from(objects == "log/");
        for name in &names[..names.len() - keep] {
            world.store.delete(name).await.unwrap();
        }
        held.release();
    };
    let (outcome, ()) = tokio::join!(run(job(&world, &held), &held), damage);
    outcome.error()
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_without_a_successor_is_damage() {
    // The first two reads are of the log's end, before and after the takeover.
    let decision = damaged(3, "log/").await;
    assert!(
        matches!(
            decision,
            JobError::Checkpoint(CheckpointError::MissingDecision { .. })
        ),
        "{decision}"
    );
    let part = damaged(3, "state/").await;
    assert!(
        matches!(
            part,
            JobError::Checkpoint(CheckpointError::MissingPart { .. })
        ),
        "{part}"
    );
}

/// Whoever can't be told whether it was overtaken does not speak of damage either.
#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_say_who_holds_the_job_is_what_is_reported() {
    let silent = Mode::Error(ErrorKind::Transient, When::Before);
    let world = world().await;
    // Once the checkpoint is recorded as settled, for which the log is listed once more, all that is left to ask of the log is
    // who holds the job. The next read is of state.
    let counted = Plan::at(Op::CreateSettled, 1, Mode::Crash(When::Before));
    run(job(&world, &counted), &counted).await;
    let (lists, reads) = (counted.calls(Op::List), counted.calls(Op::Read));
    let held = Plan::during(Op::List, lists + 2, usize::MAX, silent).and(
        Op::Read,
        reads + 1,
        Mode::Hold(When::Before),
    );
    let (zombie, successor) = overtake(&world, &held, None).await.unwrap();
    assert_eq!(successor.end(), Some(JobEnd::Completed));
    let error = zombie.error();
    let silent = matches!(error, JobError::Checkpoint(CheckpointError::Store(_)));
    assert!(silent && error.is_restartable(), "{error}");
}

/// Fenced at its own next number, a run aborts what it has prepared: no decision will ever name it, and the sweep of its
/// successor has passed.
#[tokio::test(start_paused = true)]
async fn a_run_whose_decision_is_never_written_aborts_what_it_has_prepared() {
    for (op, n) in [
        (Op::Begin, 1),
        (Op::Begin, 2),
        (Op::Write, 1),
        (Op::PreCommit, 1),
        (Op::CreateDecision, 1),
        (Op::CreateDecision, 3),
    ] {
        let world = World {
            alone: false,
            ..World::new()
        };
        let held = Plan::at(op, n, Mode::Hold(When::Before));
        let (zombie, successor) = overtake(&world, &held, None).await.unwrap();
        assert_eq!(successor.end(), Some(JobEnd::Completed), "{op:?} {n}");
        assert!(fenced(&zombie), "{op:?} {n}: {zombie:?}");
        let job = JobId::new("faults").unwrap();
        let left = (
            world.results.in_doubt(&job).await.unwrap(),
            world.late.in_doubt(&job).await.unwrap(),
        );
        assert_eq!(left, (vec![], vec![]), "{op:?} {n}");
        world.check().await;
    }
}
