//! Places: a topic each, on a broker that is nobody else's for as long.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cofferdam::{TransactionId, async_trait};
use cofferdam_conformance::{Breakage, Observer, Row, Trouble};
use cofferdam_kafka::{
    KafkaConnection, TransactionAdmin, TransactionDescription, TransactionState,
};
use cofferdam_services::Kafka;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::relay::Relay;

const PARTITIONS: i32 = 2;

/// What the topics take.
pub(crate) const LARGEST_RECORD: usize = 200_000;

/// Short enough to wait for, long enough for all else.
pub(crate) const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(75);

const READER_PATIENCE: Duration = Duration::from_secs(60);

/// A broker, and the way that sinks take to it.
struct Broker {
    kafka: Kafka,
    relay: Relay,
    /// Where the relay leads when nothing else is wanted.
    door: SocketAddr,
}

/// Brokers that nobody uses now. A broker is started when none is free, so there are as many as tests run at once.
static FREE: Mutex<Vec<Arc<Broker>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Broker {
    /// One listener for our own eyes, and one for sinks, which is told to them under the relay's address.
    fn start() -> Result<Self, Trouble> {
        Self::start_at_free_ports().map_err(|error| Trouble::failed("start a broker", error))
    }

    fn start_at_free_ports() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let port = || TcpListener::bind("127.0.0.1:0");
        // Held together, so that all differ.
        let held = [port()?, port()?, port()?];
        let [own, door, controller] = held.each_ref().map(TcpListener::local_addr);
        let (own, door, controller) = (own?, door?, controller?);
        let relay = Relay::start(door)?;
        drop(held);
        let kafka = Kafka::builder()
            .port(own.port())
            .set("controller.quorum.voters", format!("1@{controller}"))
            .set(
                "listeners",
                format!("PLAINTEXT://{own},RELAYED://{door},CONTROLLER://{controller}"),
            )
            .set(
                "advertised.listeners",
                format!("PLAINTEXT://{own},RELAYED://{}", relay.address()),
            )
            .set(
                "listener.security.protocol.map",
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,RELAYED:PLAINTEXT",
            )
            .set("broker.session.timeout.ms", "1500")
            .set("broker.heartbeat.interval.ms", "300")
            .start()?;
        Ok(Self { kafka, relay, door })
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", self.kafka.bootstrap())
            .set("reconnect.backoff.ms", "20")
            .set("reconnect.backoff.max.ms", "100");
        config
    }
}

/// A topic.
pub(crate) struct Topic {
    name: String,
    broker: Reach,
    committed: Mutex<Option<Reader>>,
}

/// How a process reaches the broker.
enum Reach {
    /// It has it for itself.
    Own(Arc<Broker>),
    /// It was led there.
    Address { bootstrap: String },
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Topic {
    pub(crate) async fn create() -> Result<Self, Trouble> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let free = lock(&FREE).pop();
        let broker = match free {
            Some(broker) => broker,
            None => {
                let started = tokio::task::spawn_blocking(Broker::start).await;
                Arc::new(started.map_err(|error| Trouble::failed("start a broker", error))??)
            }
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("place-{}-{number}", std::process::id());
        let failed = |error: KafkaError| Trouble::failed("create a topic", error);
        let admin: AdminClient<DefaultClientContext> = broker.config().create().map_err(failed)?;
        let largest = LARGEST_RECORD.to_string();
        let topic = NewTopic::new(&name, PARTITIONS, TopicReplication::Fixed(1))
            .set("max.message.bytes", &largest);
        let created = admin
            .create_topics([&topic], &AdminOptions::new())
            .await
            .map_err(failed)?;
        if let Some(Err((_, code))) = created.into_iter().next() {
            return Err(Trouble::failed("create a topic", KafkaError::AdminOp(code)));
        }
        Ok(Self {
            name,
            broker: Reach::Own(broker),
            committed: Mutex::new(None),
        })
    }

    pub(crate) fn attach(address: &str) -> Result<Self, Trouble> {
        let (bootstrap, name) = address
            .split_once('/')
            .ok_or_else(|| Trouble::failed("read the address", address))?;
        Ok(Self {
            name: name.to_owned(),
            broker: Reach::Address {
                bootstrap: bootstrap.to_owned(),
            },
            committed: Mutex::new(None),
        })
    }

    pub(crate) fn topic(&self) -> &str {
        &self.name
    }

    /// Where sinks come in.
    pub(crate) fn bootstrap(&self) -> String {
        match &self.broker {
            Reach::Own(broker) => broker.relay.address().to_string(),
            Reach::Address { bootstrap } => bootstrap.clone(),
        }
    }

    /// Leads sinks through a proxy from now on.
    pub(crate) fn lead_through(&self, proxy: SocketAddr) {
        if let Reach::Own(broker) = &self.broker {
            broker.relay.lead_to(proxy);
        }
    }

    fn own(&self) -> Result<&Arc<Broker>, Trouble> {
        match &self.broker {
            Reach::Own(broker) => Ok(broker),
            Reach::Address { .. } => Err(Trouble::unsupported(
                "the broker belongs to another process",
            )),
        }
    }

    /// Does something with the broker that takes its time.
    async fn with_broker<T: Send + 'static>(
        &self,
        action: &'static str,
        act: impl FnOnce(&Broker) -> Result<T, Box<dyn std::error::Error + Send + Sync>>
        + Send
        + 'static,
    ) -> Result<T, Trouble> {
        let broker = Arc::clone(self.own()?);
        let acted = tokio::task::spawn_blocking(move || act(&broker)).await;
        acted
            .map_err(|error| Trouble::failed(action, error))?
            .map_err(|error| Trouble::failed(action, error))
    }

    fn admin(&self) -> Result<TransactionAdmin, Trouble> {
        Ok(TransactionAdmin::new(&KafkaConnection::new(
            self.own()?.kafka.bootstrap(),
        )))
    }

    async fn ongoing(&self) -> Result<Vec<TransactionDescription>, Trouble> {
        let listed = self.admin()?.list(&format!("{}.", self.name)).await;
        let mut listed = listed.map_err(|error| Trouble::failed("list transactions", error))?;
        listed.retain(|one| one.state == TransactionState::Ongoing);
        Ok(listed)
    }

    async fn read(
        &self,
        reader: Option<Reader>,
        isolation: &'static str,
    ) -> Result<Reader, Trouble> {
        let name = self.name.clone();
        self.with_broker("read the topic", move |broker| {
            let mut reader = match reader {
                Some(reader) => reader,
                None => Reader::new(broker.config(), &name, isolation)?,
            };
            reader.read_to_the_end(&name)?;
            Ok(reader)
        })
        .await
    }
}

impl Drop for Topic {
    /// Gives the broker back, whole.
    fn drop(&mut self) {
        if let Reach::Own(broker) = &self.broker {
            broker.relay.lead_to(broker.door);
            lock(&self.committed).take();
            let whole = broker
                .kafka
                .resume(1)
                .and_then(|()| broker.kafka.start_node(1));
            if whole.is_ok() {
                lock(&FREE).push(Arc::clone(broker));
            }
        }
    }
}

/// A consumer, with all that it has read so far: what is committed stays.
struct Reader {
    consumer: BaseConsumer,
    partitions: Vec<Partition>,
}

#[derive(Default)]
struct Partition {
    /// By offset.
    rows: Vec<(i64, Row)>,
    position: i64,
    /// Where the last read ended. The client has handed out part of what was committed since, piece by piece.
    end: i64,
}

impl Reader {
    fn new(mut config: ClientConfig, topic: &str, isolation: &str) -> Result<Self, KafkaError> {
        let consumer: BaseConsumer = config
            .set("group.id", "reader")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("isolation.level", isolation)
            .set("auto.offset.reset", "earliest")
            .set("fetch.wait.max.ms", "20")
            .set("fetch.error.backoff.ms", "20")
            .create()?;
        let mut all = TopicPartitionList::new();
        for number in 0..PARTITIONS {
            all.add_partition_offset(topic, number, Offset::Beginning)?;
        }
        consumer.assign(&all)?;
        let partitions = (0..PARTITIONS).map(|_| Partition::default()).collect();
        Ok(Self {
            consumer,
            partitions,
        })
    }

    /// What the last read saw.
    fn rows(&self) -> Vec<Row> {
        let seen = self.partitions.iter().flat_map(|partition| {
            let seen = partition
                .rows
                .iter()
                .filter(|(offset, _)| *offset < partition.end);
            seen.map(|(_, row)| row.clone())
        });
        seen.collect()
    }

    /// Reads all up to the offset at which a reader of this isolation stops now.
    fn read_to_the_end(
        &mut self,
        topic: &str,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let until = Instant::now() + READER_PATIENCE;
        for number in 0..PARTITIONS {
            let end = loop {
                let ends = self
                    .consumer
                    .fetch_watermarks(topic, number, Duration::from_secs(2));
                match ends {
                    Ok((_, end)) => break end,
                    Err(error) if Instant::now() >= until => return Err(error.into()),
                    // The broker has just been started again.
                    Err(_) => {}
                }
            };
            self.partitions[number as usize].end = end;
            while self.partitions[number as usize].position < end {
                if Instant::now() >= until {
                    return Err(format!("the reader does not come to {end} in {number}").into());
                }
                self.poll(topic)?;
            }
        }
        Ok(())
    }

    fn poll(&mut self, topic: &str) -> Result<(), KafkaError> {
        match self.consumer.poll(Duration::from_millis(20)) {
            Some(Ok(message)) => {
                let text = String::from_utf8_lossy(message.payload().unwrap_or_default());
                let number = message.partition();
                let row = Row {
                    text: text.into_owned(),
                    lane: Some(number.to_string()),
                };
                let partition = &mut self.partitions[number as usize];
                partition.rows.push((message.offset(), row));
                partition.position = message.offset() + 1;
            }
            // Behind the last record come markers, which take offsets too.
            Some(Err(KafkaError::PartitionEOF(number))) => {
                let position = self.consumer.position()?;
                let found = position.find_partition(topic, number);
                if let Some(Offset::Offset(offset)) = found.map(|found| found.offset()) {
                    self.partitions[number as usize].position = offset;
                }
            }
            // The connection is made again by itself.
            Some(Err(_)) | None => {}
        }
        Ok(())
    }
}

#[async_trait]
impl Observer for Topic {
    async fn visible(&self) -> Result<Vec<Row>, Trouble> {
        let reader = lock(&self.committed).take();
        let reader = self.read(reader, "read_committed").await?;
        let rows = reader.rows();
        *lock(&self.committed) = Some(reader);
        Ok(rows)
    }

    async fn visible_without_isolation(&self) -> Result<Vec<Row>, Trouble> {
        Ok(self.read(None, "read_uncommitted").await?.rows())
    }

    async fn leftovers(&self) -> Result<Vec<String>, Trouble> {
        Ok(self
            .ongoing()
            .await?
            .into_iter()
            .map(|one| one.transactional_id)
            .collect())
    }

    async fn connections(&self) -> Result<usize, Trouble> {
        Ok(self.own()?.relay.connections())
    }

    async fn kill_connections(&self) -> Result<(), Trouble> {
        self.own()?.relay.cut();
        Ok(())
    }

    async fn restart(&self) -> Result<(), Trouble> {
        self.with_broker("restart the broker", |broker| {
            broker.kafka.kill(1)?;
            Ok(broker.kafka.start_node(1)?)
        })
        .await
    }

    async fn expire_in_doubt(&self) -> Result<(), Trouble> {
        let until = Instant::now() + TRANSACTION_TIMEOUT + Duration::from_secs(30);
        while !self.ongoing().await?.is_empty() {
            if Instant::now() >= until {
                return Err(Trouble::failed(
                    "let transactions expire",
                    "the broker keeps them",
                ));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn lose(&self, id: &TransactionId) -> Result<(), Trouble> {
        // The name tells the lane, not the checkpoint: in the tests that lose one, it is the only one there.
        let lane = format!(
            "{}.{}.{}.{}.{}.",
            self.name, id.job, id.sink, id.epoch, id.subtask
        );
        let admin = self.admin()?;
        for one in self.ongoing().await? {
            if one.transactional_id.starts_with(&lane) {
                let aborted = admin.abort(&one.transactional_id).await;
                aborted.map_err(|error| Trouble::failed("abort a transaction", error))?;
            }
        }
        Ok(())
    }

    async fn break_down(&self, breakage: Breakage) -> Result<(), Trouble> {
        match breakage {
            Breakage::Unreachable => {
                self.with_broker("kill the broker", |broker| Ok(broker.kafka.kill(1)?))
                    .await
            }
            Breakage::Silent => {
                self.with_broker("pause the broker", |broker| Ok(broker.kafka.pause(1)?))
                    .await
            }
            Breakage::NoRights => Err(Trouble::unsupported("the broker has no rules of access")),
            Breakage::Full => Err(Trouble::unsupported("the broker's disk can't be filled")),
        }
    }

    async fn mend(&self) -> Result<(), Trouble> {
        self.with_broker("mend the broker", |broker| {
            broker.kafka.resume(1)?;
            Ok(broker.kafka.start_node(1)?)
        })
        .await
    }

    fn endpoint(&self) -> Option<SocketAddr> {
        match &self.broker {
            Reach::Own(broker) => Some(broker.door),
            Reach::Address { .. } => None,
        }
    }

    fn address(&self) -> Option<String> {
        Some(format!("{}/{}", self.bootstrap(), self.name))
    }
}
