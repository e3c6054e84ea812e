//! A job with topics of its own, and what must come out.

use std::future::Future;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cofferdam_kafka::{
    KafkaConnection, TransactionAdmin, TransactionDescription, TransactionState,
};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tempfile::TempDir;

use super::cluster::Place;
use super::reader;
use super::support::data::{self, Files};
use super::support::log::Log;
use super::support::model::{self, Lines, Variant};
use super::support::victim::{End, Victim};

const OUTPUT_PARTITIONS: i32 = 3;

/// Far more than a job takes, also on a busy machine.
pub const LONG: Duration = Duration::from_secs(180);

/// A job with its topics and its checkpoints.
#[derive(Debug)]
pub struct Site {
    pub job: String,
    pub place: Place,
    pub checkpoints: PathBuf,
    pub expected: Lines,
    variant: Variant,
    root: TempDir,
    starts: AtomicU32,
}

/// How the job is started.
#[derive(Debug, Clone)]
pub struct Start {
    pub parallelism: u32,
    pub interval: u64,
    pub retained: usize,
    pub batch_delay: u64,
    pub decision_delay: u64,
    pub restarts: u32,
    pub crash_at: Option<String>,
    /// Further arguments.
    pub more: Vec<String>,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            parallelism: 1,
            interval: 100,
            retained: 3,
            batch_delay: 0,
            decision_delay: 0,
            restarts: 2,
            crash_at: None,
            more: Vec::new(),
        }
    }
}

impl Start {
    /// So slow that it is in the middle of its work for some seconds.
    pub fn slow() -> Self {
        Self {
            interval: 60,
            batch_delay: 60,
            ..Self::default()
        }
    }

    pub fn crash_at(self, point: &str) -> Self {
        Self {
            crash_at: Some(point.to_owned()),
            ..self
        }
    }
}

impl Site {
    /// A job whose name begins with `name`, with readings in its input, a partition for each file.
    pub fn new(place: &Place, name: &str, files: &Files, variant: Variant) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let root = tempfile::tempdir().expect("a folder");
        let site = Self {
            job: format!("{name}-{number}"),
            place: place.clone(),
            checkpoints: root.path().join("checkpoints"),
            expected: model::expected(files, variant),
            variant,
            root,
            starts: AtomicU32::new(0),
        };
        let inputs = i32::try_from(files.len()).expect("a few files");
        site.create_topics(&[
            ("input", inputs),
            ("results", OUTPUT_PARTITIONS),
            ("late", OUTPUT_PARTITIONS),
        ]);
        site.produce(files);
        site
    }

    pub fn topic(&self, part: &str) -> String {
        format!("{}.{part}", self.job)
    }

    fn create_topics(&self, topics: &[(&str, i32)]) {
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", &self.place.eyes)
            .create()
            .expect("an admin client");
        let names: Vec<String> = topics.iter().map(|(part, _)| self.topic(part)).collect();
        let topics: Vec<_> = names
            .iter()
            .zip(topics)
            .map(|(name, (_, partitions))| {
                let replicas = TopicReplication::Fixed(self.place.replicas);
                NewTopic::new(name, *partitions, replicas)
            })
            .collect();
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(60)));
        for created in block_on(admin.create_topics(&topics, &options)).expect("topics") {
            created.expect("a topic");
        }
    }

    /// Writes the readings in small batches, so that they can be read in small ones.
    fn produce(&self, files: &Files) {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", &self.place.eyes)
            .set("enable.idempotence", "true")
            .set("batch.num.messages", "100")
            .set("queue.buffering.max.messages", "1000000")
            .create()
            .expect("a producer");
        let topic = self.topic("input");
        for (partition, readings) in (0..).zip(files) {
            for line in data::json_text(readings).lines() {
                let record = BaseRecord::<str, str>::to(&topic)
                    .partition(partition)
                    .payload(line);
                producer
                    .send(record)
                    .map_err(|(error, _)| error)
                    .expect("room");
            }
        }
        producer.flush(Duration::from_secs(60)).expect("input");
    }

    pub fn spawn(&self, start: &Start) -> Victim {
        let number = self.starts.fetch_add(1, Ordering::SeqCst);
        let file = |kind: &str| self.root.path().join(format!("{kind}.{number}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_kafka_victim"));
        command.args(["--brokers", &self.place.jobs, "--job", &self.job]);
        command.arg("--checkpoints").arg(&self.checkpoints);
        command.args(["--variant", self.variant.name()]);
        for (name, value) in [
            ("--parallelism", u64::from(start.parallelism)),
            ("--interval", start.interval),
            ("--retained", start.retained as u64),
            ("--batch-delay", start.batch_delay),
            ("--decision-delay", start.decision_delay),
            ("--restarts", u64::from(start.restarts)),
        ] {
            command.arg(name).arg(value.to_string());
        }
        if let Some(point) = &start.crash_at {
            command.args(["--crash-at", point]);
        }
        command.args(&start.more);
        command.arg("--trace").arg(file("trace"));
        Victim::spawn(command, file("stdout"), file("stderr"), file("trace"))
    }

    pub fn run(&self, start: &Start) -> End {
        self.spawn(start).wait_within(LONG)
    }

    /// Runs it to its end, in peace.
    pub fn complete(&self, parallelism: u32) -> serde_json::Value {
        let start = Start {
            parallelism,
            ..Start::default()
        };
        self.run(&start).report()
    }

    pub fn log(&self) -> Log {
        Log::read(&self.checkpoints)
    }

    /// All lines that a `read_committed` reader sees, sorted.
    pub fn lines(&self) -> Lines {
        let lines =
            |part| reader::committed(&self.place.eyes, &self.topic(part), OUTPUT_PARTITIONS);
        Lines {
            results: lines("results"),
            late: lines("late"),
        }
    }

    /// Exactly what must come out is visible, nothing is left open, and no reader is held up.
    pub fn assert_exact(&self, what: &str) {
        self.assert_exact_to_readers(what);
        let ongoing = self.ongoing();
        assert!(ongoing.is_empty(), "{what}: left over: {ongoing:?}");
        let (stable, high) = (self.last_stable_offsets(), self.high_watermarks());
        assert_eq!(stable, high, "{what}: readers are held up");
    }

    /// Exactly what must come out is visible.
    pub fn assert_exact_to_readers(&self, what: &str) {
        self.lines().assert_equal(&self.expected, what);
    }

    /// What is visible is part of what must come out: no line doubled, none made up.
    pub fn assert_nothing_doubled(&self, what: &str) {
        self.lines().assert_within(&self.expected, what);
    }

    /// The high watermarks of all partitions of the output.
    pub fn high_watermarks(&self) -> Vec<i64> {
        self.of_output(reader::high_watermarks)
    }

    /// The last stable offsets of all partitions of the output.
    pub fn last_stable_offsets(&self) -> Vec<i64> {
        self.of_output(reader::last_stable_offsets)
    }

    fn of_output(&self, ask: fn(&str, &str, i32) -> Vec<i64>) -> Vec<i64> {
        ["results", "late"]
            .iter()
            .flat_map(|part| ask(&self.place.eyes, &self.topic(part), OUTPUT_PARTITIONS))
            .collect()
    }

    /// All transactional ids of the job, and where each stands.
    pub fn transactions(&self) -> Vec<TransactionDescription> {
        let kafka = KafkaConnection::new(&self.place.eyes).patience(Duration::from_secs(60));
        let prefix = format!("cofferdam.{}.", self.job);
        let listed = block_on(TransactionAdmin::new(&kafka).list(&prefix));
        listed.expect("a list of transactions")
    }

    /// Those that are open, prepared or on their way to an end.
    pub fn ongoing(&self) -> Vec<TransactionDescription> {
        use TransactionState::{CompleteAbort, CompleteCommit, Empty};
        let mut listed = self.transactions();
        listed.retain(|one| !matches!(one.state, CompleteAbort | CompleteCommit | Empty));
        listed
    }
}

/// Whether a process had come so far as to begin a transaction: then it had recovered.
pub fn began(end: &End) -> bool {
    end.trace.lines().any(|line| line == "before begin")
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}
