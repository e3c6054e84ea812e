//! What the next process makes of what the last one left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam::{CommitError, ErrorKind};

use crate::check::{Stop, checks};
use crate::process::Handle;
use crate::scenario::{self, Step};
use crate::site::id;
use crate::trial::Trial;
use crate::wrappers::child;
use crate::wrappers::polls::{Cut, cut};

checks! {
    "REC-1" what_was_not_decided_is_aborted_and_written_again [Resume]
        "Dies after the pre-commit, before a decision: recovery aborts, the same records are written again, and are visible once."
        not_decided;
    "REC-2" what_was_decided_is_committed_from_its_handle_alone [Resume]
        "Dies after the decision, before the commit. The next process first opens a transaction of its own, then commits from the handle: all is visible. Connectors that open their client by aborting what is prepared fail here."
        decided;
    "REC-3" recovery_finishes_commits_wherever_they_stopped [Resume]
        "Of four subtasks, each number of commits from none to all is done before the crash, the next one in part: recovery completes them, also if what is stale was aborted first."
        commits_in_part;
    "REC-4" a_crash_at_any_step_is_recovered_from [Resume]
        "A process dies at each await of begin, write, pre-commit, commit and abort; the next one recovers and goes on: each record is visible once."
        any_step;
    "REC-5" a_crash_at_any_step_of_recovery_is_recovered_from [Resume]
        "A recovery dies at each await, and so does the one after it, at the same place: the third succeeds, and each record is visible once."
        any_step_of_recovery;
    "REC-6" several_checkpoints_in_doubt_are_committed_in_order [Resume, Prepared(5)]
        "Five checkpoints are decided and none is committed when the process dies: recovery commits them, in order."
        several_checkpoints;
    "REC-7" recovery_without_a_decision_removes_what_is_older [Resume]
        "There is no decided checkpoint, and an older epoch has left open and prepared work: it is removed, and what the own epoch prepares then is spared by a late sweep."
        without_decision;
    "REC-8" a_job_that_comes_back_at_another_parallelism_settles_every_handle [Resume]
        "Three subtasks prepare, one settles; then one prepares, and three settle: each handle once."
        other_parallelism;
    "REC-9" older_state_is_refused [Resume, RefusesOlderState]
        "Two checkpoints are committed, and a process starts from the first one, and one from none: refused, since it would write again what is visible."
        older_state;
    "REC-10" what_has_vanished_is_lost [Resume, Evidence, Part]
        "A prepared transaction is taken away behind the sink's back: its commit is lost, never a success, and nothing of it is visible."
        vanished;
    "REC-11" what_has_expired_is_lost [Resume, Evidence, Expiry, Part]
        "The system lets a prepared transaction expire: its commit is lost, never a success; what was committed before is still known as committed."
        expired;
    "REC-12" kill_9_at_any_step_is_recovered_from [Resume, Part]
        "A child process is killed with SIGKILL after begin, in the middle of its writes, after the pre-commit, and at each await of the commit: the next process recovers, and each record is visible once."
        kill_9;
    "REC-13" kill_9_at_any_time_is_recovered_from [Resume, Part]
        "A child process that makes one checkpoint after the other is killed with SIGKILL at 24 times, also where it never waits: the next process commits what the child had been told to, and each record is visible once."
        kill_9_at_any_time;
    "REC-14" what_came_after_a_commit_is_aborted_whatever_its_name [Resume, Prepared(4)]
        "A subtask goes on for up to five transactions after one that is committed, and dies before the next decision: recovery aborts all of them, and so does one more. Connectors whose names come out of a pool fail here, if they spare the name of what is decided and not the transaction."
        after_a_commit;
}

async fn not_decided(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), 50).await?;
    drop(process);
    let next = trial.process().await?;
    next.recover(2, 0, &[]).await?;
    trial.decide_against(&[&handle.id]);
    trial.expect_rows(0).await?;
    let again = next
        .prepare_records(&id(2, 0, 1), (1..=50).collect())
        .await?;
    next.decide_and_settle(&again).await?;
    trial.expect_rows(50).await
}

async fn decided(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), 50).await?;
    trial.decide(&[&handle]);
    drop(process);
    let next = trial.process().await?;
    next.recover(2, 1, &[handle]).await?;
    trial.expect_rows(50).await?;
    // The same with work of the next epoch under way beside it.
    let handle = next.prepare(&id(2, 0, 2), 50).await?;
    trial.decide(&[&handle]);
    drop(next);
    let next = trial.process().await?;
    let mut open = next.begin(&id(3, 1, 3)).await?;
    next.write(&mut open, 5).await?;
    next.settle(&handle).await?;
    next.sweep_late(3, 2, &[handle]).await?;
    next.nothing_in_doubt_before(3).await?;
    trial.expect_rows(100).await?;
    let handle = next.pre_commit(open).await?;
    let handle = handle.ok_or_else(|| Stop::failed("no handle for 5 records"))?;
    next.decide_and_settle(&handle).await?;
    trial.expect_rows(105).await
}

const SUBTASKS: u32 = 4;

async fn commits_in_part(trial: Arc<Trial>) -> Result<(), Stop> {
    let mut visible = 0;
    for (done, checkpoint) in (0..=SUBTASKS as usize).zip(1..) {
        let epoch = checkpoint * 2;
        let process = trial.process().await?;
        let mut handles = Vec::new();
        for subtask in 0..SUBTASKS {
            handles.push(process.prepare(&id(epoch, subtask, checkpoint), 5).await?);
        }
        trial.decide(&handles.iter().collect::<Vec<_>>());
        for handle in &handles[..done] {
            process.settle(handle).await?;
        }
        if let Some(handle) = handles.get(done) {
            cut(process.commit(handle), Cut::Waiting(1)).await;
        }
        drop(process);
        let next = trial.process().await?;
        // A sweep spares what is decided, whether or not it is committed yet.
        if done % 2 == 1 {
            next.abort_stale(epoch + 1, checkpoint, &handles).await?;
        }
        scenario::recover(&trial, &next, epoch + 1, checkpoint, &handles).await?;
        visible += handles.len() * 5;
        trial.expect_rows(visible).await?;
    }
    Ok(())
}

async fn any_step(trial: Arc<Trial>) -> Result<(), Stop> {
    scenario::crash_everywhere(&trial, Step::ALL, scenario::Survivor::NewProcess).await
}

async fn any_step_of_recovery(trial: Arc<Trial>) -> Result<(), Stop> {
    let mut visible = 0;
    for (at, checkpoint) in Cut::all(100).zip((2..).step_by(2)) {
        let epoch = checkpoint * 10;
        let process = trial.process().await?;
        let decided = [
            process.prepare(&id(epoch, 0, checkpoint), 5).await?,
            process.prepare(&id(epoch, 1, checkpoint), 5).await?,
        ];
        let stale = process.prepare(&id(epoch, 2, checkpoint + 1), 5).await?;
        trial.decide(&decided.iter().collect::<Vec<_>>());
        drop(process);
        let mut died = 0;
        for recovery in 1..=2 {
            let next = trial.process().await?;
            let recovered = cut(next.recover(epoch + recovery, checkpoint, &decided), at).await;
            match recovered {
                None => died += 1,
                Some(recovered) => recovered?,
            }
        }
        let next = trial.process().await?;
        scenario::recover(&trial, &next, epoch + 3, checkpoint, &decided).await?;
        trial.decide_against(&[&stale.id]);
        visible += 10;
        trial.expect_rows(visible).await?;
        if died == 0 {
            break;
        }
    }
    Ok(())
}

async fn several_checkpoints(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let mut handles = Vec::new();
    for checkpoint in 1..=5 {
        handles.push(process.prepare(&id(1, 0, checkpoint), 10).await?);
    }
    trial.decide(&handles.iter().collect::<Vec<_>>());
    drop(process);
    let next = trial.process().await?;
    for (handle, committed) in handles.iter().zip(1..) {
        next.settle(handle).await?;
        trial.expect_rows(committed * 10).await?;
    }
    next.recover(2, 5, &handles).await?;
    trial.expect_rows(50).await
}

async fn without_decision(trial: Arc<Trial>) -> Result<(), Stop> {
    let old = trial.process().await?;
    let first = old.prepare(&id(1, 0, 1), 10).await?;
    let second = old.prepare(&id(2, 1, 1), 10).await?;
    let mut open = old.begin(&id(2, 2, 1)).await?;
    old.write(&mut open, 40).await?;
    trial.decide_against(&[&first.id, &second.id, &open.id]);
    drop(open);
    drop(old);
    let process = trial.process().await?;
    process.recover(3, 0, &[]).await?;
    let own = process.prepare(&id(3, 0, 1), 10).await?;
    process.sweep_late(3, 0, &[]).await?;
    for stale in [&first, &second] {
        if process.commit(stale).await.is_ok() {
            return Err(Stop::failed(format!(
                "{} was stale, and can be committed",
                stale.id
            )));
        }
    }
    trial.expect_rows(0).await?;
    process.decide_and_settle(&own).await?;
    trial.expect_rows(10).await?;
    process.recover(4, 1, &[own]).await?;
    trial.expect_no_leftovers().await
}

async fn other_parallelism(trial: Arc<Trial>) -> Result<(), Stop> {
    let mut epoch = 1;
    for (checkpoint, subtasks) in [(1, 3), (2, 1), (3, 4), (4, 2)] {
        let process = trial.process().await?;
        let mut handles = Vec::new();
        for subtask in 0..subtasks {
            handles.push(process.prepare(&id(epoch, subtask, checkpoint), 10).await?);
        }
        trial.decide(&handles.iter().collect::<Vec<_>>());
        // Undecided work of more subtasks than the next run has.
        let stale = process
            .prepare(&id(epoch, subtasks, checkpoint + 1), 10)
            .await?;
        drop(process);
        epoch += 1;
        trial
            .process()
            .await?
            .recover(epoch, checkpoint, &handles)
            .await?;
        trial.decide_against(&[&stale.id]);
    }
    trial.expect_rows(100).await
}

async fn older_state(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let mut handles = Vec::new();
    for checkpoint in 1..=2 {
        let handle = process.prepare(&id(1, 0, checkpoint), 10).await?;
        process.decide_and_settle(&handle).await?;
        handles.push(handle);
    }
    for (newest, decided) in [(1, &handles[..1]), (0, &[])] {
        let next = trial.process().await?;
        match next.abort_stale(2, newest, decided).await {
            Err(error) if matches!(error.kind(), ErrorKind::Configuration | ErrorKind::Fenced) => {}
            Err(error) => {
                let kind = error.kind();
                return Err(Stop::failed(format!(
                    "older state is refused as {kind:?}: {error}"
                )));
            }
            Ok(_) => {
                return Err(Stop::failed(format!(
                    "checkpoint 2 is visible, and a job that knows {newest} as its newest is let through"
                )));
            }
        }
    }
    trial.process().await?.recover(2, 2, &handles[1..]).await?;
    trial.expect_rows(20).await
}

/// The commit of a transaction that is no more.
async fn expect_loss(trial: &Trial, handle: &Handle) -> Result<(), Stop> {
    match trial.process().await?.commit(handle).await {
        Err(CommitError::Lost(_)) => Ok(()),
        Err(CommitError::NotYet(error)) => Err(Stop::failed(format!(
            "a loss is not told, but to be tried again: {error}"
        ))),
        Ok(committed) => Err(Stop::failed(format!(
            "the commit of what is gone says {committed:?}"
        ))),
    }
}

async fn vanished(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let kept = process.prepare(&id(1, 0, 1), 10).await?;
    process.decide_and_settle(&kept).await?;
    let gone = process.prepare(&id(1, 0, 2), 10).await?;
    trial.place().lose(&gone.id).await?;
    trial.remark(format!("{} is taken away behind the sink's back", gone.id));
    drop(process);
    expect_loss(&trial, &gone).await?;
    trial.expect_rows(10).await
}

async fn expired(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let kept = process.prepare(&id(1, 0, 1), 10).await?;
    process.decide_and_settle(&kept).await?;
    let gone = process.prepare(&id(1, 0, 2), 10).await?;
    // The clock of the sink's machine plays no part in it: the system still has the transaction, so it can be committed.
    let before = process.in_doubt().await?;
    if let Some(found) = before.iter().find(|found| found.may_be(&gone.id))
        && found.expires_in.is_none()
    {
        return Err(Stop::failed(format!(
            "{} expires, and in_doubt does not say when",
            gone.id
        )));
    }
    trial.place().expire_in_doubt().await?;
    trial.remark(format!("{} has expired", gone.id));
    drop(process);
    expect_loss(&trial, &gone).await?;
    trial.process().await?.settle(&kept).await?;
    trial.expect_rows(10).await
}

async fn kill_9(trial: Arc<Trial>) -> Result<(), Stop> {
    let mut visible = 0;
    let commits = (1..=50).map(child::Step::Committing);
    let steps = [
        child::Step::Begun,
        child::Step::Writing,
        child::Step::Written,
        child::Step::Prepared,
    ];
    for (step, checkpoint) in steps.into_iter().chain(commits).zip(1..) {
        let epoch = checkpoint * 2;
        let records = trial.site.new_records(20);
        let transaction = id(epoch, 0, checkpoint);
        let mut child = child::Child::start(&trial, &transaction, records.clone(), step).await?;
        let handle = child.reached().await?;
        let handle = match step {
            child::Step::Committing(_) => {
                // Only what is decided is ever committed, so it was decided before.
                let handle = handle.ok_or_else(|| Stop::failed("pre_commit returned no handle"))?;
                trial.decide(&[&handle]);
                Some(handle)
            }
            _ => None,
        };
        let finished = child.finished();
        child.kill().await?;
        let next = trial.process().await?;
        match handle {
            Some(handle) => {
                scenario::recover(&trial, &next, epoch + 1, checkpoint, &[handle]).await?;
            }
            None => {
                next.recover(epoch + 1, checkpoint - 1, &[]).await?;
                trial.decide_against(&[&transaction]);
                let again = next
                    .prepare_records(&id(epoch + 1, 0, checkpoint), records)
                    .await?;
                next.decide_and_settle(&again).await?;
            }
        }
        visible += 20;
        trial.expect_rows(visible).await?;
        if finished {
            break;
        }
    }
    Ok(())
}

/// Kills, and checkpoints over which they are spread.
const KILLS: u32 = 24;
const CHECKPOINTS: usize = 6;

async fn kill_9_at_any_time(trial: Arc<Trial>) -> Result<(), Stop> {
    let (mut takes, mut first, mut visible) = (Duration::ZERO, 1, 0);
    for (round, epoch) in (0..=KILLS).zip((1..).step_by(2)) {
        let records = trial.site.new_records(400);
        let transaction = id(epoch, 0, first);
        let step = child::Step::Nowhere;
        let mut child = child::Child::start(&trial, &transaction, records, step).await?;
        let mut decided = Vec::new();
        decided.extend(child.reached().await?);
        let begun = Instant::now();
        if round == 0 {
            // To learn how long it takes.
            for _ in 0..CHECKPOINTS {
                decided.extend(child.reached().await?);
            }
            takes = begun.elapsed();
        } else {
            // The runtime's clock is too coarse for commits that take a tenth of a millisecond.
            let sleep = move || std::thread::sleep(takes * round / KILLS);
            tokio::task::spawn_blocking(sleep).await.ok();
        }
        decided.extend(child.kill_and_hear().await?);
        trial.decide(&decided.iter().collect::<Vec<_>>());
        let newest = first + decided.len() as u64 - 1;
        let undecided = id(epoch, 0, newest + 1);
        // All but the last are committed, since it went on.
        let last = decided.split_off(decided.len() - 1);
        let next = trial.process().await?;
        scenario::recover(&trial, &next, epoch + 1, newest, &last).await?;
        trial.decide_against(&[&undecided]);
        visible += (decided.len() + 1) * child::SHARE;
        trial.expect_rows(visible).await?;
        first = newest + 1;
    }
    Ok(())
}

async fn after_a_commit(trial: Arc<Trial>) -> Result<(), Stop> {
    let mut visible = 0;
    for (further, epoch) in (0..5).zip((1..).step_by(3)) {
        let checkpoint = further + 1;
        let process = trial.process().await?;
        let committed = process.prepare(&id(epoch, 0, checkpoint), 5).await?;
        process.decide_and_settle(&committed).await?;
        let mut stale = Vec::new();
        for number in 1..=further {
            let next = id(epoch, 0, checkpoint + number);
            stale.push(process.prepare(&next, 5).await?.id);
        }
        let mut open = process
            .begin(&id(epoch, 0, checkpoint + further + 1))
            .await?;
        process.write(&mut open, 5).await?;
        stale.push(open.id.clone());
        drop(open);
        drop(process);
        let next = trial.process().await?;
        let committed = [committed];
        next.recover(epoch + 1, checkpoint, &committed).await?;
        // It dies before its first checkpoint: the name says nothing of what was committed any more.
        let next = trial.process().await?;
        next.recover(epoch + 2, checkpoint, &committed).await?;
        trial.decide_against(&stale.iter().collect::<Vec<_>>());
        visible += 5;
        trial.expect_rows(visible).await?;
    }
    Ok(())
}
