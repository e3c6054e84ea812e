//! The reader of one subtask: what its thread tells, and what has to be asked of brokers.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cofferdam::{SourceError, SourceEvent, SourceReader, async_trait};
use tokio::sync::mpsc::Receiver;
use tracing::debug;

use super::error::out_of_range;
use super::offsets::{Isolation, Place, offsets};
use super::position::{KafkaPosition, Partition};
use super::run::Membership;
use super::start::{Restored, verify};
use super::told::Told;
use crate::connection::KafkaConnection;
use crate::wire::Cluster;

/// What is found out about a suspicion: nothing, or why the job can't go on.
type Inquiry = Pin<Box<dyn Future<Output = Result<(), SourceError>> + Send>>;

/// Reads the partitions of one subtask, on a thread of its own. Dropping it ends the thread, without waiting for that.
pub struct KafkaReader<T> {
    /// Told before anything that was read.
    pub(super) first: VecDeque<SourceEvent<T, KafkaPosition>>,
    pub(super) told: Receiver<Told<T>>,
    pub(super) watch: Watch,
    pub(super) inquiry: Option<Inquiry>,
    pub(super) state: State,
    /// Leaves the run with the reader.
    pub(super) membership: Membership,
}

/// What there is to be had from a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Reading,
    Ended,
    Failed,
}

/// What a reader shares with its thread, and needs to look into a suspicion.
pub(super) struct Watch {
    pub(super) connection: KafkaConnection,
    pub(super) splits: Vec<Restored>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) suspected: Arc<AtomicBool>,
}

impl<T> fmt::Debug for KafkaReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaReader")
            .field("state", &self.state)
            .field("membership", &self.membership)
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> KafkaReader<T> {
    async fn hear(&mut self) -> Result<SourceEvent<T, KafkaPosition>, SourceError> {
        loop {
            // Both awaits leave what they wait for in place when they are dropped.
            if let Some(inquiry) = &mut self.inquiry {
                let found = inquiry.await;
                self.inquiry = None;
                self.watch.suspected.store(false, Ordering::Relaxed);
                found?;
            }
            match self.told.recv().await {
                Some(Told::Event(event)) => return Ok(event),
                Some(Told::Failed(error)) => return Err(error),
                Some(Told::Suspicious) => self.inquiry = Some(self.watch.look_into()),
                Some(Told::OutOfRange(partition, wanted)) => {
                    self.inquiry = Some(self.watch.explain(partition, wanted));
                }
                None => {
                    return Err(SourceError::transient("the thread that reads is gone")
                        .hint("did decoding a record panic?"));
                }
            }
        }
    }
}

#[async_trait]
impl<T: Send + 'static> SourceReader for KafkaReader<T> {
    type Record = T;
    type Position = KafkaPosition;

    async fn next(&mut self) -> Result<SourceEvent<T, KafkaPosition>, SourceError> {
        match self.state {
            State::Reading => {}
            State::Ended => return Ok(SourceEvent::End),
            State::Failed => {
                return Err(SourceError::transient("the reader failed before")
                    .hint("open another one at the last position"));
            }
        }
        if let Some(event) = self.first.pop_front() {
            return Ok(event);
        }
        let event = self.hear().await;
        match &event {
            Ok(SourceEvent::End) => self.state = State::Ended,
            Ok(_) => {}
            Err(_) => self.state = State::Failed,
        }
        event
    }
}

impl<T> Drop for KafkaReader<T> {
    fn drop(&mut self) {
        self.watch.stop.store(true, Ordering::Relaxed);
    }
}

impl Watch {
    /// librdkafka met an error that may pass, or never. Our own client says which, in clear words.
    fn look_into(&self) -> Inquiry {
        // A new one: connections that are kept may have signed in with a password that is no longer right.
        let cluster = Cluster::new(self.connection.clone());
        let splits = self.splits.clone();
        Box::pin(async move {
            match verify(&cluster, &splits, cluster.deadline()).await {
                Err(error) if !error.kind().is_retriable() => Err(error),
                Err(error) => {
                    debug!(%error, "an error of the client may pass");
                    Ok(())
                }
                Ok(()) => Ok(()),
            }
        })
    }

    fn explain(&self, partition: Partition, wanted: i64) -> Inquiry {
        let cluster = Cluster::new(self.connection.clone());
        let splits = self.splits.clone();
        Box::pin(async move {
            let deadline = cluster.deadline();
            // A topic that was made anew is out of range too, and that is then the better word for it.
            verify(&cluster, &splits, deadline).await?;
            let partitions = [partition];
            let at = |place| {
                offsets(
                    &cluster,
                    &partitions,
                    place,
                    Isolation::Uncommitted,
                    deadline,
                )
            };
            let (first, end) = (at(Place::Earliest).await?, at(Place::End).await?);
            let [partition] = &partitions;
            let (first, end) = (first[partition], end[partition]);
            Err(match (first..=end).contains(&wanted) {
                false => out_of_range(partition, wanted, (first, end)),
                true => SourceError::transient(format!(
                    "the offset {wanted} of {partition} was not there, and is now"
                )),
            })
        })
    }
}
