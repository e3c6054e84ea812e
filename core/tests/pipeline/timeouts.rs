//! Checkpoints that take too long, and sinks that hold one prepared transaction only.

use cofferdam::{JobEnd, JobError, RestartStrategy};

use crate::plan::{Mode, Op, Plan, When};
use crate::world::{Outcome, World, ms, run};

const TIMEOUT: i64 = 20;

#[tokio::test(start_paused = true)]
async fn what_a_late_checkpoint_prepared_rides_with_the_next() {
    for op in [Op::PreCommit, Op::CreateState] {
        for (when, parallelism) in [(When::Before, 1), (When::After, 2)] {
            let world = World::new();
            let plan = Plan::at(op, 2, Mode::Hold(when));
            let job = world.job(&plan).parallelism(parallelism);
            let job = job.checkpoint_timeout(ms(TIMEOUT));
            let slow = async {
                plan.reached().await;
                // Longer than one time-out, shorter than what is tolerated.
                tokio::time::sleep(ms(2 * TIMEOUT)).await;
                plan.release();
            };
            let (outcome, ()) = tokio::join!(run(job, &plan), slow);
            let Outcome::Ended(Ok(report)) = outcome else {
                panic!("{op:?}: {outcome:?}");
            };
            assert_eq!(
                (report.end, report.progress.restarts),
                (JobEnd::Completed, 0)
            );
            world.check().await;
            // State of the dropped checkpoint is removed while the job runs. A vote on it that is held until after the
            // last decision leaves its state to the next recovery.
            if op == Op::PreCommit {
                assert_eq!(world.unnamed_state().await, [""; 0]);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_late_checkpoints_roll_the_job_back() {
    let world = World::new();
    let plan = Plan::at(Op::PreCommit, 2, Mode::Hold(When::After));
    let job = world.job(&plan).checkpoint_timeout(ms(TIMEOUT));
    let error = run(job.tolerable_checkpoint_failures(1), &plan)
        .await
        .error();
    assert!(matches!(error, JobError::RolledBack(_)), "{error}");
    assert!(
        error.to_string().contains("dropped number 2 in a row"),
        "{error}"
    );
    world.finish(1).await;
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_holds_one_prepared_transaction_is_given_one() {
    for parallelism in [1, 2, 4] {
        let world = World {
            max_prepared: Some(1),
            ..World::new()
        };
        // Slow commits: the next barrier has to wait for them.
        let plan = Plan::during(Op::Commit, 1, 4, Mode::ERRORS[0]);
        let outcome = run(world.job(&plan).parallelism(parallelism), &plan).await;
        assert_eq!(outcome.end(), Some(JobEnd::Completed));
        world.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_checkpoint_of_such_a_sink_rolls_the_job_back() {
    let world = World {
        max_prepared: Some(1),
        ..World::new()
    };
    let plan = Plan::at(Op::PreCommit, 2, Mode::Hold(When::After));
    let restart = RestartStrategy::FixedDelay {
        restarts: 1,
        delay: ms(1),
    };
    let job = world
        .job(&plan)
        .checkpoint_timeout(ms(TIMEOUT))
        .restart(restart);
    let slow = async {
        plan.reached().await;
        tokio::time::sleep(ms(2 * TIMEOUT)).await;
        plan.release();
    };
    let (outcome, ()) = tokio::join!(run(job, &plan), slow);
    let Outcome::Ended(Ok(report)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(report.progress.restarts, 1);
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn such_a_sink_survives_crashes() {
    for op in [Op::PreCommit, Op::CreateDecision, Op::Commit] {
        for mode in Mode::CRASHES {
            for n in 1..12 {
                let world = World {
                    max_prepared: Some(1),
                    ..World::new()
                };
                let plan = Plan::at(op, n, mode);
                run(world.job(&plan).parallelism(2), &plan).await;
                world.finish(2).await;
                world.check().await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_last_checkpoint_is_waited_for() {
    for max_prepared in [None, Some(1)] {
        let world = World {
            max_prepared,
            // No other checkpoint but the last.
            interval: ms(10_000),
            ..World::new()
        };
        let plan = Plan::at(Op::PreCommit, 1, Mode::Hold(When::Before));
        let job = world.job(&plan).checkpoint_timeout(ms(TIMEOUT));
        let slow = async {
            plan.reached().await;
            tokio::time::sleep(ms(2 * TIMEOUT + 1)).await;
            plan.release();
        };
        let (outcome, ()) = tokio::join!(run(job, &plan), slow);
        assert_eq!(outcome.end(), Some(JobEnd::Completed), "{outcome:?}");
        world.check().await;
        // And not for ever.
        let world = World {
            interval: ms(10_000),
            ..World::new()
        };
        let plan = Plan::at(Op::PreCommit, 1, Mode::Hold(When::Before));
        let job = world.job(&plan).checkpoint_timeout(ms(TIMEOUT));
        let error = run(job, &plan).await.error();
        assert!(
            error.to_string().contains("waited for 4 times in a row"),
            "{error}"
        );
        world.finish(1).await;
        world.check().await;
    }
}
