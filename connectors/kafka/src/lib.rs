//! Kafka for Cofferdam pipelines: an exactly-once source, and a transactional sink whose prepared transactions any process
//! can finish, after whatever crash.
//!
//! * [`KafkaSource`] reads topics from positions that come from checkpoints alone.
//! * [`KafkaSink`] writes one Kafka transaction for each checkpoint and subtask. It is prepared before the checkpoint is
//!   decided and committed afterwards: by this process, or by the one that comes after a `kill -9`.
//! * [`TransactionAdmin`] shows transactions and ends them by hand; the page [`docs::operations`] says when.
//!
//! A pipeline from topic to topic:
//!
//! ```
//! # use cofferdam_services::Kafka;
//! # use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
//! # use rdkafka::client::DefaultClientContext;
//! use cofferdam::{MemoryCheckpointStore, NoEventTime, Pipeline};
//! use cofferdam_kafka::{KafkaConnection, KafkaSink, KafkaSource};
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Order {
//!     item: String,
//!     cents: u64,
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let broker = Kafka::shared()?;
//! # let bootstrap = broker.bootstrap();
//! # let mut config = rdkafka::ClientConfig::new();
//! # config.set("bootstrap.servers", &bootstrap);
//! # let admin: AdminClient<DefaultClientContext> = config.create()?;
//! # let topics = ["orders", "large-orders"].map(|name| NewTopic::new(name, 2, TopicReplication::Fixed(1)));
//! # admin.create_topics(&topics, &AdminOptions::new()).await?;
//! # let producer: rdkafka::producer::FutureProducer = config.create()?;
//! # for (item, cents) in [("tea", 300), ("kettle", 4900)] {
//! #     let order = serde_json::to_string(&Order { item: item.to_owned(), cents })?;
//! #     let record = rdkafka::producer::FutureRecord::to("orders").key(item).payload(&order);
//! #     producer.send(record, std::time::Duration::from_secs(10)).await.map_err(|(error, _)| error)?;
//! # }
//! let kafka = KafkaConnection::new(bootstrap);
//! let orders = KafkaSource::json::<Order>(&kafka, ["orders"]).bounded();
//! let large = KafkaSink::json(&kafka, "large-orders")
//!     .key(|order: &Order, key| key.extend_from_slice(order.item.as_bytes()));
//!
//! let report = Pipeline::new("large-orders")
//!     .source("orders", orders, NoEventTime)
//!     .filter(|order| order.cents >= 1000)
//!     .sink("large", large)
//!     .job(MemoryCheckpointStore::new())
//!     .run()
//!     .await?;
//! assert_eq!(report.progress.count("orders", "records"), 2);
//! assert_eq!(report.progress.count("large", "records"), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # How a transaction is finished after a crash
//! Kafka keeps a transaction that nobody ends until its timeout, and lets anybody end it who knows its transactional id, its
//! producer and the producer's epoch. So *prepared* means: all records are acknowledged, and these three are in the
//! checkpoint, with the time at which it began. The client library can't end another process's transaction (starting a producer
//! under its id aborts it); a small client of our own for the wire protocol can, with the same TLS and SASL settings.
//!
//! It looks before it acts. The answers of `EndTxn` alone don't tell a commit from a loss: after a commit by another process,
//! a time-out or a takeover they can be the same. And each transaction moves a group offset, which becomes visible with
//! the commit and not without: [evidence](cofferdam::Evidence::Ledger) that lasts when the id has long gone on.
//!
//! A producer writes one transaction and is thrown away, since librdkafka has one epoch for all transactions of a
//! producer, and a repeated commit of one could commit the next. The producer of the next transaction is started beside the
//! current one, so a checkpoint holds up the stream for as long as the last records take to be acknowledged.
//!
//! # What the sink can do
//! | capability | |
//! | --- | --- |
//! | who can finish a prepared transaction | any process that has the handle and reaches the cluster |
//! | isolation | hidden from readers with `isolation.level=read_committed` (the default of Kafka Streams and of [`KafkaSource`], **not** of plain consumers) |
//! | atomic unit | a subtask's records in one partition: partitions follow one another within milliseconds |
//! | evidence of a commit | a group offset that is part of the transaction |
//! | fencing | names carry the epoch; a start fences all producers of older epochs that it finds |
//! | lists what is in doubt | yes, from all brokers; which checkpoint, only of its own process |
//! | refuses older state | yes, by the evidence |
//! | expiry | after the [transaction timeout](KafkaSink::transaction_timeout), 15 minutes by default: then a decided transaction is lost, and the job stops |
//! | prepared transactions at once | any number |
//!
//! # Limits
//! * Readers have to use `read_committed`.
//! * Order is kept within a partition, within a transaction and from one to the next of a subtask.
//! * A topic that records are written to has to exist when the job starts, if it is the sink's own; others when the first record
//!   for them comes.
//! * Kafka 3.0 or newer. Kerberos is not supported.

mod connection;
pub mod docs;
mod error;
#[expect(
    unsafe_code,
    reason = "the client library offers no safe way to many records at once"
)]
mod native;
mod records;
mod sink;
mod source;
mod transactions;
mod wire;

pub use connection::{BearerToken, KafkaConnection, Sasl, Tls, TokenSource};
pub use records::{
    Bytes, ConsumedRecord, DecodeError, Decoder, EncodeError, Encoder, Json, KafkaRecord,
    OutgoingRecord, Utf8, WithKey,
};
pub use sink::{KafkaSink, KafkaTransaction};
pub use source::{KafkaPosition, KafkaReader, KafkaSource, Start};
pub use transactions::{
    PreparedTransaction, TransactionAdmin, TransactionDescription, TransactionState,
};
