//! All of a transaction, or nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::check::{Stop, checks};
use crate::factory::Odd;
use crate::site::id;
use crate::trial::Trial;
use crate::wrappers::polls::{Cut, cut};

checks! {
    "ATO-1" a_reader_never_sees_part_of_a_transaction [Resume, Hidden]
        "Two subtasks commit 25 transactions of 40 records each while a reader looks without pause: it never sees a part of one."
        no_part_is_seen;
    "ATO-2" a_refused_record_leaves_nothing_of_its_transaction [Resume, Hidden, Part]
        "Writes 56 records and one that the system refuses, and aborts: no reader sees one of them, and the next transaction works."
        refused_record;
    "ATO-3" a_large_transaction_is_all_or_nothing [Resume, Hidden]
        "Writes 5,000 records, is cut off in the middle of a batch, and recovers: nothing is visible. Writes them again and commits: all are."
        large_transaction;
    "ATO-4" an_empty_transaction_leaves_nothing [Resume]
        "Prepares a transaction without records, and commits it if it has a handle: no row, nothing in doubt, nothing left over, and a reader sees the next one."
        empty_transaction;
    "ATO-5" a_crash_between_the_commits_of_subtasks_is_made_good [Resume]
        "Of three subtasks' transactions of one checkpoint one is committed before the crash: recovery commits the other two."
        between_subtasks;
}

async fn no_part_is_seen(trial: Arc<Trial>) -> Result<(), Stop> {
    let done = Arc::new(AtomicBool::new(false));
    let reader = {
        let (trial, done) = (Arc::clone(&trial), Arc::clone(&done));
        tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                trial.read().await?;
                tokio::task::yield_now().await;
            }
            Ok::<(), Stop>(())
        })
    };
    let subtask = |subtask: u32| {
        let trial = &trial;
        async move {
            let process = trial.process().await?;
            for checkpoint in 1..=25 {
                let handle = process.prepare(&id(1, subtask, checkpoint), 40).await?;
                process.decide_and_settle(&handle).await?;
            }
            Ok::<(), Stop>(())
        }
    };
    let (first, second) = tokio::join!(subtask(0), subtask(1));
    done.store(true, Ordering::Relaxed);
    let read = reader.await;
    first.and(second)?;
    read.map_err(|panic| Stop::failed(format!("the reader: {panic}")))?
}

async fn refused_record(trial: Arc<Trial>) -> Result<(), Stop> {
    trial.site.subject.has(Odd::Refused)?;
    let process = trial.process().await?;
    let mut open = process.begin(&id(1, 0, 1)).await?;
    process.write(&mut open, 56).await?;
    let written = process.write_odd(&mut open, Odd::Refused).await;
    // A sink that buffers finds out at the pre-commit.
    match written {
        Err(_) => {
            // If that fails too, the rest is left to the next recovery.
            process.abort_open(open).await.ok();
        }
        Ok(()) => {
            trial.decide_against(&[&open.id]);
            if process.pre_commit(open).await.is_ok() {
                return Err(Stop::failed(
                    "a record that the system refuses was prepared",
                ));
            }
        }
    }
    trial.expect_rows(0).await?;
    process.recover(2, 0, &[]).await?;
    let handle = process.prepare(&id(2, 0, 1), 10).await?;
    process.decide_and_settle(&handle).await?;
    trial.expect_rows(10).await
}

async fn large_transaction(trial: Arc<Trial>) -> Result<(), Stop> {
    let records = trial.site.new_records(5_000);
    let process = trial.process().await?;
    let mut open = process.begin(&id(1, 0, 1)).await?;
    let mut batches = records.chunks(250);
    for batch in batches.by_ref().take(18) {
        process.write_records(&mut open, batch.to_vec()).await?;
    }
    let last = batches.next().unwrap_or_default();
    cut(
        process.write_records(&mut open, last.to_vec()),
        Cut::Waiting(1),
    )
    .await;
    trial.decide_against(&[&open.id]);
    drop(open);
    drop(process);
    trial.expect_rows(0).await?;
    let process = trial.process().await?;
    process.recover(2, 0, &[]).await?;
    let mut open = process.begin(&id(2, 0, 1)).await?;
    for batch in records.chunks(250) {
        process.write_records(&mut open, batch.to_vec()).await?;
    }
    let handle = process.pre_commit(open).await?;
    let handle = handle.ok_or_else(|| Stop::failed("no handle for 5,000 records"))?;
    trial.expect_rows(0).await?;
    process.decide_and_settle(&handle).await?;
    trial.expect_rows(5_000).await
}

async fn empty_transaction(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    for (checkpoint, writes) in [(1, false), (2, true)] {
        let mut open = process.begin(&id(1, 0, checkpoint)).await?;
        if writes {
            process.write(&mut open, 0).await?;
        }
        if let Some(handle) = process.pre_commit(open).await? {
            process.settle(&handle).await?;
        }
    }
    process.nothing_in_doubt_before(u64::MAX).await?;
    trial.expect_no_leftovers().await?;
    // Nor does it hold up the readers of what comes after it.
    let handle = process.prepare(&id(1, 0, 3), 10).await?;
    process.decide_and_settle(&handle).await?;
    trial.expect_rows(10).await
}

async fn between_subtasks(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let mut handles = Vec::new();
    for subtask in 0..3 {
        handles.push(process.prepare(&id(1, subtask, 1), 20).await?);
    }
    trial.decide(&handles.iter().collect::<Vec<_>>());
    process.settle(&handles[1]).await?;
    drop(process);
    let next = trial.process().await?;
    next.recover(2, 1, &handles).await?;
    trial.expect_rows(60).await
}
