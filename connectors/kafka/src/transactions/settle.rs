//! Finishing a prepared transaction: the one way, for the process that wrote it and for any other.

use cofferdam::{CommitError, Committed, ErrorKind, SinkError, TransactionId};
use kafka_protocol::ResponseError;

use super::evidence::Proof;
use super::offsets::EVIDENCE_DELAY;
use super::verdict::{Verdict, verdict};
use super::{PreparedTransaction, Producer, Transactions};
use crate::error::sink_error;
use crate::wire::{Deadline, WireError};

/// Within this time offsets do not expire, whatever a sane cluster is set to: 7 days is the default of
/// `offsets.retention.minutes`. Beyond it, evidence that is not there proves nothing.
const EVIDENCE_IS_KEPT: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

impl Transactions {
    /// Commits, unless it is committed already, and returns once readers see it.
    ///
    /// Looks first, then acts: the answers of `EndTxn` alone don't tell a commit from a loss.
    ///
    /// Cancel safety: as a crash. The next call looks again.
    pub(crate) async fn settle(
        &self,
        id: &TransactionId,
        handle: &PreparedTransaction,
    ) -> Result<Committed, CommitError> {
        let deadline = self.cluster.deadline();
        self.check_handle(id, handle, deadline).await?;
        // Whether `EndTxn` may have been carried out for this call.
        let mut sent = false;
        loop {
            let name = &handle.transactional_id;
            let found = match self.describe(name, deadline).await {
                Ok(found) => found,
                Err(error) => return Err(self.not_yet(id, handle, error, sent)),
            };
            let wait = match verdict(handle, found.as_ref()) {
                Verdict::Committed => {
                    return Ok(match sent {
                        true => Committed::Now,
                        false => Committed::Before,
                    });
                }
                Verdict::Commit => {
                    let producer = Producer {
                        id: handle.producer_id,
                        epoch: handle.producer_epoch,
                    };
                    let version = handle.end_txn_version;
                    match self.end(name, producer, version, true, deadline).await {
                        Ok(()) => {
                            sent = true;
                            continue;
                        }
                        Err(error) => {
                            // Where no answer came it may be done; where the answer is no, the state says why.
                            if error.kind() == ErrorKind::Unknown {
                                sent = true;
                            }
                            if !may_look_again(&error) {
                                return Err(self.not_yet(id, handle, error, sent));
                            }
                            error
                        }
                    }
                }
                Verdict::Committing => waiting(name, "is being committed"),
                Verdict::Unclear(state) => waiting(name, &state),
                Verdict::AskEvidence(words) => {
                    return self.by_evidence(id, handle, &words, deadline).await;
                }
            };
            if let Err(error) = deadline.pause("EndTxn", wait).await {
                return Err(self.not_yet(id, handle, error, sent));
            }
        }
    }

    /// Aborts a prepared transaction. What is not there any more is aborted; what is committed is refused.
    ///
    /// Cancel safety: as a crash. The next call looks again.
    pub(crate) async fn undo(
        &self,
        id: &TransactionId,
        handle: &PreparedTransaction,
    ) -> Result<(), SinkError> {
        let name = &handle.transactional_id;
        let deadline = self.cluster.deadline();
        let failed = |error| sink_error(format!("can't abort transaction {id} ({name})"), error);
        self.check_handle(id, handle, deadline).await?;
        let committed = || {
            SinkError::rejected(format!(
                "transaction {id} ({name}) is committed, and can't be aborted"
            ))
        };
        loop {
            let found = self.describe(name, deadline).await.map_err(failed)?;
            let wait = match verdict(handle, found.as_ref()) {
                Verdict::Committed | Verdict::Committing => return Err(committed()),
                Verdict::AskEvidence(_) => {
                    let evidence = self.evidence(&handle.evidence_group, deadline).await;
                    return match evidence.map_err(failed)?.map(|evidence| evidence.of(id)) {
                        Some(Proof::Committed) => Err(committed()),
                        _ => Ok(()),
                    };
                }
                Verdict::Unclear(state) => waiting(name, &state),
                Verdict::Commit => {
                    let producer = Producer {
                        id: handle.producer_id,
                        epoch: handle.producer_epoch,
                    };
                    let version = handle.end_txn_version;
                    match self.end(name, producer, version, false, deadline).await {
                        Ok(()) => continue,
                        Err(error) if may_look_again(&error) => error,
                        Err(error) => return Err(failed(error)),
                    }
                }
            };
            deadline.pause("EndTxn", wait).await.map_err(failed)?;
        }
    }

    /// What the evidence says, when the id itself no longer tells.
    async fn by_evidence(
        &self,
        id: &TransactionId,
        handle: &PreparedTransaction,
        words: &str,
        deadline: Deadline,
    ) -> Result<Committed, CommitError> {
        let group = &handle.evidence_group;
        let read = || async {
            let read = self.evidence(group, deadline).await;
            read.map_err(|error| self.not_yet(id, handle, error, false))
        };
        let mut evidence = read().await?;
        if evidence.as_ref().map(|evidence| evidence.of(id)) != Some(Proof::Committed) {
            // A group learns of a commit a little after the transaction's coordinator: before a loss, look twice.
            tokio::time::sleep(EVIDENCE_DELAY).await;
            evidence = read().await?;
        }
        let proof = match &evidence {
            Some(evidence) => evidence.of(id),
            None if handle.age() < EVIDENCE_IS_KEPT => Proof::NotCommitted,
            None => Proof::Forgotten,
        };
        match proof {
            Proof::Committed => Ok(Committed::Before),
            Proof::NotCommitted => Err(CommitError::Lost(format!(
                "{} records under transactional id {} of cluster {}: {words}, and group {group} has no evidence that it \
                 was committed",
                handle.records, handle.transactional_id, handle.cluster
            ))),
            Proof::Forgotten => Err(CommitError::NotYet(
                SinkError::configuration(format!(
                    "nobody knows whether transaction {id} was committed: {words}, and group {group} reaches no longer \
                     back that far"
                ))
                .hint("look for its records in the topic; if they are missing, accept the loss of this transaction"),
            )),
        }
    }

    /// A handle is of use for its own transaction, and at its own cluster: others may know the same names.
    async fn check_handle(
        &self,
        id: &TransactionId,
        handle: &PreparedTransaction,
        deadline: Deadline,
    ) -> Result<(), SinkError> {
        if *id != handle.transaction {
            return Err(SinkError::configuration(format!(
                "the handle of transaction {id} is that of {}",
                handle.transaction
            )));
        }
        let cluster = self.cluster.id(deadline).await;
        let cluster =
            cluster.map_err(|error| sink_error("can't ask for the cluster's id", error))?;
        if cluster == handle.cluster {
            return Ok(());
        }
        Err(SinkError::configuration(format!(
            "transaction {id} was prepared at cluster {}, and this is cluster {cluster}",
            handle.cluster
        ))
        .hint("connect the sink to the cluster that it was connected to"))
    }

    fn not_yet(
        &self,
        id: &TransactionId,
        handle: &PreparedTransaction,
        error: WireError,
        sent: bool,
    ) -> CommitError {
        let left = match handle.expires_in() {
            None => "it does not expire".to_owned(),
            Some(left) => format!("{} s are left before the cluster aborts it", left.as_secs()),
        };
        let what = format!(
            "transaction {id} ({}) is not committed yet; {left}",
            handle.transactional_id
        );
        let error = sink_error(what, error);
        CommitError::NotYet(match sent && error.kind() == ErrorKind::Transient {
            true => SinkError::unknown(error.to_string()),
            false => error,
        })
    }
}

fn waiting(name: &str, state: &str) -> WireError {
    WireError::Pending(format!("transaction {name} {state}"))
}

/// Whether a second look at the transaction tells what to make of this refusal.
fn may_look_again(error: &WireError) -> bool {
    use ResponseError::{
        ConcurrentTransactions, InvalidProducerEpoch, InvalidProducerIdMapping, InvalidTxnState,
        ProducerFenced,
    };
    match error {
        WireError::Refused { code, .. } => {
            error.is_retriable()
                || matches!(
                    ResponseError::try_from_code(*code),
                    Some(
                        ConcurrentTransactions
                            | InvalidProducerEpoch
                            | InvalidProducerIdMapping
                            | InvalidTxnState
                            | ProducerFenced
                    )
                )
        }
        error => error.is_retriable(),
    }
}
