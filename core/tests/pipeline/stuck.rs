//! Calls that hang: the job warns, gives up in time, and can be stopped in bounded time.

use std::time::Duration;

use cofferdam::memory::MemorySource;
use cofferdam::{Job, JobEnd, JobState, RestartStrategy};
use tokio::time::{Instant, sleep};

use crate::faults::after_a_crash;
use crate::plan::{Mode, Op, Plan, When};
use crate::warnings::Warnings;
use crate::world::{Event, Outcome, TUMBLING, World, events, ms, run};

const CALL: Duration = Duration::from_secs(25);
const STOP: Duration = Duration::from_secs(90);
/// How long the log may be asked who holds the job.
const AFTER_STOP: Duration = Duration::from_secs(5);
const HANGS: Mode = Mode::Hold(When::Before);

/// Each call with its name in messages; abort and read are called after failures only.
const CALLS: [(Op, &str); 13] = [
    (Op::Begin, "begin"),
    (Op::Write, "write"),
    (Op::PreCommit, "pre_commit"),
    (Op::Commit, "commit"),
    (Op::AbortStale, "abort_stale"),
    (Op::CreateState, "create"),
    (Op::CreateDecision, "create"),
    (Op::CreateTakeover, "create"),
    (Op::List, "list"),
    (Op::Delete, "delete"),
    (Op::Splits, "splits"),
    (Op::Open, "open"),
    (Op::Notify, "notify"),
];

fn job(world: &World<MemorySource<Event>>, plan: &Plan) -> Job {
    let restart = RestartStrategy::FixedDelay {
        restarts: 3,
        delay: ms(1),
    };
    let job = world.job(plan).restart(restart).parallelism(2);
    job.call_timeout(CALL).stop_timeout(STOP)
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_warned_about_and_given_up() {
    for (op, call) in CALLS {
        for n in [1, 2] {
            let (warnings, _guard) = Warnings::watch();
            let world = World::new();
            let plan = Plan::at(op, n, HANGS);
            let begun = Instant::now();
            let outcome = run(job(&world, &plan), &plan).await;
            let ends = [Some(JobEnd::Completed), Some(JobEnd::AlreadyComplete)];
            assert!(ends.contains(&outcome.end()), "{op:?} {n}: {outcome:?}");
            if plan.fired() == 0 {
                continue;
            }
            let call = format!("call=\"{call}\"");
            let warned = warnings.with(&[&call, "no answer yet", "age=10", "limit=25s"]);
            let given_up = warnings.with(&[&call, "given up", "age=25"]);
            let all = warnings.all();
            assert!(warned > 0 && given_up > 0, "{op:?} {n}: {all:#?}");
            assert!(begun.elapsed() < 3 * CALL, "{op:?} {n}");
            world.check().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_abort_or_read_that_hangs_does_not_hold_up_a_failed_run() {
    let fails = Mode::Error(cofferdam::ErrorKind::Transient, When::Before);
    for (op, failing) in [(Op::Abort, Op::Write), (Op::Read, Op::Write)] {
        let (warnings, _guard) = Warnings::watch();
        let world = World::new();
        let plan = Plan::at(op, 1, HANGS).and(failing, 7, fails);
        let outcome = run(job(&world, &plan), &plan).await;
        assert_eq!(outcome.end(), Some(JobEnd::Completed), "{op:?}");
        assert_eq!(plan.fired(), 2, "{op:?}");
        assert!(warnings.with(&["no answer yet"]) > 0, "{op:?}");
        world.check().await;
    }
}

/// Stops a job at a call that hangs from now on. Gives how it ended, how long that took, and what was logged.
async fn stopped_at(op: Op, from: usize) -> Option<(Outcome, Duration, Warnings)> {
    let (warnings, _guard) = Warnings::watch();
    let world = after_a_crash(2).await;
    let plan = Plan::during(op, from, usize::MAX, HANGS);
    let job = job(&world, &plan);
    let handle = job.handle();
    let stop = async {
        tokio::select! {
            () = plan.reached() => {}
            // It has no such call.
            () = sleep(ms(60_000)) => {}
        }
        handle.stop();
        Instant::now()
    };
    let (outcome, asked) = tokio::join!(run(job, &plan), stop);
    let took = asked.elapsed();
    world.finish(2).await;
    world.check().await;
    (plan.fired() > 0).then_some((outcome, took, warnings))
}

#[tokio::test(start_paused = true)]
async fn stop_ends_a_job_in_bounded_time_whatever_hangs() {
    for (op, _) in CALLS {
        for from in [1, 2, 3, 5] {
            let Some((outcome, took, warnings)) = stopped_at(op, from).await else {
                continue;
            };
            let ended = matches!(outcome.end(), Some(JobEnd::Left | JobEnd::Stopped));
            assert!(ended, "{op:?} {from}: {outcome:?}");
            assert!(took <= STOP + AFTER_STOP, "{op:?} {from}: {took:?}");
            let said = warnings.with(&["asked to stop"]);
            assert!(said > 0, "{op:?} {from}: {:#?}", warnings.all());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_waits_says_for_what_and_leaves_at_its_limit() {
    let (warnings, _guard) = Warnings::watch();
    let world = World::new();
    let plan = Plan::during(Op::Commit, 1, usize::MAX, HANGS);
    let job = job(&world, &plan);
    let handle = job.handle();
    let stop = async {
        plan.reached().await;
        let asked = Instant::now();
        handle.stop();
        sleep(ms(1)).await;
        assert_eq!(handle.progress().state, JobState::Stopping);
        asked
    };
    let (outcome, asked) = tokio::join!(run(job, &plan), stop);
    assert_eq!(outcome.end(), Some(JobEnd::Left));
    assert_eq!(asked.elapsed().as_secs(), STOP.as_secs());
    assert_eq!(handle.progress().state, JobState::Ended);
    let named = "commits=faults/";
    assert_eq!(warnings.with(&["asked to stop", named]), 1);
    assert!(warnings.with(&["the stop waits", named]) > 10);
    assert_eq!(warnings.with(&["not stopped in time", named]), 1);
    world.finish(1).await;
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn stop_during_recovery_and_before_a_restart_leaves_at_once() {
    for op in [Op::CreateTakeover, Op::Commit, Op::AbortStale, Op::Splits] {
        let (_, took, _) = stopped_at(op, 1).await.unwrap();
        assert_eq!(took, Duration::ZERO, "{op:?}");
    }
    let fails = Mode::Error(cofferdam::ErrorKind::Transient, When::Before);
    let world = World::new();
    let plan = Plan::at(Op::Write, 3, fails);
    let delay = Duration::from_secs(600);
    let restart = RestartStrategy::FixedDelay { restarts: 1, delay };
    let job = world.job(&plan).restart(restart);
    let mut handle = job.handle();
    let stop = async {
        while handle.progress().state != JobState::Restarting {
            assert!(handle.changed().await);
        }
        handle.stop();
        Instant::now()
    };
    let (outcome, asked) = tokio::join!(run(job, &plan), stop);
    assert_eq!(outcome.end(), Some(JobEnd::Left));
    assert_eq!(asked.elapsed(), Duration::ZERO);
    world.finish(1).await;
    world.check().await;
}

/// While commits or a decision hang, sources read no further than to what the open transactions may hold.
#[tokio::test(start_paused = true)]
async fn sources_are_held_back_while_no_checkpoint_can_begin() {
    for (parallelism, op, waits_for) in [
        (1, Op::Commit, "waits_for=\"commits\""),
        (2, Op::Commit, "commits=faults/"),
        (
            2,
            Op::CreateDecision,
            "waits_for=\"the decision of checkpoint 1\"",
        ),
    ] {
        let (warnings, _guard) = Warnings::watch();
        let events = events(4, 1000);
        let world = World {
            interval: ms(150),
            pause: ms(100),
            ..World::over(MemorySource::new(events.clone()), events, TUMBLING)
        };
        let plan = Plan::during(op, 1, usize::MAX, HANGS);
        let job = world.job(&plan).parallelism(parallelism);
        let handle = job.handle();
        let look = async {
            plan.reached().await;
            sleep(ms(1500)).await;
            let read = plan.calls(Op::Next);
            sleep(Duration::from_secs(30)).await;
            assert_eq!(plan.calls(Op::Next), read, "it reads on");
            assert!(handle.progress().count("events", "records") < 4000);
            let held = ["sources are held back", waits_for];
            assert!(warnings.with(&held) >= 2, "{:#?}", warnings.all());
            plan.release();
        };
        let (outcome, ()) = tokio::join!(run(job, &plan), look);
        // All that was held back is read once the commits are done.
        assert_eq!(outcome.end(), Some(JobEnd::Completed), "{outcome:?}");
        world.check().await;
    }
}

/// An open transaction must not grow older than the expiry check counts on.
#[tokio::test(start_paused = true)]
async fn a_job_whose_transactions_expire_is_not_held_for_longer_than_was_counted_on() {
    let world = World {
        expiry: Some(Duration::from_secs(400)),
        ..World::new()
    };
    let plan = Plan::during(Op::Commit, 1, usize::MAX, HANGS);
    let begun = Instant::now();
    let error = run(world.job(&plan), &plan).await.error();
    let text = error.to_string();
    let says = "no checkpoint could begin for 60s, waiting for commits; to be committed: faults/";
    assert!(text.contains(says), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(100));
    world.finish(1).await;
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn progress_tells_state_and_checkpoint() {
    let world = World::new();
    let plan = Plan::none();
    let job = world.job(&plan);
    let mut handle = job.handle();
    assert_eq!(handle.progress().state, JobState::Starting);
    let look = async {
        let mut states = Vec::new();
        let mut sizes = Vec::new();
        while handle.changed().await {
            let progress = handle.progress();
            if states.last() != Some(&progress.state) {
                states.push(progress.state);
            }
            if let Some(age) = progress.checkpoint_age {
                assert!(age < Duration::from_secs(1));
                assert!(progress.checkpoint_duration < Some(Duration::from_secs(1)));
                sizes.push(progress.checkpoint_size);
            }
        }
        (states, sizes)
    };
    let (outcome, (states, sizes)) = tokio::join!(run(job, &plan), look);
    assert_eq!(outcome.end(), Some(JobEnd::Completed));
    let expected = [
        JobState::Recovering,
        JobState::Running,
        JobState::Stopping,
        JobState::Ended,
    ];
    assert_eq!(states, expected);
    assert!(sizes.iter().any(|size| *size > 0), "{sizes:?}");
}
