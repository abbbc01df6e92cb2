//! Chance with a seed (splitmix64): the same seed, the same throws.
//!
//! Used by `survive`, whose seed is the machine's, and by `tree_tax`, whose is always the same.

use std::hash::{BuildHasher, Hasher, RandomState};

/// What is thrown.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// With this seed.
    pub fn of(seed: u64) -> Dice {
        Dice(seed)
    }

    /// With a seed that nobody chose.
    pub fn any() -> Dice {
        Dice(RandomState::new().build_hasher().finish())
    }

    /// A number from 0 and below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let at = self.below(of.len() as u64);
        of[usize::try_from(at).expect("an index")]
    }

    /// In any order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            let other = self.below(last as u64 + 1);
            all.swap(last, usize::try_from(other).expect("an index"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_throws_the_same_again_and_a_shuffle_keeps_all() {
        let throws = |seed| {
            let mut dice = Dice::of(seed);
            (0..8).map(|_| dice.below(6)).collect::<Vec<_>>()
        };
        assert_eq!(throws(1), throws(1));
        assert_ne!(throws(1), throws(2));
        let mut all: Vec<u32> = (0..20).collect();
        Dice::of(3).shuffle(&mut all);
        assert_ne!(all, (0..20).collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
    }
}
