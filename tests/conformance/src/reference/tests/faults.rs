//! What the sink makes of a system that is not well.

use std::error::Error;
use std::future::Future;
use std::time::{Duration, Instant};

use cofferdam::{CommitError, Committed, ErrorKind, SinkError};

use super::super::factory::PATIENCE;
use super::super::state::MAX_PREPARED;
use super::*;
use crate::factory::Odd;
use crate::observer::Breakage;

/// The error, and all behind it.
fn texts(error: &SinkError) -> String {
    let mut text = format!("{error} {error:?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(" {error} {error:?}"));
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn each_breakage_has_its_kind_and_no_secret_shows() {
    for (breakage, kind) in [
        (Breakage::NoRights, ErrorKind::Configuration),
        (Breakage::Full, ErrorKind::Configuration),
        (Breakage::Unreachable, ErrorKind::Transient),
        (Breakage::Silent, ErrorKind::Unknown),
    ] {
        let place = place().await;
        let sink = open(&place).await;
        let mut transaction = sink.begin(&id(1, 1)).await.unwrap();
        place.break_down(breakage).await.unwrap();
        let sink = open(&place).await;
        let before = Instant::now();
        let error = sink
            .write(&mut transaction, records(&id(1, 1)))
            .await
            .unwrap_err();
        assert!(before.elapsed() < PATIENCE * 2);
        assert_eq!(error.kind(), kind, "{breakage:?}: {error}");
        for secret in place.secrets() {
            assert!(!texts(&error).contains(&secret));
            assert!(!format!("{sink:?} {:?}", sink.client).contains(&secret));
        }
        place.mend().await.unwrap();
        sink.begin(&id(1, 2)).await.unwrap();
    }
}

#[tokio::test]
async fn a_commit_without_answer_is_unknown_and_found_done_later() {
    let place = place().await;
    let sink = open(&place).await;
    let id = id(1, 1);
    let handle = prepare(&sink, &id).await;
    place.break_down(Breakage::Silent).await.unwrap();
    // The first is done, the second gets no further than a silent login.
    for _ in 0..2 {
        let CommitError::NotYet(error) = sink.commit(&id, &handle).await.unwrap_err() else {
            panic!("a silent system proves nothing");
        };
        assert_eq!(error.kind(), ErrorKind::Unknown);
    }
    assert_eq!(count_visible(&place).await, 100);
    place.mend().await.unwrap();
    assert_eq!(sink.commit(&id, &handle).await.unwrap(), Committed::Before);
}

#[tokio::test]
async fn odd_records_are_rejected_and_the_sink_goes_on() {
    let place = place().await;
    let sink = open(&place).await;
    for odd in [Odd::Refused, Odd::Oversize] {
        let mut transaction = sink.begin(&id(1, 1)).await.unwrap();
        let mut batch = records(&id(1, 1));
        batch.push(ReferenceFactory.odd_record(odd).unwrap());
        // Not seen before the last flush.
        sink.write(&mut transaction, batch).await.unwrap();
        let error = sink.pre_commit(transaction).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(place.leftovers().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_panic_of_the_encoder_leaves_the_sink_usable() {
    let place = place().await;
    let sink = std::sync::Arc::new(open(&place).await);
    let mut transaction = sink.begin(&id(1, 1)).await.unwrap();
    let writer = std::sync::Arc::clone(&sink);
    let written = tokio::spawn(async move {
        writer
            .write(&mut transaction, vec![ReferenceRecord::Panicking])
            .await
    });
    assert!(written.await.unwrap_err().is_panic());
    prepare(&sink, &id(1, 2)).await;
}

#[tokio::test]
async fn too_many_prepared_is_told_and_passes() {
    let place = place().await;
    let sink = open(&place).await;
    let mut handles = Vec::new();
    for checkpoint in 1..=MAX_PREPARED as u64 {
        handles.push((id(1, checkpoint), prepare(&sink, &id(1, checkpoint)).await));
    }
    let above = id(1, MAX_PREPARED as u64 + 1);
    let transaction = begin(&sink, &above).await;
    let error = sink.pre_commit(transaction).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
    for (id, handle) in &handles {
        assert_eq!(sink.commit(id, handle).await.unwrap(), Committed::Now);
    }
    assert_eq!(count_visible(&place).await, 100 * MAX_PREPARED);
    prepare(&sink, &id(1, MAX_PREPARED as u64 + 2)).await;
}

#[tokio::test]
async fn lost_and_expired_is_lost() {
    let place = place().await;
    let sink = open(&place).await;
    let (lost, expired) = (id(1, 1), id(1, 2));
    let handles = [prepare(&sink, &lost).await, prepare(&sink, &expired).await];
    place.lose(&lost).await.unwrap();
    place.expire_in_doubt().await.unwrap();
    for (id, handle) in [lost, expired].iter().zip(&handles) {
        let error = sink.commit(id, handle).await.unwrap_err();
        assert!(matches!(error, CommitError::Lost(_)), "{error}");
    }
}

#[tokio::test]
async fn a_restart_of_the_system_costs_open_transactions_only() {
    let place = place().await;
    let sink = open(&place).await;
    let (prepared, half) = (id(1, 1), id(1, 2));
    let handle = prepare(&sink, &prepared).await;
    let transaction = begin(&sink, &half).await;
    place.restart().await.unwrap();
    sink.pre_commit(transaction).await.unwrap_err();
    assert_eq!(
        sink.commit(&prepared, &handle).await.unwrap(),
        Committed::Now
    );
}

#[tokio::test]
async fn a_dropped_call_takes_its_connection_with_it() {
    let place = place().await;
    let sink = open(&place).await;
    // Polls each call once more than the one before, drops it, and has the next one answered rightly.
    for polls in 1..40 {
        let id = id(1, polls);
        let handle = prepare(&sink, &id).await;
        drop_after(polls as usize, sink.commit(&id, &handle)).await;
        let in_doubt = sink.in_doubt(&id.job).await.unwrap();
        assert!(in_doubt.len() <= 1);
        let _now_or_before = sink.commit(&id, &handle).await.unwrap();
        assert_eq!(count_visible(&place).await, 100 * polls as usize);
    }
}

async fn drop_after(polls: usize, call: impl Future) {
    let mut call = std::pin::pin!(call);
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(call.as_mut().poll(context).is_ready())
        });
        if polled.await {
            return;
        }
    }
}

#[tokio::test]
async fn connections_are_few_and_end_with_the_sink() {
    let place = place().await;
    let sink = open(&place).await;
    for checkpoint in 1..10 {
        let handle = prepare(&sink, &id(1, checkpoint)).await;
        let _now = sink.commit(&id(1, checkpoint), &handle).await.unwrap();
    }
    assert_eq!(place.connections().await.unwrap(), 1);
    place.kill_connections().await.unwrap();
    assert_eq!(place.connections().await.unwrap(), 0);
    // A connection that was closed meanwhile is noticed before it is used.
    while sink.in_doubt(&id(1, 1).job).await.is_err() {}
    drop(sink);
    while place.connections().await.unwrap() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_wrong_password_is_a_matter_for_a_human() {
    let place = place().await;
    let wrong = "not-the-password";
    let sink = Sink::new(place.socket_address(), wrong, PATIENCE);
    let error = sink.begin(&id(1, 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(!texts(&error).contains(wrong));
    assert_eq!(place.connections().await.unwrap(), 0);
}
