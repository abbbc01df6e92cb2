//! What nesting costs a schedule: a workload through queue instances, held against the same
//! workload in one instance.
//!
//! A world in which nothing goes wrong and nothing takes time but, if asked for, messages; the real
//! modules, planner and records in it. Called by the bench and by tests.

use std::collections::BTreeMap;

use eddy_modules::settings::{Elastic, Extent};
use eddy_sched::sim::{SimJob, Workload};
use eddy_wire::lifecycle::JobState;
use eddy_wire::time::{Span, Time};

use crate::call::{Ask, Call, key};
use crate::client::OWNER;
use crate::instance::Nodes;
use crate::nature::{BEGIN, Happening, Nature, Pace, ROOT};
use crate::swarm::declare;
use crate::task::{Behaviour, OnTerm, Start};
use crate::world::World;

/// How long instances are given to come up before the first job.
const BEGINNING: Span = Span::seconds(100);
/// How many steps are taken between two looks whether all is over.
const LOOK: u64 = 10_000;

/// Who runs the jobs.
#[derive(Clone, Debug)]
pub enum Layout {
    /// The root itself.
    Flat,
    /// So many elastic queue instances, each job that of one after the other.
    Elastic(u32),
    /// Queue instances of so many nodes each; a job goes to one by its place, and to the largest if
    /// it fits in no other.
    Fixed(Vec<u32>),
}

/// A machine, and how jobs come to it.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its nodes.
    pub nodes: u32,
    /// Cores of each.
    pub cores: u32,
    /// Who runs the jobs.
    pub layout: Layout,
    /// How long a message takes.
    pub message: Span,
    /// How the root orders and places jobs: a policy, as TOML.
    pub policy: String,
}

/// When each job of the workload began, in its order, from the workload's own beginning.
///
/// # Errors
/// A broken promise, or a job that never began.
pub fn starts(workload: &Workload, site: &Site) -> Result<Vec<Time>, String> {
    let mut world = world(site);
    world.nature.now = BEGIN;
    until(&mut world, BEGIN.after(BEGINNING))?;
    let client = world.add_client(OWNER);
    world.call(client, Call::set_policy(&site.policy));
    let first = world.nature.now.after(Span::seconds(1));
    let mut order: Vec<usize> = (0..workload.jobs.len()).collect();
    order.sort_by_key(|place| (workload.jobs[*place].submit, workload.jobs[*place].id));
    for place in order {
        let job = &workload.jobs[place];
        until(&mut world, first.after(Span(job.submit.0)))?;
        let ask = asked(job, place, site);
        let key = key(world.nature.now, &mut world.nature.random);
        world.call(client, Call::submit(OWNER, &ask, key));
    }
    finish(&mut world, workload.jobs.len())?;
    let began: BTreeMap<usize, Time> = began(&world);
    let start = |place: usize| {
        let start = began.get(&place).copied();
        start
            .map(|t| Time((t - first).0))
            .ok_or(format!("job {} never began", workload.jobs[place].id))
    };
    (0..workload.jobs.len()).map(start).collect()
}

fn world(site: &Site) -> World {
    let grace = Span::seconds(5);
    let nature = Nature::new(0, Pace::Links(site.message), grace);
    let nodes = Nodes {
        count: site.nodes,
        cores: site.cores,
        gpus: 0,
        memory: 0,
        sockets: 1,
    };
    let mut world = World::new(nature, nodes, grace);
    world.root().settings.instance_command = vec!["task".to_owned()];
    match &site.layout {
        Layout::Flat => {}
        Layout::Elastic(number) => {
            for at in 0..*number {
                let extent = Extent::Elastic(Elastic::default());
                declare(world.root(), &name(at as usize), extent);
            }
        }
        Layout::Fixed(sizes) => {
            for (at, nodes) in sizes.iter().enumerate() {
                let extent = Extent::Fixed {
                    nodes: *nodes,
                    ranks: None,
                };
                declare(world.root(), &name(at), extent);
            }
        }
    }
    let queue = &mut world.nature.queue;
    queue.push(BEGIN, Happening::LeaderStarts(ROOT));
    world
}

fn name(at: usize) -> String {
    format!("q{at}")
}

fn asked(job: &SimJob, place: usize, site: &Site) -> Ask {
    let behaviour = Behaviour {
        run: job.run,
        exit: 0,
        term: OnTerm::Die,
        start: Start::Works,
    };
    let queue = match &site.layout {
        Layout::Flat => None,
        Layout::Elastic(number) => Some(name(place % *number as usize)),
        Layout::Fixed(sizes) => {
            let fits = |at: &usize| u64::from(sizes[*at] * site.cores) >= job.procs;
            let largest = (0..sizes.len()).max_by_key(|at| sizes[*at]);
            let at = Some(place % sizes.len()).filter(fits).or(largest);
            at.map(name)
        }
    };
    Ask {
        ntasks: job.procs as u32,
        limit: job.limit.map_or(0.0, |limit| limit.0 as f64 / 1e6),
        command: behaviour.command(),
        name: place.to_string(),
        queue,
        ..Ask::default()
    }
}

/// Everything that is to happen before that happens; it is that time then.
fn until(world: &mut World, at: Time) -> Result<(), String> {
    while world.nature.queue.next_at().is_some_and(|next| next < at) {
        world.step();
    }
    world.nature.now = world.nature.now.max(at);
    sound(world)
}

fn finish(world: &mut World, jobs: usize) -> Result<(), String> {
    loop {
        for _ in 0..LOOK {
            if world.nature.queue.is_empty() {
                return sound(world);
            }
            world.step();
        }
        sound(world)?;
        let all = world.nature.judge(ROOT).recorded().jobs.values();
        let over = all.filter(|job| job.state == JobState::Inactive).count();
        if over >= jobs {
            return Ok(());
        }
    }
}

fn sound(world: &World) -> Result<(), String> {
    world.finding().map_or(Ok(()), |why| Err(why.to_owned()))
}

/// When each job was granted what it runs on, by the place that is its name.
fn began(world: &World) -> BTreeMap<usize, Time> {
    let jobs = world.nature.judge(ROOT).recorded().jobs.values();
    let began = jobs.filter_map(|job| {
        let place = job.submit.spec.jobspec.name().parse().ok()?;
        Some((place, job.t_alloc?))
    });
    began.collect()
}
