//! Offsets of groups: read once, shown after decisions.

use std::time::Duration;

use cofferdam::{CheckpointId, ErrorKind, Source, SplitId};
use cofferdam_kafka::{KafkaConnection, KafkaPosition, KafkaSource, Start};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use super::cluster::{PATIENCE, Topic, topic};
use super::reading::{Told, first};

fn consumer(topic: &Topic, group: &str) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &topic.bootstrap)
        .set("group.id", group);
    config.create().unwrap()
}

fn offset(topic: &Topic, group: &str, partition: i32) -> (Offset, String) {
    let mut list = TopicPartitionList::new();
    list.add_partition(&topic.name, partition);
    let found = consumer(topic, group)
        .committed_offsets(list, PATIENCE)
        .unwrap();
    let found = found.find_partition(&topic.name, partition).unwrap();
    (found.offset(), found.metadata().to_owned())
}

#[tokio::test]
async fn a_decision_is_shown() {
    let topic = topic(2).await;
    topic.send(0, 0..3);
    let group = format!("group-of-{}", topic.name);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name]).group(&*group);
    let mut reader = first(&source).await.unwrap();
    let mut told = Told::<String>::default();
    let both = |told: &Told<String>| {
        told.offset(&topic.split(0)) == Some(3) && told.offset(&topic.split(1)) == Some(0)
    };
    told.until(&mut reader, both).await.unwrap();
    let positions: Vec<(SplitId, KafkaPosition)> = (told.positions.iter())
        .map(|(split, position)| (SplitId::new(&**split), position.clone()))
        .collect();
    source.notify(CheckpointId(7), &positions).await.unwrap();
    assert_eq!(
        offset(&topic, &group, 0),
        (Offset::Offset(3), "checkpoint 7".to_owned())
    );
    assert_eq!(offset(&topic, &group, 1).0, Offset::Offset(0));
}

#[tokio::test]
async fn a_group_that_can_not_be_reached_stops_nothing() {
    let connection = KafkaConnection::new("127.0.0.1:1").patience(Duration::from_millis(200));
    let source = KafkaSource::utf8(&connection, ["topic"]).group("group");
    let position: KafkaPosition = serde_json::from_str(r#"{"offset":7}"#).unwrap();
    let positions = [(SplitId::new("topic/0"), position)];
    source.notify(CheckpointId(7), &positions).await.unwrap();
}

#[tokio::test]
async fn a_start_where_the_group_stands_reads_the_rest() {
    let topic = topic(2).await;
    topic.send(0, 0..5);
    topic.send(1, 0..2);
    let group = format!("group-of-{}", topic.name);
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&topic.name, 0, Offset::Offset(3))
        .unwrap();
    let committing = consumer(&topic, &group);
    committing
        .commit(&list, rdkafka::consumer::CommitMode::Sync)
        .unwrap();

    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name])
        .start(Start::Group)
        .group(&*group);
    let told = super::reading::all(&source.bounded()).await;
    assert_eq!(told.of(&topic.split(0)), ["3", "4"]);
    assert_eq!(told.of(&topic.split(1)), ["0", "1"]);

    topic.delete_before(0, 4).await;
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name])
        .start(Start::Group)
        .group(&*group);
    let error = first(&source).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
}
