//! Decided transactions that can't be committed: lost, refused, not yet.

use cofferdam::memory::{MemorySink, MemorySource};
use cofferdam::{
    CheckpointId, Epoch, ErrorKind, Fence, JobEnd, JobError, JobId, RestartStrategy, SinkId,
    TransactionId, TwoPhaseCommitSinkFunction,
};

use crate::plan::{Mode, Op, Plan, When};
use crate::world::{Event, Outcome, World, expected, ms, run};

type Memory = World<MemorySource<Event>>;

/// Removes all that is prepared, behind the job's back.
async fn remove<T: Send + 'static>(sink: &MemorySink<T>, name: &str) {
    let (job, id) = (JobId::new("faults").unwrap(), SinkId::new(name).unwrap());
    let mut fence = Fence::new(job, id, Epoch(u64::MAX));
    fence.newest = Some(CheckpointId(u64::MAX));
    sink.abort_stale(&fence).await.unwrap();
}

fn restarts() -> RestartStrategy {
    RestartStrategy::FixedDelay {
        restarts: 3,
        delay: ms(1),
    }
}

/// Takes a loss apart: the transaction, and how many records its handle names.
fn loss(error: &JobError) -> (TransactionId, usize) {
    let text = error.to_string();
    let JobError::Lost {
        checkpoint,
        transaction,
        handle,
        reason,
    } = error
    else {
        panic!("no loss: {text}");
    };
    assert!(*checkpoint >= transaction.checkpoint);
    let named = [
        format!("sink {}", transaction.sink),
        format!("checkpoint {checkpoint}"),
        transaction.to_string(),
        handle.clone(),
        reason.clone(),
    ];
    for part in named {
        assert!(text.contains(&part), "{part:?} is missing in {text}");
    }
    let (_, content) = handle.split_once('\n').unwrap();
    let content: serde_json::Value = serde_json::from_str(content).unwrap();
    let records = content["records"].as_u64().unwrap();
    (transaction.clone(), usize::try_from(records).unwrap())
}

/// Starts the job until it is completed, accepting each loss. What is visible then is all but what was lost.
async fn accept_all(world: &Memory, first: JobError) {
    let (mut error, mut accepted, mut records) = (first, Vec::new(), 0);
    let report = loop {
        let (transaction, lost) = loss(&error);
        // The same loss stops each start, until it is accepted by name.
        assert!(!accepted.contains(&transaction));
        let again = run(world.job(&Plan::none()), &Plan::none()).await.error();
        assert!(matches!(again, JobError::Lost { .. }), "{again}");
        world.observed.accept(&transaction);
        records += lost;
        accepted.push(transaction);
        let job = world.job(&Plan::none());
        let job = accepted
            .iter()
            .cloned()
            .fold(job, |job, lost| job.accept_loss(lost));
        match run(job, &Plan::none()).await {
            Outcome::Ended(Ok(report)) => break report,
            outcome => error = outcome.error(),
        }
    };
    assert_eq!(report.end, JobEnd::Completed);
    let (results, late) = expected(&world.events, world.shape);
    let (visible, visible_late) = (world.results.visible(), world.late.visible());
    assert!(visible.iter().all(|result| results.contains(result)));
    assert!(visible_late.iter().all(|record| late.contains(record)));
    let missing = results.len() + late.len() - visible.len() - visible_late.len();
    assert_eq!(missing, records);
    assert_eq!(world.observed.violations(), Vec::<String>::new());
    assert!(
        world
            .job(&Plan::none())
            .in_doubt()
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_loss_while_the_job_runs_stops_it_for_good_until_it_is_accepted() {
    let world = World::new();
    let plan = Plan::at(Op::Commit, 2, Mode::Hold(When::Before));
    let thief = async {
        plan.reached().await;
        remove(&world.results, "results").await;
        remove(&world.late, "late").await;
        plan.release();
    };
    let (outcome, ()) = tokio::join!(run(world.job(&plan).restart(restarts()), &plan), thief);
    let error = outcome.error();
    assert_eq!(
        plan.calls(Op::CreateTakeover),
        1,
        "a loss is no reason to start again"
    );
    accept_all(&world, error).await;
}

#[tokio::test(start_paused = true)]
async fn a_loss_found_by_recovery_stops_the_job_until_it_is_accepted() {
    let world = World::new();
    let plan = Plan::at(Op::Commit, 3, Mode::Crash(When::Before));
    assert!(matches!(
        run(world.job(&plan), &plan).await,
        Outcome::Crashed
    ));
    remove(&world.results, "results").await;
    remove(&world.late, "late").await;
    let error = run(world.job(&Plan::none()).restart(restarts()), &Plan::none())
        .await
        .error();
    accept_all(&world, error).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_not_possible_yet_is_tried_until_it_is() {
    for mode in Mode::ERRORS {
        let world = World::new();
        let plan = Plan::during(Op::Commit, 1, 30, mode);
        let Outcome::Ended(Ok(report)) = run(world.job(&plan), &plan).await else {
            panic!("it does not end well");
        };
        assert_eq!((plan.fired(), report.progress.restarts), (30, 0));
        world.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_is_not_possible_yet_is_tried_until_it_is() {
    let world = World::new();
    let crash = Plan::at(Op::Commit, 3, Mode::Crash(When::Before));
    run(world.job(&crash), &crash).await;
    let plan = Plan::during(Op::Commit, 1, 30, Mode::ERRORS[0]);
    let outcome = run(world.job(&plan), &plan).await;
    assert_eq!((outcome.end(), plan.fired()), (Some(JobEnd::Completed), 30));
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_commit_stops_the_job_and_keeps_its_handle() {
    let refused = Mode::Error(ErrorKind::Configuration, When::Before);
    let world = World::new();
    let plan = Plan::at(Op::Commit, 2, refused);
    let error = run(world.job(&plan).restart(restarts()), &plan)
        .await
        .error();
    assert_eq!(plan.calls(Op::CreateTakeover), 1);
    let text = error.to_string();
    let JobError::CommitRefused {
        transaction,
        handle,
        ..
    } = error
    else {
        panic!("{text}");
    };
    assert!(
        text.contains(&transaction.to_string()) && text.contains(&handle),
        "{text}"
    );
    // Recovery is refused the same, and nothing is given up.
    let plan = Plan::at(Op::Commit, 1, refused);
    let again = run(world.job(&plan), &plan).await.error();
    assert!(matches!(again, JobError::CommitRefused { .. }), "{again}");
    let in_doubt = world.job(&Plan::none()).in_doubt().await.unwrap();
    assert!(in_doubt.iter().any(|found| found.may_be(&transaction)));
    world.finish(1).await;
    world.check().await;
}
