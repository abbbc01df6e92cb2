//! How much is free from when to when: one amount as a step function of time.
//!
//! Kept by the rooms of a walk. Points in time lie in chunks, chunks in groups,
//! each with the least and the most of what it holds, so that a change of a range
//! and the search for a gap look at a few dozen numbers whatever the length. It
//! knows no jobs and no needs; nothing stops it from going below nothing.

use eddy_wire::time::{Span, Time};

/// Points in a chunk and chunks in a group: three levels of it hold a quarter of
/// a million points, each scan is a few cache lines.
const FANOUT: usize = 64;

/// An amount over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Never empty; the first point stands for all time before it.
    groups: Vec<Group>,
}

#[derive(Clone, Debug)]
struct Group {
    /// When its first point is.
    begin: Time,
    /// Never empty.
    chunks: Vec<Chunk>,
    /// To be added to all within.
    add: i64,
    low: i64,
    high: i64,
}

#[derive(Clone, Debug)]
struct Chunk {
    /// When its first point is.
    begin: Time,
    /// Never empty.
    points: Vec<Point>,
    /// To be added to all within.
    add: i64,
    low: i64,
    high: i64,
}

/// From this time until the next point there is so much.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Time,
    amount: i64,
}

/// Where a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    group: usize,
    chunk: usize,
    point: usize,
}

impl Timeline {
    /// The same amount at all times.
    pub fn new(amount: i64) -> Timeline {
        let at = Time(i64::MIN);
        let chunk = Chunk::new(vec![Point { at, amount }]);
        Timeline {
            groups: vec![Group::new(vec![chunk])],
        }
    }

    /// How much there is at a time.
    pub fn at(&self, time: Time) -> i64 {
        self.amount(self.place(time))
    }

    /// The least there is from `from` to before `until`; at `from` where that is not later.
    pub fn least(&self, from: Time, until: Time) -> i64 {
        let mut least = self.at(from);
        let mut at = from;
        // Each turn finds less: as many turns as there are steps down.
        while let Some(lower) = self.below(at, least) {
            if lower >= until {
                break;
            }
            least = self.at(lower);
            at = lower;
        }
        least
    }

    /// The first time at or after `from` when there is less than this.
    pub fn below(&self, from: Time, amount: i64) -> Option<Time> {
        self.find(from, |low, _| low < amount)
    }

    /// The first time at or after `from` when there is at least this.
    pub fn reaches(&self, from: Time, amount: i64) -> Option<Time> {
        self.find(from, |_, high| high >= amount)
    }

    /// Since when, up to just before a time, there is at least this without a break; that time
    /// itself where there is less just before it.
    pub fn since(&self, before: Time, amount: i64) -> Time {
        let place = self.place(Time(before.0.saturating_sub(1)));
        let mut since = before;
        for at in (0..=place.group).rev() {
            let group = &self.groups[at];
            let ends_here = at == place.group;
            if !ends_here && group.low >= amount {
                since = group.begin;
                continue;
            }
            let chunks = if ends_here {
                place.chunk + 1
            } else {
                group.chunks.len()
            };
            for inner in (0..chunks).rev() {
                let chunk = &group.chunks[inner];
                let ends_here = ends_here && inner == place.chunk;
                if !ends_here && chunk.low + group.add >= amount {
                    since = chunk.begin;
                    continue;
                }
                let points = if ends_here {
                    place.point + 1
                } else {
                    chunk.points.len()
                };
                for point in chunk.points[..points].iter().rev() {
                    if point.amount + chunk.add + group.add < amount {
                        return since;
                    }
                    since = point.at;
                }
            }
        }
        since
    }

    /// The first time at or after `from` from which there is at least this for the whole span,
    /// and at that instant where the span is nothing.
    pub fn earliest(&self, from: Time, amount: i64, span: Span) -> Option<Time> {
        let mut at = self.reaches(from, amount)?;
        loop {
            match self.below(at, amount) {
                Some(short) if short < at.after(span) => at = self.reaches(short, amount)?,
                Some(_) | None => return Some(at),
            }
        }
    }

    /// Adds to all from `from` to before `until`; [`Time`]`(i64::MAX)` is for ever.
    pub fn add(&mut self, from: Time, until: Time, amount: i64) {
        if from >= until || amount == 0 {
            return;
        }
        self.cut(from);
        if until.0 < i64::MAX {
            self.cut(until);
        }
        let last = match until.0 {
            i64::MAX => self.last(),
            _ => self.place(Time(until.0 - 1)),
        };
        self.raise(self.place(from), last, amount);
        // A step that is none any more is taken out, so that the length follows what is held.
        if until.0 < i64::MAX {
            self.join(until);
        }
        self.join(from);
    }

    /// Forgets what was before this time: all of it becomes as it is then.
    pub fn forget(&mut self, before: Time) {
        let place = self.place(before);
        if place
            == (Place {
                group: 0,
                chunk: 0,
                point: 0,
            })
        {
            return;
        }
        self.groups.drain(..place.group);
        let group = &mut self.groups[0];
        group.chunks.drain(..place.chunk);
        group.chunks[0].points.drain(..place.point);
        group.chunks[0].points[0].at = Time(i64::MIN);
        group.chunks[0].sum();
        group.sum();
    }

    /// How many points it has.
    pub fn points(&self) -> usize {
        let chunks = self.groups.iter().flat_map(|group| &group.chunks);
        chunks.map(|chunk| chunk.points.len()).sum()
    }

    /// The point that says what is at a time: the last one not after it.
    fn place(&self, time: Time) -> Place {
        let group = at_or_before(&self.groups, |group| group.begin, time);
        let chunks = &self.groups[group].chunks;
        let chunk = at_or_before(chunks, |chunk| chunk.begin, time);
        let point = at_or_before(&chunks[chunk].points, |point| point.at, time);
        Place {
            group,
            chunk,
            point,
        }
    }

    fn last(&self) -> Place {
        self.place(Time(i64::MAX))
    }

    fn amount(&self, place: Place) -> i64 {
        let group = &self.groups[place.group];
        let chunk = &group.chunks[place.chunk];
        chunk.points[place.point].amount + chunk.add + group.add
    }

    /// The first time at or after `from` that hits; `hit` is asked with the least and the most of
    /// many points, and must hold for them where it holds for one.
    fn find(&self, from: Time, hit: impl Fn(i64, i64) -> bool) -> Option<Time> {
        let place = self.place(from);
        let group = &self.groups[place.group];
        let chunk = &group.chunks[place.chunk];
        let found = chunk
            .find(place.point, group.add, &hit)
            .or_else(|| group.find(place.chunk + 1, &hit))
            .or_else(|| {
                let rest = self.groups[place.group + 1..].iter();
                let mut rest = rest.filter(|group| hit(group.low, group.high));
                rest.next().and_then(|group| group.find(0, &hit))
            });
        found.map(|at| at.max(from))
    }

    /// Makes sure that a point begins at this time.
    fn cut(&mut self, at: Time) {
        let place = self.place(at);
        let group = &mut self.groups[place.group];
        let chunk = &mut group.chunks[place.chunk];
        let Point { at: begins, amount } = chunk.points[place.point];
        if begins == at {
            return;
        }
        chunk.points.insert(place.point + 1, Point { at, amount });
        if chunk.points.len() > FANOUT {
            let mut back = Chunk::new(chunk.points.split_off(FANOUT / 2));
            back.raise(chunk.add);
            chunk.sum();
            group.chunks.insert(place.chunk + 1, back);
        }
        if group.chunks.len() > FANOUT {
            let mut back = Group::new(group.chunks.split_off(FANOUT / 2));
            back.raise(group.add);
            group.sum();
            self.groups.insert(place.group + 1, back);
        }
    }

    /// Takes out the point at this time if nothing changes there.
    fn join(&mut self, at: Time) {
        let place = self.place(at);
        if self.at(Time(at.0.saturating_sub(1))) != self.amount(place) || at.0 == i64::MIN {
            return;
        }
        let group = &mut self.groups[place.group];
        let chunk = &mut group.chunks[place.chunk];
        if chunk.points[place.point].at != at {
            return;
        }
        chunk.points.remove(place.point);
        match chunk.points.is_empty() {
            true => drop(group.chunks.remove(place.chunk)),
            false => chunk.sum(),
        }
        match group.chunks.is_empty() {
            true => drop(self.groups.remove(place.group)),
            false => group.sum(),
        }
    }

    /// Adds to all points from the first to the last, both included.
    fn raise(&mut self, first: Place, last: Place, amount: i64) {
        for at in first.group..=last.group {
            let group = &mut self.groups[at];
            let from = if at == first.group { first.chunk } else { 0 };
            let to = if at == last.group {
                last.chunk
            } else {
                group.chunks.len() - 1
            };
            let begins = at > first.group || (first.chunk, first.point) == (0, 0);
            if at < last.group && begins {
                group.raise(amount);
                continue;
            }
            for inner in from..=to {
                let chunk = &mut group.chunks[inner];
                let (here, place) = (|place: Place| (place.group, place.chunk), (at, inner));
                let from = if here(first) == place { first.point } else { 0 };
                let to = if here(last) == place {
                    last.point
                } else {
                    chunk.points.len() - 1
                };
                match from == 0 && to == chunk.points.len() - 1 {
                    true => chunk.raise(amount),
                    false => {
                        for point in &mut chunk.points[from..=to] {
                            point.amount += amount;
                        }
                        chunk.sum();
                    }
                }
            }
            group.sum();
        }
    }
}

impl Group {
    fn new(chunks: Vec<Chunk>) -> Group {
        let mut group = Group {
            begin: chunks[0].begin,
            chunks,
            add: 0,
            low: 0,
            high: 0,
        };
        group.sum();
        group
    }

    fn raise(&mut self, amount: i64) {
        self.add += amount;
        self.low += amount;
        self.high += amount;
    }

    fn sum(&mut self) {
        self.begin = self.chunks[0].begin;
        let lows = self.chunks.iter().map(|chunk| chunk.low);
        let highs = self.chunks.iter().map(|chunk| chunk.high);
        self.low = lows.min().expect("a group is never empty") + self.add;
        self.high = highs.max().expect("a group is never empty") + self.add;
    }

    fn find(&self, from: usize, hit: &impl Fn(i64, i64) -> bool) -> Option<Time> {
        let mut rest = self.chunks[from..].iter();
        rest.find(|chunk| hit(chunk.low + self.add, chunk.high + self.add))
            .and_then(|chunk| chunk.find(0, self.add, hit))
    }
}

impl Chunk {
    fn new(points: Vec<Point>) -> Chunk {
        let mut chunk = Chunk {
            begin: points[0].at,
            points,
            add: 0,
            low: 0,
            high: 0,
        };
        chunk.sum();
        chunk
    }

    fn raise(&mut self, amount: i64) {
        self.add += amount;
        self.low += amount;
        self.high += amount;
    }

    fn sum(&mut self) {
        self.begin = self.points[0].at;
        let amounts = || self.points.iter().map(|point| point.amount);
        let low = amounts().min().expect("a chunk is never empty");
        let high = amounts().max().expect("a chunk is never empty");
        self.low = low + self.add;
        self.high = high + self.add;
    }

    fn find(&self, from: usize, add: i64, hit: &impl Fn(i64, i64) -> bool) -> Option<Time> {
        let add = add + self.add;
        let mut rest = self.points[from..].iter();
        rest.find(|point| hit(point.amount + add, point.amount + add))
            .map(|point| point.at)
    }
}

/// The last part that begins at or before a time; the first where none does.
fn at_or_before<T>(parts: &[T], begin: impl Fn(&T) -> Time, time: Time) -> usize {
    parts
        .partition_point(|part| begin(part) <= time)
        .saturating_sub(1)
}

#[cfg(test)]
mod tests;
