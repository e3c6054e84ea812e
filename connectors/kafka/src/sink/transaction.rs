//! An open transaction.

use std::sync::Arc;
use std::time::Duration;

use cofferdam::{SinkError, TransactionId};
use tokio::task::JoinHandle;

use super::lane::{LanePool, Ready};
use super::site::Site;
use crate::error::sink_error;
use crate::native::Batch;
use crate::records::{Encoder, OutgoingRecord};
use crate::transactions::{PreparedTransaction, TransactionState};
use crate::wire::{Deadline, WireError};

/// The pause while librdkafka's buffer is full, or empties.
const PAUSE: Duration = Duration::from_millis(2);

/// An open Kafka transaction: its producer, and the evidence on its way into it.
pub struct KafkaTransaction {
    id: TransactionId,
    site: Arc<Site>,
    ready: Ready,
    /// The offset that becomes part of the transaction, beside the records.
    evidence: JoinHandle<Result<(), WireError>>,
    record: OutgoingRecord,
    /// Records that are not handed over yet; empty between writes.
    batch: Batch,
    records: u64,
}

impl std::fmt::Debug for KafkaTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaTransaction")
            .field("id", &self.id)
            .field("transactional_id", &self.ready.transactional_id)
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

impl KafkaTransaction {
    /// Begins with a producer that is ready.
    pub(super) async fn begin(
        site: &Arc<Site>,
        pool: &Arc<LanePool>,
        id: &TransactionId,
    ) -> Result<Self, SinkError> {
        let mut ready = pool.take(site).await?;
        ready.slot.keep(id.checkpoint);
        let (transactions, topic) = (site.transactions.clone(), Arc::clone(&site.topic));
        let (transactional_id, identity) = (ready.transactional_id.clone(), ready.identity);
        let (evidence, checkpoint) = (ready.evidence.with(id), id.checkpoint);
        let group = ready.evidence_group.clone();
        let add = async move {
            let deadline = transactions.cluster.deadline();
            let transaction = (transactional_id.as_str(), identity);
            let place = (group.as_str(), &*topic);
            transactions
                .add_evidence(transaction, place, checkpoint, &evidence, deadline)
                .await
        };
        Ok(Self {
            id: id.clone(),
            site: Arc::clone(site),
            ready,
            evidence: tokio::spawn(add),
            record: OutgoingRecord::default(),
            batch: Batch::default(),
            records: 0,
        })
    }

    /// Writes records into librdkafka's buffer; waits while it is full.
    pub(super) async fn write<T, S: Encoder<T>>(
        &mut self,
        encoder: &S,
        values: Vec<T>,
    ) -> Result<(), SinkError> {
        self.records += values.len() as u64;
        for value in values {
            self.record.clear();
            encoder.encode(&value, &mut self.record).map_err(|error| {
                SinkError::rejected("a value can't be turned into a record").caused_by(error)
            })?;
            drop(value);
            if self.record.is_plain() {
                self.batch.push(&self.record);
            } else {
                // What goes another way must not overtake.
                self.send_batch().await?;
                self.send_record().await?;
            }
        }
        self.send_batch().await?;
        self.ready.producer.check()
    }

    /// Hands over the records that were gathered.
    async fn send_batch(&mut self) -> Result<(), SinkError> {
        self.ready.producer.arrange(&mut self.batch);
        let (mut sent, mut full) = (0, None);
        while sent < self.batch.len() {
            let taken = self.ready.producer.send_batch(&self.batch, sent)?;
            sent += taken;
            if sent < self.batch.len() {
                if taken > 0 {
                    // Something moves: time runs anew.
                    full = None;
                }
                self.wait_for_room(&mut full).await?;
            }
        }
        self.batch.clear();
        Ok(())
    }

    /// Hands over one record.
    async fn send_record(&mut self) -> Result<(), SinkError> {
        let mut full = None;
        while !self
            .ready
            .producer
            .send(self.record.as_record(&self.site.topic))?
        {
            self.wait_for_room(&mut full).await?;
        }
        Ok(())
    }

    /// Waits a little while the buffer is full.
    async fn wait_for_room(&self, since: &mut Option<Deadline>) -> Result<(), SinkError> {
        self.ready.producer.check()?;
        let deadline = *since.get_or_insert_with(|| self.site.transactions.cluster.deadline());
        self.wait(deadline, "the buffer is full").await
    }

    /// Makes all records and the evidence durable, and describes the transaction for whoever finishes it.
    pub(super) async fn prepare(mut self) -> Result<PreparedTransaction, SinkError> {
        let deadline = self.site.transactions.cluster.deadline();
        loop {
            // Asked first: what is told of the last record comes with its acknowledgement.
            let all_arrived = self.ready.producer.in_flight() == 0;
            self.ready.producer.check()?;
            if all_arrived {
                break;
            }
            self.wait(deadline, "records are on their way").await?;
        }
        let added = (&mut self.evidence).await;
        let added = added.map_err(|error| {
            SinkError::transient("the evidence came to no end").caused_by(error)
        })?;
        added.map_err(|error| sink_error("can't leave evidence in the transaction", error))?;
        self.describe(deadline).await
    }

    async fn describe(&self, deadline: Deadline) -> Result<PreparedTransaction, SinkError> {
        let Ready {
            transactional_id,
            identity,
            ..
        } = &self.ready;
        let transactions = &self.site.transactions;
        let failed = |error| sink_error(format!("can't look at {transactional_id}"), error);
        let found = transactions
            .describe(transactional_id, deadline)
            .await
            .map_err(failed)?;
        let cluster = transactions.cluster.id(deadline).await.map_err(failed)?;
        let version = transactions
            .end_txn_version(transactional_id, deadline)
            .await;
        let end_txn_version = version.map_err(failed)?;
        let found = found.filter(|found| {
            found.state == TransactionState::Ongoing
                && (found.producer_id, found.producer_epoch) == (identity.id, identity.epoch)
        });
        let Some(found) = found else {
            return Err(SinkError::fenced(format!(
                "transaction {transactional_id} is no longer there: its time is over, or its id was taken over"
            )));
        };
        Ok(PreparedTransaction {
            transaction: self.id.clone(),
            cluster,
            transactional_id: transactional_id.clone(),
            producer_id: identity.id,
            producer_epoch: identity.epoch,
            started_at: found.started_at,
            timeout: found.timeout,
            end_txn_version,
            evidence_group: self.ready.evidence_group.clone(),
            records: self.records,
        })
    }

    /// Undoes it, and lets its id be used again.
    pub(super) async fn abort(self, pool: &LanePool) -> Result<(), SinkError> {
        self.evidence.abort();
        let (site, transactional_id) =
            (Arc::clone(&self.site), self.ready.transactional_id.clone());
        drop(self);
        let deadline = site.transactions.cluster.deadline();
        let fenced = site
            .transactions
            .take_over(&transactional_id, site.timeout, deadline)
            .await;
        fenced.map_err(|error| sink_error(format!("can't abort {transactional_id}"), error))?;
        if let Some((_, slot)) = site.names.parse(&transactional_id) {
            pool.release(slot);
        }
        Ok(())
    }

    async fn wait(&self, deadline: Deadline, why: &str) -> Result<(), SinkError> {
        if deadline.is_over() {
            return Err(SinkError::transient(format!(
                "the cluster does not take the records of {}: {why}, and nothing moves",
                self.ready.transactional_id
            )));
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }
}

impl Drop for KafkaTransaction {
    fn drop(&mut self) {
        self.evidence.abort();
    }
}
