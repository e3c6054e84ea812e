//! The keyed state of open windows: a hash table per window, oldest first.

use std::hash::Hash;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::description::Description;
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

/// The first word of a stored state part; its version follows, in digits, up to the end of the line.
const FORM: &[u8] = b"windows ";
/// Rises when a reader of the version before could not read what is written now. The first one had no such line: its
/// bytes begin with a number that no text begins with.
const VERSION: u32 = 2;

/// The header of a stored state part, behind its version; the shards follow, one after another.
#[derive(Serialize, Deserialize)]
struct Header {
    description: Description,
    fingerprint: u64,
    progress: Progress,
    /// Shard and length in bytes.
    shards: Vec<(u32, u64)>,
}

/// How far event time had come when state was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    pub(super) watermark: Timestamp,
    /// The newest start of a closed window. It does not follow from the watermark, as the allowed lateness may change.
    pub(super) closed: i64,
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
        description: &Description,
        progress: Progress,
    ) -> Result<Option<Vec<u8>>, postcard::Error> {
        if self.open.is_empty() && progress.watermark == Timestamp::MIN {
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
            description: description.clone(),
            fingerprint: Sharding::fingerprint(),
            progress,
            shards: lengths.filter(|(_, length)| *length > 0).collect(),
        };
        let version = [FORM, VERSION.to_string().as_bytes(), b"\n"].concat();
        let mut content = postcard::to_extend(&header, version)?;
        content.extend(shards.into_iter().flatten());
        Ok(Some(content))
    }

    /// Takes in what belongs to a subtask of a stored part, and returns the part's event time. Refuses a part that another
    /// operator has stored.
    pub(crate) fn decode(
        &mut self,
        content: &[u8],
        sharding: &Sharding,
        subtask: usize,
        description: &Description,
    ) -> Result<Progress, DecodeError> {
        let content = check_version(content)?;
        let (header, mut rest): (Header, &[u8]) =
            postcard::take_from_bytes(content).map_err(DecodeError::Header)?;
        if let Some(changes) = description.changes_since(&header.description) {
            return Err(DecodeError::Changed(changes));
        }
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
        Ok(header.progress)
    }
}

/// Returns what follows the version of a stored part.
fn check_version(content: &[u8]) -> Result<&[u8], DecodeError> {
    let rest = content.strip_prefix(FORM).ok_or(DecodeError::Older(1))?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at_checked(digits).unwrap_or_default();
    let digits = std::str::from_utf8(digits).unwrap_or_default();
    let (Ok(version), Some(rest)) = (digits.parse(), rest.strip_prefix(b"\n")) else {
        return Err(DecodeError::Cut);
    };
    match version {
        VERSION => Ok(rest),
        older if older < VERSION => Err(DecodeError::Older(older)),
        newer => Err(DecodeError::Newer(newer)),
    }
}

/// Why stored state can't be taken in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error(
        "it has version {0}, which does not say what stored it, and this program reads version {VERSION}: \
         run the program that stored it, or start over with a new checkpoint store"
    )]
    Older(u32),
    #[error("it has version {0}, and this program reads version {VERSION}: run a newer program")]
    Newer(u32),
    #[error("its header can't be read ({0})")]
    Header(#[source] postcard::Error),
    #[error(
        "another operator stored it, and its windows would be misread. {0}. \
         Run the pipeline as it was, or run this one as a new job with a new checkpoint store"
    )]
    Changed(String),
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
    use crate::window::Windows;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::time::Duration;

    type Entries = BTreeMap<(i64, String), u32>;

    const PROGRESS: Progress = Progress {
        watermark: Timestamp::from_millis(7),
        closed: -3,
    };

    fn description() -> Description {
        let windows = Windows::tumbling(Duration::from_millis(5));
        let [aggregate, key, accumulator] = ["count", "string", "u32"].map(str::to_owned);
        Description::new(windows, aggregate, key, accumulator)
    }

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
                parts.push(filled(&owned).encode(&old, &description(), PROGRESS).unwrap().unwrap());
            }
            let new = Sharding::new(128, after);
            let mut restored = Entries::new();
            for subtask in 0..after as usize {
                let mut panes = Panes::new();
                for part in &parts {
                    let progress = panes.decode(part, &new, subtask, &description()).unwrap();
                    prop_assert_eq!(progress, PROGRESS);
                }
                for (key, value) in contents(&mut panes) {
                    prop_assert!(restored.insert(key, value).is_none());
                }
            }
            prop_assert_eq!(restored, entries);
        }

        #[test]
        fn hostile_state_is_refused_without_panic(bytes: Vec<u8>, begins_well: bool) {
            let begin: &[u8] = if begins_well { b"windows 2\n" } else { b"" };
            let _refused_or_empty = decode(&[begin, &bytes].concat());
        }
    }

    fn decode(content: &[u8]) -> Result<Progress, DecodeError> {
        Panes::<String, u32>::new().decode(content, &Sharding::new(128, 1), 0, &description())
    }

    #[test]
    fn the_stored_form_never_changes() {
        let sharding = Sharding::new(128, 1);
        let panes = filled(&[((5, "a".to_owned()), 1)].into());
        let stored = panes.encode(&sharding, &description(), PROGRESS);
        let hash = Sharding::hash(&"a".to_owned());
        let shard = postcard::to_stdvec(&sharding.shard(hash)).unwrap();
        let fingerprint = postcard::to_stdvec(&Sharding::fingerprint()).unwrap();
        let parts: [&[u8]; 6] = [
            b"windows 2\n\x0a\x0a\x05count\x06string\x03u32",
            &fingerprint,
            b"\x0e\x05\x01",
            &shard,
            b"\x04",
            b"\x0a\x01a\x01",
        ];
        assert_eq!(stored.unwrap().unwrap(), parts.concat());
    }

    #[test]
    fn other_versions_are_refused_by_name() {
        let error = |content: &[u8]| decode(content).unwrap_err().to_string();
        // Version 1 had no version: it began with the fingerprint of the hash.
        let first = postcard::to_stdvec(&(Sharding::fingerprint(), 7_i64, [(0_u32, 0_u64); 0]));
        let first = error(&first.unwrap());
        assert!(
            first.contains("version 1") && first.contains("start over"),
            "{first}"
        );
        let newer = error(b"windows 3\nwhatever");
        assert!(
            newer.contains("version 3") && newer.contains("newer program"),
            "{newer}"
        );
        for cut in [&b"windows "[..], b"windows 2", b"windows x\n"] {
            assert!(error(cut).contains("shorter"), "{cut:?}");
        }
    }
}
