//! The thread that reads: from librdkafka, through the decoder, into batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use cofferdam::{OnMalformed, SourceError, SourceEvent, Timestamp};
use rdkafka::bindings::rd_kafka_resp_err_t as Code;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::mpsc::Sender;
use tracing::warn;

use super::position::Partition;
use super::run::Order;
use super::split::Split;
use super::told::{Batch, Over, Told, refused};
use crate::native::{BatchQueue, LARGEST_READ, Message};
use crate::records::{Decoder, KafkaRecord};
use crate::wire::name_of;

/// Bytes of keys and values in a batch, so that a batch of long records stays small in memory.
const BATCH_BYTES: usize = 4 << 20;

/// How long the thread waits for records before it looks whether it is still needed.
const WAIT: Duration = Duration::from_millis(50);

/// Events of the client that are taken between two reads.
const CLIENT_EVENTS: usize = 16;

/// What a thread needs besides its queue.
pub(super) struct Worker<D: Decoder> {
    pub(super) decoder: Arc<D>,
    pub(super) on_malformed: OnMalformed,
    pub(super) idle_after: Option<Duration>,
    pub(super) splits: Vec<Split>,
    pub(super) told: Sender<Told<D::Output>>,
    pub(super) orders: Receiver<Order>,
    /// Set when the reader is gone.
    pub(super) stop: Arc<AtomicBool>,
    /// Set while the reader looks into a suspicion.
    pub(super) suspected: Arc<AtomicBool>,
    pub(super) batch: Batch<D::Output>,
    /// Whether brokers could not be reached, and that was told.
    pub(super) is_cut_off: bool,
}

impl<D: Decoder> Worker<D> {
    /// Reads until there is nothing more to read, or nobody to read for.
    pub(super) fn run(mut self, mut queue: BatchQueue) {
        let over = match self.assign(&queue, 0) {
            Err(over) => over,
            Ok(()) => loop {
                if let Err(over) = self.turn(&mut queue) {
                    break over;
                }
            },
        };
        let last = match over {
            Over::Unheard => return,
            Over::Failed(error) => Told::Failed(error),
            Over::OutOfRange(partition, offset) => Told::OutOfRange(partition, offset),
            Over::End => Told::Event(SourceEvent::End),
        };
        self.told.blocking_send(last).ok();
    }

    fn turn(&mut self, queue: &mut BatchQueue) -> Result<(), Over> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Over::Unheard);
        }
        self.obey(queue)?;
        self.hear_client(queue)?;
        let mut read = 0;
        let mut finished = Vec::new();
        for message in queue.read(WAIT) {
            read += 1;
            if let Some(done) = self.take(&message)? {
                finished.push(done);
            }
        }
        self.flush()?;
        if !finished.is_empty() {
            self.finish(queue, &finished)?;
        }
        match self.idle_after {
            // Only when all that has come is read: records of a quiet partition may wait behind those of others.
            Some(after) if read < LARGEST_READ => self.tell_idle(after),
            _ => Ok(()),
        }
    }

    /// Takes a record or an event of a partition. Returns a split that has come to its stop.
    fn take(&mut self, message: &Message<'_>) -> Result<Option<usize>, Over> {
        let Some(index) = self.split_of(message) else {
            let topic = String::from_utf8_lossy(message.topic());
            return Err(Over::Failed(SourceError::transient(format!(
                "something came from {topic}/{}, which this reader does not read: {}",
                message.partition(),
                message.error()
            ))));
        };
        if self.splits[index].is_finished {
            return Ok(None);
        }
        if index != self.batch.split || self.batch.bytes >= BATCH_BYTES {
            self.flush()?;
            self.batch.split = index;
        }
        const RECORD: i32 = Code::RD_KAFKA_RESP_ERR_NO_ERROR as i32;
        const END: i32 = Code::RD_KAFKA_RESP_ERR__PARTITION_EOF as i32;
        match message.code() {
            RECORD => self.record(message)?,
            END => self.splits[index].ended_at(message.offset()),
            code => self.partition_error(code, message)?,
        }
        self.is_cut_off = false;
        let split = &mut self.splits[index];
        split.is_finished = split.next.is_at_stop();
        if split.is_finished {
            split.stops();
        }
        Ok(split.is_finished.then_some(index))
    }

    /// Mostly that of the message before.
    fn split_of(&self, message: &Message<'_>) -> Option<usize> {
        let (topic, index) = (message.topic(), message.partition());
        let is_it = |split: &Split| {
            split.partition.index == index && split.partition.topic.as_bytes() == topic
        };
        match self.splits.get(self.batch.split) {
            Some(last) if is_it(last) => Some(self.batch.split),
            _ => self.splits.iter().position(is_it),
        }
    }

    fn record(&mut self, message: &Message<'_>) -> Result<(), Over> {
        let split = &mut self.splits[self.batch.split];
        let offset = message.offset();
        if offset < split.next.offset {
            return Err(Over::Failed(SourceError::transient(format!(
                "{} came to offset {offset} again, after all before {} was read",
                split.partition, split.next.offset
            ))));
        }
        split.passed(offset);
        if split.next.stop.is_some_and(|stop| offset >= stop) {
            return Ok(());
        }
        let record = KafkaRecord {
            topic: &split.partition.topic,
            partition: split.partition.index,
            offset,
            timestamp: message.timestamp().map(Timestamp::from_millis),
            key: message.key(),
            value: message.value(),
            headers: message.headers(),
        };
        self.batch.bytes += record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
        match (self.decoder.decode(record), self.on_malformed) {
            (Ok(Some(decoded)), _) => self.batch.records.push(decoded),
            (Ok(None), _) => {}
            (Err(_), OnMalformed::Skip) => self.batch.skipped += 1,
            (Err(error), OnMalformed::Fail) => {
                let malformed = format!(
                    "can't decode the record at {}, offset {offset}",
                    split.partition
                );
                return Err(Over::Failed(
                    SourceError::rejected(malformed)
                        .hint("leave such records out with `OnMalformed::Skip`, or have the decoder take them")
                        .caused_by(error),
                ));
            }
        }
        Ok(())
    }

    fn partition_error(&mut self, code: i32, message: &Message<'_>) -> Result<(), Over> {
        let split = &self.splits[self.batch.split];
        let partition = split.partition.clone();
        const OUT_OF_RANGE: i32 = Code::RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET as i32;
        const NOT_ALLOWED: i32 = Code::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED as i32;
        const NO_TOPIC: i32 = Code::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART as i32;
        const NO_TOPIC_HERE: i32 = Code::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC as i32;
        const NO_PARTITION_HERE: i32 = Code::RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION as i32;
        match code {
            OUT_OF_RANGE => Err(Over::OutOfRange(partition, split.next.offset)),
            NO_TOPIC | NO_TOPIC_HERE | NO_PARTITION_HERE => self.suspect(),
            NOT_ALLOWED => Err(Over::Failed(
                SourceError::configuration(format!("can't read {partition}: {}", message.error()))
                    .hint("give this user READ on the topic"),
            )),
            // Whatever it is, librdkafka might go on behind it.
            code => Err(Over::Failed(SourceError::transient(format!(
                "can't read {partition} at offset {}: {} ({})",
                split.next.offset,
                message.error(),
                i16::try_from(code).map_or_else(|_| code.to_string(), name_of)
            )))),
        }
    }

    /// Tells what is gathered.
    fn flush(&mut self) -> Result<(), Over> {
        let room = Vec::with_capacity(self.batch.records.len());
        let records = std::mem::replace(&mut self.batch.records, room);
        let skipped = std::mem::take(&mut self.batch.skipped);
        self.batch.bytes = 0;
        let Some(split) = self.splits.get_mut(self.batch.split) else {
            return Ok(());
        };
        match split.batch(records, skipped) {
            Some(batch) => self.tell(Told::Event(batch)),
            None => Ok(()),
        }
    }

    fn finish(&mut self, queue: &BatchQueue, finished: &[usize]) -> Result<(), Over> {
        let mut list = TopicPartitionList::new();
        for index in finished {
            let Partition {
                topic,
                index: partition,
            } = &self.splits[*index].partition;
            list.add_partition(topic, *partition);
        }
        let unassigned = queue.consumer().incremental_unassign(&list);
        unassigned.map_err(|error| refused("give back partitions", error))?;
        for index in finished {
            let split = self.splits[*index].id.clone();
            self.tell(Told::Event(SourceEvent::Finished(split)))?;
        }
        match self.splits.iter().all(|split| split.is_finished) {
            true => Err(Over::End),
            false => Ok(()),
        }
    }

    fn tell_idle(&mut self, after: Duration) -> Result<(), Over> {
        for index in 0..self.splits.len() {
            let split = &mut self.splits[index];
            if split.goes_idle(after) {
                let idle = SourceEvent::Idle(split.id.clone());
                self.tell(Told::Event(idle))?;
            }
        }
        Ok(())
    }

    /// Does what the run wants.
    fn obey(&mut self, queue: &BatchQueue) -> Result<(), Over> {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Fail(error) => return Err(Over::Failed(error)),
                Order::Adopt(partition, position) => {
                    // Its position comes first, so that it is in the next checkpoint even if it stays empty.
                    let adopted = self.splits.len();
                    self.splits.push(Split::new(partition, position));
                    let start = self.splits[adopted].start();
                    self.tell(Told::Event(start))?;
                    self.assign(queue, adopted)?;
                }
            }
        }
        Ok(())
    }

    /// Begins to read the splits from this one on.
    fn assign(&self, queue: &BatchQueue, from: usize) -> Result<(), Over> {
        let mut list = TopicPartitionList::new();
        for split in &self.splits[from..] {
            let Partition { topic, index } = &split.partition;
            let offset = Offset::Offset(split.next.offset);
            let added = list.add_partition_offset(topic, *index, offset);
            added.map_err(|error| refused("assign partitions", error))?;
            if !queue.take_from(topic, *index) {
                let partition = &split.partition;
                return Err(Over::Failed(SourceError::configuration(format!(
                    "librdkafka can't read {partition}"
                ))));
            }
        }
        let assigned = queue.consumer().incremental_assign(&list);
        assigned.map_err(|error| refused("assign partitions", error))
    }

    /// Takes what the client tells besides records.
    fn hear_client(&mut self, queue: &BatchQueue) -> Result<(), Over> {
        for _ in 0..CLIENT_EVENTS {
            match queue.consumer().poll(Duration::ZERO) {
                None => return Ok(()),
                Some(Ok(_)) => {
                    return Err(Over::Failed(SourceError::transient(
                        "a record came past the queue of records",
                    )));
                }
                Some(Err(error)) => self.client_error(&error)?,
            }
        }
        Ok(())
    }

    fn client_error(&mut self, error: &KafkaError) -> Result<(), Over> {
        use RDKafkaErrorCode as Error;
        if let KafkaError::MessageConsumptionFatal(_) = error {
            return Err(refused("read", error.clone()));
        }
        match error.rdkafka_error_code() {
            // The group is for show: nothing is read by its leave.
            Some(Error::GroupAuthorizationFailed) => Ok(()),
            Some(
                Error::AllBrokersDown
                | Error::BrokerTransportFailure
                | Error::OperationTimedOut
                | Error::Resolve,
            ) => {
                if !self.is_cut_off {
                    warn!(%error, "brokers can't be reached; waiting for them");
                }
                self.is_cut_off = true;
                Ok(())
            }
            _ => self.suspect(),
        }
    }

    fn suspect(&mut self) -> Result<(), Over> {
        match self.suspected.swap(true, Ordering::Relaxed) {
            true => Ok(()),
            false => self.tell(Told::Suspicious),
        }
    }

    fn tell(&self, told: Told<D::Output>) -> Result<(), Over> {
        self.told.blocking_send(told).map_err(|_| Over::Unheard)
    }
}
