//! What a bug may change.

use std::fmt::{self, Debug};

use cofferdam::{
    Capabilities, CommitError, Committed, Fence, InDoubt, JobId, SinkError, TransactionId,
    TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};
use serde::{Deserialize, Serialize};

use crate::reference::{Encode, OpenTransaction, ReferenceHandle, ReferenceRecord, ReferenceSink};

/// The sink in which the bugs are.
pub type Sink = ReferenceSink<ReferenceRecord>;

/// What is known of a broken sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Its number: `M1` and so on.
    pub id: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What is wrong with it.
    pub fault: &'static str,
    /// Where such a fault was seen in the world.
    pub seen: &'static str,
    /// The checks that are there to catch it. Others may catch it too.
    pub caught_by: &'static [&'static str],
}

/// A bug with a description, which the macro `bug!` writes.
pub trait Described {
    /// What is known of it.
    const ABOUT: About;
}

/// A call of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `begin`
    Begin,
    /// `write`
    Write,
    /// `pre_commit`
    PreCommit,
    /// `commit`
    Commit,
    /// `abort`
    Abort,
    /// `abort_stale`
    AbortStale,
    /// `in_doubt`
    InDoubt,
}

/// A handle, and what a bug wants to find in it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedHandle {
    /// The handle of the sound sink.
    #[serde(flatten)]
    pub handle: ReferenceHandle,
    /// Anything.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl From<ReferenceHandle> for NotedHandle {
    fn from(handle: ReferenceHandle) -> Self {
        Self {
            handle,
            note: String::new(),
        }
    }
}

/// Records as rows, by code of the user's.
pub(super) fn encode(records: &[ReferenceRecord]) -> Vec<String> {
    records.iter().map(Encode::encode).collect()
}

/// One fault in an otherwise sound sink. What is not overridden is as it should be. The value lives as long as its sink,
/// and dies with it, as a process would.
#[async_trait]
pub trait Bug: Described + Debug + Default + Send + Sync + 'static {
    /// Whether a connection of a call that was dropped is used again.
    const RETURNS_BUSY_CONNECTIONS: bool = false;

    /// What the sink declares.
    fn capabilities(&self, sink: &Sink) -> Capabilities {
        sink.capabilities()
    }

    /// Whether the call ends when the system does not answer.
    fn has_deadline(&self, _call: Call) -> bool {
        true
    }

    /// What the sink shows of itself.
    fn show(&self, sink: &Sink, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        sink.fmt(f)
    }

    /// Reads a handle.
    fn decode(json: serde_json::Value) -> Result<NotedHandle, serde_json::Error> {
        serde_json::from_value(json)
    }

    /// When the sink is opened.
    async fn opened(&self, _sink: &Sink) -> Result<(), SinkError> {
        Ok(())
    }

    /// When the sink is dropped.
    fn closed(&self, _sink: &Sink) {}

    /// See [`TwoPhaseCommitSinkFunction::begin`].
    async fn begin(&self, sink: &Sink, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        sink.open(id).await
    }

    /// See [`TwoPhaseCommitSinkFunction::write`].
    async fn write(
        &self,
        sink: &Sink,
        transaction: &mut OpenTransaction,
        records: Vec<ReferenceRecord>,
    ) -> Result<(), SinkError> {
        sink.append(transaction, encode(&records)).await
    }

    /// See [`TwoPhaseCommitSinkFunction::pre_commit`].
    async fn pre_commit(
        &self,
        sink: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        Ok(sink.prepare(transaction).await?.map(NotedHandle::from))
    }

    /// See [`TwoPhaseCommitSinkFunction::commit`].
    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        sink.settle(id, &prepared.handle).await
    }

    /// See [`TwoPhaseCommitSinkFunction::abort`].
    async fn abort(
        &self,
        sink: &Sink,
        unfinished: Unfinished<OpenTransaction, ReferenceHandle>,
    ) -> Result<(), SinkError> {
        sink.undo(unfinished).await
    }

    /// See [`TwoPhaseCommitSinkFunction::abort_stale`].
    async fn abort_stale(
        &self,
        sink: &Sink,
        fence: &Fence<ReferenceHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        sink.sweep(fence).await
    }

    /// See [`TwoPhaseCommitSinkFunction::in_doubt`].
    async fn in_doubt(&self, sink: &Sink, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        sink.undecided_of(job).await
    }
}

/// Declares a bug: what its doc comment says is the fault.
macro_rules! bug {
    (
        $(#[doc = $line:literal])+
        $name:ident $({ $($field:ident: $type:ty),+ $(,)? })?, $id:literal,
        seen: $seen:literal,
        caught_by: [$($check:literal),+ $(,)?] $(,)?
    ) => {
        $(#[doc = $line])+
        #[derive(Debug, Default)]
        pub struct $name { $($($field: $type),+)? }

        impl $crate::mutants::bug::Described for $name {
            const ABOUT: $crate::mutants::bug::About = $crate::mutants::bug::About {
                id: $id,
                name: stringify!($name),
                fault: concat!($($line),+).trim_ascii(),
                seen: $seen,
                caught_by: &[$($check),+],
            };
        }
    };
}
pub(super) use bug;
