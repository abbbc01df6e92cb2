//! What holds whatever happens: random changes against the plain policy of
//! `model`, a planner made anew, and a planner told everything twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing, Takes};
use eddy_wire::plan::{Delta, Outcome, Owner, Reason, Unavailable, Verdict, Want};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use proptest::prelude::*;

use super::model::{Plain, State, inventory, memory, nodes, slots, urgency};
use crate::by_use::By;
use crate::policy::NodeRank;
use crate::rooms::{Room, Rooms};
use crate::{Planner, feasible};

const RANKS: u32 = 5;
const ALL: u32 = 1_000;

/// The placements that have another order than that of the ranks.
const RANKED: [(NodeRank, &str); 6] = [
    (NodeRank::FirstFit, "first_fit"),
    (NodeRank::HighId, "high_id"),
    (NodeRank::Pack, "pack"),
    (NodeRank::Spread, "spread"),
    (NodeRank::BestFit, "best_fit"),
    (NodeRank::Locality, "locality"),
];

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    Inventory(Vec<(u32, u32, u64)>),
    Up(u32),
    Down(u32),
    Drain(u32),
    Want(JobId, i64, Request),
    Unwant(JobId),
    Freed(JobId),
    /// A pass of so many verdicts; then each proposal is recorded or not.
    Plan(u32, Record),
}

/// What becomes of proposals.
#[derive(Clone, Copy, Debug)]
enum Record {
    /// Recorded as proposed.
    All,
    /// Left open.
    None,
    /// Refused: given back, and the job waits on.
    Refused,
}

fn request() -> impl Strategy<Value = Request> {
    let memory = prop_oneof![
        3 => Just(MemoryNeed::None),
        1 => (1u64..9).prop_map(MemoryNeed::PerNode),
        1 => (1u64..4).prop_map(MemoryNeed::PerCore),
        1 => (1u64..4).prop_map(MemoryNeed::PerTask),
    ];
    let shape = prop_oneof![
        (1u32..6, 1u32..4).prop_map(|(count, cores)| slots(count, cores)),
        (1u32..4, 1u32..3, 1u32..3).prop_map(|(count, each, cores)| nodes(count, each, cores)),
        (1u32..4).prop_map(|count| Request {
            sharing: Sharing::Exclusive,
            ..nodes(count, 1, 0)
        }),
        (1u32..4).prop_map(|count| Request {
            sharing: Sharing::Exclusive,
            ..slots(count, 2)
        }),
    ];
    let ranks = prop_oneof![
        3 => Just(None),
        1 => prop::collection::btree_set(0..RANKS, 1..RANKS as usize)
            .prop_map(|ranks| Some(ranks.into_iter().collect())),
    ];
    let takes = prop_oneof![4 => Just(Takes::Resources), 1 => Just(Takes::Nothing)];
    let rest = (0u32..2, memory, 1u32..3, ranks, takes);
    (shape, rest).prop_map(|(shape, (gpus_per_slot, memory, tasks, ranks, takes))| {
        let ntasks = shape.slots * tasks;
        Request {
            gpus_per_slot,
            memory,
            ntasks,
            ranks,
            takes,
            ..shape
        }
    })
}

fn node() -> impl Strategy<Value = (u32, u32, u64)> {
    (1u32..5, 0u32..3, prop_oneof![Just(0u64), 4u64..12])
}

fn step() -> impl Strategy<Value = Step> {
    let job = || (1u64..10).prop_map(JobId);
    let record =
        prop_oneof![4 => Just(Record::All), 1 => Just(Record::None), 1 => Just(Record::Refused)];
    prop_oneof![
        1 => prop::collection::vec(node(), 0..RANKS as usize).prop_map(Step::Inventory),
        1 => (0..RANKS).prop_map(Step::Up),
        1 => (0..RANKS).prop_map(Step::Down),
        1 => (0..RANKS).prop_map(Step::Drain),
        8 => (job(), 1i64..4, request()).prop_map(|(job, at, asks)| Step::Want(job, at, asks)),
        1 => job().prop_map(Step::Unwant),
        3 => job().prop_map(Step::Freed),
        4 => (1u32..4, record).prop_map(|(steps, record)| Step::Plan(steps, record)),
    ]
}

/// The planner under test, one that hears everything twice, and what both were told.
struct World {
    planner: Planner,
    twice: Planner,
    state: State,
    /// Which of `state.holds` are only proposed.
    proposed: BTreeMap<JobId, Arc<ResourceSet>>,
}

impl World {
    fn new(nodes: &[(u32, u32, u64)], rank: Option<NodeRank>) -> World {
        let mut world = World {
            planner: Planner::new(),
            twice: Planner::new(),
            state: State {
                rank,
                ..State::default()
            },
            proposed: BTreeMap::new(),
        };
        if let Some(policy) = policy(rank) {
            world.tell(policy);
        }
        world.step(Step::Inventory(nodes.to_vec()));
        (0..RANKS).for_each(|rank| world.step(Step::Up(rank)));
        world
    }

    fn tell(&mut self, delta: Delta) {
        self.planner.apply(delta.clone());
        self.twice.apply(delta.clone());
        self.twice.apply(delta);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Inventory(nodes) => {
                self.state.inventory = inventory(&nodes);
                self.tell(Delta::Inventory(self.state.inventory.clone()));
            }
            Step::Up(rank) => {
                self.state.up.insert(rank);
                self.state.online.insert(rank);
                self.tell(Delta::Up(Idset::one(rank)));
            }
            Step::Down(rank) => {
                self.state.up.remove(rank);
                self.state.online.remove(rank);
                self.tell(Delta::Down(Idset::one(rank), Unavailable::Offline));
            }
            Step::Drain(rank) => {
                self.state.up.remove(rank);
                self.state.online.insert(rank);
                self.tell(Delta::Down(Idset::one(rank), Unavailable::Drained));
            }
            Step::Want(job, priority, request) => {
                let before = self.state.wants.insert(job, (priority, request.clone()));
                if before.is_some_and(|(_, before)| before != request) {
                    self.withdraw(job);
                }
                self.tell(Delta::Want(job, Want::of(urgency(priority), request)));
            }
            Step::Unwant(job) => {
                self.state.wants.remove(&job);
                self.withdraw(job);
                self.tell(Delta::Unwant(job));
            }
            Step::Freed(job) => {
                self.state.holds.remove(&job);
                self.proposed.remove(&job);
                self.tell(Delta::Freed(job));
            }
            Step::Plan(steps, record) => self.plan(steps, record),
        }
    }

    fn withdraw(&mut self, job: JobId) {
        if self.proposed.remove(&job).is_some() {
            self.state.holds.remove(&job);
        }
    }

    fn plan(&mut self, steps: u32, record: Record) {
        let mut expected = self.state.schedule();
        let outcome = self.planner.plan(Time(7), steps);
        assert_eq!(
            outcome,
            self.twice.plan(Time(7), steps),
            "deltas said twice"
        );
        assert_eq!(
            outcome,
            fresh(&self.state).plan(Time(7), steps),
            "a planner made anew"
        );
        let waits = expected.pop_if(|(_, verdict)| *verdict == Plain::Wait);
        let all = expected.len();
        expected.truncate(steps as usize);
        assert_eq!(plain(&outcome), expected, "the policy without an index");
        assert_eq!(
            outcome.unfinished,
            all >= steps as usize && (all > expected.len() || waits.is_some())
        );
        if !outcome.unfinished {
            let head = outcome.head.as_ref().map(|(job, _)| *job);
            assert_eq!(head, waits.map(|(job, _)| job), "who waits");
        }
        self.head_is_true(&outcome);
        for (job, verdict) in outcome.verdicts {
            match verdict {
                Verdict::Start(set) => {
                    self.started_right(job, &set);
                    self.state.holds.insert(job, set.clone());
                    self.proposed.insert(job, set);
                }
                Verdict::Never(reason) => {
                    let (_, request) = self.state.wants.remove(&job).expect("it wanted");
                    assert_eq!(feasible(&self.state.inventory, &request), Err(reason));
                }
                Verdict::Preempt { .. } => panic!("nobody may be taken from"),
            }
        }
        self.one_holder();
        self.record(record);
    }

    fn record(&mut self, record: Record) {
        for (job, set) in std::mem::take(&mut self.proposed) {
            match record {
                Record::All => {
                    self.state.wants.remove(&job);
                    self.tell(Delta::Held(job, Owner::default(), set));
                }
                Record::None => drop(self.proposed.insert(job, set)),
                Record::Refused => {
                    self.state.holds.remove(&job);
                    self.tell(Delta::Freed(job));
                }
            }
        }
    }

    /// The reason says why with numbers that are short.
    fn head_is_true(&self, outcome: &Outcome) {
        let Some((job, reason)) = &outcome.head else {
            return;
        };
        let request = &self.state.wants[job].1;
        let up = self.state.inventory.restrict(&self.state.up);
        // What is left of the ranks that it names.
        let named = request.ranks.clone();
        let on_up = Request {
            ranks: named.clone().map(|ranks| ranks.intersect(&up.ranks())),
            ..request.clone()
        };
        match reason {
            Reason::NoRoom { asked, free, .. } => {
                assert!(free < asked, "{reason}");
                assert_eq!(feasible(&up, &on_up), Ok(()), "{reason}");
            }
            Reason::NotInService {
                asked,
                up: there,
                away,
                ..
            } => {
                assert!(there < asked, "{reason}");
                assert!(feasible(&up, &on_up).is_err(), "{reason}");
                assert_eq!(feasible(&self.state.inventory, request), Ok(()), "{reason}");
                let all = self.state.inventory.ranks();
                let of = named.map_or(all.clone(), |ranks| all.intersect(&ranks));
                assert_eq!(*away, of.difference(&self.state.up));
            }
            Reason::Dependency { .. } => assert!(self.state.inventory.is_empty()),
            other => panic!("no reason of a planner: {other}"),
        }
    }

    /// What is given is in service, in the inventory, and what was asked for.
    fn started_right(&self, job: JobId, set: &ResourceSet) {
        let request = &self.state.wants[&job].1;
        assert!(self.state.inventory.contains(set));
        if let Some(ranks) = request.beside() {
            assert_eq!(
                (set.ranks(), set.ncores(), set.memory()),
                (ranks.clone(), 0, 0)
            );
            return assert!(self.state.online.contains_all(&ranks));
        }
        assert!(self.state.up.contains_all(&set.ranks()));
        if let Some(ranks) = &request.ranks {
            assert!(ranks.contains_all(&set.ranks()));
        }
        if let Some(nodes) = request.nodes {
            assert_eq!(set.nnodes(), u64::from(nodes));
        }
        match request.sharing {
            Sharing::Exclusive => {
                assert_eq!(set.nodes, self.state.inventory.restrict(&set.ranks()).nodes);
            }
            Sharing::Shared => {
                let slots = u64::from(request.slots);
                assert_eq!(set.ncores(), slots * u64::from(request.cores_per_slot));
                assert_eq!(set.ngpus(), slots * u64::from(request.gpus_per_slot));
                for (rank, node) in &set.nodes {
                    let known = self.state.inventory.nodes[rank].memory > 0;
                    let slots = node.cores.len() / u64::from(request.cores_per_slot);
                    let asked = if known {
                        memory(request, slots as u32)
                    } else {
                        0
                    };
                    assert_eq!(node.memory, asked);
                }
            }
        }
    }

    /// No core, GPU or byte of the inventory is held twice by what was ever planned together.
    fn one_holder(&self) {
        let mut sum: BTreeMap<Rank, NodeSet> = BTreeMap::new();
        for (rank, part) in self.state.holds.values().flat_map(|set| &set.nodes) {
            let empty = NodeSet {
                host: part.host.clone(),
                cores: Idset::new(),
                gpus: Idset::new(),
                memory: 0,
                ..NodeSet::default()
            };
            let node = sum.entry(*rank).or_insert(empty);
            assert!(!node.intersects(part), "held twice on rank {rank}");
            node.cores = node.cores.union(&part.cores);
            node.gpus = node.gpus.union(&part.gpus);
            node.memory += part.memory;
        }
    }

    /// As no inventory changed under a holding, memory is never over-committed.
    fn memory_suffices(&self) {
        for (rank, node) in &self.state.inventory.nodes {
            let parts = self
                .state
                .holds
                .values()
                .filter_map(|set| set.nodes.get(rank));
            assert!(parts.map(|part| part.memory).sum::<u64>() <= node.memory);
        }
    }
}

/// First come, first served, on these nodes.
fn policy(rank: Option<NodeRank>) -> Option<Delta> {
    let (_, name) = RANKED.iter().find(|(known, _)| Some(*known) == rank)?;
    Some(Delta::Policy(format!("placement.rank = \"{name}\"").into()))
}

/// A planner that is told only how things are.
fn fresh(state: &State) -> Planner {
    let mut planner = Planner::new();
    if let Some(policy) = policy(state.rank) {
        planner.apply(policy);
    }
    state.wants.iter().for_each(|(&job, (priority, request))| {
        planner.apply(Delta::Want(
            job,
            Want::of(urgency(*priority), request.clone()),
        ));
    });
    state.holds.iter().for_each(|(&job, set)| {
        planner.apply(Delta::Held(job, Owner::default(), set.clone()));
        if let Some((priority, request)) = state.wants.get(&job) {
            planner.apply(Delta::Want(
                job,
                Want::of(urgency(*priority), request.clone()),
            ));
        }
    });
    planner.apply(Delta::Up(state.up.clone()));
    let drained = state.online.difference(&state.up);
    planner.apply(Delta::Down(drained, Unavailable::Drained));
    planner.apply(Delta::Inventory(state.inventory.clone()));
    planner
}

fn plain(outcome: &Outcome) -> Vec<(JobId, Plain)> {
    let plain = |verdict: &Verdict| match verdict {
        Verdict::Start(set) => Plain::Start(set.nodes.clone()),
        Verdict::Never(_) => Plain::Never,
        Verdict::Preempt { .. } => panic!("nobody may be taken from"),
    };
    outcome
        .verdicts
        .iter()
        .map(|(job, verdict)| (*job, plain(verdict)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The inventory changes too: what is held on nodes that shrank stays held.
    #[test]
    fn plans_as_from_scratch_whatever_happens(
        nodes in prop::collection::vec(node(), 1..RANKS as usize),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = World::new(&nodes, None);
        for step in steps {
            world.step(step);
        }
        world.plan(ALL, Record::All);
    }

    #[test]
    fn every_placement_plans_as_one_without_an_index(
        rank in prop::sample::select(RANKED.map(|(rank, _)| rank).to_vec()),
        nodes in prop::collection::vec(node(), 1..RANKS as usize),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = World::new(&nodes, Some(rank));
        for step in steps {
            world.step(step);
        }
        world.plan(ALL, Record::All);
    }

    #[test]
    fn memory_is_never_over_committed_and_all_comes_back(
        nodes in prop::collection::vec(node(), 1..RANKS as usize),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = World::new(&nodes, None);
        for step in steps {
            if !matches!(step, Step::Inventory(_)) {
                world.step(step);
                world.memory_suffices();
            }
        }
        (1..10).map(JobId).for_each(|job| {
            world.step(Step::Unwant(job));
            world.step(Step::Freed(job));
        });
        (0..RANKS).for_each(|rank| world.step(Step::Up(rank)));
        let all = world.state.inventory.nnodes() as u32;
        let whole = Request { sharing: Sharing::Exclusive, ..super::model::nodes(all, 1, 0) };
        world.step(Step::Want(JobId(1), 1, whole));
        world.plan(ALL, Record::All);
        prop_assert_eq!(&world.state.holds[&JobId(1)].nodes, &world.state.inventory.nodes);
    }

    #[test]
    fn next_room_is_the_one_a_walk_finds(
        amounts in prop::collection::vec(prop::option::of((0u64..5, 0u64..3, 0u64..4)), 0..70),
        changes in prop::collection::vec((0usize..70, prop::option::of((0u64..5, 0u64..3, 0u64..4))), 0..20),
        need in (0u64..5, 0u64..3, 0u64..4),
    ) {
        let room = |(cores, gpus, memory)| Room { cores, gpus, memory };
        let mut plain: Vec<Option<Room>> = amounts.into_iter().map(|all| all.map(room)).collect();
        let mut rooms = Rooms::new(plain.iter().copied());
        for (at, change) in changes {
            if let Some(before) = plain.get_mut(at) {
                *before = change.map(room);
                rooms.set(at, *before);
            }
        }
        let need = room(need);
        for from in 0..=plain.len() + 1 {
            let holds = |at: &usize| plain[*at].is_some_and(|room| room.holds(&need));
            prop_assert_eq!(rooms.next(from, &need), (from..plain.len()).find(holds));
            let last = (0..from.min(plain.len())).rev().find(holds);
            prop_assert_eq!(rooms.last(from, &need), last);
        }
        let there: Vec<Room> = plain.into_iter().flatten().collect();
        prop_assert_eq!(rooms.totals().nodes, there.len() as u64);
        prop_assert_eq!(rooms.totals().cores, there.iter().map(|room| room.cores).sum::<u64>());
        prop_assert_eq!(rooms.totals().gpus, there.iter().map(|room| room.gpus).sum::<u64>());
    }

    #[test]
    fn nodes_by_use_are_those_that_a_sort_finds(
        nodes in prop::collection::vec((0usize..3, (0u64..5, 0u64..3, 0u64..4)), 1..40),
        changes in prop::collection::vec((0usize..40, prop::option::of((0u64..5, 0u64..3, 0u64..4))), 0..30),
        need in (0u64..5, 0u64..3, 0u64..4),
    ) {
        let room = |(cores, gpus, memory)| Room { cores, gpus, memory };
        let sizes = [(4, 2, 3), (4, 0, 3), (2, 2, 1)].map(room);
        let totals: Vec<Room> = nodes.iter().map(|(size, _)| sizes[*size]).collect();
        let within = |at: usize, amounts| room(amounts).least(&totals[at]);
        let mut plain: Vec<Option<Room>> =
            nodes.iter().enumerate().map(|(at, (_, free))| Some(within(at, *free))).collect();
        let mut rooms = Rooms::new(plain.iter().copied());
        rooms.sort(&Rooms::new(totals.iter().map(|total| Some(*total))));
        for (at, change) in changes {
            if at < plain.len() {
                plain[at] = change.map(|amounts| within(at, amounts));
                rooms.set(at, plain[at]);
            }
        }
        let need = room(need);
        for by in [By::MostUsed, By::LeastUsed, By::LeastFree] {
            let mut sorted: Vec<_> = (0..plain.len())
                .filter_map(|at| Some((by.key(&totals[at], &plain[at]?), at)))
                .filter(|(_, at)| plain[*at].is_some_and(|free| free.holds(&need)))
                .collect();
            sorted.sort_unstable();
            let sorted: Vec<usize> = sorted.into_iter().map(|(_, at)| at).collect();
            let found: Vec<usize> =
                rooms.by_use().expect("it is kept").nodes(by, &need).collect();
            prop_assert_eq!(found, sorted);
        }
    }
}
