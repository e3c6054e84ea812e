//! Lives and deaths of transactions.

use std::time::Duration;

use cofferdam::{
    CommitError, Committed, ErrorKind, Isolation, JobId, SinkError, TransactionId,
    TwoPhaseCommitSinkFunction, Unfinished,
};

use super::{Finding, Probed, Site, begin, claim, fence, id, prepare, text, wrong};
use crate::observer::{Observer, Row};

pub(super) async fn is_visible_when_it_should_be<F: Probed>(site: Site<F>) -> Finding {
    let sink = site.open().await?;
    let (first, second) = (id(1, 0, 1), id(1, 0, 2));
    let transaction = begin(&sink, &first).await.map_err(text)?;
    site.shows(&[]).await?;
    let hidden = sink.capabilities().isolation == Isolation::Hidden;
    let seen = !site
        .place
        .visible_without_isolation()
        .await
        .unwrap()
        .is_empty();
    claim(!(hidden && seen), "the isolation is understated")?;
    let handle = sink.pre_commit(transaction).await.map_err(text)?;
    let handle = handle.ok_or("there is no handle")?;
    let next = begin(&sink, &second).await.map_err(text)?;
    site.shows(&[]).await?;
    let _now = sink.commit(&first, &handle).await.map_err(text)?;
    site.shows(&[&first]).await?;
    let next = Unfinished::Open(second, next);
    sink.abort(next).await.map_err(text)?;
    site.shows(&[&first]).await
}

pub(super) async fn is_whole_and_in_order<F: Probed>(site: Site<F>) -> Finding {
    let sink = site.open().await?;
    let id = id(1, 0, 1);
    let handle = prepare(&sink, &id).await?;
    let mut commit = std::pin::pin!(sink.commit(&id, &handle));
    loop {
        let ended = tokio::select! {
            biased;
            ended = &mut commit => Some(ended),
            () = tokio::task::yield_now() => None,
        };
        let visible = site.visible().await.len();
        claim(visible == 0 || visible == 50, "a part is visible")?;
        if let Some(ended) = ended {
            let _now = ended.map_err(text)?;
            break;
        }
    }
    let rows = site.place.visible().await.unwrap();
    for lane in ["lane 0", "lane 1"] {
        let in_lane = |row: &&Row| row.lane.as_deref() == Some(lane);
        let sorted = rows.iter().filter(in_lane).map(|row| &row.text).is_sorted();
        claim(sorted, "rows are out of order")?;
    }
    Ok(())
}

pub(super) async fn is_committed_once<F: Probed>(site: Site<F>) -> Finding {
    let sink = site.open().await?;
    let id = id(1, 0, 1);
    let handle = prepare(&sink, &id).await?;
    let first = sink.commit(&id, &handle).await.map_err(text)?;
    let second = sink.commit(&id, &handle).await.map_err(text)?;
    claim(first == Committed::Now, "the first commit found another")?;
    claim(second == Committed::Before, "there were two commits")?;
    let third = site
        .open()
        .await?
        .commit(&id, &handle)
        .await
        .map_err(text)?;
    claim(
        third == Committed::Before,
        "another process committed again",
    )?;
    let prepared = Unfinished::Prepared(id.clone(), handle);
    claim(
        sink.abort(prepared).await.is_err(),
        "what is committed was aborted",
    )?;
    site.shows(&[&id]).await
}

pub(super) async fn is_aborted<F: Probed>(site: Site<F>) -> Finding {
    let sink = site.open().await?;
    let id = id(1, 0, 1);
    let handle = prepare(&sink, &id).await?;
    for _ in 0..2 {
        let prepared = Unfinished::Prepared(id.clone(), handle.clone());
        sink.abort(prepared).await.map_err(text)?;
    }
    let lost = sink.commit(&id, &handle).await;
    claim(
        matches!(lost, Err(CommitError::Lost(_))),
        "what was aborted is not lost",
    )?;
    site.shows(&[]).await
}

pub(super) async fn is_resumed<F: Probed>(site: Site<F>) -> Finding {
    let ids = [id(1, 0, 1), id(1, 1, 1), id(1, 0, 2)];
    let mut handles = Vec::new();
    {
        let sink = site.open().await?;
        for id in &ids {
            handles.push(prepare(&sink, id).await?);
        }
    }
    let sink = site.open().await?;
    let in_doubt = sink.in_doubt(&ids[0].job).await.map_err(text)?;
    claim(in_doubt.len() == 3, "the list of what is in doubt is wrong")?;
    let mut fence = fence::<F>(2);
    fence.decided = ids.iter().cloned().zip(handles.iter().cloned()).collect();
    let swept = sink.abort_stale(&fence).await.map_err(text)?;
    claim(swept.is_empty(), "what is decided was aborted")?;
    for (id, handle) in ids.iter().zip(&handles) {
        let _now = sink.commit(id, handle).await.map_err(text)?;
    }
    site.shows(&ids.each_ref()).await
}

pub(super) async fn outlives_the_system<F: Probed>(site: Site<F>) -> Finding {
    let id = id(1, 0, 1);
    let handle = prepare(&site.open().await?, &id).await?;
    site.place.restart().await.unwrap();
    let sink = site.open().await?;
    let _now = sink.commit(&id, &handle).await.map_err(text)?;
    site.place.restart().await.unwrap();
    site.shows(&[&id]).await
}

pub(super) async fn is_lost<F: Probed>(site: Site<F>) -> Finding {
    let sink = site.open().await?;
    let (fine, lost, expired) = (id(1, 0, 1), id(1, 0, 2), id(1, 0, 3));
    let handle = prepare(&sink, &fine).await?;
    let _now = sink.commit(&fine, &handle).await.map_err(text)?;
    let first = prepare(&sink, &lost).await?;
    let second = prepare(&sink, &expired).await?;
    // A sink that has prepared nothing has nothing there to lose.
    let _was_there = site.place.lose(&lost).await;
    site.place.expire_in_doubt().await.unwrap();
    for (id, handle) in [(&lost, first), (&expired, second)] {
        let committed = sink.commit(id, &handle).await;
        claim(
            matches!(committed, Err(CommitError::Lost(_))),
            "a loss is not reported",
        )?;
    }
    Ok(())
}

pub(super) async fn leaves_nothing<F: Probed>(site: Site<F>) -> Finding {
    let sink = site.open().await?;
    let empty = sink.begin(&id(1, 0, 1)).await.map_err(text)?;
    let handle = sink.pre_commit(empty).await.map_err(text)?;
    claim(handle.is_none(), "nothing has a handle")?;
    let leftovers = site.place.leftovers().await.unwrap();
    claim(leftovers.is_empty(), "nothing leaves something")?;
    let id = id(1, 0, 2);
    let handle = prepare(&sink, &id).await?;
    drop(sink);
    let sink = site.open().await?;
    let _now = sink.commit(&id, &handle).await.map_err(text)?;
    drop(sink);
    // A connection that is closed takes a moment to be seen.
    for _ in 0..500 {
        if site.place.connections().await.unwrap() == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    wrong("connections are left")
}

fn is_fenced<T>(ended: Result<T, SinkError>) -> bool {
    ended.is_err_and(|error| error.kind() == ErrorKind::Fenced)
}

pub(super) async fn sweeps_what_is_old_and_only_that<F: Probed>(site: Site<F>) -> Finding {
    let old = site.open().await?;
    let other = TransactionId {
        job: JobId::new("jobs").unwrap(),
        ..id(1, 0, 1)
    };
    let other_handle = prepare(&old, &other).await?;
    prepare(&old, &id(1, 0, 1)).await?;
    let half = begin(&old, &id(1, 0, 2)).await.map_err(text)?;

    let new = site.open().await?;
    let swept = site.sweep(&new, 2).await.map_err(text)?;
    claim(
        swept == [id(1, 0, 1), id(1, 0, 2)],
        "not all that is old was swept",
    )?;
    let handle = prepare(&new, &id(2, 0, 1)).await?;
    // Again, as by a recovery that was interrupted; then by one that comes late.
    site.sweep(&new, 2).await.map_err(text)?;
    claim(
        is_fenced(site.sweep(&old, 1).await),
        "a late sweep was not fenced",
    )?;
    claim(
        is_fenced(old.begin(&id(1, 0, 3)).await),
        "a late begin was not fenced",
    )?;
    claim(
        is_fenced(old.pre_commit(half).await),
        "a late pre-commit was not fenced",
    )?;
    let _now = new.commit(&id(2, 0, 1), &handle).await.map_err(text)?;
    let _now = new.commit(&other, &other_handle).await.map_err(text)?;
    site.shows(&[&other, &id(2, 0, 1)]).await?;
    let mut older = fence::<F>(3);
    older.newest = None;
    claim(
        new.abort_stale(&older).await.is_err(),
        "older state was not refused",
    )
}

pub(super) async fn writes_again_after_a_crash<F: Probed>(site: Site<F>) -> Finding {
    prepare(&site.open().await?, &id(1, 0, 1)).await?;
    let sink = site.open().await?;
    site.sweep(&sink, 2).await.map_err(text)?;
    let id = id(2, 0, 1);
    let handle = prepare(&sink, &id).await?;
    let _now = sink.commit(&id, &handle).await.map_err(text)?;
    site.shows(&[&id]).await
}

pub(super) async fn has_two_subtasks<F: Probed>(site: Site<F>) -> Finding {
    let sink = site.open().await?;
    let ids = [id(1, 0, 1), id(1, 1, 1)];
    let (one, two) = tokio::join!(prepare(&sink, &ids[0]), prepare(&sink, &ids[1]));
    for (id, handle) in ids.iter().zip([one?, two?]) {
        let _now = sink.commit(id, &handle).await.map_err(text)?;
    }
    site.shows(&ids.each_ref()).await
}

pub(super) async fn holds_up_to_a_limit<F: Probed>(site: Site<F>) -> Finding {
    let sink = site.open().await?;
    let limit = sink
        .capabilities()
        .max_prepared
        .ok_or("there is no limit")? as u64;
    let ids: Vec<_> = (1..=limit).map(|checkpoint| id(1, 0, checkpoint)).collect();
    let mut handles = Vec::new();
    for id in &ids {
        handles.push(prepare(&sink, id).await?);
    }
    let above = prepare(&sink, &id(1, 0, limit + 1)).await;
    claim(above.is_err(), "the limit is none")?;
    for (id, handle) in ids.iter().zip(&handles) {
        let _now = sink.commit(id, handle).await.map_err(text)?;
    }
    site.shows(&ids.iter().collect::<Vec<_>>()).await
}
