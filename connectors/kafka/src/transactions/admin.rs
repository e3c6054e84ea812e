//! For operators: a look at transactions, and an end to them by hand.

use std::sync::Arc;

use cofferdam::{CommitError, Committed, SinkError, TransactionId};

use super::{FENCED_TIMEOUT, PreparedTransaction, TransactionDescription, Transactions};
use crate::connection::KafkaConnection;
use crate::error::sink_error;
use crate::wire::Cluster;

/// Looks at the transactions of a cluster, and ends them by hand.
///
/// Running the job does all this by itself; this is for a job that never comes back, and for a look from outside. The
/// page [`docs::operations`](crate::docs::operations) says when to use it.
///
/// All calls need DESCRIBE on transactional ids, those that end something WRITE too; they fail with errors of the same
/// kinds as the sink's. Kafka leaves out of a list what a user may not look at, and does not say so.
#[derive(Debug, Clone)]
pub struct TransactionAdmin {
    transactions: Transactions,
}

impl TransactionAdmin {
    /// For the transactions of this cluster.
    pub fn new(connection: &KafkaConnection) -> Self {
        let cluster = Arc::new(Cluster::new(connection.clone()));
        Self {
            transactions: Transactions::new(cluster),
        }
    }

    /// The newest transaction of each transactional id that begins with `prefix`, from all brokers, in the order of ids.
    ///
    /// # Errors
    /// If a broker does not answer, or refuses to tell.
    pub async fn list(&self, prefix: &str) -> Result<Vec<TransactionDescription>, SinkError> {
        let deadline = self.transactions.cluster.deadline();
        let failed = |error| sink_error("can't list transactions", error);
        let listed = self
            .transactions
            .list(prefix, deadline)
            .await
            .map_err(failed)?;
        let ids = listed.into_iter().map(|(id, _)| id).collect();
        self.transactions
            .describe_all(ids, deadline)
            .await
            .map_err(failed)
    }

    /// The newest transaction of a transactional id; `None` if the cluster does not know the id (any more).
    ///
    /// # Errors
    /// If its coordinator does not answer, or refuses to tell.
    pub async fn describe(
        &self,
        transactional_id: &str,
    ) -> Result<Option<TransactionDescription>, SinkError> {
        let deadline = self.transactions.cluster.deadline();
        let found = self.transactions.describe(transactional_id, deadline).await;
        found.map_err(|error| sink_error(format!("can't look at {transactional_id}"), error))
    }

    /// Commits a prepared transaction of a decided checkpoint, as the job would.
    ///
    /// # Errors
    /// As [`TwoPhaseCommitSinkFunction::commit`](cofferdam::TwoPhaseCommitSinkFunction::commit).
    pub async fn commit(
        &self,
        id: &TransactionId,
        prepared: &PreparedTransaction,
    ) -> Result<Committed, CommitError> {
        self.transactions.settle(id, prepared).await
    }

    /// Aborts what is open or prepared under a transactional id, and fences its producer.
    ///
    /// What a decided checkpoint names and is not committed yet is **lost** by this.
    ///
    /// # Errors
    /// If its coordinator does not answer, or refuses.
    pub async fn abort(&self, transactional_id: &str) -> Result<(), SinkError> {
        let deadline = self.transactions.cluster.deadline();
        let fenced = self
            .transactions
            .take_over(transactional_id, FENCED_TIMEOUT, deadline)
            .await;
        let failed = |error| sink_error(format!("can't abort {transactional_id}"), error);
        fenced.map(drop).map_err(failed)
    }
}
