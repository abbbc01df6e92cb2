//! The running checksum that ties each record to all before it. The store and the verifier call it.
//! It never reads or writes the disk.

use crc32fast::Hasher;

/// A record and the running checksum up to and with it: `(0, 0)` before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Head {
    pub seq: u64,
    pub sum: u32,
}

/// The fields of a record as they are summed: text as bytes, since damaged text need not be UTF-8.
pub(super) struct Fields<'a> {
    pub seq: u64,
    pub t: i64,
    pub job: u64,
    pub version: u16,
    pub name: &'a [u8],
    pub context: &'a [u8],
}

/// Computes sums; holds the buffer so that each record costs no allocation.
#[derive(Default)]
pub(super) struct Chain {
    buffer: Vec<u8>,
}

impl Chain {
    /// The sum after a record: CRC-32 (IEEE 802.3) of its fields, continuing from the sum before it.
    pub fn next(&mut self, before: u32, fields: &Fields<'_>) -> u32 {
        // One buffer and one update: CRC in wide steps needs its bytes together.
        self.buffer.clear();
        self.buffer.extend_from_slice(&fields.seq.to_le_bytes());
        self.buffer.extend_from_slice(&fields.t.to_le_bytes());
        self.buffer.extend_from_slice(&fields.job.to_le_bytes());
        self.buffer.extend_from_slice(&fields.version.to_le_bytes());
        // The lengths keep a byte that moves from name to context from going unseen.
        self.buffer
            .extend_from_slice(&(fields.name.len() as u32).to_le_bytes());
        self.buffer
            .extend_from_slice(&(fields.context.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(fields.name);
        self.buffer.extend_from_slice(fields.context);
        let mut hasher = Hasher::new_with_initial(before);
        hasher.update(&self.buffer);
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_and_the_sum_before_count() {
        let base = || Fields {
            seq: 7,
            t: 1,
            job: 2,
            version: 1,
            name: b"ab",
            context: b"c",
        };
        let mut chain = Chain::default();
        let sum = chain.next(5, &base());
        assert_eq!(sum, chain.next(5, &base()));
        assert_ne!(sum, chain.next(6, &base()));
        assert_ne!(sum, chain.next(5, &Fields { seq: 8, ..base() }));
        assert_ne!(sum, chain.next(5, &Fields { t: 2, ..base() }));
        assert_ne!(sum, chain.next(5, &Fields { job: 3, ..base() }));
        assert_ne!(
            sum,
            chain.next(
                5,
                &Fields {
                    version: 2,
                    ..base()
                }
            )
        );
        assert_ne!(
            sum,
            chain.next(
                5,
                &Fields {
                    name: b"a",
                    context: b"bc",
                    ..base()
                }
            )
        );
    }
}
