//! Jobs by their numbers, as requests name them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::JobId;

/// Job numbers as inclusive ranges, ascending. As read no two of them overlap, unless one is reversed, which
/// is refused by who asks what the set says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Given")]
pub struct JobSet {
    /// First and last of each range.
    pub ranges: Vec<(JobId, JobId)>,
}

impl JobSet {
    /// The set of one job.
    pub fn one(job: JobId) -> JobSet {
        JobSet {
            ranges: vec![(job, job)],
        }
    }

    /// The set of these jobs, in any order, repetitions allowed.
    pub fn of(jobs: impl IntoIterator<Item = JobId>) -> JobSet {
        let ordered: BTreeSet<JobId> = jobs.into_iter().collect();
        let mut ranges: Vec<(JobId, JobId)> = Vec::new();
        for job in ordered {
            match ranges.last_mut() {
                Some((_, last)) if last.0.checked_add(1) == Some(job.0) => *last = job,
                _ => ranges.push((job, job)),
            }
        }
        JobSet { ranges }
    }

    /// Whether `job` is in it.
    pub fn contains(&self, job: JobId) -> bool {
        let at = self.ranges.partition_point(|(_, last)| *last < job);
        self.ranges.get(at).is_some_and(|(first, _)| *first <= job)
    }

    /// Whether it names `job` by itself and not as one of a range.
    pub fn names(&self, job: JobId) -> bool {
        let at = self.ranges.partition_point(|(_, last)| *last < job);
        self.ranges.get(at) == Some(&(job, job))
    }

    /// Whether it names some as a group, by a range.
    pub fn has_range(&self) -> bool {
        self.ranges.iter().any(|(first, last)| first < last)
    }

    /// How many numbers it names; `u64::MAX` also stands for one more.
    pub fn len(&self) -> u64 {
        let counts = self
            .ranges
            .iter()
            .map(|(first, last)| last.0.saturating_sub(first.0).saturating_add(1));
        counts.fold(0, u64::saturating_add)
    }

    /// The first of its ranges that ends before it begins.
    pub fn reversed(&self) -> Option<(JobId, JobId)> {
        self.ranges
            .iter()
            .copied()
            .find(|(first, last)| first > last)
    }

    /// Whether it names none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// All of it but these, by ranges: however many numbers it names, none is looked at one by one.
    #[must_use]
    pub fn without(&self, jobs: &BTreeSet<JobId>) -> JobSet {
        let mut ranges = Vec::with_capacity(self.ranges.len());
        for &(first, last) in self.ranges.iter().filter(|(first, last)| first <= last) {
            let mut from = Some(first);
            for &job in jobs.range(first..=last) {
                if let Some(from) = from.filter(|from| *from < job) {
                    ranges.push((from, JobId(job.0 - 1)));
                }
                from = job.0.checked_add(1).map(JobId);
            }
            if let Some(from) = from.filter(|from| *from <= last) {
                ranges.push((from, last));
            }
        }
        JobSet { ranges }
    }
}

/// A set of jobs as it was sent, in any order and with repetitions.
#[derive(Deserialize)]
struct Given {
    ranges: Vec<(JobId, JobId)>,
}

impl From<Given> for JobSet {
    fn from(Given { mut ranges }: Given) -> JobSet {
        let ascends = ranges.windows(2).all(|pair| pair[0].1 < pair[1].0);
        if ascends || ranges.iter().any(|(first, last)| first > last) {
            return JobSet { ranges };
        }
        ranges.sort_unstable();
        ranges.dedup_by(|next, range| {
            let overlaps = next.0 <= range.1;
            if overlaps {
                range.1 = range.1.max(next.1);
            }
            overlaps
        });
        JobSet { ranges }
    }
}
