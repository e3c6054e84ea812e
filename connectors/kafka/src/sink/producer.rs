//! The librdkafka producer of one transaction.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cofferdam::{ErrorKind, SinkError};
use rdkafka::ClientConfig;
use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::util::Timeout;

use super::site::PARTITIONER;
use crate::connection::ClientEvents;
use crate::native::{Batch, BatchProducer};

/// How long one step of an initialisation may take.
const STEP: Duration = Duration::from_millis(40);

/// A producer that writes one transaction, and is thrown away.
///
/// librdkafka keeps one epoch for all transactions of a producer, so that a commit that is repeated could commit the next
/// one. With a producer for each it can't.
pub(super) struct TransactionProducer {
    /// `None` only while it is dropped.
    client: Option<BatchProducer<Events>>,
    reports: Arc<Reports>,
}

/// What librdkafka tells of a producer.
struct Events {
    client: ClientEvents,
    reports: Arc<Reports>,
}

/// What went wrong so far.
#[derive(Default)]
struct Reports {
    undelivered: Mutex<Option<Undelivered>>,
    /// What the client said last of its connections.
    connections: Mutex<Option<String>>,
}

/// Records that were not delivered.
struct Undelivered {
    /// Why the first was not.
    code: RDKafkaErrorCode,
    /// Where it was to go.
    place: String,
    count: u64,
}

impl ClientContext for Events {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        self.client.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        *lock(&self.reports.connections) = Some(reason.to_owned());
        self.client.error(error, reason);
    }

    fn generate_oauth_token(
        &self,
        config: Option<&str>,
    ) -> Result<rdkafka::client::OAuthToken, Box<dyn std::error::Error>> {
        self.client.generate_oauth_token(config)
    }
}

impl ProducerContext for Events {
    type DeliveryOpaque = ();

    /// Called for records that failed, and for no others (`delivery.report.only.error`).
    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, message)) = result {
            use rdkafka::Message;
            let code = error
                .rdkafka_error_code()
                .unwrap_or(RDKafkaErrorCode::Unknown);
            let place = format!("{}[{}]", message.topic(), message.partition());
            let mut undelivered = lock(&self.reports.undelivered);
            match &mut *undelivered {
                Some(undelivered) => undelivered.count += 1,
                None => {
                    *undelivered = Some(Undelivered {
                        code,
                        place,
                        count: 1,
                    });
                }
            }
        }
    }
}

impl TransactionProducer {
    /// Creates a producer, takes its transactional id over, and begins. Blocks until that is done or `patience` is over.
    pub(super) fn start(
        config: &ClientConfig,
        client: ClientEvents,
        topic: &str,
        patience: Duration,
    ) -> Result<Self, SinkError> {
        let reports = Arc::new(Reports::default());
        let events = Events {
            client,
            reports: Arc::clone(&reports),
        };
        let producer = config.create_with_context::<_, BaseProducer<Events>>(events);
        let producer = producer.map_err(|error| {
            SinkError::configuration("librdkafka refuses the settings of the producer")
                .caused_by(error)
        })?;
        let client = BatchProducer::new(producer, topic)?;
        let mut producer = Self {
            client: Some(client),
            reports,
        };
        let begun = producer.initialise(topic, patience);
        if let (Some(client), Ok(partitions)) = (&mut producer.client, &begun)
            && config.get("partitioner") == Some(PARTITIONER)
        {
            client.choose_partitions(*partitions);
        }
        let begun = begun.and_then(|_| producer.client().begin_transaction());
        match begun {
            Ok(()) => Ok(producer),
            Err(error) => {
                producer.client().poll(Timeout::After(Duration::ZERO));
                let said = lock(&producer.reports.connections).take();
                let said = said.map(|said| format!("; the last word of its connections: {said}"));
                let what = format!("can't begin a transaction{}", said.unwrap_or_default());
                Err(refused(&what, &error).caused_by(error))
            }
        }
    }

    /// Takes the transactional id over. Returns how many partitions the topic has: when it grows, the next producer
    /// finds out.
    ///
    /// librdkafka looks for the coordinator and waits for it by a clock of half a second, which a new call starts anew: so
    /// it is asked again and again, once there is a connection.
    fn initialise(&self, topic: &str, patience: Duration) -> Result<usize, KafkaError> {
        let until = Instant::now() + patience;
        // It wants a token before anything else, and asks for one while it is polled.
        self.client().poll(Timeout::After(Duration::ZERO));
        let metadata = self
            .client()
            .client()
            .fetch_metadata(Some(topic), patience)?;
        let partitions = metadata.topics().first();
        let partitions = partitions.map_or(0, |topic| topic.partitions().len());
        loop {
            match self.client().init_transactions(STEP) {
                Err(KafkaError::Transaction(error))
                    if error.is_retriable() && Instant::now() < until => {}
                initialised => return initialised.map(|()| partitions),
            }
        }
    }

    fn parts(&self) -> &BatchProducer<Events> {
        // It is taken out by drop alone.
        self.client
            .as_ref()
            .expect("a producer that is not dropped has its client")
    }

    fn client(&self) -> &BaseProducer<Events> {
        self.parts().producer()
    }

    /// Brings a batch into the order that costs the least.
    pub(super) fn arrange(&self, batch: &mut Batch) {
        self.parts().arrange(batch);
    }

    /// Takes records of a batch into the buffer, from `first` on; returns how many. Fewer than all: it is full.
    pub(super) fn send_batch(&self, batch: &Batch, first: usize) -> Result<usize, SinkError> {
        self.parts().send_batch(batch, first).map_err(|code| {
            let what = format!("can't write to topic {}: {code}", self.parts().topic());
            of_code(code, what)
        })
    }

    /// Takes a record into the buffer. `false`: it is full.
    pub(super) fn send(&self, record: BaseRecord<'_, [u8], [u8]>) -> Result<bool, SinkError> {
        match self.client().send(record) {
            Ok(()) => Ok(true),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => Ok(false),
            Err((error, record)) => {
                let place = match record.partition {
                    Some(partition) => format!("{}[{partition}]", record.topic),
                    None => record.topic.to_owned(),
                };
                Err(refused(&format!("can't write to topic {place}"), &error).caused_by(error))
            }
        }
    }

    /// Lets librdkafka tell what became of records.
    ///
    /// # Errors
    /// A record was not delivered: the transaction can't be committed any more.
    pub(super) fn check(&self) -> Result<(), SinkError> {
        self.client().poll(Timeout::After(Duration::ZERO));
        // A producer that is fenced reports its records as purged, which alone would look like a failure that may pass.
        if let Some((code, reason)) = self.client().client().fatal_error() {
            return Err(of_code(code, format!("the producer can't go on: {reason}")));
        }
        match &*lock(&self.reports.undelivered) {
            None => Ok(()),
            Some(Undelivered { code, place, count }) => {
                let what =
                    format!("{count} records were not delivered, the first of them to {place}");
                Err(match self.failure() {
                    Some(error) => refused(&what, &error).caused_by(error),
                    None => of_code(*code, format!("{what}: {code}")),
                })
            }
        }
    }

    /// Why librdkafka gave the transaction up, if it did: the records then tell no more than that they were thrown away.
    ///
    /// It refuses to begin another one before this one is over, and gives that as the reason.
    fn failure(&self) -> Option<KafkaError> {
        let refusal = self.client().begin_transaction().err()?;
        (refusal.rdkafka_error_code() != Some(RDKafkaErrorCode::State)).then_some(refusal)
    }

    /// How many records are on their way.
    pub(super) fn in_flight(&self) -> i32 {
        self.client().in_flight_count()
    }
}

impl Drop for TransactionProducer {
    /// Leaves the transaction as it is: librdkafka aborts nothing when a producer goes. Its threads are waited for
    /// elsewhere.
    fn drop(&mut self) {
        let client = self.client.take();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(client))),
            Err(_) => drop(client),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error of librdkafka, without its cause.
fn refused(what: &str, error: &KafkaError) -> SinkError {
    match error.rdkafka_error_code() {
        Some(code) => of_code(code, what.to_owned()),
        None => SinkError::transient(what.to_owned()),
    }
}

/// What is to be done about a code of librdkafka.
fn of_code(code: RDKafkaErrorCode, what: String) -> SinkError {
    use RDKafkaErrorCode as Code;
    match code {
        Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch | Code::InvalidProducerIdMapping => {
            SinkError::fenced(what).hint("a newer run of the job, or an operator, took the transactional id over")
        }
        Code::MessageSizeTooLarge | Code::InvalidMessageSize => SinkError::rejected(what).hint(
            "the record is larger than the cluster takes: raise max.message.bytes of the topic and message.max.bytes of \
             the sink, or make it smaller",
        ),
        Code::InvalidMessage | Code::InvalidRecord | Code::InvalidTimestamp => SinkError::rejected(what),
        Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition => {
            SinkError::configuration(what).hint("create the topic first, or check its name and number of partitions")
        }
        Code::TopicAuthorizationFailed => {
            SinkError::configuration(what).hint("give this user READ and WRITE on the topic")
        }
        Code::TransactionalIdAuthorizationFailed => SinkError::configuration(what)
            .hint("give this user WRITE on the transactional ids of the job, by their prefix"),
        Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL => {
            SinkError::configuration(what).hint("check mechanism, name, password and certificates")
        }
        Code::InvalidTransactionTimeout => SinkError::configuration(what)
            .hint("lower the sink's transaction timeout, or raise transaction.max.timeout.ms of the brokers"),
        Code::InvalidArgument | Code::InvalidConfig => SinkError::configuration(what),
        _ => SinkError::new(ErrorKind::Transient, what),
    }
}
