//! What stops a source, and in which words.

use std::time::Duration;

use cofferdam::{ErrorKind, Source, SourceError};
use cofferdam_kafka::{KafkaConnection, KafkaSource, Start};
use cofferdam_services::Kafka;

use super::cluster::{Topic, topic};
use super::reading::{Told, again, first};

fn assert_told(error: &SourceError, parts: &[&str]) {
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    for part in parts {
        assert!(
            error.to_string().contains(part),
            "{part:?} is not in: {error}"
        );
    }
}

#[tokio::test]
async fn a_missing_topic_is_named() {
    let topic = topic(1).await;
    let names = [&*topic.name, "no-such-topic"];
    let error = KafkaSource::utf8(&topic.connection(), names)
        .splits(&[])
        .await
        .unwrap_err();
    assert_told(&error, &["no-such-topic"]);
}

#[tokio::test]
async fn a_setting_that_is_ours_is_refused_at_the_start() {
    let connection = KafkaConnection::new("localhost:1");
    let source = KafkaSource::utf8(&connection, ["topic"]).option("auto.offset.reset", "latest");
    assert_told(
        &source.splits(&[]).await.unwrap_err(),
        &["auto.offset.reset", "start"],
    );
    let source = KafkaSource::utf8(&connection, ["topic"]).start(Start::Group);
    assert_told(&source.splits(&[]).await.unwrap_err(), &["group"]);
    let source = KafkaSource::utf8(&connection, [""; 0]);
    assert_told(&source.splits(&[]).await.unwrap_err(), &["topic"]);
}

#[tokio::test]
async fn brokers_that_are_not_there_are_an_error_in_time() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let connection = KafkaConnection::new(address).patience(Duration::from_secs(1));
    let start = std::time::Instant::now();
    let error = KafkaSource::utf8(&connection, ["topic"])
        .splits(&[])
        .await
        .unwrap_err();
    assert!(error.kind().is_retriable(), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn an_offset_that_was_deleted_is_no_gap_to_pass_over() {
    let topic = topic(1).await;
    topic.send(0, 0..10);
    let split = topic.split(0);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name]);
    let mut reader = first(&source).await.unwrap();
    let mut told = Told::<String>::default();
    told.until(&mut reader, |told| told.offset(&split) == Some(10))
        .await
        .unwrap();
    drop(reader);
    told.positions.get_mut(&split).unwrap().offset = 4;

    topic.delete_before(0, 7).await;
    let error = again(&source, &told.positions).await.unwrap_err();
    assert_told(&error, &[&split, "4", "7", "3 offsets"]);
}

#[tokio::test]
async fn an_offset_behind_the_end_is_refused() {
    let topic = topic(1).await;
    topic.send(0, 0..3);
    let split = topic.split(0);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name]);
    let mut reader = first(&source).await.unwrap();
    let mut told = Told::<String>::default();
    told.until(&mut reader, |told| told.offset(&split) == Some(3))
        .await
        .unwrap();
    told.positions.get_mut(&split).unwrap().offset = 4;
    let error = again(&source, &told.positions).await.unwrap_err();
    assert_told(&error, &[&split, "ends at 3"]);
}

/// The offset goes while the reader is slower than retention: brokers answer what librdkafka asks for next.
#[tokio::test]
async fn an_offset_that_is_deleted_while_reading_is_told_too() {
    let topic = topic(1).await;
    let values = (0..60).map(|index| format!("{index}{}", "x".repeat(500_000)));
    topic.send(0, values);
    let split = topic.split(0);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name])
        .option("queued.max.messages.kbytes", "1024")
        .option("queued.min.messages", "1");
    let mut reader = first(&source).await.unwrap();
    let mut told = Told::<String>::default();
    told.until(&mut reader, |told| told.offset(&split) > Some(0))
        .await
        .unwrap();
    topic.delete_before(0, 60).await;
    let outcome = told
        .until(&mut reader, |told| told.offset(&split) == Some(60))
        .await;
    let error = outcome.unwrap_err();
    assert_told(&error, &[&split, "earliest is 60"]);
    let read = told.of(&split).len();
    assert_eq!(i64::try_from(read).unwrap(), told.offset(&split).unwrap());
}

#[tokio::test]
async fn a_topic_that_was_made_anew_is_not_read_on() {
    let topic = topic(1).await;
    topic.send(0, ["old"]);
    let split = topic.split(0);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name])
        .discover_every(Duration::from_millis(100));
    let mut reader = first(&source).await.unwrap();
    let mut told = Told::default();
    told.until(&mut reader, |told| told.offset(&split) == Some(1))
        .await
        .unwrap();
    topic.delete().await;
    topic.make(1).await;
    let error = told.until(&mut reader, |_| false).await.unwrap_err();
    assert_told(&error, &[&topic.name]);
    topic.send(0, ["new", "newer"]);
    let error = again(&source, &told.positions).await.unwrap_err();
    assert_told(&error, &[&topic.name, "anew"]);
    assert_eq!(told.of(&split), ["old"]);
}

#[tokio::test]
async fn a_topic_that_is_deleted_while_it_is_read_is_missed() {
    let topic = topic(1).await;
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name])
        .discover_every(Duration::from_millis(100));
    let mut reader = first(&source).await.unwrap();
    topic.delete().await;
    let error = Told::default()
        .until(&mut reader, |_| false)
        .await
        .unwrap_err();
    assert_told(&error, &[&topic.name]);
}

#[tokio::test]
async fn a_broker_that_dies_and_comes_back_loses_and_doubles_nothing() {
    let kafka = tokio::task::spawn_blocking(|| Kafka::builder().start().unwrap())
        .await
        .unwrap();
    let topic = Topic::create(kafka.bootstrap(), 2).await;
    topic.send(0, 0..20_000);
    topic.send(1, 20_000..40_000);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name])
        .discover_every(Duration::from_millis(200))
        .option("fetch.message.max.bytes", "4096")
        .option("queued.max.messages.kbytes", "64");
    let mut reader = first(&source).await.unwrap();
    let mut told = Told::default();
    let read = |told: &Told<String>, partition| told.of(&topic.split(partition)).len();
    told.until(&mut reader, |told| read(told, 0) + read(told, 1) > 5_000)
        .await
        .unwrap();
    let kafka = tokio::task::spawn_blocking(move || {
        kafka.kill(1).unwrap();
        kafka
    });
    let kafka = kafka.await.unwrap();
    // Read on all the while, so that the broker is missed.
    let kafka = tokio::task::spawn_blocking(move || {
        kafka.start_node(1).unwrap();
        kafka
    });
    told.until(&mut reader, |told| read(told, 0) + read(told, 1) == 40_000)
        .await
        .unwrap();
    // Held, as the broker ends with it.
    let _kafka = kafka.await.unwrap();
    topic.send(0, [20_000]);
    told.until(&mut reader, |told| read(told, 0) == 20_001)
        .await
        .unwrap();
    let expected: Vec<String> = (0..=20_000).map(|value| value.to_string()).collect();
    assert_eq!(told.of(&topic.split(0)), expected);
    let expected: Vec<String> = (20_000..40_000).map(|value| value.to_string()).collect();
    assert_eq!(told.of(&topic.split(1)), expected);
}
