//! Starting, stopping, starting again.

use std::time::Duration;

use cofferdam::memory::{MemorySink, MemorySource};
use cofferdam::{
    ErrorKind, EventTime, JobEnd, JobError, MemoryCheckpointStore, NoEventTime, Pipeline,
    RestartStrategy, Timestamp, Windows, count,
};
use tokio::time::Instant;

use crate::plan::{Mode, Op, Plan, When};
use crate::rows::{Row, Rows};
use crate::world::{Event, Outcome, World, ms, run};
use crate::wrappers::FaultySource;

const FAILS: Mode = Mode::Error(ErrorKind::Transient, When::Before);

#[tokio::test(start_paused = true)]
async fn stop_makes_a_last_checkpoint_and_commits_it() {
    for parallelism in [1, 2, 4] {
        let world = World {
            interval: ms(100_000),
            ..World::new()
        };
        let plan = Plan::at(Op::Next, 8, Mode::Hold(When::Before));
        let job = world.job(&plan).parallelism(parallelism);
        let handle = job.handle();
        let stop = async {
            plan.reached().await;
            handle.stop();
            handle.stop();
            plan.release();
        };
        let (outcome, ()) = tokio::join!(run(job, &plan), stop);
        assert_eq!(outcome.end(), Some(JobEnd::Stopped));
        let in_doubt = world.job(&plan).in_doubt().await.unwrap();
        assert!(in_doubt.is_empty(), "{in_doubt:?}");
        let read = plan.calls(Op::Next);
        world.finish(parallelism).await;
        world.check().await;
        assert!(read < 14, "stopped far from the end");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_counts_what_is_in_doubt() {
    let world = World::new();
    let plan = Plan::during(Op::Commit, 1, 1000, Mode::Hold(When::Before));
    let job = world.job(&plan).parallelism(2);
    let handle = job.handle();
    let look = async {
        plan.reached().await;
        // Until so much waits for its commit that no more checkpoints are begun.
        tokio::time::sleep(ms(100)).await;
        let listed = world.job(&Plan::none()).in_doubt().await.unwrap();
        let counted = handle.progress().in_doubt;
        plan.release();
        (listed.len(), counted)
    };
    let (outcome, (listed, counted)) = tokio::join!(run(job, &plan), look);
    assert!(listed > 2, "{listed}");
    assert_eq!(counted, listed);
    assert_eq!(outcome.end(), Some(JobEnd::Completed));
    assert_eq!(handle.progress().in_doubt, 0);
}

#[tokio::test(start_paused = true)]
async fn stop_now_leaves_at_once_and_loses_nothing() {
    // Also while a sink hangs, and also after stop.
    for (op, first) in [
        (Op::PreCommit, false),
        (Op::Commit, true),
        (Op::Write, true),
        (Op::AbortStale, false),
    ] {
        let world = World::new();
        let plan = Plan::at(op, 1, Mode::Hold(When::Before));
        let job = world.job(&plan);
        let handle = job.handle();
        let stop = async {
            plan.reached().await;
            if first {
                handle.stop();
                tokio::task::yield_now().await;
            }
            handle.stop_now();
        };
        let begun = Instant::now();
        let (outcome, ()) = tokio::join!(run(job, &plan), stop);
        assert_eq!(outcome.end(), Some(JobEnd::Left));
        assert!(begun.elapsed() < Duration::from_secs(1));
        world.finish(1).await;
        world.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_completed_job_does_nothing_when_it_is_started_again() {
    let world = World::new();
    world.finish(2).await;
    let plan = Plan::none();
    let job = world.job(&plan).parallelism(3);
    let Outcome::Ended(Ok(report)) = run(job, &plan).await else {
        panic!("it does not end well");
    };
    assert_eq!(report.end, JobEnd::AlreadyComplete);
    assert_eq!(report.progress.count("events", "records"), 4 * 192);
    // Its last transactions are settled again: a process that died before it heard of their commit can't know.
    for op in [
        Op::Begin,
        Op::Write,
        Op::PreCommit,
        Op::CreateDecision,
        Op::Next,
    ] {
        assert_eq!(plan.calls(op), 0, "{op:?}");
    }
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_may_not_start_again_ends_with_its_first_failure() {
    let world = World::new();
    let plan = Plan::at(Op::Next, 5, FAILS);
    let error = run(world.job(&plan), &plan).await.error();
    assert!(matches!(error, JobError::Source { .. }), "{error}");
    assert_eq!(error.to_string(), "source events: planned");
}

#[tokio::test(start_paused = true)]
async fn restarts_wait_as_they_are_told_to() {
    let fixed = RestartStrategy::FixedDelay {
        restarts: 4,
        delay: ms(1000),
    };
    let doubling = RestartStrategy::ExponentialBackoff {
        restarts: 4,
        first: ms(1000),
        limit: ms(3000),
    };
    for (restart, waits) in [(fixed, 4), (doubling, 1 + 2 + 3 + 3)] {
        let world = World::new();
        let plan = Plan::during(Op::Open, 1, 4, FAILS);
        let begun = Instant::now();
        let Outcome::Ended(Ok(report)) =
            run(world.job(&plan).restart(restart.clone()), &plan).await
        else {
            panic!("it does not end well");
        };
        assert_eq!(
            (report.end, report.progress.restarts),
            (JobEnd::Completed, 4)
        );
        assert_eq!(begun.elapsed().as_secs(), waits);
        world.check().await;
        let plan = Plan::during(Op::Open, 1, 5, FAILS);
        let world = World::new();
        let error = run(world.job(&plan).restart(restart), &plan).await.error();
        assert!(
            matches!(error, JobError::GaveUp { restarts: 4, .. }),
            "{error}"
        );
        assert!(
            error.to_string().ends_with("source events: planned"),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_starts_the_count_of_restarts_anew() {
    // Five failures, each behind a checkpoint of its own: one restart in a row is enough.
    let world = World::new();
    let mut plan = Plan::none();
    for n in [4, 8, 12, 16, 20] {
        plan = plan.and(Op::Next, n, FAILS);
    }
    let restart = RestartStrategy::FixedDelay {
        restarts: 1,
        delay: ms(1),
    };
    let Outcome::Ended(Ok(report)) = run(world.job(&plan).restart(restart), &plan).await else {
        panic!("it does not end well");
    };
    assert_eq!(report.progress.restarts, 5);
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn what_fails_again_is_not_started_again() {
    for kind in [ErrorKind::Rejected, ErrorKind::Configuration] {
        for op in [
            Op::Begin,
            Op::Write,
            Op::PreCommit,
            Op::AbortStale,
            Op::Next,
        ] {
            let world = World::new();
            let plan = Plan::at(op, 1, Mode::Error(kind, When::Before));
            let error = run(world.job(&plan).restart(RestartStrategy::default()), &plan)
                .await
                .error();
            assert!(!error.is_restartable(), "{error}");
            assert_eq!(plan.calls(Op::CreateTakeover), 1, "{op:?} {kind:?}");
            world.finish(1).await;
            world.check().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_function_of_the_pipeline_is_a_failure() {
    let job = |restart| {
        Pipeline::new("panics")
            .source("numbers", MemorySource::new([vec![1, 2, 3]]), NoEventTime)
            .map(|number: u32| {
                if number == 2 {
                    panic!("two is too many")
                } else {
                    number
                }
            })
            .sink("sink", MemorySink::new())
            .job(MemoryCheckpointStore::new())
            .restart(restart)
    };
    let error = job(RestartStrategy::Never).run().await.unwrap_err();
    assert_eq!(error.to_string(), "a subtask panicked: two is too many");
    let delay = ms(1);
    let gave_up = RestartStrategy::FixedDelay { restarts: 1, delay };
    let error = job(gave_up).run().await.unwrap_err();
    assert!(
        matches!(error, JobError::GaveUp { restarts: 1, .. }),
        "{error}"
    );
    // The same record would end it again.
    let error = job(RestartStrategy::default()).run().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the same failure 3 times in a row, without a checkpoint between them, so the job does not start again: \
         a subtask panicked: two is too many"
    );
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_without_records_asks_nothing_of_the_sink() {
    let world = World::new();
    let sink = MemorySink::new();
    let plan = Plan::none();
    let source = FaultySource {
        inner: world.source.clone(),
        plan: plan.clone(),
        pause: ms(2),
    };
    let job = Pipeline::new("faults")
        .source("events", source, NoEventTime)
        .filter(|_| false)
        .sink("nothing", world.faulty(&sink, &plan))
        .job(world.store(&plan))
        .checkpoint_interval(ms(3));
    assert_eq!(run(job, &plan).await.end(), Some(JobEnd::Completed));
    assert!(plan.calls(Op::CreateDecision) > 3);
    for op in [Op::Begin, Op::PreCommit, Op::Commit] {
        assert_eq!(plan.calls(op), 0, "{op:?}");
    }
    assert!(world.observed.decided().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_slow_sink_holds_the_source_back() {
    const BATCH: usize = 100;
    let row = |id| {
        Row::Record(Event {
            id,
            key: 1,
            at: i64::from(id),
        })
    };
    let rows = Rows::new(vec![(0..100_000).map(row).collect()], BATCH);
    for parallelism in [1, 4] {
        let plan = Plan::at(Op::Write, 1, Mode::Hold(When::Before));
        let world = World::over(rows.clone(), Vec::new(), crate::world::TUMBLING);
        let (sink, source) = (
            MemorySink::new(),
            FaultySource {
                inner: rows.clone(),
                plan: plan.clone(),
                pause: ms(1),
            },
        );
        let job = Pipeline::new("faults")
            .source(
                "rows",
                source,
                EventTime::of(|row: &Event| Timestamp::from_millis(row.at)),
            )
            .key_by(|row| row.key)
            // A result for each record.
            .window(Windows::tumbling(ms(1)))
            .aggregate("each", count())
            .map(|window| window.start.as_millis())
            .sink("slow", world.faulty(&sink, &plan))
            .job(world.store(&plan))
            .parallelism(parallelism)
            .checkpoint_interval(ms(3_000_000));
        let held = async {
            plan.reached().await;
            // The clock moves only when all wait.
            tokio::time::sleep(ms(100_000)).await;
            let read = plan.calls(Op::Next) * BATCH;
            plan.release();
            read
        };
        let (outcome, read) = tokio::join!(run(job, &plan), held);
        assert_eq!(outcome.end(), Some(JobEnd::Completed));
        // What fits into the sink's batch, a channel, and hands.
        assert!(read < 1024 + 12 * BATCH, "{read} records were read");
        assert_eq!(sink.visible().len(), 100_000);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_makes_its_first_checkpoint_early() {
    let rows = Rows {
        endless: true,
        ..Rows::new(vec![Vec::new()], 1)
    };
    let world = World {
        interval: ms(8_000),
        ..World::over(rows, Vec::new(), crate::world::TUMBLING)
    };
    for first in [ms(8_000), ms(2_000)] {
        let plan = Plan::none();
        let job = world.job(&plan);
        let handle = job.handle();
        let begun = Instant::now();
        let decided = async {
            while plan.calls(Op::CreateDecision) == 0 {
                tokio::time::sleep(ms(1)).await;
            }
            handle.stop();
            begun.elapsed()
        };
        let (outcome, after) = tokio::join!(run(job, &plan), decided);
        assert_eq!(outcome.end(), Some(JobEnd::Stopped));
        assert!((first..first + ms(100)).contains(&after), "{after:?}");
    }
}
