//! What the sink writes, as the source reads it.

use std::collections::BTreeMap;

use cofferdam::memory::MemorySource;
use cofferdam::{MemoryCheckpointStore, NoEventTime, Pipeline, Timestamp};
use cofferdam_kafka::{ConsumedRecord, KafkaSink, KafkaSource, OutgoingRecord};

use super::cluster::{Topic, topic};
use super::reading::all;

/// Where `Utils.murmur2` of Kafka's Java client puts keys among seven partitions.
const BY_JAVA: [(&str, i32); 8] = [
    ("", 2),
    ("a", 5),
    ("21", 3),
    ("abc", 4),
    ("foobar", 0),
    ("user-4711", 3),
    ("ключ", 4),
    ("a-little-bit-longer-string", 0),
];

/// Where librdkafka's own partitioner, CRC-32, puts them.
const BY_CRC: [i32; 8] = [0, 4, 6, 5, 6, 0, 1, 0];

/// Writes numbers, each as the encoder has it.
async fn write(
    topic: &Topic,
    partitioner: Option<&str>,
    numbers: std::ops::Range<usize>,
    encode: impl Fn(&usize, &mut OutgoingRecord) + Send + Sync + 'static,
) {
    let encode = move |number: &usize, record: &mut OutgoingRecord| {
        encode(number, record);
        Ok(())
    };
    let sink = KafkaSink::with(&topic.connection(), &*topic.name, encode);
    let sink = match partitioner {
        Some(name) => sink.option("partitioner", name),
        None => sink,
    };
    let job = Pipeline::new(topic.name.clone())
        .source(
            "numbers",
            MemorySource::new([numbers.collect()]),
            NoEventTime,
        )
        .sink("records", sink)
        .job(MemoryCheckpointStore::new());
    job.run().await.unwrap();
}

async fn records(topic: &Topic) -> Vec<ConsumedRecord> {
    let source = KafkaSource::bytes(&topic.connection(), [&*topic.name]).bounded();
    all(&source).await.records.into_values().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_go_where_java_clients_send_them_in_their_order() {
    keys_go(None, BY_JAVA).await;
    // A user who asks for another way gets it.
    let by_crc = std::array::from_fn(|index| (BY_JAVA[index].0, BY_CRC[index]));
    keys_go(Some("consistent"), by_crc).await;
}

async fn keys_go(partitioner: Option<&str>, places: [(&'static str, i32); 8]) {
    const EACH: usize = 700;
    let topic = topic(7).await;
    let key = move |number: usize| places[number % places.len()];
    // Some go into librdkafka by themselves, because of their header, among those that go by the batch.
    let numbers = 0..EACH * places.len();
    write(&topic, partitioner, numbers, move |number, record| {
        record.key().extend_from_slice(key(*number).0.as_bytes());
        record
            .value()
            .extend_from_slice(number.to_string().as_bytes());
        if number % 100 == 0 {
            record.header("alone", b"");
        }
    })
    .await;
    let mut found: BTreeMap<(Vec<u8>, i32), Vec<usize>> = BTreeMap::new();
    for record in records(&topic).await {
        let number = String::from_utf8(record.value.unwrap())
            .unwrap()
            .parse()
            .unwrap();
        let place = (record.key.unwrap(), record.partition);
        found.entry(place).or_default().push(number);
    }
    let wanted = places.iter().enumerate().map(|(first, (key, partition))| {
        let numbers = (first..).step_by(places.len()).take(EACH).collect();
        ((key.as_bytes().to_vec(), *partition), numbers)
    });
    assert_eq!(found, wanted.collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_parts_of_a_record_come_through() {
    let from = topic(3).await;
    let elsewhere = topic(1).await;
    let at = Timestamp::from_millis(1_700_000_000_123);
    let other = elsewhere.name.clone();
    write(&from, None, 0..6, move |number, record| match number {
        // Neither key nor value.
        0 => record.partition(0),
        // Empty ones, which is not the same.
        1 => {
            record.key();
            record.value();
            record.partition(0);
        }
        // A tombstone.
        2 => {
            record.key().extend_from_slice(b"gone");
            record.partition(1);
        }
        3 => {
            record.value().extend_from_slice(b"when");
            record.timestamp(at);
            record.partition(1);
        }
        4 => {
            record.value().extend_from_slice(b"headers");
            record.header("twice", b"1");
            record.header("twice", b"\xff\0");
            record.partition(2);
        }
        _ => {
            record.value().extend_from_slice(b"elsewhere");
            record.topic(&other);
        }
    })
    .await;
    let seen = |record: ConsumedRecord| {
        let at = record.timestamp.filter(|it| *it == at);
        (
            record.partition,
            record.key,
            record.value,
            at,
            record.headers,
        )
    };
    let bytes = |text: &[u8]| Some(text.to_vec());
    let twice = |value: &[u8]| ("twice".to_owned(), bytes(value));
    let found: Vec<_> = records(&from).await.into_iter().map(seen).collect();
    assert_eq!(
        found,
        [
            (0, None, None, None, vec![]),
            (0, bytes(b""), bytes(b""), None, vec![]),
            (1, bytes(b"gone"), None, None, vec![]),
            (1, None, bytes(b"when"), Some(at), vec![]),
            (
                2,
                None,
                bytes(b"headers"),
                None,
                vec![twice(b"1"), twice(b"\xff\0")]
            ),
        ]
    );
    let found: Vec<_> = records(&elsewhere).await.into_iter().map(seen).collect();
    assert_eq!(found, [(0, None, bytes(b"elsewhere"), None, vec![])]);
}
