//! The Kafka source.

mod contract;
mod discovery;
mod error;
mod group;
mod offsets;
mod position;
mod reader;
mod run;
mod settings;
mod split;
mod start;
mod told;
mod topics;
mod worker;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cofferdam::{OnMalformed, SourceError};
use rdkafka::ClientConfig;
use serde::de::DeserializeOwned;

use self::offsets::Isolation;
pub use self::position::KafkaPosition;
pub use self::reader::KafkaReader;
use self::run::Run;
use self::start::Beginning;
pub use self::start::Start;
use crate::connection::{KafkaConnection, Options};
use crate::records::{Bytes, Decoder, Json, Utf8};
use crate::wire::Cluster;

/// How often new partitions are looked for, if nothing else is set.
const DISCOVER_EVERY: Duration = Duration::from_secs(10);

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
    ///
    /// It is told when its reader has read all that has come; one that lags behind brokers waits with it.
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
            group, isolation, ..
        } = &self.beginning;
        settings::consumer(
            &self.connection,
            group.as_deref(),
            *isolation,
            &self.options,
        )
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
