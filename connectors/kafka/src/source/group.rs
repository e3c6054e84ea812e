//! The offsets of a group. Nobody is a member of it: they are looked up at the first start, and shown after a decision.

use std::collections::{BTreeMap, HashMap};

use cofferdam::SourceError;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{GroupId, OffsetCommitRequest, OffsetFetchRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::error::source_error;
use super::position::Partition;
use crate::wire::{Cluster, Coordinator, Deadline, WireError};

/// The offsets that a group has committed, of those partitions that it has one of.
pub(super) async fn committed(
    cluster: &Cluster,
    group: &str,
    partitions: &[Partition],
    deadline: Deadline,
) -> Result<HashMap<Partition, i64>, SourceError> {
    let trying = format!("read the offsets of group {group}");
    let topics = by_topic(
        partitions
            .iter()
            .map(|partition| (partition, partition.index)),
    );
    let topics = topics.into_iter().map(|(topic, indexes)| {
        OffsetFetchRequestTopics::default()
            .with_name(name(topic))
            .with_partition_indexes(indexes)
    });
    let asked = OffsetFetchRequestGroup::default()
        .with_group_id(GroupId(StrBytes::from_string(group.to_owned())))
        .with_topics(Some(topics.collect()));
    let request = OffsetFetchRequest::default()
        .with_groups(vec![asked])
        .with_require_stable(true);
    loop {
        let answer = cluster
            .call_coordinator(
                (Coordinator::Group, group),
                &request,
                8..=8,
                deadline,
                |answer| answer.groups.first().map_or(0, |group| group.error_code),
            )
            .await
            .map_err(|error| source_error(&trying, error))?;
        let mut found = HashMap::new();
        let mut code = answer.groups.first().map_or(0, |group| group.error_code);
        for topic in answer.groups.iter().flat_map(|group| &group.topics) {
            for answered in &topic.partitions {
                if answered.error_code != 0 {
                    code = answered.error_code;
                } else if answered.committed_offset >= 0 {
                    let topic = topic.name.as_str().into();
                    let partition = Partition::new(&topic, answered.partition_index);
                    found.insert(partition, answered.committed_offset);
                }
            }
        }
        if code == 0 {
            return Ok(found);
        }
        let refused = WireError::Refused {
            what: format!("the offsets of group {group}"),
            code,
        };
        // A transaction that carries offsets is about to end.
        let unstable = ResponseError::UnstableOffsetCommit.code();
        if code != unstable && !refused.is_retriable() {
            return Err(source_error(&trying, refused));
        }
        let paused = deadline.pause("OffsetFetch", refused).await;
        paused.map_err(|error| source_error(&trying, error))?;
    }
}

/// Commits offsets to a group, with a note.
pub(super) async fn commit(
    cluster: &Cluster,
    group: &str,
    offsets: &[(Partition, i64)],
    note: &str,
    deadline: Deadline,
) -> Result<(), WireError> {
    let offsets = offsets.iter().map(|(partition, offset)| {
        let offset = OffsetCommitRequestPartition::default()
            .with_partition_index(partition.index)
            .with_committed_offset(*offset)
            .with_committed_metadata(Some(StrBytes::from_string(note.to_owned())));
        (partition, offset)
    });
    let topics = by_topic(offsets).into_iter().map(|(topic, partitions)| {
        OffsetCommitRequestTopic::default()
            .with_name(name(topic))
            .with_partitions(partitions)
    });
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(StrBytes::from_string(group.to_owned())))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(topics.collect());
    let first_error =
        |answer: &<OffsetCommitRequest as kafka_protocol::protocol::Request>::Response| {
            let mut codes = (answer.topics.iter())
                .flat_map(|topic| &topic.partitions)
                .map(|partition| partition.error_code);
            codes.find(|code| *code != 0).unwrap_or(0)
        };
    let asked = (Coordinator::Group, group);
    let answer = cluster
        .call_coordinator(asked, &request, 2..=8, deadline, first_error)
        .await?;
    match first_error(&answer) {
        0 => Ok(()),
        code => Err(WireError::Refused {
            what: format!("offsets of group {group}"),
            code,
        }),
    }
}

fn by_topic<'a, T>(all: impl IntoIterator<Item = (&'a Partition, T)>) -> BTreeMap<&'a str, Vec<T>> {
    let mut topics: BTreeMap<&str, Vec<T>> = BTreeMap::new();
    for (partition, of_it) in all {
        topics.entry(&partition.topic).or_default().push(of_it);
    }
    topics
}

fn name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}
