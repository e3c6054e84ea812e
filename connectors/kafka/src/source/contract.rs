//! The source contract, kept.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam::{CheckpointId, Source, SourceError, SourceEvent, SplitId, async_trait};
use rdkafka::config::FromClientConfigAndContext as _;
use rdkafka::consumer::BaseConsumer;
use tracing::{debug, warn};

use super::discovery::Discovery;
use super::position::{KafkaPosition, Partition};
use super::reader::{KafkaReader, State, Watch};
use super::run::Run;
use super::split::Split;
use super::start::Start;
use super::told::{Batch, Told};
use super::worker::Worker;
use super::{KafkaSource, error, group, topics};
use crate::connection::ClientEvents;
use crate::native::BatchQueue;
use crate::records::Decoder;
use crate::wire::Deadline;

/// Batches that wait for the pipeline.
const BATCHES: usize = 4;

/// The longest time that showing offsets to a group may take.
const PATIENCE_FOR_GROUPS: Duration = Duration::from_secs(5);

/// Between two warnings that a group's offsets can't be committed.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

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
                true => first.push_back(SourceEvent::Finished(split.id)),
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
            worker.told.try_send(Told::Event(SourceEvent::End)).ok();
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
