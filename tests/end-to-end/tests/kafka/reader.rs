//! What readers see of a topic.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

/// Longer than any of this takes, also on a busy machine and while a node is away.
const PATIENCE: Duration = Duration::from_secs(90);

fn consumer(brokers: &str, isolation: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("isolation.level", isolation)
        .set("auto.offset.reset", "earliest")
        .set("fetch.wait.max.ms", "20")
        .set("fetch.error.backoff.ms", "20")
        .set("reconnect.backoff.ms", "20")
        .set("reconnect.backoff.max.ms", "100")
        .create()
        .expect("a consumer")
}

/// Up to where each partition can be read.
fn ends(consumer: &BaseConsumer, topic: &str, partitions: i32) -> Vec<i64> {
    let until = Instant::now() + PATIENCE;
    let end = |partition| loop {
        match consumer.fetch_watermarks(topic, partition, Duration::from_secs(2)) {
            Ok((_, end)) => break end,
            // The leader is being chosen, or has just been started again.
            Err(error) => assert!(Instant::now() < until, "{topic}[{partition}]: {error}"),
        }
    };
    (0..partitions).map(end).collect()
}

/// The high watermark of each partition.
pub fn high_watermarks(brokers: &str, topic: &str, partitions: i32) -> Vec<i64> {
    ends(&consumer(brokers, "read_uncommitted"), topic, partitions)
}

/// The last stable offset of each partition: where `read_committed` readers stop.
pub fn last_stable_offsets(brokers: &str, topic: &str, partitions: i32) -> Vec<i64> {
    ends(&consumer(brokers, "read_committed"), topic, partitions)
}

/// All values that a `read_committed` reader sees, sorted.
pub fn committed(brokers: &str, topic: &str, partitions: i32) -> Vec<String> {
    let consumer = consumer(brokers, "read_committed");
    let ends = ends(&consumer, topic, partitions);
    let mut all = TopicPartitionList::new();
    for partition in 0..partitions {
        all.add_partition_offset(topic, partition, Offset::Beginning)
            .expect("an offset");
    }
    consumer.assign(&all).expect("an assignment");
    let mut values = Vec::new();
    let mut positions = vec![0; ends.len()];
    let until = Instant::now() + PATIENCE;
    while positions.iter().zip(&ends).any(|(at, end)| at < end) {
        assert!(
            Instant::now() < until,
            "{topic}: a reader stops at {positions:?} of {ends:?}"
        );
        match consumer.poll(Duration::from_millis(20)) {
            Some(Ok(message)) => {
                let value = message.payload().expect("a value").to_vec();
                values.push(String::from_utf8(value).expect("text"));
                positions[index(message.partition())] = message.offset() + 1;
            }
            // Behind the last record come markers, which take offsets too.
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                let position = consumer.position().expect("a position");
                let found = position.find_partition(topic, partition);
                if let Some(Offset::Offset(offset)) = found.map(|found| found.offset()) {
                    positions[index(partition)] = offset;
                }
            }
            // The connection is made again by itself.
            Some(Err(_)) | None => {}
        }
    }
    values.sort();
    values
}

fn index(partition: i32) -> usize {
    usize::try_from(partition).expect("a partition")
}
