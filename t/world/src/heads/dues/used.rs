//! What each has used, by what the planner was told: of attempts that are over as their records say, of the others from
//! their beginning to now.
//!
//! Each attempt is reckoned by itself, so that what it was charged meanwhile can be told from all the rest. It knows
//! cores and a half-life, and nothing of policies.

use std::collections::BTreeMap;

use eddy_wire::id::JobId;
use eddy_wire::time::Time;

use super::{Holder, seconds};

/// By whom what was used.
#[derive(Default)]
pub(super) struct Use {
    /// By attempts that are over.
    over: BTreeMap<Holder, Standing>,
    /// By the others.
    attempts: BTreeMap<JobId, (Holder, Standing)>,
    news: Vec<News>,
}

/// What somebody had until a time, in core-seconds that fade, and has.
#[derive(Clone, Copy, Default)]
struct Standing {
    amount: f64,
    cores: f64,
    at: Time,
}

/// What only a pass knows the time of.
enum News {
    /// Since then; none is the pass, and so it is as part of an attempt of which something was heard since.
    Began(JobId, Holder, f64, Option<Time>),
    Ended(JobId, f64),
    Was(Holder, f64, Time, Time),
    /// What it was charged by then it was not.
    Void(JobId),
    Over(JobId),
}

impl Standing {
    fn advance(&mut self, now: Time, half: f64) {
        let left = (-seconds(now - self.at) / half).exp2();
        let rest = half / std::f64::consts::LN_2;
        self.amount = self.amount * left + self.cores * rest * (1.0 - left);
        self.at = now;
    }
}

impl Use {
    /// One has so many cores since then.
    pub fn began(&mut self, job: JobId, holder: Holder, (cores, since): (f64, Option<Time>)) {
        self.news.push(News::Began(job, holder, cores, since));
    }

    /// And no more.
    pub fn ended(&mut self, job: JobId, cores: f64) {
        self.news.push(News::Ended(job, cores));
    }

    /// Somebody had so many from when to when.
    pub fn was(&mut self, holder: Holder, cores: f64, (from, to): (Time, Time)) {
        self.news.push(News::Was(holder, cores, from, to));
    }

    /// What one was charged by now it was not.
    pub fn void(&mut self, job: JobId) {
        self.news.push(News::Void(job));
    }

    /// What runs of it from now on is another attempt.
    pub fn over(&mut self, job: JobId) {
        self.news.push(News::Over(job));
    }

    /// Who has used something.
    pub fn holders(&self) -> impl Iterator<Item = &Holder> {
        let own = self.attempts.values().map(|(holder, _)| holder);
        self.over.keys().chain(own)
    }

    /// It is now this time. What fades otherwise than is known here is not reckoned.
    pub fn at(&mut self, now: Time, half: Option<f64>) {
        let Some(half) = half else {
            self.news.clear();
            return;
        };
        for news in std::mem::take(&mut self.news) {
            self.hears(news, now, half);
        }
        let attempts = self.attempts.values_mut().map(|(_, had)| had);
        let all = self.over.values_mut().chain(attempts);
        all.for_each(|one| one.advance(now, half));
    }

    fn hears(&mut self, news: News, now: Time, half: f64) {
        match news {
            News::Began(job, holder, cores, since) => {
                let fresh = Standing {
                    at: since.unwrap_or(now).min(now),
                    ..Standing::default()
                };
                // What was proposed for another is not his.
                self.attempts
                    .retain(|of, (payer, _)| *of != job || *payer == holder);
                let is_known = self.attempts.contains_key(&job);
                let (_, had) = self.attempts.entry(job).or_insert((holder, fresh));
                if is_known {
                    let since = since.filter(|since| had.at <= *since && *since <= now);
                    had.advance(since.unwrap_or(now), half);
                }
                had.cores += cores;
            }
            News::Ended(job, cores) => {
                if let Some((_, had)) = self.attempts.get_mut(&job) {
                    had.advance(now, half);
                    had.cores -= cores;
                }
            }
            News::Was(holder, cores, from, to) => {
                let mut had = Standing {
                    amount: 0.0,
                    cores,
                    at: from.min(to),
                };
                had.advance(to, half);
                had.cores = 0.0;
                had.advance(now.max(to), half);
                self.adds(holder, had.amount, now, half);
            }
            News::Void(job) => {
                if let Some((_, had)) = self.attempts.get_mut(&job) {
                    (had.amount, had.at) = (0.0, now);
                }
            }
            News::Over(job) => {
                if let Some((holder, mut had)) = self.attempts.remove(&job) {
                    had.advance(now, half);
                    self.adds(holder, had.amount, now, half);
                }
            }
        }
    }

    fn adds(&mut self, holder: Holder, amount: f64, now: Time, half: f64) {
        let fresh = Standing {
            at: now,
            ..Standing::default()
        };
        let standing = self.over.entry(holder).or_insert(fresh);
        standing.advance(now, half);
        standing.amount += amount;
    }

    /// What somebody has used, as of the last pass.
    pub fn by(&self, of: &Holder) -> f64 {
        let over = self.over.get(of).map_or(0.0, |one| one.amount);
        let own = self.attempts.values().filter(|(holder, _)| holder == of);
        own.fold(over, |sum, (_, had)| sum + had.amount)
    }
}
