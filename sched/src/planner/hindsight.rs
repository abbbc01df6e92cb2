//! How good what was told of starts has been, and what that says of the next.
//!
//! Filled by the planner: what it told, and when the job began. A time is told of a job as if all ran
//! to their limits and nobody else came; how much of that time jobs really waited says between when
//! the next is likely to begin. The part of those past waits that is looked at is widened where too
//! few held, and narrowed where too many did. It is derived, and begins with nothing.

use std::collections::{BTreeMap, VecDeque};

use eddy_wire::id::JobId;
use eddy_wire::plan::{Basis, Likely, Moved, Mover};
use eddy_wire::time::{Span, Time};

/// Told of and not begun: more are forgotten, the earliest numbers first.
const OPEN_MAX: usize = 1024;
/// So many past waits are looked at.
const PAST_MAX: usize = 256;
/// With fewer nothing is said.
const PAST_MIN: usize = 20;
/// How many of what is told should hold.
const AIM: f64 = 0.8;
/// How much one that did not changes what is looked at.
const STEP: f64 = 0.02;
/// Between what parts of the past that stays.
const WIDTHS: (f64, f64) = (0.4, 0.98);
/// Of so many it is looked at in each pass for whom their promises move: those who came last.
pub(super) const WATCHED_MAX: usize = 64;
/// What ends late is counted as ending in a second for as long as it does: that is no other time.
const SLACK: Span = Span::seconds(1);
/// Where nobody asks one in so long is reckoned all the same,
const PROBE: Span = Span::seconds(60);
/// and while too few are known for anything to be said, since a leader has begun: then that costs what a pass does.
const PROBE_FIRST: Span = Span::seconds(2);

/// What was told, and what came of it.
#[derive(Debug)]
pub(super) struct Hindsight {
    open: BTreeMap<JobId, Told>,
    promises: Past,
    forecasts: Past,
    /// When one was reckoned last that nobody asked about.
    probed: Probed,
}

/// When one was reckoned last that nobody asked about.
#[derive(Clone, Copy, Debug)]
enum Probed {
    At(Time),
    /// Nobody will ask.
    Never,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    at: Time,
    wait: Span,
    basis: Basis,
    /// Between what parts of that wait.
    likely: Option<(f64, f64)>,
    /// When it was promised a start first, and by when: that may be after a time was only reckoned for it.
    promised: Option<(Time, Time)>,
    /// Why it is later now, if that was seen.
    mover: Option<Mover>,
    /// For what it was lined up anew since it was promised something last: as it stood behind another who lost what
    /// was promised to him.
    aside: Option<Mover>,
}

impl Told {
    /// By when it was promised to begin, if this is later.
    fn missed(&self, latest: Time) -> Option<Time> {
        let by = self.promised.map(|(_, by)| by);
        by.filter(|by| latest > by.after(SLACK))
    }
}

/// Parts of the waits that were told.
#[derive(Debug)]
struct Past {
    parts: VecDeque<f64>,
    width: f64,
}

impl Default for Hindsight {
    fn default() -> Hindsight {
        let past = || Past {
            parts: VecDeque::new(),
            width: AIM,
        };
        Hindsight {
            open: BTreeMap::new(),
            promises: past(),
            forecasts: past(),
            probed: Probed::At(Time(0)),
        }
    }
}

impl Hindsight {
    /// It is told now that a job begins by then at the latest; between when that is likely to be.
    /// What was told of it first counts, and the first promise.
    pub fn tell(&mut self, job: JobId, basis: Basis, now: Time, latest: Time) -> Option<Likely> {
        let wait = latest - now;
        if wait.0 <= 0 || latest == Time(i64::MAX) {
            return None;
        }
        let likely = self.past(basis).middle();
        let told = Told {
            at: now,
            wait,
            basis,
            likely,
            promised: None,
            mover: None,
            aside: None,
        };
        let told = self.open.entry(job).or_insert(told);
        if basis == Basis::Promise {
            told.promised.get_or_insert((now, latest));
        }
        if self.open.len() > OPEN_MAX {
            self.open.pop_first();
        }
        likely.map(|(from, to)| Likely {
            from: now.after(part(wait, from)),
            to: now.after(part(wait, to)),
        })
    }

    /// Those who were promised a start, and by what no cause is known yet for which that moved; when each was
    /// told.
    pub fn watched(&self) -> impl Iterator<Item = (JobId, Time)> + '_ {
        let last = self.open.iter().rev().take(WATCHED_MAX);
        let open = last.filter(|(_, told)| told.mover.is_none());
        open.filter_map(|(job, told)| Some((*job, told.promised?.0)))
    }

    /// Whether it was promised an earlier start than this.
    pub fn is_missed(&self, job: JobId, latest: Time) -> bool {
        self.open
            .get(&job)
            .is_some_and(|told| told.missed(latest).is_some())
    }

    /// What was promised to it moves for this, which is told if it comes to be later: the first counts.
    pub fn moves(&mut self, job: JobId, mover: Mover) {
        if let Some(told) = self.promised(job) {
            told.mover.get_or_insert(mover);
        }
    }

    /// It was behind another whose promise moves for this, and may have another time now.
    pub fn stands_back(&mut self, job: JobId, mover: Mover) {
        if let Some(told) = self.promised(job) {
            told.aside = Some(mover);
        }
    }

    /// Everybody may have another time now, for this.
    pub fn all_stand_back(&mut self, mover: Mover) {
        let promised = self.open.values_mut();
        let promised = promised.filter(|told| told.promised.is_some());
        promised.for_each(|told| told.aside = Some(mover));
    }

    /// What moves before anything was promised is no promise that moved.
    fn promised(&mut self, job: JobId) -> Option<&mut Told> {
        let told = self.open.get_mut(&job);
        told.filter(|told| told.promised.is_some())
    }

    /// It is promised a start again, then: what it stood back for counts if that is later than what was told.
    pub fn stands_again(&mut self, job: JobId, latest: Time) {
        if let Some(told) = self.open.get_mut(&job)
            && let Some(mover) = told.aside.take()
            && told.missed(latest).is_some()
        {
            told.mover.get_or_insert(mover);
        }
    }

    /// That it was promised an earlier start than this one, or than one that is not known.
    pub fn moved(&self, job: JobId, latest: Option<Time>) -> Option<Moved> {
        let told = self.open.get(&job)?;
        let missed = told.missed(latest.unwrap_or(Time(i64::MAX)));
        missed.map(|from| Moved {
            from,
            by: told.mover.or(told.aside).unwrap_or(Mover::Overrun),
        })
    }

    /// Nobody will ask.
    pub fn unasked(&mut self) {
        self.probed = Probed::Never;
    }

    /// Whether one is due to be reckoned that nobody asked about; then it is.
    pub fn probes(&mut self, now: Time) -> bool {
        let Probed::At(last) = self.probed else {
            return false;
        };
        let known = self.promises.parts.len().max(self.forecasts.parts.len());
        let pause = match known < PAST_MIN {
            true => PROBE_FIRST,
            false => PROBE,
        };
        let is_due = now - last >= pause;
        if is_due {
            self.probed = Probed::At(now);
        }
        is_due
    }

    /// Whether anything was told of it.
    pub fn knows(&self, job: JobId) -> bool {
        self.open.contains_key(&job)
    }

    /// It began.
    pub fn began(&mut self, job: JobId, at: Time) {
        let Some(told) = self.open.remove(&job) else {
            return;
        };
        let part = (at - told.at).0.max(0) as f64 / told.wait.0 as f64;
        let past = self.past(told.basis);
        if let Some((from, to)) = told.likely {
            past.judge(from <= part && part <= to);
        }
        past.parts.push_back(part);
        if past.parts.len() > PAST_MAX {
            past.parts.pop_front();
        }
    }

    /// It waits no more, or for something else.
    pub fn gone(&mut self, job: JobId) {
        self.open.remove(&job);
    }

    fn past(&mut self, basis: Basis) -> &mut Past {
        match basis {
            Basis::Promise => &mut self.promises,
            Basis::Forecast => &mut self.forecasts,
        }
    }
}

impl Past {
    /// Between what the middle of them is.
    fn middle(&self) -> Option<(f64, f64)> {
        let count = self.parts.len();
        if count < PAST_MIN {
            return None;
        }
        let mut sorted: Vec<f64> = self.parts.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let last = (count - 1) as f64;
        let outside = (1.0 - self.width) / 2.0;
        let at = |part: f64| sorted[(part * last).round() as usize];
        Some((at(outside), at(1.0 - outside)))
    }

    fn judge(&mut self, held: bool) {
        let by = match held {
            true => -STEP * (1.0 - AIM),
            false => STEP * AIM,
        };
        let (least, most) = WIDTHS;
        self.width = (self.width + by).clamp(least, most);
    }
}

fn part(of: Span, part: f64) -> Span {
    Span((of.0 as f64 * part).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_000_000_000);

    /// Each is told an hour and begins after this part of it; how many of the last half held.
    fn held(parts: impl Iterator<Item = f64>) -> f64 {
        let mut hindsight = Hindsight::default();
        let hour = Span::seconds(3600);
        let mut held = Vec::new();
        for (job, of) in parts.enumerate() {
            let job = JobId(job as u64);
            let likely = hindsight.tell(job, Basis::Forecast, NOW, NOW.after(hour));
            let at = NOW.after(part(hour, of));
            hindsight.began(job, at);
            held.extend(likely.map(|one| one.from <= at && at <= one.to));
        }
        let last = &held[held.len() / 2..];
        last.iter().filter(|held| **held).count() as f64 / last.len() as f64
    }

    /// A sequence without a pattern, 0 to 1.
    fn mixed(at: u64) -> f64 {
        let mut bits = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits ^= bits >> 29;
        bits = bits.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (bits >> 40) as f64 / f64::from(1 << 24)
    }

    #[test]
    fn four_of_five_hold_whatever_the_past_is_like() {
        let even = held((0..2000).map(mixed));
        let skewed = held((0..2000).map(|at| mixed(at).powi(4) * 1.5));
        // It gets worse all the time.
        let drifting = held((0..2000).map(|at| mixed(at) * (1.0 + at as f64 / 500.0)));
        for held in [even, skewed, drifting] {
            assert!((0.75..=0.85).contains(&held), "{held}");
        }
    }

    #[test]
    fn nothing_is_said_without_a_past_nor_of_what_has_no_time() {
        let mut hindsight = Hindsight::default();
        let told = hindsight.tell(JobId(1), Basis::Promise, NOW, NOW.after(Span::seconds(9)));
        assert_eq!(told, None);
        assert_eq!(hindsight.tell(JobId(2), Basis::Promise, NOW, NOW), None);
        let never = Time(i64::MAX);
        assert_eq!(hindsight.tell(JobId(3), Basis::Promise, NOW, never), None);
        assert!(hindsight.knows(JobId(1)) && !hindsight.knows(JobId(3)));
        hindsight.gone(JobId(1));
        assert!(!hindsight.knows(JobId(1)));
    }

    #[test]
    fn what_is_told_and_never_begins_is_forgotten() {
        let mut hindsight = Hindsight::default();
        for job in 0..2 * OPEN_MAX as u64 {
            hindsight.tell(JobId(job), Basis::Promise, NOW, NOW.after(Span::seconds(9)));
        }
        assert_eq!(hindsight.open.len(), OPEN_MAX);
    }
}
