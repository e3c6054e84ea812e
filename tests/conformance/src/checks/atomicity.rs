//! All of a transaction, or nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::check::{Stop, checks};
use crate::factory::{Factory, Odd};
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
        "Prepares a transaction without records, and commits it if it has a handle: no row, nothing in doubt, nothing left over."
        empty_transaction;
    "ATO-5" a_crash_between_the_commits_of_subtasks_is_made_good [Resume]
        "Of three subtasks' transactions of one checkpoint one is committed before the crash: recovery commits the other two."
        between_subtasks;
}

async fn no_part_is_seen<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
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
                trial.decide(&[&handle]);
                let _ = process.commit(&handle).await?;
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

async fn refused_record<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let refused = trial.site.factory.odd_record(Odd::Refused)?;
    let process = trial.process().await?;
    let mut open = process.begin(&id(1, 0, 1)).await?;
    process.write(&mut open, 56).await?;
    let written = process.write_input(&mut open, refused).await;
    // A sink that buffers finds out at the pre-commit.
    match written {
        Err(_) => {
            // An error of the abort leaves the rest to the next recovery.
            let _: Result<(), _> = process.abort_open(open).await;
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
    trial.decide(&[&handle]);
    let _ = process.commit(&handle).await?;
    trial.expect_rows(10).await
}

async fn large_transaction<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let mut open = process.begin(&id(1, 0, 1)).await?;
    for _ in 0..4 {
        process.write(&mut open, 1_000).await?;
    }
    cut(process.write(&mut open, 1_000), Cut::Waiting(1)).await;
    trial.decide_against(&[&open.id]);
    drop(open);
    drop(process);
    trial.expect_rows(0).await?;
    let process = trial.process().await?;
    process.recover(2, 0, &[]).await?;
    let mut open = process.begin(&id(2, 0, 1)).await?;
    for first in [1, 1_001, 2_001, 3_001, 4_001] {
        process
            .write_records(&mut open, (first..first + 1_000).collect())
            .await?;
    }
    let handle = process.pre_commit(open).await?;
    let handle = handle.ok_or_else(|| Stop::failed("no handle for 5,000 records"))?;
    trial.expect_rows(0).await?;
    trial.decide(&[&handle]);
    let _ = process.commit(&handle).await?;
    trial.expect_rows(5_000).await
}

async fn empty_transaction<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let open = process.begin(&id(1, 0, 1)).await?;
    if let Some(handle) = process.pre_commit(open).await? {
        let _ = process.commit(&handle).await?;
    }
    let mut open = process.begin(&id(1, 0, 2)).await?;
    process.write(&mut open, 0).await?;
    if let Some(handle) = process.pre_commit(open).await? {
        let _ = process.commit(&handle).await?;
    }
    process.recover(2, 2, &[]).await?;
    trial.expect_rows(0).await?;
    trial.expect_no_leftovers().await
}

async fn between_subtasks<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let mut handles = Vec::new();
    for subtask in 0..3 {
        handles.push(process.prepare(&id(1, subtask, 1), 20).await?);
    }
    trial.decide(&handles.iter().collect::<Vec<_>>());
    let _ = process.commit(&handles[1]).await?;
    drop(process);
    let next = trial.process().await?;
    next.recover(2, 1, &handles).await?;
    trial.expect_rows(60).await
}
