//! Pools over time: what jobs have of each until when, and what is promised.
//!
//! Kept by [`super::Occupancy`] beside its nodes: a job fits where both do. Pools are of the whole
//! instance, so each line is told what the jobs of all have; what others are promised it does not know.

use std::collections::BTreeMap;

use eddy_wire::account::Name;
use eddy_wire::id::JobId;
use eddy_wire::plan::Reason;
use eddy_wire::pool::{Pool, Takes};
use eddy_wire::time::{Span, Time};

use super::{Ask, OVERDUE, Occupancy};
use crate::timeline::Timeline;

/// So often a search goes between nodes and pools before it gives up: each turn is later by a step.
const TURNS_MAX: usize = 1000;

/// All pools.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools {
    counts: BTreeMap<Name, u64>,
    uses: BTreeMap<JobId, (Takes, Time)>,
    /// By the number of the booking.
    promised: BTreeMap<u64, (Takes, Time, Time)>,
    /// What is free from when to when, as of that time.
    free: Option<(Time, BTreeMap<Name, Timeline>)>,
}

impl Pools {
    pub fn define(&mut self, pools: &[Pool]) {
        let counts = pools.iter().map(|pool| (pool.name.clone(), pool.count));
        self.counts = counts.collect();
        self.free = None;
    }

    /// A job has so much until then.
    pub fn take(&mut self, job: JobId, takes: Takes, until: Time) {
        if takes.is_empty() {
            return;
        }
        self.uses.insert(job, (takes, until));
        self.free = None;
    }

    /// What a job had is free; whether it had any.
    pub fn give(&mut self, job: JobId) -> bool {
        let had = self.uses.remove(&job).is_some();
        if had {
            self.free = None;
        }
        had
    }

    pub fn promise(&mut self, number: u64, takes: &Takes, from: Time, until: Time) {
        if !takes.is_empty() {
            self.promised.insert(number, (takes.clone(), from, until));
            self.free = None;
        }
    }

    pub fn unpromise(&mut self, number: u64) {
        if self.promised.remove(&number).is_some() {
            self.free = None;
        }
    }

    /// The same counts, and what these jobs have of them.
    fn known_to(&self, has: impl Fn(JobId) -> bool) -> Pools {
        let uses = self.uses.iter().filter(|(job, _)| has(**job));
        Pools {
            counts: self.counts.clone(),
            uses: uses.map(|(job, of)| (*job, of.clone())).collect(),
            ..Pools::default()
        }
    }

    fn in_use(&self, name: &Name) -> u64 {
        let uses = self.uses.values().flat_map(|(takes, _)| takes.iter());
        uses.filter(|(of, _)| of == name).map(|(_, n)| *n).sum()
    }

    fn free(&mut self, now: Time) -> &BTreeMap<Name, Timeline> {
        if self.free.as_ref().is_none_or(|(at, _)| *at != now) {
            let made = self.made(now);
            self.free = Some((now, made));
        }
        match &self.free {
            Some((_, free)) => free,
            None => unreachable!("it was made just now"),
        }
    }

    fn made(&self, now: Time) -> BTreeMap<Name, Timeline> {
        let lines = self.counts.iter();
        let mut free: BTreeMap<Name, Timeline> = lines
            .map(|(name, count)| (name.clone(), Timeline::new(signed(*count))))
            .collect();
        let uses = self.uses.values().map(|(takes, until)| {
            let until = (*until).max(now + OVERDUE);
            (takes, Time(i64::MIN), until)
        });
        let promised = self.promised.values();
        let promised = promised.map(|(takes, from, until)| (takes, *from, *until));
        for (takes, from, until) in uses.chain(promised) {
            for (name, count) in takes.iter() {
                if let Some(line) = free.get_mut(name) {
                    line.add(from, until, -signed(*count));
                }
            }
        }
        free
    }

    /// Whether so much is free all the time from one moment on for a span.
    fn fit(&mut self, takes: &Takes, now: Time, from: Time, span: Span) -> bool {
        let free = self.free(now);
        takes.iter().all(|(name, count)| {
            let line = free.get(name);
            line.is_some_and(|line| line.least(from, from.after(span)) >= signed(*count))
        })
    }

    /// The first time from one on at which so much is free for a span.
    fn earliest(&mut self, takes: &Takes, now: Time, from: Time, span: Span) -> Option<Time> {
        let free = self.free(now);
        let mut at = from;
        // Each turn is later by a step of one of them.
        loop {
            let mut next = at;
            for (name, count) in takes.iter() {
                next = free.get(name)?.earliest(next, signed(*count), span)?;
            }
            if next == at {
                return Some(at);
            }
            at = next;
        }
    }
}

impl Occupancy {
    /// There is so much of each pool.
    pub fn define_pools(&mut self, pools: &[Pool]) {
        self.pools.define(pools);
    }

    /// A job has so much of pools until then, wherever its nodes are.
    pub fn use_pools(&mut self, job: JobId, takes: Takes, until: Time) {
        self.pools.take(job, takes, until);
    }

    /// A job has nothing of pools any more; whether it had.
    pub fn give_pools(&mut self, job: JobId) -> bool {
        self.pools.give(job)
    }

    /// The pools of another, as far as it knows what these jobs have.
    pub fn share_pools(&mut self, other: &Occupancy, has: impl Fn(JobId) -> bool) {
        self.pools = other.pools.known_to(has);
    }

    /// Whether pools have what a request takes, from one moment on for a span.
    pub(super) fn pools_fit(&mut self, ask: &Ask, from: Time, span: Span) -> bool {
        let takes = &ask.want.pools;
        takes.is_empty() || self.pools.fit(takes, self.now, from, span)
    }

    /// Whether they have it this moment, whatever is promised.
    pub(super) fn pools_have(&self, ask: &Ask) -> bool {
        self.pool_short(ask).is_none()
    }

    /// The first time at which both nodes and pools have it: `nodes` says when nodes do from a time on.
    pub(super) fn with_pools<S>(
        &mut self,
        ask: &Ask,
        (from, before): (Time, Option<Time>),
        span: Span,
        mut nodes: impl FnMut(&mut Occupancy, Time) -> Option<(Time, S)>,
    ) -> Option<(Time, S)> {
        let takes = &ask.want.pools;
        let mut from = from;
        for _ in 0..TURNS_MAX {
            let (at, spot) = nodes(self, from)?;
            if takes.is_empty() {
                return Some((at, spot));
            }
            let then = self.pools.earliest(takes, self.now, at, span)?;
            if then == at {
                return Some((at, spot));
            }
            if before.is_some_and(|before| then >= before) {
                return None;
            }
            from = then;
        }
        None
    }

    /// The pool of which a request takes more than there is in all: one that is not there any more, or is smaller.
    pub(super) fn pool_never(&self, ask: &Ask) -> Option<Reason> {
        ask.want.pools.iter().find_map(|(name, asked)| {
            let count = self.pools.counts.get(name).copied().unwrap_or(0);
            (count < *asked).then(|| Reason::NeverPool {
                pool: name.clone(),
                asked: *asked,
                count,
            })
        })
    }

    /// The pool of which less is left now than a request takes.
    pub fn pool_short(&self, ask: &Ask) -> Option<Reason> {
        ask.want.pools.iter().find_map(|(name, asked)| {
            let count = self.pools.counts.get(name).copied().unwrap_or(0);
            let free = count.saturating_sub(self.pools.in_use(name));
            (free < *asked).then(|| Reason::Pool {
                pool: name.clone(),
                asked: *asked,
                free,
                count,
            })
        })
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
