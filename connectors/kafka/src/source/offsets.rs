//! First and last offsets, and those of a time: from the leaders of partitions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cofferdam::SourceError;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{BrokerId, ListOffsetsRequest, ListOffsetsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::error::source_error;
use super::position::Partition;
use super::topics::look_up;
use crate::wire::{Cluster, Deadline, WireError};

/// Which records a reader sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isolation {
    Uncommitted = 0,
    Committed = 1,
}

/// Which offset is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Earliest,
    /// Behind the last record; to a reader of committed ones, the last stable offset: where the oldest open transaction
    /// began.
    End,
    /// The first record that is not older than so many milliseconds since 1970.
    NotBefore(i64),
}

impl Place {
    fn timestamp(self) -> i64 {
        match self {
            Self::Earliest => -2,
            Self::End => -1,
            Self::NotBefore(millis) => millis,
        }
    }
}

/// Asks for an offset of each of these partitions. -1: none of its records is so new.
pub(super) async fn offsets(
    cluster: &Cluster,
    partitions: &[Partition],
    place: Place,
    isolation: Isolation,
    deadline: Deadline,
) -> Result<HashMap<Partition, i64>, SourceError> {
    let mut found = HashMap::new();
    let trying = "find offsets";
    loop {
        let open: Vec<&Partition> = (partitions.iter())
            .filter(|partition| !found.contains_key(*partition))
            .collect();
        let Some(first) = open.first() else {
            return Ok(found);
        };
        let mut last = WireError::Refused {
            what: format!("no leader of {first}"),
            code: 5,
        };
        for (leader, open) in by_leader(cluster, &open, deadline).await? {
            let request = request(&open, place, isolation);
            match cluster.call(&leader, &request, 2..=7, deadline).await {
                Ok(answer) => {
                    if let Some(refused) = take(&answer, &open, &mut found) {
                        last = refused;
                    }
                }
                Err(error) => {
                    cluster.forget(&leader);
                    last = error;
                }
            }
            if !last.is_retriable() {
                return Err(source_error(trying, last));
            }
        }
        if found.len() < partitions.len() {
            let paused = deadline.pause("ListOffsets", last).await;
            paused.map_err(|error| source_error(trying, error))?;
        }
    }
}

/// The partitions that have a leader, by its address.
async fn by_leader<'a>(
    cluster: &Cluster,
    partitions: &[&'a Partition],
    deadline: Deadline,
) -> Result<BTreeMap<String, Vec<&'a Partition>>, SourceError> {
    let mut names: Vec<Arc<str>> = (partitions.iter())
        .map(|partition| Arc::clone(&partition.topic))
        .collect();
    names.sort();
    names.dedup();
    let topics = look_up(cluster, &names, deadline).await?;
    let mut leaders: BTreeMap<String, Vec<&Partition>> = BTreeMap::new();
    for partition in partitions {
        let topic = topics.get(&partition.topic);
        if let Some(Some(leader)) = topic.and_then(|topic| topic.leaders.get(&partition.index)) {
            leaders.entry(leader.clone()).or_default().push(partition);
        }
    }
    Ok(leaders)
}

fn request(partitions: &[&Partition], place: Place, isolation: Isolation) -> ListOffsetsRequest {
    let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
    for partition in partitions {
        let wanted = ListOffsetsPartition::default()
            .with_partition_index(partition.index)
            .with_current_leader_epoch(-1)
            .with_timestamp(place.timestamp());
        topics.entry(&partition.topic).or_default().push(wanted);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        ListOffsetsTopic::default()
            .with_name(TopicName(StrBytes::from_string(name.to_owned())))
            .with_partitions(partitions)
    });
    ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_isolation_level(isolation as i8)
        .with_topics(topics.collect())
}

/// Takes what was answered. Returns one of the errors in it: one that can't be retried, if there is any.
fn take(
    answer: &ListOffsetsResponse,
    asked: &[&Partition],
    found: &mut HashMap<Partition, i64>,
) -> Option<WireError> {
    let mut refused: Option<WireError> = None;
    for topic in &answer.topics {
        for answered in &topic.partitions {
            let is_it = |partition: &&&Partition| {
                *partition.topic == *topic.name.as_str()
                    && partition.index == answered.partition_index
            };
            let Some(&partition) = asked.iter().find(is_it) else {
                continue;
            };
            if answered.error_code == 0 {
                found.insert(partition.clone(), answered.offset);
            } else if refused.as_ref().is_none_or(WireError::is_retriable) {
                refused = Some(WireError::Refused {
                    what: format!("an offset of {partition}"),
                    code: answered.error_code,
                });
            }
        }
    }
    refused
}
