//! Other releases, other levels of the transaction protocol, and two clusters that must not be taken for one another.

use cofferdam::{
    CommitError, Committed, Epoch, ErrorKind, TransactionId, TwoPhaseCommitSinkFunction,
};
use cofferdam_kafka::{
    KafkaConnection, KafkaSink, PreparedTransaction, TransactionAdmin, TransactionState,
};
use cofferdam_services::{Kafka, KafkaVersion};

use crate::broker::{committed, make_topic, secure, texts, topic, topic_with, unique};
use crate::job::{Work, fence};

fn id(job: &str, epoch: u64, checkpoint: u64) -> TransactionId {
    let id = format!("{job}/to/{epoch}/0/{checkpoint}");
    id.parse().expect("an id")
}

/// Prepares a transaction in one sink, which goes away then as a killed process would.
async fn prepare(
    kafka: &KafkaConnection,
    topic: &str,
    id: &TransactionId,
    texts: Vec<String>,
) -> PreparedTransaction {
    let sink = KafkaSink::bytes(kafka, topic);
    let mut transaction = sink.begin(id).await.expect("it begins");
    sink.write(&mut transaction, texts)
        .await
        .expect("it writes");
    let prepared = sink.pre_commit(transaction).await.expect("it prepares");
    prepared.expect("a handle")
}

/// What one instance prepared another one commits, once; and what no checkpoint names is aborted by the next epoch.
async fn anyone_finishes(broker: &Kafka) {
    let kafka = KafkaConnection::new(broker.bootstrap());
    let (topic, job) = (topic(broker, "out").await, unique("job"));
    let (first, all) = (id(&job, 1, 1), texts(0..50));
    let handle = prepare(&kafka, &topic, &first, all.clone()).await;
    assert!(handle.end_txn_version <= 4, "{handle:?}");
    assert_eq!(committed(broker, &topic), Vec::<String>::new());

    let another = KafkaSink::<String, _>::bytes(&kafka, &*topic);
    let outcome = another.commit(&first, &handle).await.expect("it commits");
    assert_eq!(outcome, Committed::Now);
    assert_eq!(committed(broker, &topic), all);
    let outcome = another
        .commit(&first, &handle)
        .await
        .expect("it is committed");
    assert_eq!(outcome, Committed::Before);

    let lingering = id(&job, 1, 2);
    let lost = prepare(&kafka, &topic, &lingering, texts(50..60)).await;
    let admin = TransactionAdmin::new(&kafka);
    let prefix = format!("cofferdam.{job}.");
    let state = async || {
        let listed = admin.list(&prefix).await.expect("it lists");
        let found = listed
            .iter()
            .find(|one| one.transactional_id == lost.transactional_id);
        found.expect("it is listed").state.clone()
    };
    assert_eq!(state().await, TransactionState::Ongoing);
    let mut fence = fence(&job);
    (fence.epoch, fence.newest) = (Epoch(2), Some(cofferdam::CheckpointId(1)));
    let aborted = another.abort_stale(&fence).await.expect("it aborts");
    assert!(
        matches!(&aborted[..], [one] if one.may_be(&lingering)),
        "{aborted:?}"
    );
    assert_ne!(state().await, TransactionState::Ongoing);
    assert!(matches!(
        another.commit(&lingering, &lost).await,
        Err(CommitError::Lost(_))
    ));
    // A reader is not held up any more: what is written now is seen.
    let next = id(&job, 2, 2);
    let handle = prepare(&kafka, &topic, &next, texts(60..70)).await;
    let outcome = another.commit(&next, &handle).await.expect("it commits");
    assert_eq!(outcome, Committed::Now);
    assert_eq!(committed(broker, &topic), [all, texts(60..70)].concat());
}

async fn a_whole_job(broker: &Kafka) {
    let all = texts(0..500);
    let input = topic_with(broker, "in", &all).await;
    let work = Work::new(&input, &topic(broker, "out").await);
    let kafka = KafkaConnection::new(broker.bootstrap());
    work.job(&kafka, true).run().await.expect("the job runs");
    assert_eq!(committed(broker, &work.output), all);
    assert_eq!(work.read(&kafka).await.expect("the job runs"), all);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_kafka_3_and_handles_of_another_cluster() {
    let broker = Kafka::builder().version(KafkaVersion::V3_9).start();
    let broker = &broker.expect("a broker starts");
    a_whole_job(broker).await;
    anyone_finishes(broker).await;

    // The names are the same at both; the transaction is at one of them.
    let (name, job) = (unique("both"), unique("job"));
    make_topic(broker, &name).await;
    make_topic(secure(), &name).await;
    let [here, there] = [broker, secure()].map(|kafka| KafkaConnection::new(kafka.bootstrap()));
    let id = id(&job, 1, 1);
    let handle = prepare(&here, &name, &id, texts(0..5)).await;
    let wrong = KafkaSink::<String, _>::bytes(&there, &*name);
    match wrong.commit(&id, &handle).await {
        Err(CommitError::NotYet(error)) => {
            assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
            assert!(error.to_string().contains(&handle.cluster), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let right = KafkaSink::<String, _>::bytes(&here, &*name);
    assert_eq!(
        right.commit(&id, &handle).await.expect("it commits"),
        Committed::Now
    );
    assert_eq!(committed(broker, &name), texts(0..5));
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_version_0() {
    let broker = Kafka::builder().feature("transaction.version", 0).start();
    let broker = &broker.expect("a broker starts");
    anyone_finishes(broker).await;
    a_whole_job(broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_version_1() {
    let broker = Kafka::builder().feature("transaction.version", 1).start();
    let broker = &broker.expect("a broker starts");
    anyone_finishes(broker).await;
    a_whole_job(broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_version_2() {
    anyone_finishes(secure()).await;
}
