//! What is said between the system and its clients: one JSON request on a line, one JSON answer on a line.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A password, which does not show itself.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Password(String);

impl Password {
    pub(crate) fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What a client asks. Transactions, owners and writers are names that the client chooses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(crate) enum Request {
    /// The first request of whoever wants to write.
    Login { password: Password },
    /// From now on, nobody begins, appends or prepares for this owner under an older epoch.
    Fence { owner: String, epoch: u64 },
    /// Opens a transaction. The number of prepared ones is limited for each writer.
    Begin {
        transaction: String,
        owner: String,
        writer: String,
        epoch: u64,
    },
    /// Adds rows to an open transaction: all, or none if one of them is refused.
    Append {
        transaction: String,
        rows: Vec<String>,
    },
    /// Makes an open transaction durable; the answer is the number of its rows.
    Prepare { transaction: String },
    /// Shows a prepared transaction, and enters it into the ledger.
    Commit { transaction: String },
    /// Drops what is open or prepared.
    Abort { transaction: String },
    /// Looks into the ledger for one transaction.
    Ledger { transaction: String },
    /// All of an owner that is in the ledger.
    Committed { owner: String },
    /// All that is open or prepared, of everybody.
    Undecided,
    /// Adds rows without a transaction: they are visible at once.
    Insert { rows: Vec<String> },
    /// Reads all rows; those not committed only if the reader asks for them.
    Read { committed_only: bool },
    /// What no sound sink asks.
    BackDoor(BackDoor),
}

/// What no sound system offers. Some of the broken sinks need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "door", rename_all = "snake_case")]
pub(crate) enum BackDoor {
    /// Shows the first rows of a prepared transaction, and keeps the others back.
    CommitRows { transaction: String, rows: usize },
    /// Commits in memory only: a crash of the system takes it back.
    CommitInMemory { transaction: String },
}

/// What the system answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Answer {
    Done,
    Prepared {
        rows: u64,
    },
    /// How many rows the transaction had when it was committed; `None` if the ledger does not know it.
    Ledger {
        rows: Option<u64>,
    },
    Committed {
        transactions: Vec<String>,
    },
    Undecided {
        transactions: Vec<Undecided>,
    },
    Rows {
        rows: Vec<StoredRow>,
    },
    Refused {
        refusal: Refusal,
        message: String,
    },
}

/// A transaction that is open or prepared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Undecided {
    pub(crate) transaction: String,
    pub(crate) prepared: bool,
    pub(crate) expires_in_millis: u64,
}

/// A row as readers get it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRow {
    pub(crate) lane: String,
    pub(crate) text: String,
}

/// Why the system does not do what it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Refusal {
    /// Not a request.
    Malformed,
    /// No login, or a wrong one.
    Login,
    NoRights,
    Full,
    /// The owner has a newer epoch.
    Fenced,
    /// A transaction of that name is there, or was committed.
    Exists,
    /// Neither open nor prepared. It may have been committed, aborted, lost, or never begun.
    NoSuchTransaction,
    NotOpen,
    NotPrepared,
    /// It is committed, and stays so.
    IsCommitted,
    /// A row breaks the constraint.
    Constraint,
    Oversize,
    TooManyPrepared,
}
