//! Which subtask owns a key.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::FixedState;

/// The greatest number of shards, and with it of subtasks.
pub(crate) const MAX_SHARDS: u32 = 1 << 15;

/// Divides keys into shards and shards among subtasks.
///
/// Shards are the unit in which keyed state is stored and handed over: their number is fixed over the life of a job, the
/// number of subtasks is not.
#[derive(Debug, Clone)]
pub(crate) struct Sharding {
    shards: u32,
    /// The owner of each shard.
    subtasks: Arc<[u32]>,
}

impl Sharding {
    pub(crate) fn new(shards: u32, parallelism: u32) -> Self {
        let owner = |shard: u32| u64::from(shard) * u64::from(parallelism) / u64::from(shards);
        // Less than `parallelism`, so it fits.
        let subtasks = (0..shards)
            .map(|shard| u32::try_from(owner(shard)).unwrap_or(0))
            .collect();
        Self { shards, subtasks }
    }

    /// The hash of a key: the same in every process on the same build.
    #[inline]
    pub(crate) fn hash(key: &impl Hash) -> u64 {
        FixedState::with_seed(0x00C0_FFE8_DA30_u64).hash_one(key)
    }

    /// Tells one hash function from another: stored with state, so that state is divided anew when it has changed.
    pub(crate) fn fingerprint() -> u64 {
        Self::hash(&("cofferdam", 2013_u64))
    }

    #[inline]
    pub(crate) fn shard(&self, hash: u64) -> u32 {
        // Bits that the hash tables don't look at; the product is below `shards`.
        let middle = (hash >> 16) & u64::from(u32::MAX);
        u32::try_from((middle * u64::from(self.shards)) >> 32).unwrap_or(0)
    }

    /// The subtask that owns a shard.
    #[inline]
    pub(crate) fn owner(&self, shard: u32) -> usize {
        let owner = usize::try_from(shard)
            .ok()
            .and_then(|shard| self.subtasks.get(shard));
        owner.map_or(0, |subtask| usize::try_from(*subtask).unwrap_or(0))
    }

    /// The subtask that owns a key, by its hash.
    #[inline]
    pub(crate) fn subtask(&self, hash: u64) -> usize {
        self.owner(self.shard(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_shard_has_one_owner_and_owners_have_alike_many(shards in 1..500u32, parallelism in 1..64u32) {
            let parallelism = parallelism.min(shards);
            let sharding = Sharding::new(shards, parallelism);
            let mut owned = vec![0u32; parallelism as usize];
            for owner in sharding.subtasks.iter() {
                owned[*owner as usize] += 1;
            }
            let (least, most) = (owned.iter().min().unwrap(), owned.iter().max().unwrap());
            prop_assert!(*least >= 1 && most - least <= 1);
        }

        #[test]
        fn a_key_is_owned_by_the_owner_of_its_shard(key: u64, parallelism in 1..16u32) {
            let sharding = Sharding::new(128, parallelism);
            let hash = Sharding::hash(&key);
            prop_assert!(sharding.shard(hash) < 128);
            prop_assert_eq!(sharding.subtasks[sharding.shard(hash) as usize] as usize, sharding.subtask(hash));
        }
    }
}
