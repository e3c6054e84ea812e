//! What a reader sees, and when.

use std::sync::Arc;

use cofferdam::Isolation;

use crate::check::{Stop, checks};
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
    "VIS-7" the_declared_isolation_is_what_hides [Resume, Hidden, Part]
        "Prepares records and reads without the isolation that the sink asks of readers. If it asks for a setting, they are seen: so the setting is needed, and the reader at that setting proves something. If it hides whatever the reader does, they are not."
        isolation_is_needed;
}

/// Records of one transaction, where one check has one.
const RECORDS: u64 = 100;

async fn before_pre_commit(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let mut open = process.begin(&id(1, 0, 1)).await?;
    for _ in 0..10 {
        process.write(&mut open, RECORDS / 10).await?;
        trial.expect_rows(0).await?;
    }
    process.abort_open(open).await?;
    Ok(())
}

async fn before_commit(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), RECORDS).await?;
    for _ in 0..20 {
        trial.expect_rows(0).await?;
        tokio::task::yield_now().await;
    }
    process.decide_and_settle(&handle).await?;
    Ok(())
}

async fn commit_shows_all(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let mut open = process.begin(&id(1, 0, 1)).await?;
    for count in [1, 7, 64, 28] {
        process.write(&mut open, count).await?;
    }
    let transaction = open.id.clone();
    match process.pre_commit(open).await? {
        Some(handle) => {
            process.decide_and_settle(&handle).await?;
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

async fn aborted_is_invisible(trial: Arc<Trial>) -> Result<(), Stop> {
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
    process.decide_and_settle(&third).await?;
    trial.expect_rows(100).await
}

async fn commit_shows_its_own(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let first = process.prepare(&id(1, 0, 1), RECORDS).await?;
    let second = process.prepare(&id(1, 0, 2), RECORDS).await?;
    let mut third = process.begin(&id(1, 0, 3)).await?;
    process.write(&mut third, RECORDS).await?;
    process.decide_and_settle(&first).await?;
    trial.expect_rows(100).await?;
    process.decide_and_settle(&second).await?;
    trial.expect_rows(200).await?;
    process.abort_open(third).await?;
    Ok(())
}

async fn visible_at_return(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    for checkpoint in 1..=10 {
        let handle = process.prepare(&id(1, 0, checkpoint), 10).await?;
        process.decide_and_settle(&handle).await?;
        trial
            .expect_rows(usize::try_from(checkpoint).unwrap_or(0) * 10)
            .await?;
    }
    Ok(())
}

async fn isolation_is_needed(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), RECORDS).await?;
    let seen = trial.place().visible_without_isolation().await?.len();
    process.decide_and_settle(&handle).await?;
    let declared = trial.capabilities.isolation;
    match (declared, seen) {
        (Isolation::Hidden, 0) => Ok(()),
        (Isolation::Hidden, seen) => Err(Stop::failed(format!(
            "isolation: Hidden is declared, and a reader without any setting sees {seen} rows: declare HiddenIf"
        ))),
        (declared, 0) => Err(Stop::failed(format!(
            "isolation: {declared:?} is declared, and a reader without the setting sees no more: declare Hidden"
        ))),
        _ => Ok(()),
    }
}
