//! The sink, as the contract sees it. How its calls are put together from questions to the system is in `steps`.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use cofferdam::{
    Capabilities, CommitError, Committed, Evidence, Fence, Fencing, InDoubt, Isolation, JobId,
    SinkError, TransactionId, TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::pool::Discipline;
use super::state;
use super::wire::Password;

/// Turns a record into a row. Whoever uses the sink writes this.
pub trait Encode: Send + Sync + 'static {
    /// The row: one word.
    fn encode(&self) -> String;
}

/// The records that the suite writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReferenceRecord {
    /// A row.
    Text(String),
    /// Encoding it panics.
    Panicking,
}

impl Encode for ReferenceRecord {
    fn encode(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Panicking => panic!("an encoder with a fault"),
        }
    }
}

/// An open transaction of a [`ReferenceSink`].
#[derive(Debug)]
pub struct OpenTransaction {
    pub(crate) id: TransactionId,
    /// Rows that have not been sent yet.
    pub(crate) buffer: Vec<String>,
    /// How many have been.
    pub(crate) sent: u64,
}

impl OpenTransaction {
    pub(crate) fn new(id: &TransactionId) -> Self {
        Self {
            id: id.clone(),
            buffer: Vec::new(),
            sent: 0,
        }
    }
}

/// The handle of a prepared transaction of a [`ReferenceSink`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReferenceHandle {
    /// The name of the transaction in the system. It tells a handle that was swapped from the right one.
    pub transaction: TransactionId,
    /// How many rows it has: what the ledger must say, if it is committed.
    pub rows: u64,
}

/// A sink for the reference system.
///
/// # Errors
/// * [`Unknown`](cofferdam::ErrorKind::Unknown): no answer came in time.
/// * [`Transient`](cofferdam::ErrorKind::Transient): the system can't be reached, has too many prepared transactions, or
///   has lost an open one in a restart.
/// * [`Fenced`](cofferdam::ErrorKind::Fenced): a newer run is at work, or another process under the same epoch.
/// * [`Rejected`](cofferdam::ErrorKind::Rejected): a row that the system does not take; a handle of another transaction.
/// * [`Configuration`](cofferdam::ErrorKind::Configuration): a wrong password, no rights, a full disk; the system holds
///   output of a run that the checkpoint store doesn't know.
pub struct ReferenceSink<T> {
    pub(crate) client: Client,
    records: PhantomData<fn(T)>,
}

impl<T: Encode> ReferenceSink<T> {
    /// A sink for the system at an address. It connects when it has something to ask, and waits as long as `patience`
    /// for each call.
    pub fn new(address: SocketAddr, password: &str, patience: Duration) -> Self {
        Self::with_discipline(address, password, patience, Discipline::Sound)
    }

    pub(crate) fn with_discipline(
        address: SocketAddr,
        password: &str,
        patience: Duration,
        discipline: Discipline,
    ) -> Self {
        Self {
            client: Client::new(address, Password::new(password), patience, discipline),
            records: PhantomData,
        }
    }
}

impl<T> fmt::Debug for ReferenceSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReferenceSink")
            .field("address", &self.client.address())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<T: Encode> TwoPhaseCommitSinkFunction for ReferenceSink<T> {
    type Input = T;
    type Transaction = OpenTransaction;
    type Prepared = ReferenceHandle;

    fn capabilities(&self) -> Capabilities {
        Capabilities::TRANSACTIONAL
            .with_isolation(Isolation::HiddenIf("read committed"))
            .with_evidence(Evidence::Ledger)
            .with_fencing(Fencing::Server)
            .with_expiry(Some(state::EXPIRY))
            .with_max_prepared(Some(state::MAX_PREPARED))
    }

    async fn begin(&self, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        self.client.within(self.open(id)).await
    }

    async fn write(
        &self,
        transaction: &mut OpenTransaction,
        records: Vec<T>,
    ) -> Result<(), SinkError> {
        // Code of the user's, which may panic: so before anything is touched.
        let rows = records.iter().map(Encode::encode).collect();
        self.client.within(self.append(transaction, rows)).await
    }

    async fn pre_commit(
        &self,
        transaction: OpenTransaction,
    ) -> Result<Option<ReferenceHandle>, SinkError> {
        self.client.within(self.prepare(transaction)).await
    }

    async fn commit(
        &self,
        id: &TransactionId,
        prepared: &ReferenceHandle,
    ) -> Result<Committed, CommitError> {
        self.client.within(self.settle(id, prepared)).await
    }

    async fn abort(
        &self,
        unfinished: Unfinished<OpenTransaction, ReferenceHandle>,
    ) -> Result<(), SinkError> {
        self.client.within(self.undo(unfinished)).await
    }

    async fn abort_stale(&self, fence: &Fence<ReferenceHandle>) -> Result<Vec<InDoubt>, SinkError> {
        self.client.within(self.sweep(fence)).await
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        self.client.within(self.undecided_of(job)).await
    }
}
