//! The brokers, what is in them, and a reader that owes nothing to what is tested.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cofferdam_kafka::{KafkaConnection, Tls};
use cofferdam_services::Kafka;
use cofferdam_services::security::Security;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

pub const PARTITIONS: i32 = 2;

/// The largest record that topics take.
pub const LARGEST_RECORD: usize = 100_000;

/// For what is expected, on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The guarded broker of all tests.
pub fn secure() -> &'static Kafka {
    static SECURE: OnceLock<Kafka> = OnceLock::new();
    SECURE.get_or_init(|| {
        // It creates topics for whoever asks, as brokers do by default: nothing here may ask.
        let started = Kafka::builder().secure().start();
        started.expect("a guarded broker starts")
    })
}

pub fn security() -> &'static Security {
    secure().security().expect("it was built with listeners")
}

/// The way to a guarded broker, before anybody signs in.
pub fn sasl_ssl() -> KafkaConnection {
    KafkaConnection::new(&security().sasl_ssl).tls(Tls::new().ca_file(&security().authority))
}

/// A name that nothing else has.
pub fn unique(what: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("{what}-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn config(kafka: &Kafka) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.bootstrap());
    config
}

/// Makes a topic of this name, without anything in it.
pub async fn make_topic(kafka: &Kafka, name: &str) {
    let admin: AdminClient<DefaultClientContext> = config(kafka).create().expect("an admin");
    let largest = LARGEST_RECORD.to_string();
    let topic = NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(1))
        .set("max.message.bytes", &largest);
    let made = admin.create_topics([&topic], &AdminOptions::new()).await;
    let made = made.expect("an answer").pop().expect("one answer");
    made.expect("the topic is made");
}

/// A new topic.
pub async fn topic(kafka: &Kafka, what: &str) -> String {
    let name = unique(what);
    make_topic(kafka, &name).await;
    name
}

/// Texts that all differ.
pub fn texts(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| format!("record-{number:05}")).collect()
}

/// Writes texts into a topic, one partition after the other.
pub fn fill(kafka: &Kafka, topic: &str, texts: &[String]) {
    let producer: BaseProducer = config(kafka).create().expect("a producer");
    for (text, partition) in texts.iter().zip((0..PARTITIONS).cycle()) {
        let record = BaseRecord::<(), _>::to(topic)
            .partition(partition)
            .payload(text);
        producer
            .send(record)
            .map_err(|(error, _)| error)
            .expect("room for it");
    }
    producer.flush(PATIENCE).expect("all is written");
}

/// A new topic with these texts.
pub async fn topic_with(kafka: &Kafka, what: &str, texts: &[String]) -> String {
    let name = topic(kafka, what).await;
    fill(kafka, &name, texts);
    name
}

/// What a `read_committed` consumer sees of a topic now, in order of the texts.
pub fn committed(kafka: &Kafka, topic: &str) -> Vec<String> {
    let mut config = config(kafka);
    config
        .set("group.id", "nobody")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut partitions = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        let added = partitions.add_partition_offset(topic, partition, Offset::Beginning);
        added.expect("an offset");
    }
    consumer.assign(&partitions).expect("partitions");
    let (mut texts, mut ended, until) = (Vec::new(), 0, Instant::now() + PATIENCE);
    while ended < PARTITIONS {
        assert!(Instant::now() < until, "{topic} has no end: {texts:?}");
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Ok(message)) => {
                let value = message.payload().unwrap_or_default();
                texts.push(String::from_utf8_lossy(value).into_owned());
            }
            Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
            Some(Err(error)) => assert_eq!(
                error.rdkafka_error_code(),
                Some(RDKafkaErrorCode::BrokerTransportFailure),
                "{error}"
            ),
        }
    }
    texts.sort();
    texts
}
