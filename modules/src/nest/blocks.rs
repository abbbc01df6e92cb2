//! Which job numbers are whose: the blocks that declared instances have drawn.
//!
//! A block belongs to the instance's name and not to the job that it is now:
//! the instance goes on in its next job with the jobs it has. So what each has
//! drawn is kept in one note of the instance itself (a `memo` of no job), of
//! which the last one counts; it stays when the job that drew is forgotten.
//!
//! What an instance took under its own numbers while this one was away is this one's once it was handed up,
//! also when it is over: which numbers those are is kept in a note, too, which is made with each mark.

use std::collections::BTreeMap;

use eddy_wire::event::{IdBlock, Kind, Record};
use eddy_wire::id::{JobId, Seq};
use serde_json::{Map, Value, json};

/// How many separate ranges of one instance are kept, the newest: numbers of
/// older ones are not found any more.
const RANGES_MAX: usize = 4096;
const KEY: &str = "job-numbers";
/// Of the note of those of them whose jobs were taken in here and are over.
const OVER_KEY: &str = "job-numbers-taken";

/// First and last numbers.
type Ranges = Vec<(JobId, JobId)>;

/// The numbers each declared instance has drawn.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    by_name: BTreeMap<String, (Seq, Ranges)>,
    /// Numbers that an instance drew, of jobs that were this one's and are over.
    over: Ranges,
    /// The note of them that stands, if there is one.
    noted: Option<Seq>,
}

/// Whose some numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner<'a> {
    /// This instance's own.
    Here,
    /// All of them that instance's.
    Of(&'a str),
    /// Of several.
    Several,
}

impl Blocks {
    pub(super) fn apply(&mut self, record: &Record) {
        if let (Kind::Memo(memo), None) = (&record.event.kind, record.event.job)
            && let Some((name, ranges)) = read(memo)
        {
            self.by_name.insert(name, (record.seq, ranges));
        }
        match (&record.event.kind, record.event.job) {
            (Kind::Memo(memo), None) => {
                if let Some(over) = memo.get(OVER_KEY).and_then(read_ranges) {
                    (self.over, self.noted) = (over, Some(record.seq));
                }
            }
            // A job with such a number is known here only where it was taken in.
            (Kind::Clean, Some(job)) if matches!(self.owner(job, job), Owner::Of(_)) => {
                self.ended(job);
            }
            _ => {}
        }
    }

    fn ended(&mut self, job: JobId) {
        let at = self.over.partition_point(|(_, last)| *last < job);
        if self.over.get(at).is_some_and(|(first, _)| *first <= job) {
            return;
        }
        let meets = |one: JobId, next: JobId| one.0.checked_add(1) == Some(next.0);
        let below = at > 0 && meets(self.over[at - 1].1, job);
        let above = self
            .over
            .get(at)
            .is_some_and(|(first, _)| meets(job, *first));
        match (below, above) {
            (true, true) => self.over[at - 1].1 = self.over.remove(at).1,
            (true, false) => self.over[at - 1].1 = job,
            (false, true) => self.over[at].0 = job,
            (false, false) => self.over.insert(at, (job, job)),
        }
        let surplus = self.over.len().saturating_sub(RANGES_MAX);
        self.over.drain(..surplus);
    }

    /// Those from `first` to `last` whose jobs were this instance's and are over, though another drew them.
    pub(super) fn over(&self, first: JobId, last: JobId) -> impl Iterator<Item = (JobId, JobId)> {
        let at = self.over.partition_point(|(_, end)| *end < first);
        let within = self.over[at..].iter();
        let within = within.take_while(move |(begin, _)| *begin <= last);
        within.map(move |(begin, end)| (*begin.max(&first), *end.min(&last)))
    }

    /// The note of these, before a mark: the records of jobs that are over are read no more after it.
    pub(super) fn note(&self) -> Option<Kind> {
        let memo = Map::from_iter([(OVER_KEY.to_owned(), json!(self.over))]);
        (!self.over.is_empty()).then_some(Kind::Memo(memo))
    }

    pub(super) fn live(&self, seqs: &mut Vec<Seq>) {
        seqs.extend(self.by_name.values().map(|(seq, _)| *seq));
        seqs.extend(self.noted);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The note that this block, which goes beyond all others, is that instance's too.
    pub(super) fn with(&self, name: &str, block: &IdBlock) -> Kind {
        let known = self.by_name.get(name);
        let mut ranges = known.map_or_else(Vec::new, |(_, ranges)| ranges.clone());
        let last = JobId(block.first.0.saturating_add(block.count.saturating_sub(1)));
        match ranges.last_mut() {
            Some((_, before)) if before.0.checked_add(1) == Some(block.first.0) => *before = last,
            _ => ranges.push((block.first, last)),
        }
        let surplus = ranges.len().saturating_sub(RANGES_MAX);
        ranges.drain(..surplus);
        let mut memo = Map::new();
        memo.insert(KEY.to_owned(), json!({"instance": name, "ranges": ranges}));
        Kind::Memo(memo)
    }

    /// The numbers from `first` to `last`, not before it, in stretches of one
    /// owner; `None` is this instance.
    pub(super) fn split(&self, first: JobId, last: JobId) -> Vec<(Option<&str>, (JobId, JobId))> {
        let mut drawn: Vec<(JobId, JobId, &str)> = Vec::new();
        for (name, (_, ranges)) in &self.by_name {
            let at = ranges.partition_point(|(_, end)| *end < first);
            let within = ranges[at..].iter().take_while(|(begin, _)| *begin <= last);
            drawn.extend(within.map(|(begin, end)| (*begin.max(&first), *end.min(&last), &**name)));
        }
        drawn.sort_unstable();
        let mut split = Vec::new();
        let mut from = first.0;
        for (begin, end, name) in drawn {
            if from < begin.0 {
                split.push((None, (JobId(from), JobId(begin.0 - 1))));
            }
            split.push((Some(name), (begin, end)));
            from = end.0.saturating_add(1);
        }
        if from <= last.0 && split.last().is_none_or(|(_, (_, end))| *end < last) {
            split.push((None, (JobId(from), last)));
        }
        split
    }

    /// First and last numbers of what that instance has drawn.
    pub(super) fn ranges(&self, name: &str) -> &[(JobId, JobId)] {
        self.by_name.get(name).map_or(&[], |(_, ranges)| ranges)
    }

    /// Whose the numbers from `first` to `last` are.
    pub(super) fn owner(&self, first: JobId, last: JobId) -> Owner<'_> {
        for (name, (_, ranges)) in &self.by_name {
            let at = ranges.partition_point(|(_, end)| *end < first);
            match ranges.get(at) {
                Some((begin, end)) if *begin <= first && last <= *end => return Owner::Of(name),
                Some((begin, _)) if *begin <= last => return Owner::Several,
                Some(_) | None => {}
            }
        }
        Owner::Here
    }
}

/// The highest number of that note, if it is one.
pub(crate) fn last_of(memo: &Map<String, Value>) -> Option<JobId> {
    read(memo)?.1.last().map(|(_, last)| *last)
}

fn read(memo: &Map<String, Value>) -> Option<(String, Ranges)> {
    let note = memo.get(KEY)?;
    let name = note.get("instance")?.as_str()?.to_owned();
    Some((name, read_ranges(note.get("ranges")?)?))
}

fn read_ranges(value: &Value) -> Option<Ranges> {
    let number = |value: &Value| value.as_u64().map(JobId);
    let range = |value: &Value| Some((number(value.get(0)?)?, number(value.get(1)?)?));
    value.as_array()?.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use eddy_wire::Time;
    use eddy_wire::event::Event;

    fn drawn(blocks: &mut Blocks, name: &str, first: u64) {
        let block = IdBlock {
            number: 1,
            first: JobId(first),
            count: 1024,
        };
        let event = Event {
            t: Time(0),
            job: None,
            kind: blocks.with(name, &block),
        };
        let seq = Seq(first);
        blocks.apply(&Record { seq, event });
    }

    #[test]
    fn numbers_of_jobs_that_were_taken_in_stay_this_instances_when_they_are_over() {
        let mut blocks = Blocks::default();
        drawn(&mut blocks, "batch", 10);
        let ends = |blocks: &mut Blocks, job| {
            let event = Event {
                t: Time(0),
                job: Some(JobId(job)),
                kind: Kind::Clean,
            };
            blocks.apply(&Record {
                seq: Seq(job),
                event,
            });
        };
        for job in [9, 12, 10, 14, 11, 12] {
            ends(&mut blocks, job);
        }
        let over = |blocks: &Blocks, first, last| -> Vec<(u64, u64)> {
            let over = blocks.over(JobId(first), JobId(last));
            over.map(|(first, last)| (first.0, last.0)).collect()
        };
        assert_eq!(over(&blocks, 1, 99), [(10, 12), (14, 14)], "not its own");
        assert_eq!(over(&blocks, 11, 13), [(11, 12)]);
        let mut again = Blocks::default();
        let event = Event {
            t: Time(0),
            job: None,
            kind: blocks.note().expect("there are some"),
        };
        let seq = Seq(77);
        again.apply(&Record { seq, event });
        assert_eq!(over(&again, 1, 99), [(10, 12), (14, 14)]);
        let mut seqs = Vec::new();
        again.live(&mut seqs);
        assert_eq!(seqs, [Seq(77)]);
    }

    #[test]
    fn numbers_find_their_instance_and_a_mixture_is_told() {
        let mut blocks = Blocks::default();
        drawn(&mut blocks, "batch", 3);
        drawn(&mut blocks, "batch", 1027);
        drawn(&mut blocks, "debug", 2052);
        let owner = |first, last| blocks.owner(JobId(first), JobId(last));
        assert_eq!(owner(1, 2), Owner::Here);
        assert_eq!(
            owner(3, 2050),
            Owner::Of("batch"),
            "adjoining blocks are one"
        );
        assert_eq!(owner(2051, 2051), Owner::Here);
        assert_eq!(owner(2052, 2052), Owner::Of("debug"));
        assert_eq!(owner(2, 3), Owner::Several);
        assert_eq!(owner(2000, 2060), Owner::Several);
        let split = |first, last| {
            let split = blocks.split(JobId(first), JobId(last)).into_iter();
            split
                .map(|(owner, (first, last))| (owner.unwrap_or("here"), first.0, last.0))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            split(2, 2060),
            [
                ("here", 2, 2),
                ("batch", 3, 2050),
                ("here", 2051, 2051),
                ("debug", 2052, 2060)
            ]
        );
        assert_eq!(split(1, 2), [("here", 1, 2)]);
        assert_eq!(split(3080, u64::MAX), [("here", 3080, u64::MAX)]);
        let mut seqs = Vec::new();
        blocks.live(&mut seqs);
        assert_eq!(seqs, [Seq(1027), Seq(2052)], "the last note of each");
    }
}
