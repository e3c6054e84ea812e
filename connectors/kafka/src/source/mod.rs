//! The Kafka source.

#[expect(
    unsafe_code,
    reason = "records by the batch are to be had from the C library only; see the module"
)]
mod batch_queue;
mod discovery;
mod error;
mod group;
mod offsets;
mod options;
mod position;
mod reader;
mod run;
mod split;
mod start;
mod topics;
mod worker;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam::{CheckpointId, OnMalformed, Source, SourceError, SplitId, async_trait};
use rdkafka::ClientConfig;
use rdkafka::config::FromClientConfigAndContext as _;
use rdkafka::consumer::BaseConsumer;
use serde::de::DeserializeOwned;
use tracing::{debug, warn};

use self::batch_queue::BatchQueue;
pub(crate) use self::batch_queue::Headers;
use self::discovery::Discovery;
use self::offsets::Isolation;
use self::options::Options;
pub use self::position::KafkaPosition;
use self::position::Partition;
pub use self::reader::KafkaReader;
use self::reader::{State, Watch};
use self::run::Run;
use self::split::Split;
use self::start::Beginning;
pub use self::start::Start;
use self::worker::{Batch, Told, Worker};
use crate::connection::{ClientEvents, KafkaConnection};
use crate::records::{Bytes, Decoder, Json, Utf8};
use crate::wire::{Cluster, Deadline};

/// Batches that wait for the pipeline.
const BATCHES: usize = 4;

/// How often new partitions are looked for, if nothing else is set.
const DISCOVER_EVERY: Duration = Duration::from_secs(10);

/// The longest time that showing offsets to a group may take.
const PATIENCE_FOR_GROUPS: Duration = Duration::from_secs(5);

/// Between two warnings that a group's offsets can't be committed.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// Reads topics of Kafka, each record of a decided checkpoint once.
///
/// ```
/// use std::time::Duration;
///
/// use cofferdam_kafka::{KafkaConnection, KafkaSource, Start};
///
/// #[derive(serde::Deserialize)]
/// struct Order {
///     id: u32,
///     item: String,
/// }
///
/// let connection = KafkaConnection::new("localhost:9092");
/// let orders = KafkaSource::json::<Order>(&connection, ["orders"])
///     .start(Start::Latest)
///     .group("orders-report")
///     .idle_after(Duration::from_secs(5));
/// ```
///
/// # Splits and positions
/// A split is a partition. Its position is the offset to read next, and comes from checkpoints only; the source is not a
/// member of any group, and no broker decides who reads what. The position passes over everything that takes an offset:
/// markers of transactions, aborted records, tombstones, what compaction took away. Each partition of a reader is in each
/// checkpoint, from where it begins on, whether records come or not.
///
/// * Only committed records are read, up to the oldest open transaction, unless
///   [`read_uncommitted`](Self::read_uncommitted) is set.
/// * If the offset to read next is gone (retention deleted it), the job stops and says so; it does not pass over a gap.
/// * If the topic was deleted and made anew, the job stops too: positions in the old one mean nothing in the new one. That
///   is seen at a start, and within [`discover_every`](Self::discover_every) while running; what was read of the
///   new topic until then, at offsets of the old one, is not undone.
/// * A tombstone (a record without a value) is left out by [`json`](Self::json) and [`utf8`](Self::utf8).
///
/// # New partitions
/// They are found by a look at the topics every now and then, and read from their start, also if [`start`](Self::start) says
/// otherwise: that choice is for the partitions there are at the very first start.
///
/// # Watermarks
/// Each partition has its own, and the slowest holds back the windows. A partition without records holds them back too,
/// until [`idle_after`](Self::idle_after) tells it apart.
pub struct KafkaSource<D> {
    connection: KafkaConnection,
    cluster: Arc<Cluster>,
    topics: Vec<Arc<str>>,
    decoder: Arc<D>,
    beginning: Beginning,
    on_malformed: OnMalformed,
    idle_after: Option<Duration>,
    discover_every: Duration,
    options: Options,
    /// The run that began last.
    run: Mutex<Arc<Run>>,
    warned: Mutex<Option<Instant>>,
}

impl KafkaSource<()> {
    /// Reads values that are JSON. Tombstones are left out.
    pub fn json<T: DeserializeOwned + Send + 'static>(
        connection: &KafkaConnection,
        topics: impl IntoIterator<Item = impl Into<Arc<str>>>,
    ) -> KafkaSource<Json<T>> {
        KafkaSource::with(connection, topics, Json::default())
    }

    /// Reads values that are text. Tombstones are left out.
    pub fn utf8(
        connection: &KafkaConnection,
        topics: impl IntoIterator<Item = impl Into<Arc<str>>>,
    ) -> KafkaSource<Utf8> {
        KafkaSource::with(connection, topics, Utf8)
    }

    /// Reads records as they are: [`ConsumedRecord`](crate::ConsumedRecord)s.
    pub fn bytes(
        connection: &KafkaConnection,
        topics: impl IntoIterator<Item = impl Into<Arc<str>>>,
    ) -> KafkaSource<Bytes> {
        KafkaSource::with(connection, topics, Bytes)
    }

    /// Reads what a decoder, a closure for instance, makes of records.
    pub fn with<D: Decoder>(
        connection: &KafkaConnection,
        topics: impl IntoIterator<Item = impl Into<Arc<str>>>,
        decoder: D,
    ) -> KafkaSource<D> {
        KafkaSource {
            connection: connection.clone(),
            cluster: Arc::new(Cluster::new(connection.clone())),
            topics: topics.into_iter().map(Into::into).collect(),
            decoder: Arc::new(decoder),
            beginning: Beginning {
                start: Start::default(),
                group: None,
                isolation: Isolation::Committed,
                bounded: false,
            },
            on_malformed: OnMalformed::default(),
            idle_after: None,
            discover_every: DISCOVER_EVERY,
            options: Options::default(),
            run: Mutex::default(),
            warned: Mutex::default(),
        }
    }
}

impl<D> KafkaSource<D> {
    /// Where to begin at the very first start; [`Start::Earliest`] if it is not set.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.beginning.start = start;
        self
    }

    /// Commits positions to this group after each decided checkpoint, so that the usual tools show how far the job is.
    ///
    /// That is all that the group is for: the job does not go on from there, needs no rights to it, and only warns when
    /// the commit fails. [`Start::Group`] reads it once, at the very first start.
    #[must_use]
    pub fn group(mut self, group: impl Into<Arc<str>>) -> Self {
        self.beginning.group = Some(group.into());
        self
    }

    /// Reads what can be read at the very first start, and ends: each partition up to its last stable offset at that time,
    /// which is kept in the position, so that a restart ends at the same place.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.beginning.bounded = true;
        self
    }

    /// Reads records of transactions that are open or aborted too.
    #[must_use]
    pub fn read_uncommitted(mut self) -> Self {
        self.beginning.isolation = Isolation::Uncommitted;
        self
    }

    /// What to do about a record that can't be decoded. By default the job stops and names the place.
    #[must_use]
    pub fn on_malformed(mut self, on_malformed: OnMalformed) -> Self {
        self.on_malformed = on_malformed;
        self
    }

    /// Lets a partition not hold back the watermark once it has had nothing to read for so long. By default it always does.
    #[must_use]
    pub fn idle_after(mut self, idle_after: Duration) -> Self {
        self.idle_after = Some(idle_after);
        self
    }

    /// How often to look for new partitions, and whether topics are still the same; 10 seconds if it is not set.
    #[must_use]
    pub fn discover_every(mut self, every: Duration) -> Self {
        self.discover_every = every;
        self
    }

    /// Sets a [consumer setting of librdkafka](https://github.com/confluentinc/librdkafka/blob/v2.12.1/CONFIGURATION.md).
    /// Those that positions, rights or identity depend on are refused when the job starts.
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.set(name, value);
        self
    }

    fn config(&self) -> Result<ClientConfig, SourceError> {
        let Beginning {
            group,
            isolation,
            bounded,
            ..
        } = &self.beginning;
        self.options
            .config(&self.connection, group.as_deref(), *isolation, *bounded)
    }
}

impl<D> fmt::Debug for KafkaSource<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSource")
            .field("connection", &self.connection)
            .field("topics", &self.topics)
            .field("beginning", &self.beginning)
            .field("on_malformed", &self.on_malformed)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<D: Decoder> Source for KafkaSource<D> {
    type Record = D::Output;
    type Position = KafkaPosition;
    type Reader = KafkaReader<D::Output>;

    /// At the very first start all partitions of the topics. Later those in the checkpoint: what has come since is adopted by
    /// a reader, with a position; so a split that a checkpoint has without one is always from the very first start.
    async fn splits(&self, known: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        self.config()?;
        if self.topics.is_empty() {
            return Err(SourceError::configuration("the Kafka source has no topics")
                .hint("name at least one"));
        }
        if self.beginning.start == Start::Group && self.beginning.group.is_none() {
            return Err(SourceError::configuration(
                "the Kafka source is to start where its group stands, and has no group",
            )
            .hint("name it with `group`"));
        }
        let mut names = self.topics.clone();
        names.sort();
        names.dedup();
        let topics = topics::all_of(&self.cluster, &names, self.cluster.deadline()).await?;
        let splits = match known.is_empty() {
            false => known.to_vec(),
            true => (names.iter())
                .flat_map(|name| {
                    let partitions = topics[name].leaders.keys();
                    partitions.map(|index| Partition::new(name, *index).split())
                })
                .collect(),
        };
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(Run::new(&splits)?);
        Ok(splits)
    }

    async fn open(
        &self,
        splits: Vec<(SplitId, Option<KafkaPosition>)>,
    ) -> Result<KafkaReader<D::Output>, SourceError> {
        let run = Arc::clone(&self.run.lock().unwrap_or_else(PoisonError::into_inner));
        let splits = splits
            .into_iter()
            .map(|(split, position)| Ok((Partition::of(&split)?, position)))
            .collect::<Result<Vec<_>, SourceError>>()?;
        let fresh: Vec<bool> = splits
            .iter()
            .map(|(_, position)| position.is_none())
            .collect();
        let positions = self
            .beginning
            .positions(&self.cluster, splits, self.cluster.deadline())
            .await?;
        let mut first = VecDeque::new();
        let mut reading = Vec::new();
        for ((partition, position), fresh) in positions.iter().zip(fresh) {
            let split = Split::new(partition.clone(), position.clone());
            if fresh {
                first.push_back(split.start());
            }
            match position.is_at_stop() {
                true => first.push_back(cofferdam::SourceEvent::Finished(split.id)),
                false => reading.push(split),
            }
        }
        // From here on nothing waits: whatever was begun has an owner.
        let (tell, told) = tokio::sync::mpsc::channel(BATCHES);
        let (give, orders) = mpsc::channel();
        let watch = Watch {
            connection: self.connection.clone(),
            splits: positions
                .iter()
                .cloned()
                .map(|(partition, position)| (partition, Some(position)))
                .collect(),
            stop: Arc::new(AtomicBool::new(false)),
            suspected: Arc::new(AtomicBool::new(false)),
        };
        let worker = Worker {
            decoder: Arc::clone(&self.decoder),
            on_malformed: self.on_malformed,
            idle_after: self.idle_after,
            splits: reading,
            told: tell,
            orders,
            stop: Arc::clone(&watch.stop),
            suspected: Arc::clone(&watch.suspected),
            batch: Batch::default(),
            is_cut_off: false,
        };
        self.start_thread(worker)?;
        let discovery = Discovery {
            cluster: Arc::clone(&self.cluster),
            topics: self.topics.clone(),
            every: self.discover_every,
            adopts: !self.beginning.bounded,
        };
        Ok(KafkaReader {
            first,
            told,
            watch,
            inquiry: None,
            state: State::Reading,
            membership: run.join(&positions, give, |run| discovery.start(run)),
        })
    }

    async fn notify(
        &self,
        checkpoint: CheckpointId,
        positions: &[(SplitId, KafkaPosition)],
    ) -> Result<(), SourceError> {
        let Some(group) = &self.beginning.group else {
            return Ok(());
        };
        let offsets = positions
            .iter()
            .map(|(split, position)| Ok((Partition::of(split)?, position.offset)))
            .collect::<Result<Vec<_>, SourceError>>()?;
        let note = format!("checkpoint {checkpoint}");
        let deadline = Deadline::after(PATIENCE_FOR_GROUPS);
        if let Err(error) = group::commit(&self.cluster, group, &offsets, &note, deadline).await {
            self.warn_of_group(&error::source_error("commit offsets to the group", error));
        }
        Ok(())
    }
}

impl<D: Decoder> KafkaSource<D> {
    fn start_thread(&self, worker: Worker<D>) -> Result<(), SourceError> {
        let failed =
            |what: &str| SourceError::transient(format!("can't start {what} of the Kafka source"));
        if worker.splits.is_empty() {
            // All are at their stop.
            worker
                .told
                .try_send(Told::Event(cofferdam::SourceEvent::End))
                .ok();
            return Ok(());
        }
        let events = ClientEvents::new(&self.connection);
        let consumer = BaseConsumer::from_config_and_context(&self.config()?, events);
        let consumer = consumer.map_err(|error| {
            SourceError::configuration("can't create the consumer of the Kafka source")
                .caused_by(error)
        })?;
        let name = "kafka-source".to_owned();
        let started = thread::Builder::new()
            .name(name)
            .spawn(move || worker.run(BatchQueue::new(consumer)));
        started
            .map(drop)
            .map_err(|error| failed("the thread").caused_by(error))
    }

    /// It is for show, and tried again after the next checkpoint: told, but not each time.
    fn warn_of_group(&self, error: &SourceError) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_some_and(|warned| warned.elapsed() < BETWEEN_WARNINGS) {
            debug!(%error, "the group does not show how far the job is");
            return;
        }
        *warned = Some(Instant::now());
        warn!(%error, "the group does not show how far the job is; the job itself is not affected");
    }
}
