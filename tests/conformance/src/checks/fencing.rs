//! An older epoch changes nothing.

use std::pin::pin;
use std::sync::Arc;

use cofferdam::{CommitError, ErrorKind, InDoubt, JobId, SinkError, SinkId, TransactionId};

use crate::check::{Stop, checks};
use crate::pipeline::{Crash, Decisions, Run};
use crate::process::{Handle, Process};
use crate::random::Random;
use crate::site::{id, job, sink};
use crate::trial::Trial;
use crate::wrappers::polls::{Cut, poll_until};

checks! {
    "FEN-1" an_older_epoch_is_refused_by_its_pre_commit_at_the_latest [Resume, ServerFencing]
        "After epoch 2 has recovered, epoch 1 pre-commits one transaction, writes more into another and pre-commits it, and begins a third: each is refused on the way, as fenced."
        older_is_refused;
    "FEN-2" a_zombie_cannot_commit_what_was_aborted_as_stale [Resume, Evidence]
        "Epoch 2 aborts what epoch 1 prepared; epoch 1 wakes up and commits: an error, and nothing is visible, also after epoch 2 has written the same records."
        zombie_commits;
    "FEN-3" a_zombie_cannot_abort_what_a_newer_epoch_prepared [Resume]
        "Epoch 1 runs its recovery again while epoch 3 has a transaction prepared and one open: fenced or without effect, and epoch 3 commits both."
        zombie_aborts;
    "FEN-4" a_zombie_that_wakes_inside_its_recovery_changes_nothing [Resume]
        "The recovery of epoch 2 falls asleep at each of its awaits, epoch 3 recovers and prepares, and epoch 2 wakes up: epoch 3 commits."
        zombie_in_recovery;
    "FEN-5" recoveries_that_race_give_one_result [Resume]
        "Two epochs recover the same checkpoint at once, in 30 seeded orders of their steps: what is decided is visible once, and what is not is gone."
        racing_recoveries;
    "FEN-6" a_job_started_twice_writes_once [Resume]
        "A pipeline with this sink runs in two processes at once: one ends well or both say why not, and each record is visible once after a last run."
        started_twice;
    "FEN-7" similar_names_do_not_meet [Resume]
        "Jobs, sinks, subtasks and checkpoints whose names begin alike hold prepared transactions: a recovery of one aborts its own alone, and all others commit."
        similar_names;
    "FEN-8" a_late_or_ambiguous_decision_is_made_good_by_the_log [Resume]
        "A pipeline with this sink on a checkpoint store that answers with errors, before and after it has written, and whose process dies at each of them: each record is visible once."
        ambiguous_decisions;
    "FEN-9" work_of_its_own_epoch_or_a_newer_one_stops_a_recovery [Resume]
        "Another log has given epoch 3 as well, and its run has one transaction prepared and one open: recoveries of epochs 3 and 2 are refused as fenced, also when only the open one is left and the sink lists it; epoch 3 commits both."
        own_epoch;
    "FEN-10" output_of_its_own_epoch_or_a_newer_one_stops_a_recovery [Resume, Evidence, RefusesOlderState]
        "A run of another log has committed a checkpoint in epoch 3: recoveries of epochs 3 and 2 are refused as fenced, though that checkpoint is not newer than their newest."
        own_output;
    "FEN-11" a_late_sweep_aborts_what_was_opened_after_the_recovery [Resume]
        "Epoch 1 prepares a transaction and opens another after the recovery of epoch 2, which has one prepared and one open: its late sweep aborts what is older alone, epoch 2 commits both, and sweeps again; a late sweep of epoch 1 is refused as fenced."
        late_opener;
}

async fn older_is_refused(trial: Arc<Trial>) -> Result<(), Stop> {
    let zombie = trial.process().await?;
    let mut open = Vec::new();
    for subtask in 0..2 {
        let mut transaction = zombie.begin(&id(1, subtask, 1)).await?;
        zombie.write(&mut transaction, 10).await?;
        open.push(transaction);
    }
    let next = trial.process().await?;
    next.recover(2, 0, &[]).await?;
    for (mut open, writes) in open.into_iter().zip([true, false]) {
        trial.decide_against(&[&open.id]);
        let mut refused = None;
        if writes {
            refused = zombie.write(&mut open, 10).await.err();
        }
        if refused.is_none() {
            refused = zombie.pre_commit(open).await.err();
        }
        match refused {
            Some(error) if error.kind() == ErrorKind::Fenced => {}
            Some(error) => {
                let kind = error.kind();
                return Err(Stop::failed(format!(
                    "an older epoch is refused as {kind:?}, not as fenced: {error}"
                )));
            }
            None => {
                return Err(Stop::failed(
                    "an older epoch was let through to its pre-commit",
                ));
            }
        }
    }
    // What it begins only now, no recovery has seen.
    let late = zombie.prepare(&id(1, 2, 1), 10).await;
    trial.decide_against(&[&id(1, 2, 1)]);
    match late {
        Ok(_) => Err(Stop::failed(
            "an older epoch begins after the takeover, and is let through",
        )),
        Err(_) => Ok(()),
    }
}

async fn zombie_commits(trial: Arc<Trial>) -> Result<(), Stop> {
    let zombie = trial.process().await?;
    let handle = zombie.prepare(&id(1, 0, 1), 50).await?;
    let next = trial.process().await?;
    next.recover(2, 0, &[]).await?;
    trial.decide_against(&[&handle.id]);
    let again = next
        .prepare_records(&id(2, 0, 1), (1..=50).collect())
        .await?;
    if let Ok(committed) = zombie.commit(&handle).await {
        return Err(Stop::failed(format!(
            "a commit of what was aborted as stale says {committed:?}"
        )));
    }
    trial.expect_rows(0).await?;
    next.decide_and_settle(&again).await?;
    if zombie.commit(&handle).await.is_ok() {
        return Err(Stop::failed(
            "a commit of what was aborted as stale says that it is done",
        ));
    }
    trial.expect_rows(50).await
}

/// Fenced, or nothing to do: the rest shows in what epoch 3 can still commit.
fn without_effect(aborted: Result<Vec<InDoubt>, SinkError>) -> Result<(), Stop> {
    match aborted {
        Ok(aborted) if aborted.is_empty() => Ok(()),
        Ok(aborted) => {
            let aborted: Vec<_> = aborted.iter().map(ToString::to_string).collect();
            let aborted = aborted.join(", ");
            Err(Stop::failed(format!("a zombie aborts {aborted}")))
        }
        Err(error) if error.kind() == ErrorKind::Fenced => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn zombie_aborts(trial: Arc<Trial>) -> Result<(), Stop> {
    let zombie = trial.process().await?;
    zombie.recover(1, 0, &[]).await?;
    let newest = trial.process().await?;
    newest.recover(3, 0, &[]).await?;
    let handle = newest.prepare(&id(3, 0, 1), 20).await?;
    let mut open = newest.begin(&id(3, 1, 1)).await?;
    newest.write(&mut open, 20).await?;
    without_effect(zombie.abort_stale(1, 0, &[]).await)?;
    without_effect(trial.process().await?.abort_stale(2, 0, &[]).await)?;
    let second = newest.pre_commit(open).await?;
    let second = second.ok_or_else(|| Stop::failed("no handle for 20 records"))?;
    trial.decide(&[&handle, &second]);
    newest.settle(&handle).await?;
    newest.settle(&second).await?;
    trial.expect_rows(40).await
}

async fn zombie_in_recovery(trial: Arc<Trial>) -> Result<(), Stop> {
    let mut visible = 0;
    let cuts = Cut::all(100);
    for (at, round) in cuts.zip(1..) {
        let (first, checkpoint) = (round * 3, round * 2);
        let oldest = trial.process().await?;
        let decided = oldest.prepare(&id(first, 0, checkpoint), 5).await?;
        let stale = oldest.prepare(&id(first, 1, checkpoint + 1), 5).await?;
        drop(oldest);
        trial.decide(&[&decided]);
        trial.process().await?.settle(&decided).await?;
        let zombie = trial.process().await?;
        let handles = [decided];
        let mut sleeping = pin!(zombie.abort_stale(first + 1, checkpoint, &handles));
        let finished = poll_until(sleeping.as_mut(), at).await;
        let newest = trial.process().await?;
        newest.recover(first + 2, checkpoint, &handles).await?;
        trial.decide_against(&[&stale.id]);
        let fresh = newest.prepare(&id(first + 2, 0, checkpoint + 1), 5).await?;
        let last = match finished {
            Some(aborted) => {
                aborted?;
                true
            }
            None => {
                // It may still find the stale one, if that is what it was about to abort; it must not touch the fresh one.
                match sleeping.await {
                    Ok(aborted) if aborted.iter().any(|one| one.may_be(&fresh.id)) => {
                        return Err(Stop::failed(format!("a zombie aborts {}", fresh.id)));
                    }
                    Err(error)
                        if error.kind() != ErrorKind::Fenced && !error.kind().is_retriable() =>
                    {
                        return Err(error.into());
                    }
                    _ => {}
                }
                false
            }
        };
        newest.decide_and_settle(&fresh).await?;
        visible += 10;
        trial.expect_rows(visible).await?;
        if last {
            break;
        }
    }
    Ok(())
}

/// One recovery, step by step, so that the steps of two can be mixed.
async fn recovery(
    process: &Process,
    epoch: u64,
    newest: u64,
    decided: &[Handle],
) -> Result<(), Stop> {
    for handle in decided {
        loop {
            match process.commit(handle).await {
                Ok(_) => break,
                Err(CommitError::NotYet(error)) if error.kind().is_retriable() => {}
                Err(CommitError::NotYet(error)) if error.kind() == ErrorKind::Fenced => {
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    loop {
        match process.abort_stale(epoch, newest, decided).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Fenced => return Ok(()),
            Err(error) if error.kind().is_retriable() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

async fn racing_recoveries(trial: Arc<Trial>) -> Result<(), Stop> {
    for round in 1..=30 {
        let mut random = Random::new(round);
        let (epoch, checkpoint) = (round * 3, round * 2);
        let old = trial.process().await?;
        let mut decided = Vec::new();
        for subtask in 0..3 {
            decided.push(old.prepare(&id(epoch, subtask, checkpoint), 4).await?);
        }
        let stale = old.prepare(&id(epoch, 3, checkpoint + 1), 4).await?;
        drop(old);
        trial.decide(&decided.iter().collect::<Vec<_>>());
        let (first, second) = (trial.process().await?, trial.process().await?);
        let mut first = pin!(recovery(&first, epoch + 1, checkpoint, &decided));
        let mut second = pin!(recovery(&second, epoch + 2, checkpoint, &decided));
        let (mut first_done, mut second_done) = (None, None);
        trial.remark(format!(
            "round {round}: epochs {} and {} recover at once",
            epoch + 1,
            epoch + 2
        ));
        while first_done.is_none() || second_done.is_none() {
            let steps = Cut::Woken(1 + random.below(3));
            if first_done.is_none() && (second_done.is_some() || random.below(2) == 0) {
                first_done = poll_until(first.as_mut(), steps).await;
            } else if second_done.is_none() {
                second_done = poll_until(second.as_mut(), steps).await;
            }
        }
        first_done.unwrap_or(Ok(()))?;
        second_done.unwrap_or(Ok(()))?;
        trial.decide_against(&[&stale.id]);
        trial
            .process()
            .await?
            .nothing_in_doubt_before(epoch + 2)
            .await?;
        trial.read().await?;
    }
    Ok(())
}

async fn started_twice(trial: Arc<Trial>) -> Result<(), Stop> {
    let decisions = Decisions::new(&trial);
    let run = || Run::new(&trial, &decisions);
    let (first, second) = tokio::join!(run().go(Crash::never()), run().go(Crash::never()));
    // Each of them ends, or says that another has taken over.
    for ended in [first?, second?] {
        if let Some(Err(error)) = ended
            && !error.is_fenced()
        {
            return Err(Stop::failed(format!(
                "of two runs at once, one fails by: {error}"
            )));
        }
    }
    run().complete().await?;
    Ok(())
}

fn expect_fenced(swept: Result<Vec<InDoubt>, SinkError>, what: &str) -> Result<(), Stop> {
    match swept {
        Err(error) if error.kind() == ErrorKind::Fenced => Ok(()),
        Err(error) => {
            let kind = error.kind();
            Err(Stop::failed(format!(
                "{what} is refused as {kind:?}, not as fenced: {error}"
            )))
        }
        Ok(_) => Err(Stop::failed(format!("{what} is let through"))),
    }
}

async fn own_epoch(trial: Arc<Trial>) -> Result<(), Stop> {
    let other = trial.process().await?;
    let mut open = other.begin(&id(3, 1, 1)).await?;
    other.write(&mut open, 20).await?;
    let listed = other.in_doubt().await?;
    if listed.iter().any(|one| one.may_be(&open.id)) {
        for epoch in [3, 2] {
            let swept = trial.process().await?.abort_stale(epoch, 0, &[]).await;
            expect_fenced(
                swept,
                "a recovery that finds an open transaction of epoch 3",
            )?;
        }
    }
    let handle = other.prepare(&id(3, 0, 1), 20).await?;
    for epoch in [3, 2] {
        let swept = trial.process().await?.abort_stale(epoch, 0, &[]).await;
        expect_fenced(swept, "a recovery that finds what epoch 3 has prepared")?;
    }
    let second = other.pre_commit(open).await?;
    let second = second.ok_or_else(|| Stop::failed("no handle for 20 records"))?;
    trial.decide(&[&handle, &second]);
    other.settle(&handle).await?;
    other.settle(&second).await?;
    trial.expect_rows(40).await
}

async fn own_output(trial: Arc<Trial>) -> Result<(), Stop> {
    let other = trial.process().await?;
    let handle = other.prepare(&id(3, 0, 1), 20).await?;
    other.decide_and_settle(&handle).await?;
    for epoch in [3, 2] {
        let swept = trial.process().await?.abort_stale(epoch, 1, &[]).await;
        expect_fenced(swept, "a recovery that finds what epoch 3 has committed")?;
    }
    trial.expect_rows(20).await
}

async fn late_opener(trial: Arc<Trial>) -> Result<(), Stop> {
    let overtaken = trial.process().await?;
    let next = trial.process().await?;
    next.recover(2, 0, &[]).await?;
    let handle = next.prepare(&id(2, 0, 1), 20).await?;
    let mut open = next.begin(&id(2, 1, 1)).await?;
    next.write(&mut open, 20).await?;
    // Where the system knows epochs, both are refused.
    let late = overtaken.prepare(&id(1, 0, 1), 3).await;
    let mut late_open = overtaken.begin(&id(1, 1, 1)).await;
    if let Ok(open) = &mut late_open {
        let _written_or_refused = overtaken.write(open, 3).await;
    }
    trial.decide_against(&[&id(1, 0, 1), &id(1, 1, 1)]);
    let aborted = next.sweep_late(2, 0, &[]).await?;
    if let Some(own) = aborted.iter().find(|one| one.epoch.0 >= 2) {
        return Err(Stop::failed(format!(
            "a late sweep of epoch 2 aborts {own}"
        )));
    }
    next.nothing_in_doubt_before(2).await?;
    if let Ok(late) = late
        && overtaken.commit(&late).await.is_ok()
    {
        return Err(Stop::failed(format!(
            "{} is committed after it was aborted",
            late.id
        )));
    }
    drop(late_open);
    let second = next.pre_commit(open).await?;
    let second = second.ok_or_else(|| Stop::failed("no handle for 20 records"))?;
    trial.decide(&[&handle, &second]);
    next.settle(&handle).await?;
    next.settle(&second).await?;
    trial.expect_rows(40).await?;
    // What it has committed since its recovery is its own, and not the output of an unknown run.
    next.sweep_late(2, 0, &[]).await?;
    let third = next.prepare(&id(2, 0, 2), 5).await?;
    let swept = overtaken.sweep_late(1, 0, &[]).await;
    expect_fenced(swept, "a late sweep that finds what epoch 2 has prepared")?;
    next.decide_and_settle(&third).await?;
    trial.expect_rows(45).await
}

/// A transaction of a job and a sink of their own.
fn of(job: &str, sink: &str, epoch: u64, subtask: u32, checkpoint: u64) -> TransactionId {
    TransactionId {
        job: JobId::new(job).expect("a name of letters"),
        sink: SinkId::new(sink).expect("a name of letters"),
        ..id(epoch, subtask, checkpoint)
    }
}

async fn similar_names(trial: Arc<Trial>) -> Result<(), Stop> {
    let (ours, name) = (job(), sink());
    let (ours, name) = (ours.as_str(), name.as_str());
    let process = trial.process().await?;
    let mut others = Vec::new();
    for (job, sink) in [
        (format!("{ours}a"), name.to_owned()),
        (format!("{ours}-{name}"), name.to_owned()),
        (ours[..ours.len() - 1].to_owned(), name.to_owned()),
        (ours.to_uppercase(), name.to_owned()),
        (ours.to_owned(), format!("{name}a")),
        (ours.to_owned(), format!("{name}_1")),
        (ours.to_owned(), name[..name.len() - 1].to_owned()),
        (name.to_owned(), ours.to_owned()),
    ] {
        others.push(process.prepare(&of(&job, &sink, 1, 0, 1), 5).await?);
    }
    let decided = process.prepare(&id(1, 1, 1), 5).await?;
    process.decide_and_settle(&decided).await?;
    // 11 begins like 1, in every place of the id where there is a number.
    let mut stale = Vec::new();
    for (subtask, checkpoint) in [(11, 1), (1, 11), (111, 11)] {
        stale.push(process.prepare(&id(1, subtask, checkpoint), 5).await?);
    }
    process
        .abort_stale(2, 1, std::slice::from_ref(&decided))
        .await?;
    process.nothing_in_doubt_before(2).await?;
    trial.decide_against(&stale.iter().map(|handle| &handle.id).collect::<Vec<_>>());
    // Epoch 11 begins like epoch 1, and is newer.
    let newer = process.prepare(&id(11, 0, 2), 5).await?;
    without_effect(process.abort_stale(2, 1, &[decided]).await)?;
    others.push(newer);
    trial.decide(&others.iter().collect::<Vec<_>>());
    for handle in &others {
        process.settle(handle).await?;
    }
    trial.expect_rows(5 + others.len() * 5).await?;
    // Another job's fence must not have to do with ours either.
    let nobody = JobId::new("nobody").expect("a name of letters");
    process.abort_stale_of(nobody, 99, 0, &[]).await?;
    Ok(())
}

async fn ambiguous_decisions(trial: Arc<Trial>) -> Result<(), Stop> {
    for applied in [true, false] {
        for nth in 1..=3 {
            for crash in [true, false] {
                let trial = trial.elsewhere().await?;
                let decisions = Decisions::new(&trial);
                decisions.fail_at(nth, applied, crash);
                trial.remark(format!(
                    "write {nth} to the log of decisions {} and fails{}",
                    if applied { "is done" } else { "is not done" },
                    if crash { ", and the process dies" } else { "" }
                ));
                let run = Run::new(&trial, &decisions);
                let _: Option<_> = run.go(decisions.crash()).await?;
                Run::new(&trial, &decisions).complete().await?;
                trial.verdict().await?;
            }
        }
    }
    Ok(())
}
