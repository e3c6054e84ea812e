//! One checkpoint after the other, with a crash somewhere in each.

use std::time::Duration;

use cofferdam::{CommitError, Committed, TransactionId};

use crate::check::Stop;
use crate::factory::Factory;
use crate::process::{Handle, Process};
use crate::site::id;
use crate::trial::Trial;
use crate::wrappers::polls::{Cut, cut};

/// Which call of a checkpoint is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Begin,
    Write,
    PreCommit,
    Commit,
    AbortOpen,
    AbortPrepared,
    InDoubt,
    AbortStale,
}

impl Step {
    pub(crate) const ALL: &'static [Self] = &[
        Self::Begin,
        Self::Write,
        Self::PreCommit,
        Self::Commit,
        Self::AbortOpen,
        Self::AbortPrepared,
        Self::InDoubt,
        Self::AbortStale,
    ];
}

/// Who goes on after the crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Survivor {
    /// A new process: the old one, with its sink, is gone.
    NewProcess,
    /// The same process, with the same instance of the sink: only the call was dropped.
    SameProcess,
}

/// How far a checkpoint came.
enum Left {
    /// The decision is there, and this is its handle.
    Decided(Handle),
    /// There is no decision.
    Undecided(TransactionId),
}

/// More awaits than any call has.
const AWAITS: usize = 200;

/// Records of one checkpoint.
const RECORDS: u64 = 24;

/// Makes one checkpoint for each await of each step, and dies there.
pub(crate) async fn crash_everywhere<F: Factory>(
    trial: &Trial<F>,
    steps: &[Step],
    survivor: Survivor,
) -> Result<(), Stop> {
    let mut checkpoint = 0;
    let mut epoch = 1;
    let mut process = trial.process().await?;
    let mut visible = 0;
    for step in steps {
        for at in Cut::all(AWAITS) {
            checkpoint += 1;
            epoch += 1;
            trial.remark(format!("epoch {epoch} dies at {step:?}, {at:?}"));
            let records = trial.site.new_records(RECORDS);
            let transaction = id(epoch, 0, checkpoint);
            let (left, died) =
                until(trial, &process, &transaction, records.clone(), *step, at).await?;
            if survivor == Survivor::NewProcess {
                process = trial.process().await?;
            }
            match left {
                Left::Decided(handle) => {
                    epoch = recover(trial, &process, epoch + 1, checkpoint, &[handle]).await?;
                }
                Left::Undecided(transaction) => {
                    trial.decide_against(&[&transaction]);
                    epoch = recover(trial, &process, epoch + 1, checkpoint - 1, &[]).await?;
                    let again = process
                        .prepare_records(&id(epoch, 0, checkpoint), records)
                        .await?;
                    trial.decide(&[&again]);
                    let _: Committed = process.commit(&again).await?;
                }
            }
            visible += usize::try_from(RECORDS).unwrap_or(0);
            trial.expect_rows(visible).await?;
            if !died {
                break;
            }
        }
    }
    Ok(())
}

/// Makes a checkpoint up to the step that is cut off, and tells whether it was.
async fn until<F: Factory>(
    trial: &Trial<F>,
    process: &Process<F>,
    transaction: &TransactionId,
    records: Vec<u64>,
    step: Step,
    at: Cut,
) -> Result<(Left, bool), Stop> {
    let undecided = |died| Ok((Left::Undecided(transaction.clone()), died));
    let mut open = if step == Step::Begin {
        match cut(process.begin(transaction), at).await {
            Some(open) => open?,
            None => return undecided(true),
        }
    } else {
        process.begin(transaction).await?
    };
    let (first, second) = records.split_at(records.len() / 2);
    process.write_records(&mut open, first.to_vec()).await?;
    let second = process.write_records(&mut open, second.to_vec());
    if step == Step::Write {
        match cut(second, at).await {
            Some(written) => written?,
            None => return undecided(true),
        }
    } else {
        second.await?;
    }
    if step == Step::AbortOpen {
        let aborted = cut(process.abort_open(open), at).await;
        return undecided(aborted.transpose()?.is_none());
    }
    let pre_commit = process.pre_commit(open);
    let handle = if step == Step::PreCommit {
        match cut(pre_commit, at).await {
            Some(handle) => handle?,
            None => return undecided(true),
        }
    } else {
        pre_commit.await?
    };
    let handle = handle.ok_or_else(|| Stop::failed("pre_commit returned no handle"))?;
    match step {
        Step::AbortPrepared => {
            let aborted = cut(process.abort(&handle), at).await;
            undecided(aborted.transpose()?.is_none())
        }
        Step::InDoubt => {
            let listed = cut(process.in_doubt(), at).await;
            undecided(listed.transpose()?.is_none())
        }
        Step::AbortStale => {
            // As if the next epoch had come, and died too.
            let next = transaction.epoch.0 + 1;
            let newest = transaction.checkpoint.0 - 1;
            let aborted = cut(process.abort_stale(next, newest, &[]), at).await;
            undecided(aborted.transpose()?.is_none())
        }
        _ => {
            trial.decide(&[&handle]);
            let committed = if step == Step::Commit {
                cut(process.commit(&handle), at).await
            } else {
                Some(process.commit(&handle).await)
            };
            let died = committed.transpose()?.is_none();
            Ok((Left::Decided(handle), died))
        }
    }
}

/// Recovers where a call that was dropped may still be at work, in a thread or in the outside system: as the runtime
/// does, it tries again what can be tried again, and what comes late is stale to the epoch after. Returns the epoch that
/// holds in the end.
pub(crate) async fn recover<F: Factory>(
    trial: &Trial<F>,
    process: &Process<F>,
    epoch: u64,
    newest: u64,
    decided: &[Handle],
) -> Result<u64, Stop> {
    for handle in decided {
        retry(trial, || async {
            match process.commit(handle).await {
                Ok(_) => Ok(Some(())),
                Err(CommitError::NotYet(error)) if error.kind().is_retriable() => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
        .await?;
    }
    retry(trial, || async {
        match process.abort_stale(epoch, newest, decided).await {
            Err(error) if error.kind().is_retriable() => return Ok(None),
            aborted => aborted?,
        };
        match process.nothing_in_doubt_before(epoch).await {
            Ok(()) => Ok(Some(())),
            // Something came late: it is the next epoch's.
            Err(_) => Ok(None),
        }
    })
    .await?;
    // A moment more, for what comes later still.
    process.abort_stale(epoch + 1, newest, decided).await?;
    Ok(epoch + 1)
}

/// Tries until there is something, for as long as one call may take.
async fn retry<F: Factory, A>(trial: &Trial<F>, attempt: impl Fn() -> A) -> Result<(), Stop>
where
    A: Future<Output = Result<Option<()>, Stop>>,
{
    let limit = trial.site.call_limit();
    let tries = async {
        loop {
            if attempt().await?.is_some() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let ended = tokio::time::timeout(limit, tries).await;
    ended.unwrap_or_else(|_| {
        Err(Stop::failed(format!(
            "recovery did not come to its end within {limit:?}"
        )))
    })
}
