//! From bytes to records.

use std::time::Duration;

use cofferdam::{ErrorKind, OnMalformed};
use cofferdam_kafka::{KafkaRecord, KafkaSource};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use super::cluster::topic;
use super::reading::{Told, all, first};

#[tokio::test]
async fn a_record_is_read_as_it_was_sent() {
    let topic = topic(1).await;
    let headers = OwnedHeaders::new()
        .insert(Header {
            key: "kind",
            value: Some("new"),
        })
        .insert(Header {
            key: "kind",
            value: Some(""),
        })
        .insert::<str>(Header {
            key: "none",
            value: None,
        });
    let record = BaseRecord::to(&topic.name)
        .key(&b"key"[..])
        .payload(&b"\xffvalue"[..]);
    topic.send_record(record.timestamp(1_234).headers(headers));
    topic.send_tombstone(0);
    let told = all(&KafkaSource::bytes(&topic.connection(), [&*topic.name]).bounded()).await;
    let [record, tombstone] = told.of(&topic.split(0)) else {
        panic!("{told:?}");
    };
    assert_eq!(
        (&*record.topic, record.partition, record.offset),
        (&*topic.name, 0, 0)
    );
    assert_eq!(record.timestamp.unwrap().as_millis(), 1_234);
    assert_eq!(record.key.as_deref(), Some(&b"key"[..]));
    assert_eq!(record.value.as_deref(), Some(&b"\xffvalue"[..]));
    let headers: Vec<_> = (record.headers.iter())
        .map(|(name, value)| (&**name, value.as_deref()))
        .collect();
    let expected: [(&str, Option<&[u8]>); 3] =
        [("kind", Some(b"new")), ("kind", Some(b"")), ("none", None)];
    assert_eq!(headers, expected);
    assert_eq!((tombstone.offset, &tombstone.value), (1, &None));
    assert!(tombstone.headers.is_empty());
}

#[tokio::test]
async fn json_becomes_a_value() {
    #[derive(serde::Deserialize, Debug, PartialEq)]
    struct Order {
        id: u32,
    }
    let topic = topic(1).await;
    topic.send(0, [r#"{"id":1}"#, r#"{"id":2}"#]);
    topic.send_tombstone(0);
    let told =
        all(&KafkaSource::json::<Order>(&topic.connection(), [&*topic.name]).bounded()).await;
    assert_eq!(told.of(&topic.split(0)), [Order { id: 1 }, Order { id: 2 }]);
    assert_eq!((told.skipped, told.offset(&topic.split(0))), (0, Some(3)));
}

#[tokio::test]
async fn a_malformed_record_is_named_or_counted() {
    let topic = topic(1).await;
    topic.send(0, ["1", "two", "3", "vier"]);
    let numbers = || KafkaSource::json::<u32>(&topic.connection(), [&*topic.name]).bounded();
    let mut reader = first(&numbers()).await.unwrap();
    let mut told = Told::default();
    let error = told.until(&mut reader, |told| told.end).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    let place = format!("{}, offset 1", topic.split(0));
    assert!(error.to_string().contains(&place), "{error}");

    let told = all(&numbers().on_malformed(OnMalformed::Skip)).await;
    assert_eq!(told.of(&topic.split(0)), [1, 3]);
    assert_eq!((told.skipped, told.offset(&topic.split(0))), (2, Some(4)));
}

#[tokio::test]
async fn a_closure_may_leave_records_out() {
    let topic = topic(1).await;
    topic.send(0, 0..10);
    let even = |record: KafkaRecord<'_>| Ok((record.offset() % 2 == 0).then(|| record.offset()));
    let told = all(&KafkaSource::with(&topic.connection(), [&*topic.name], even).bounded()).await;
    assert_eq!(told.of(&topic.split(0)), [0, 2, 4, 6, 8]);
    assert_eq!((told.skipped, told.offset(&topic.split(0))), (0, Some(10)));
}

#[tokio::test]
async fn a_panic_in_a_decoder_is_an_error() {
    let topic = topic(1).await;
    topic.send(0, ["a"]);
    let broken = |record: KafkaRecord<'_>| -> Result<Option<()>, _> {
        panic!("offset {}", record.offset());
    };
    let source = KafkaSource::with(&topic.connection(), [&*topic.name], broken);
    let mut reader = first(&source).await.unwrap();
    let told = Told::default().until(&mut reader, |_| false).await;
    assert_eq!(told.unwrap_err().kind(), ErrorKind::Transient);
}

#[tokio::test]
async fn long_records_come_in_batches_that_stay_small() {
    let topic = topic(1).await;
    topic.send(
        0,
        (0..60).map(|index| format!("{index}{}", "x".repeat(500_000))),
    );
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name]).bounded();
    let mut reader = first(&source).await.unwrap();
    // Nothing is taken for a while, so that many wait at once.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut told = Told::default();
    while !told.end {
        let event = cofferdam::SourceReader::next(&mut reader).await.unwrap();
        if let cofferdam::SourceEvent::Batch(batch) = &event {
            assert!(batch.records.len() <= 9, "{}", batch.records.len());
        }
        told.take(event);
    }
    assert_eq!(told.of(&topic.split(0)).len(), 60);
}
