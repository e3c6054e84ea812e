//! Nothing waits for ever, and nobody is held up.

use std::sync::Arc;

use cofferdam::CommitError;

use crate::check::{Stop, checks};
use crate::checks::idempotence::told_the_truth;
use crate::observer::Breakage;
use crate::pipeline::{Crash, Decisions, Run};
use crate::random::Random;
use crate::site::id;
use crate::trial::Trial;

checks! {
    "LIV-1" what_a_crash_left_open_does_not_hold_up_readers [Resume]
        "A process dies with a transaction open and another prepared. Once the next one has recovered, a reader sees what it commits."
        readers_go_on;
    "LIV-2" writing_the_same_records_again_is_not_blocked [Resume]
        "After the same crash the same records are written again: begin, write and pre-commit end within the time of a call. Locks of what is prepared must not be waited for."
        replay_goes_on;
    "LIV-3" too_many_prepared_transactions_are_an_error_that_passes [Resume, PreparedLimit]
        "Prepares one more than the limit: an error, no hang; after a commit there is room again."
        limit;
    "LIV-4" a_commit_outlives_a_system_that_is_away [Resume, Part]
        "The system goes away after the decision: commit fails with a retriable error, and works when the system is back."
        outlives_outage;
    "LIV-5" no_call_waits_for_ever [Resume, Part]
        "The system takes requests and does not answer: each call ends within the time that the sink sets itself, and does not say that it is done; when it answers again, all is settled."
        silence;
    "LIV-6" many_checkpoints_with_crashes_settle [Resume]
        "A pipeline with this sink dies twelve times at seeded calls, at changing parallelism, and then runs to its end: each record is visible once, nothing is in doubt or left over."
        many_crashes;
}

/// Leaves one transaction open and one prepared.
async fn die_in_the_middle(trial: &Trial) -> Result<(), Stop> {
    let process = trial.process().await?;
    let mut open = process.begin(&id(1, 0, 1)).await?;
    process.write(&mut open, 40).await?;
    let prepared = process.prepare(&id(1, 1, 1), 40).await?;
    trial.decide_against(&[&open.id, &prepared.id]);
    drop(open);
    Ok(())
}

async fn readers_go_on(trial: Arc<Trial>) -> Result<(), Stop> {
    die_in_the_middle(&trial).await?;
    let process = trial.process().await?;
    process.recover(2, 0, &[]).await?;
    let handle = process.prepare(&id(2, 0, 1), 10).await?;
    process.decide_and_settle(&handle).await?;
    trial.expect_rows(10).await
}

async fn replay_goes_on(trial: Arc<Trial>) -> Result<(), Stop> {
    die_in_the_middle(&trial).await?;
    let process = trial.process().await?;
    process.recover(2, 0, &[]).await?;
    let first = process
        .prepare_records(&id(2, 0, 1), (1..=40).collect())
        .await?;
    let second = process
        .prepare_records(&id(2, 1, 1), (41..=80).collect())
        .await?;
    trial.decide(&[&first, &second]);
    process.settle(&first).await?;
    process.settle(&second).await?;
    trial.expect_rows(80).await
}

async fn limit(trial: Arc<Trial>) -> Result<(), Stop> {
    let limit = trial.capabilities.max_prepared.unwrap_or(0);
    let process = trial.process().await?;
    let mut handles = Vec::new();
    for checkpoint in (1..).take(limit) {
        handles.push(process.prepare(&id(1, 0, checkpoint), 5).await?);
    }
    let checkpoint = handles.len() as u64 + 1;
    let too_many = id(1, 0, checkpoint);
    trial.decide_against(&[&too_many]);
    if process.prepare(&too_many, 5).await.is_ok() {
        return Err(Stop::failed(format!(
            "max_prepared is {limit}, and one more was prepared: declare what is true"
        )));
    }
    trial.decide(&handles.iter().collect::<Vec<_>>());
    for handle in &handles {
        process.settle(handle).await?;
    }
    process.recover(2, checkpoint - 1, &handles).await?;
    let handle = process.prepare(&id(2, 0, checkpoint), 5).await?;
    process.decide_and_settle(&handle).await?;
    trial.expect_rows((limit + 1) * 5).await
}

async fn outlives_outage(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), 20).await?;
    trial.decide(&[&handle]);
    trial.place().break_down(Breakage::Unreachable).await?;
    for _ in 0..3 {
        match process.commit(&handle).await {
            Err(CommitError::NotYet(error)) if error.kind().is_retriable() => {}
            Err(error) => {
                return Err(Stop::failed(format!(
                    "the system is away, and commit gives up: {error}"
                )));
            }
            Ok(committed) => {
                return Err(Stop::failed(format!(
                    "the system is away, and commit says {committed:?}"
                )));
            }
        }
    }
    trial.place().mend().await?;
    crate::scenario::recover(&trial, &process, 2, 1, &[handle]).await?;
    trial.expect_rows(20).await
}

async fn silence(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let decided = process.prepare(&id(1, 0, 1), 20).await?;
    let undecided = process.prepare(&id(1, 1, 2), 20).await?;
    let mut open = process.begin(&id(1, 2, 3)).await?;
    process.write(&mut open, 20).await?;
    trial.decide(&[&decided]);
    trial.decide_against(&[&undecided.id, &open.id]);
    trial.place().break_down(Breakage::Silent).await?;
    // That each call ends is seen by the time limit around all of them. It must not say that it is done.
    let done =
        |what: &str| Stop::failed(format!("no answer came, and {what} says that it is done"));
    let Err(error) = process.commit(&decided).await else {
        return Err(done("commit"));
    };
    if process.pre_commit(open).await.is_ok() {
        return Err(done("pre_commit"));
    }
    if process.abort(&undecided).await.is_ok() {
        return Err(done("abort"));
    }
    if process
        .abort_stale(2, 1, std::slice::from_ref(&decided))
        .await
        .is_ok()
    {
        return Err(done("abort_stale"));
    }
    // A sink that buffers has nothing to ask yet.
    if let Ok(begun) = process.begin(&id(1, 3, 4)).await {
        trial.decide_against(&[&begun.id]);
    }
    trial.place().mend().await?;
    told_the_truth(&error, !trial.read().await?.is_empty())?;
    crate::scenario::recover(&trial, &process, 2, 1, &[decided]).await?;
    trial.expect_rows(20).await
}

async fn many_crashes(trial: Arc<Trial>) -> Result<(), Stop> {
    let decisions = Decisions::new(&trial);
    let mut random = Random::new(6);
    for run in 1..=12 {
        let crash = 1 + random.below(60);
        let parallelism = [1, 2, 3][random.below(3)];
        trial.remark(format!(
            "run {run} dies at its call {crash}, at parallelism {parallelism}"
        ));
        let run = Run::new(&trial, &decisions).parallelism(parallelism);
        if let Some(Err(error)) = run.go(Crash::at(crash as u64)).await? {
            return Err(Stop::failed(format!(
                "a run fails by itself: {}",
                crate::check::chain(&error)
            )));
        }
        trial.read().await?;
    }
    Run::new(&trial, &decisions).complete().await?;
    trial
        .process()
        .await?
        .nothing_in_doubt_before(u64::MAX)
        .await?;
    trial.expect_no_leftovers().await
}
