//! Limits one by one, and what there is of each; a budget of core-minutes among them.
//!
//! Part of the limits. A budget counts what was used in its period and what those let through may come to; of the
//! period before a part may be carried over; and who goes on beyond it as QoS `standby` counts for it no more.

use eddy_wire::account::{Excess, Limits as Given, Party, STANDBY};
use eddy_wire::fsd::seconds_of_micros;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::format_bytes;
use eddy_wire::spec::Spec;
use eddy_wire::time::{MICROS, Time};

use super::cost::Cost;
use super::days::{self, Back, Counted};
use super::{Alone, Bound, Count, Counts, Limits, Step, Taken, Whose, is_nobodys};

/// What is asked about a job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Whether it may wait for resources.
    Start,
    /// Whether so many may be submitted.
    Submit(u32),
}

/// One limit and what there is of it.
pub(super) struct Check {
    pub limit: &'static str,
    pub most: u64,
    of: Of,
    unit: Unit,
    pub have: u64,
    pub asked: u64,
    /// Those who have it by their place and hold nothing yet, and those who hold something.
    placed: Placed,
    excess: Excess,
    /// What of `most` is of the period before.
    carried: u64,
    /// When what was used counts no more: the end of the period.
    until: Option<Time>,
}

/// Of what a limit is.
#[derive(Clone, Copy)]
enum Of {
    /// Of all whom it counts for together.
    All,
    /// Of each job, of which others take nothing.
    Each,
}

/// In what a limit counts.
#[derive(Clone, Copy)]
enum Unit {
    Number,
    Bytes,
    Micros,
}

/// Of those who count for a limit so many hold something, some of these are suspended, and so many wait with a place.
#[derive(Clone, Copy, Default)]
struct Placed {
    begun: u64,
    suspended: u64,
    waiting: u64,
}

impl Placed {
    /// Whoever looks for the running jobs that were counted does not find those who wait, nor the cores of those
    /// who are suspended.
    fn words(self) -> String {
        if self.suspended == 0 && self.waiting == 0 {
            return String::new();
        }
        let runs = self.begun.saturating_sub(self.suspended);
        let parts = [
            (runs, ["runs", "run"]),
            (
                self.suspended,
                [
                    "is suspended and counts in full",
                    "are suspended and count in full",
                ],
            ),
            (self.waiting, ["waits with a place", "wait with a place"]),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts = parts.map(|(count, [one, many])| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {many}"),
        });
        format!(" ({})", parts.collect::<Vec<String>>().join(", "))
    }
}

impl Unit {
    fn words(self, amount: u64) -> String {
        match self {
            Unit::Number => amount.to_string(),
            Unit::Bytes => format_bytes(amount),
            Unit::Micros => {
                let micros = i64::try_from(amount).unwrap_or(i64::MAX);
                format!("{} s", seconds_of_micros(micros))
            }
        }
    }
}

impl Check {
    /// It is over this limit of theirs.
    pub fn bound(&self, whose: &Whose) -> Bound {
        let limit = self.limit;
        let words = |amount| self.unit.words(amount);
        let (most, have) = (words(self.most), words(self.have));
        let carried = match self.carried {
            0 => String::new(),
            carried => format!(", {carried} of them carried over"),
        };
        let until = self.until.map(|until| format!(" until {}", until.utc()));
        let carried = format!("{}{carried}", until.unwrap_or_default());
        let text = match (self.asked, self.of, self.unit) {
            (u64::MAX, Of::All, Unit::Number) => format!(
                "limit `{limit}` of {whose} is {most}{carried}: only jobs with a time limit (-t) can be within it"
            ),
            (u64::MAX, Of::Each, Unit::Micros) => format!(
                "limit `{limit}` of {whose} is {most}: only jobs with a time limit (-t) can be within it"
            ),
            (asked, Of::All, _) => format!(
                "limit `{limit}` of {whose} is {most}{carried}: {have} {} taken, {} asked for{}",
                match have.as_str() {
                    "1" => "is",
                    _ => "are",
                },
                words(asked),
                self.placed.words()
            ),
            (asked, Of::Each, _) => {
                format!(
                    "limit `{limit}` of {whose} is {most}: {} asked for",
                    words(asked)
                )
            }
        };
        Bound {
            text,
            whose: whose.clone(),
            excess: self.excess,
            // Who stands by goes on however much he asks for.
            alone: match self.asked > self.most && self.excess != Excess::Standby {
                true => Alone::Over,
                false => Alone::Within,
            },
            taken: match self.until {
                Some(_) => Taken::Spent,
                None => Taken::Held,
            },
        }
    }
}

pub(super) fn checks(given: &Given, count: &Count, cost: &Cost, question: Question) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Question::Submit(jobs) = question {
        checks.extend(given.submitted_jobs.map(|most| Check {
            limit: "submitted_jobs",
            most: u64::from(most),
            of: Of::All,
            unit: Unit::Number,
            have: count.submitted,
            asked: u64::from(jobs),
            placed: Placed::default(),
            // A job that waits to be let through is submitted all the same.
            excess: Excess::Refuse,
            carried: 0,
            until: None,
        }));
    }
    let excess = match given.excess {
        // There is a standby of core-minutes only.
        Excess::Hold | Excess::Standby => Excess::Hold,
        Excess::Refuse => Excess::Refuse,
    };
    let placed = Placed {
        begun: count.begun,
        suspended: count.suspended,
        waiting: count.running.saturating_sub(count.begun),
    };
    let mut add = |limit, most: Option<u64>, have, asked, unit| {
        checks.extend(most.map(|most| Check {
            limit,
            most,
            of: Of::All,
            unit,
            have,
            asked,
            placed,
            excess,
            carried: 0,
            until: None,
        }));
    };
    let numbers = [
        ("running_jobs", given.running_jobs, count.running, 1),
        ("nodes", given.nodes, count.nodes, cost.nodes),
        ("cores", given.cores, count.cores, cost.cores),
        ("gpus", given.gpus, count.gpus, cost.gpus),
    ];
    for (limit, most, have, asked) in numbers {
        add(limit, most.map(u64::from), have, asked, Unit::Number);
    }
    add(
        "memory",
        given.memory,
        u64::try_from(count.memory).unwrap_or(u64::MAX),
        cost.memory,
        Unit::Bytes,
    );
    checks.extend(of_each(given, cost));
    checks
}

/// Limits of one job by itself: who is over one can never be within it.
fn of_each(given: &Given, cost: &Cost) -> impl Iterator<Item = Check> {
    let time = cost.time.unwrap_or(u64::MAX);
    let most = given.job_time.map(|most| most.0.unsigned_abs());
    let sizes = [
        ("job_nodes", given.job_nodes, cost.nodes),
        ("job_cores", given.job_cores, cost.cores),
        ("job_gpus", given.job_gpus, cost.gpus),
    ];
    let sizes = sizes.map(|(limit, most, asked)| (limit, most.map(u64::from), asked, Unit::Number));
    let all = sizes.into_iter().chain([
        ("job_memory", given.job_memory, cost.memory, Unit::Bytes),
        ("job_time", most, time, Unit::Micros),
    ]);
    all.filter_map(|(limit, most, asked, unit)| {
        Some(Check {
            limit,
            most: most?,
            of: Of::Each,
            unit,
            have: 0,
            asked,
            placed: Placed::default(),
            excess: Excess::Hold,
            carried: 0,
            until: None,
        })
    })
}

impl Limits {
    /// What keeps back a job that is there, were it of that party and asked for that: beside all others.
    pub fn binding_instead(
        &self,
        now: Time,
        id: JobId,
        (user, party, spec): (u32, &Party, &Spec),
    ) -> Option<Bound> {
        let mut others = self.counts().clone();
        self.add(&mut others, id, Step::Less);
        let whose = self.bound_by(party, user, spec);
        self.over_counted(now, (whose, &others), (party, spec), Question::Submit(1))
    }

    pub(super) fn over(
        &self,
        now: Time,
        user: u32,
        party: &Party,
        spec: &Spec,
        question: Question,
    ) -> Option<Bound> {
        let whose = self.bound_by(party, user, spec);
        self.over_these(now, whose, (party, spec), question)
    }

    /// The same, of these limits only.
    pub(super) fn over_these(
        &self,
        now: Time,
        all: Vec<Whose>,
        of: (&Party, &Spec),
        question: Question,
    ) -> Option<Bound> {
        self.over_counted(now, (all, self.counts()), of, question)
    }

    /// The same, where those who count have that.
    pub(super) fn over_counted(
        &self,
        now: Time,
        (all, counts): (Vec<Whose>, &Counts),
        (party, spec): (&Party, &Spec),
        question: Question,
    ) -> Option<Bound> {
        if is_nobodys(spec) {
            return None;
        }
        let cost = self.shapes.cost(spec);
        let mut first: Option<Bound> = None;
        for whose in all {
            let Some(given) = self.given(&whose) else {
                continue;
            };
            let count = counts.get(&whose).copied().unwrap_or_default();
            let mut all = checks(given, &count, &cost, question);
            if !is_beyond(given, party) {
                let budget = self.budget(now, &whose, given, &count, &cost);
                all.extend(budget.map(|check| self.as_queued(check, spec)));
            }
            for check in all {
                if check.have.saturating_add(check.asked) <= check.most {
                    continue;
                }
                let bound = check.bound(&whose);
                // What can never be is said before what cannot be now, and that before what is waited for: longer
                // for what is spent than for what others hold.
                let waits = |first: &Bound| first.excess != Excess::Refuse;
                let gives_way = |first: &Bound| match first.excess {
                    Excess::Standby => true,
                    Excess::Hold => first.taken == Taken::Held && bound.taken == Taken::Spent,
                    Excess::Refuse => false,
                };
                match (bound.alone, bound.excess) {
                    (_, Excess::Standby) => first = first.or(Some(bound)),
                    (Alone::Over, _) => return Some(bound),
                    (Alone::Within, Excess::Refuse) if first.as_ref().is_none_or(waits) => {
                        first = Some(bound);
                    }
                    (Alone::Within, _) => match first {
                        Some(of) if !gives_way(&of) => first = Some(of),
                        _ => first = Some(bound),
                    },
                }
            }
        }
        first
    }

    /// Where its queue does not allow QoS `standby` a job beyond its budget is kept back.
    fn as_queued(&self, check: Check, spec: &Spec) -> Check {
        let queue = spec.jobspec.attributes.system.queue.as_deref();
        match check.excess {
            Excess::Standby if queue.is_some_and(|queue| self.no_standby.contains(queue)) => {
                Check {
                    excess: Excess::Hold,
                    ..check
                }
            }
            Excess::Standby | Excess::Hold | Excess::Refuse => check,
        }
    }

    /// The limit of core-minutes in a period, and what there is of it.
    pub(super) fn budget(
        &self,
        now: Time,
        whose: &Whose,
        given: &Given,
        count: &Count,
        cost: &Cost,
    ) -> Option<Check> {
        let most = given.core_minutes?;
        let counted = match given.excess {
            Excess::Standby => Counted::ButStandby,
            Excess::Hold | Excess::Refuse => Counted::All,
        };
        let sums = self.days.sums(|payer| self.budgets_of(payer));
        let used = |back| sums.used_in(whose, counted, given.period, (now, back));
        let carried = match given.carry {
            0 => 0,
            carry => {
                let at_most = u128::from(most) * u128::from(carry) / 100;
                let left = most.saturating_sub(minutes(used(Back::One)));
                left.min(u64::try_from(at_most).unwrap_or(u64::MAX))
            }
        };
        Some(Check {
            limit: "core_minutes",
            most: most.saturating_add(carried),
            of: Of::All,
            unit: Unit::Number,
            have: minutes(used(Back::Now) + count.work),
            // Nobody knows what a job without a time limit comes to.
            asked: cost.work.map_or(u64::MAX, minutes),
            placed: Placed::default(),
            excess: given.excess,
            carried,
            until: Some(days::end(given.period, now)),
        })
    }
}

/// Core-microseconds as minutes, each begun one whole.
fn minutes(work: u128) -> u64 {
    u64::try_from(work.div_ceil(60 * MICROS as u128)).unwrap_or(u64::MAX)
}

/// Whether a job goes on beyond a budget, and counts for it no more.
pub(super) fn is_beyond(given: &Given, party: &Party) -> bool {
    let stands_by = party
        .qos
        .as_ref()
        .is_some_and(|own| own.as_str() == STANDBY);
    given.excess == Excess::Standby && stands_by
}
