//! Numbers drawn from a seed (splitmix64). Every choice of a round is made here.

/// A sequence of draws.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// The sequence of a seed; `stream` tells apart those of one round.
    pub fn of(seed: u64, stream: u64) -> Dice {
        let mut dice = Dice {
            state: seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ stream.rotate_left(32),
        };
        dice.draw();
        dice
    }

    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `below` - 1.
    pub fn below(&mut self, below: u64) -> u64 {
        self.draw() % below.max(1)
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, of_hundred: u64) -> bool {
        self.below(100) < of_hundred
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
