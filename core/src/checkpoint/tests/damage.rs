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

/// Changes the text of a record, with a checksum that fits.
async fn rewrite(store: &Arc<dyn CheckpointStore>, number: u64, from: &str, to: &str) {
    replace(store, &record(number), |bytes| {
        let content = text(envelope::open(Kind::Log, &bytes).unwrap().to_vec());
        assert!(content.contains(from), "{content}");
        envelope::seal(Kind::Log, content.replacen(from, to, 1).as_bytes())
    })
    .await;
}

#[tokio::test]
async fn a_state_part_that_is_not_below_the_state_folder_is_refused() {
    for name in [
        "../victim.txt",
        "state/../../victim.txt",
        "/etc/passwd",
        "log/00000000000000000001.json",
        "state/",
        "state/.hidden",
        "state",
        "",
    ] {
        let (store, part) = decided().await;
        rewrite(&store, 2, &part.object, name).await;
        says(&store, &[&record(2), name]).await;
    }
}

#[tokio::test]
async fn a_number_that_can_not_be_counted_on_from_is_refused() {
    let cases = [
        ("\"checkpoint\": 1", "\"checkpoint\": 18446744073709551615"),
        ("\"epoch\": 1", "\"epoch\": 18446744073709551614"),
        ("\"epoch\": 1", "\"epoch\": 9223372036854775808"),
        ("\"parallelism\": 1", "\"parallelism\": 0"),
        ("\"parallelism\": 1", "\"parallelism\": 32769"),
        ("\"shards\": 128", "\"shards\": 0"),
        ("\"shards\": 128", "\"shards\": 4294967295"),
        (
            "\"counts\": {}",
            "\"counts\": {\"rows.records\": 9223372036854775808}",
        ),
    ];
    for (from, to) in cases {
        let (store, _) = decided().await;
        rewrite(&store, 2, from, to).await;
        says(&store, &[&record(2), "expected a"]).await;
    }
}

#[tokio::test]
async fn a_damaged_decision_behind_a_takeover_is_named_too() {
    let (store, _) = decided().await;
    let _log = take_over(&store).await;
    replace(&store, &record(2), |_| Vec::new()).await;
    says(&store, &[&record(2), "does not begin with"]).await;
}

/// A store in which checkpoints 1 to 4 are decided, as records 2 to 5, each with a state part.
async fn four_decided() -> (Arc<dyn CheckpointStore>, Vec<String>) {
    let store = memory();
    let mut log = take_over(&store).await;
    let mut parts = Vec::new();
    for checkpoint in 1..=4 {
        let manifest = with_state(&store, &log, checkpoint).await;
        assert_eq!(log.decide(&manifest).await.unwrap(), Written::Done);
        parts.push(manifest.state[0].object.clone());
    }
    (store, parts)
}

#[tokio::test]
async fn a_damaged_older_decision_does_not_block_the_newest() {
    type Change = fn(Vec<u8>) -> Vec<u8>;
    let torn: Change = |_| Vec::new();
    let malformed: Change = |_| envelope::seal(Kind::Log, b"{}");
    for change in [torn, malformed] {
        let (store, parts) = four_decided().await;
        // Written by a killed run: no checkpoint names it.
        let dead = part(&store, &take_over(&store).await, 5).await;
        replace(&store, &record(3), change).await;
        let (mut log, kept) = recover(&store).await;
        assert_eq!(kept, [3, 4], "the walk ends before the damaged one");
        assert_eq!(
            store.list("state/").await.unwrap(),
            [parts.clone(), vec![dead.object]].concat(),
            "checkpoint 1 is whole, and its state is not taken for unnamed"
        );
        decide(&mut log, 5).await;
        for retired in [3, 4] {
            log.retire(CheckpointId(retired)).await.unwrap();
        }
        // Out of reach now: the next recovery removes the damaged record and all before it.
        let (_, kept) = recover(&store).await;
        assert_eq!(kept, [5]);
        assert_eq!(store.list("state/").await.unwrap(), [""; 0]);
        assert_eq!(
            store.list("log/").await.unwrap().len(),
            2,
            "decision, takeover"
        );
    }
}

/// A record that names itself, or a later one, would be followed for ever.
#[tokio::test]
async fn a_chain_of_decisions_that_does_not_descend_is_refused() {
    for named in [5, 6, u64::MAX] {
        let (store, _) = four_decided().await;
        let (from, to) = ("\"previous_decision\": 4", "\"previous_decision\": ");
        rewrite(&store, 5, from, &format!("{to}{named}")).await;
        says(&store, &[&record(5), "a later record"]).await;
    }
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
