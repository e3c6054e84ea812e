//! What follows from a failure: a restart, or an end, and with which error.

use std::time::Duration;

use cofferdam::memory::MemorySource;
use cofferdam::{ErrorKind, Job, JobEnd, JobError, JobState, RestartStrategy};
use tokio::time::{Instant, sleep};

use crate::plan::{Mode, Op, Plan, When};
use crate::world::{Event, Outcome, World, ms, run};

type Memory = World<MemorySource<Event>>;

const FENCED: Mode = Mode::Error(ErrorKind::Fenced, When::Before);
const FAILS: Mode = Mode::Error(ErrorKind::Transient, When::Before);

fn once(delay: Duration) -> RestartStrategy {
    RestartStrategy::FixedDelay { restarts: 3, delay }
}

/// As after a suspended laptop: what was open has expired, and the log knows of no newer epoch.
#[tokio::test(start_paused = true)]
async fn a_sink_that_says_fenced_while_this_epoch_holds_the_job_rolls_it_back() {
    for op in [Op::Begin, Op::Write, Op::PreCommit, Op::Commit] {
        for n in [1, 3] {
            let world = World::new();
            let plan = Plan::at(op, n, FENCED);
            let outcome = run(world.job(&plan).restart(once(ms(1))), &plan).await;
            let Outcome::Ended(Ok(report)) = outcome else {
                panic!("{op:?} {n}: {outcome:?}");
            };
            let ended = (report.end, report.progress.restarts);
            assert_eq!(ended, (JobEnd::Completed, 1), "{op:?} {n}");
            world.check().await;
        }
    }
}

/// Then the log is older than what the sink has seen. Each restart would raise the epoch, until it passes that one.
#[tokio::test(start_paused = true)]
async fn a_sink_that_says_fenced_to_a_recovery_ends_the_job() {
    let world = World::new();
    let plan = Plan::during(Op::AbortStale, 1, usize::MAX, FENCED);
    let error = run(world.job(&plan).restart(once(ms(1))), &plan)
        .await
        .error();
    assert!(matches!(error, JobError::AbortStale { .. }), "{error}");
    assert!(!error.is_fenced() && !error.is_restartable(), "{error}");
    assert_eq!(plan.calls(Op::CreateTakeover), 1);
}

fn competing() -> Memory {
    World {
        alone: false,
        interval: ms(30),
        pause: ms(20),
        ..World::new()
    }
}

/// Two replicas, of which the first fails while the second starts: it does not take the job back.
#[tokio::test(start_paused = true)]
async fn a_job_that_was_taken_over_in_its_restart_delay_does_not_take_the_job_back() {
    let world = competing();
    let (fails, none) = (Plan::at(Op::Write, 2, FAILS), Plan::none());
    let first = world.job(&fails).restart(once(Duration::from_secs(5)));
    let mut handle = first.handle();
    let second = async {
        while handle.progress().state != JobState::Restarting {
            assert!(handle.changed().await);
        }
        // Longer than the delay: it still runs when the first wakes.
        let slow = World {
            interval: ms(3000),
            pause: ms(900),
            ..world.clone()
        };
        run(slow.job(&none).restart(once(ms(1))), &none).await
    };
    let (first, second) = tokio::join!(run(first, &fails), second);
    assert!(first.error().is_fenced());
    assert_eq!(second.end(), Some(JobEnd::Completed), "{second:?}");
    assert_eq!(fails.calls(Op::CreateTakeover), 1);
    world.check_visible();
}

fn waiting(world: &Memory, plan: &Plan) -> Job {
    world.job(plan).standby(Duration::from_secs(30))
}

#[tokio::test(start_paused = true)]
async fn a_standby_waits_while_the_holder_works_and_takes_over_once_it_is_silent() {
    let world = competing();
    // The holder dies in the middle.
    let dies = Plan::at(Op::CreateDecision, 5, Mode::Crash(When::Before));
    let none = Plan::none();
    let standby = waiting(&world, &none);
    let handle = standby.handle();
    let holder = async {
        let outcome = run(world.job(&dies), &dies).await;
        assert!(matches!(outcome, Outcome::Crashed), "{outcome:?}");
        let died = Instant::now();
        assert_eq!(handle.progress().state, JobState::Standby);
        sleep(Duration::from_secs(29)).await;
        assert_eq!(handle.progress().state, JobState::Standby);
        assert_eq!(none.calls(Op::CreateTakeover), 0);
        died
    };
    let late = async {
        // So that the holder is the first.
        sleep(ms(1)).await;
        run(standby, &none).await
    };
    let (died, standby) = tokio::join!(holder, late);
    assert_eq!(standby.end(), Some(JobEnd::Completed), "{standby:?}");
    assert!(died.elapsed() < Duration::from_secs(60));
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_standby_starts_at_once_where_no_process_has_held_the_job() {
    let world = World::new();
    let begun = Instant::now();
    let outcome = run(waiting(&world, &Plan::none()), &Plan::none()).await;
    assert_eq!(outcome.end(), Some(JobEnd::Completed));
    assert!(begun.elapsed() < Duration::from_secs(5));
    // Of a job that is complete it says so, and settles it first.
    let outcome = run(waiting(&world, &Plan::none()), &Plan::none()).await;
    assert_eq!(outcome.end(), Some(JobEnd::AlreadyComplete));
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_standby_at_once_also_while_the_store_hangs() {
    for hangs in [false, true] {
        let world = World::new();
        world.finish(1).await;
        let plan = match hangs {
            true => Plan::during(Op::List, 2, usize::MAX, Mode::Hold(When::Before)),
            false => Plan::none(),
        };
        let job = waiting(&world, &plan);
        let handle = job.handle();
        let stop = async {
            sleep(Duration::from_secs(10)).await;
            handle.stop();
            Instant::now()
        };
        let (outcome, asked) = tokio::join!(run(job, &plan), stop);
        assert_eq!(outcome.end(), Some(JobEnd::Left));
        assert_eq!(asked.elapsed(), Duration::ZERO);
        assert_eq!(plan.calls(Op::CreateTakeover), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_every_holder_would_look_silent_to_is_refused() {
    let world = World::new();
    let job = world.job(&Plan::none()).standby(world.interval);
    let error = run(job, &Plan::none()).await.error();
    assert!(error.to_string().contains("look silent"), "{error}");
}
