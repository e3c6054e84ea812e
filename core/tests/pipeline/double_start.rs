//! One job, two processes: the older one stops, and changes nothing.

use cofferdam::memory::MemorySource;
use cofferdam::{Epoch, JobEnd, JobError, JobState};

use crate::plan::{Mode, Op, Plan, When};
use crate::world::{Event, Outcome, World, ms, run};

fn world() -> World<MemorySource<Event>> {
    World {
        alone: false,
        ..World::new()
    }
}

/// What an older run leaves when it wakes after its successor's recovery is swept by the next start.
async fn sweep(world: &World<MemorySource<Event>>) {
    world.check_visible();
    let swept = run(world.job(&Plan::none()), &Plan::none()).await;
    assert_eq!(swept.end(), Some(JobEnd::AlreadyComplete));
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn the_older_of_two_stops_and_says_why() {
    for parallelism in [1, 2, 4] {
        let world = world();
        let (old, new) = (Plan::none(), Plan::none());
        let older = world.job(&old).parallelism(parallelism);
        let mut progress = older.handle();
        let successor = async {
            while progress.progress().checkpoint.is_none() {
                assert!(progress.changed().await);
            }
            run(world.job(&new).parallelism(parallelism), &new).await
        };
        let (older, newer) = tokio::join!(run(older, &old), successor);
        let error = older.error();
        assert!(matches!(error, JobError::Fenced { .. }), "{error}");
        assert_eq!(
            error.to_string(),
            "job faults was taken over: this process ran it as epoch 1, and epoch 2 was started since. \
             Nothing is lost; let one process at a time run a job"
        );
        assert_eq!(newer.end(), Some(JobEnd::Completed), "{newer:?}");
        sweep(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn many_starts_at_once_end_in_one_output() {
    let world = world();
    let plan = Plan::none();
    let start = || run(world.job(&plan).parallelism(2), &plan);
    let outcomes: [Outcome; 4] = tokio::join!(start(), start(), start(), start()).into();
    let ended = outcomes.iter().filter_map(Outcome::end).count();
    assert_eq!(ended, 1, "{outcomes:#?}");
    for outcome in outcomes {
        if let Outcome::Ended(Err(error)) = outcome {
            assert!(error.is_fenced(), "{error}");
        }
    }
    sweep(&world).await;
}

const HELD: [Op; 14] = [
    Op::CreateTakeover,
    Op::Read,
    Op::List,
    Op::AbortStale,
    Op::Splits,
    Op::Open,
    Op::Next,
    Op::Begin,
    Op::Write,
    Op::PreCommit,
    Op::CreateState,
    Op::CreateDecision,
    Op::Commit,
    Op::CreateSettled,
];

#[tokio::test(start_paused = true)]
async fn a_zombie_that_wakes_after_its_successor_is_done_changes_nothing() {
    for op in HELD {
        for when in [When::Before, When::After] {
            for n in [1, 2, 5] {
                let world = world();
                let plan = Plan::at(op, n, Mode::Hold(when));
                let zombie = run(world.job(&plan).parallelism(2), &plan);
                let successor = async {
                    plan.reached().await;
                    world.finish(2).await;
                    plan.release();
                };
                tokio::select! {
                    biased;
                    (outcome, ()) = async { tokio::join!(zombie, successor) } => match outcome {
                        // It had committed everything before it was overtaken.
                        Outcome::Ended(Ok(report)) if op == Op::CreateSettled => {
                            assert_eq!(report.end, JobEnd::Completed);
                        }
                        Outcome::Ended(Ok(report)) => assert_eq!(report.end, JobEnd::AlreadyComplete),
                        outcome => {
                            let error = outcome.error();
                            assert!(error.is_fenced(), "{op:?} {when:?} {n}: {error}");
                        }
                    },
                    // It has no n-th call of this kind.
                    () = tokio::time::sleep(ms(120_000)) => assert_eq!(plan.fired(), 0),
                }
                if plan.fired() > 0 {
                    sweep(&world).await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_zombie_that_wakes_while_its_successor_works_changes_nothing() {
    for op in [
        Op::Write,
        Op::PreCommit,
        Op::CreateState,
        Op::CreateDecision,
        Op::Commit,
    ] {
        for when in [When::Before, When::After] {
            let world = world();
            let old = Plan::at(op, 3, Mode::Hold(when));
            let new = Plan::at(Op::PreCommit, 2, Mode::Hold(When::After));
            let zombie = async {
                let outcome = run(world.job(&old).parallelism(2), &old).await;
                new.release();
                outcome
            };
            let successor = async {
                old.reached().await;
                let wake = async {
                    new.reached().await;
                    old.release();
                };
                tokio::join!(run(world.job(&new).parallelism(2), &new), wake).0
            };
            let (zombie, successor) = tokio::join!(zombie, successor);
            let error = zombie.error();
            assert!(error.is_fenced(), "{op:?} {when:?}: {error}");
            assert_eq!(successor.end(), Some(JobEnd::Completed), "{successor:?}");
            sweep(&world).await;
        }
    }
}

/// The older run prepares after its successor's recovery has looked, and dies.
#[tokio::test(start_paused = true)]
async fn what_an_older_run_prepares_late_is_swept_while_the_newer_one_works() {
    let slow = || World {
        pause: ms(900),
        interval: ms(2000),
        ..world()
    };
    let dies = Mode::Crash(When::Before);
    let counted = Plan::at(Op::PreCommit, 1, dies);
    run(slow().job(&counted), &counted).await;
    let next = counted.calls(Op::CreateDecision) + 1;
    let world = slow();
    let old = Plan::at(Op::PreCommit, 1, Mode::Hold(When::Before));
    let old = old.and(Op::CreateDecision, next, dies);
    // An error that passes does not end the sweep.
    let new = Plan::at(Op::AbortStale, 3, Mode::ERRORS[0]);
    let left_by_the_older = async || {
        let mut left = world.job(&Plan::none()).in_doubt().await.unwrap();
        left.retain(|found| found.epoch == Epoch(1));
        left.len()
    };
    let successor = async {
        old.reached().await;
        let job = world.job(&new);
        let mut handle = job.handle();
        let look = async {
            while handle.progress().state != JobState::Running {
                assert!(handle.changed().await);
            }
            old.release();
            old.crashed().await;
            assert!(left_by_the_older().await > 0);
            while left_by_the_older().await > 0 {
                assert_eq!(handle.progress().state, JobState::Running);
                tokio::time::sleep(ms(100)).await;
            }
        };
        tokio::join!(run(job, &new), look).0
    };
    let (older, newer) = tokio::join!(run(world.job(&old), &old), successor);
    assert!(matches!(older, Outcome::Crashed), "{older:?}");
    assert_eq!(newer.end(), Some(JobEnd::Completed), "{newer:?}");
    assert_eq!(new.fired(), 1);
    world.check().await;
}
