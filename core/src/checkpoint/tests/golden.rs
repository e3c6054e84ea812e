//! The written form, byte for byte: stored checkpoints must stay readable.

use super::super::{PreparedTransaction, SplitSnapshot};
use super::*;
use crate::identity::{OperatorId, SinkId, SourceId};
use crate::memory::MemorySink;
use crate::sink::TwoPhaseCommitSinkFunction;
use crate::source::SplitId;
use crate::time::Timestamp;

const DECISION: &str = include_str!("golden/decision.v2");
const TAKEOVER: &str = include_str!("golden/takeover.v2");
const SETTLED: &str = include_str!("golden/settled.v2");
const HANDLE: &str = include_str!("golden/handle.v1");

fn full_manifest() -> Manifest {
    Manifest {
        checkpoint: CheckpointId(7),
        parallelism: 2,
        shards: 128,
        complete: true,
        sinks: vec![SinkId::new("files").unwrap()],
        splits: vec![SplitSnapshot {
            source: SourceId::new("trips").unwrap(),
            split: SplitId::new("part 1.csv"),
            position: Some(serde_json::json!({ "byte": 4096 })),
            newest: Some(Timestamp::MIN),
            finished: true,
        }],
        state: vec![StatePart {
            operator: OperatorId::new("window").unwrap(),
            subtask: SubtaskIndex(1),
            object: "state/00000000000000000007.1.window.1".to_owned(),
        }],
        transactions: vec![PreparedTransaction {
            id: "orders/files/1/0/7".parse().unwrap(),
            handle: HANDLE.to_owned(),
        }],
        counts: BTreeMap::from([("files.records".to_owned(), 12)]),
    }
}

fn nonce() -> Nonce {
    serde_json::from_str("\"00112233445566778899aabbccddeeff\"").unwrap()
}

async fn text(store: &Arc<dyn CheckpointStore>, number: u64) -> String {
    String::from_utf8(store.read(&record(number)).await.unwrap().unwrap()).unwrap()
}

#[tokio::test]
async fn a_log_record_is_written_as_ever() {
    let store = memory();
    let mut log = CheckpointLog::take_over(Arc::clone(&store), job(), nonce())
        .await
        .unwrap();
    assert_eq!(log.decide(&full_manifest()).await.unwrap(), Written::Done);
    let accepted = ["orders/files/1/0/7".parse().unwrap()];
    assert_eq!(
        log.settle(CheckpointId(7), &accepted).await.unwrap(),
        Written::Done
    );
    assert_eq!(text(&store, 1).await, TAKEOVER);
    assert_eq!(text(&store, 2).await, DECISION);
    assert_eq!(text(&store, 3).await, SETTLED);
}

#[tokio::test]
async fn a_log_record_is_read_as_ever() {
    let store = memory();
    for (number, content) in [(1, TAKEOVER), (2, DECISION), (3, SETTLED)] {
        let created = store.create(&record(number), content.into()).await.unwrap();
        assert_eq!(created, crate::Create::Created);
    }
    let mut log = take_over(&store).await;
    assert_eq!(
        log.recover().await.unwrap().newest.unwrap(),
        full_manifest()
    );
}

#[tokio::test]
async fn a_handle_is_written_and_read_as_ever() {
    let (sink, id) = (MemorySink::new(), "orders/files/1/0/7".parse().unwrap());
    let mut open = sink.begin(&id).await.unwrap();
    sink.write(&mut open, vec!["a", "b"]).await.unwrap();
    let prepared = sink.pre_commit(open).await.unwrap().unwrap();
    assert_eq!(crate::runtime::encode(&id, &prepared).unwrap(), HANDLE);
    let erased: &dyn crate::runtime::ErasedSink = &Arc::new(sink.clone());
    let _committed = erased.commit(&id, HANDLE).await.unwrap();
    assert_eq!(sink.visible(), ["a", "b"]);
}
