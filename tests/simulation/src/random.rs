//! The only source of chance: all that is drawn is drawn from a seed.

/// A splitmix64 generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

/// Mixes numbers into one that looks like chance, and is always the same.
#[must_use]
pub fn mixed(parts: &[u64]) -> u64 {
    let mix = |sum: u64, part: &u64| finish(sum.wrapping_add(GAMMA) ^ finish(*part));
    parts.iter().fold(0, mix)
}

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

fn finish(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

impl Random {
    /// A generator of one seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        finish(self.0)
    }

    /// A number below `bound`, which is above zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// A number of a range, both ends included.
    pub fn within(&mut self, least: u64, greatest: u64) -> u64 {
        least + self.below(greatest - least + 1)
    }

    /// True in one of `n` cases.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of some.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let at = self.below(from.len() as u64);
        from[usize::try_from(at).expect("an index")].clone()
    }
}
