//! Errors say what is true, and what can be done.

use std::sync::Arc;

use cofferdam::{CommitError, Committed, ErrorKind, SinkError};

use crate::check::{Stop, checks};
use crate::factory::Odd;
use crate::observer::Breakage;
use crate::process::Process;
use crate::site::id;
use crate::trial::Trial;
use crate::trouble::Trouble;

checks! {
    "ERR-1" missing_rights_are_told_and_no_secret_is [Part]
        "Takes away the sink's rights and tries each call: a configuration error, and no password in any text. Works when they are back."
        no_rights;
    "ERR-2" a_system_that_is_away_is_to_be_tried_again [Part]
        "The system is away: every call fails with a retriable kind. Works when it is back."
        away;
    "ERR-3" a_refused_record_is_rejected [Part]
        "Writes a record that the system refuses: rejected, by the pre-commit at the latest."
        refused;
    "ERR-4" an_oversize_record_is_rejected [Part]
        "Writes a record that is too large: rejected, by the pre-commit at the latest."
        oversize;
    "ERR-5" a_full_system_is_told_and_passes [Resume, Part]
        "Disk or quota is full: an error, nothing visible. Works when there is room."
        full;
    "ERR-6" what_is_declared_is_true []
        "Probes what is declared, and what is declared absent: capabilities never change, what is listed as in doubt is what is prepared, a sink that hides or resumes says so."
        declared;
    "ERR-7" a_commit_that_could_not_be_done_is_no_success [Resume, Part]
        "Breaks the system in every way that the observer can after the decision: commit fails, nothing is visible; once mended it succeeds."
        failed_commit;
    "ERR-8" a_panic_in_the_users_code_leaves_nothing [Resume, Part]
        "The user's own encoding panics in the middle of a batch: nothing is visible, the same instance goes on, and recovery removes the rest."
        panics;
}

/// Writes and prepares, and commits if that worked; the first error on the way.
async fn attempt(
    trial: &Trial,
    process: &Process,
    epoch: u64,
    checkpoint: u64,
) -> Result<(), SinkError> {
    let transaction = id(epoch, 0, checkpoint);
    let mut open = process.begin(&transaction).await?;
    if let Err(error) = process.write(&mut open, 20).await {
        trial.decide_against(&[&transaction]);
        return Err(error);
    }
    match process.pre_commit(open).await {
        Ok(Some(handle)) => {
            trial.decide(&[&handle]);
            match process.commit(&handle).await {
                Ok(_) => Ok(()),
                Err(CommitError::NotYet(error)) => Err(error),
                Err(CommitError::Lost(reason)) => Err(SinkError::rejected(reason)),
            }
        }
        Ok(None) => {
            trial.decided(&transaction);
            Ok(())
        }
        Err(error) => {
            trial.decide_against(&[&transaction]);
            Err(error)
        }
    }
}

/// Breaks the system, demands an error of a kind from a write and from a recovery, mends it, and demands that it works.
async fn breaks_with(
    trial: &Trial,
    breakage: Breakage,
    expected: impl Fn(ErrorKind) -> bool,
) -> Result<(), Stop> {
    let process = trial.process().await?;
    attempt(trial, &process, 1, 1).await?;
    trial.place().break_down(breakage).await?;
    trial.remark(format!("{breakage:?}"));
    let written = attempt(trial, &process, 1, 2).await;
    let recovered = match trial.resumes() {
        true => process.abort_stale(2, 1, &[]).await.map(drop),
        false => written
            .as_ref()
            .map(drop)
            .map_err(|error| SinkError::new(error.kind(), "")),
    };
    trial.place().mend().await?;
    for (what, result) in [("a write", written), ("a recovery", recovered)] {
        match result {
            Ok(()) if breakage == Breakage::Full && what == "a recovery" => {}
            Ok(()) => return Err(Stop::failed(format!("{breakage:?}, and {what} succeeds"))),
            Err(error) if expected(error.kind()) => {}
            Err(error) => {
                let kind = error.kind();
                return Err(Stop::failed(format!(
                    "{breakage:?}, and {what} is {kind:?}: {error}"
                )));
            }
        }
    }
    let mut epoch = 3;
    if trial.resumes() {
        epoch = crate::scenario::recover(trial, &process, epoch, 1, &[]).await?;
    }
    attempt(trial, &process, epoch, 2).await?;
    trial.expect_rows(40).await
}

async fn no_rights(trial: Arc<Trial>) -> Result<(), Stop> {
    breaks_with(&trial, Breakage::NoRights, |kind| {
        kind == ErrorKind::Configuration
    })
    .await
}

async fn away(trial: Arc<Trial>) -> Result<(), Stop> {
    breaks_with(&trial, Breakage::Unreachable, ErrorKind::is_retriable).await
}

async fn full(trial: Arc<Trial>) -> Result<(), Stop> {
    let typed = |kind| matches!(kind, ErrorKind::Configuration | ErrorKind::Transient);
    breaks_with(&trial, Breakage::Full, typed).await
}

async fn odd(trial: &Trial, odd: Odd) -> Result<(), Stop> {
    trial.site.subject.has(odd)?;
    let process = trial.process().await?;
    let mut open = process.begin(&id(1, 0, 1)).await?;
    process.write(&mut open, 5).await?;
    trial.decide_against(&[&open.id]);
    let mut error = process.write_odd(&mut open, odd).await.err();
    if error.is_none() {
        error = process.pre_commit(open).await.err();
    }
    match error {
        Some(error) if error.kind() == ErrorKind::Rejected => Ok(()),
        Some(error) => {
            let kind = error.kind();
            Err(Stop::failed(format!(
                "the record is {kind:?}, not rejected: {error}"
            )))
        }
        None => Err(Stop::failed("the record is prepared")),
    }
}

async fn refused(trial: Arc<Trial>) -> Result<(), Stop> {
    odd(&trial, Odd::Refused).await
}

async fn oversize(trial: Arc<Trial>) -> Result<(), Stop> {
    odd(&trial, Odd::Oversize).await
}

async fn declared(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let mut open = process.begin(&id(1, 0, 1)).await?;
    process.write(&mut open, 20).await?;
    let transaction = open.id.clone();
    let handle = process.pre_commit(open).await?;
    if process.capabilities() != trial.capabilities {
        return Err(Stop::failed(
            "what is declared changes over the sink's life",
        ));
    }
    let lists = process
        .in_doubt()
        .await?
        .iter()
        .any(|found| found.may_be(&transaction));
    let Some(handle) = handle else {
        // Nothing to resume, and nothing was claimed.
        trial.decided(&transaction);
        return match trial.resumes() {
            true => Err(Stop::failed(
                "resume: AnyProcess is declared, and pre_commit returned no handle",
            )),
            false => Ok(()),
        };
    };
    if lists != trial.capabilities.lists_in_doubt {
        return Err(Stop::failed(format!(
            "lists_in_doubt is declared as {}, and in_doubt {} what is prepared",
            trial.capabilities.lists_in_doubt,
            if lists { "lists" } else { "does not list" }
        )));
    }
    let seen = trial.read().await?.len();
    if !trial.hidden() && seen == 0 {
        return Err(Stop::failed(
            "isolation: Immediate is declared, and what is prepared is hidden: declare it",
        ));
    }
    trial.decide(&[&handle]);
    drop(process);
    let next = trial.process().await?;
    let committed = next.commit(&handle).await;
    if !trial.resumes() {
        return match committed {
            Ok(_) => Err(Stop::failed(
                "resume: None is declared, and another process can commit: declare it",
            )),
            Err(_) => Ok(()),
        };
    }
    match committed? {
        Committed::Now | Committed::Before => {}
    }
    let listed = next.in_doubt().await?;
    if let Some(found) = listed.iter().find(|found| found.may_be(&transaction)) {
        return Err(Stop::failed(format!(
            "{transaction} is committed, and {found} is listed as in doubt"
        )));
    }
    trial.expect_rows(20).await
}

async fn failed_commit(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let (mut epoch, mut tried, mut absent) = (1, 0, None);
    for (breakage, checkpoint) in [Breakage::NoRights, Breakage::Unreachable, Breakage::Silent]
        .into_iter()
        .zip(1..)
    {
        let handle = process.prepare(&id(epoch, 0, checkpoint), 10).await?;
        trial.decide(&[&handle]);
        match trial.place().break_down(breakage).await {
            Ok(()) => {
                tried += 1;
                let committed = process.commit(&handle).await;
                trial.place().mend().await?;
                trial.remark(format!("{breakage:?} during the commit of {}", handle.id));
                match committed {
                    Ok(committed) => {
                        return Err(Stop::failed(format!(
                            "{breakage:?}, and commit says {committed:?}"
                        )));
                    }
                    Err(CommitError::Lost(reason)) => {
                        return Err(Stop::failed(format!(
                            "{breakage:?}, and commit speaks of a loss: {reason}"
                        )));
                    }
                    Err(CommitError::NotYet(_)) => {}
                }
            }
            Err(Trouble::Unsupported(reason)) => absent = Some(reason),
            Err(failed) => return Err(failed.into()),
        }
        epoch =
            crate::scenario::recover(&trial, &process, epoch + 1, checkpoint, &[handle]).await?;
    }
    match absent {
        Some(reason) if tried == 0 => Err(Stop::Unsupported(reason)),
        _ => trial.expect_rows(30).await,
    }
}

async fn panics(trial: Arc<Trial>) -> Result<(), Stop> {
    trial.site.subject.has(Odd::Panicking)?;
    let process = Arc::new(trial.process().await?);
    let transaction = id(1, 0, 1);
    trial.decide_against(&[&transaction]);
    let panicking = {
        let process = Arc::clone(&process);
        tokio::spawn(async move {
            let mut open = process.begin(&transaction).await?;
            process.write(&mut open, 30).await?;
            process.write_odd(&mut open, Odd::Panicking).await?;
            process.pre_commit(open).await.map(drop)
        })
    };
    // A sink may also turn it into an error.
    if let Ok(Ok(())) = panicking.await {
        return Err(Stop::failed("the record did not panic"));
    }
    trial.expect_rows(0).await?;
    process.recover(2, 0, &[]).await?;
    let handle = process.prepare(&id(2, 0, 1), 10).await?;
    process.decide_and_settle(&handle).await?;
    trial.expect_rows(10).await?;
    trial.expect_no_leftovers().await
}
