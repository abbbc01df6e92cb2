//! Jobs that ask for sockets among jobs that do not: what each is given is looked at once more by the
//! numbers of its cores, and what is told of starts must hold.

mod cases;

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Jobspec, Request};
use eddy_wire::plan::{Delta, Owner, Question, Reason, Suppose, Verdict, Want};
use eddy_wire::resource_set::{NodeSet, ResourceSet, Socket, Sockets};
use eddy_wire::time::MICROS;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::model::{nodes, slots};
use crate::cleanup::CLEANUP;
use crate::graph::{Graph, Matcher, Place};
use crate::{Capacity, Planner};

const ALL: u32 = 10_000;

/// What a job asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// So many slots of so many cores anywhere.
    Slots(u32, u32),
    /// So many whole nodes.
    Whole(u32),
    /// Sockets.
    Sockets(Shape),
}

/// Sockets on so many nodes, or anywhere, with as many slots in each, or whole ones in slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    nodes: Option<u32>,
    sockets: u32,
    slots: u32,
    cores: u32,
    gpus: u32,
    whole: Whole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    No,
    /// `exclusive` on the socket.
    Socket,
    /// So many sockets in each slot, of which there are `sockets`.
    InSlot(u32),
}

impl Shape {
    fn resources(&self) -> Value {
        let mut contents = vec![json!({"type": "core", "count": self.cores})];
        if self.gpus > 0 {
            contents.push(json!({"type": "gpu", "count": self.gpus}));
        }
        let slot = |count: u32, with: Vec<Value>| json!({"type": "slot", "count": count, "label": "s", "with": with});
        let inner = match self.whole {
            Whole::InSlot(each) => {
                let socket = json!({"type": "socket", "count": each, "with": contents});
                slot(self.sockets, vec![socket])
            }
            Whole::No | Whole::Socket => {
                let with = [slot(self.slots, contents)];
                let exclusive = self.whole == Whole::Socket;
                json!({"type": "socket", "count": self.sockets, "exclusive": exclusive, "with": with})
            }
        };
        match self.nodes {
            Some(nodes) => json!([{"type": "node", "count": nodes, "with": [inner]}]),
            None => json!([inner]),
        }
    }

    /// Sockets that lie together on one node, and how often that.
    fn together(&self) -> (u32, u32) {
        let each = match self.whole {
            Whole::InSlot(each) => each,
            Whole::No | Whole::Socket => 1,
        };
        match self.nodes {
            Some(nodes) => (self.sockets * each, nodes),
            None => (each, self.sockets),
        }
    }

    /// Cores and GPUs in each socket.
    fn each(&self) -> (u64, u64) {
        let slots = match self.whole {
            Whole::InSlot(_) => 1,
            Whole::No | Whole::Socket => self.slots,
        };
        (u64::from(slots * self.cores), u64::from(slots * self.gpus))
    }

    /// How many sockets of a node will do, of which this is there.
    fn will_do(&self, node: &NodeSet, there: &NodeSet) -> usize {
        let (cores, gpus) = self.each();
        let sockets = node.sockets();
        let will_do = sockets.iter().filter(|socket| {
            let has = |core: &u32| there.cores.contains(*core);
            let free = socket.cores.iter().filter(has).count() as u64;
            let free_gpus = socket
                .gpus
                .iter()
                .filter(|gpu| there.gpus.contains(*gpu))
                .count();
            let enough = free >= cores && free_gpus as u64 >= gpus;
            let all = free == socket.cores.len() && free_gpus as u64 == socket.gpus.len();
            enough && (self.whole == Whole::No || all)
        });
        will_do.count()
    }

    fn fits(&self, inventory: &ResourceSet, free: &ResourceSet) -> bool {
        let (sockets, times) = self.together();
        let nothing = NodeSet::default();
        let groups = inventory.nodes.iter().map(|(rank, node)| {
            let there = free.nodes.get(rank).unwrap_or(&nothing);
            self.will_do(node, there) / sockets as usize
        });
        let groups: usize = match self.nodes {
            Some(_) => groups.map(|groups| groups.min(1)).sum(),
            None => groups.sum(),
        };
        groups >= times as usize
    }

    /// Holds what was given against what was asked for.
    fn check(&self, inventory: &ResourceSet, given: &ResourceSet) {
        let (sockets, times) = self.together();
        let (cores, gpus) = self.each();
        let mut groups = 0;
        for (rank, part) in &given.nodes {
            let node = &inventory.nodes[rank];
            assert_eq!(
                part.sockets, node.sockets,
                "a grant knows the sockets of its nodes"
            );
            let all = node.sockets();
            let touched = all
                .iter()
                .filter(|socket| !part.cores.is_disjoint(&socket.cores));
            let mut count = 0;
            for socket in touched {
                count += 1;
                let of = part.of_socket(socket);
                if self.whole == Whole::No {
                    assert_eq!(
                        (of.cores.len(), of.gpus.len()),
                        (cores, gpus),
                        "{self:?} {given:?}"
                    );
                } else {
                    assert_eq!(&of, socket, "a socket is whole");
                    assert!(of.cores.len() >= cores && of.gpus.len() >= gpus);
                }
            }
            assert_eq!(
                count % sockets,
                0,
                "{self:?}: sockets of a slot lie on one node: {given:?}"
            );
            if self.nodes.is_some() {
                assert_eq!(count, sockets, "so many sockets on each node");
            }
            groups += count / sockets;
        }
        assert_eq!(groups, times, "{self:?} {given:?}");
    }
}

impl Asks {
    fn request(&self, seconds: i64) -> Request {
        let request = match self {
            Asks::Slots(count, cores) => slots(*count, *cores),
            Asks::Whole(count) => Request {
                sharing: eddy_wire::jobspec::Sharing::Exclusive,
                ..nodes(*count, 1, 0)
            },
            Asks::Sockets(shape) => jobspec(shape.resources()).request().expect("it is served"),
        };
        Request {
            duration: Some(seconds * MICROS),
            ..request
        }
    }

    fn fits(&self, inventory: &ResourceSet, free: &ResourceSet) -> bool {
        let cores = |node: &NodeSet| node.cores.len();
        match self {
            Asks::Slots(count, each) => {
                let each = u64::from(*each);
                let slots = free.nodes.values().map(|node| cores(node) / each);
                slots.sum::<u64>() >= u64::from(*count)
            }
            Asks::Whole(count) => {
                let whole = inventory.nodes.iter().filter(|(rank, node)| {
                    free.nodes
                        .get(rank)
                        .is_some_and(|free| cores(free) == cores(node))
                });
                whole.count() >= *count as usize
            }
            Asks::Sockets(shape) => shape.fits(inventory, free),
        }
    }
}

fn jobspec(resources: Value) -> Jobspec {
    let document = json!({
        "version": 1,
        "resources": resources,
        "tasks": [{"command": ["a"], "slot": "s", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0}},
    });
    Jobspec::from_value(document).expect("a jobspec")
}

/// Nodes by the cores of their sockets, with a GPU in each of these; every second core is of the other socket where
/// the numbers are mixed.
fn inventory(all: &[(Vec<u32>, u32)]) -> Arc<ResourceSet> {
    let node = |(sizes, gpus): &(Vec<u32>, u32)| {
        let mut left: Vec<u32> = sizes.clone();
        let mut sockets = vec![Socket::default(); sizes.len()];
        let mut core = 0;
        while left.iter().any(|left| *left > 0) {
            for (left, socket) in left.iter_mut().zip(&mut sockets) {
                if *left > 0 {
                    socket.cores.insert(core);
                    (*left, core) = (*left - 1, core + 1);
                }
            }
        }
        for (gpu, socket) in (0..*gpus).zip(&mut sockets) {
            socket.gpus = Idset::one(gpu);
        }
        NodeSet {
            host: "n".into(),
            cores: Idset::first_ids(core),
            gpus: Idset::first_ids((*gpus).min(sizes.len() as u32)),
            memory: 0,
            sockets: Sockets::new(sockets).expect("they are apart"),
        }
    };
    Arc::new(ResourceSet {
        nodes: (0..).map(Rank).zip(all.iter().map(node)).collect(),
        ..ResourceSet::default()
    })
}

/// An instance whose jobs end when they said.
struct Run {
    inventory: Arc<ResourceSet>,
    planner: Planner,
    now: Time,
    waiting: BTreeMap<JobId, (Asks, i64)>,
    running: BTreeMap<JobId, (Arc<ResourceSet>, Time)>,
    promised: BTreeMap<JobId, Time>,
}

impl Run {
    fn new(inventory: Arc<ResourceSet>, policy: &str) -> Run {
        let mut planner = Planner::new();
        planner.apply(Delta::Policy(policy.into()));
        planner.apply(Delta::Inventory(Arc::clone(&inventory)));
        planner.apply(Delta::Up(inventory.ranks()));
        Run {
            inventory,
            planner,
            now: Time(MICROS),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            promised: BTreeMap::new(),
        }
    }

    fn want(&mut self, job: JobId, asks: Asks, seconds: i64) {
        self.waiting.insert(job, (asks, seconds));
        let want = Want::of(16, asks.request(seconds));
        self.planner.apply(Delta::Want(job, want));
    }

    /// What nobody of these holds at a time.
    fn free(&self, held: &BTreeMap<JobId, (Arc<ResourceSet>, Time)>, at: Time) -> ResourceSet {
        let held = held.values().filter(|(_, until)| *until > at);
        held.fold(ResourceSet::clone(&self.inventory), |free, (set, _)| {
            free.difference(set)
        })
    }

    fn earliest(&self, asks: &Asks, held: &BTreeMap<JobId, (Arc<ResourceSet>, Time)>) -> Time {
        let mut times: Vec<Time> = held.values().map(|(_, until)| *until).collect();
        times.push(self.now);
        times.sort_unstable();
        let fits = |at: &Time| asks.fits(&self.inventory, &self.free(held, *at));
        times
            .into_iter()
            .find(fits)
            .expect("it fits when all is free")
    }

    /// Plans, records what starts and gives the times that are told of those who wait.
    fn plan(&mut self, checked: Head) -> BTreeMap<JobId, Time> {
        let question = Question {
            tag: 1,
            jobs: None,
            most: 1_000,
            suppose: Suppose::default(),
            wants: Vec::new(),
            lent: Vec::new(),
        };
        let head = self.waiting.keys().next().copied();
        let before = self.running.clone();
        self.planner.apply(Delta::Explain(question));
        let outcome = self.planner.plan(self.now, ALL);
        assert!(!outcome.unfinished);
        for (job, verdict) in outcome.verdicts {
            match verdict {
                Verdict::Start(set) => self.start(job, set),
                Verdict::Never(_) => {
                    let (asks, _) = self.waiting.remove(&job).expect("it waits");
                    assert!(
                        !asks.fits(&self.inventory, &self.inventory),
                        "job {job} fits: {asks:?}"
                    );
                }
                Verdict::Preempt { .. } => panic!("nobody may be taken from"),
            }
        }
        let (first, rest) = (self.waiting.first_key_value(), &self.running);
        if let Some((job, (asks, _))) = first.filter(|(job, _)| Some(**job) == head)
            && checked == Head::IsNotDelayed
        {
            let (alone, beside) = (self.earliest(asks, &before), self.earliest(asks, rest));
            assert!(
                beside <= alone,
                "job {job} is delayed: {alone:?} {beside:?}"
            );
            assert!(beside > self.now, "job {job} waits, and fits: {asks:?}");
        }
        let told = outcome.answers.into_iter().flat_map(|answer| answer.jobs);
        let told = told.filter(|one| self.waiting.contains_key(&one.job));
        told.filter_map(|one| Some((one.job, one.start?.latest?)))
            .collect()
    }

    fn start(&mut self, job: JobId, set: Arc<ResourceSet>) {
        let (asks, seconds) = self.waiting.remove(&job).expect("it waits");
        assert!(
            self.free(&self.running, self.now).contains(&set),
            "one holder"
        );
        if let Asks::Sockets(shape) = asks {
            shape.check(&self.inventory, &set);
        }
        let held = Delta::Held(job, Owner::default(), Arc::clone(&set));
        self.planner.apply(held);
        let until = Time(self.now.0 + seconds * MICROS + CLEANUP.0);
        self.running.insert(job, (set, until));
        if let Some(promised) = self.promised.get(&job) {
            assert!(self.now <= *promised, "job {job} was promised {promised:?}");
        }
    }

    fn next_end(&mut self) {
        let end = self.running.values().map(|(_, until)| *until).min();
        self.now = end.expect("something runs while others wait");
        let now = self.now;
        let over = self.running.extract_if(.., |_, (_, until)| *until <= now);
        for (job, _) in over {
            self.planner.apply(Delta::Freed(job));
        }
    }
}

/// Whether the first who waits is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    IsNotDelayed,
    IsAnybody,
}

/// Whose times hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    OfAll,
    OfHead,
}

type Workload = (Vec<(Vec<u32>, u32)>, Vec<(Asks, i64, u8)>);

fn shape() -> impl Strategy<Value = Shape> {
    let nodes = prop_oneof![2 => Just(None), 1 => (1..3_u32).prop_map(Some)];
    let whole = prop_oneof![
        3 => Just(Whole::No),
        1 => Just(Whole::Socket),
        1 => (1..3_u32).prop_map(Whole::InSlot),
    ];
    let gpus = prop_oneof![4 => Just(0_u32), 1 => Just(1)];
    (nodes, 1..4_u32, 1..3_u32, 1..3_u32, gpus, whole).prop_map(
        |(nodes, sockets, slots, cores, gpus, whole)| Shape {
            nodes,
            sockets,
            slots,
            cores,
            gpus,
            whole,
        },
    )
}

fn site() -> impl Strategy<Value = Vec<(Vec<u32>, u32)>> {
    let node = (prop::collection::vec(1..5_u32, 1..4), 0..3_u32);
    prop::collection::vec(node, 1..4)
}

fn workload() -> impl Strategy<Value = Workload> {
    let asks = prop_oneof![
        3 => (1..6_u32, 1..4_u32).prop_map(|(count, cores)| Asks::Slots(count, cores)),
        1 => (1..3_u32).prop_map(Asks::Whole),
        4 => shape().prop_map(Asks::Sockets),
    ];
    (
        site(),
        prop::collection::vec((asks, 1..60_i64, 0..4_u8), 1..25),
    )
}

fn play(policy: &str, (site, jobs): &Workload, kept: Kept, head: Head) {
    let mut run = Run::new(inventory(site), policy);
    let mut coming = (1..).map(JobId).zip(jobs).peekable();
    let mut ends = 0;
    loop {
        while let Some((job, (asks, seconds, _))) =
            coming.next_if(|(_, (.., after))| *after <= ends)
        {
            run.want(job, *asks, *seconds);
        }
        let told = run.plan(head);
        let first = run.waiting.keys().next().copied();
        for (job, at) in told {
            if kept == Kept::OfAll || Some(job) == first {
                let first = *run.promised.entry(job).or_insert(at);
                assert!(at <= first, "job {job}: told {first:?}, and now {at:?}");
            }
        }
        if run.running.is_empty() {
            assert!(run.waiting.is_empty(), "{:?} wait for nothing", run.waiting);
            if coming.peek().is_none() {
                return;
            }
        } else {
            run.next_end();
        }
        ends += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn first_come_first_served_gives_sockets_as_asked(workload in workload()) {
        play("preset = \"fcfs\"", &workload, Kept::OfHead, Head::IsNotDelayed);
    }

    #[test]
    fn easy_keeps_its_word_to_the_first(
        workload in workload(),
        rank in prop::sample::select(vec!["low_id", "high_id", "pack", "spread", "best_fit", "locality"]),
    ) {
        let policy = format!("preset = \"easy\"\n[placement]\nrank = \"{rank}\"");
        play(&policy, &workload, Kept::OfHead, Head::IsNotDelayed);
    }

    #[test]
    fn hybrid_keeps_its_word_to_the_first(workload in workload()) {
        let policy = "preset = \"hybrid\"\nqueue = { depth = 3 }";
        play(policy, &workload, Kept::OfHead, Head::IsAnybody);
    }

    #[test]
    fn conservative_keeps_its_word_to_all(
        workload in workload(),
        rank in prop::sample::select(vec!["low_id", "high_id", "pack", "spread", "best_fit", "locality"]),
    ) {
        let policy = format!("preset = \"conservative\"\n[placement]\nrank = \"{rank}\"");
        play(&policy, &workload, Kept::OfAll, Head::IsAnybody);
    }

    /// What could ever be served is what the matcher over the graph of the same resources serves.
    #[test]
    fn the_graph_serves_the_same(site in site(), shape in shape()) {
        let inventory = inventory(&site);
        let request = Asks::Sockets(shape).request(1);
        let served = Capacity::of(&inventory).feasible(&request).is_ok();
        prop_assert_eq!(served, shape.fits(&inventory, &inventory), "{:?}", shape);
        let graph = Arc::new(Graph::from_resource_set(&inventory).expect("a graph"));
        let want = crate::graph::Want::of(&graph, &jobspec(shape.resources()), &Place::default());
        let found = want.expect("the graph knows sockets").and_then(|want| Matcher::new(graph).allocate(&want));
        prop_assert_eq!(served, found.is_ok(), "{:?} {:?}", shape, found);
    }
}
