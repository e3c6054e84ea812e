//! Nothing stays behind, and nothing goes that is still needed.

use std::sync::Arc;

use crate::check::{Stop, checks};
use crate::factory::Factory;
use crate::observer::Observer;
use crate::site::id;
use crate::trial::Trial;
use crate::wrappers::polls::{Cut, cut};

checks! {
    "CLE-1" a_normal_end_leaves_nothing [Resume]
        "Commits three checkpoints of two subtasks, aborts one open and one prepared transaction: nothing is in doubt, nothing left over."
        normal_end;
    "CLE-2" what_crashes_leave_is_removed_by_the_next_recovery [Resume]
        "Dies twenty times, with transactions open, prepared and cut off in the middle: the recovery after them removes all of it."
        after_crashes;
    "CLE-3" closing_keeps_what_is_prepared [Resume]
        "Drops a sink with one transaction open and one prepared: the prepared one is committed afterwards by another instance."
        closing;
    "CLE-4" connections_return_to_where_they_were [Resume, Part]
        "Counts connections, makes twenty checkpoints with calls that are cut off in between, drops all sinks: as many as before."
        connections;
}

async fn normal_end<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    for checkpoint in 1..=3 {
        for subtask in 0..2 {
            let handle = process.prepare(&id(1, subtask, checkpoint), 20).await?;
            trial.decide(&[&handle]);
            let _ = process.commit(&handle).await?;
        }
    }
    let mut open = process.begin(&id(1, 0, 4)).await?;
    process.write(&mut open, 40).await?;
    process.abort_open(open).await?;
    let prepared = process.prepare(&id(1, 1, 4), 20).await?;
    trial.decide_against(&[&prepared.id]);
    process.abort(&prepared).await?;
    process.nothing_in_doubt_before(u64::MAX).await?;
    drop(process);
    trial.expect_rows(120).await?;
    trial.expect_no_leftovers().await
}

async fn after_crashes<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    for (epoch, subtask) in (1..=20).zip((0..).step_by(3)) {
        let process = trial.process().await?;
        let mut open = process.begin(&id(epoch, subtask, 1)).await?;
        process.write(&mut open, 40).await?;
        let prepared = process.prepare(&id(epoch, subtask + 1, 1), 20).await?;
        let mut half = process.begin(&id(epoch, subtask + 2, 1)).await?;
        process.write(&mut half, 20).await?;
        trial.decide_against(&[&open.id, &prepared.id, &half.id]);
        let waits = usize::try_from(epoch % 4 + 1).unwrap_or(1);
        // Whether it got to its end or not, nobody has its handle.
        let _: Option<_> = cut(process.pre_commit(half), Cut::Woken(waits)).await;
        drop(open);
    }
    let process = trial.process().await?;
    crate::scenario::recover(&trial, &process, 21, 0, &[]).await?;
    trial.expect_rows(0).await?;
    trial.expect_no_leftovers().await
}

async fn closing<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), 50).await?;
    let mut open = process.begin(&id(1, 1, 1)).await?;
    process.write(&mut open, 40).await?;
    trial.decide_against(&[&open.id]);
    drop(open);
    drop(process);
    // A client library may close in the background.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let next = trial.process().await?;
    trial.decide(&[&handle]);
    next.recover(2, 1, &[handle]).await?;
    trial.expect_rows(50).await?;
    trial.expect_no_leftovers().await
}

async fn connections<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let before = trial.place().connections().await?;
    for epoch in 1..=20 {
        let process = trial.process().await?;
        let waits = usize::try_from(epoch).unwrap_or(1);
        let handle = process.prepare(&id(epoch, 0, epoch), 20).await?;
        trial.decide(&[&handle]);
        let _: Option<_> = cut(process.commit(&handle), Cut::Waiting(waits)).await;
        let _ = process.commit(&handle).await?;
        let _: Option<_> = cut(process.in_doubt(), Cut::Waiting(1)).await;
    }
    // A connection that is closed on one side takes a moment to be closed on the other.
    let closed = async {
        while trial.place().connections().await? > before {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        Ok::<(), Stop>(())
    };
    match tokio::time::timeout(trial.site.call_limit(), closed).await {
        Ok(closed) => closed,
        Err(_) => {
            let after = trial.place().connections().await?;
            Err(Stop::failed(format!(
                "{before} connections before, {after} after all sinks are dropped"
            )))
        }
    }
}
