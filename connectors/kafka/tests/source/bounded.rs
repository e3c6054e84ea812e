//! Sources that end.

use cofferdam_kafka::{KafkaSource, Start};

use super::cluster::topic;
use super::reading::{Told, again, all, first};

#[tokio::test]
async fn it_ends_with_what_there_was_at_the_start() {
    let topic = topic(3).await;
    topic.send(0, ["a", "b"]);
    topic.send(1, ["c"]);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name]).bounded();
    let mut reader = first(&source).await.unwrap();
    topic.send(0, ["later"]);
    let mut told = Told::default();
    told.until(&mut reader, |told| told.end).await.unwrap();
    assert_eq!(told.of(&topic.split(0)), ["a", "b"]);
    assert_eq!(told.of(&topic.split(1)), ["c"]);
    assert_eq!(told.finished.len(), 3);
    let offsets = [0, 1, 2].map(|partition| told.offset(&topic.split(partition)));
    assert_eq!(offsets, [Some(2), Some(1), Some(0)]);
}

#[tokio::test]
async fn it_stops_before_an_open_transaction() {
    let topic = topic(1).await;
    topic.commit(0, ["a"]); // a record and a marker
    let open = topic.open_transaction(0, ["b"]);
    topic.send(0, ["c"]);
    let told = all(&KafkaSource::utf8(&topic.connection(), [&*topic.name]).bounded()).await;
    assert_eq!(told.of(&topic.split(0)), ["a"]);
    assert_eq!(told.offset(&topic.split(0)), Some(2));
    open.abort();

    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name]);
    let told = all(&source.bounded().read_uncommitted()).await;
    assert_eq!(told.of(&topic.split(0)), ["a", "b", "c"]);
}

#[tokio::test]
async fn it_does_not_wait_for_a_record_behind_what_is_none() {
    let topic = topic(2).await;
    topic.commit(0, ["a"]);
    topic.abort(0, ["b", "c"]);
    topic.abort(1, ["d"]);
    let told = all(&KafkaSource::utf8(&topic.connection(), [&*topic.name]).bounded()).await;
    assert_eq!(told.of(&topic.split(0)), ["a"]);
    assert_eq!(told.offset(&topic.split(0)), Some(5));
    assert_eq!(told.offset(&topic.split(1)), Some(2));
}

#[tokio::test]
async fn a_restart_ends_at_the_same_place() {
    let topic = topic(1).await;
    topic.send(0, 0..2_000);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name]).bounded();
    let split = topic.split(0);
    let mut told = Told::default();
    let mut reader = first(&source).await.unwrap();
    told.until(&mut reader, |told| told.offset(&split) > Some(0))
        .await
        .unwrap();
    drop(reader);

    topic.send(0, ["later"]);
    topic.grow_to(2).await;
    topic.send(1, ["later"]);
    let mut reader = again(&source, &told.positions).await.unwrap();
    told.until(&mut reader, |told| told.end).await.unwrap();
    let expected: Vec<String> = (0..2_000).map(|value| value.to_string()).collect();
    assert_eq!(told.of(&split), expected);
    assert_eq!(told.finished.len(), 1);

    // Whoever died between the last batch and the end has nothing left to read.
    let mut reader = again(&source, &told.positions).await.unwrap();
    let mut rest = Told::<String>::default();
    rest.until(&mut reader, |told| told.end).await.unwrap();
    assert_eq!((rest.of(&split).len(), rest.finished.len()), (0, 1));
}

#[tokio::test]
async fn from_the_latest_there_is_nothing() {
    let topic = topic(1).await;
    topic.send(0, ["a"]);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name]);
    let told = all(&source.start(Start::Latest).bounded()).await;
    assert_eq!(told.of(&topic.split(0)), [""; 0]);
    assert_eq!(told.offset(&topic.split(0)), Some(1));
}

#[tokio::test]
async fn many_partitions_end_each_by_itself() {
    let topic = topic(20).await;
    for partition in 0..20 {
        topic.send(partition, 0..partition * 50);
    }
    let told = all(&KafkaSource::utf8(&topic.connection(), [&*topic.name]).bounded()).await;
    for partition in 0..20 {
        let expected: Vec<String> = (0..partition * 50).map(|value| value.to_string()).collect();
        assert_eq!(told.of(&topic.split(partition)), expected);
    }
}
