//! The keyed state of open windows: a hash table per window, oldest first.

use std::hash::Hash;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::shard::Sharding;
use crate::time::Timestamp;

/// An accumulator with its key.
#[derive(Debug)]
pub(crate) struct Slot<K, A> {
    pub(crate) key: K,
    pub(crate) accumulator: A,
}

impl<K: Hash, A> Slot<K, A> {
    /// Computed anew when a table grows or is stored: kept, it would take cache from each record in between.
    fn hash(&self) -> u64 {
        Sharding::hash(&self.key)
    }
}

/// All keys of one window.
#[derive(Debug)]
pub(crate) struct Pane<K, A> {
    pub(crate) start: i64,
    pub(crate) slots: HashTable<Slot<K, A>>,
}

/// All open windows of a subtask.
#[derive(Debug)]
pub(crate) struct Panes<K, A> {
    /// In ascending order of start.
    open: Vec<Pane<K, A>>,
    /// The one that was used last: most records fall into it.
    hot: usize,
    /// Tables of closed windows, kept for their capacity.
    spare: Vec<HashTable<Slot<K, A>>>,
}

/// How many emptied tables are kept.
const SPARE: usize = 4;

/// What stands in front of a stored state part; the shards follow, one after another.
#[derive(Serialize, Deserialize)]
struct Header {
    fingerprint: u64,
    watermark: Timestamp,
    /// Shard and length in bytes.
    shards: Vec<(u32, u64)>,
}

impl<K: Eq + Hash, A> Panes<K, A> {
    pub(crate) fn new() -> Self {
        Self {
            open: Vec::new(),
            hot: 0,
            spare: Vec::new(),
        }
    }

    /// The accumulator of a key in a window, created if it is not there.
    #[inline]
    pub(crate) fn accumulator(
        &mut self,
        start: i64,
        hash: u64,
        key: &K,
        create: impl FnOnce() -> A,
    ) -> &mut A
    where
        K: Clone,
    {
        let slots = &mut self.pane(start).slots;
        match slots.entry(hash, |slot| slot.key == *key, Slot::hash) {
            Entry::Occupied(slot) => &mut slot.into_mut().accumulator,
            Entry::Vacant(place) => {
                let slot = Slot {
                    key: key.clone(),
                    accumulator: create(),
                };
                &mut place.insert(slot).into_mut().accumulator
            }
        }
    }

    #[inline]
    fn pane(&mut self, start: i64) -> &mut Pane<K, A> {
        if self
            .open
            .get(self.hot)
            .is_none_or(|pane| pane.start != start)
        {
            self.hot = match self.open.binary_search_by_key(&start, |pane| pane.start) {
                Ok(at) => at,
                Err(at) => {
                    let slots = self.spare.pop().unwrap_or_default();
                    self.open.insert(at, Pane { start, slots });
                    at
                }
            };
        }
        &mut self.open[self.hot]
    }

    /// Takes out the oldest window if it starts at or before `start`.
    pub(crate) fn take_oldest(&mut self, start: i64) -> Option<Pane<K, A>> {
        let due = self.open.first().is_some_and(|pane| pane.start <= start);
        due.then(|| self.open.remove(0))
    }

    /// Gives back the table of a window that was taken out and emptied.
    pub(crate) fn give_back(&mut self, slots: HashTable<Slot<K, A>>) {
        if self.spare.len() < SPARE {
            self.spare.push(slots);
        }
    }
}

impl<K, A> Panes<K, A>
where
    K: Eq + Hash + Serialize + DeserializeOwned,
    A: Serialize + DeserializeOwned,
{
    /// Everything in stored form; `None` if there is nothing worth storing.
    pub(crate) fn encode(
        &self,
        sharding: &Sharding,
        watermark: Timestamp,
    ) -> Result<Option<Vec<u8>>, postcard::Error> {
        if self.open.is_empty() && watermark == Timestamp::MIN {
            return Ok(None);
        }
        let mut shards: Vec<Vec<u8>> = Vec::new();
        for pane in &self.open {
            for slot in &pane.slots {
                let shard = usize::try_from(sharding.shard(slot.hash())).unwrap_or(usize::MAX);
                if shards.len() <= shard {
                    shards.resize_with(shard + 1, Vec::new);
                }
                let entry = (pane.start, &slot.key, &slot.accumulator);
                let bytes = std::mem::take(&mut shards[shard]);
                shards[shard] = postcard::to_extend(&entry, bytes)?;
            }
        }
        let lengths = (0u32..)
            .zip(&shards)
            .map(|(shard, bytes)| (shard, bytes.len() as u64));
        let header = Header {
            fingerprint: Sharding::fingerprint(),
            watermark,
            shards: lengths.filter(|(_, length)| *length > 0).collect(),
        };
        let mut content = postcard::to_stdvec(&header)?;
        content.extend(shards.into_iter().flatten());
        Ok(Some(content))
    }

    /// Takes in what belongs to a subtask of a stored part, and returns the part's watermark.
    pub(crate) fn decode(
        &mut self,
        content: &[u8],
        sharding: &Sharding,
        subtask: usize,
    ) -> Result<Timestamp, DecodeError> {
        let (header, mut rest): (Header, &[u8]) = postcard::take_from_bytes(content)?;
        let same_hash = header.fingerprint == Sharding::fingerprint();
        for (shard, length) in header.shards {
            let length = usize::try_from(length).map_err(|_| DecodeError::Cut)?;
            let (mut entries, behind) = rest.split_at_checked(length).ok_or(DecodeError::Cut)?;
            rest = behind;
            if same_hash && sharding.owner(shard) != subtask {
                continue;
            }
            while !entries.is_empty() {
                let ((start, key, accumulator), behind): ((i64, K, A), _) =
                    postcard::take_from_bytes(entries)?;
                entries = behind;
                let hash = Sharding::hash(&key);
                if sharding.subtask(hash) == subtask {
                    let slots = &mut self.pane(start).slots;
                    slots.insert_unique(hash, Slot { key, accumulator }, Slot::hash);
                } else if same_hash {
                    return Err(DecodeError::OtherHash);
                }
            }
        }
        Ok(header.watermark)
    }
}

/// Why stored state can't be taken in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error(
        "it does not hold keys and accumulators of these types: was the aggregate or the key changed? ({0})"
    )]
    Types(#[from] postcard::Error),
    #[error("it is shorter than its shards")]
    Cut,
    #[error(
        "a key hashes into another shard than the one it was stored in: was the key's Hash changed?"
    )]
    OtherHash,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Entries = BTreeMap<(i64, String), u32>;

    fn filled(entries: &Entries) -> Panes<String, u32> {
        let mut panes = Panes::new();
        for ((start, key), value) in entries {
            *panes.accumulator(*start, Sharding::hash(key), key, || 0) = *value;
        }
        panes
    }

    fn contents(panes: &mut Panes<String, u32>) -> Entries {
        let mut entries = Entries::new();
        while let Some(mut pane) = panes.take_oldest(i64::MAX) {
            for slot in pane.slots.drain() {
                assert!(
                    entries
                        .insert((pane.start, slot.key), slot.accumulator)
                        .is_none()
                );
            }
        }
        entries
    }

    proptest! {
        #[test]
        fn state_survives_a_change_of_parallelism(
            entries in prop::collection::btree_map((0..5i64, "[a-z]{0,4}"), any::<u32>(), 0..60),
            before in 1..5u32, after in 1..5u32,
        ) {
            let old = Sharding::new(128, before);
            let mut parts = Vec::new();
            for subtask in 0..before as usize {
                let owned = entries.iter().filter(|((_, key), _)| old.subtask(Sharding::hash(key)) == subtask);
                let owned: Entries = owned.map(|(key, value)| (key.clone(), *value)).collect();
                parts.push(filled(&owned).encode(&old, Timestamp::from_millis(7)).unwrap().unwrap());
            }
            let new = Sharding::new(128, after);
            let mut restored = Entries::new();
            for subtask in 0..after as usize {
                let mut panes = Panes::new();
                for part in &parts {
                    let watermark = panes.decode(part, &new, subtask).unwrap();
                    prop_assert_eq!(watermark, Timestamp::from_millis(7));
                }
                for (key, value) in contents(&mut panes) {
                    prop_assert!(restored.insert(key, value).is_none());
                }
            }
            prop_assert_eq!(restored, entries);
        }

        #[test]
        fn hostile_state_is_refused_without_panic(bytes: Vec<u8>) {
            let _refused_or_empty = Panes::<String, u32>::new().decode(&bytes, &Sharding::new(128, 1), 0);
        }
    }
}
