//! A pipeline that is stopped, and goes on at another parallelism.

use std::time::Duration;

use cofferdam::memory::MemorySink;
use cofferdam::{JobEnd, MemoryCheckpointStore, NoEventTime, Pipeline};
use cofferdam_kafka::KafkaSource;

use super::cluster::{PATIENCE, topic};

#[tokio::test(flavor = "multi_thread")]
async fn each_record_is_written_once_over_stops_crashes_and_rescaling() {
    const PARTITIONS: u64 = 4;
    const EACH: u64 = 20_000;
    let topic = topic(PARTITIONS as i32).await;
    let sink = MemorySink::<u64>::new();
    let store = MemoryCheckpointStore::new();
    let job = |parallelism: u32| {
        let source = KafkaSource::json::<u64>(&topic.connection(), [&*topic.name])
            .group(&*topic.name)
            .discover_every(Duration::from_millis(100))
            .option("queued.max.messages.kbytes", "64")
            .option("fetch.message.max.bytes", "8192");
        Pipeline::new("numbers")
            .source("kafka", source, NoEventTime)
            .sink("list", sink.clone())
            .job(store.clone())
            .parallelism(parallelism)
            .checkpoint_interval(Duration::from_millis(20))
    };
    let send = |partition: u64| {
        let from = partition * EACH;
        topic.send(i32::try_from(partition).unwrap(), from..from + EACH);
    };
    for partition in 0..PARTITIONS {
        send(partition);
    }
    let total = |partitions: u64| usize::try_from(partitions * EACH).unwrap();

    // Stopped in order, died (its future is dropped), stopped at once; each time at another parallelism.
    for (parallelism, how) in [
        (2, "stop"),
        (3, "drop"),
        (1, "leave"),
        (4, "drop"),
        (2, "stop"),
    ] {
        let job = job(parallelism);
        let handle = job.handle();
        let before = sink.visible().len();
        let mut run = Box::pin(job.run());
        let some_more = async {
            while sink.visible().len() < (before + 5_000).min(total(PARTITIONS)) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::select! {
            ended = &mut run => panic!("{ended:?}"),
            () = some_more => {}
        }
        match how {
            "drop" => drop(run),
            "stop" => {
                handle.stop();
                assert_eq!(run.await.unwrap().end, JobEnd::Stopped);
            }
            _ => {
                handle.stop_now();
                assert_eq!(run.await.unwrap().end, JobEnd::Left);
            }
        }
    }

    // While it does not run, a partition comes.
    topic.grow_to(5).await;
    send(4);
    let job = job(3);
    let handle = job.handle();
    let stop_when_all_is_there = async {
        let waiting = async {
            while sink.visible().len() < total(PARTITIONS + 1) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.ok();
        handle.stop();
    };
    let (report, ()) = tokio::join!(job.run(), stop_when_all_is_there);
    assert_eq!(report.unwrap().end, JobEnd::Stopped);
    let mut visible = sink.visible();
    visible.sort_unstable();
    let expected: Vec<u64> = (0..(PARTITIONS + 1) * EACH).collect();
    assert!(
        visible == expected,
        "{} records, {} expected",
        visible.len(),
        expected.len()
    );
}
