//! Topics as the brokers know them: ids, partitions, leaders.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cofferdam::SourceError;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{MetadataRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::error::{is_missing, missing_topic, source_error};
use crate::wire::{Cluster, Deadline, SPREADING, WireError};

/// A topic.
#[derive(Debug)]
pub(super) struct Topic {
    /// `None` if the cluster gives topics no ids.
    pub(super) id: Option<Arc<str>>,
    /// The addresses of the leaders, where there is one.
    pub(super) leaders: BTreeMap<i32, Option<String>>,
}

/// What was found out about some topics. Those that don't exist are not in it.
pub(super) type Topics = HashMap<Arc<str>, Topic>;

/// Looks these topics up.
pub(super) async fn look_up(
    cluster: &Cluster,
    names: &[Arc<str>],
    deadline: Deadline,
) -> Result<Topics, SourceError> {
    let wanted = names.iter().map(|name| {
        let name = TopicName(StrBytes::from_string(name.to_string()));
        MetadataRequestTopic::default().with_name(Some(name))
    });
    let request = MetadataRequest::default()
        .with_topics(Some(wanted.collect()))
        .with_allow_auto_topic_creation(false);
    let trying = || format!("look up {}", names.join(", "));
    loop {
        let answer = cluster.metadata(&request, deadline).await;
        let answer = answer.map_err(|error| source_error(&trying(), error))?;
        let brokers: HashMap<_, _> = (answer.brokers.iter())
            .map(|broker| {
                (
                    broker.node_id,
                    format!("{}:{}", broker.host.as_str(), broker.port),
                )
            })
            .collect();
        let found = answer
            .topics
            .iter()
            .filter(|topic| !is_missing(topic.error_code));
        let refused = found.clone().find(|topic| topic.error_code != 0);
        let Some(refused) = refused else {
            let topics = names.iter().filter_map(|name| {
                let named = |topic: &&MetadataResponseTopic| {
                    topic
                        .name
                        .as_ref()
                        .is_some_and(|found| found.as_str() == &**name)
                };
                let topic = found.clone().find(named)?;
                let leaders = topic.partitions.iter().map(|partition| {
                    let leader = brokers.get(&partition.leader_id).cloned();
                    (partition.partition_index, leader)
                });
                let topic = Topic {
                    id: id_of(topic),
                    leaders: leaders.collect(),
                };
                Some((Arc::clone(name), topic))
            });
            return Ok(topics.collect());
        };
        let name = refused.name.as_ref().map_or("", |name| name.as_str());
        let error = WireError::Refused {
            what: format!("the topic {name}"),
            code: refused.error_code,
        };
        if !error.is_retriable() {
            return Err(source_error("read", error));
        }
        let paused = deadline.pause("Metadata", error).await;
        paused.map_err(|error| source_error(&trying(), error))?;
    }
}

/// Looks these topics up, all of which have to exist.
pub(super) async fn all_of(
    cluster: &Cluster,
    names: &[Arc<str>],
    deadline: Deadline,
) -> Result<Topics, SourceError> {
    let spreading = Deadline::after(SPREADING);
    loop {
        let topics = look_up(cluster, names, deadline).await?;
        let Some(missing) = names.iter().find(|name| !topics.contains_key(*name)) else {
            return Ok(topics);
        };
        let unknown = WireError::Refused {
            what: format!("the topic {missing}"),
            code: 3,
        };
        let paused = spreading.pause("Metadata", unknown).await;
        paused.map_err(|_| missing_topic(missing))?;
    }
}

/// The id, as Kafka's own tools write it.
fn id_of(topic: &MetadataResponseTopic) -> Option<Arc<str>> {
    let id = topic.topic_id;
    let text = openssl::base64::encode_block(id.as_bytes());
    let text = text
        .trim_end_matches('=')
        .replace('+', "-")
        .replace('/', "_");
    (!id.is_nil()).then(|| Arc::from(text))
}
