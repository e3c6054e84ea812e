//! The transactional sink.

mod lane;
mod producer;
mod site;
mod stale;
mod transaction;

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cofferdam::{
    AtomicUnit, Capabilities, CommitError, Committed, Evidence, Fence, InDoubt, Isolation, JobId,
    SinkError, TransactionId, TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};

use self::lane::LanePool;
use self::site::Site;
pub use self::transaction::KafkaTransaction;
use crate::connection::{KafkaConnection, Options};
use crate::records::{Bytes, Encoder, Json, WithKey};
use crate::transactions::{Lane, Names, PREFIX, PreparedTransaction, Transactions};
use crate::wire::Cluster;

/// How long the cluster keeps a prepared transaction: as long as brokers allow by default
/// (`transaction.max.timeout.ms`).
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Writes records into Kafka, in one transaction for each checkpoint and subtask.
///
/// See the [front page](crate) for what it promises and needs.
pub struct KafkaSink<T, S> {
    encoder: S,
    site: Arc<Site>,
    lanes: Mutex<HashMap<Lane, Arc<LanePool>>>,
    values: PhantomData<fn(T)>,
}

impl<T, S> fmt::Debug for KafkaSink<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink")
            .field("site", &self.site)
            .finish_non_exhaustive()
    }
}

impl<T: serde::Serialize + 'static> KafkaSink<T, Json<T>> {
    /// Writes values as JSON, without a key; [`key`](Self::key) adds one.
    pub fn json(connection: &KafkaConnection, topic: impl Into<Arc<str>>) -> Self {
        Self::with(connection, topic, Json::default())
    }
}

impl<T: AsRef<[u8]>> KafkaSink<T, Bytes> {
    /// Writes text or bytes as they are, without a key; [`key`](Self::key) adds one.
    pub fn bytes(connection: &KafkaConnection, topic: impl Into<Arc<str>>) -> Self {
        Self::with(connection, topic, Bytes)
    }
}

impl<T, S> KafkaSink<T, S> {
    /// Writes what a [`Encoder`] of one's own, or a closure, makes of values.
    pub fn with(connection: &KafkaConnection, topic: impl Into<Arc<str>>, encoder: S) -> Self
    where
        S: Encoder<T>,
    {
        let cluster = Arc::new(Cluster::new(connection.clone()));
        let site = Site {
            transactions: Transactions::new(cluster),
            names: Names::new(PREFIX),
            topic: topic.into(),
            timeout: millis(TRANSACTION_TIMEOUT),
            options: Options::default(),
        };
        Self {
            encoder,
            site: Arc::new(site),
            lanes: Mutex::default(),
            values: PhantomData,
        }
    }

    fn change(mut self, change: impl FnOnce(&mut Site)) -> Self {
        change(Arc::make_mut(&mut self.site));
        self
    }

    /// Gives each record a key: records of one key go to one partition, the same that Java clients choose.
    #[must_use]
    pub fn key<F>(self, key: F) -> KafkaSink<T, WithKey<S, F>>
    where
        F: Fn(&T, &mut Vec<u8>) + Send + Sync + 'static,
    {
        let encoder = WithKey {
            encoder: self.encoder,
            key,
        };
        KafkaSink {
            encoder,
            site: self.site,
            lanes: self.lanes,
            values: PhantomData,
        }
    }

    /// How long the cluster keeps a transaction from its first record on, broker outages included; 15 minutes if it is
    /// not set. What is not committed by then is lost, which stops the job. Brokers refuse more than their
    /// `transaction.max.timeout.ms` (15 minutes by default).
    #[must_use]
    pub fn transaction_timeout(self, timeout: Duration) -> Self {
        self.change(|site| site.timeout = millis(timeout))
    }

    /// Lets transactions never expire. Needs `transaction.max.timeout.ms=2147483647` at the brokers.
    ///
    /// The price: what a job leaves that never comes back holds up all `read_committed` readers of its partitions until
    /// somebody aborts it.
    #[must_use]
    pub fn transactions_never_expire(self) -> Self {
        self.change(|site| site.timeout = i32::MAX)
    }

    /// What transactional ids and groups of the sink begin with; `cofferdam` if it is not set. For clusters that give rights
    /// by prefix, or that jobs of one name share. It has to stay: a job that is given another prefix does not find
    /// what it left in doubt under the old one.
    #[must_use]
    pub fn name_prefix(self, prefix: impl Into<Arc<str>>) -> Self {
        self.change(|site| site.names = Names::new(prefix))
    }

    /// Sets a setting of librdkafka, such as `compression.type` or `linger.ms`. Those that the sink itself depends on
    /// (transactions, acknowledgements, and what the connection sets) are refused when the job starts.
    #[must_use]
    pub fn option(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.change(|site| site.options.set(key, value))
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<Lane, Arc<LanePool>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pool of a subtask. Those of runs before are let go of.
    fn lane(&self, id: &TransactionId) -> Arc<LanePool> {
        let lane = Lane::of(id);
        let mut lanes = self.lanes();
        lanes.retain(|known, _| {
            (&known.job, &known.sink) != (&lane.job, &lane.sink) || known.epoch >= lane.epoch
        });
        Arc::clone(
            lanes
                .entry(lane.clone())
                .or_insert_with(|| LanePool::new(lane)),
        )
    }

    /// The transaction of a handle is settled.
    fn release(&self, transactional_id: &str) {
        if let Some((lane, slot)) = self.site.names.parse(transactional_id)
            && let Some(pool) = self.lanes().get(&lane)
        {
            pool.release(slot);
        }
    }
}

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

#[async_trait]
impl<T: Send + 'static, S: Encoder<T>> TwoPhaseCommitSinkFunction for KafkaSink<T, S> {
    type Input = T;
    type Transaction = KafkaTransaction;
    type Prepared = PreparedTransaction;

    fn capabilities(&self) -> Capabilities {
        Capabilities::TRANSACTIONAL
            .with_isolation(Isolation::HiddenIf("isolation.level=read_committed"))
            .with_atomic_unit(AtomicUnit::Partition)
            .with_evidence(Evidence::Ledger)
            .with_expiry(self.site.expiry())
    }

    async fn begin(&self, id: &TransactionId) -> Result<KafkaTransaction, SinkError> {
        KafkaTransaction::begin(&self.site, &self.lane(id), id).await
    }

    async fn write(
        &self,
        transaction: &mut KafkaTransaction,
        records: Vec<T>,
    ) -> Result<(), SinkError> {
        transaction.write(&self.encoder, records).await
    }

    async fn pre_commit(
        &self,
        transaction: KafkaTransaction,
    ) -> Result<Option<PreparedTransaction>, SinkError> {
        transaction.prepare().await.map(Some)
    }

    async fn commit(
        &self,
        id: &TransactionId,
        prepared: &PreparedTransaction,
    ) -> Result<Committed, CommitError> {
        let committed = self.site.transactions.settle(id, prepared).await?;
        self.release(&prepared.transactional_id);
        Ok(committed)
    }

    async fn abort(
        &self,
        unfinished: Unfinished<KafkaTransaction, PreparedTransaction>,
    ) -> Result<(), SinkError> {
        match unfinished {
            Unfinished::Open(id, open) => open.abort(&self.lane(&id)).await,
            Unfinished::Prepared(id, prepared) => {
                self.site.transactions.undo(&id, &prepared).await?;
                self.release(&prepared.transactional_id);
                Ok(())
            }
        }
    }

    async fn abort_stale(
        &self,
        fence: &Fence<PreparedTransaction>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        self.site.abort_stale(fence).await
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        let mut in_doubt = self.site.in_doubt(job).await?;
        let lanes = self.lanes();
        for found in &mut in_doubt {
            let named = self.site.names.parse(&found.location);
            found.checkpoint = named.and_then(|(lane, slot)| lanes.get(&lane)?.checkpoint(slot));
        }
        Ok(in_doubt)
    }
}
