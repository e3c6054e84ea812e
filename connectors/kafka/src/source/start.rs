//! Where reading begins, and whether it can go on.

use std::collections::HashMap;
use std::sync::Arc;

use cofferdam::{SourceError, Timestamp};

use super::error::{out_of_range, recreated};
use super::group;
use super::offsets::{Isolation, Place, offsets};
use super::position::{KafkaPosition, Partition};
use super::topics::{Topics, all_of};
use crate::wire::{Cluster, Deadline};

/// Where a source begins at its very first start. After that it goes on where the newest checkpoint says, and partitions
/// that come later are read from their start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Start {
    /// With the oldest records that are left.
    #[default]
    Earliest,
    /// With what becomes readable from now on: records of transactions that are open now are read once they are committed.
    Latest,
    /// With the first record that is not older; where there is none, as [`Latest`](Self::Latest).
    Timestamp(Timestamp),
    /// Where the group of [`KafkaSource::group`](crate::KafkaSource::group) stands; where it has no offset, as
    /// [`Earliest`](Self::Earliest).
    Group,
}

/// How positions are found.
#[derive(Debug, Clone)]
pub(super) struct Beginning {
    pub(super) start: Start,
    pub(super) group: Option<Arc<str>>,
    pub(super) isolation: Isolation,
    pub(super) bounded: bool,
}

/// A partition, and the position in it that a checkpoint has, if any.
pub(super) type Restored = (Partition, Option<KafkaPosition>);

impl Beginning {
    /// Finds the position of each partition: that of the checkpoint, if it can still be read from, or one that is chosen now.
    pub(super) async fn positions(
        &self,
        cluster: &Cluster,
        splits: Vec<Restored>,
        deadline: Deadline,
    ) -> Result<Vec<(Partition, KafkaPosition)>, SourceError> {
        let partitions: Vec<Partition> = splits.iter().map(|(split, _)| split.clone()).collect();
        let topics = all_of(cluster, &names(&partitions), deadline).await?;
        check(&topics, &splits)?;
        let at = |place, isolation| offsets(cluster, &partitions, place, isolation, deadline);
        let first = at(Place::Earliest, Isolation::Uncommitted).await?;
        let fresh: Vec<Partition> = (splits.iter())
            .filter(|(_, position)| position.is_none())
            .map(|(partition, _)| partition.clone())
            .collect();
        let chosen = self.choose(cluster, &fresh, &first, deadline).await?;
        // Ends grow: asked for last, they are not before a start that was chosen just now.
        let end = at(Place::End, Isolation::Uncommitted).await?;
        let stable = match self.bounded && !fresh.is_empty() {
            true => offsets(cluster, &fresh, Place::End, self.isolation, deadline).await?,
            false => HashMap::new(),
        };
        let found = splits.into_iter().map(|(partition, restored)| {
            let position = restored.unwrap_or_else(|| KafkaPosition {
                offset: chosen[&partition],
                topic_id: topics[&partition.topic].id.clone(),
                stop: stable.get(&partition).copied(),
            });
            let (wanted, left) = (position.offset, (first[&partition], end[&partition]));
            if !position.is_at_stop() && !(left.0..=left.1).contains(&wanted) {
                return Err(out_of_range(&partition, wanted, left));
            }
            Ok((partition, position))
        });
        found.collect()
    }

    async fn choose(
        &self,
        cluster: &Cluster,
        fresh: &[Partition],
        first: &HashMap<Partition, i64>,
        deadline: Deadline,
    ) -> Result<HashMap<Partition, i64>, SourceError> {
        let end = || offsets(cluster, fresh, Place::End, self.isolation, deadline);
        if fresh.is_empty() {
            return Ok(HashMap::new());
        }
        match self.start {
            Start::Earliest => Ok(first.clone()),
            Start::Latest => end().await,
            Start::Timestamp(timestamp) => {
                // The end first: a record that comes in between is read, not passed over.
                let mut chosen = end().await?;
                let place = Place::NotBefore(timestamp.as_millis().max(0));
                let found = offsets(cluster, fresh, place, self.isolation, deadline).await?;
                chosen.extend(found.into_iter().filter(|(_, offset)| *offset >= 0));
                Ok(chosen)
            }
            Start::Group => {
                let mut chosen = first.clone();
                // Without a group the source has refused to start.
                if let Some(group) = &self.group {
                    chosen.extend(group::committed(cluster, group, fresh, deadline).await?);
                }
                Ok(chosen)
            }
        }
    }
}

/// The topics of these partitions, each once.
pub(super) fn names(partitions: &[Partition]) -> Vec<Arc<str>> {
    let names = partitions
        .iter()
        .map(|partition| Arc::clone(&partition.topic));
    let mut names: Vec<_> = names.collect();
    names.sort();
    names.dedup();
    names
}

/// Whether these partitions can be reached, are there, and are those in which the positions are.
pub(super) async fn verify(
    cluster: &Cluster,
    splits: &[Restored],
    deadline: Deadline,
) -> Result<(), SourceError> {
    let partitions: Vec<Partition> = splits.iter().map(|(split, _)| split.clone()).collect();
    let topics = all_of(cluster, &names(&partitions), deadline).await?;
    check(&topics, splits)
}

/// Whether these partitions are there, and are those in which the positions are.
fn check(topics: &Topics, splits: &[Restored]) -> Result<(), SourceError> {
    for (partition, position) in splits {
        let topic = &topics[&partition.topic];
        if let Some(position) = position
            && is_another(position.topic_id.as_ref(), topic.id.as_ref())
        {
            return Err(recreated(&partition.topic));
        }
        if !topic.leaders.contains_key(&partition.index) {
            return Err(SourceError::configuration(format!(
                "the topic {} has no partition {}",
                partition.topic, partition.index
            ))
            .hint("the topic has fewer partitions than the checkpoint has positions in"));
        }
    }
    Ok(())
}

/// Whether two topics of one name are different ones.
pub(super) fn is_another(read: Option<&Arc<str>>, now: Option<&Arc<str>>) -> bool {
    matches!((read, now), (Some(read), Some(now)) if read != now)
}
