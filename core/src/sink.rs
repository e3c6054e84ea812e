//! The sink contract: begin → write → pre-commit → decision → commit or abort.

use std::fmt::{self, Debug};
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::capabilities::Capabilities;
use crate::error::SinkError;
use crate::identity::{CheckpointId, Epoch, JobId, SinkId, SubtaskIndex, TransactionId};

/// A sink that holds back what it writes until the checkpoint around it is decided.
///
/// The runtime drives it: records between two barriers are written into one transaction; at the barrier the
/// transaction is pre-committed and its handle becomes part of the checkpoint; once the checkpoint is decided the
/// transaction is committed, by this process or by any later one that reads the handle.
///
/// ```text
///          begin ──► Transaction ──pre_commit──► Prepared ──commit──► visible, once
///                        │                           │
///                      abort                       abort (only by decision, or of an older epoch)
/// ```
///
/// # Who calls what
/// Within a subtask `begin`, `write` and `pre_commit` come one after another. `commit` runs beside the writes of the
/// next transactions; of one subtask, one commit at a time, in the order of checkpoints. The next transaction begins with
/// its first record, before the one before it is committed or even decided, unless the sink declares
/// [`Capabilities::ordered`]. During recovery `commit` and `abort_stale` come before any `begin`; a late `abort_stale`
/// ([`Sweep::Late`]) runs beside all of these. The sink is shared by all subtasks of its job: methods take `&self`.
///
/// # Rules
/// * Nothing is visible, at the declared isolation, before `commit`.
/// * A name in the outside system is a pure function of the [`TransactionId`], or one out of a bounded pool: it tells job,
///   sink, epoch and subtask at least, and one of a pool is used again only after what it named is settled.
/// * After `pre_commit` returned, only `abort` with this very handle, or `abort_stale` of a newer epoch, may undo
///   it: dropping the sink, closing it or losing a connection leaves prepared work alone.
/// * An outcome without proof is [`ErrorKind::Unknown`](crate::ErrorKind::Unknown), never success, never failure.
///
/// # Cancellation
/// A future of any method may be dropped at any await: that is a crash, as far as the sink is concerned. The sink must
/// stay usable (no half-used connection goes back to a pool); what the call did is unknown, and is resolved by a later
/// `commit` or `abort_stale`. Work that was handed to a thread or a server goes on, and may be done *after* the next call
/// has begun.
///
/// # Panics
/// A panic in a method ends the run as an error would; the job starts again, with the same instance.
///
/// A system that stages under a name and publishes by that name needs less: [`StagedSink`](crate::StagedSink). The page
/// [`docs::writing_a_sink`](crate::docs::writing_a_sink) explains both.
#[async_trait]
pub trait TwoPhaseCommitSinkFunction: Debug + Send + Sync + 'static {
    /// What the pipeline hands over.
    type Input: Send + 'static;
    /// An open transaction: connections and buffers. Lives and dies in this process.
    type Transaction: Send + 'static;
    /// The handle of a prepared transaction: all that another process needs to finish it, with the evidence to tell
    /// committed from lost. It is stored as JSON in a versioned, checksummed envelope; so new fields need
    /// `#[serde(default)]`, or an older checkpoint can't be resumed.
    type Prepared: Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static;

    /// What this sink can do. Constant over its life.
    fn capabilities(&self) -> Capabilities;

    /// Opens a transaction. Called when its first record is there, so a checkpoint without records asks nothing. The
    /// transaction before it may still be prepared; it is committed if the sink is [ordered](Capabilities::ordered).
    ///
    /// *Must* be invisible to readers, and must not disturb transactions prepared by anyone.
    /// *After an error* nothing is open; what may be left in the outside system is found by `abort_stale`.
    async fn begin(&self, id: &TransactionId) -> Result<Self::Transaction, SinkError>;

    /// Writes a batch of records, in order. May buffer.
    ///
    /// *After an error* the transaction is aborted; the job rolls back and writes the records again.
    async fn write(
        &self,
        transaction: &mut Self::Transaction,
        records: Vec<Self::Input>,
    ) -> Result<(), SinkError>;

    /// Makes the transaction durable in the outside system, still invisible, and returns its handle; `None` if there
    /// is nothing to commit (a handle for an empty transaction is fine too).
    ///
    /// *Must* find what the outside system will not take: after the decision it is too late to refuse a record.
    /// *Must* leave it so that any process with the handle can commit it, after any crash of this one.
    /// *After an error* the open transaction is gone: the sink has let go of it or leaves it to `abort_stale`. The
    /// participant votes abort, and the job rolls back.
    async fn pre_commit(
        &self,
        transaction: Self::Transaction,
    ) -> Result<Option<Self::Prepared>, SinkError>;

    /// Makes a prepared transaction visible. Also settles it during recovery.
    ///
    /// *Must* be idempotent, from any process, at the same time as others, and must look at the evidence before it
    /// says [`CommitError::Lost`]: "unknown transaction" alone proves nothing.
    /// *After an error* it is called again for as long as the error's kind is retriable; another kind stops the job,
    /// with the handle kept in the checkpoint.
    async fn commit(
        &self,
        id: &TransactionId,
        prepared: &Self::Prepared,
    ) -> Result<Committed, CommitError>;

    /// Undoes an open transaction, or a prepared one whose checkpoint was decided against.
    ///
    /// *Must* be idempotent, and must refuse ([`ErrorKind::Rejected`](crate::ErrorKind::Rejected)) what is committed.
    async fn abort(
        &self,
        unfinished: Unfinished<Self::Transaction, Self::Prepared>,
    ) -> Result<(), SinkError>;

    /// Undoes all that epochs older than [`Fence::epoch`] left open or prepared for this job and sink, but for what a
    /// decided checkpoint names ([`Fence::decided`]). Returns what was undone, for the log.
    ///
    /// Called in recovery, before the run begins anything, and once more while the run works, beside all other calls:
    /// [`Fence::sweep`] tells the two apart. A transient error repeats the call.
    ///
    /// *Must not* touch anything of the fence's own epoch or a newer one, of another job, or of another sink.
    /// *Must* fail with [`ErrorKind::Fenced`](crate::ErrorKind::Fenced), and abort nothing, if it finds work of this job
    /// and sink that [`Fence::check`] refuses: prepared, committed, or open where the sink can list that. Where the
    /// outside system can refuse older epochs ([`Fencing::Server`](crate::Fencing::Server)), it learns of the new one here.
    async fn abort_stale(&self, fence: &Fence<Self::Prepared>) -> Result<Vec<InDoubt>, SinkError>;

    /// Everything of this job that is in doubt now: for the operator, the conformance suite and the metrics.
    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError>;
}

/// How a transaction came to be committed.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Committed {
    /// This call committed it.
    Now,
    /// An earlier call had: the evidence says so.
    Before,
}

/// Why a transaction is not committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Not yet, or not known to be: a retriable kind is tried again, with backoff, for ever.
    #[error(transparent)]
    NotYet(#[from] SinkError),
    /// Proven: the outside system no longer has the transaction and has no evidence of it. Stops the job.
    #[error("the prepared transaction is lost: {0}")]
    Lost(String),
}

/// A transaction to undo.
#[derive(Debug)]
pub enum Unfinished<T, P> {
    /// Never pre-committed.
    Open(TransactionId, T),
    /// Pre-committed, and its checkpoint decided against.
    Prepared(TransactionId, P),
}

/// The moment at which a run calls [`abort_stale`](TwoPhaseCommitSinkFunction::abort_stale).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sweep {
    /// In recovery: the run has begun nothing. An epoch is taken in the log before anything of it exists, so work of the
    /// fence's own epoch was made under another log: a copy of the checkpoint folder, or an older state of it.
    Recovery,
    /// While the run works, to find what an overtaken run opened after the recovery. Work of the fence's own epoch is
    /// the run's own, and is left alone. The run commits meanwhile, so [`Fence::newest`] is not the newest checkpoint any
    /// more, and visible output is not compared with it.
    Late,
}

/// The line that a new epoch draws between its own work and that of older epochs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fence<P> {
    /// The job that sweeps.
    pub job: JobId,
    /// The sink that is asked.
    pub sink: SinkId,
    /// The run's epoch. Only what is older may be undone.
    pub epoch: Epoch,
    /// The newest checkpoint that was decided when the run recovered; `None` if there was none. In recovery, what is
    /// visible of a newer one was committed by a run that the checkpoint store does not know: its records would be written
    /// again, so a sink that can see it refuses, with [`ErrorKind::Configuration`](crate::ErrorKind::Configuration).
    pub newest: Option<CheckpointId>,
    /// What that checkpoint names. To be spared, whether or not it is committed; the runtime commits it before this call. So
    /// the name of one, out of a pool, may be that of a later transaction by now, which is not to be spared.
    pub decided: Vec<(TransactionId, P)>,
    /// The moment of the call.
    pub sweep: Sweep,
}

impl<P> Fence<P> {
    /// A fence for recovery, where no checkpoint is decided yet.
    pub fn new(job: JobId, sink: SinkId, epoch: Epoch) -> Self {
        Self {
            job,
            sink,
            epoch,
            newest: None,
            decided: Vec::new(),
            sweep: Sweep::Recovery,
        }
    }

    /// The same fence, with other handles: for a sink that wraps another.
    pub fn with_decided<Q>(&self, decided: Vec<(TransactionId, Q)>) -> Fence<Q> {
        Fence {
            job: self.job.clone(),
            sink: self.sink.clone(),
            epoch: self.epoch,
            newest: self.newest,
            decided,
            sweep: self.sweep,
        }
    }

    /// Checks the epoch of work that was found of this job and sink; `work` names it in the error.
    ///
    /// # Errors
    /// [`ErrorKind::Fenced`](crate::ErrorKind::Fenced) if the epoch is newer than the fence's, or in recovery the same.
    pub fn check(&self, epoch: Epoch, work: impl fmt::Display) -> Result<(), SinkError> {
        if epoch < self.epoch || (self.sweep == Sweep::Late && epoch == self.epoch) {
            return Ok(());
        }
        Err(SinkError::fenced(format!(
            "{work} is of epoch {epoch}, and this run has epoch {}: it belongs to a newer run than the checkpoint store knows",
            self.epoch
        ))
        .hint(
            "is another process running this job? If none is, the checkpoint folder is new, or an older copy: bring back \
             the checkpoints that belong to this output, or choose another job id",
        ))
    }
}

/// A transaction that is prepared or left open, whose outcome its holder doesn't know. Printed as its id, with `?` for
/// what is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InDoubt {
    /// The job that owns it.
    pub job: JobId,
    /// The sink that wrote it.
    pub sink: SinkId,
    /// The run of the job that began it.
    pub epoch: Epoch,
    /// The sink's subtask that began it.
    pub subtask: SubtaskIndex,
    /// The checkpoint whose barrier ends it; `None` if another process wrote it, and its name, being one of a pool, does not
    /// tell.
    pub checkpoint: Option<CheckpointId>,
    /// Where to find it in the outside system: a path, a transaction id.
    pub location: String,
    /// How long the outside system still keeps it; `None` if for ever.
    pub expires_in: Option<Duration>,
}

impl InDoubt {
    /// One of which all is known, and which the outside system keeps for ever.
    pub fn new(id: &TransactionId, location: impl Into<String>) -> Self {
        Self {
            job: id.job.clone(),
            sink: id.sink.clone(),
            epoch: id.epoch,
            subtask: id.subtask,
            checkpoint: Some(id.checkpoint),
            location: location.into(),
            expires_in: None,
        }
    }

    /// One of an unknown checkpoint, which the outside system keeps for ever.
    pub fn of_unknown_checkpoint(
        job: JobId,
        sink: SinkId,
        epoch: Epoch,
        subtask: SubtaskIndex,
        location: impl Into<String>,
    ) -> Self {
        Self {
            job,
            sink,
            epoch,
            subtask,
            checkpoint: None,
            location: location.into(),
            expires_in: None,
        }
    }

    /// Sets [`expires_in`](Self::expires_in).
    #[must_use]
    pub fn with_expires_in(mut self, expires_in: Option<Duration>) -> Self {
        self.expires_in = expires_in;
        self
    }

    /// Whether it may be this transaction: all that is known of it is equal.
    pub fn may_be(&self, id: &TransactionId) -> bool {
        self.job == id.job
            && self.sink == id.sink
            && self.epoch == id.epoch
            && self.subtask == id.subtask
            && self.checkpoint.is_none_or(|known| known == id.checkpoint)
    }

    /// Its id; `None` if its checkpoint is not known.
    pub fn id(&self) -> Option<TransactionId> {
        Some(TransactionId {
            job: self.job.clone(),
            sink: self.sink.clone(),
            epoch: self.epoch,
            subtask: self.subtask,
            checkpoint: self.checkpoint?,
        })
    }
}

impl fmt::Display for InDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            job,
            sink,
            epoch,
            subtask,
            ..
        } = self;
        write!(f, "{job}/{sink}/{epoch}/{subtask}/")?;
        match self.checkpoint {
            Some(checkpoint) => write!(f, "{checkpoint}"),
            None => f.write_str("?"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> TransactionId {
        text.parse().unwrap()
    }

    #[test]
    fn work_of_its_own_epoch_is_refused_in_recovery_alone() {
        let this = id("job/sink/1/2/3");
        let mut fence: Fence<()> = Fence::new(this.job, this.sink, Epoch(5));
        for (sweep, refused) in [(Sweep::Recovery, 5), (Sweep::Late, 6)] {
            fence.sweep = sweep;
            for epoch in 4..8 {
                let kind = fence
                    .check(Epoch(epoch), "it")
                    .err()
                    .map(|error| error.kind());
                let fenced = epoch >= refused;
                assert_eq!(
                    kind,
                    fenced.then_some(crate::ErrorKind::Fenced),
                    "{sweep:?}, {epoch}"
                );
            }
        }
    }

    #[test]
    fn one_of_which_all_is_known_is_that_transaction_alone() {
        let this = id("job/sink/1/2/3");
        let found = InDoubt::new(&this, "here");
        assert_eq!(found.to_string(), this.to_string());
        assert_eq!(found.id().as_ref(), Some(&this));
        assert!(found.may_be(&this));
        for other in OTHERS.into_iter().chain(["job/sink/1/2/4"]) {
            assert!(!found.may_be(&id(other)), "{other}");
        }
    }

    #[test]
    fn one_of_an_unknown_checkpoint_may_be_of_any() {
        let (job, sink) = (JobId::new("job").unwrap(), SinkId::new("sink").unwrap());
        let found = InDoubt::of_unknown_checkpoint(job, sink, Epoch(1), SubtaskIndex(2), "here");
        assert_eq!(found.to_string(), "job/sink/1/2/?");
        assert_eq!(found.id(), None);
        for checkpoint in ["job/sink/1/2/3", "job/sink/1/2/4"] {
            assert!(found.may_be(&id(checkpoint)), "{checkpoint}");
        }
        for other in OTHERS {
            assert!(!found.may_be(&id(other)), "{other}");
        }
    }

    /// Those that differ in one part that is always known.
    const OTHERS: [&str; 4] = [
        "job2/sink/1/2/3",
        "job/sink2/1/2/3",
        "job/sink/2/2/3",
        "job/sink/1/1/3",
    ];
}
