//! Group offsets as evidence: moved within a transaction, read from outside.

use std::time::Duration;

use cofferdam::CheckpointId;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::add_offsets_to_txn_request::AddOffsetsToTxnRequest;
use kafka_protocol::messages::list_groups_request::ListGroupsRequest;
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequest, OffsetFetchRequestGroup};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    GroupId, ProducerId, TopicName, TransactionalId, TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::{Evidence, Producer, Transactions};
use crate::wire::{Coordinator, Deadline, WireError};

impl Transactions {
    /// Makes a group offset part of a transaction: it moves when the transaction is committed, and not before.
    ///
    /// The topic has to exist, as brokers check that; nothing is written to it.
    pub(crate) async fn add_evidence(
        &self,
        (transactional_id, producer): (&str, Producer),
        (group, topic): (&str, &str),
        checkpoint: CheckpointId,
        evidence: &Evidence,
        deadline: Deadline,
    ) -> Result<(), WireError> {
        let transactional = TransactionalId(StrBytes::from_string(transactional_id.to_owned()));
        let group_id = GroupId(StrBytes::from_string(group.to_owned()));
        let add = AddOffsetsToTxnRequest::default()
            .with_transactional_id(transactional.clone())
            .with_producer_id(ProducerId(producer.id))
            .with_producer_epoch(producer.epoch)
            .with_group_id(group_id.clone());
        loop {
            let coordinator = (Coordinator::Transaction, transactional_id);
            let added =
                self.cluster
                    .call_coordinator(coordinator, &add, 0..=3, deadline, |answer| {
                        answer.error_code
                    });
            let code = added.await?.error_code;
            if code == 0 {
                break;
            }
            let what = format!("can't make the evidence part of transaction {transactional_id}");
            again_if_concurrent(WireError::Refused { what, code }, code, deadline).await?;
        }
        let partition = TxnOffsetCommitRequestPartition::default()
            .with_partition_index(0)
            .with_committed_offset(i64::try_from(checkpoint.0).unwrap_or(i64::MAX))
            .with_committed_metadata(Some(StrBytes::from_string(evidence.to_metadata())));
        let offset = TxnOffsetCommitRequestTopic::default()
            .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
            .with_partitions(vec![partition]);
        let commit = TxnOffsetCommitRequest::default()
            .with_transactional_id(transactional)
            .with_group_id(group_id)
            .with_producer_id(ProducerId(producer.id))
            .with_producer_epoch(producer.epoch)
            .with_topics(vec![offset]);
        let first_error = |answer: &TxnOffsetCommitResponse| {
            let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
            let mut codes = partitions.map(|partition| partition.error_code);
            codes.find(|code| *code != 0).unwrap_or(0)
        };
        loop {
            let coordinator = (Coordinator::Group, group);
            let moved =
                self.cluster
                    .call_coordinator(coordinator, &commit, 0..=3, deadline, first_error);
            let code = first_error(&moved.await?);
            if code == 0 {
                return Ok(());
            }
            let what = format!(
                "can't move the offset of group {group} in topic {topic}, the evidence of commits"
            );
            again_if_concurrent(WireError::Refused { what, code }, code, deadline).await?;
        }
    }

    /// The evidence in a group; `None` if there is none.
    pub(crate) async fn evidence(
        &self,
        group: &str,
        deadline: Deadline,
    ) -> Result<Option<Evidence>, WireError> {
        let asked = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(StrBytes::from_string(group.to_owned())))
            .with_topics(None);
        // Not "stable" ones: the next transaction of the subtask is open, and has moved the offset too.
        let request = OffsetFetchRequest::default().with_groups(vec![asked]);
        let coordinator = (Coordinator::Group, group);
        let answer =
            self.cluster
                .call_coordinator(coordinator, &request, 8..=8, deadline, |answer| {
                    answer
                        .groups
                        .first()
                        .map_or(answer.error_code, |group| group.error_code)
                });
        let groups = answer.await?.groups;
        let Some(found) = groups.into_iter().next() else {
            return Ok(None);
        };
        if found.error_code != 0 {
            let what = format!("can't read group {group}, the evidence of commits");
            return Err(WireError::Refused {
                what,
                code: found.error_code,
            });
        }
        // A sink that was given another topic has two offsets here; the newer one lists all that the older does.
        let partitions = found.topics.iter().flat_map(|topic| &topic.partitions);
        let newest = partitions.max_by_key(|partition| partition.committed_offset);
        Ok(newest.and_then(|newest| Evidence::parse(newest.metadata.as_deref()?)))
    }

    /// All groups whose names satisfy `wanted`.
    pub(crate) async fn groups(
        &self,
        wanted: impl Fn(&str) -> bool,
        deadline: Deadline,
    ) -> Result<Vec<String>, WireError> {
        let mut groups = Vec::new();
        for address in self.cluster.brokers(deadline).await? {
            let answer = loop {
                let request = ListGroupsRequest::default();
                let answer = self.cluster.call(&address, &request, 3..=4, deadline).await;
                let answer = answer.inspect_err(|_| self.cluster.forget(&address))?;
                let Some(error) = ResponseError::try_from_code(answer.error_code) else {
                    break answer;
                };
                let what = format!("can't list the groups of {address}");
                let refused = WireError::Refused {
                    what,
                    code: answer.error_code,
                };
                match error.is_retriable() {
                    true => deadline.pause("ListGroups", refused).await?,
                    false => return Err(refused),
                }
            };
            let names = answer.groups.iter().map(|group| group.group_id.as_str());
            groups.extend(names.filter(|name| wanted(name)).map(str::to_owned));
        }
        groups.sort();
        groups.dedup();
        Ok(groups)
    }
}

/// Waits where the broker is busy with this very transaction; other refusals are errors.
async fn again_if_concurrent(
    refused: WireError,
    code: i16,
    deadline: Deadline,
) -> Result<(), WireError> {
    match ResponseError::try_from_code(code) {
        Some(ResponseError::ConcurrentTransactions) => {
            deadline.pause("AddOffsetsToTxn", refused).await
        }
        _ => Err(refused),
    }
}

/// How long a commit may take to show in its group, after the coordinator of the transaction knows of it.
pub(super) const EVIDENCE_DELAY: Duration = Duration::from_millis(500);
