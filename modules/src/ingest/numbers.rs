//! Which job number is next.
//!
//! An instance counts for itself, from 1. An instance that its parent declared
//! draws blocks from its parent's numbers, so that one number names a job in
//! both; it uses them in order and leaves gaps where a submission of many
//! copies does not fit what is left.

use std::collections::VecDeque;

use eddy_wire::event::{IdBlock, Kind};
use eddy_wire::id::{JobId, Seq};
use eddy_wire::services::child::ID_BLOCK;
use serde_json::{Map, Value};

/// A new block is asked for when fewer numbers than this are left.
const LEFT_MIN: u64 = 128;

/// Gives job numbers.
#[derive(Debug)]
pub struct Numbers {
    /// The highest that was given or set aside.
    given: JobId,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Own,
    Parent(Drawn),
}

/// The note of the last number that was given: what was passed down has numbers that say nothing of it.
const KEY: &str = "numbers-given";

#[derive(Debug, Default)]
struct Drawn {
    /// The note that counts.
    noted: Option<Seq>,
    /// Blocks that are not used up, and the last one, ascending.
    blocks: VecDeque<(Seq, IdBlock)>,
    /// The number of the block that was asked for last by this leader.
    asked: u64,
}

/// What comes of asking for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Contiguous from this one.
    First(JobId),
    /// Later: a block must come from the parent first.
    Later,
    /// Never: more than a block has.
    TooMany,
    /// Never: there are no numbers left at all.
    Exhausted,
}

impl Numbers {
    /// Numbers counted by this instance, after `given`.
    pub fn own(given: JobId) -> Numbers {
        let source = Source::Own;
        Numbers { given, source }
    }

    /// Numbers drawn from the parent's, after `given`.
    pub fn drawn(given: JobId) -> Numbers {
        let source = Source::Parent(Drawn::default());
        Numbers { given, source }
    }

    /// This number is taken, or set aside, with all below it.
    pub fn passed(&mut self, job: JobId) {
        self.given = self.given.max(job);
    }

    /// The note that numbers up to that one are given, where they are drawn.
    pub fn note(&self, last: JobId) -> Option<Kind> {
        let memo = [(KEY.to_owned(), Value::from(last.0))];
        match &self.source {
            Source::Own => None,
            Source::Parent(_) => Some(Kind::Memo(memo.into_iter().collect())),
        }
    }

    /// The note that none of the first block is given, unless there is one.
    pub fn first_note(&self) -> Option<Kind> {
        match &self.source {
            Source::Parent(drawn) if drawn.noted.is_none() => self.note(self.given),
            Source::Parent(_) | Source::Own => None,
        }
    }

    /// A note was recorded.
    pub fn noted(&mut self, seq: Seq, memo: &Map<String, Value>) {
        let Some(last) = memo.get(KEY).and_then(Value::as_u64) else {
            return;
        };
        if let Source::Parent(drawn) = &mut self.source {
            // The first one says what the highest number of the journal does not.
            self.given = match drawn.noted {
                None => JobId(last),
                Some(_) => self.given.max(JobId(last)),
            };
            drawn.noted = Some(seq);
        }
    }

    /// A block of the parent's numbers was recorded.
    pub fn block(&mut self, seq: Seq, block: IdBlock) {
        let given = self.given;
        if let Source::Parent(drawn) = &mut self.source
            && block.number > drawn.number()
        {
            drawn.blocks.retain(|(_, block)| last(block) > given);
            drawn.blocks.push_back((seq, block));
        }
    }

    /// So many contiguous numbers; taken at once, since they are proposed at once.
    pub fn take(&mut self, count: u32) -> Taken {
        let count = u64::from(count);
        let first = match &self.source {
            Source::Own => self.given.0.checked_add(1),
            Source::Parent(_) if count > ID_BLOCK => return Taken::TooMany,
            Source::Parent(drawn) => match drawn.room(self.given, count) {
                None => return Taken::Later,
                first => first,
            },
        };
        let last = first.and_then(|first| first.checked_add(count));
        let (Some(first), Some(beyond)) = (first, last) else {
            return Taken::Exhausted;
        };
        self.given = JobId(beyond - 1);
        Taken::First(JobId(first))
    }

    /// Whether that many contiguous numbers are there.
    pub fn has(&self, count: u32) -> bool {
        match &self.source {
            Source::Own => true,
            Source::Parent(drawn) => drawn.room(self.given, u64::from(count)).is_some(),
        }
    }

    /// The number of the block to ask the parent for, once each: when few
    /// numbers are left, or `waiting` copies do not fit. The first is asked for at once: what is submitted
    /// while the parent is away needs it.
    pub fn wanted(&mut self, waiting: Option<u32>) -> Option<u64> {
        let given = self.given;
        let Source::Parent(drawn) = &mut self.source else {
            return None;
        };
        let waits = waiting.is_some_and(|count| drawn.room(given, u64::from(count)).is_none());
        let next = drawn.number() + 1;
        if (drawn.left(given) >= LEFT_MIN && !waits) || drawn.asked == next {
            return None;
        }
        drawn.asked = next;
        Some(next)
    }

    /// What was asked for may be lost: it is asked for again.
    pub fn ask_again(&mut self) {
        if let Source::Parent(drawn) = &mut self.source {
            drawn.asked = 0;
        }
    }

    /// Whether this block is the next one.
    pub fn expects(&self, block: &IdBlock) -> bool {
        match &self.source {
            Source::Own => false,
            Source::Parent(drawn) => block.number == drawn.number() + 1,
        }
    }

    /// Places of the records of the blocks that still count.
    pub fn live(&self, seqs: &mut Vec<Seq>) {
        if let Source::Parent(drawn) = &self.source {
            seqs.extend(drawn.blocks.iter().map(|(seq, _)| *seq));
            seqs.extend(drawn.noted);
        }
    }
}

impl Drawn {
    /// The number of the last block.
    fn number(&self) -> u64 {
        self.blocks.back().map_or(0, |(_, block)| block.number)
    }

    fn left(&self, given: JobId) -> u64 {
        let left = |block: &IdBlock| {
            let first = block.first.0.max(given.0.saturating_add(1));
            (last(block).0.saturating_add(1)).saturating_sub(first)
        };
        self.blocks.iter().map(|(_, block)| left(block)).sum()
    }

    /// The first of `count` contiguous numbers after `given`; blocks that adjoin count as one.
    fn room(&self, given: JobId, count: u64) -> Option<u64> {
        let mut stretch: Option<(u64, u64)> = None;
        for (_, block) in &self.blocks {
            let begin = block.first.0.max(given.0.saturating_add(1));
            let end = last(block).0;
            if begin > end {
                continue;
            }
            let begin = match stretch {
                Some((from, to)) if to + 1 == begin => from,
                Some(_) | None => begin,
            };
            if end - begin + 1 >= count {
                return Some(begin);
            }
            stretch = Some((begin, end));
        }
        None
    }
}

/// The last number of a block.
pub fn last(block: &IdBlock) -> JobId {
    JobId(
        block
            .first
            .0
            .saturating_add(block.count)
            .saturating_sub(1)
            .max(block.first.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64, first: u64) -> IdBlock {
        let (first, count) = (JobId(first), ID_BLOCK);
        IdBlock {
            number,
            first,
            count,
        }
    }

    #[test]
    fn numbers_of_blocks_are_used_in_order_and_asked_for_in_time() {
        let mut numbers = Numbers::drawn(JobId(0));
        assert_eq!(numbers.take(1), Taken::Later);
        assert_eq!(numbers.wanted(None), Some(1));
        assert_eq!(numbers.wanted(Some(1)), None, "it is on its way");
        numbers.block(Seq(1), block(1, 17));
        assert_eq!(numbers.take(1), Taken::First(JobId(17)));
        assert_eq!(numbers.take(900), Taken::First(JobId(18)));
        assert_eq!(numbers.wanted(None), Some(2));
        assert_eq!(numbers.take(200), Taken::Later);
        numbers.block(Seq(2), block(2, 5000));
        assert_eq!(numbers.take(200), Taken::First(JobId(5000)));
        assert_eq!(numbers.take(1025), Taken::TooMany);
    }

    #[test]
    fn the_next_leader_goes_on_in_its_block_though_jobs_were_passed_beyond_it() {
        let mut numbers = Numbers::drawn(JobId(5000));
        numbers.block(Seq(1), block(1, 17));
        assert!(!numbers.has(1));
        let Some(Kind::Memo(memo)) = numbers.note(JobId(20)) else {
            panic!("numbers that are drawn are noted");
        };
        numbers.noted(Seq(2), &memo);
        assert_eq!(numbers.take(1), Taken::First(JobId(21)));
        let mut seqs = Vec::new();
        numbers.live(&mut seqs);
        assert_eq!(seqs, [Seq(1), Seq(2)]);
    }

    #[test]
    fn blocks_that_adjoin_are_one() {
        let mut numbers = Numbers::drawn(JobId(0));
        numbers.block(Seq(1), block(1, 1));
        numbers.block(Seq(2), block(2, 1025));
        assert_eq!(numbers.take(1000), Taken::First(JobId(1)));
        assert_eq!(numbers.take(1000), Taken::First(JobId(1001)));
    }

    #[test]
    fn a_block_told_twice_counts_once() {
        let mut numbers = Numbers::drawn(JobId(0));
        assert!(numbers.expects(&block(1, 1)));
        numbers.block(Seq(1), block(1, 1));
        assert!(!numbers.expects(&block(1, 1)));
        assert!(numbers.expects(&block(2, 2049)));
    }

    #[test]
    fn an_instance_of_its_own_counts_up() {
        let mut numbers = Numbers::own(JobId(7));
        assert_eq!(numbers.take(2), Taken::First(JobId(8)));
        assert_eq!(numbers.take(1), Taken::First(JobId(10)));
        assert_eq!(numbers.wanted(None), None);
        numbers.passed(JobId(u64::MAX));
        assert_eq!(numbers.take(1), Taken::Exhausted);
    }
}
