//! Decisions of which the answer is lost, late or never comes.

use cofferdam::{Epoch, ErrorKind, JobError, RestartStrategy};

use crate::plan::{Mode, Op, Plan, When};
use crate::world::{Outcome, World, ms, run};

const NOT_APPLIED: Mode = Mode::Error(ErrorKind::Transient, When::Before);
const APPLIED: Mode = Mode::Error(ErrorKind::Unknown, When::After);
const FOR_EVER: usize = usize::MAX;

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_decision_costs_no_rollback() {
    for mode in [APPLIED, NOT_APPLIED] {
        for times in [1, 5] {
            let world = World::new();
            let plan = Plan::during(Op::CreateDecision, 2, 1 + times, mode);
            let Outcome::Ended(Ok(report)) = run(world.job(&plan).parallelism(2), &plan).await
            else {
                panic!("it does not end well");
            };
            assert_eq!((report.progress.restarts, plan.fired()), (0, times));
            assert_eq!(plan.calls(Op::CreateTakeover), 1);
            world.check().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_takeover_takes_one_epoch() {
    for mode in [APPLIED, NOT_APPLIED] {
        let world = World::new();
        let plan = Plan::during(Op::CreateTakeover, 1, 3, mode);
        let Outcome::Ended(Ok(report)) = run(world.job(&plan), &plan).await else {
            panic!("it does not end well");
        };
        assert_eq!(report.progress.epoch, Epoch(1));
        world.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_dead_ends_the_job_and_the_next_start_finds_out() {
    for mode in [APPLIED, NOT_APPLIED] {
        let world = World::new();
        let plan = Plan::during(Op::CreateDecision, 3, FOR_EVER, mode);
        let error = run(world.job(&plan).parallelism(2), &plan).await.error();
        assert!(matches!(error, JobError::Checkpoint(_)), "{error}");
        assert_eq!(error.to_string(), "can't reach the store: planned");
        // The decision that was applied is not forgotten: what it names is committed, not aborted.
        let in_doubt = world.job(&Plan::none()).in_doubt().await.unwrap();
        let decided = world.observed.decided();
        let unresolved = in_doubt
            .iter()
            .any(|found| decided.iter().any(|id| found.may_be(id)));
        assert_eq!(unresolved, mode == APPLIED);
        world.finish(2).await;
        world.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_gives_up_on_a_dead_store_after_its_restarts() {
    let world = World::new();
    let plan = Plan::during(Op::CreateDecision, 3, FOR_EVER, NOT_APPLIED);
    let restart = RestartStrategy::FixedDelay {
        restarts: 2,
        delay: ms(1),
    };
    let error = run(world.job(&plan).restart(restart), &plan).await.error();
    assert!(
        matches!(error, JobError::GaveUp { restarts: 2, .. }),
        "{error}"
    );
    world.finish(1).await;
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_is_not_asked_again() {
    let world = World::new();
    let refused = Mode::Error(ErrorKind::Configuration, When::Before);
    let plan = Plan::at(Op::CreateDecision, 2, refused);
    let error = run(world.job(&plan), &plan).await.error();
    assert!(!error.is_restartable(), "{error}");
    assert_eq!(plan.calls(Op::CreateDecision), 2);
    world.finish(1).await;
    world.check().await;
}
