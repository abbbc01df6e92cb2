//! What was taken of the standard input of a part: how much of each sender, and who is still to be told.
//!
//! Used where input arrives in the shell. It holds no bytes.

use std::collections::BTreeMap;

use eddy_wire::input::{Portion, SENDERS_MAX, Taken};
use uuid::Uuid;

/// The most portions whose senders wait to be told of room.
const OWED_MAX: usize = 1_024;

/// How much of each sender was taken.
#[derive(Debug, Default)]
pub struct Intake {
    senders: BTreeMap<Uuid, u64>,
    owed: Vec<Said>,
}

/// What is said of a portion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// Which.
    pub portion: u64,
    /// Up to where its sender's bytes were taken.
    pub next: u64,
    /// What became of it.
    pub taken: Taken,
}

impl Said {
    fn of(portion: &Portion, next: u64, taken: Taken) -> Said {
        Said {
            portion: portion.number,
            next,
            taken,
        }
    }
}

impl Intake {
    /// Up to where bytes of its sender were taken.
    fn kept(&self, portion: &Portion) -> u64 {
        let source = portion.at.map(|at| at.source);
        source
            .and_then(|source| self.senders.get(&source).copied())
            .unwrap_or(0)
    }

    /// How many of its bytes were taken before; or what is said of it, since none of it can be taken.
    pub fn known(&self, portion: &Portion) -> Result<usize, Said> {
        let Some(at) = portion.at else { return Ok(0) };
        let kept = self.kept(portion);
        let Some(known) = kept.checked_sub(at.offset) else {
            return Err(Said::of(portion, kept, Taken::Kept));
        };
        let is_new = !self.senders.contains_key(&at.source);
        let counts = !portion.data.is_empty() || portion.eof;
        if is_new && counts && self.senders.len() >= SENDERS_MAX {
            return Err(Said::of(portion, kept, Taken::Crowded));
        }
        Ok(
            usize::try_from(known)
                .map_or(portion.data.len(), |known| known.min(portion.data.len())),
        )
    }

    /// None of it is taken, for that reason.
    pub fn refused(&self, portion: &Portion, taken: Taken) -> Said {
        Said::of(portion, self.kept(portion), taken)
    }

    /// All of it is taken from now on.
    pub fn take(&mut self, portion: &Portion) -> Said {
        let mut next = self.kept(portion);
        if let Some(at) = portion.at
            && (!portion.data.is_empty() || portion.eof)
        {
            next = next.max(at.offset.saturating_add(portion.data.len() as u64));
            self.senders.insert(at.source, next);
        }
        Said::of(portion, next, Taken::Kept)
    }

    /// Whether so many wait to be told that no more can.
    pub fn is_full(&self) -> bool {
        self.owed.len() >= OWED_MAX
    }

    /// It is said once there is room.
    pub fn owe(&mut self, said: Said) {
        self.owed.push(said);
    }

    /// There is room.
    pub fn due(&mut self) -> Vec<Said> {
        std::mem::take(&mut self.owed)
    }
}

#[cfg(test)]
mod tests {
    use eddy_wire::idset::Idset;
    use eddy_wire::input::Position;

    use super::*;

    fn portion(source: u128, offset: u64, data: &[u8]) -> Portion {
        Portion {
            number: offset + 100,
            tasks: Idset::new(),
            at: Some(Position {
                source: Uuid::from_u128(source),
                offset,
            }),
            eof: false,
            data: data.to_vec(),
        }
    }

    /// What is new of it and where its sender goes on.
    fn take(intake: &mut Intake, portion: Portion) -> (usize, u64) {
        match intake.known(&portion) {
            Ok(known) => (portion.data.len() - known, intake.take(&portion).next),
            Err(said) => (0, said.next),
        }
    }

    #[test]
    fn a_portion_is_taken_once_and_none_behind_a_gap() {
        let mut intake = Intake::default();
        assert_eq!(take(&mut intake, portion(1, 0, b"abc")), (3, 3));
        assert_eq!(take(&mut intake, portion(1, 0, b"abc")), (0, 3));
        assert_eq!(take(&mut intake, portion(1, 4, b"e")), (0, 3));
        assert_eq!(take(&mut intake, portion(1, 2, b"cdef")), (3, 6));
        assert_eq!(take(&mut intake, portion(1, 1, b"b")), (0, 6));
    }

    #[test]
    fn each_sender_is_counted_by_itself_and_who_only_asks_is_not() {
        let mut intake = Intake::default();
        take(&mut intake, portion(1, 0, b"abc"));
        assert_eq!(take(&mut intake, portion(2, 0, b"")), (0, 0));
        assert_eq!(take(&mut intake, portion(2, 0, b"xy")), (2, 2));
        assert_eq!(intake.senders.len(), 2);
    }

    #[test]
    fn whom_a_full_table_does_not_know_is_refused_and_nobody_is_forgotten() {
        let mut intake = Intake::default();
        for source in 0..SENDERS_MAX as u128 {
            take(&mut intake, portion(source, 0, b"a"));
        }
        let other = intake.known(&portion(1 << 64, 0, b"a"));
        assert_eq!(other.map_err(|said| said.taken), Err(Taken::Crowded));
        assert_eq!(take(&mut intake, portion(0, 1, b"b")), (1, 2));
    }
}
