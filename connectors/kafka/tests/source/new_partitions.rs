//! Partitions that come later.

use std::time::Duration;

use cofferdam::{Source, SourceReader};
use cofferdam_kafka::{KafkaSource, Start, Utf8};

use super::cluster::{Topic, topic};
use super::reading::{Told, again, first};

fn latest(topic: &Topic) -> KafkaSource<Utf8> {
    KafkaSource::utf8(&topic.connection(), [&*topic.name])
        .start(Start::Latest)
        .discover_every(Duration::from_millis(100))
}

#[tokio::test]
async fn one_that_comes_while_running_is_read_from_its_start() {
    let topic = topic(1).await;
    topic.send(0, ["before"]);
    let source = latest(&topic);
    let mut reader = first(&source).await.unwrap();
    topic.grow_to(3).await;
    topic.send(1, ["a"]);
    let mut told = Told::default();
    let all =
        |told: &Told<String>| told.positions.len() == 3 && !told.of(&topic.split(1)).is_empty();
    told.until(&mut reader, all).await.unwrap();
    assert_eq!(told.of(&topic.split(0)), [""; 0]);
    assert_eq!(told.of(&topic.split(1)), ["a"]);
    assert_eq!(told.offset(&topic.split(2)), Some(0));
    assert!(
        told.positions
            .values()
            .all(|position| position.topic_id.is_some())
    );
}

#[tokio::test]
async fn one_that_comes_between_two_runs_is_read_from_its_start() {
    let topic = topic(1).await;
    topic.send(0, ["before"]);
    let source = latest(&topic);
    let mut told = Told::default();
    let mut reader = first(&source).await.unwrap();
    told.until(&mut reader, |told| told.positions.len() == 1)
        .await
        .unwrap();
    drop(reader);
    topic.grow_to(2).await;
    topic.send(1, ["a"]);
    let mut reader = again(&source, &told.positions).await.unwrap();
    told.until(&mut reader, |told| !told.of(&topic.split(1)).is_empty())
        .await
        .unwrap();
    assert_eq!(told.of(&topic.split(1)), ["a"]);
    assert_eq!(told.of(&topic.split(0)), [""; 0]);
}

#[tokio::test]
async fn one_reader_takes_it_that_which_has_the_fewest() {
    let topic = topic(3).await;
    let source = latest(&topic);
    let splits = source.splits(&[]).await.unwrap();
    let open = |splits: &[cofferdam::SplitId]| {
        source.open(splits.iter().map(|split| (split.clone(), None)).collect())
    };
    let mut many = open(&splits[..2]).await.unwrap();
    let mut few = open(&splits[2..]).await.unwrap();
    topic.grow_to(4).await;
    let mut told = Told::<String>::default();
    told.until(&mut few, |told| told.positions.len() == 2)
        .await
        .unwrap();
    assert!(told.positions.contains_key(&topic.split(3)));
    let mut other = Told::default();
    other
        .until(&mut many, |told| told.positions.len() == 2)
        .await
        .unwrap();
    let more = tokio::time::timeout(Duration::from_millis(300), many.next()).await;
    assert!(more.is_err(), "{more:?}");
}

#[tokio::test]
async fn a_reader_of_an_earlier_run_takes_none() {
    let topic = topic(1).await;
    let source = latest(&topic);
    let mut old = first(&source).await.unwrap();
    let mut told = Told::<String>::default();
    told.until(&mut old, |told| told.positions.len() == 1)
        .await
        .unwrap();
    let known = [cofferdam::SplitId::new(topic.split(0))];
    source.splits(&known).await.unwrap();
    drop(old);
    topic.grow_to(2).await;
    let mut new = again(&source, &told.positions).await.unwrap();
    let mut told = Told::<String>::default();
    told.until(&mut new, |told| {
        told.positions.contains_key(&topic.split(1))
    })
    .await
    .unwrap();
}
