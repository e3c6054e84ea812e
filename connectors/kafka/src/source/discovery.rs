//! Looks for partitions that have come since, and whether topics are still those that were read.

use std::sync::{Arc, Weak};
use std::time::Duration;

use cofferdam::SourceError;
use tokio::task::AbortHandle;
use tracing::{info, warn};

use super::error::{missing_topic, recreated};
use super::offsets::{Isolation, Place, offsets};
use super::position::{KafkaPosition, Partition};
use super::run::Run;
use super::start::is_another;
use super::topics::look_up;
use crate::wire::Cluster;

/// The first look comes soon: partitions may have come while the job was stopped. So does the one after a suspicion, which
/// a broker that lags behind the others may have caused.
const SOON: Duration = Duration::from_secs(1);

/// The search of one run.
#[derive(Debug, Clone)]
pub(super) struct Discovery {
    pub(super) cluster: Arc<Cluster>,
    pub(super) topics: Vec<Arc<str>>,
    pub(super) every: Duration,
    /// A bounded source reads what there was when it began, so it takes no partition that came later.
    pub(super) adopts: bool,
}

/// What a look found.
enum Found {
    Nothing,
    /// Something that ends the job, if the next look finds it too.
    Suspicion(SourceError),
}

impl Discovery {
    pub(super) fn start(self, run: &Arc<Run>) -> AbortHandle {
        let run = Arc::downgrade(run);
        tokio::spawn(self.search(run)).abort_handle()
    }

    async fn search(self, run: Weak<Run>) {
        let (mut pause, mut suspected, mut failing) = (self.every.min(SOON), false, false);
        loop {
            tokio::time::sleep(pause).await;
            pause = self.every;
            let Some(run) = run.upgrade() else {
                return;
            };
            match self.look(&run).await {
                Ok(Found::Suspicion(error)) if suspected => return run.fail(error),
                Ok(found) => {
                    suspected = matches!(found, Found::Suspicion(_));
                    failing = false;
                    if suspected {
                        pause = self.every.min(SOON);
                    }
                }
                // The thread that reads finds out by itself what keeps it from reading.
                Err(error) => {
                    if !failing {
                        warn!(%error, "can't look for new partitions; trying again");
                    }
                    failing = true;
                }
            }
        }
    }

    async fn look(&self, run: &Run) -> Result<Found, SourceError> {
        let (cluster, ids) = (&self.cluster, run.ids());
        let mut names = self.topics.clone();
        names.extend(ids.keys().cloned());
        names.sort();
        names.dedup();
        let topics = look_up(cluster, &names, cluster.deadline()).await?;
        for name in &names {
            let Some(topic) = topics.get(name) else {
                return Ok(Found::Suspicion(missing_topic(name)));
            };
            if is_another(ids.get(name), topic.id.as_ref()) {
                return Ok(Found::Suspicion(recreated(name)));
            }
        }
        if !self.adopts {
            return Ok(Found::Nothing);
        }
        let partitions = self.topics.iter().flat_map(|name| {
            // One without a leader can't be read yet; the next look finds it again.
            let led = topics[name]
                .leaders
                .iter()
                .filter(|(_, leader)| leader.is_some());
            led.map(|(index, _)| Partition::new(name, *index))
        });
        let new = run.untaken(partitions);
        let earliest = Place::Earliest;
        let isolation = Isolation::Uncommitted;
        let first = offsets(cluster, &new, earliest, isolation, cluster.deadline()).await?;
        for (partition, offset) in first {
            info!(%partition, offset, "a new partition is read from its start");
            let topic_id = topics[&partition.topic].id.clone();
            let position = KafkaPosition {
                offset,
                topic_id,
                stop: None,
            };
            run.hand_out(partition, position);
        }
        Ok(Found::Nothing)
    }
}
