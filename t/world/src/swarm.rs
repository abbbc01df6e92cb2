//! One run of a seed: a random instance, random clients, random faults, then calm.

mod away;
mod dead;
mod declared;
mod hangs;
mod limits;
mod patience;
mod site;
mod standings;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use eddy_modules::settings::{Queue, ReleaseIdle};
use eddy_sched::policy::read::read;
use eddy_wire::pool::Pool;
use eddy_wire::time::Span;

use crate::broken::Rule;
use crate::client::OWNER;
use crate::fault::{Drawn, Fault, Source, TreeFault};
use crate::filter;
use crate::heads::Tally;
use crate::instance::{Instance, Nodes};
use crate::nature::{AgentTurn, BEGIN, Happening, Nature, Pace, ROOT};
use crate::random::Random;
use crate::workload::{Habits, Inside, Limited, OWN_QUEUES, Own, POOL, Screens, Standings};
use crate::world::{Visitors, World};
use away::away;
use dead::dead;
pub use declared::declare;
use declared::{QUEUES, extent, more};
use hangs::hangs;
use limits::limited;
use patience::patience;
use site::site;
use standings::{is_given_late, is_scarce, scarce, standings};

/// Steps after which a run that goes on is a finding.
pub const STEPS_MAX: u64 = 400_000;

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// How much happened.
    pub steps: u64,
    /// How many records are in the journal.
    pub records: u64,
    /// How many jobs there were.
    pub jobs: u64,
    /// How many instances there were.
    pub instances: u64,
    /// How many jobs queue instances took while the root was away, and how many of them began so.
    pub taken: (u64, u64),
    /// Passes that let somebody start while another waited on, and how many of them were judged.
    pub heads: Tally,
    /// A sum of everything recorded, to compare two runs by.
    pub digest: u64,
    /// The first broken promise.
    pub finding: Option<String>,
}

/// Which worlds seeds stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// One instance on one machine.
    #[default]
    Flat,
    /// Ranks on machines of their own, and instances in instances.
    Trees,
    /// The same, with one to three queues of the root that declared instances serve.
    Queues,
}

impl Shape {
    fn prepare(self, seed: u64, broken: Option<Rule>) -> World {
        match self {
            Shape::Flat => prepare(seed, broken),
            Shape::Trees => prepare_trees(seed, None, broken),
            Shape::Queues => prepare_trees(seed, Some(QUEUES[0]), broken),
        }
    }
}

/// Runs a seed; with a rule broken, if one is given.
pub fn run(seed: u64, shape: Shape, broken: Option<Rule>) -> Ran {
    finish(shape.prepare(seed, broken)).0
}

/// Runs a seed and writes down what happens.
pub fn replay(seed: u64, shape: Shape, broken: Option<Rule>) -> (Ran, Vec<String>) {
    let mut world = shape.prepare(seed, broken);
    world.nature.write_down();
    finish(world)
}

fn finish(mut world: World) -> (Ran, Vec<String>) {
    // A module that finds itself wrong panics: that is a finding like any other.
    let ended = catch_unwind(AssertUnwindSafe(|| world.run(STEPS_MAX)));
    let panicked = ended.err().map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        format!("panic: {}", text.unwrap_or_default())
    });
    let notes = world.nature.take_notes();
    let ran = Ran {
        steps: world.steps(),
        records: world.instances.iter().map(|i| i.journal.last().0).sum(),
        jobs: jobs(&world),
        instances: world.instances.len() as u64,
        taken: taken(&world),
        heads: world.nature.heads,
        digest: digest(&world),
        finding: world.finding().map(str::to_owned).or(panicked),
    };
    (ran, notes)
}

fn jobs(world: &World) -> u64 {
    let jobs = |i: &Instance| world.nature.judge(i.id).durable().jobs.len();
    world.instances.iter().map(jobs).sum::<usize>() as u64
}

fn taken(world: &World) -> (u64, u64) {
    let mut taken = (0, 0);
    for instance in &world.instances {
        let ledger = world.nature.judge(instance.id).durable();
        let own = ledger
            .jobs
            .values()
            .filter(|job| job.submit.is_taken_here());
        taken.0 += own.count() as u64;
        taken.1 += ledger.begun_alone.len() as u64;
    }
    taken
}

fn digest(world: &World) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for record in world.instances.iter().flat_map(|i| i.journal.records()) {
        let job = record.event.job.map_or(0, |job| job.0);
        let name = record.event.kind.name().bytes().map(u64::from).sum::<u64>();
        for word in [record.seq.0, record.event.t.0 as u64, job, name] {
            sum = (sum ^ word).wrapping_mul(0x0100_0000_01b3);
        }
    }
    sum
}

/// The same nodes with some sockets, apart from all else that is drawn.
fn with_sockets(seed: u64, nodes: Nodes) -> Nodes {
    let most = i64::from(nodes.cores.min(3));
    let sockets = Random::new(seed ^ 0x50c).between(1, most) as u32;
    Nodes { sockets, ..nodes }
}

/// The world of a seed, with everything that is to strike it in its queue.
pub fn prepare(seed: u64, broken: Option<Rule>) -> World {
    let mut random = Random::new(seed ^ 0x5eed);
    let pace = Pace::Random(*random.pick(&[1, 1, 1, 3]));
    let nodes = Nodes {
        count: *random.pick(&[1, 1, 2, 3, 5]),
        cores: *random.pick(&[1, 2, 4, 8]),
        gpus: *random.pick(&[0, 0, 2]),
        memory: *random.pick(&[0, 1 << 30]),
        sockets: 1,
    };
    let nodes = with_sockets(seed, nodes);
    let grace = *random.pick(&[Span::millis(100), Span::seconds(1), Span::seconds(5)]);
    let nature = Nature::new(seed, pace, grace);
    let mut world = World::new(nature, nodes, grace);
    world.nature.broken = broken;
    world
        .nature
        .queue
        .push(BEGIN, Happening::LeaderStarts(ROOT));
    world.nature.queue.push(BEGIN, Happening::ClientConnects(0));
    // Now and then a long one.
    let size = *random.pick(&[6, 12, 12, 25]) * if random.chance(2) { 12 } else { 1 };
    world.pause = Span(*random.pick(&[3_000, 100_000, 1_000_000, 8_000_000]));
    for _ in 0..random.between(1, 4) {
        let user = *random.pick(&[OWNER, OWNER, OWNER + 1, OWNER + 2]);
        let client = world.add_client(user);
        world.acts[client] = size;
        world
            .nature
            .queue
            .push(BEGIN, Happening::ClientActs(client));
    }
    if random.chance(50) {
        queues(&mut world, &mut random);
    }
    let horizon = Span(world.pause.0 / 2 * i64::from(size) + 2_000_000);
    faults(&mut world, &mut random, horizon);
    policies(&mut world, &mut random, horizon);
    standings(&mut world, &mut random);
    filters(&mut world, &mut random);
    configurations(&mut world, &mut random, horizon);
    patience(&mut world, seed);
    limited(&mut world, seed, horizon);
    world
}

/// Where there are queues and a pool, now and then somebody changes what is said of them.
fn configurations(world: &mut World, random: &mut Random, horizon: Span) {
    if world.habits.own == Own::None {
        return;
    }
    let drawn = |random: &mut Random| Drawn {
        pool: random.between(1, 4) as u64,
        running: random.between(1, 4) as u32,
        requires: random.pick::<&[&str]>(&REQUIRES),
        filters: match world.habits.screens {
            Screens::None => 0,
            Screens::Two => random.below(3) as usize,
        },
        source: *random.pick(&[Source::File, Source::Keys]),
    };
    let changes = *random.pick(&[0, 0, 1, 2, 4]);
    let mut strikes = Vec::new();
    for _ in 0..changes {
        let what = drawn(random);
        strikes.push((BEGIN.after(Span(random.between(0, horizon.0))), what));
    }
    if changes > 0 {
        // Who waits for what no node is waits no longer than that is required.
        let last = Drawn {
            pool: 4,
            requires: &[],
            ..drawn(random)
        };
        strikes.push((BEGIN.after(horizon), last));
    }
    for (at, what) in strikes {
        let what = Happening::Strikes(Fault::Configure(what));
        world.nature.queue.push(at, what);
    }
}

/// In a quarter of all worlds submissions go through filters.
fn filters(world: &mut World, random: &mut Random) {
    if random.chance(25) {
        let filters = filter::two();
        world.nature.oracle(ROOT).set_filters(&filters);
        world.root().settings.filters = filters;
        world.habits.screens = Screens::Two;
    }
}

/// What queues require of nodes, in some worlds what none is.
const REQUIRES: [&[&str]; 6] = [&[], &[], &[], &["odd"], &["^odd"], &["odd", "rack=r1"]];

fn required(random: &mut Random) -> BTreeSet<String> {
    let names = random.pick(&REQUIRES).iter();
    names.map(|name| (*name).to_owned()).collect()
}

/// Queues that the root serves itself: one without limits, one of which two jobs may run. Now and then
/// they require something of nodes.
fn queues(world: &mut World, random: &mut Random) {
    let [free, two] = OWN_QUEUES;
    let limits = BTreeMap::from([(two.to_owned(), 2)]);
    for name in [free, two] {
        let mut queue = Queue {
            name: name.to_owned(),
            ..Queue::default()
        };
        queue.rules.limits.running_jobs = limits.get(name).copied();
        queue.rules.requires = required(random);
        queue.rules.default_time = limits.get(name).map(|_| Span::seconds(3600));
        world.root().settings.queues.push(queue);
    }
    world.nature.oracle(ROOT).set_queues(limits);
    let pool = Pool {
        name: POOL.parse().expect("a name"),
        count: 2,
    };
    world
        .nature
        .oracle(ROOT)
        .set_pools(std::slice::from_ref(&pool));
    world.root().settings.pools.push(pool);
    world.habits.own = Own::Two;
}

/// Policies by which instances order their jobs.
const POLICIES: [&str; 16] = [
    "preset = \"easy\"",
    "preset = \"hybrid-8\"\nqueue.depth = 3\nqueue.replan_every = \"20s\"",
    "preset = \"conservative\"",
    "preset = \"conservative-replanned\"",
    "preset = \"flux\"",
    "preset = \"easy\"\nplacement.rank = \"high_id\"",
    "preset = \"fcfs\"\nplacement.rank = \"spread\"",
    "preset = \"easy\"\nplacement.rank = \"pack\"",
    "preset = \"hybrid-8\"\nplacement.rank = \"best_fit\"",
    "preset = \"conservative\"\nplacement.rank = \"locality\"",
    "preset = \"easy\"\nplacement.rank = \"spread\"",
    "preset = \"armada\"",
    "preset = \"armada-legacy\"\nqueue.reserve_after = \"2s\"",
    "preset = \"armada\"\nqueue.reserve_after = \"5s\"\nqueue.limits.rate = { per_second = 1, burst = 2 }",
    "preset = \"easy\"\nqueue.limits.account_rate = { per_second = 2, burst = 1 }",
    "preset = \"fcfs\"",
];

/// Half of all instances begin with another policy than first come, first served, and now and then
/// somebody sets another.
fn policies(world: &mut World, random: &mut Random, horizon: Span) {
    if random.chance(50) {
        let text: &str = random.pick::<&str>(&POLICIES[..POLICIES.len() - 1]);
        let policy = read(text).expect("it is a policy");
        world.root().settings.policy = Arc::new(policy);
    }
    for _ in 0..*random.pick(&[0, 0, 1, 3]) {
        let text: &&str = random.pick(&POLICIES);
        let what = Fault::Policy(text);
        let at = BEGIN.after(Span(random.between(0, horizon.0)));
        world.nature.queue.push(at, Happening::Strikes(what));
    }
}

fn faults(world: &mut World, random: &mut Random, horizon: Span) {
    let queue = &mut world.nature.queue;
    for _ in 0..random.below(4) {
        let at = BEGIN.after(Span(random.between(0, horizon.0)));
        queue.push(at, Happening::Marks(ROOT));
    }
    // A quarter of all runs is calm.
    let most = *random.pick(&[0, 3, 8, 20]);
    for _ in 0..most {
        let what = fault(random, horizon);
        // Much waits and little happens: half of them strike right behind something.
        if random.chance(50) {
            let busy = 20 * world.acts.iter().map(|acts| u64::from(*acts)).sum::<u64>();
            world.strikes.insert(random.below(busy + 20), what);
        } else {
            let at = BEGIN.after(Span(random.between(0, horizon.0)));
            queue.push(at, Happening::Strikes(what));
        }
    }
    let long = Span(horizon.0 * 2 + 60_000_000);
    queue.push(BEGIN.after(long), Happening::Calms);
}

fn fault(random: &mut Random, horizon: Span) -> Fault {
    let most = (horizon.0 / 4).min(40_000_000);
    let span = Span(random.between(0, most));
    let short = Span(random.between(0, 2_000_000));
    match random.weighted(&[20, 10, 8, 8, 12, 12, 3, 5, 6, 4, 4, 3, 3, 4]) {
        0 => Fault::CrashLeader(short),
        1 => Fault::CrashShells,
        2 => Fault::CrashBoth(short),
        3 => Fault::Partition(span),
        4 => Fault::CutShell,
        5 => Fault::CutClient,
        6 => Fault::ClientLeaves,
        7 => Fault::StopLeader(short),
        8 => Fault::DiskFull(span),
        9 => Fault::StepClock(Span(random.between(-500_000_000, 500_000_000))),
        10 => Fault::StopClock(span),
        11 => Fault::Grow,
        12 => Fault::LateStart(ROOT),
        _ => Fault::FailLaunch,
    }
}

/// In one of so many trees the node of the root's leader is out of service at first, and instances grow.
const ASIDE: u64 = 6;

/// The world of ranks apart and instances in instances of a seed; with a queue of that name.
pub fn prepare_trees(seed: u64, queue: Option<&'static str>, broken: Option<Rule>) -> World {
    let mut random = Random::new(seed ^ 0x7ee5);
    let pace = Pace::Random(*random.pick(&[1, 1, 1, 3]));
    let nodes = Nodes {
        count: *random.pick(&[2, 2, 3, 3, 4, 6]),
        cores: *random.pick(&[1, 2, 2, 4]),
        gpus: 0,
        memory: 0,
        sockets: 1,
    };
    let grace = *random.pick(&[Span::millis(100), Span::seconds(1), Span::seconds(5)]);
    let fanout = *random.pick(&[1, 1, 2, 16]);
    let nature = Nature::new(seed, pace, grace);
    let mut world = World::of_machines(nature, with_sockets(seed, nodes), grace, fanout);
    world.nature.broken = broken;
    world
        .nature
        .queue
        .push(BEGIN, Happening::LeaderStarts(ROOT));
    world.nature.queue.push(BEGIN, Happening::ClientConnects(0));
    for machine in 1..nodes.count as usize {
        let at = BEGIN.after(Span(random.between(0, 2_000_000)));
        let starts = Happening::Agent(machine, AgentTurn::Starts);
        world.nature.queue.push(at, starts);
    }
    world.habits = habits(&mut random);
    let outage = Outage::of(seed);
    if let Some(name) = queue {
        let extent = extent(&mut world, &mut random, name, outage);
        declare(world.root(), name, extent);
        let queues = &mut world.root().settings.queues;
        for queue in queues.iter_mut().filter(|queue| queue.name == name) {
            queue.rules.requires = required(&mut random);
        }
        more(&mut world, seed);
    }
    // Now and then a larger one.
    let is_aside = seed % ASIDE == 1;
    let larger = if random.chance(3) { 4 } else { 1 };
    let size = *random.pick(&[3, 5, 8]) * if is_aside { 3 } else { larger };
    world.visitors = Visitors::Busy(size);
    world.pause = Span(*random.pick(&[100_000, 1_000_000, 4_000_000]));
    for _ in 0..random.between(1, 2) {
        let rank = random.below(u64::from(nodes.count)) as u32;
        let client = world.add_client_of(OWNER, ROOT, rank);
        world.acts[client] = size;
        let acts = Happening::ClientActs(client);
        world.nature.queue.push(BEGIN, acts);
    }
    let horizon = Span(world.pause.0 / 2 * i64::from(size) + 20_000_000);
    if is_aside {
        world.habits.growth = 50;
        let aside = Fault::Aside(Span(horizon.0 / 8));
        let at = BEGIN.after(Span::millis(50));
        world.nature.queue.push(at, Happening::Strikes(aside));
    }
    tree_faults(&mut world, &mut random, horizon);
    policies(&mut world, &mut random, horizon);
    match is_scarce(&world, seed) {
        true => scarce(&mut world, seed),
        false => standings(&mut world, &mut random),
    }
    filters(&mut world, &mut random);
    if queue.is_some() {
        outages(&mut world, outage, horizon);
        away(&mut world, seed, horizon);
    }
    of_seed(&mut world, seed, horizon);
    world
}

/// What is drawn of the seed alone, so that what came before it in other trees stays.
fn of_seed(world: &mut World, seed: u64, horizon: Span) {
    hangs(world, seed, horizon);
    limited(world, seed, horizon);
    site(world, seed, horizon);
    dead(world, seed, horizon);
}

/// What there is to do in worlds of machines, and what of its settings is drawn.
fn habits(random: &mut Random) -> Habits {
    Habits {
        longest: *random.pick(&[Span::seconds(1), Span::seconds(10), Span::seconds(40)]),
        depth: *random.pick(&[1, 2, 3]),
        queues: &[],
        own: Own::None,
        ranks: Standings::Equal,
        screens: Screens::None,
        release_idle: match random.below(4) {
            0 => Some(ReleaseIdle {
                after: Span(random.between(1_000_000, 10_000_000)),
                keep: random.between(1, 2) as u32,
            }),
            _ => None,
        },
        lease: match random.below(3) {
            0 => Span(random.between(0, 1_000_000)),
            _ => Span::seconds(3600),
        },
        autonomous_after: match random.below(4) {
            0 => None,
            1 => Some(Span::seconds(30)),
            _ => Some(Span(random.between(1, 2_000_000))),
        },
        hung_after: None,
        inside: Inside::All,
        growth: 12,
        limits: Limited::Accounts,
    }
}

/// How often the root is away for long, and the seed of when: drawn apart from all else.
#[derive(Clone, Copy)]
struct Outage {
    times: u32,
    seed: u64,
}

impl Outage {
    fn of(seed: u64) -> Outage {
        let seed = seed ^ 0x0a3a4;
        let times = *Random::new(seed).pick(&[0, 0, 1, 2]);
        Outage { times, seed }
    }

    /// Whether the instance is to have nodes of its own.
    fn wants_nodes(self) -> bool {
        self.times > 0 && self.seed & 0x30 != 0
    }
}

/// In half of the worlds with a queue instance the root is away for long, once or twice, while there is
/// more to do; then the instance mostly has nodes of its own, and does not wait for long.
fn outages(world: &mut World, Outage { times, seed }: Outage, horizon: Span) {
    let mut random = Random::new(seed ^ 1);
    if times == 0 {
        return;
    }
    world.pause = Span::seconds(1);
    world.visitors = Visitors::Busy(*random.pick(&[8, 20]));
    if seed & 8 != 0 {
        world.visitors = Visitors::Busy(40);
        world.habits.inside = Inside::Plain;
    }
    if random.chance(80) {
        let after = Span(random.between(1, 2_000_000));
        world.habits.autonomous_after = Some(after);
    }
    for _ in 0..times {
        let away = Span(random.between(1_000_000, 30_000_000));
        let at = BEGIN.after(Span(random.between(2_000_000, horizon.0)));
        let what = Fault::CrashLeader(away);
        world.nature.queue.push(at, Happening::Strikes(what));
    }
}

fn tree_faults(world: &mut World, random: &mut Random, horizon: Span) {
    // A quarter of all runs is calm, and all where it is not seen before long what nobody gives.
    let most = *random.pick(&[0, 2, 5, 12]);
    let most = if is_given_late(world) { 0 } else { most };
    for _ in 0..most {
        let what = match random.chance(75) {
            true => Fault::Tree(tree_fault(random)),
            false => fault_of_root(random),
        };
        if random.chance(50) {
            world.strikes.insert(random.below(3_000), what);
        } else {
            let at = BEGIN.after(Span(random.between(0, horizon.0)));
            world.nature.queue.push(at, Happening::Strikes(what));
        }
    }
    for _ in 0..random.below(3) {
        let at = BEGIN.after(Span(random.between(0, horizon.0)));
        world.nature.queue.push(at, Happening::Marks(ROOT));
    }
    let long = Span(horizon.0 + 10_000_000);
    world.nature.queue.push(BEGIN.after(long), Happening::Calms);
}

fn fault_of_root(random: &mut Random) -> Fault {
    let span = Span(random.between(0, 10_000_000));
    match random.below(6) {
        0 => Fault::CutClient,
        1 => Fault::StopLeader(span),
        2 => Fault::DiskFull(span),
        3 => Fault::StepClock(Span(random.between(-500_000_000, 500_000_000))),
        4 => Fault::StopClock(span),
        _ => Fault::FailLaunch,
    }
}

fn tree_fault(random: &mut Random) -> TreeFault {
    let span = Span(*random.pick(&[1_000, 100_000, 2_000_000, 10_000_000, 40_000_000]));
    let span = Span(random.between(0, span.0));
    match random.weighted(&[20, 15, 10, 5, 10, 15, 8, 8, 8, 8]) {
        0 => TreeFault::Leader(span),
        1 => TreeFault::Agent(span),
        2 => TreeFault::Shell,
        3 => TreeFault::Machine(span),
        4 => TreeFault::Freeze(span),
        5 => TreeFault::CutLink(span),
        6 => TreeFault::StallLink(span),
        7 => TreeFault::Part(span),
        8 => TreeFault::CutChannel,
        _ => TreeFault::CutShell,
    }
}
