//! Rounds with eviction, where accounts take turns by a policy that takes from those above their
//! share, or from lower classes.
//!
//! Called by the planner when a round of the table has started all that there is room for. The
//! choice is that of [`crate::rounds::schedule`] over the same state: it is asked who gives way to
//! whom, and what it says is carried out as far as it holds of the nodes as they are. A round is
//! asked for once in a while only, since it looks at all that runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::jobspec::Sharing;
use eddy_wire::plan::{Outcome, Owner};
use eddy_wire::preempt::Cause;
use eddy_wire::time::{Span, Time};

use super::Planner;
use super::scene::{Scene, class_of};
use super::taking::Standing;
use crate::accounts::account_of;
use crate::need::Spread;
use crate::occupancy::{Ask, parts};
use crate::placement::Chosen;
use crate::policy::{Evict, Policy, Preference, Rung};
use crate::rounds::{self, Bucket, Decision, Method, Preemption, Tokens};
use crate::turns::Turn;
use crate::walk::Room;

/// From one round with eviction to the next.
pub(super) const EVERY: Span = Span::seconds(1);
/// So many are given what others leave in one round.
const STARTS_MAX: usize = 64;

/// The last round with eviction.
#[derive(Clone, Debug)]
pub(super) struct Evictions {
    pub news: News,
    at: Option<Time>,
    /// When there is another though nothing happened: a limit that held somebody back lets go.
    again: Option<Time>,
    /// What is left of the rate of preemptions.
    pub bucket: Option<Bucket>,
}

impl Default for Evictions {
    fn default() -> Evictions {
        Evictions {
            news: News::Some,
            at: None,
            again: None,
            bucket: None,
        }
    }
}

impl Evictions {
    /// When there is to be one, if there is.
    fn due(&self, now: Time) -> Option<Time> {
        let wanted = match self.news {
            News::Some => now,
            News::None => self.again?,
        };
        let rested = self.at.map_or(now, |at| at.after(EVERY));
        Some(wanted.max(rested))
    }
}

/// Whether anything happened since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    None,
    Some,
}

/// Who gives way, to whom, and for what.
type Given = BTreeMap<JobId, (JobId, Preemption)>;

/// One who is given what others leave.
struct Heir {
    turn: Turn,
    ask: Arc<Ask>,
    chosen: Vec<Chosen>,
}

impl Planner {
    /// Names who gives way by a round over all accounts.
    pub(super) fn evict(&mut self, now: Time, outcome: &mut Outcome) {
        let Some(due) = self.evicts().then(|| self.taking.round.due(now)).flatten() else {
            return;
        };
        if self.taking.claims.len() >= STARTS_MAX {
            // Nobody is given more before one of them has started.
            return;
        }
        if due > now {
            outcome.again = outcome.again.into_iter().chain([due]).min();
            return;
        }
        (self.taking.round.news, self.taking.round.again) = (News::None, None);
        if self.rows.turns().next().is_none() || !self.has_evictable() {
            return;
        }
        self.taking.round.at = Some(now);
        let scene = self.scene(now);
        let decided = rounds::schedule(&scene.state, &self.without_rates());
        self.carry_out(&scene, &decided, outcome);
        let rate = self.policy.queue.limits.preempt_rate;
        let tokens = rate.map(|rate| (rate, Tokens::new(rate, decided.buckets.preempt, now)));
        let spent = tokens.filter(|(_, tokens)| tokens.spent());
        let next = spent.map(|(rate, tokens)| now.after(tokens.until_one(rate)));
        let gate = self.occupancy.gate().again();
        self.taking.round.again = next.into_iter().chain(gate).min();
        let again = outcome.again.into_iter().chain(self.taking.round.again);
        outcome.again = again.min();
    }

    /// The policy by which it is asked who gives way. Rates of starts are those of the gate, to which
    /// a job is one start: here its parts would each be one.
    fn without_rates(&self) -> Policy {
        let mut policy = self.policy.clone();
        (policy.queue.limits.rate, policy.queue.limits.account_rate) = (None, None);
        policy
    }

    fn evicts(&self) -> bool {
        let ladder = &self.policy.placement.ladder;
        let by_share =
            self.policy.queue.evict == Evict::FairShare && ladder.contains(&Rung::Evicted);
        self.table.is_some() && (by_share || ladder.contains(&Rung::Urgency))
    }

    /// Whether a class that anybody holds something in may be taken from.
    fn has_evictable(&self) -> bool {
        let placement = &self.policy.placement;
        let may = |owner: &Owner| {
            let named = owner.class.as_ref().map(|name| name.as_str());
            let class = placement
                .classes
                .get(named.unwrap_or(&placement.default_class));
            class.is_some_and(|class| {
                class.fair_share_preemptible == Preference::On
                    || class.urgency_preemptible == Preference::On
            })
        };
        let mut held = self.holdings.values().filter_map(|one| one.owner.as_ref());
        held.any(may)
    }

    /// Names who is to end, as far as those for whom they end fit then.
    fn carry_out(&mut self, scene: &Scene, decided: &rounds::Outcome, outcome: &mut Outcome) {
        let mut heirs = heirs(scene, decided);
        // Nobody ends for one who may not start.
        heirs.retain(|heir| self.occupancy.admits(&heir.ask));
        heirs.truncate(STARTS_MAX.saturating_sub(self.taking.claims.len()));
        let given = self.inherited(given(scene, decided), &heirs);
        while let Some(at) = self.unfit(&heirs, &given) {
            heirs.remove(at);
        }
        for heir in &heirs {
            let job = heir.turn.job;
            for (victim, kind) in given
                .iter()
                .filter(|(_, (by, _))| *by == job)
                .map(|(v, (_, k))| (*v, *k))
            {
                let cause = match kind {
                    Preemption::FairShare => Cause::FairShare,
                    Preemption::Urgency | Preemption::Capacity => Cause::Urgency,
                };
                let why = self.why(victim, job, cause);
                self.name(victim, (job, cause), why, outcome);
            }
        }
        if !heirs.is_empty() {
            self.taking.round.bucket = decided.buckets.preempt;
        }
        for heir in heirs {
            let on: BTreeSet<usize> = heir.chosen.iter().map(|one| one.at).collect();
            let (ask, span) = self.ask_of(heir.turn.job);
            let job = heir.turn.job;
            self.claim(heir.turn, (&ask, span), heir.chosen);
            let waits: Vec<JobId> = given
                .keys()
                .copied()
                .filter(|victim| self.is_on(*victim, &on))
                .collect();
            if let Some(claim) = self.taking.claims.get_mut(&job) {
                let ending = &self.taking.ending;
                claim
                    .waits
                    .extend(waits.into_iter().filter(|one| ending.contains_key(one)));
            }
        }
    }

    /// One who was overtaken in the round by another starts not: who gave way to him does so for one
    /// who starts there.
    fn inherited(&self, given: Given, heirs: &[Heir]) -> Given {
        let heir_on = |victim: JobId| {
            let owner = self.holdings.get(&victim)?.owner.as_ref()?;
            heirs.iter().find(|heir| {
                let on: BTreeSet<usize> = heir.chosen.iter().map(|one| one.at).collect();
                // Nobody gives way to his own account.
                let other = account_of(&heir.ask.want.owner) != account_of(owner);
                other && self.is_on(victim, &on)
            })
        };
        let named = |by: JobId| heirs.iter().any(|heir| heir.turn.job == by);
        let all = given.into_iter();
        let anew = all.filter_map(|(victim, (by, kind))| match named(by) {
            true => Some((victim, (by, kind))),
            false => Some((victim, (heir_on(victim)?.turn.job, kind))),
        });
        anew.filter(|(victim, (by, kind))| self.may_inherit(*victim, *by, *kind))
            .collect()
    }

    /// By urgency only those of a higher class take, also where a round would put back an equal; and
    /// nobody takes from who may take from him by QoS, of which rounds know nothing.
    fn may_inherit(&self, victim: JobId, by: JobId, kind: Preemption) -> bool {
        let holder = self
            .holdings
            .get(&victim)
            .and_then(|one| one.owner.as_ref());
        let Some(holder) = holder else { return false };
        let taker = Standing::of(&self.waiting[&by].want.owner);
        let holder = Standing::of(holder);
        let is_below = self.preempts(self.qos_of(&holder), self.qos_of(&taker));
        match kind {
            Preemption::FairShare => !is_below,
            Preemption::Urgency | Preemption::Capacity => {
                !is_below && self.rank(&taker) > self.rank(&holder)
            }
        }
    }

    pub(super) fn is_on(&self, job: JobId, on: &BTreeSet<usize>) -> bool {
        let inventory = self.occupancy.inventory();
        let holding = self.holdings.get(&job);
        holding.is_some_and(|one| parts(inventory, &one.set).any(|(at, _)| on.contains(&at)))
    }

    fn why(&self, victim: JobId, by: JobId, cause: Cause) -> String {
        let owner = self.holdings.get(&victim).and_then(|one| one.owner.clone());
        let owner = owner.unwrap_or_default();
        match cause {
            Cause::FairShare => format!("account {} has more than its share", account_of(&owner)),
            Cause::Urgency => {
                let default = &self.policy.placement.default_class;
                let name = |owner: &Owner| match class_of(owner) {
                    class if class.is_empty() => default.clone(),
                    class => class,
                };
                let higher = name(&self.waiting[&by].want.owner);
                format!("class {higher} stands above class {}", name(&owner))
            }
            Cause::Drain => unreachable!("nobody is taken from for a drain"),
        }
    }

    /// The first of the heirs for whom there is no room though all give way who do so for an heir.
    fn unfit(&self, heirs: &[Heir], given: &Given) -> Option<usize> {
        let inventory = self.occupancy.inventory();
        let spans = heirs.iter().map(|heir| self.ask_of(heir.turn.job).1);
        let span = spans.max().unwrap_or(Span::ZERO);
        let now = self.occupancy.now();
        let until = self.had_until(now, span);
        // Nor what is promised to one who waited too long, if none of them stands above him or is that one.
        let yields = |heir: &Heir, job| {
            let standing = Standing::of(&heir.ask.want.owner);
            heir.turn.job == job || self.displaces(&standing, job)
        };
        let heed = |job| !heirs.iter().any(|heir| yields(heir, job));
        let mut field = BTreeMap::new();
        for at in heirs.iter().flat_map(|heir| &heir.chosen).map(|one| one.at) {
            field.entry(at).or_insert_with(|| {
                // What a reservation closes is promised to nobody who waits here.
                let claimed =
                    |job| self.taking.claims.contains_key(&job) || !self.waiting.contains_key(&job);
                let heeded = |job| claimed(job) || self.is_late(job) && heed(job);
                self.occupancy
                    .to_be_had(at, (now, until), heeded, |_| false)
            });
        }
        let names = |by: &JobId| heirs.iter().any(|heir| heir.turn.job == *by);
        for (victim, _) in given.iter().filter(|(_, (by, _))| names(by)) {
            let Some(holding) = self.holdings.get(victim) else {
                continue;
            };
            for (at, room) in parts(inventory, &holding.set) {
                if let Some(found) = field.get_mut(&at) {
                    found.left = found.left.with(&room);
                    found.held = found.held.saturating_sub(1);
                }
            }
        }
        heirs.iter().position(|heir| {
            let need = &heir.ask.need;
            let all = heir.chosen.iter().map(|one| match need.spread {
                Spread::Nodes { .. } => 1,
                Spread::Slots(_) => one.slots,
            });
            if all.sum::<u64>() != need.count() {
                return true;
            }
            heir.chosen.iter().any(|one| {
                let Some(found) = field.get_mut(&one.at) else {
                    return true;
                };
                let room = match need.sharing {
                    Sharing::Shared => need.room(one.slots),
                    Sharing::Exclusive => inventory.capacity(one.at),
                };
                let is_short = match need.sharing {
                    Sharing::Shared => found.left.lacks(&room) != [0; 3],
                    Sharing::Exclusive => found.held > 0 || found.is_promised,
                };
                found.left = found.left.without(&room);
                found.held += 1;
                is_short
            })
        })
    }
}

/// Those who start by what others leave, and where.
fn heirs(scene: &Scene, decided: &rounds::Outcome) -> Vec<Heir> {
    let mut on: BTreeMap<JobId, BTreeMap<u32, u64>> = BTreeMap::new();
    let mut takes = BTreeSet::new();
    for (member, decision) in &decided.decisions {
        let Decision::Start { node, method, .. } = decision else {
            continue;
        };
        let job = scene.members[member.0 as usize];
        *on.entry(job).or_default().entry(*node).or_default() += 1;
        match method {
            Method::Free => {}
            Method::FairShare | Method::Urgency => {
                takes.insert(job);
            }
        }
    }
    let heirs = on.into_iter().filter(|(job, _)| takes.contains(job));
    let heir = |(job, on): (JobId, BTreeMap<u32, u64>)| {
        let (turn, ask) = scene.waiting.get(&job)?;
        let chosen = on.into_iter().map(|(at, members)| Chosen {
            at: at as usize,
            slots: match ask.need.spread {
                Spread::Nodes { slots, .. } => slots,
                Spread::Slots(_) => members,
            },
        });
        Some(Heir {
            turn: *turn,
            ask: Arc::clone(ask),
            chosen: chosen.collect(),
        })
    };
    heirs.filter_map(heir).collect()
}

/// Who gives way to whom, and for what.
fn given(scene: &Scene, decided: &rounds::Outcome) -> Given {
    let mut given = BTreeMap::new();
    for (member, decision) in &decided.decisions {
        if let Decision::Preempt {
            by: Some(by), kind, ..
        } = decision
        {
            let victim = scene.members[member.0 as usize];
            let by = scene.members[by.0 as usize];
            given.entry(victim).or_insert((by, *kind));
        }
    }
    given
}
