//! Partitions as splits, and where one goes on.

use std::fmt;
use std::sync::Arc;

use cofferdam::{SourceError, SplitId};
use serde::{Deserialize, Serialize};

/// Where to go on in a partition. It comes from checkpoints only: what a group has committed is for show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KafkaPosition {
    /// The offset to read next. Markers of transactions, aborted records and what compaction took away are counted.
    pub offset: i64,
    /// The id of the topic, by which a topic that was deleted and made anew is told from the one that was read. `None`
    /// if the cluster gives topics no ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<Arc<str>>,
    /// The offset at which a bounded source ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<i64>,
}

impl KafkaPosition {
    /// Whether nothing is left before the stop.
    pub(super) fn is_at_stop(&self) -> bool {
        self.stop.is_some_and(|stop| self.offset >= stop)
    }
}

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Partition {
    pub(super) topic: Arc<str>,
    pub(super) index: i32,
}

impl Partition {
    pub(super) fn new(topic: &Arc<str>, index: i32) -> Self {
        Self {
            topic: Arc::clone(topic),
            index,
        }
    }

    /// The partition that a split is. A topic's name has no slash.
    pub(super) fn of(split: &SplitId) -> Result<Self, SourceError> {
        let parts = split.as_str().rsplit_once('/');
        let parts = parts.and_then(|(topic, index)| Some((topic, index.parse().ok()?)));
        let (topic, index) = parts.ok_or_else(|| {
            SourceError::configuration(format!("the split {split} is no partition of a topic"))
                .hint("was the source exchanged for one of another kind?")
        })?;
        Ok(Self {
            topic: Arc::from(topic),
            index,
        })
    }

    pub(super) fn split(&self) -> SplitId {
        SplitId::new(self.to_string())
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.index)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on panics")]
mod tests {
    use super::*;

    #[test]
    fn a_position_keeps_its_stored_form() {
        let position = KafkaPosition {
            offset: 7,
            topic_id: Some("mlLS3ZNZTAW-DHtnmz5rOg".into()),
            stop: Some(9),
        };
        let stored = r#"{"offset":7,"topic_id":"mlLS3ZNZTAW-DHtnmz5rOg","stop":9}"#;
        assert_eq!(serde_json::to_string(&position).unwrap(), stored);
        assert_eq!(
            serde_json::from_str::<KafkaPosition>(stored).unwrap(),
            position
        );
        let least: KafkaPosition = serde_json::from_str(r#"{"offset":7}"#).unwrap();
        assert_eq!((least.offset, least.topic_id, least.stop), (7, None, None));
    }

    #[test]
    fn a_split_names_its_partition() {
        let partition = Partition::new(&Arc::from("a.topic-1"), 12);
        assert_eq!(partition.split().as_str(), "a.topic-1/12");
        assert_eq!(Partition::of(&partition.split()).unwrap(), partition);
        for other in ["a", "a/", "a/x", "/data/file.csv"] {
            assert!(Partition::of(&SplitId::new(other)).is_err(), "{other}");
        }
    }
}
