//! What each party got of a site, reckoned from records alone.
//!
//! Kept by [`Trial`](super::Trial). It shares nothing with the product's ledger but the records.

use std::collections::BTreeMap;

use eddy_wire::event::{Final, Kind, Submit};
use eddy_wire::grant::Grant;
use eddy_wire::id::JobId;
use eddy_wire::time::{MICROS, Span, Time};

use super::Party;

/// What parties held, and what of it was of use to them.
#[derive(Clone, Debug, Default)]
pub struct Got {
    jobs: BTreeMap<JobId, Job>,
    /// What was held and given back, in the order in which it was.
    pub ran: Vec<Ran>,
    over: usize,
    settled: Option<Settled>,
}

/// What was held until some time, of which no more is known than the sums.
#[derive(Clone, Debug)]
struct Settled {
    at: Time,
    half: Span,
    faded: BTreeMap<Party, f64>,
    held: f64,
}

/// Something that a party held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Who.
    pub party: Party,
    /// Which job.
    pub job: JobId,
    /// How many cores.
    pub cores: u64,
    /// From when.
    pub from: Time,
    /// To when.
    pub to: Time,
    /// What its tasks ended with; none that did not.
    pub status: Option<i32>,
}

#[derive(Clone, Debug)]
struct Job {
    party: Party,
    name: String,
    submitted: Time,
    held: Option<(Time, u64)>,
    status: Option<i32>,
    first: Option<Time>,
    over: Option<Time>,
}

impl Got {
    pub(super) fn submitted(&mut self, id: JobId, party: Party, submit: &Submit, t: Time) {
        let job = Job {
            party,
            name: submit.spec.jobspec.name().to_owned(),
            submitted: t,
            held: None,
            status: None,
            first: None,
            over: None,
        };
        self.jobs.insert(id, job);
    }

    pub(super) fn take(&mut self, id: JobId, t: Time, kind: &Kind) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        match kind {
            Kind::Alloc(grant) => {
                job.held = Some((t, cores(grant)));
                job.status = None;
                job.first.get_or_insert(t);
            }
            Kind::Finish(status) => job.status = Some(*status),
            Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)) => {
                job.status = kind.finish().or(job.status);
                if let Some((from, cores)) = job.held.take() {
                    self.ran.push(Ran {
                        party: job.party,
                        job: id,
                        cores,
                        from,
                        to: t,
                        status: job.status,
                    });
                }
            }
            Kind::Clean => {
                job.over = Some(t);
                self.over += 1;
            }
            _ => {}
        }
    }

    /// Whose a job is, and what it is called.
    pub fn of(&self, id: JobId) -> Option<(Party, &str)> {
        let job = self.jobs.get(&id)?;
        Some((job.party, &job.name))
    }

    /// When each job was submitted and first granted something.
    pub fn begun(&self) -> impl Iterator<Item = (JobId, Party, Time, Option<Time>)> {
        let jobs = self.jobs.iter();
        jobs.map(|(id, job)| (*id, job.party, job.submitted, job.first))
    }

    /// Whether all jobs are over.
    pub fn is_over(&self) -> bool {
        self.left() == 0
    }

    /// How many are not.
    pub fn left(&self) -> usize {
        self.jobs.len() - self.over
    }

    /// Everything held until then, also what is held still.
    fn all(&self, now: Time) -> impl Iterator<Item = Ran> {
        let open = self.jobs.iter().filter_map(move |(id, job)| {
            let (from, cores) = job.held?;
            Some(Ran {
                party: job.party,
                job: *id,
                cores,
                from,
                to: now,
                status: None,
            })
        });
        self.ran.iter().copied().chain(open)
    }

    /// Lets go of what was held until now, but for what [`Got::faded`] with that half-life and [`Got::held`]
    /// need of it, and of jobs that are over.
    pub fn settle(&mut self, half: Span, now: Time) {
        self.settled = Some(Settled {
            at: now,
            half,
            faded: self.faded(half, now),
            held: self.held(now),
        });
        self.ran.clear();
        self.jobs.retain(|_, job| job.over.is_none());
        self.over = 0;
        let held = self.jobs.values_mut().filter_map(|job| job.held.as_mut());
        held.for_each(|(from, _)| *from = now.max(*from));
    }

    /// Core-seconds of all until now.
    pub fn held(&self, now: Time) -> f64 {
        let settled = self.settled.as_ref().map_or(0.0, |settled| settled.held);
        let since = self.core_seconds(Time(i64::MIN / 2), now);
        settled + since.values().sum::<f64>()
    }

    /// Core-seconds of each party from then to then, as far as it is not settled.
    pub fn core_seconds(&self, from: Time, to: Time) -> BTreeMap<Party, f64> {
        self.sum(to, |ran| {
            let span = ran.to.min(to) - ran.from.max(from);
            span.0.max(0) as f64 / MICROS as f64
        })
    }

    /// The same, where what was long ago counts half after each half-life.
    pub fn faded(&self, half: Span, now: Time) -> BTreeMap<Party, f64> {
        let rate = std::f64::consts::LN_2 / (half.0 as f64 / MICROS as f64);
        let left = |at: Time| {
            let ago = (now - at.min(now)).0 as f64 / MICROS as f64;
            (-rate * ago).exp() / rate
        };
        let mut sums = self.sum(now, |ran| (left(ran.to) - left(ran.from)).max(0.0));
        if let Some(settled) = &self.settled {
            assert_eq!(settled.half, half, "what is settled is so by one half-life");
            let still = left(settled.at) * rate;
            for (party, sum) in &settled.faded {
                *sums.entry(*party).or_insert(0.0) += sum * still;
            }
        }
        sums
    }

    fn sum(&self, now: Time, of: impl Fn(&Ran) -> f64) -> BTreeMap<Party, f64> {
        let mut sums = BTreeMap::new();
        for ran in self.all(now) {
            *sums.entry(ran.party).or_insert(0.0) += ran.cores as f64 * of(&ran);
        }
        sums
    }
}

/// Each one's part of all.
pub fn parts(sums: &BTreeMap<Party, f64>, parties: usize) -> Vec<f64> {
    let all: f64 = sums.values().sum();
    let of = |at| sums.get(&Party(at)).copied().unwrap_or(0.0) / all.max(f64::MIN_POSITIVE);
    (0..parties).map(of).collect()
}

fn cores(grant: &Grant) -> u64 {
    grant.set.nodes.values().map(|node| node.cores.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_settled_fades_as_what_is_not() {
        let at = |seconds| Time(0).after(Span::seconds(seconds));
        let half = Span::seconds(100);
        let job = |party, held, over: Option<i64>| Job {
            party: Party(party),
            name: String::new(),
            submitted: at(0),
            held,
            status: None,
            first: None,
            over: over.map(at),
        };
        let mut got = Got::default();
        got.jobs.insert(JobId(1), job(0, Some((at(10), 2)), None));
        got.jobs.insert(JobId(2), job(1, None, Some(40)));
        got.over = 1;
        got.ran.push(Ran {
            party: Party(1),
            job: JobId(2),
            cores: 3,
            from: at(0),
            to: at(40),
            status: Some(0),
        });
        let mut settled = got.clone();
        settled.settle(half, at(60));
        settled.settle(half, at(150));
        assert_eq!((settled.left(), settled.ran.len()), (1, 0));
        for now in [150, 400] {
            let (one, other) = (got.faded(half, at(now)), settled.faded(half, at(now)));
            for party in [Party(0), Party(1)] {
                assert!(
                    (one[&party] - other[&party]).abs() < 1e-9,
                    "{one:?} {other:?}"
                );
            }
            assert!((got.held(at(now)) - settled.held(at(now))).abs() < 1e-9);
        }
    }
}
