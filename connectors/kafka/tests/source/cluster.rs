//! A broker, and what tests put into it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use cofferdam_kafka::KafkaConnection;
use cofferdam_services::Kafka;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

/// Long enough for a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A topic of a test's own.
pub struct Topic {
    pub bootstrap: String,
    pub name: String,
}

/// A topic on the broker that the tests share.
pub async fn topic(partitions: i32) -> Topic {
    let kafka = tokio::task::spawn_blocking(Kafka::shared);
    let bootstrap = kafka.await.unwrap().unwrap().bootstrap();
    Topic::create(bootstrap, partitions).await
}

impl Topic {
    pub async fn create(bootstrap: String, partitions: i32) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let topic = Self {
            bootstrap,
            name: format!("records-{}-{number}", std::process::id()),
        };
        topic.make(partitions).await;
        topic
    }

    /// Makes the topic, also anew after it was deleted.
    pub async fn make(&self, partitions: i32) {
        let new = NewTopic::new(&self.name, partitions, TopicReplication::Fixed(1));
        loop {
            let made = self
                .admin()
                .create_topics([&new], &AdminOptions::new())
                .await;
            match &made.unwrap()[0] {
                Ok(_) => return,
                // Deleting is done a moment after it is answered.
                Err((_, rdkafka::types::RDKafkaErrorCode::TopicAlreadyExists)) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    pub async fn delete(&self) {
        let deleted = self
            .admin()
            .delete_topics(&[&self.name], &AdminOptions::new())
            .await;
        deleted.unwrap()[0].as_ref().unwrap();
    }

    pub async fn grow_to(&self, partitions: usize) {
        let new = NewPartitions::new(&self.name, partitions);
        let grown = self
            .admin()
            .create_partitions([&new], &AdminOptions::new())
            .await;
        grown.unwrap()[0].as_ref().unwrap();
    }

    /// Deletes what is before an offset, as retention does.
    pub async fn delete_before(&self, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        let offset = Offset::Offset(offset);
        list.add_partition_offset(&self.name, partition, offset)
            .unwrap();
        let deleted = self
            .admin()
            .delete_records(&list, &AdminOptions::new())
            .await;
        deleted.unwrap();
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.client().create().unwrap()
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        config
    }

    pub fn connection(&self) -> KafkaConnection {
        KafkaConnection::new(&self.bootstrap)
    }

    /// The split of a partition.
    pub fn split(&self, partition: i32) -> String {
        format!("{}/{partition}", self.name)
    }

    /// Sends values to a partition.
    pub fn send(&self, partition: i32, values: impl IntoIterator<Item = impl ToString>) {
        let producer: BaseProducer = self.client().set("linger.ms", "0").create().unwrap();
        self.send_with(&producer, partition, values);
        producer.flush(PATIENCE).unwrap();
    }

    fn send_with(
        &self,
        producer: &BaseProducer,
        partition: i32,
        values: impl IntoIterator<Item = impl ToString>,
    ) {
        for value in values {
            let value = value.to_string();
            let record = BaseRecord::<(), str>::to(&self.name).partition(partition);
            producer
                .send(record.payload(&value))
                .map_err(|(error, _)| error)
                .unwrap();
        }
    }

    /// Sends a value every other millisecond.
    pub fn send_until(&self, partition: i32, stop: &AtomicBool) {
        let mut config = self.client();
        let producer: BaseProducer = config.set("linger.ms", "0").create().unwrap();
        while !stop.load(Ordering::Relaxed) {
            self.send_with(&producer, partition, ["again"]);
            producer.poll(Duration::from_millis(2));
        }
    }

    /// Sends a tombstone.
    pub fn send_tombstone(&self, partition: i32) {
        let producer: BaseProducer = self.client().create().unwrap();
        let record = BaseRecord::<str, str>::to(&self.name)
            .partition(partition)
            .key("key");
        producer.send(record).map_err(|(error, _)| error).unwrap();
        producer.flush(PATIENCE).unwrap();
    }

    /// Sends records and leaves it to the test to go on.
    pub fn send_record(&self, record: BaseRecord<'_, [u8], [u8]>) {
        let producer: BaseProducer = self.client().create().unwrap();
        producer.send(record).map_err(|(error, _)| error).unwrap();
        producer.flush(PATIENCE).unwrap();
    }

    /// Sends values in a transaction, which stays open.
    pub fn open_transaction(
        &self,
        partition: i32,
        values: impl IntoIterator<Item = impl ToString>,
    ) -> Transaction {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number}", self.name);
        let producer: BaseProducer = self.client().set("transactional.id", id).create().unwrap();
        producer.init_transactions(PATIENCE).unwrap();
        producer.begin_transaction().unwrap();
        self.send_with(&producer, partition, values);
        producer.flush(PATIENCE).unwrap();
        Transaction(producer)
    }

    pub fn commit(&self, partition: i32, values: impl IntoIterator<Item = impl ToString>) {
        self.open_transaction(partition, values).commit();
    }

    pub fn abort(&self, partition: i32, values: impl IntoIterator<Item = impl ToString>) {
        self.open_transaction(partition, values).abort();
    }
}

/// An open transaction.
pub struct Transaction(BaseProducer);

impl Transaction {
    pub fn commit(self) {
        self.0.commit_transaction(PATIENCE).unwrap();
    }

    pub fn abort(self) {
        self.0.abort_transaction(PATIENCE).unwrap();
    }
}
