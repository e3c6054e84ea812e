//! A broker, an input that is the same each time, and a look at the output: all by the pipelines that they show.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Debug;

use cofferdam::memory::{MemorySink, MemorySource};
use cofferdam::{MemoryCheckpointStore, NoEventTime, Pipeline};
use cofferdam_kafka::{KafkaConnection, KafkaSink, KafkaSource, OutgoingRecord};
use cofferdam_services::Kafka;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use serde::de::DeserializeOwned;

use super::{Options, Order, Revenue};

const PARTITIONS: u32 = 4;
const SHOPS: u32 = 20;

/// The first of January 2026.
const START: i64 = 1_767_225_600_000;

/// From one order to the next.
const STEP_MILLIS: i64 = 10;

/// Starts a broker, which ends with this process.
pub async fn start_broker() -> Result<Kafka, Box<dyn Error>> {
    eprintln!("starting a broker (the first time its jars are downloaded, 54 MB)");
    let start = || Kafka::builder().start();
    Ok(tokio::task::spawn_blocking(start).await??)
}

/// Makes the topics, and fills the input.
pub async fn prepare(
    options: &Options,
    kafka: &KafkaConnection,
    bootstrap: &str,
) -> Result<(), Box<dyn Error>> {
    make_topics(bootstrap, [&options.input, &options.output]).await?;
    let partitions = (0..PARTITIONS).map(|partition| {
        let numbers = (partition..options.orders).step_by(PARTITIONS as usize);
        let orders = numbers.map(|number| (partition as i32, order(number)));
        orders.collect::<Vec<_>>()
    });
    let into_partition = |(partition, order): &(i32, Order), record: &mut OutgoingRecord| {
        record.partition(*partition);
        serde_json::to_writer(record.value(), order)?;
        Ok(())
    };
    let input = KafkaSink::with(kafka, &*options.input, into_partition);
    Pipeline::new("kafka-windows-input")
        .source("made-up", MemorySource::new(partitions), NoEventTime)
        .sink("orders", input)
        .job(MemoryCheckpointStore::new())
        .run()
        .await?;
    println!("{} orders are in {}", options.orders, options.input);
    Ok(())
}

/// Any order is the same each time, and up to two seconds older than those before it.
fn order(number: u32) -> Order {
    let mixed = number.wrapping_mul(2_654_435_761);
    Order {
        millis: START + i64::from(number) * STEP_MILLIS - i64::from(mixed >> 21),
        shop: format!("shop-{:02}", (mixed >> 8) % SHOPS),
        cents: 100 + u64::from((mixed >> 4) % 10_000),
    }
}

async fn make_topics(bootstrap: &str, names: [&str; 2]) -> Result<(), Box<dyn Error>> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    let admin: AdminClient<DefaultClientContext> = config.create()?;
    let topics =
        names.map(|name| NewTopic::new(name, PARTITIONS as i32, TopicReplication::Fixed(-1)));
    for made in admin.create_topics(&topics, &AdminOptions::new()).await? {
        made.map_err(|(topic, error)| format!("can't make topic {topic}: {error}"))?;
    }
    Ok(())
}

/// Reads both topics, and compares them.
pub async fn summary(options: &Options, kafka: &KafkaConnection) -> Result<(), Box<dyn Error>> {
    let orders: Vec<Order> = read(kafka, &options.input).await?;
    let revenue: Vec<Revenue> = read(kafka, &options.output).await?;
    let windows: HashSet<(i64, &str)> = revenue
        .iter()
        .map(|revenue| (revenue.minute, &*revenue.shop))
        .collect();
    let (ordered, counted): (usize, u64) = (
        orders.len(),
        revenue.iter().map(|revenue| revenue.orders).sum(),
    );
    let spent: u64 = orders.iter().map(|order| order.cents).sum();
    let earned: u64 = revenue.iter().map(|revenue| revenue.cents).sum();
    println!(
        "{}: {ordered} orders, {spent} cents\n{}: {} windows, {} of them different; {counted} orders, {earned} cents",
        options.input,
        options.output,
        revenue.len(),
        windows.len(),
    );
    match windows.len() == revenue.len() && ordered as u64 == counted && spent == earned {
        true => println!("each order is in one window, once"),
        false => println!(
            "not all orders are in windows yet: those close when later orders come, or at the end of --bounded"
        ),
    }
    Ok(())
}

/// All that a `read_committed` consumer sees of a topic now.
async fn read<T>(kafka: &KafkaConnection, topic: &str) -> Result<Vec<T>, Box<dyn Error>>
where
    T: DeserializeOwned + Clone + Debug + Send + Sync + 'static,
{
    let found = MemorySink::new();
    Pipeline::new("kafka-windows-summary")
        .source(
            "topic",
            KafkaSource::json::<T>(kafka, [topic]).bounded(),
            NoEventTime,
        )
        .sink("found", found.clone())
        .job(MemoryCheckpointStore::new())
        .run()
        .await?;
    Ok(found.visible())
}
