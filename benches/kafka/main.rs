//! The Kafka connector against the bare client library, in turn, on one real broker.
//!
//! * sink: one subtask with a checkpoint each second, against a transactional producer of `rdkafka` with the same
//!   settings, which commits each second;
//! * source: one reader, against a consumer of `rdkafka` that is polled.
//!
//! `RECORDS` (5,000,000) and `RUNS` (5) are taken from the environment.

use std::error::Error;
use std::time::{Duration, Instant};

use cofferdam::{Source, SourceEvent, SourceReader, TransactionId, TwoPhaseCommitSinkFunction};
use cofferdam_benches::{in_turn, millions_per_second, number, speed_ratio, time};
use cofferdam_kafka::{KafkaConnection, KafkaRecord, KafkaSink, KafkaSource};
use cofferdam_services::Kafka;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::runtime::Runtime;

const PARTITIONS: i32 = 4;
const BATCH: u64 = 1024;
const CHECKPOINT: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);

fn value(number: u64) -> String {
    format!(
        r#"{{"user":"u{:05}","window_start":17000{number:08},"count":12,"sum_cents":123456}}"#,
        number % 10_000
    )
}

fn key(value: &str) -> &[u8] {
    &value.as_bytes()[9..15]
}

/// Batches of values, as a pipeline hands them over.
fn batches(records: u64) -> impl Iterator<Item = Vec<String>> {
    (0..records.div_ceil(BATCH)).map(move |batch| {
        (batch * BATCH..records.min((batch + 1) * BATCH))
            .map(value)
            .collect()
    })
}

fn raw_sink(bootstrap: &str, records: u64) -> Result<(), KafkaError> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("transactional.id", "raw")
        .set("partitioner", "murmur2_random")
        .set("delivery.report.only.error", "true")
        .set("linger.ms", "5")
        .set("batch.size", "1000000")
        .set("batch.num.messages", "100000")
        .set("queue.buffering.max.messages", "20000")
        .set("retry.backoff.ms", "5")
        .set("queue.buffering.max.kbytes", "16384")
        .create()?;
    producer.init_transactions(PATIENCE)?;
    producer.begin_transaction()?;
    let commit = || {
        // `flush` waits in steps of 100 ms.
        while producer.in_flight_count() > 0 {
            producer.poll(Duration::from_millis(1));
        }
        producer.commit_transaction(PATIENCE)
    };
    let mut checkpoint = Instant::now();
    for batch in batches(records) {
        for value in &batch {
            let mut record = BaseRecord::to("raw")
                .key(key(value))
                .payload(value.as_bytes());
            loop {
                match producer.send(record) {
                    Ok(()) => break,
                    Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), full)) => {
                        record = full;
                        producer.poll(Duration::from_millis(1));
                    }
                    Err((error, _)) => return Err(error),
                }
            }
        }
        producer.poll(Duration::ZERO);
        if checkpoint.elapsed() >= CHECKPOINT {
            commit()?;
            producer.begin_transaction()?;
            checkpoint = Instant::now();
        }
    }
    commit()
}

async fn sink(kafka: &KafkaConnection, records: u64, run: u64) -> Result<(), Box<dyn Error>> {
    let sink = std::sync::Arc::new(
        KafkaSink::<String, _>::bytes(kafka, "candidate")
            .key(|value: &String, to| to.extend_from_slice(key(value))),
    );
    let id = |checkpoint: u64| -> Result<TransactionId, _> {
        format!("bench-{run}/sink/1/0/{checkpoint}").parse()
    };
    let mut number = 1;
    let mut open = sink.begin(&id(number)?).await?;
    let mut commits = Vec::new();
    let mut checkpoint = Instant::now();
    let mut batches = batches(records).peekable();
    while let Some(batch) = batches.next() {
        sink.write(&mut open, batch).await?;
        let is_last = batches.peek().is_none();
        if !is_last && checkpoint.elapsed() < CHECKPOINT {
            continue;
        }
        let prepared = sink.pre_commit(open).await?.ok_or("no handle")?;
        let (committer, id_now) = (std::sync::Arc::clone(&sink), id(number)?);
        let commit = async move { committer.commit(&id_now, &prepared).await.map(drop) };
        commits.push(tokio::spawn(commit));
        if is_last {
            break;
        }
        number += 1;
        open = sink.begin(&id(number)?).await?;
        checkpoint = Instant::now();
    }
    for commit in commits {
        commit.await??;
    }
    Ok(())
}

fn raw_source(bootstrap: &str, records: u64) -> Result<u64, KafkaError> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "raw")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("queued.min.messages", "10000")
        .set("queued.max.messages.kbytes", "16384")
        .set("fetch.message.max.bytes", "524288")
        .set("fetch.max.bytes", "16777216")
        .set("fetch.queue.backoff.ms", "2")
        .set("fetch.min.bytes", "65536")
        .set("fetch.wait.max.ms", "20")
        .create()?;
    let mut all = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        all.add_partition_offset("input", partition, Offset::Beginning)?;
    }
    consumer.assign(&all)?;
    let (mut read, mut bytes) = (0, 0);
    while read < records {
        if let Some(message) = consumer.poll(Duration::from_millis(100)) {
            use rdkafka::Message;
            bytes += message?.payload().map_or(0, <[u8]>::len) as u64;
            read += 1;
        }
    }
    Ok(bytes)
}

async fn source(kafka: &KafkaConnection, records: u64) -> Result<u64, Box<dyn Error>> {
    let source = KafkaSource::with(kafka, ["input"], |record: KafkaRecord<'_>| {
        Ok(record.value().map(|value| value.len() as u64))
    })
    .bounded();
    let splits = source.splits(&[]).await?;
    let mut reader = source
        .open(splits.into_iter().map(|split| (split, None)).collect())
        .await?;
    let (mut read, mut bytes) = (0, 0);
    loop {
        match reader.next().await? {
            SourceEvent::Batch(batch) => {
                read += batch.records.len() as u64;
                bytes += batch.records.iter().sum::<u64>();
            }
            SourceEvent::End => break,
            SourceEvent::Idle(_) | SourceEvent::Finished(_) => {}
        }
    }
    (read == records)
        .then_some(bytes)
        .ok_or_else(|| format!("{read} of {records} were read").into())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (records, runs) = (number("RECORDS", 5_000_000), number("RUNS", 5));
    let broker = Kafka::builder().tuned_for_throughput().start()?;
    let bootstrap = broker.bootstrap();
    let runtime = Runtime::new()?;
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", &bootstrap)
        .create()?;
    let topics = ["raw", "candidate", "input"]
        .map(|name| NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(1)));
    runtime.block_on(admin.create_topics(&topics, &AdminOptions::new()))?;
    let kafka = KafkaConnection::new(&bootstrap);

    let mut run = 0;
    let (raw, ours) = in_turn(
        runs,
        || time(|| raw_sink(&bootstrap, records).expect("the raw producer works")),
        || {
            run += 1;
            time(|| {
                runtime
                    .block_on(sink(&kafka, records, run))
                    .expect("the sink works");
            })
        },
    );
    report(
        "sink, a checkpoint each second",
        "a transactional producer",
        records,
        raw,
        ours,
    );

    let fill = KafkaSink::<String, _>::bytes(&kafka, "input")
        .key(|value: &String, to| to.extend_from_slice(key(value)));
    runtime.block_on(async {
        let id = "fill/sink/1/0/1".parse()?;
        let mut open = fill.begin(&id).await?;
        for batch in batches(records) {
            fill.write(&mut open, batch).await?;
        }
        let prepared = fill.pre_commit(open).await?.ok_or("no handle")?;
        let _how = fill.commit(&id, &prepared).await?;
        Ok::<(), Box<dyn Error>>(())
    })?;
    let (raw, ours) = in_turn(
        runs,
        || time(|| raw_source(&bootstrap, records).expect("the raw consumer works")),
        || {
            time(|| {
                runtime
                    .block_on(source(&kafka, records))
                    .expect("the source works")
            })
        },
    );
    report("source", "a polled consumer", records, raw, ours);
    Ok(())
}

fn report(what: &str, against: &str, records: u64, raw: Duration, ours: Duration) {
    println!(
        "{what}: {:.2} M/s; {against} of rdkafka: {:.2} M/s; ratio {:.2}",
        millions_per_second(records, ours),
        millions_per_second(records, raw),
        speed_ratio(raw, ours),
    );
}
