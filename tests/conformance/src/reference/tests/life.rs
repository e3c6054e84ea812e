//! What happens to a transaction.

use cofferdam::{CommitError, Committed, ErrorKind, InDoubt, Unfinished};

use super::*;
use crate::observer::Row;

#[tokio::test]
async fn is_visible_after_commit_and_not_before() {
    let place = place().await;
    let sink = open(&place).await;
    let id = id(1, 1);
    let transaction = begin(&sink, &id).await;
    assert_eq!(count_visible(&place).await, 0);
    let handle = sink.pre_commit(transaction).await.unwrap().unwrap();
    assert_eq!(count_visible(&place).await, 0);
    assert_eq!(place.visible_without_isolation().await.unwrap().len(), 100);
    assert_eq!(sink.commit(&id, &handle).await.unwrap(), Committed::Now);

    let mut rows = place.visible().await.unwrap();
    for lane in ["lane 0", "lane 1"] {
        let lane = |row: &&Row| row.lane.as_deref() == Some(lane);
        assert!(rows.iter().filter(lane).map(|row| &row.text).is_sorted());
    }
    rows.sort_by(|a, b| a.text.cmp(&b.text));
    let texts: Vec<_> = rows
        .into_iter()
        .map(|row| ReferenceRecord::Text(row.text))
        .collect();
    assert_eq!(texts, records(&id));
}

#[tokio::test]
async fn a_second_commit_from_anywhere_finds_the_evidence() {
    let place = place().await;
    let sink = open(&place).await;
    let id = id(1, 1);
    let handle = prepare(&sink, &id).await;
    assert_eq!(sink.commit(&id, &handle).await.unwrap(), Committed::Now);
    assert_eq!(sink.commit(&id, &handle).await.unwrap(), Committed::Before);
    let other = open(&place).await;
    assert_eq!(other.commit(&id, &handle).await.unwrap(), Committed::Before);
    assert_eq!(count_visible(&place).await, 100);
}

#[tokio::test]
async fn another_process_commits_from_the_handle_alone() {
    let place = place().await;
    let id = id(1, 1);
    let stored = serde_json::to_string(&prepare(&open(&place).await, &id).await).unwrap();
    place.restart().await.unwrap();
    let handle = serde_json::from_str(&stored).unwrap();
    let sink = open(&place).await;
    assert_eq!(sink.commit(&id, &handle).await.unwrap(), Committed::Now);
    place.restart().await.unwrap();
    assert_eq!(count_visible(&place).await, 100);
}

#[tokio::test]
async fn abort_undoes_what_is_not_committed() {
    let place = place().await;
    let sink = open(&place).await;
    let (open, prepared, committed) = (id(1, 1), id(1, 2), id(1, 3));
    let transaction = begin(&sink, &open).await;
    sink.abort(Unfinished::Open(open, transaction))
        .await
        .unwrap();

    let handle = prepare(&sink, &prepared).await;
    for _ in 0..2 {
        sink.abort(Unfinished::Prepared(prepared.clone(), handle.clone()))
            .await
            .unwrap();
    }
    let lost = sink.commit(&prepared, &handle).await.unwrap_err();
    assert!(matches!(lost, CommitError::Lost(_)), "{lost}");

    let handle = prepare(&sink, &committed).await;
    assert_eq!(
        sink.commit(&committed, &handle).await.unwrap(),
        Committed::Now
    );
    let refused = sink
        .abort(Unfinished::Prepared(committed, handle))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected);
    assert_eq!(count_visible(&place).await, 100);
    assert!(place.leftovers().await.unwrap().is_empty());
}

#[tokio::test]
async fn nothing_written_leaves_nothing() {
    let place = place().await;
    let sink = open(&place).await;
    let transaction = sink.begin(&id(1, 1)).await.unwrap();
    assert_eq!(sink.pre_commit(transaction).await.unwrap(), None);
    assert!(place.leftovers().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_new_epoch_sweeps_older_ones_but_for_what_is_decided() {
    let place = place().await;
    let zombie = open(&place).await;
    let (decided, undecided) = (id(1, 1), id(1, 2));
    let handle = prepare(&zombie, &decided).await;
    let late = prepare(&zombie, &undecided).await;
    let mut half = begin(&zombie, &id(1, 3)).await;
    let mut other_job = id(1, 1);
    other_job.job = JobId::new("orders2").unwrap();
    prepare(&zombie, &other_job).await;

    let sink = open(&place).await;
    let mut fence = fence(2, Some(1));
    fence.decided.push((decided.clone(), handle.clone()));
    let swept = sink.abort_stale(&fence).await.unwrap();
    let swept: Vec<_> = swept.iter().filter_map(InDoubt::id).collect();
    assert_eq!(swept, [undecided.clone(), id(1, 3)]);
    let in_doubt = sink.in_doubt(&fence.job).await.unwrap();
    assert_eq!(in_doubt.len(), 1);
    assert_eq!(in_doubt[0].id().as_ref(), Some(&decided));

    // The one that wakes up late.
    for refused in [
        zombie.begin(&id(1, 4)).await.unwrap_err(),
        zombie
            .write(&mut half, records(&id(1, 4)))
            .await
            .unwrap_err(),
        zombie
            .abort_stale(&super::fence(1, None))
            .await
            .unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::Fenced, "{refused}");
    }
    let lost = zombie.commit(&undecided, &late).await.unwrap_err();
    assert!(matches!(lost, CommitError::Lost(_)), "{lost}");
    assert_eq!(
        zombie.commit(&decided, &handle).await.unwrap(),
        Committed::Now
    );
    assert_eq!(count_visible(&place).await, 100);
}

#[tokio::test]
async fn output_that_no_checkpoint_knows_stops_the_recovery() {
    let place = place().await;
    let sink = open(&place).await;
    let id = id(1, 7);
    let handle = prepare(&sink, &id).await;
    assert_eq!(sink.commit(&id, &handle).await.unwrap(), Committed::Now);
    sink.abort_stale(&fence(2, Some(7))).await.unwrap();
    for newest in [None, Some(6)] {
        let error = sink.abort_stale(&fence(3, newest)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    }
}

#[tokio::test]
async fn a_handle_of_another_transaction_is_refused() {
    let place = place().await;
    let sink = open(&place).await;
    let handle = prepare(&sink, &id(1, 1)).await;
    let error = sink.commit(&id(1, 2), &handle).await.unwrap_err();
    let CommitError::NotYet(error) = error else {
        panic!("{error}");
    };
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert_eq!(place.leftovers().await.unwrap(), [id(1, 1).to_string()]);
}

#[test]
fn golden_handles_are_read_and_written() {
    for golden in ReferenceFactory.golden_handles() {
        let handle: ReferenceHandle = serde_json::from_str(&golden.json).unwrap();
        assert_eq!(serde_json::to_string(&handle).unwrap(), golden.json);
    }
}

#[tokio::test]
async fn an_attached_place_is_the_same() {
    let place = place().await;
    let address = place.address().unwrap();
    let attached = ReferenceFactory.attach(&address).await.unwrap();
    let id = id(1, 1);
    let handle = prepare(&open(&attached).await, &id).await;
    assert_eq!(
        open(&place).await.commit(&id, &handle).await.unwrap(),
        Committed::Now
    );
    assert_eq!(
        attached.visible().await.unwrap(),
        place.visible().await.unwrap()
    );
    drop(attached);
    assert_eq!(count_visible(&place).await, 100);
}
