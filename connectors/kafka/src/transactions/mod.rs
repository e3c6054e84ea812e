//! Transactions on the brokers: look at them, list them, finish them, fence their producers.

mod admin;
mod description;
mod evidence;
mod handle;
mod name;
mod offsets;
mod settle;
mod verdict;

use std::sync::Arc;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, EndTxnRequest,
    InitProducerIdRequest, ListTransactionsRequest, ProducerId, TransactionalId,
    describe_transactions_response,
};
use kafka_protocol::protocol::StrBytes;

pub use self::admin::TransactionAdmin;
pub use self::description::{TransactionDescription, TransactionState};
pub(crate) use self::evidence::Evidence;
pub use self::handle::PreparedTransaction;
pub(crate) use self::handle::expires_in;
pub(crate) use self::name::{Lane, Names, PREFIX};
use crate::wire::{Cluster, Coordinator, Deadline, WireError};

/// The newest `EndTxn` that we send.
///
/// Version 5 (KIP-890) raises the producer's epoch with each end, which keeps a late repetition from the producer's next
/// transaction. Ours have none: each has an epoch of its own. And version 5 is not safe everywhere: brokers of Kafka 4 whose
/// cluster is still on `transaction.version` 0 refuse it and leave the transaction stuck.
const END_TXN: i16 = 4;

/// An id that was fenced for good keeps this time limit, in milliseconds, so that no later start fences it again.
pub(crate) const FENCED_TIMEOUT: i32 = 1;

/// The transactions of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct Transactions {
    pub(crate) cluster: Arc<Cluster>,
}

/// Who writes a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Producer {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

impl Transactions {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster }
    }

    /// The newest transaction of an id; `None` if the cluster does not know the id (any more).
    pub(crate) async fn describe(
        &self,
        transactional_id: &str,
        deadline: Deadline,
    ) -> Result<Option<TransactionDescription>, WireError> {
        let request = DescribeTransactionsRequest::default()
            .with_transactional_ids(vec![transactional(transactional_id)]);
        let code = |answer: &DescribeTransactionsResponse| {
            answer
                .transaction_states
                .first()
                .map_or(0, |state| state.error_code)
        };
        let coordinator = (Coordinator::Transaction, transactional_id);
        let answer = self
            .cluster
            .call_coordinator(coordinator, &request, 0..=0, deadline, code);
        let states = answer.await?.transaction_states;
        states.first().map_or(Ok(None), description)
    }

    /// The newest transaction of each of these ids, as far as the cluster knows them: all that one broker coordinates
    /// in one request.
    pub(crate) async fn describe_all(
        &self,
        transactional_ids: Vec<String>,
        deadline: Deadline,
    ) -> Result<Vec<TransactionDescription>, WireError> {
        let mut described = Vec::with_capacity(transactional_ids.len());
        let mut left = transactional_ids;
        while !left.is_empty() {
            let coordinators = self
                .cluster
                .coordinators(Coordinator::Transaction, &left, deadline)
                .await?;
            left.clear();
            for (address, ids) in coordinators {
                let names = ids.iter().map(|id| transactional(id)).collect();
                let request = DescribeTransactionsRequest::default().with_transactional_ids(names);
                let answer = self.cluster.call(&address, &request, 0..=0, deadline).await;
                let states = match answer {
                    Ok(answer) => answer.transaction_states,
                    Err(error) if error.is_retriable() => {
                        self.cluster.forget(&address);
                        deadline.pause("DescribeTransactions", error).await?;
                        left.extend(ids);
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                for state in states {
                    let id = state.transactional_id.to_string();
                    match description(&state) {
                        Ok(found) => described.extend(found),
                        Err(error) if error.is_retriable() => {
                            self.cluster.forget(&address);
                            deadline.pause("DescribeTransactions", error).await?;
                            left.push(id);
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        described.sort_by(|left, right| left.transactional_id.cmp(&right.transactional_id));
        Ok(described)
    }

    /// All transactional ids that begin with `prefix`, with the state of each. Every broker is asked, as each tells of
    /// those alone that it coordinates.
    pub(crate) async fn list(
        &self,
        prefix: &str,
        deadline: Deadline,
    ) -> Result<Vec<(String, TransactionState)>, WireError> {
        loop {
            match self.list_once(prefix, deadline).await {
                Err(error) if error.is_retriable() => {
                    deadline.pause("ListTransactions", error).await?;
                }
                listed => return listed,
            }
        }
    }

    async fn list_once(
        &self,
        prefix: &str,
        deadline: Deadline,
    ) -> Result<Vec<(String, TransactionState)>, WireError> {
        let mut found = Vec::new();
        for address in self.cluster.brokers(deadline).await? {
            let all = ListTransactionsRequest::default();
            let ours = all
                .clone()
                .with_transactional_id_pattern(Some(pattern(prefix)));
            // Brokers before Kafka 4.1 list everything, and we pick.
            let answer = match self.cluster.call(&address, &ours, 2..=2, deadline).await {
                Err(WireError::Unsupported { .. }) => {
                    self.cluster.call(&address, &all, 0..=1, deadline).await
                }
                answer => answer,
            };
            let answer = answer.inspect_err(|_| self.cluster.forget(&address))?;
            if answer.error_code != 0 {
                let what = format!("can't list the transactions of {address}");
                return Err(WireError::Refused {
                    what,
                    code: answer.error_code,
                });
            }
            let listed = answer.transaction_states.into_iter();
            let listed = listed.filter(|one| one.transactional_id.starts_with(prefix));
            found.extend(listed.map(|one| {
                let state = TransactionState::parse(&one.transaction_state);
                (one.transactional_id.to_string(), state)
            }));
        }
        found.sort_by(|(left, _), (right, _)| left.cmp(right));
        found.dedup_by(|(left, _), (right, _)| left == right);
        Ok(found)
    }

    /// Sends one `EndTxn`. Only who has just seen the transaction under this producer may do that.
    pub(crate) async fn end(
        &self,
        transactional_id: &str,
        producer: Producer,
        version: i16,
        commit: bool,
        deadline: Deadline,
    ) -> Result<(), WireError> {
        let request = EndTxnRequest::default()
            .with_transactional_id(transactional(transactional_id))
            .with_producer_id(ProducerId(producer.id))
            .with_producer_epoch(producer.epoch)
            .with_committed(commit);
        let coordinator = (Coordinator::Transaction, transactional_id);
        let address = self
            .cluster
            .coordinator(coordinator.0, coordinator.1, deadline)
            .await?;
        let answer = self
            .cluster
            .call(&address, &request, version..=version, deadline)
            .await;
        let answer = answer.inspect_err(|_| self.cluster.forget(&address))?;
        match answer.error_code {
            0 => Ok(()),
            code => {
                self.cluster.forget(&address);
                Err(WireError::Refused {
                    what: format!("can't end transaction {transactional_id}"),
                    code,
                })
            }
        }
    }

    /// The version of `EndTxn` to finish a transaction with that begins now.
    pub(crate) async fn end_txn_version(
        &self,
        transactional_id: &str,
        deadline: Deadline,
    ) -> Result<i16, WireError> {
        let coordinator =
            self.cluster
                .coordinator(Coordinator::Transaction, transactional_id, deadline);
        let address = coordinator.await?;
        self.cluster
            .version_of::<EndTxnRequest>(&address, 0..=END_TXN, deadline)
            .await
    }

    /// Takes the id over: aborts what is open or prepared under it, and fences its producer. Returns the new one.
    ///
    /// *Never* to be called for an id that a decided checkpoint names and that is not settled.
    pub(crate) async fn take_over(
        &self,
        transactional_id: &str,
        timeout: i32,
        deadline: Deadline,
    ) -> Result<Producer, WireError> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(transactional(transactional_id)))
            .with_transaction_timeout_ms(timeout);
        let coordinator = (Coordinator::Transaction, transactional_id);
        loop {
            let answer =
                self.cluster
                    .call_coordinator(coordinator, &request, 2..=4, deadline, |answer| {
                        answer.error_code
                    });
            let answer = answer.await?;
            let refused = match ResponseError::try_from_code(answer.error_code) {
                None => {
                    return Ok(Producer {
                        id: answer.producer_id.0,
                        epoch: answer.producer_epoch,
                    });
                }
                Some(error) => (
                    error,
                    WireError::Refused {
                        what: format!("can't take over transactional id {transactional_id}"),
                        code: answer.error_code,
                    },
                ),
            };
            match refused {
                // What is under way there is being ended.
                (ResponseError::ConcurrentTransactions, refused) => {
                    deadline.pause("InitProducerId", refused).await?;
                }
                (_, refused) => return Err(refused),
            }
        }
    }
}

/// What a broker says of an id; `None` if it does not know it.
fn description(
    found: &describe_transactions_response::TransactionState,
) -> Result<Option<TransactionDescription>, WireError> {
    match ResponseError::try_from_code(found.error_code) {
        Some(ResponseError::TransactionalIdNotFound) => return Ok(None),
        Some(_) => {
            let what = format!(
                "can't look at transaction {}",
                found.transactional_id.as_str()
            );
            return Err(WireError::Refused {
                what,
                code: found.error_code,
            });
        }
        None => {}
    }
    let partitions = found.topics.iter().flat_map(|topic| {
        let name = topic.topic.as_str();
        topic
            .partitions
            .iter()
            .map(move |partition| format!("{name}[{partition}]"))
    });
    Ok(Some(TransactionDescription {
        state: TransactionState::parse(&found.transaction_state),
        producer_id: found.producer_id.0,
        producer_epoch: found.producer_epoch,
        timeout: i64::from(found.transaction_timeout_ms),
        started_at: found.transaction_start_time_ms,
        partitions: partitions.collect(),
        transactional_id: found.transactional_id.to_string(),
    }))
}

fn transactional(id: &str) -> TransactionalId {
    TransactionalId(StrBytes::from_string(id.to_owned()))
}

/// The pattern (RE2, which has to match the whole id) of all that begins with `prefix`.
fn pattern(prefix: &str) -> StrBytes {
    // Our names hold letters, digits, `_`, `-` and dots; dots alone mean something.
    StrBytes::from_string(format!("{}.*", prefix.replace('.', "\\.")))
}
