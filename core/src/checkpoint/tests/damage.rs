//! Damaged and foreign objects: each is an error that names the file and says what is wrong.

use super::super::{CheckpointError, read_state};
use super::*;
use crate::envelope::{self, Kind};
use crate::error::chain;

/// A store in which checkpoint 1 is decided, as record 2.
async fn decided() -> (Arc<dyn CheckpointStore>, StatePart) {
    let store = memory();
    let mut log = take_over(&store).await;
    let manifest = with_state(&store, &log, 1).await;
    assert_eq!(log.decide(&manifest).await.unwrap(), Written::Done);
    (store, manifest.state[0].clone())
}

async fn replace(
    store: &Arc<dyn CheckpointStore>,
    name: &str,
    change: impl FnOnce(Vec<u8>) -> Vec<u8>,
) {
    let bytes = store.read(name).await.unwrap().unwrap();
    store.delete(name).await.unwrap();
    assert_eq!(
        store.create(name, change(bytes)).await.unwrap(),
        crate::Create::Created
    );
}

/// The whole of recovery, up to the error.
async fn error_of(store: &Arc<dyn CheckpointStore>) -> CheckpointError {
    match CheckpointLog::take_over(Arc::clone(store), job(), Nonce::random()).await {
        Err(error) => error,
        Ok(mut log) => log.recover().await.unwrap_err(),
    }
}

async fn says(store: &Arc<dyn CheckpointStore>, expected: &[&str]) {
    let error = error_of(store).await;
    let text = chain(&error).to_string();
    for expected in expected {
        assert!(
            text.contains(expected),
            "{text:?} does not say {expected:?}"
        );
    }
    assert!(!error.is_retriable(), "no use in trying again: {text}");
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn each_damage_to_a_record_is_named_with_its_file() {
    type Change = fn(Vec<u8>) -> Vec<u8>;
    let flip: Change = |mut bytes| {
        let middle = bytes.len() - 20;
        bytes[middle] ^= 1;
        bytes
    };
    let cut: Change = |mut bytes| {
        bytes.truncate(bytes.len() - 3);
        bytes
    };
    let newer: Change = |bytes| text(bytes).replacen("log 2 ", "log 3 ", 1).into_bytes();
    let older: Change = |bytes| text(bytes).replacen("log 2 ", "log 1 ", 1).into_bytes();
    let other_kind: Change = |_| envelope::seal(Kind::State, b"state");
    let empty: Change = |_| Vec::new();
    let no_json: Change = |_| envelope::seal(Kind::Log, b"{\"job\": 7");
    let no_such_field: Change = |_| envelope::seal(Kind::Log, b"{}");
    let cases = [
        (flip, "it is corrupt"),
        (cut, "it was cut or added to"),
        (newer, "format version 3, and this program reads version 2"),
        (
            older,
            "format version 1, and this program reads version 2: let the program that wrote it finish the job",
        ),
        (other_kind, "it holds a \"state\" where a \"log\" belongs"),
        (empty, "it does not begin with a Cofferdam header"),
        (no_json, "invalid type"),
        (no_such_field, "missing field"),
    ];
    for (change, expected) in cases {
        let (store, _) = decided().await;
        replace(&store, &record(2), change).await;
        says(&store, &[&format!("memory/{}", record(2)), expected]).await;
        // Nothing was written or deleted on the way to the error.
        assert_eq!(store.list("log/").await.unwrap(), [record(1), record(2)]);
    }
}

#[tokio::test]
async fn a_damaged_decision_behind_a_takeover_is_named_too() {
    let (store, _) = decided().await;
    let _log = take_over(&store).await;
    replace(&store, &record(2), |_| Vec::new()).await;
    says(&store, &[&record(2), "does not begin with"]).await;
}

#[tokio::test]
async fn a_missing_newest_decision_is_named() {
    let (store, _) = decided().await;
    let _log = take_over(&store).await;
    store.delete(&record(2)).await.unwrap();
    says(
        &store,
        &[
            &record(2),
            "the log names a decision here, and there is none",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_takeover_in_the_place_of_the_newest_decision_is_named() {
    let (store, _) = decided().await;
    let _log = take_over(&store).await;
    let takeover = store.read(&record(1)).await.unwrap().unwrap();
    replace(&store, &record(2), |_| takeover).await;
    says(
        &store,
        &[
            &record(2),
            "the log names a decision here, and there is none",
        ],
    )
    .await;
}

#[tokio::test]
async fn the_store_of_another_job_is_refused_before_anything_is_written() {
    let (store, _) = decided().await;
    let other = JobId::new("invoices").unwrap();
    let taken = CheckpointLog::take_over(Arc::clone(&store), other, Nonce::random()).await;
    let text = chain(&taken.unwrap_err()).to_string();
    assert!(
        text.contains("memory holds the checkpoints of job orders, not of invoices"),
        "{text}"
    );
    assert_eq!(store.list("log/").await.unwrap(), [record(1), record(2)]);
}

#[tokio::test]
async fn missing_and_damaged_state_is_named() {
    let (store, part) = decided().await;
    replace(&store, &part.object, |mut bytes| {
        bytes.pop();
        bytes
    })
    .await;
    let error = chain(&read_state(&*store, &part).await.unwrap_err()).to_string();
    assert!(
        error.contains(&part.object) && error.contains("it was cut"),
        "{error}"
    );
    store.delete(&part.object).await.unwrap();
    let error = chain(&read_state(&*store, &part).await.unwrap_err()).to_string();
    assert!(
        error.contains(&part.object) && error.contains("is missing"),
        "{error}"
    );
    assert!(error.contains("restore it from a copy"), "{error}");
}

/// A number that nothing can follow is the same to whoever takes over and to whoever holds the log.
#[tokio::test]
async fn a_record_that_none_can_follow_is_named() {
    let (store, _) = decided().await;
    let bytes = store.read(&record(2)).await.unwrap().unwrap();
    let last = record(u64::MAX);
    assert_eq!(
        store.create(&last, bytes).await.unwrap(),
        crate::Create::Created
    );
    says(&store, &[&last, "no log gets so long"]).await;

    let store = memory();
    let before_last = record(u64::MAX - 1);
    let (first, _) = decided().await;
    let bytes = first.read(&record(1)).await.unwrap().unwrap();
    assert_eq!(
        store.create(&before_last, bytes).await.unwrap(),
        crate::Create::Created
    );
    let mut holder = take_over(&store).await;
    let error = holder.decide(&manifest(1)).await.unwrap_err().to_string();
    assert!(
        error.contains(&last) && error.contains("no log gets so long"),
        "{error}"
    );
}
