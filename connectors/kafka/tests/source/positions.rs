//! Where readers begin, and what their positions count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cofferdam::{SourceReader as _, Timestamp};
use cofferdam_kafka::{KafkaRecord, KafkaSource, Start};

use super::cluster::topic;
use super::reading::{Told, again, first};

#[tokio::test]
async fn a_marker_takes_an_offset() {
    let topic = topic(1).await;
    topic.commit(0, 0..10);
    let split = topic.split(0);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name]);
    let mut told = Told::default();
    let mut reader = first(&source).await.unwrap();
    told.until(&mut reader, |told| told.offset(&split) == Some(11))
        .await
        .unwrap();
    assert_eq!(told.of(&split).len(), 10);
}

#[tokio::test]
async fn what_is_no_record_is_passed_over() {
    let topic = topic(1).await;
    let split = topic.split(0);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name]);
    let mut told = Told::default();
    let mut reader = first(&source).await.unwrap();

    topic.abort(0, 0..5); // five records and a marker
    told.until(&mut reader, |told| told.offset(&split) == Some(6))
        .await
        .unwrap();
    topic.send_tombstone(0);
    told.until(&mut reader, |told| told.offset(&split) == Some(7))
        .await
        .unwrap();
    assert_eq!(told.of(&split), [""; 0]);
    assert_eq!(told.skipped, 0);

    topic.send(0, ["a"]);
    told.until(&mut reader, |told| told.offset(&split) == Some(8))
        .await
        .unwrap();
    assert_eq!(told.of(&split), ["a"]);
}

#[tokio::test]
async fn uncommitted_records_are_read_where_that_is_wanted() {
    let topic = topic(1).await;
    let open = topic.open_transaction(0, ["a", "b"]);
    let split = topic.split(0);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name]);
    let mut committed = first(&source).await.unwrap();
    let mut told = Told::default();
    told.until(&mut committed, |told| told.offset(&split) == Some(0))
        .await
        .unwrap();

    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name]).read_uncommitted();
    let mut uncommitted = first(&source).await.unwrap();
    let mut early = Told::default();
    early
        .until(&mut uncommitted, |told| told.offset(&split) == Some(2))
        .await
        .unwrap();
    assert_eq!(early.of(&split), ["a", "b"]);

    assert_eq!(told.of(&split), [""; 0]);
    open.commit();
    told.until(&mut committed, |told| told.offset(&split) == Some(3))
        .await
        .unwrap();
    assert_eq!(told.of(&split), ["a", "b"]);
}

#[tokio::test]
async fn every_partition_tells_its_position_before_anything_else() {
    let topic = topic(3).await;
    topic.send(1, ["a", "b"]);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name]).start(Start::Latest);
    let mut reader = first(&source).await.unwrap();
    let mut told = Told::<String>::default();
    told.until(&mut reader, |told| told.positions.len() == 3)
        .await
        .unwrap();
    let offsets = [0, 1, 2].map(|partition| told.offset(&topic.split(partition)));
    assert_eq!(offsets, [Some(0), Some(2), Some(0)]);
    assert!(
        told.positions
            .values()
            .all(|position| position.topic_id.is_some())
    );

    // What came between that checkpoint and the next start is read, although it was not there.
    drop(reader);
    topic.send(0, ["c"]);
    let mut reader = again(&source, &told.positions).await.unwrap();
    told.until(&mut reader, |told| told.offset(&topic.split(0)) == Some(1))
        .await
        .unwrap();
    assert_eq!(told.of(&topic.split(0)), ["c"]);
}

#[tokio::test]
async fn a_start_at_a_time_reads_what_is_not_older() {
    let topic = topic(2).await;
    topic.send(0, ["old"]);
    tokio::time::sleep(Duration::from_millis(5)).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap());
    tokio::time::sleep(Duration::from_millis(5)).await;
    topic.send(0, ["new"]);

    let source =
        KafkaSource::utf8(&topic.connection(), [&*topic.name]).start(Start::Timestamp(now));
    let mut reader = first(&source).await.unwrap();
    let mut told = Told::default();
    let (split, other) = (topic.split(0), topic.split(1));
    told.until(&mut reader, |told| told.offset(&split) == Some(2))
        .await
        .unwrap();
    assert_eq!(told.of(&split), ["new"]);
    assert_eq!(told.offset(&other), Some(0));

    let later = now.saturating_add(Duration::from_secs(3_600));
    let source =
        KafkaSource::utf8(&topic.connection(), [&*topic.name]).start(Start::Timestamp(later));
    let mut reader = first(&source).await.unwrap();
    let mut told = Told::<String>::default();
    told.until(&mut reader, |told| told.offset(&split).is_some())
        .await
        .unwrap();
    assert_eq!(told.offset(&split), Some(2));
}

#[tokio::test]
async fn a_quiet_partition_is_told_as_idle_also_behind_markers() {
    let topic = topic(2).await;
    let (quiet, busy) = (topic.split(0), topic.split(1));
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name])
        .idle_after(Duration::from_millis(300));
    let mut reader = first(&source).await.unwrap();
    let mut told = Told::default();
    told.until(&mut reader, |told| told.idle.len() == 2)
        .await
        .unwrap();

    topic.send(1, ["a"]);
    told.until(&mut reader, |told| !told.idle.contains(&busy))
        .await
        .unwrap();
    assert!(told.idle.contains(&quiet));

    topic.abort(0, ["b"]);
    let passed = |told: &Told<String>| told.offset(&quiet) == Some(2);
    told.until(&mut reader, passed).await.unwrap();
    told.until(&mut reader, |told| told.idle.contains(&quiet))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_quiet_partition_is_told_as_idle_beside_one_that_never_rests() {
    let topic = Arc::new(topic(2).await);
    let quiet = topic.split(0);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name])
        .idle_after(Duration::from_millis(1_500));
    let mut reader = first(&source).await.unwrap();
    let mut told = Told::<String>::default();
    let (busy, stop) = (Arc::clone(&topic), Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop);
    let sending = std::thread::spawn(move || busy.send_until(1, &stopped));
    let outcome = async {
        let begun = |told: &Told<String>| !told.of(&topic.split(1)).is_empty();
        told.until(&mut reader, begun).await?;
        assert!(!told.idle.contains(&quiet));
        told.until(&mut reader, |told| told.idle.contains(&quiet))
            .await
    };
    let outcome = outcome.await;
    stop.store(true, Ordering::Relaxed);
    sending.join().unwrap();
    outcome.unwrap();
}

#[tokio::test]
async fn dropping_the_future_of_next_loses_nothing() {
    let topic = topic(2).await;
    topic.send(0, 0..5_000);
    topic.send(1, 5_000..10_000);
    let source = KafkaSource::utf8(&topic.connection(), [&*topic.name]);
    let mut reader = first(&source).await.unwrap();
    let mut told = Told::default();
    let complete = |told: &Told<String>| {
        [0, 1]
            .iter()
            .all(|partition| told.offset(&topic.split(*partition)) == Some(5_000))
    };
    let mut dropped = 0;
    while !complete(&told) {
        let next = reader.next();
        tokio::select! {
            biased;
            event = next => told.take(event.unwrap()),
            () = tokio::task::yield_now() => dropped += 1,
        }
    }
    assert!(dropped > 100, "{dropped}");
    for (partition, from) in [(0, 0), (1, 5_000)] {
        let expected: Vec<String> = (from..from + 5_000)
            .map(|value: i32| value.to_string())
            .collect();
        assert_eq!(told.of(&topic.split(partition)), expected);
    }
}

#[tokio::test]
async fn dropping_a_reader_ends_its_thread_and_does_not_wait_for_that() {
    let topic = topic(1).await;
    let held = Arc::new(());
    let gone = Arc::downgrade(&held);
    let source = KafkaSource::with(
        &topic.connection(),
        [&*topic.name],
        move |_: KafkaRecord<'_>| Ok(Some(Arc::strong_count(&held))),
    );
    let mut reader = first(&source).await.unwrap();
    let mut told = Told::default();
    topic.send(0, ["a"]);
    told.until(&mut reader, |told| !told.of(&topic.split(0)).is_empty())
        .await
        .unwrap();
    drop(source);

    let start = Instant::now();
    drop(reader);
    assert!(
        start.elapsed() < Duration::from_millis(20),
        "{:?}",
        start.elapsed()
    );
    // The thread drops its decoder last, after the consumer.
    while gone.strong_count() > 0 {
        assert!(start.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
