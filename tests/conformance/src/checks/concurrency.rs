//! Many at once, in any order, and dropped on the way.

use std::sync::Arc;
use std::time::Duration;

use crate::check::{Stop, checks};
use crate::observer::Breakage;
use crate::process::Handle;
use crate::random::Random;
use crate::scenario::{self, Step, Survivor};
use crate::site::id;
use crate::trial::Trial;
use crate::wrappers::polls::{Cut, cut};

checks! {
    "CON-1" a_call_dropped_at_any_await_leaves_the_sink_usable [Resume]
        "Drops the future of each call at each of its awaits, and goes on with the same instance: it recovers, and each record is visible once."
        dropped_calls;
    "CON-2" subtasks_side_by_side_do_not_meet [Resume]
        "Eight subtasks make five checkpoints each at the same time through one instance: each record is visible once."
        side_by_side;
    "CON-3" a_commit_beside_the_next_writes_mixes_nothing [Resume, Overlap]
        "Commits checkpoint after checkpoint while the next one is written: each read shows whole transactions, in the end all."
        commit_beside_writes;
    "CON-4" commits_in_any_order_and_number_show_each_once [Resume, Prepared(8)]
        "Eight decided transactions are committed in a seeded order, some of them late and several times: each is visible once."
        any_order;
    "CON-5" order_is_kept_in_each_lane [Resume]
        "Eight subtasks write 400 records each in batches of uneven size at the same time: in each file or partition a reader finds those of a subtask in the order of their writes."
        order;
    "CON-6" a_dropped_call_that_comes_late_changes_nothing [Resume, Part]
        "The system falls silent, each call is dropped while it waits, the next epoch recovers, and the system answers again, so that what was dropped may still be done, before or after: the next recovery leaves nothing of it, and each record is visible once."
        late_calls;
}

async fn dropped_calls(trial: Arc<Trial>) -> Result<(), Stop> {
    scenario::crash_everywhere(&trial, Step::ALL, Survivor::SameProcess).await
}

/// Runs subtasks at the same time, to the first error.
async fn together<W>(work: impl Iterator<Item = W>) -> Result<(), Stop>
where
    W: Future<Output = Result<(), Stop>> + Send + 'static,
{
    let mut running = tokio::task::JoinSet::new();
    for work in work {
        running.spawn(work);
    }
    while let Some(ended) = running.join_next().await {
        ended.map_err(|panic| Stop::failed(format!("a panic: {panic}")))??;
    }
    Ok(())
}

async fn side_by_side(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = Arc::new(trial.process().await?);
    let subtask = |subtask| {
        let process = Arc::clone(&process);
        async move {
            for checkpoint in 1..=5 {
                let handle = process.prepare(&id(1, subtask, checkpoint), 20).await?;
                process.decide_and_settle(&handle).await?;
            }
            Ok(())
        }
    };
    together((0..8).map(subtask)).await?;
    process.nothing_in_doubt_before(u64::MAX).await?;
    trial.expect_rows(800).await
}

async fn commit_beside_writes(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = Arc::new(trial.process().await?);
    let mut last: Option<Handle> = None;
    for checkpoint in 1..=10 {
        let mut open = process.begin(&id(1, 0, checkpoint)).await?;
        let commit = async {
            match last.take() {
                Some(handle) => process.commit(&handle).await.map(drop),
                None => Ok(()),
            }
        };
        let write = async {
            for _ in 0..4 {
                process.write(&mut open, 10).await?;
                tokio::task::yield_now().await;
            }
            Ok::<(), Stop>(())
        };
        let (committed, written) = tokio::join!(commit, write);
        committed?;
        written?;
        trial.read().await?;
        let handle = process.pre_commit(open).await?;
        let handle = handle.ok_or_else(|| Stop::failed("no handle for 40 records"))?;
        trial.decide(&[&handle]);
        last = Some(handle);
    }
    if let Some(handle) = last {
        process.settle(&handle).await?;
    }
    trial.expect_rows(400).await
}

async fn any_order(trial: Arc<Trial>) -> Result<(), Stop> {
    let mut random = Random::new(4);
    for round in 0..5 {
        let process = trial.process().await?;
        let mut handles = Vec::new();
        for number in 1..=8 {
            // Of two subtasks, since of one subtask commits come in order.
            handles.push(
                process
                    .prepare(
                        &id(round + 1, number % 2, round * 10 + u64::from(number)),
                        5,
                    )
                    .await?,
            );
        }
        trial.decide(&handles.iter().collect::<Vec<_>>());
        // Of one subtask, first commits come in order; those after them at any time.
        let (odd, even): (Vec<_>, Vec<_>) =
            handles.iter().partition(|handle| handle.id.subtask.0 == 1);
        let mut waiting = [odd.into_iter(), even.into_iter()];
        let mut done: Vec<&Handle> = Vec::new();
        for _ in 0..40 {
            let next = match random.below(3) {
                2 if !done.is_empty() => done[random.below(done.len())],
                subtask => match waiting[subtask % 2].next() {
                    Some(handle) => handle,
                    None => continue,
                },
            };
            process.settle(next).await?;
            done.push(next);
        }
        for handle in waiting.into_iter().flatten() {
            process.settle(handle).await?;
        }
        trial.read().await?;
    }
    Ok(())
}

async fn order(trial: Arc<Trial>) -> Result<(), Stop> {
    let process = Arc::new(trial.process().await?);
    let subtask = |subtask| {
        let process = Arc::clone(&process);
        async move {
            for checkpoint in 1..=2 {
                let mut open = process.begin(&id(1, subtask, checkpoint)).await?;
                for count in [1, 7, 64, 3, 30, 5, 90] {
                    process.write(&mut open, count).await?;
                }
                let handle = process.pre_commit(open).await?;
                let handle = handle.ok_or_else(|| Stop::failed("no handle for 200 records"))?;
                process.decide_and_settle(&handle).await?;
            }
            Ok(())
        }
    };
    together((0..8).map(subtask)).await
}

async fn late_calls(trial: Arc<Trial>) -> Result<(), Stop> {
    let steps = [
        Step::Write,
        Step::PreCommit,
        Step::Commit,
        Step::AbortPrepared,
        Step::AbortStale,
    ];
    let mut epoch = 1;
    for (step, checkpoint) in steps.into_iter().zip(1..) {
        let (process, next) = (trial.process().await?, trial.process().await?);
        let records = trial.site.new_records(40);
        let transaction = id(epoch, 0, checkpoint);
        trial.remark(format!(
            "{step:?} of {transaction} is dropped in the silence"
        ));
        let mut open = process.begin(&transaction).await?;
        process
            .write_records(&mut open, records[..20].to_vec())
            .await?;
        let silence = || trial.place().break_down(Breakage::Silent);
        let mut decided = Vec::new();
        match step {
            Step::Write => {
                silence().await?;
                cut(
                    process.write_records(&mut open, records[20..].to_vec()),
                    Cut::Waiting(1),
                )
                .await;
                drop(open);
            }
            Step::PreCommit => {
                silence().await?;
                cut(process.pre_commit(open), Cut::Waiting(1)).await;
            }
            _ => {
                process
                    .write_records(&mut open, records[20..].to_vec())
                    .await?;
                let handle = process.pre_commit(open).await?;
                let handle = handle.ok_or_else(|| Stop::failed("no handle for 40 records"))?;
                if step == Step::Commit {
                    trial.decide(&[&handle]);
                }
                silence().await?;
                match step {
                    Step::Commit => {
                        cut(process.commit(&handle), Cut::Waiting(1)).await;
                        decided.push(handle);
                    }
                    Step::AbortPrepared => {
                        cut(process.abort(&handle), Cut::Waiting(1)).await;
                    }
                    _ => {
                        let newest = checkpoint - 1;
                        cut(process.abort_stale(epoch + 1, newest, &[]), Cut::Waiting(1)).await;
                    }
                }
            }
        }
        // The next run recovers in the silence too.
        let newest = if decided.is_empty() {
            checkpoint - 1
        } else {
            checkpoint
        };
        let recovery = scenario::recover(&trial, &next, epoch + 2, newest, &decided);
        let mend = async {
            tokio::task::yield_now().await;
            trial.place().mend().await
        };
        let (recovered, mended) = tokio::join!(recovery, mend);
        mended?;
        epoch = recovered?;
        if decided.is_empty() {
            trial.decide_against(&[&transaction]);
            let again = next
                .prepare_records(&id(epoch, 0, checkpoint), records)
                .await?;
            next.decide_and_settle(&again).await?;
        }
        // Long enough for what was dropped to be done; the epoch after it finds it.
        drop(process);
        tokio::time::sleep(Duration::from_millis(50)).await;
        trial.read().await?;
        epoch = scenario::recover(&trial, &next, epoch + 1, checkpoint, &[]).await?;
        trial.expect_no_leftovers().await?;
        epoch += 1;
    }
    trial.expect_rows(200).await
}
