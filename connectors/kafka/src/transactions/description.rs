//! What a cluster says of a transaction.

use std::fmt;

/// Where a transaction stands, as `DescribeTransactions` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionState {
    /// The id is initialised, and nothing was written under it since.
    Empty,
    /// Open, or prepared: Kafka knows no difference.
    Ongoing,
    /// Decided to be committed; not all partitions know it yet.
    PrepareCommit,
    /// Committed.
    CompleteCommit,
    /// Decided to be aborted; not all partitions know it yet.
    PrepareAbort,
    /// Aborted.
    CompleteAbort,
    /// Another state, which says nothing certain to us.
    Other(String),
}

impl TransactionState {
    pub(crate) fn parse(name: &str) -> Self {
        match name {
            "Empty" => Self::Empty,
            "Ongoing" => Self::Ongoing,
            "PrepareCommit" => Self::PrepareCommit,
            "CompleteCommit" => Self::CompleteCommit,
            "PrepareAbort" => Self::PrepareAbort,
            "CompleteAbort" => Self::CompleteAbort,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for TransactionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(name) => f.write_str(name),
            known => write!(f, "{known:?}"),
        }
    }
}

/// The newest transaction of a transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionDescription {
    /// The id.
    pub transactional_id: String,
    /// Where it stands.
    pub state: TransactionState,
    /// The producer that has the id now.
    pub producer_id: i64,
    /// That producer's epoch.
    pub producer_epoch: i16,
    /// How long the cluster keeps the transaction, in milliseconds.
    pub timeout: i64,
    /// When it began, in milliseconds since 1970; -1 if nothing did since the id was initialised.
    pub started_at: i64,
    /// The partitions that it has written to, as `topic[partition]`, less those that know its end already.
    pub partitions: Vec<String>,
}
