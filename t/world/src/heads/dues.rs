//! Whether each account is due what it had, will have and who else waits make of it, and whether each start counts
//! before the next pick.
//!
//! Knows what the planner was told, and reckons anew what each has used and may still use, and by that the factor
//! `fair_share` of the preset `flux`: only those are compared who have something that waits. The planner is asked with
//! each pass what it reckons. Of those who ask for the same in the same place nobody begins who is due less than one
//! who waits on: so with two who wait and room for both, one does not get everything. Who was promised a later start
//! is held against those alone for whom another pays: what comes free is offered in the order of promises, and may be
//! of use to a later one alone, as in a gap that ends with its own promise. After another policy all is reckoned anew
//! by that, as the planner is told to. Nodes that are not there for all are not reckoned here.

mod tree;
mod used;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use eddy_sched::policy::print::print;
use eddy_sched::policy::read::read;
use eddy_sched::policy::{Blend, Decay, Policy, Rung, Share, ShareRules, WithinPass};
use eddy_wire::account::{Book, Name};
use eddy_wire::held::Stay;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Takes;
use eddy_wire::plan::{Delta, Outcome, Owner, ShareRow, Used, Verdict, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{MICROS, Span, Time};

use super::Watched;
use tree::Tree;
use used::Use;

/// Whoever asks in a world has numbers of his own.
const TAG: u64 = u64::MAX;
/// So much of a sum of other numbers is no other number.
const NEAR: f64 = 1e-6;
/// So much of a value is nothing of what was used: it is what an hour and a half of waiting is worth.
pub(super) const LITTLE: f64 = 10.0;
/// The urgency before all values.
pub(super) const EXPEDITE: u8 = 31;

/// Of more who wait or hold something no pass is judged: trials have thousands.
const PARTIES_MAX: usize = 200;

/// The policy whose factors are reckoned here; what was used may fade in another time.
static FLUX: LazyLock<Policy> =
    LazyLock::new(|| read("preset = \"flux\"").expect("it is a preset"));

/// Who pays.
type Holder = (Option<Name>, u32);

fn holder(owner: &Owner) -> Holder {
    (owner.account.clone(), owner.user)
}

/// Who is due what, as far as was told.
#[derive(Default)]
pub(super) struct Dues {
    book: Book,
    used: Use,
    runs: BTreeMap<JobId, Run>,
    tariff: Tariff,
}

/// By what was charged until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Tariff {
    #[default]
    Unknown,
    /// That of this policy.
    One,
    /// Another's, until it is reckoned anew.
    Many,
}

/// Against whom one who begins is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Among {
    All,
    /// Those for whom another pays.
    Others,
}

struct Run {
    owner: Owner,
    set: Arc<ResourceSet>,
    certainty: Certainty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    Proposed,
    Recorded,
}

fn seconds(span: Span) -> f64 {
    span.0 as f64 / MICROS as f64
}

fn cores(set: &ResourceSet) -> f64 {
    let all: u64 = set.nodes.values().map(|node| node.cores.len()).sum();
    all as f64
}

impl Dues {
    /// Something changes; `wants` is who waited before.
    pub fn note(&mut self, delta: &Delta, wants: &BTreeMap<JobId, Want>) {
        match delta {
            Delta::Held(job, owner, set) | Delta::Charged(job, owner, set) => {
                self.held(*job, owner, set);
            }
            Delta::Settled(job, owner, stays) => self.settled(*job, owner, stays),
            Delta::Freed(job) => {
                self.withdrawn(*job);
                self.ends(*job);
                self.used.over(*job);
            }
            Delta::Rests(job, ..) | Delta::Ground(job, _) => self.ends(*job),
            Delta::Unwant(job) => self.withdrawn(*job),
            Delta::Want(job, want) => {
                let before = wants.get(job);
                if before.is_some_and(|before| before.request != want.request) {
                    self.withdrawn(*job);
                }
            }
            Delta::Account(change) => self.book.apply(change),
            Delta::Used(all) => self.was(all),
            Delta::Past(all) => self.reckon(all),
            Delta::Policy(_) => {
                self.tariff = match self.tariff {
                    Tariff::Unknown => Tariff::Unknown,
                    Tariff::One | Tariff::Many => Tariff::Many,
                }
            }
            _ => {}
        }
    }

    fn was(&mut self, all: &[Used]) {
        for one in all.iter().filter(|one| one.to > one.from) {
            let cores = one.cores / seconds(one.to - one.from);
            self.used.was(holder(&one.owner), cores, (one.from, one.to));
        }
    }

    /// By the policy that is obeyed now, whatever was charged by another.
    fn reckon(&mut self, past: &[Used]) {
        self.used = Use::default();
        for (job, run) in &self.runs {
            let since = (run.set.starttime > 0).then_some(Time(run.set.starttime));
            self.used
                .began(*job, holder(&run.owner), (cores(&run.set), since));
        }
        self.was(past);
        self.tariff = Tariff::One;
    }

    fn held(&mut self, job: JobId, owner: &Owner, set: &Arc<ResourceSet>) {
        let certainty = Certainty::Recorded;
        if let Some(run) = self.runs.get_mut(&job)
            && run.set.nodes == set.nodes
            && run.owner == *owner
        {
            (run.set, run.certainty) = (Arc::clone(set), certainty);
            return;
        }
        let since = (set.starttime > 0).then_some(Time(set.starttime));
        self.ends(job);
        self.begins(job, owner, (set, since), certainty);
    }

    fn begins(
        &mut self,
        job: JobId,
        owner: &Owner,
        (set, since): (&Arc<ResourceSet>, Option<Time>),
        certainty: Certainty,
    ) {
        self.used.began(job, holder(owner), (cores(set), since));
        let run = Run {
            owner: owner.clone(),
            set: Arc::clone(set),
            certainty,
        };
        self.runs.insert(job, run);
    }

    fn withdrawn(&mut self, job: JobId) {
        let run = self.runs.get(&job);
        if run.is_some_and(|run| run.certainty == Certainty::Proposed) {
            self.used.void(job);
            self.ends(job);
            self.used.over(job);
        }
    }

    /// What its records come to, in place of what was heard of it.
    fn settled(&mut self, job: JobId, owner: &Owner, stays: &[Stay]) {
        self.used.void(job);
        for stay in stays {
            let cores = stay.held.cores as f64;
            self.used.was(holder(owner), cores, (stay.from, stay.to));
        }
    }

    fn ends(&mut self, job: JobId) {
        if let Some(run) = self.runs.remove(&job) {
            self.used.ended(job, cores(&run.set));
        }
    }

    /// Who is charged with a job that has begun.
    pub fn payer(&self, job: JobId) -> Option<&Owner> {
        self.runs.get(&job).map(|run| &run.owner)
    }

    /// The accounts.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// Who runs for one, on how many cores and until when, to tell of.
    fn runs_of(&self, of: &Holder) -> String {
        let runs = self.runs.iter();
        let runs = runs.filter(|(_, run)| holder(&run.owner) == *of);
        let told = runs.map(|(job, run)| {
            let (cores, end) = (cores(&run.set), Time(run.set.expiration));
            format!("{job} ({:?}, {cores} cores to {end})", run.certainty)
        });
        told.collect::<Vec<_>>().join(", ")
    }

    /// What each may still come to use.
    fn planned(&self, now: Time, half: f64) -> BTreeMap<Holder, f64> {
        let mut planned = BTreeMap::new();
        for run in self.runs.values() {
            *planned.entry(holder(&run.owner)).or_default() += rest(&run.set, now, half);
        }
        planned
    }
}

/// Whose one is and since when it waits, to tell of.
fn whose(want: &Want) -> String {
    format!("of user {} since {}", want.owner.user, want.submitted)
}

/// What a run may still come to use, of what counts.
fn rest(set: &ResourceSet, now: Time, half: f64) -> f64 {
    let left = match set.expiration {
        0 => half,
        end => seconds(Time(end) - now).clamp(0.0, half),
    };
    cores(set) * left
}

impl Watched {
    /// With each pass the planner is asked what everybody is due, where that can be judged.
    pub(super) fn ask_dues(&mut self) {
        if self.half().is_some() && self.reckons_dues() {
            self.planner.apply(Delta::Shares(TAG));
        }
    }

    /// Who begins and was promised a later start: it moved forward into what came free, in the order of promises.
    pub(super) fn hastened(&self, outcome: &Outcome, now: Time) -> BTreeSet<JobId> {
        let begun = starts(outcome).map(|(job, _)| job);
        let is_later = |job: &JobId| self.lesser.promised(*job).is_some_and(|at| at > now);
        begun.filter(is_later).collect()
    }

    /// Everybody is due what that comes to, and nobody begins who is due less than one who waits on. Takes its own
    /// answer out of the outcome.
    pub(super) fn check_dues(
        &mut self,
        outcome: &mut Outcome,
        hastened: &BTreeSet<JobId>,
        now: Time,
    ) -> Result<(), String> {
        let rows = take_answer(outcome);
        let half = self.half();
        let reckons = half.is_some() && self.reckons_dues();
        if self.dues.tariff == Tariff::Unknown {
            self.dues.tariff = Tariff::One;
        }
        let mut checked = Ok(());
        self.dues.used.at(now, half);
        let begun: Vec<_> = starts(outcome)
            .map(|(job, set)| (job, Arc::clone(set)))
            .collect();
        for (job, set) in &begun {
            if let Some(half) = half.filter(|_| reckons && checked.is_ok()) {
                let among = match hastened.contains(job) {
                    true => Among::Others,
                    false => Among::All,
                };
                checked = self.check_pick((*job, among), outcome, (now, half));
            }
            self.begins(*job, set, now);
            self.dues.used.at(now, half);
        }
        let judged = half.zip(rows).filter(|_| reckons);
        checked.and_then(|()| match judged {
            Some((half, rows)) => self.check_rows(&rows, outcome, (now, half)),
            None => Ok(()),
        })
    }

    fn begins(&mut self, job: JobId, set: &Arc<ResourceSet>, now: Time) {
        if let Some(want) = self.wants.get(&job) {
            let owner = want.owner.clone();
            self.dues
                .begins(job, &owner, (set, Some(now)), Certainty::Proposed);
        }
    }

    /// What is told of each is what he has used and may still use, and the factor that makes, as of the end of the
    /// pass: who was told in it that he never starts waits no more.
    fn check_rows(
        &mut self,
        rows: &[ShareRow],
        outcome: &Outcome,
        (now, half): (Time, f64),
    ) -> Result<(), String> {
        let planned = self.dues.planned(now, half);
        let never = |job: &JobId| {
            let mut verdicts = outcome.verdicts.iter();
            verdicts.any(|(of, verdict)| of == job && matches!(verdict, Verdict::Never(_)))
        };
        let waiting = self.wants.iter().filter(|(job, _)| !never(job));
        let waiting = waiting.map(|(_, want)| holder(&want.owner)).collect();
        let Some(factors) = self.factors(&planned, &waiting) else {
            return Ok(());
        };
        self.tally.dues += 1;
        for row in rows {
            let Some(user) = row.user else { continue };
            let holder = (row.account.clone(), user);
            let used = self.dues.used.by(&holder);
            let planned = planned.get(&holder).copied().unwrap_or_default();
            let factor = factors.get(&holder).copied().unwrap_or_default();
            let told = [
                ("used", row.usage, used),
                ("to use", row.planned, planned),
                ("due", row.factor, factor),
            ];
            for (what, told, right) in told {
                if (told - right).abs() > NEAR * right.abs().max(1.0) {
                    let runs = self.dues.runs_of(&holder);
                    return Err(format!(
                        "user {user} is told as {what} {told}, and it is {right}, with jobs {runs} at {now}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Of those who wait on and ask for the same as who begins nobody is due more.
    fn check_pick(
        &mut self,
        (job, among): (JobId, Among),
        outcome: &Outcome,
        (now, half): (Time, f64),
    ) -> Result<(), String> {
        let Some(first) = self.wants.get(&job).filter(|want| is_plain(want)) else {
            return Ok(());
        };
        let decided = |job: &JobId| outcome.verdicts.iter().any(|(other, _)| other == job);
        let rivals: Vec<(JobId, &Want)> = self
            .wants
            .iter()
            .filter(|(other, want)| {
                let waits = !decided(other) && !self.held.contains_key(other);
                let is_meant = among == Among::All || holder(&want.owner) != holder(&first.owner);
                waits && is_meant && is_plain(want) && is_alike(first, want)
            })
            .map(|(other, want)| (*other, want))
            .collect();
        if rivals.is_empty() {
            return Ok(());
        }
        let planned = self.dues.planned(now, half);
        let waiting = self.wants.values().map(|one| holder(&one.owner)).collect();
        let Some(factors) = self.factors(&planned, &waiting) else {
            return Ok(());
        };
        let (_, policy) = self.policy.as_ref().expect("it is judged");
        let value = |want: &Want| value(policy, want, &factors, now);
        let due = value(first);
        for (other, want) in &rivals {
            let other_due = value(want);
            if other_due > due + LITTLE {
                return Err(format!(
                    "job {job} begins, which is due {due}, and job {other} waits, which asks for the same and is due \
                     {other_due}; {} and {}",
                    whose(first),
                    whose(want)
                ));
            }
        }
        self.tally.picks += rivals.len() as u64;
        Ok(())
    }

    fn factors(
        &self,
        planned: &BTreeMap<Holder, f64>,
        waiting: &BTreeSet<Holder>,
    ) -> Option<BTreeMap<Holder, f64>> {
        let mut all = waiting.clone();
        all.extend(planned.keys().cloned());
        all.extend(self.dues.used.holders().cloned());
        let mut tree = Tree::new(&self.dues.book, all)?;
        let used = |holder: &Holder| {
            self.dues.used.by(holder) + planned.get(holder).copied().unwrap_or_default()
        };
        Some(tree.factors(used, |holder| waiting.contains(holder)))
    }

    /// After how many seconds what was used counts half, where all was charged by a policy that is known here.
    fn half(&self) -> Option<f64> {
        let (_, policy) = self.policy.as_ref()?;
        let is_known = self.dues.tariff != Tariff::Many && is_judged(policy);
        match policy.usage.decay {
            Decay::Exponential { half } if is_known => Some(seconds(half)),
            _ => None,
        }
    }

    /// Whether there are no others than those who are known here, nodes are there for all, and nobody takes from
    /// others: a start that is found may be nobody's for the sake of one who takes.
    fn reckons_dues(&self) -> bool {
        let mut rules = self.preempts.qos.values();
        if rules.any(|rule| !rule.preempts.is_empty()) {
            return false;
        }
        let parties = self.wants.len() + self.dues.runs.len();
        parties <= PARTIES_MAX && self.apart.queues().next().is_none() && !self.closes()
    }
}

/// The rule broken: a pass goes by what was at its beginning.
pub(super) fn standing_still(text: &Arc<str>) -> Arc<str> {
    otherwise(text, |rules| rules.within_pass = WithinPass::Static)
}

/// The rule broken: who has nothing that waits counts as well.
pub(super) fn among_all(text: &Arc<str>) -> Arc<str> {
    otherwise(text, |rules| {
        if let Share::Classic { blend, .. } = &mut rules.algorithm {
            *blend = Blend::Part;
        }
    })
}

fn otherwise(text: &Arc<str>, change: impl Fn(&mut ShareRules)) -> Arc<str> {
    match read(text) {
        Ok(mut policy) if is_judged(&policy) => {
            change(&mut policy.share);
            print(&policy).into()
        }
        Ok(_) | Err(_) => Arc::clone(text),
    }
}

fn take_answer(outcome: &mut Outcome) -> Option<Vec<ShareRow>> {
    let told = outcome.shares.as_mut()?;
    let at = told.tags.iter().position(|tag| *tag == TAG)?;
    told.tags.remove(at);
    let rows = told.rows.clone();
    if told.tags.is_empty() {
        outcome.shares = None;
    }
    Some(rows)
}

fn starts(outcome: &Outcome) -> impl Iterator<Item = (JobId, &Arc<ResourceSet>)> {
    outcome
        .verdicts
        .iter()
        .filter_map(|(job, verdict)| match verdict {
            Verdict::Start(set) => Some((*job, set)),
            Verdict::Never(_) | Verdict::Preempt { .. } => None,
        })
}

/// Whether only resources decide whether it can begin.
fn is_plain(want: &Want) -> bool {
    want.request.takes == Takes::Resources
        && want.urgency < EXPEDITE
        && want.gang.is_none()
        && want.back.is_none()
        && want.reservation.is_none()
        && want.pools.is_empty()
}

/// Whether the other could be where that one is, and only what its account is due, its wait and its user's wish part
/// them.
fn is_alike(one: &Want, other: &Want) -> bool {
    one.request == other.request
        && one.lasts == other.lasts
        && one.owner.qos == other.owner.qos
        && one.owner.class == other.owner.class
        && one.owner.queue == other.owner.queue
}

/// What parts those who ask for the same.
fn value(policy: &Policy, want: &Want, factors: &BTreeMap<Holder, f64>, now: Time) -> f64 {
    let weight = |name: &str| policy.priority.weights.get(name).copied().unwrap_or(0.0);
    let waited = seconds(now - want.eligible) / seconds(policy.priority.factors.max_wait);
    let factor = factors.get(&holder(&want.owner)).copied().unwrap_or(0.0);
    weight("fair_share") * factor
        + weight("wait") * waited.clamp(0.0, 1.0)
        + weight("user") * want.place.factor()
}

/// Whether it orders as the preset `flux` does, and nothing else keeps anybody back.
fn is_judged(policy: &Policy) -> bool {
    let flux = &*FLUX;
    policy.preset == flux.preset
        && policy.share == flux.share
        && policy.priority == flux.priority
        && policy.queue == flux.queue
        && policy.usage.weights == flux.usage.weights
        && policy.usage.factors.is_empty()
        && policy.usage.qos_factors.is_empty()
        && policy.placement.ladder == [Rung::Free]
}
