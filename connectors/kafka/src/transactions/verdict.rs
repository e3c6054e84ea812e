//! What to do about a prepared transaction, given what the cluster says of its id. Pure.

use super::description::{TransactionDescription, TransactionState};
use super::handle::PreparedTransaction;

/// What the cluster's words mean for a handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is there and undecided: send `EndTxn`.
    Commit,
    /// It is being committed: wait until all partitions know.
    Committing,
    /// It is committed.
    Committed,
    /// These words fit both a commit long ago and a loss: only the evidence tells. With the words, for the message.
    AskEvidence(String),
    /// Words that we don't know: ask again.
    Unclear(String),
}

impl PreparedTransaction {
    /// Whether this is the transaction that the cluster tells of, and not one after it under the same id.
    ///
    /// Producer and epoch alone prove nothing: one epoch could write two transactions, one after the other, and the next
    /// producer under the id has the next epoch. But that is what this transaction has too once the broker aborts it, or
    /// tries to, or `EndTxn` of version 5 ends it, which only a tool of others would send. So the start tells.
    pub(crate) fn is_newest(&self, found: &TransactionDescription) -> bool {
        let raised = self.producer_epoch.checked_add(1);
        let epochs = [Some(self.producer_epoch), raised];
        found.transactional_id == self.transactional_id
            && found.producer_id == self.producer_id
            && found.started_at == self.started_at
            && epochs.contains(&Some(found.producer_epoch))
    }
}

/// Compares a handle with what the cluster says.
///
/// Even an abort of this very transaction is not proof that it was not committed: in Kafka 4 an abort by version 5 *after* a
/// commit succeeds, changes no record, and leaves these words.
pub(crate) fn verdict(
    handle: &PreparedTransaction,
    description: Option<&TransactionDescription>,
) -> Verdict {
    let Some(found) = description else {
        return Verdict::AskEvidence("the cluster does not know its transactional id".to_owned());
    };
    let same_epoch = found.producer_epoch == handle.producer_epoch;
    let ours = handle.is_newest(found);
    match &found.state {
        TransactionState::Other(name) => Verdict::Unclear(format!("it is {name}")),
        TransactionState::Ongoing if ours && same_epoch => Verdict::Commit,
        // An abort that the broker could not write down yet. Nothing is lost until it is.
        TransactionState::Ongoing if ours => Verdict::Unclear("its producer is fenced".to_owned()),
        TransactionState::PrepareCommit if ours => Verdict::Committing,
        TransactionState::CompleteCommit if ours => Verdict::Committed,
        TransactionState::PrepareAbort | TransactionState::CompleteAbort if ours => {
            Verdict::AskEvidence(match handle.expires_at() {
                Some(at) if super::handle::now() >= at => {
                    format!(
                        "it was aborted, as it was not committed within {} ms",
                        handle.timeout
                    )
                }
                _ => "it was aborted".to_owned(),
            })
        }
        state => Verdict::AskEvidence(format!(
            "its transactional id went on without it: {state}, producer {} epoch {}, started at {}",
            found.producer_id, found.producer_epoch, found.started_at
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

    use super::*;

    const START: i64 = 1_795_963_410_235;

    fn handle() -> PreparedTransaction {
        PreparedTransaction {
            transaction: "job/sink/1/0/7".parse().expect("an id"),
            cluster: "cluster".to_owned(),
            transactional_id: "cofferdam.job.sink.1.0.0".to_owned(),
            producer_id: 14,
            producer_epoch: 3,
            started_at: START,
            timeout: 60_000,
            end_txn_version: 4,
            evidence_group: "cofferdam.job.sink.0".to_owned(),
            records: 10,
        }
    }

    fn found(state: &str, producer_id: i64, producer_epoch: i16, started_at: i64) -> Verdict {
        let description = TransactionDescription {
            transactional_id: handle().transactional_id,
            state: TransactionState::parse(state),
            producer_id,
            producer_epoch,
            timeout: 60_000,
            started_at,
            partitions: Vec::new(),
        };
        verdict(&handle(), Some(&description))
    }

    /// Each row was seen on real brokers, of transaction versions 0 to 2.
    #[test]
    fn every_row_of_the_table() {
        assert_eq!(found("Ongoing", 14, 3, START), Verdict::Commit);
        assert_eq!(found("PrepareCommit", 14, 3, START), Verdict::Committing);
        assert_eq!(found("CompleteCommit", 14, 3, START), Verdict::Committed);
        // Committed by version 5.
        assert_eq!(found("PrepareCommit", 14, 4, START), Verdict::Committing);
        assert_eq!(found("CompleteCommit", 14, 4, START), Verdict::Committed);
        for (state, producer, epoch, start) in [
            ("Ongoing", 14, 3, START + 1), // a second transaction of the same producer
            ("Ongoing", 14, 4, START + 9), // the next one
            ("Ongoing", 14, 5, START + 9), // a newer one
            ("Ongoing", 15, 3, START),     // another producer, after the epochs were used up
            ("Empty", 14, 3, -1),          // prepared by nobody
            ("Empty", 14, 5, -1),          // fenced
            ("Empty", 15, 0, -1),          // fenced, with a new producer
            ("PrepareAbort", 14, 4, START), // time is over
            ("CompleteAbort", 14, 4, START), // time is over, or an abort after a commit
            ("CompleteAbort", 14, 3, START), // aborted by request
            ("CompleteCommit", 14, 3, START + 1),
            ("CompleteCommit", 14, 5, START + 9),
        ] {
            let verdict = found(state, producer, epoch, start);
            assert!(
                matches!(verdict, Verdict::AskEvidence(_)),
                "{state} {producer} {epoch} {start}: {verdict:?}"
            );
        }
        assert!(matches!(verdict(&handle(), None), Verdict::AskEvidence(_)));
        for (state, epoch) in [("Dead", 3), ("Ongoing", 4)] {
            let verdict = found(state, 14, epoch, START);
            assert!(matches!(verdict, Verdict::Unclear(_)), "{state} {epoch}");
        }
    }
}
