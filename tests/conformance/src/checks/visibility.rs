//! What a reader sees, and when.

use std::sync::Arc;

use crate::check::{Stop, checks};
use crate::factory::Factory;
use crate::observer::Observer;
use crate::site::id;
use crate::trial::Trial;

checks! {
    "VIS-1" nothing_is_visible_before_pre_commit [Hidden]
        "Writes a hundred records and reads: no reader sees one."
        before_pre_commit;
    "VIS-2" nothing_is_visible_before_commit [Resume, Hidden]
        "Prepares a hundred records and reads again and again: no reader sees one."
        before_commit;
    "VIS-3" a_commit_shows_exactly_what_was_written []
        "Commits a hundred records in batches of uneven size: a reader sees these, each once and whole."
        commit_shows_all;
    "VIS-4" what_is_aborted_is_never_visible [Resume, Hidden]
        "Aborts one transaction open and one prepared, then commits a third: a reader sees the third alone."
        aborted_is_invisible;
    "VIS-5" a_commit_shows_its_own_transaction_alone [Resume, Hidden, Prepared(2)]
        "Commits one transaction while the next is prepared and one more is open: a reader sees the first alone."
        commit_shows_its_own;
    "VIS-6" a_commit_is_visible_when_it_returns [Resume]
        "Commits ten transactions, and reads right after each: the reader sees all that is committed so far."
        visible_at_return;
    "VIS-7" the_declared_isolation_is_what_hides [HiddenIf, Part]
        "Prepares records and reads without the isolation that the sink asks of readers: they are seen. So the declared setting is needed, and the reader at that setting proves something."
        isolation_is_needed;
}

/// Records of one transaction, where one check has one.
const RECORDS: u64 = 100;

async fn before_pre_commit<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let mut open = process.begin(&id(1, 0, 1)).await?;
    for _ in 0..10 {
        process.write(&mut open, RECORDS / 10).await?;
        trial.expect_rows(0).await?;
    }
    process.abort_open(open).await?;
    Ok(())
}

async fn before_commit<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), RECORDS).await?;
    for _ in 0..20 {
        trial.expect_rows(0).await?;
        tokio::task::yield_now().await;
    }
    trial.decide(&[&handle]);
    let _ = process.commit(&handle).await?;
    Ok(())
}

async fn commit_shows_all<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let mut open = process.begin(&id(1, 0, 1)).await?;
    for count in [1, 7, 64, 28] {
        process.write(&mut open, count).await?;
    }
    let transaction = open.id.clone();
    match process.pre_commit(open).await? {
        Some(handle) => {
            trial.decide(&[&handle]);
            let _ = process.commit(&handle).await?;
        }
        None if trial.resumes() => {
            return Err(Stop::failed(
                "pre_commit returned no handle for 100 records",
            ));
        }
        // Nothing is held back for a decision.
        None => trial.decided(&transaction),
    }
    trial.expect_rows(100).await
}

async fn aborted_is_invisible<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let mut open = process.begin(&id(1, 0, 1)).await?;
    process.write(&mut open, RECORDS).await?;
    process.abort_open(open).await?;
    trial.expect_rows(0).await?;
    let prepared = process.prepare(&id(1, 0, 2), RECORDS).await?;
    trial.decide_against(&[&prepared.id]);
    process.abort(&prepared).await?;
    trial.expect_rows(0).await?;
    let third = process.prepare(&id(1, 0, 3), RECORDS).await?;
    trial.decide(&[&third]);
    let _ = process.commit(&third).await?;
    trial.expect_rows(100).await
}

async fn commit_shows_its_own<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let first = process.prepare(&id(1, 0, 1), RECORDS).await?;
    let second = process.prepare(&id(1, 0, 2), RECORDS).await?;
    let mut third = process.begin(&id(1, 0, 3)).await?;
    process.write(&mut third, RECORDS).await?;
    trial.decide(&[&first]);
    let _ = process.commit(&first).await?;
    trial.expect_rows(100).await?;
    trial.decide(&[&second]);
    let _ = process.commit(&second).await?;
    trial.expect_rows(200).await?;
    process.abort_open(third).await?;
    Ok(())
}

async fn visible_at_return<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    for checkpoint in 1..=10 {
        let handle = process.prepare(&id(1, 0, checkpoint), 10).await?;
        trial.decide(&[&handle]);
        let _ = process.commit(&handle).await?;
        trial
            .expect_rows(usize::try_from(checkpoint).unwrap_or(0) * 10)
            .await?;
    }
    Ok(())
}

async fn isolation_is_needed<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), RECORDS).await?;
    // Some write at pre-commit, some at the start of the commit: cut off, the next commit finishes it.
    let before = trial.place().visible_without_isolation().await?;
    trial.decide(&[&handle]);
    let mut seen = !before.is_empty();
    for at in crate::wrappers::polls::Cut::all(50) {
        if seen
            || crate::wrappers::polls::cut(process.commit(&handle), at)
                .await
                .is_some()
        {
            break;
        }
        let weak = trial.place().visible_without_isolation().await?;
        seen = weak.len() > trial.read().await?.len();
    }
    let _ = process.commit(&handle).await?;
    if seen {
        return Ok(());
    }
    Err(Stop::failed(
        "a reader without the declared setting sees no more than one with it: declare Isolation::Hidden",
    ))
}
