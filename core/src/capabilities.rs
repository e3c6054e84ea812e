//! What a sink can do, declared. Every declared capability is exercised by the conformance suite.

use std::time::Duration;

/// Who can finish a prepared transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resume {
    /// Nobody: nothing is held back for a decision. Exactly once is out of reach.
    None,
    /// Any process that has the handle.
    AnyProcess,
}

/// When a reader sees what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Only after commit, whatever a reader of the target does. A staging table or folder that is none of the target counts as
    /// hidden; one within it, which readers have to leave out, does not.
    Hidden,
    /// Only after commit, if the reader uses this setting.
    HiddenIf(&'static str),
    /// At once: before the checkpoint is decided.
    Immediate,
}

/// The unit that becomes visible at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AtomicUnit {
    /// All subtasks of a checkpoint together.
    Checkpoint,
    /// What one subtask wrote for a checkpoint.
    Subtask,
    /// What one subtask wrote for a checkpoint into one partition of the outside system. A reader of several may see one
    /// before the other.
    Partition,
    /// Single records.
    Record,
}

/// What proves, after the fact, that a transaction was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// Nothing does.
    None,
    /// A mark that the commit itself leaves in the outside system.
    Ledger,
    /// The committed data itself, under a name that only this transaction can write.
    Data,
}

/// What keeps an older epoch from interfering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fencing {
    /// Nothing in the sink: only the checkpoint store does.
    None,
    /// The outside system refuses older epochs: once [`abort_stale`](crate::TwoPhaseCommitSinkFunction::abort_stale) of a
    /// newer one is done, an older one fails as [`Fenced`](crate::ErrorKind::Fenced), by its pre-commit at the latest, whether
    /// it began before or begins afterwards.
    Server,
    /// Names carry the epoch, so that older epochs can't meet newer ones. What one of them prepares late stays invisible,
    /// until the next `abort_stale` removes it.
    Names,
}

/// Capabilities of a sink: one of the constants, changed by the `with_` methods.
///
/// ```
/// use cofferdam::{Capabilities, Evidence};
///
/// const LEDGER: Capabilities = Capabilities::TRANSACTIONAL
///     .with_evidence(Evidence::Ledger)
///     .with_max_prepared(Some(1));
/// assert_eq!(LEDGER.evidence, Evidence::Ledger);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Capabilities {
    /// Who can finish a prepared transaction.
    pub resume: Resume,
    /// When a reader sees what was written.
    pub isolation: Isolation,
    /// The unit that becomes visible at one instant.
    pub atomic_unit: AtomicUnit,
    /// What proves that a transaction was committed.
    pub evidence: Evidence,
    /// What keeps an older epoch from interfering.
    pub fencing: Fencing,
    /// Whether [`in_doubt`](crate::TwoPhaseCommitSinkFunction::in_doubt) finds transactions of which no handle is left.
    pub lists_in_doubt: bool,
    /// Whether [`abort_stale`](crate::TwoPhaseCommitSinkFunction::abort_stale) refuses when something is visible of a
    /// newer checkpoint than [`Fence::newest`](crate::Fence::newest): the job was given older state, and would write
    /// again what is already there.
    pub refuses_older_state: bool,
    /// How long the outside system keeps a transaction that is not settled, from its begin or later; `None` if for ever.
    ///
    /// A job is refused if that is too short. It has to last until the decision, for which a transaction may wait for
    /// (checkpoint interval + checkpoint time-out) × (1 + tolerable checkpoint failures), for another checkpoint time-out
    /// while older checkpoints are committed, and for 30 s more, to start again after a crash and commit. With the
    /// defaults of [`Job`](crate::Job) that is 334 s.
    pub expiry: Option<Duration>,
    /// How many prepared transactions a subtask can hold at once; `None` if any number.
    ///
    /// With a limit, a checkpoint waits until the commits before it leave room (at `Some(1)`, for the commit of the one
    /// before), and one that is dropped rolls the job back, since its transaction would ride with the next in addition.
    /// The next transaction is begun and written meanwhile, beside the limit, unless the sink is
    /// [`ordered`](Self::ordered).
    pub max_prepared: Option<usize>,
    /// True if a transaction of a subtask begins only after the one before it is committed.
    ///
    /// For sinks whose writes meet what is already in the target: a delete or an upsert, sent at once, would pass over
    /// rows that are only prepared, or wait for a lock that only the commit before it releases. `max_prepared` alone is
    /// not enough for them: it holds back the next *barrier*, while the next transaction begins with its first record.
    ///
    /// Meanwhile a subtask collects up to 16,384 records and what came with the last of them; above that it holds its
    /// input back. An ordered sink holds one prepared transaction: a job is refused if
    /// [`max_prepared`](Self::max_prepared) is anything but `Some(1)`.
    ///
    /// The order is that of one subtask. To have all records of a key in one subtask, use
    /// [`Stream::sink_by`](crate::Stream::sink_by).
    pub ordered: bool,
}

impl Capabilities {
    /// A sink that keeps the whole contract: hidden until commit, one unit a subtask, resumed by any process from
    /// the handle alone, proven by its data, never expiring.
    pub const TRANSACTIONAL: Self = Self {
        resume: Resume::AnyProcess,
        isolation: Isolation::Hidden,
        atomic_unit: AtomicUnit::Subtask,
        evidence: Evidence::Data,
        fencing: Fencing::Names,
        lists_in_doubt: true,
        refuses_older_state: true,
        expiry: None,
        max_prepared: None,
        ordered: false,
    };

    /// A plain writer: visible at once, nothing to resume.
    pub const AT_LEAST_ONCE: Self = Self {
        resume: Resume::None,
        isolation: Isolation::Immediate,
        atomic_unit: AtomicUnit::Record,
        evidence: Evidence::None,
        fencing: Fencing::None,
        lists_in_doubt: false,
        refuses_older_state: false,
        expiry: None,
        max_prepared: None,
        ordered: false,
    };

    /// Sets [`resume`](Self::resume).
    #[must_use]
    pub const fn with_resume(mut self, resume: Resume) -> Self {
        self.resume = resume;
        self
    }

    /// Sets [`isolation`](Self::isolation).
    #[must_use]
    pub const fn with_isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets [`atomic_unit`](Self::atomic_unit).
    #[must_use]
    pub const fn with_atomic_unit(mut self, atomic_unit: AtomicUnit) -> Self {
        self.atomic_unit = atomic_unit;
        self
    }

    /// Sets [`evidence`](Self::evidence).
    #[must_use]
    pub const fn with_evidence(mut self, evidence: Evidence) -> Self {
        self.evidence = evidence;
        self
    }

    /// Sets [`fencing`](Self::fencing).
    #[must_use]
    pub const fn with_fencing(mut self, fencing: Fencing) -> Self {
        self.fencing = fencing;
        self
    }

    /// Sets [`lists_in_doubt`](Self::lists_in_doubt).
    #[must_use]
    pub const fn with_lists_in_doubt(mut self, lists_in_doubt: bool) -> Self {
        self.lists_in_doubt = lists_in_doubt;
        self
    }

    /// Sets [`refuses_older_state`](Self::refuses_older_state).
    #[must_use]
    pub const fn with_refuses_older_state(mut self, refuses_older_state: bool) -> Self {
        self.refuses_older_state = refuses_older_state;
        self
    }

    /// Sets [`expiry`](Self::expiry).
    #[must_use]
    pub const fn with_expiry(mut self, expiry: Option<Duration>) -> Self {
        self.expiry = expiry;
        self
    }

    /// Sets [`max_prepared`](Self::max_prepared).
    #[must_use]
    pub const fn with_max_prepared(mut self, max_prepared: Option<usize>) -> Self {
        self.max_prepared = max_prepared;
        self
    }

    /// Sets [`ordered`](Self::ordered), and [`max_prepared`](Self::max_prepared) to `Some(1)` if it is `true`.
    #[must_use]
    pub const fn with_ordered(mut self, ordered: bool) -> Self {
        self.ordered = ordered;
        if ordered {
            self.max_prepared = Some(1);
        }
        self
    }
}
