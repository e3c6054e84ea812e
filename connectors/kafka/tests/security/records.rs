//! Topics, partitions and records that a cluster will not take, and options that the connector will not.

use cofferdam::memory::MemorySource;
use cofferdam::{
    ErrorKind, JobError, MemoryCheckpointStore, NoEventTime, Pipeline, RestartStrategy, Source,
    TwoPhaseCommitSinkFunction,
};
use cofferdam_kafka::{KafkaConnection, KafkaSink, KafkaSource, OutgoingRecord};

use crate::broker::{LARGEST_RECORD, committed, secure, topic, unique};
use crate::job::{fence, told};
use crate::rights::kind;

fn kafka() -> KafkaConnection {
    KafkaConnection::new(secure().bootstrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_not_there() {
    let name = unique("missing");
    let sink = KafkaSink::<String, _>::bytes(&kafka(), &*name);
    let error = sink.abort_stale(&fence("job")).await.expect_err("no topic");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(
        told(&error).contains(&name) && told(&error).contains("create the topic"),
        "{error}"
    );

    let error = KafkaSource::utf8(&kafka(), [&*name])
        .splits(&[])
        .await
        .expect_err("no topic");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(
        told(&error).contains(&name) && told(&error).contains("create the topic"),
        "{error}"
    );
}

/// Writes good records and one that is not, and returns what stopped the job. Nothing of it all may be seen.
async fn stopped_by(spoil: fn(&mut OutgoingRecord)) -> JobError {
    let broker = secure();
    let output = topic(broker, "out").await;
    let encode = move |number: &u32, record: &mut OutgoingRecord| {
        record
            .value()
            .extend_from_slice(number.to_string().as_bytes());
        if *number == 70 {
            spoil(record);
        }
        Ok(())
    };
    let ended = Pipeline::new(unique("job"))
        .source("from", MemorySource::new([(0..200).collect()]), NoEventTime)
        .sink("to", KafkaSink::with(&kafka(), &*output, encode))
        .job(MemoryCheckpointStore::new())
        .restart(RestartStrategy::Never)
        .run()
        .await;
    let error = ended.expect_err("the record can't be written");
    println!("{}", told(&error));
    assert_eq!(committed(broker, &output), Vec::<String>::new());
    error
}

fn says(error: &JobError, expected: ErrorKind, words: &[&str]) {
    let text = told(error);
    assert_eq!(kind(error), Some(expected), "{text}");
    assert!(
        words.iter().all(|word| text.contains(word)),
        "{words:?}: {text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_for_a_topic_that_is_not_there() {
    let error = stopped_by(|record| record.topic("nowhere-to-be-found")).await;
    says(
        &error,
        ErrorKind::Configuration,
        &["nowhere-to-be-found", "create the topic"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_for_a_partition_that_is_not_there() {
    let error = stopped_by(|record| record.partition(17)).await;
    says(
        &error,
        ErrorKind::Configuration,
        &["out-", "[17]", "number of partitions"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_too_large_for_the_topic() {
    let error = stopped_by(|record| record.value().resize(LARGEST_RECORD + 1, b'x')).await;
    says(
        &error,
        ErrorKind::Rejected,
        &["out-", "larger", "max.message.bytes"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_too_large_for_the_client() {
    let error = stopped_by(|record| record.value().resize(2_000_000, b'x')).await;
    says(
        &error,
        ErrorKind::Rejected,
        &["out-", "larger", "message.max.bytes"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_are_not_the_users_business() {
    const BOTH: [&str; 8] = [
        "allow.auto.create.topics",
        "bootstrap.servers",
        "client.id",
        "enable.ssl.certificate.verification",
        "plugin.library.paths",
        "security.protocol",
        "sasl.password",
        "ssl.key.password",
    ];
    const SINK: [&str; 5] = [
        "acks",
        "enable.idempotence",
        "transactional.id",
        "transaction.timeout.ms",
        "delivery.report.only.error",
    ];
    const SOURCE: [&str; 5] = [
        "group.id",
        "isolation.level",
        "enable.auto.commit",
        "auto.offset.reset",
        "enable.partition.eof",
    ];
    for name in BOTH.iter().chain(&SINK) {
        let sink = KafkaSink::<String, _>::bytes(&kafka(), "anything").option(*name, "1");
        let error = sink
            .abort_stale(&fence("job"))
            .await
            .expect_err("a reserved option");
        assert_eq!(error.kind(), ErrorKind::Configuration, "{name}");
        assert!(error.to_string().contains(name), "{error}");
    }
    for name in BOTH.iter().chain(&SOURCE) {
        let source = KafkaSource::utf8(&kafka(), ["anything"]).option(*name, "1");
        let error = source.splits(&[]).await.expect_err("a reserved option");
        assert_eq!(error.kind(), ErrorKind::Configuration, "{name}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_the_library_does_not_take() {
    for (name, value) in [("lingers.ms", "1"), ("linger.ms", "soon")] {
        let sink = KafkaSink::<String, _>::bytes(&kafka(), "anything").option(name, value);
        let error = sink.abort_stale(&fence("job")).await;
        let error = error.expect_err("an option that is none");
        assert_eq!(error.kind(), ErrorKind::Configuration, "{name}");
        assert!(told(&error).contains(name), "{}", told(&error));
    }
}
