//! Many at once, in any order, and dropped on the way.

use std::sync::Arc;

use crate::check::{Stop, checks};
use crate::factory::Factory;
use crate::process::Handle;
use crate::random::Random;
use crate::scenario::{self, Step, Survivor};
use crate::site::id;
use crate::trial::Trial;

checks! {
    "CON-1" a_call_dropped_at_any_await_leaves_the_sink_usable [Resume]
        "Drops the future of each call at each of its awaits, and goes on with the same instance: it recovers, and each record is visible once."
        dropped_calls;
    "CON-2" subtasks_side_by_side_do_not_meet [Resume]
        "Eight subtasks make five checkpoints each at the same time through one instance: each record is visible once."
        side_by_side;
    "CON-3" a_commit_beside_the_next_writes_mixes_nothing [Resume]
        "Commits checkpoint after checkpoint while the next one is written: each read shows whole transactions, in the end all."
        commit_beside_writes;
    "CON-4" commits_in_any_order_and_number_show_each_once [Resume, Prepared(8)]
        "Eight decided transactions are committed in a seeded order, some of them late and several times: each is visible once."
        any_order;
    "CON-5" order_is_kept_in_each_lane [Resume]
        "Eight subtasks write 400 records each in small batches at the same time: in each file or partition a reader finds those of a subtask in the order of their writes."
        order;
}

async fn dropped_calls<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
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

async fn side_by_side<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = Arc::new(trial.process().await?);
    let subtask = |subtask| {
        let (trial, process) = (Arc::clone(&trial), Arc::clone(&process));
        async move {
            for checkpoint in 1..=5 {
                let handle = process.prepare(&id(1, subtask, checkpoint), 20).await?;
                trial.decide(&[&handle]);
                let _ = process.commit(&handle).await?;
            }
            Ok(())
        }
    };
    together((0..8).map(subtask)).await?;
    process.nothing_in_doubt_before(u64::MAX).await?;
    trial.expect_rows(800).await
}

async fn commit_beside_writes<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
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
        let _ = process.commit(&handle).await?;
    }
    trial.expect_rows(400).await
}

async fn any_order<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
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
            let _ = process.commit(next).await?;
            done.push(next);
        }
        for handle in waiting.into_iter().flatten() {
            let _ = process.commit(handle).await?;
        }
        trial.read().await?;
    }
    Ok(())
}

async fn order<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = Arc::new(trial.process().await?);
    let subtask = |subtask| {
        let (trial, process) = (Arc::clone(&trial), Arc::clone(&process));
        async move {
            for checkpoint in 1..=2 {
                let mut open = process.begin(&id(1, subtask, checkpoint)).await?;
                for _ in 0..40 {
                    process.write(&mut open, 5).await?;
                }
                let handle = process.pre_commit(open).await?;
                let handle = handle.ok_or_else(|| Stop::failed("no handle for 200 records"))?;
                trial.decide(&[&handle]);
                let _ = process.commit(&handle).await?;
            }
            Ok(())
        }
    };
    together((0..8).map(subtask)).await
}
