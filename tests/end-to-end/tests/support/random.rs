//! Random numbers that a seed repeats.

use std::time::{SystemTime, UNIX_EPOCH};

/// The generator `SplitMix64`.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let at = self.below(of.len() as u64);
        of[usize::try_from(at).expect("an index")]
    }
}

/// Returns how many kills a random test makes: the number in `COFFERDAM_KILLS`, or the default.
pub fn wanted_kills(default: u32) -> u32 {
    match std::env::var("COFFERDAM_KILLS") {
        Ok(kills) => kills.parse().expect("COFFERDAM_KILLS is a number"),
        Err(_) => default,
    }
}

/// The seed in `COFFERDAM_SEED`, or one of the clock. Printed, so that a failure can be repeated.
pub fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = match std::env::var("COFFERDAM_SEED") {
        Ok(seed) => seed.parse().expect("COFFERDAM_SEED is a number"),
        Err(_) => now.expect("a clock after 1970").as_secs(),
    };
    println!("COFFERDAM_SEED={seed}");
    seed
}
