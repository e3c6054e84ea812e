//! The pool of transactional ids of a subtask, with the next transaction's producer warmed up beside the current one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cofferdam::{CheckpointId, ErrorKind, SinkError};
use tokio::task::JoinHandle;

use super::producer::TransactionProducer;
use super::site::Site;
use crate::error::sink_error;
use crate::transactions::{Evidence, Lane, Producer, TransactionState};
use crate::wire::Deadline;

/// A producer that can write at once.
pub(super) struct Ready {
    pub(super) slot: Slot,
    pub(super) transactional_id: String,
    pub(super) producer: TransactionProducer,
    pub(super) identity: Producer,
    /// The group in which this subtask leaves the evidence of its commits.
    pub(super) evidence_group: String,
    /// What it has committed so far.
    pub(super) evidence: Evidence,
}

/// The pool of one subtask in one run.
pub(super) struct LanePool {
    lane: Lane,
    /// Slots that can't be used now, with the checkpoint that each is used for.
    busy: Mutex<BTreeMap<u32, Option<CheckpointId>>>,
    next: tokio::sync::Mutex<Option<JoinHandle<Result<Ready, SinkError>>>>,
}

/// A slot that is in use: it is free again when this is dropped, unless it is kept.
pub(super) struct Slot {
    number: u32,
    /// Weak, as the pool holds the next slot: the two would keep each other.
    pool: Weak<LanePool>,
    kept: bool,
}

impl Slot {
    /// Remembers what the slot is used for, and keeps it until [`LanePool::release`]: from now on its id may have
    /// a transaction, which must not be initialised away.
    pub(super) fn keep(&mut self, checkpoint: CheckpointId) {
        if let Some(pool) = self.pool.upgrade() {
            pool.busy().insert(self.number, Some(checkpoint));
        }
        self.kept = true;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let (false, Some(pool)) = (self.kept, self.pool.upgrade()) {
            pool.release(self.number);
        }
    }
}

impl LanePool {
    pub(super) fn new(lane: Lane) -> Arc<Self> {
        Arc::new(Self {
            lane,
            busy: Mutex::default(),
            next: tokio::sync::Mutex::default(),
        })
    }

    fn busy(&self) -> MutexGuard<'_, BTreeMap<u32, Option<CheckpointId>>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot's transaction is settled: its id may be used again.
    pub(super) fn release(&self, slot: u32) {
        self.busy().remove(&slot);
    }

    /// The checkpoint that a slot is used for, if it is this process that uses it.
    pub(super) fn checkpoint(&self, slot: u32) -> Option<CheckpointId> {
        self.busy().get(&slot).copied().flatten()
    }

    /// A producer that can write at once, and one for the transaction after this, in the background.
    ///
    /// Cancel safety: it is. What is being warmed up goes on, and is there for the next call.
    pub(super) async fn take(self: &Arc<Self>, site: &Arc<Site>) -> Result<Ready, SinkError> {
        let mut next = self.next.lock().await;
        let task = next.get_or_insert_with(|| self.warm_up(site));
        let ready = task.await;
        *next = None;
        let ready = ready.map_err(|error| {
            SinkError::transient("the start of a producer came to no end").caused_by(error)
        })??;
        *next = Some(self.warm_up(site));
        Ok(ready)
    }

    fn warm_up(self: &Arc<Self>, site: &Arc<Site>) -> JoinHandle<Result<Ready, SinkError>> {
        let (pool, site) = (Arc::clone(self), Arc::clone(site));
        tokio::spawn(async move {
            let deadline = site.transactions.cluster.deadline();
            let slot = pool.free_slot(&site, deadline).await?;
            site.start_producer(&pool.lane, slot, deadline).await
        })
    }

    /// The first slot that nothing is prepared or open under, as far as this process knows and the cluster says.
    async fn free_slot(
        self: &Arc<Self>,
        site: &Site,
        deadline: Deadline,
    ) -> Result<Slot, SinkError> {
        loop {
            let number = {
                let mut busy = self.busy();
                let number = (0..)
                    .find(|number| !busy.contains_key(number))
                    .unwrap_or(u32::MAX);
                busy.insert(number, None);
                number
            };
            let mut slot = Slot {
                number,
                pool: Arc::downgrade(self),
                kept: false,
            };
            let id = site.names.transactional_id(&self.lane, number);
            let found = site.transactions.describe(&id, deadline).await;
            let found = found.map_err(|error| sink_error(format!("can't look at {id}"), error))?;
            match found.map(|found| found.state) {
                // Initialising it would abort it; whose it may be is for recovery to say.
                Some(TransactionState::Ongoing | TransactionState::Other(_)) => slot.kept = true,
                _ => return Ok(slot),
            }
        }
    }
}

impl Site {
    /// Starts the producer of a slot.
    async fn start_producer(
        &self,
        lane: &Lane,
        slot: Slot,
        deadline: Deadline,
    ) -> Result<Ready, SinkError> {
        let transactional_id = self.names.transactional_id(lane, slot.number);
        let config = self.producer_config(&transactional_id)?;
        let events = self.events();
        let patience = self.transactions.cluster.connection().settings.patience;
        let topic = Arc::clone(&self.topic);
        let start = move || TransactionProducer::start(&config, events, &topic, patience);
        let producer = tokio::task::spawn_blocking(start).await.map_err(|error| {
            SinkError::transient("the start of a producer came to no end").caused_by(error)
        })??;
        let group = self
            .names
            .evidence_group(&lane.job, &lane.sink, lane.subtask);
        let described = self
            .transactions
            .describe(&transactional_id, deadline)
            .await;
        let described = described
            .map_err(|error| sink_error(format!("can't look at {transactional_id}"), error))?;
        let Some(described) = described else {
            let what = format!("the cluster forgot transactional id {transactional_id} at once");
            return Err(SinkError::new(ErrorKind::Transient, what));
        };
        let evidence = self.transactions.evidence(&group, deadline).await;
        let evidence =
            evidence.map_err(|error| sink_error("can't read the evidence of commits", error))?;
        Ok(Ready {
            slot,
            transactional_id,
            producer,
            identity: Producer {
                id: described.producer_id,
                epoch: described.producer_epoch,
            },
            evidence_group: group,
            evidence: evidence.unwrap_or_default(),
        })
    }
}
