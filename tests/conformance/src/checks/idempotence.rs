//! Everything may be done twice.

use std::sync::Arc;

use cofferdam::{CommitError, Committed, ErrorKind};

use crate::check::{Stop, checks};
use crate::factory::Factory;
use crate::observer::Observer;
use crate::site::id;
use crate::trial::Trial;
use crate::trouble::Trouble;
use crate::wrappers::proxy::Proxy;

checks! {
    "IDE-1" a_second_commit_changes_nothing [Resume, Evidence]
        "Commits twice with one instance: the first says now, the second says before, and there is one copy."
        second_commit;
    "IDE-2" a_second_commit_by_another_process_changes_nothing [Resume, Evidence]
        "Commits, and commits again with a new instance: it says before, and there is one copy."
        second_commit_elsewhere;
    "IDE-3" commits_at_the_same_time_make_one_copy [Resume]
        "Five instances commit the same handle at once, ten times over: all succeed in the end, and there is one copy."
        commits_at_once;
    "IDE-4" a_second_abort_changes_nothing [Resume]
        "Aborts a prepared transaction twice, and one that was never there: all succeed."
        second_abort;
    "IDE-5" an_abort_of_what_is_committed_is_refused [Resume, Evidence]
        "Commits, then aborts the same handle: refused as rejected, and the rows stay."
        abort_after_commit;
    "IDE-6" a_commit_of_what_was_aborted_is_lost [Resume, Evidence]
        "Aborts, then commits the same handle: lost, never a success, and nothing is visible."
        commit_after_abort;
    "IDE-7" a_lost_answer_to_a_commit_is_made_good_by_the_next [Resume, Part]
        "Swallows each answer of the system to a commit in turn, after the system has done it, and each request: the commit, or the next one, succeeds, and there is one copy."
        lost_answer_to_commit;
    "IDE-8" a_lost_answer_to_a_write_makes_no_second_copy [Resume, Part]
        "Swallows each answer to begin and write in turn: whether the sink tries again or gives up, what is committed in the end has each record once."
        lost_answer_to_write;
    "IDE-9" a_lost_answer_to_a_pre_commit_leaves_nothing [Resume, Part]
        "Swallows each answer to a pre-commit in turn: an error, and after recovery nothing is visible, in doubt or left over."
        lost_answer_to_pre_commit;
}

fn says(committed: Committed, expected: Committed) -> Result<(), Stop> {
    if committed == expected {
        return Ok(());
    }
    Err(Stop::failed(format!(
        "commit says {committed:?} instead of {expected:?}"
    )))
}

async fn second_commit<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), 100).await?;
    trial.decide(&[&handle]);
    says(process.commit(&handle).await?, Committed::Now)?;
    trial.read().await?;
    says(process.commit(&handle).await?, Committed::Before)?;
    trial.expect_rows(100).await
}

async fn second_commit_elsewhere<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), 100).await?;
    trial.decide(&[&handle]);
    says(process.commit(&handle).await?, Committed::Now)?;
    let other = trial.process().await?;
    says(other.commit(&handle).await?, Committed::Before)?;
    trial.expect_rows(100).await
}

async fn commits_at_once<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let mut processes = Vec::new();
    for _ in 0..5 {
        processes.push(Arc::new(trial.process().await?));
    }
    for checkpoint in 1..=10 {
        let handle = processes[0].prepare(&id(1, 0, checkpoint), 20).await?;
        trial.decide(&[&handle]);
        let mut commits = tokio::task::JoinSet::new();
        for process in &processes {
            let (process, handle) = (Arc::clone(process), handle.clone());
            commits.spawn(async move { process.commit(&handle).await });
        }
        while let Some(committed) = commits.join_next().await {
            match committed.map_err(|panic| Stop::failed(format!("a panic: {panic}")))? {
                Ok(_) => {}
                // In the way of each other: the runtime tries again.
                Err(CommitError::NotYet(error)) if error.kind().is_retriable() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let _ = processes[0].commit(&handle).await?;
        trial.read().await?;
    }
    Ok(())
}

async fn second_abort<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), 10).await?;
    trial.decide_against(&[&handle.id]);
    process.abort(&handle).await?;
    process.abort(&handle).await?;
    trial.process().await?.abort(&handle).await?;
    process.recover(2, 0, &[]).await?;
    trial.expect_no_leftovers().await
}

async fn abort_after_commit<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), 100).await?;
    trial.decide(&[&handle]);
    let _ = process.commit(&handle).await?;
    for process in [&process, &trial.process().await?] {
        match process.abort(&handle).await {
            Err(error) if error.kind() == ErrorKind::Rejected => {}
            Err(error) => {
                let kind = error.kind();
                return Err(Stop::failed(format!(
                    "an abort of what is committed is {kind:?}, not rejected: {error}"
                )));
            }
            Ok(()) => {
                return Err(Stop::failed(
                    "an abort of what is committed says that it is done",
                ));
            }
        }
        trial.expect_rows(100).await?;
    }
    Ok(())
}

async fn commit_after_abort<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), 100).await?;
    trial.decide_against(&[&handle.id]);
    process.abort(&handle).await?;
    for process in [&process, &trial.process().await?] {
        match process.commit(&handle).await {
            Err(CommitError::Lost(_)) => {}
            Err(CommitError::NotYet(error)) => {
                return Err(Stop::failed(format!(
                    "a commit of what was aborted is not lost, but to be tried again: {error}"
                )));
            }
            Ok(committed) => {
                return Err(Stop::failed(format!(
                    "a commit of what was aborted says {committed:?}"
                )));
            }
        }
    }
    trial.expect_rows(0).await
}

/// A proxy in front of the place.
async fn proxy<F: Factory>(trial: &Trial<F>) -> Result<Proxy, Stop> {
    let endpoint = trial.place().endpoint().ok_or_else(|| {
        Stop::Unsupported("no network between the sink and its system".to_owned())
    })?;
    let started = Proxy::start(endpoint).await;
    started.map_err(|error| Trouble::failed("start a proxy", error).into())
}

/// Whether the trap of the proxy has sprung; it is gone afterwards.
fn sprung(proxy: &Proxy) -> bool {
    let sprung = !proxy.is_armed();
    proxy.disarm();
    sprung
}

/// More answers than any call takes.
const ANSWERS: u64 = 1_000;

async fn lost_answer_to_commit<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let proxy = proxy(&trial).await?;
    let straight = trial.process().await?;
    let mut checkpoint = 0;
    for swallow in [true, false] {
        for nth in 1..=ANSWERS {
            checkpoint += 1;
            let handle = straight.prepare(&id(1, 0, checkpoint), 10).await?;
            trial.decide(&[&handle]);
            let process = trial.process_through(proxy.address()).await?;
            if swallow {
                proxy.swallow_answer(nth);
            } else {
                proxy.cut_before_request(nth);
            }
            let committed = process.commit(&handle).await;
            let fired = sprung(&proxy);
            if let Err(error) = committed {
                if let CommitError::Lost(reason) = &error {
                    return Err(Stop::failed(format!(
                        "a lost answer is taken for a loss: {reason}"
                    )));
                }
                trial.read().await?;
                let _ = process.commit(&handle).await?;
            }
            trial
                .expect_rows(usize::try_from(checkpoint).unwrap_or(0) * 10)
                .await?;
            if !fired {
                break;
            }
        }
    }
    Ok(())
}

async fn lost_answer_to_write<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let proxy = proxy(&trial).await?;
    let mut visible = 0;
    for (nth, epoch) in (1..=ANSWERS).zip((1..).step_by(2)) {
        let process = trial.process_through(proxy.address()).await?;
        let records = trial.site.new_records(60);
        let checkpoint = nth;
        let first = id(epoch, 0, checkpoint);
        proxy.swallow_answer(nth);
        let attempt = async {
            let mut open = process.begin(&first).await?;
            for batch in records.chunks(20) {
                process.write_records(&mut open, batch.to_vec()).await?;
            }
            Ok::<_, cofferdam::SinkError>(open)
        }
        .await;
        let fired = sprung(&proxy);
        let handle = match attempt {
            Ok(open) => process.pre_commit(open).await?,
            Err(_) => {
                trial.decide_against(&[&first]);
                process.recover(epoch + 1, checkpoint - 1, &[]).await?;
                Some(
                    process
                        .prepare_records(&id(epoch + 1, 0, checkpoint), records)
                        .await?,
                )
            }
        };
        let handle = handle.ok_or_else(|| Stop::failed("no handle for 60 records"))?;
        trial.decide(&[&handle]);
        let _ = process.commit(&handle).await?;
        visible += 60;
        trial.expect_rows(visible).await?;
        if !fired {
            break;
        }
    }
    Ok(())
}

async fn lost_answer_to_pre_commit<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let proxy = proxy(&trial).await?;
    for (nth, epoch) in (1..=ANSWERS).zip((1..).step_by(2)) {
        let process = trial.process_through(proxy.address()).await?;
        let mut open = process.begin(&id(epoch, 0, nth)).await?;
        process.write(&mut open, 30).await?;
        let transaction = open.id.clone();
        proxy.swallow_answer(nth);
        let prepared = process.pre_commit(open).await;
        let fired = sprung(&proxy);
        // Nobody has decided it, whatever came back.
        trial.decide_against(&[&transaction]);
        if let (Err(error), true) = (&prepared, fired)
            && !error.kind().is_retriable()
        {
            let kind = error.kind();
            return Err(Stop::failed(format!(
                "no answer came, and the error is {kind:?}: {error}"
            )));
        }
        drop(process);
        let next = trial.process().await?;
        next.recover(epoch + 1, 0, &[]).await?;
        trial.expect_rows(0).await?;
        trial.expect_no_leftovers().await?;
        if !fired {
            break;
        }
    }
    Ok(())
}
