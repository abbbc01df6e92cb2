//! Reservations and pools: what they keep, whom they let in, and that a planner that lived through
//! all of it plans as one made anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Request;
use eddy_wire::plan::{
    Bar, Delta, Explained, Outcome, Owner, Question, Reason, Suppose, Unavailable, Verdict, Want,
};
use eddy_wire::pool::{Pool, Takes};
use eddy_wire::reservation::{Purpose, Reservation};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{MICROS, Span};
use proptest::prelude::*;

use super::model::{inventory, nodes, slots};
use crate::Lines;
use crate::cleanup::CLEANUP;

const RANKS: u32 = 4;
const ALL: u32 = 10_000;

pub(super) fn at(seconds: i64) -> Time {
    Time(seconds * MICROS)
}

pub(super) fn reservation(name: &str, (from, until): (i64, i64), ranks: Idset) -> Reservation {
    Reservation {
        name: name.parse().expect("a name"),
        from: at(from),
        until: at(until),
        ranks,
        purpose: Purpose::Jobs {
            accounts: Vec::new(),
            users: vec![7],
        },
        userid: 0,
    }
}

pub(super) fn lasting(request: Request, seconds: i64) -> Request {
    Request {
        duration: Some(seconds * MICROS - CLEANUP.0),
        ..request
    }
}

/// An instance, and what its planner was told.
pub(super) struct Site {
    policy: &'static str,
    pub(super) lines: Lines,
    pub(super) now: Time,
    reserved: BTreeMap<String, Arc<Reservation>>,
    wants: BTreeMap<JobId, Want>,
    held: BTreeMap<JobId, (Arc<ResourceSet>, Want)>,
}

impl Site {
    pub(super) fn new(policy: &'static str) -> Site {
        Site {
            policy,
            lines: empty(policy),
            now: at(1),
            reserved: BTreeMap::new(),
            wants: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    pub(super) fn want(&mut self, job: u64, request: Request, reservation: Option<&str>) {
        self.want_of(job, request, reservation, 0);
    }

    /// And so much of the pool.
    fn want_of(&mut self, job: u64, request: Request, reservation: Option<&str>, of: u64) {
        let want = Want {
            pools: match of {
                0 => Takes::default(),
                of => [(pool().name, of)].into(),
            },
            reservation: reservation.map(|name| name.parse().expect("a name")),
            ..Want::of(16, request)
        };
        self.wants(job, want);
    }

    pub(super) fn wants(&mut self, job: u64, want: Want) {
        self.wants.insert(JobId(job), want.clone());
        self.lines.apply(Delta::Want(JobId(job), want));
    }

    pub(super) fn reserve(&mut self, one: Reservation) {
        let one = Arc::new(one);
        self.reserved.insert(one.name.to_string(), Arc::clone(&one));
        self.lines.apply(Delta::Reserved(one));
    }

    pub(super) fn unreserve(&mut self, name: &str) {
        if let Some(one) = self.reserved.remove(name) {
            self.lines.apply(Delta::Unreserved(one.name.clone()));
        }
    }

    pub(super) fn free(&mut self, job: u64) {
        if self.held.remove(&JobId(job)).is_some() {
            self.lines.apply(Delta::Freed(JobId(job)));
        }
    }

    /// Plans and records; who started and who was told that it never will.
    pub(super) fn plan(&mut self) -> Vec<(u64, Option<Idset>)> {
        let outcome = self.lines.plan(self.now, ALL);
        assert!(!outcome.unfinished);
        self.record(&outcome)
    }

    fn record(&mut self, outcome: &Outcome) -> Vec<(u64, Option<Idset>)> {
        let mut done = Vec::new();
        for (job, verdict) in &outcome.verdicts {
            let want = self.wants.remove(job).expect("it waits");
            match verdict {
                Verdict::Start(set) => {
                    self.is_let(*job, &want, set);
                    let held = Delta::Held(*job, Owner::default(), Arc::clone(set));
                    self.lines.apply(held);
                    let uses = Delta::Uses(*job, want.pools.clone(), Arc::clone(set));
                    self.lines.apply(uses);
                    done.push((job.0, Some(set.ranks())));
                    self.held.insert(*job, (Arc::clone(set), want));
                }
                Verdict::Never(_) => done.push((job.0, None)),
                Verdict::Preempt { .. } => panic!("nobody may be taken from"),
            }
        }
        done
    }

    /// What a reservation promises, without any planner.
    fn is_let(&self, job: JobId, want: &Want, set: &ResourceSet) {
        let end = match want.request.duration {
            Some(limit) => self.now.after(Span(limit)).after(CLEANUP),
            None => Time(i64::MAX),
        };
        let others = self.held.values().flat_map(|(_, want)| want.pools.iter());
        let in_use = others.chain(want.pools.iter()).map(|(_, count)| count);
        assert!(in_use.sum::<u64>() <= pool().count, "job {job}");
        let own = want.reservation.as_ref().map(ToString::to_string);
        if let Some(own) = &own {
            let one = &self.reserved[own];
            assert!(
                one.is_on(self.now) && end <= one.until,
                "job {job} in {own}"
            );
            assert!(one.ranks.contains_all(&set.ranks()), "job {job} in {own}");
        }
        for (name, one) in &self.reserved {
            let meets = !one.ranks.is_disjoint(&set.ranks());
            if meets && own.as_ref() != Some(name) {
                let is_apart = end <= one.from || one.until <= self.now;
                assert!(is_apart, "job {job} until {end}: {one:?}");
            }
        }
    }

    /// A planner that was told how things are.
    fn fresh(&self) -> Lines {
        let mut lines = empty(self.policy);
        for one in self.reserved.values() {
            lines.apply(Delta::Reserved(Arc::clone(one)));
        }
        for (job, (set, want)) in &self.held {
            lines.apply(Delta::Held(*job, Owner::default(), Arc::clone(set)));
            let uses = Delta::Uses(*job, want.pools.clone(), Arc::clone(set));
            lines.apply(uses);
        }
        for (job, want) in &self.wants {
            lines.apply(Delta::Want(*job, want.clone()));
        }
        lines
    }

    pub(super) fn why(&mut self, job: u64) -> (Reason, Option<Time>) {
        let told = self.told(job);
        (told.reason, told.start.and_then(|start| start.latest))
    }

    fn earliest(&mut self, job: u64) -> Option<Time> {
        self.told(job).start.map(|start| start.earliest)
    }

    fn told(&mut self, job: u64) -> Explained {
        self.lines.apply(Delta::Explain(Question {
            tag: 1,
            jobs: Some(vec![(JobId(job), JobId(job))]),
            most: 1,
            suppose: Suppose::default(),
            wants: Vec::new(),
            lent: Vec::new(),
        }));
        let mut outcome = self.lines.plan(self.now, ALL);
        outcome.answers.remove(0).jobs.remove(0)
    }
}

fn pool() -> Pool {
    Pool {
        name: "lic".parse().expect("a name"),
        count: 3,
    }
}

fn empty(policy: &str) -> Lines {
    let mut lines = Lines::new();
    lines.apply(Delta::Policy(policy.into()));
    lines.apply(Delta::Inventory(inventory(&[(2, 0, 0); RANKS as usize])));
    lines.apply(Delta::Up(Idset::first_ids(RANKS)));
    lines.apply(Delta::Pools([pool()].into()));
    lines
}

pub(super) fn bar(name: &str, bar: Bar, seconds: i64) -> Reason {
    Reason::Reservation {
        name: name.parse().expect("a name"),
        bar,
        within: Span::seconds(seconds),
    }
}

#[test]
fn the_earliest_start_is_when_no_reservation_keeps_a_job_out() {
    let mut site = Site::new("preset = \"easy\"");
    site.reserve(reservation("on", (0, 61), Idset::range(2, 3)));
    site.reserve(reservation("next", (81, 181), Idset::one(3)));
    site.want(1, lasting(nodes(2, 1, 2), 100), None);
    assert_eq!(site.plan(), [(1, Some(Idset::range(0, 1)))]);
    // What runs may end now, what is reserved does not.
    site.want(2, lasting(nodes(2, 1, 2), 20), None);
    site.want(3, lasting(nodes(4, 1, 2), 20), None);
    site.want(4, lasting(nodes(4, 1, 2), 21), None);
    site.want(5, lasting(nodes(1, 1, 2), 20), Some("next"));
    assert!(site.plan().is_empty());
    let told = [2, 3, 4, 5].map(|job| site.earliest(job));
    assert_eq!(told, [1, 61, 181, 81].map(|seconds| Some(at(seconds))));
}

#[test]
fn nobody_is_likely_to_begin_while_a_reservation_keeps_him_out() {
    let mut site = Site::new("preset = \"easy\"");
    // Others were told a minute, and began at once.
    for job in 100..140 {
        site.want(job, lasting(nodes(4, 1, 2), 60), None);
        site.plan();
        site.want(job + 100, lasting(nodes(4, 1, 2), 60), None);
        site.plan();
        site.told(job + 100);
        site.free(job);
        site.plan();
        site.free(job + 100);
    }
    site.want(1, lasting(nodes(4, 1, 2), 60), None);
    site.plan();
    site.want(2, lasting(nodes(4, 1, 2), 40), None);
    let likely = |site: &mut Site| site.told(2).start.and_then(|start| start.likely);
    let soon = likely(&mut site).expect("enough began");
    assert!(soon.to < at(61), "{soon:?}");
    site.reserve(reservation("r", (1, 61), Idset::range(0, 3)));
    let told = site.told(2).start.expect("it starts after that");
    assert_eq!((told.earliest, told.likely), (at(61), None));
}

#[test]
fn who_is_over_before_a_reservation_begins_starts_on_its_nodes() {
    let mut site = Site::new("preset = \"easy\"");
    site.reserve(reservation("r", (21, 61), Idset::range(1, 3)));
    site.want(1, lasting(nodes(4, 1, 2), 21), None);
    site.want(2, lasting(nodes(2, 1, 2), 20), None);
    site.want(3, slots(1, 1), None);
    assert_eq!(site.plan(), [(2, Some(Idset::range(0, 1)))]);
    assert_eq!(site.why(1), (bar("r", Bar::Ahead, 20), Some(at(61))));
    site.now = at(30);
    site.free(2);
    // The first would wait for it now, and the third would not end before.
    assert_eq!(site.plan(), []);
    assert_eq!(site.why(1), (bar("r", Bar::On, 31), Some(at(61))));
    site.now = at(61);
    assert_eq!(site.plan(), [(1, Some(Idset::range(0, 3)))]);
}

#[test]
fn a_reservation_is_for_those_who_name_it_while_it_lasts() {
    let mut site = Site::new("preset = \"fcfs\"");
    site.reserve(reservation("r", (21, 61), Idset::range(1, 2)));
    site.want(1, lasting(nodes(2, 1, 2), 20), Some("r"));
    site.want(2, lasting(nodes(1, 1, 2), 21), Some("r"));
    site.want(3, lasting(nodes(1, 1, 2), 25), Some("r"));
    site.want(4, lasting(nodes(2, 1, 2), 15), None);
    assert_eq!(site.plan(), [(4, Some(Idset::range(0, 1)))]);
    assert_eq!(site.why(1), (bar("r", Bar::Early, 20), Some(at(21))));
    // It overruns its time: nobody is killed for a reservation.
    site.now = at(21);
    assert_eq!(site.plan(), []);
    site.free(4);
    assert_eq!(site.plan(), [(1, Some(Idset::range(1, 2)))]);
    site.now = at(40);
    site.free(1);
    assert_eq!(site.plan(), [(2, Some(Idset::one(1)))]);
    assert_eq!(site.why(3).0, bar("r", Bar::Late, 21));
    site.now = at(61);
    site.reserved.clear();
    assert_eq!(site.plan(), [(3, None)]);
}

#[test]
fn what_waits_for_a_reservation_holds_up_nobody_and_ends_with_it() {
    let mut site = Site::new("preset = \"fcfs\"");
    site.want(1, lasting(slots(1, 1), 15), Some("r"));
    assert_eq!(site.plan(), [(1, None)]);
    site.reserve(reservation("r", (21, 61), Idset::range(0, 3)));
    site.want(2, lasting(slots(1, 1), 15), Some("r"));
    site.want(3, lasting(slots(1, 1), 15), None);
    assert_eq!(site.plan(), [(3, Some(Idset::one(0)))]);
    site.unreserve("r");
    assert_eq!(site.plan(), [(2, None)]);
    let repair = Reservation {
        purpose: Purpose::Maintenance,
        ..reservation("r", (21, 61), Idset::range(0, 3))
    };
    site.reserve(repair);
    site.want(4, lasting(slots(1, 1), 15), Some("r"));
    site.want(5, slots(1, 1), None);
    assert_eq!(site.plan(), [(4, None)]);
    site.now = at(61);
    assert_eq!(site.plan(), [(5, Some(Idset::one(0)))]);
}

#[test]
fn who_would_end_too_late_holds_up_nobody_in_his_reservation() {
    let mut site = Site::new("preset = \"fcfs\"");
    site.reserve(reservation("r", (21, 61), Idset::range(0, 3)));
    site.want(1, lasting(slots(1, 1), 40), Some("r"));
    site.want(2, lasting(slots(1, 1), 39), Some("r"));
    site.want(3, lasting(slots(1, 1), 30), Some("r"));
    assert_eq!(site.plan(), []);
    site.now = at(23);
    let started = site.plan();
    assert_eq!(started.iter().map(|(job, _)| *job).collect::<Vec<_>>(), [3]);
    assert_eq!(site.why(1), (bar("r", Bar::Late, 38), None));
    site.now = at(25);
    assert_eq!(site.why(2), (bar("r", Bar::Late, 36), None));
    // There is more time now.
    site.reserve(reservation("r", (21, 90), Idset::range(0, 3)));
    let started = site.plan();
    assert_eq!(
        started.iter().map(|(job, _)| *job).collect::<Vec<_>>(),
        [1, 2]
    );
}

fn on(request: Request, ranks: Idset) -> Request {
    Request {
        ranks: Some(ranks),
        ..request
    }
}

#[test]
fn the_reservation_that_is_named_has_nodes_that_the_job_could_have() {
    let mut site = Site::new("preset = \"easy\"");
    site.want(1, on(lasting(nodes(1, 1, 2), 40), Idset::one(3)), None);
    assert_eq!(site.plan(), [(1, Some(Idset::one(3)))]);
    site.reserve(reservation("a", (1, 900), Idset::one(0)));
    site.reserve(reservation("b", (51, 900), Idset::one(3)));
    site.want(2, on(lasting(nodes(1, 1, 2), 60), Idset::one(3)), None);
    assert_eq!(site.plan(), []);
    assert_eq!(site.why(2).0, bar("b", Bar::Ahead, 50));
}

#[test]
fn the_reservation_that_is_named_is_the_one_that_a_job_waits_for() {
    let mut site = Site::new("preset = \"easy\"");
    site.reserve(reservation("long", (0, 60), Idset::range(0, 2)));
    site.reserve(reservation("short", (6, 10), Idset::one(3)));
    site.want(1, lasting(nodes(1, 1, 1), 30), None);
    site.plan();
    let (reason, latest) = site.why(1);
    assert!(
        matches!(&reason, Reason::Reservation { name, .. } if name.as_str() == "short"),
        "{reason:?}"
    );
    assert_eq!(latest, Some(at(10)));
    // Where it needs the nodes of both it waits for the last.
    site.want(2, lasting(nodes(4, 1, 1), 30), None);
    site.plan();
    let (reason, _) = site.why(2);
    assert!(
        matches!(&reason, Reason::Reservation { name, .. } if name.as_str() == "long"),
        "{reason:?}"
    );
}

#[test]
fn a_reservation_is_not_named_where_the_job_would_wait_without_it() {
    let mut site = Site::new("preset = \"easy\"");
    site.want(1, on(lasting(nodes(1, 1, 2), 100), Idset::one(3)), None);
    assert_eq!(site.plan(), [(1, Some(Idset::one(3)))]);
    site.reserve(reservation("r", (500, 900), Idset::one(0)));
    site.want(2, lasting(nodes(4, 1, 2), 50), None);
    // On the first node it would meet the reservation, on the next the promise to the second.
    site.want(3, nodes(1, 1, 2), None);
    assert_eq!(site.plan(), []);
    let delay = Reason::WouldDelay {
        job: JobId(2),
        within: Span::seconds(100),
    };
    assert_eq!(site.why(3).0, delay);
}

#[test]
fn a_reservation_is_not_named_where_nodes_are_away() {
    let mut site = Site::new("preset = \"easy\"");
    site.reserve(reservation("r", (500, 900), Idset::one(0)));
    let down = Delta::Down(Idset::one(2), Unavailable::Drained);
    site.lines.apply(down);
    site.want(1, nodes(4, 1, 2), None);
    assert_eq!(site.plan(), []);
    assert!(matches!(site.why(1).0, Reason::NotInService { .. }));
}

#[test]
fn a_pool_is_promised_like_nodes_and_counts_in_every_line() {
    let mut site = Site::new("preset = \"easy\"");
    site.reserve(reservation("r", (1, 900), Idset::one(3)));
    site.want_of(1, lasting(slots(1, 1), 50), Some("r"), 2);
    assert_eq!(site.plan(), [(1, Some(Idset::one(3)))]);
    site.want_of(2, lasting(slots(1, 1), 40), None, 2);
    site.want_of(3, lasting(slots(1, 1), 51), None, 1);
    site.want_of(4, lasting(slots(1, 1), 50), None, 1);
    site.want_of(5, lasting(slots(1, 1), 500), None, 0);
    // The third would still have of it when the second is to have two: there is one more then.
    assert_eq!(
        site.plan(),
        [(3, Some(Idset::one(0))), (5, Some(Idset::one(1)))]
    );
    let short = |asked: u64| Reason::Pool {
        pool: pool().name,
        asked,
        free: 0,
        count: 3,
    };
    assert_eq!(site.why(2), (short(2), Some(at(51))));
    assert_eq!(site.why(4).0, short(1));
    site.now = at(30);
    site.free(3);
    // One is free, until the second has two at 51 there is one left.
    assert_eq!(site.plan(), [(4, Some(Idset::one(0)))]);
    site.free(1);
    assert_eq!(site.plan(), [(2, Some(Idset::one(0)))]);
}

#[test]
fn who_takes_more_of_a_pool_than_there_is_holds_up_nobody() {
    let mut site = Site::new("preset = \"fcfs\"");
    site.want_of(1, lasting(slots(1, 1), 50), None, 4);
    site.want_of(2, lasting(slots(1, 1), 50), None, 3);
    assert_eq!(site.plan(), [(1, None), (2, Some(Idset::one(0)))]);
    // Who waits for some of it is let go once there is no more of it.
    site.want_of(3, lasting(slots(1, 1), 50), None, 1);
    site.want_of(4, lasting(slots(1, 1), 50), None, 0);
    assert_eq!(site.plan(), []);
    site.lines.apply(Delta::Pools([].into()));
    assert_eq!(site.plan(), [(3, None), (4, Some(Idset::one(0)))]);
}

#[test]
fn a_time_comes_at_which_a_planner_is_to_be_asked() {
    let mut site = Site::new("preset = \"fcfs\"");
    site.reserve(reservation("r", (21, 61), Idset::range(0, 3)));
    assert_eq!(site.lines.plan(at(1), ALL).again, Some(at(21)));
    assert_eq!(site.lines.plan(at(21), ALL).again, Some(at(61)));
    assert_eq!(site.lines.plan(at(61), ALL).again, None);
}

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    Want(u64, u32, Option<i64>, Option<usize>, u64),
    Free(u64),
    Reserve(usize, (i64, i64), Vec<u32>, Purpose),
    Unreserve(usize),
    Pass(i64),
    Plan,
}

const NAMES: [&str; 2] = ["r", "s"];

fn step() -> impl Strategy<Value = Step> {
    let purpose = prop_oneof![
        3 => Just(Purpose::Jobs { accounts: Vec::new(), users: vec![7] }),
        1 => Just(Purpose::Maintenance),
    ];
    let limit = prop_oneof![1 => Just(None), 4 => (11i64..40).prop_map(Some)];
    let named = prop_oneof![2 => Just(None), 1 => (0usize..2).prop_map(Some)];
    prop_oneof![
        6 => (1u64..12, 1u32..5, limit, named, prop_oneof![2 => Just(0u64), 1 => 1u64..4])
            .prop_map(|(job, size, limit, named, of)| Step::Want(job, size, limit, named, of)),
        3 => (1u64..12).prop_map(Step::Free),
        2 => (0usize..2, (0i64..30, 1i64..40), prop::collection::vec(0..RANKS, 1..4), purpose)
            .prop_map(|(name, times, ranks, purpose)| Step::Reserve(name, times, ranks, purpose)),
        1 => (0usize..2).prop_map(Step::Unreserve),
        3 => (1i64..15).prop_map(Step::Pass),
        4 => Just(Step::Plan),
    ]
}

impl Site {
    fn step(&mut self, step: Step) {
        match step {
            Step::Want(job, size, limit, named, of) => {
                if self.held.contains_key(&JobId(job)) {
                    return;
                }
                let request = match size {
                    4 => slots(3, 1),
                    size => nodes(size, 1, 2),
                };
                let request = match limit {
                    Some(limit) => lasting(request, limit),
                    None => request,
                };
                self.want_of(job, request, named.map(|at| NAMES[at]), of);
            }
            Step::Free(job) => self.free(job),
            Step::Reserve(name, (from, span), ranks, purpose) => {
                let from = self.now.0 / MICROS + from;
                let ranks: Idset = ranks.into_iter().collect();
                let made = Reservation {
                    purpose,
                    ..reservation(NAMES[name], (from, from + span), ranks)
                };
                let mut others = self.reserved.values();
                if others.all(|other| other.name == made.name || !other.meets(&made)) {
                    self.reserve(made);
                }
            }
            Step::Unreserve(name) => self.unreserve(NAMES[name]),
            Step::Pass(seconds) => {
                self.now = self.now.after(Span::seconds(seconds));
                let now = self.now;
                self.reserved.retain(|_, one| one.until > now);
            }
            Step::Plan => {
                let anew = self.fresh().plan(self.now, ALL);
                let outcome = self.lines.plan(self.now, ALL);
                assert_eq!(outcome.verdicts, anew.verdicts);
                assert_eq!(outcome.head, anew.head);
                self.record(&outcome);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_planner_that_lived_through_reservations_plans_as_one_made_anew(
        easy in any::<bool>(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut site = Site::new(match easy {
            true => "preset = \"easy\"",
            false => "preset = \"fcfs\"",
        });
        for step in steps {
            site.step(step);
        }
        site.step(Step::Plan);
    }
}
