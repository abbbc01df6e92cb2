//! Inputs from a seed: near misses of valid examples, and now and then noise.
//!
//! The same seed gives the same inputs on every machine, so a finding is named
//! by target, seed and number.

/// A small generator (splitmix64). Not for secrets.
#[derive(Clone, Debug)]
pub struct Generator {
    state: u64,
}

/// The longest input made, in bytes.
const INPUT_MAX: usize = 4096;

/// What formats give a meaning to; put in, it is more likely to matter than noise.
const WORDS: &[&[u8]] = &[
    b"0",
    b"-",
    b",",
    b"[",
    b"]",
    b".",
    b":",
    b"+",
    b"*",
    b"\"",
    b"{",
    b"}",
    b"\n",
    b"\0",
    b" ",
    b"1e999",
    b"-1",
    b"null",
    b"18446744073709551616",
    b"2147483648",
    b"\xff",
    "ƒ".as_bytes(),
    b"0-2147483647",
    b"&a",
    b"*a",
    b"\\u0000",
    b"[[[[[[[[",
    b"true",
    b"nan",
    b"<<: ",
];

impl Generator {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Generator {
        Generator { state: seed }
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is above 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit as u64) as usize
    }

    /// An input made from one of `examples`.
    pub fn input(&mut self, examples: &[&[u8]]) -> Vec<u8> {
        if self.below(16) == 0 {
            let length = self.below(64);
            return (0..length).map(|_| self.number() as u8).collect();
        }
        let mut input = examples[self.below(examples.len())].to_vec();
        for _ in 0..self.below(6) {
            self.change(&mut input, examples);
        }
        input.truncate(INPUT_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, examples: &[&[u8]]) {
        let at = self.below(input.len() + 1);
        let end = at + self.below(input.len() - at + 1).min(self.below(16) + 1);
        match self.below(6) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..end)),
            2 => input
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte ^= 1 << (at % 8)),
            3 => {
                let word = WORDS[self.below(WORDS.len())];
                drop(input.splice(at..end, word.iter().copied()));
            }
            4 => {
                let again = input[at..end].to_vec();
                drop(input.splice(at..at, again));
            }
            _ => {
                let other = examples[self.below(examples.len())];
                let from = self.below(other.len() + 1);
                drop(input.splice(at.., other[from..].iter().copied()));
            }
        }
    }
}
