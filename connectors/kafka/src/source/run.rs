//! One run of a source: who reads which partitions.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{SendError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cofferdam::{SourceError, SplitId};
use tokio::task::AbortHandle;

use super::position::{KafkaPosition, Partition};

/// What a reader is told by whoever looks for new partitions.
#[derive(Debug)]
pub(super) enum Order {
    /// Read this partition too.
    Adopt(Partition, KafkaPosition),
    /// Fail: no reader of the run can go on.
    Fail(SourceError),
}

/// One run. The readers that are opened in it agree here on who takes a new partition; those of an earlier run have
/// another one, and get none.
#[derive(Debug, Default)]
pub(super) struct Run {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// All partitions that somebody reads, will read, or has read to the end.
    taken: HashSet<Partition>,
    /// The topics as they were when this run first saw them.
    ids: HashMap<Arc<str>, Arc<str>>,
    seats: Vec<Seat>,
    next_seat: u64,
    discovery: Option<AbortHandle>,
}

/// A live reader.
#[derive(Debug)]
struct Seat {
    number: u64,
    partitions: usize,
    orders: Sender<Order>,
}

impl Run {
    /// A run that begins with these splits.
    pub(super) fn new<'a>(
        splits: impl IntoIterator<Item = &'a SplitId>,
    ) -> Result<Self, SourceError> {
        let run = Self::default();
        run.state().taken = splits
            .into_iter()
            .map(Partition::of)
            .collect::<Result<_, _>>()?;
        Ok(run)
    }

    /// Adds a reader of these partitions.
    pub(super) fn join(
        self: &Arc<Self>,
        partitions: &[(Partition, KafkaPosition)],
        orders: Sender<Order>,
        discovery: impl FnOnce(&Arc<Self>) -> AbortHandle,
    ) -> Membership {
        let mut state = self.state();
        for (partition, position) in partitions {
            state.taken.insert(partition.clone());
            if let Some(id) = &position.topic_id {
                let topic = Arc::clone(&partition.topic);
                state.ids.entry(topic).or_insert_with(|| Arc::clone(id));
            }
        }
        let number = state.next_seat;
        state.next_seat += 1;
        state.seats.push(Seat {
            number,
            partitions: partitions.len(),
            orders,
        });
        state.discovery.get_or_insert_with(|| discovery(self));
        Membership {
            run: Arc::clone(self),
            number,
        }
    }

    /// The topics that are read, and their ids.
    pub(super) fn ids(&self) -> HashMap<Arc<str>, Arc<str>> {
        self.state().ids.clone()
    }

    /// Those of these partitions that nobody reads.
    pub(super) fn untaken(
        &self,
        partitions: impl IntoIterator<Item = Partition>,
    ) -> Vec<Partition> {
        let state = self.state();
        let untaken = |partition: &Partition| !state.taken.contains(partition);
        partitions.into_iter().filter(untaken).collect()
    }

    /// Gives a new partition to the reader that has the fewest.
    pub(super) fn hand_out(&self, partition: Partition, position: KafkaPosition) {
        let mut state = self.state();
        if let Some(id) = &position.topic_id {
            let topic = Arc::clone(&partition.topic);
            state.ids.entry(topic).or_insert_with(|| Arc::clone(id));
        }
        state.taken.insert(partition.clone());
        // A reader that is gone has ended its run, or is about to.
        if let Some(seat) = state.seats.iter_mut().min_by_key(|seat| seat.partitions) {
            seat.partitions += 1;
            seat.orders.send(Order::Adopt(partition, position)).ok();
        }
    }

    /// Lets one reader fail, and the job with it.
    pub(super) fn fail(&self, mut error: SourceError) {
        for seat in &self.state().seats {
            // One that has read all there is hears nothing any more.
            match seat.orders.send(Order::Fail(error)) {
                Err(SendError(Order::Fail(unheard))) => error = unheard,
                _ => return,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock panics, so a poisoned one holds no half-done change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader's place in its run. When it is dropped, the place is free; with the last one the search for partitions ends.
#[derive(Debug)]
pub(super) struct Membership {
    run: Arc<Run>,
    number: u64,
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut state = self.run.state();
        state.seats.retain(|seat| seat.number != self.number);
        if state.seats.is_empty()
            && let Some(discovery) = state.discovery.take()
        {
            discovery.abort();
        }
    }
}
