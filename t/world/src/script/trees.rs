//! Commands of scripts about ranks apart and instances in instances.
//!
//! ```text
//! machines 3x2 fanout=1        before anything else: a machine and an agent for each rank
//! idle 5 1                     sub-instances give nodes back after 5 s, but for one
//! alone 5                      queue instances begin what they took themselves after 5 s without the root
//! queue q nodes=1              likewise: a declared instance and the queue of its name
//! queue q elastic=all          likewise, one that holds nothing itself; elastic=1-2 of these ranks
//! file q drop                  when the root's leader starts next its file has that queue and instance no more;
//!                              file q elastic=all   they are so
//! submit a instance run=5 …    an instance that runs a program; without `run` until told to end
//! in a/b submit c …            somebody in an instance says something
//! crash agent 1 S              the agent of a machine; it is started again S seconds later
//! crash machine 1 S            likewise, with all shells there
//! crash leader of a            the leader of an instance
//! freeze leader of a S         it does nothing for a while
//! freeze shell 1 S             likewise the shell of the root on a machine
//! part 0 1 S                   two machines do not reach each other for a while
//! ```

use eddy_modules::settings::{Elastic, Extent, ReleaseIdle};
use eddy_wire::time::Span;

use super::{Player, STEPS_MAX, number, pass};
use crate::client::OWNER;
use crate::nature::{AgentTurn, BEGIN, Happening, InstanceId, Nature, Pace, ROOT};
use crate::quiet;
use crate::shell::Course;
use crate::swarm::declare;
use crate::task::span;
use crate::world::{Holder, World};

/// How long ranks are given to find each other before a script begins.
const BEGINNING: Span = Span::seconds(10);
/// How long a script runs at most until everything rests.
const RUN_MAX: Span = Span::seconds(600);

/// What a script says of its machines.
#[derive(Clone, Debug, Default)]
pub(super) struct Machines {
    fanout: Option<u32>,
    queues: Vec<(String, Extent)>,
    release_idle: Option<ReleaseIdle>,
    /// How long instances begin jobs though their parents are silent, where that is said.
    pub(super) lease: Option<Span>,
    /// When queue instances begin without their parents, where that is said.
    pub(super) alone: Option<Span>,
}

impl Machines {
    /// Whether ranks are apart.
    pub(super) fn are_apart(&self) -> bool {
        self.fanout.is_some()
    }
}

impl Player {
    pub(super) fn machines(&mut self, shape: &str, rest: &[&str]) -> Result<(), String> {
        self.shape(shape, &[])?;
        let mut fanout = 16;
        for word in rest {
            match word.split_once('=') {
                Some(("fanout", n)) => fanout = number(n)?,
                _ => return Err(format!("`{word}` is not fanout=N")),
            }
        }
        self.machines.fanout = Some(fanout);
        Ok(())
    }

    pub(super) fn release_idle(&mut self, seconds: &str, keep: &str) -> Result<(), String> {
        let (after, keep) = (span(seconds), number(keep)?);
        self.machines.release_idle = Some(ReleaseIdle { after, keep });
        Ok(())
    }

    pub(super) fn queue_instance(&mut self, name: &str, text: &str) -> Result<(), String> {
        self.machines.queues.push((name.to_owned(), extent(text)?));
        Ok(())
    }

    /// What the next leader of the root reads of a queue and its instance.
    pub(super) fn file(&mut self, name: &str, text: &str) -> Result<(), String> {
        let declared = match text {
            "drop" => None,
            text => Some(extent(text)?),
        };
        let root = self.world().root();
        root.settings.queues.retain(|queue| queue.name != name);
        root.settings.declared.retain(|one| one.name != name);
        if let Some(extent) = declared {
            declare(root, name, extent);
        }
        Ok(())
    }

    /// The world of machines, once all ranks have found each other.
    pub(super) fn apart(&self) -> World {
        let nature = Nature::new(0, Pace::Exact, self.grace);
        let fanout = self.machines.fanout.unwrap_or(16);
        let mut world = World::of_machines(nature, self.nodes, self.grace, fanout);
        world.habits.release_idle = self.machines.release_idle;
        world.habits.lease = self.machines.lease.unwrap_or(world.habits.lease);
        world.habits.autonomous_after = self.machines.alone.or(world.habits.autonomous_after);
        let root = world.root();
        for (name, extent) in &self.machines.queues {
            declare(root, name, extent.clone());
        }
        super::rank(&mut world, &self.qos);
        world
            .nature
            .queue
            .push(BEGIN, Happening::LeaderStarts(ROOT));
        for machine in 1..self.nodes.count as usize {
            let starts = Happening::Agent(machine, AgentTurn::Starts);
            world.nature.queue.push(BEGIN, starts);
        }
        world.add_client(OWNER);
        world.add_client(OWNER);
        world.add_client(OWNER + 1);
        pass(&mut world, BEGIN.after(BEGINNING));
        world.nature.write_down();
        world
    }

    /// The instance that this path of names leads to.
    pub(super) fn instance(&mut self, path: &str) -> Result<InstanceId, String> {
        let labels = &self.world().nature.labels;
        // Attempts are called the same: the last is meant.
        let found = labels.iter().rposition(|label| label == path);
        let place = found.ok_or(format!("no instance is called `{path}`"))?;
        Ok(InstanceId(place as u32))
    }

    /// Somebody in an instance says something.
    pub(super) fn inside(&mut self, path: &str, words: &[&str]) -> Result<(), String> {
        let id = self.instance(path)?;
        let known = self
            .world()
            .clients
            .iter()
            .find(|client| client.instance == id);
        let client = match known.map(|client| client.number) {
            Some(client) => client,
            None => self.world().add_client_of(OWNER, id, 0),
        };
        self.spoken(client, words)
    }

    pub(super) fn crash_of(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["agent", machine, seconds] => {
                let (machine, down) = (number(machine)? as usize, span(seconds));
                self.world().crash_agent(machine, down);
            }
            ["machine", machine, seconds] => {
                let (machine, down) = (number(machine)? as usize, span(seconds));
                self.world().crash_machine(machine, down);
            }
            ["leader", "of", path] => {
                let id = self.instance(path)?;
                self.world().kill_leader(id, Span::seconds(1));
            }
            _ => return Err(format!("`crash {}` is no command", words.join(" "))),
        }
        super::settle(self.world());
        Ok(())
    }

    /// The leader of an instance is stopped for a while.
    pub(super) fn freeze(&mut self, path: &str, seconds: &str) -> Result<(), String> {
        let id = self.instance(path)?;
        self.world().freeze(Holder::Leader(id), span(seconds));
        Ok(())
    }

    /// And so is the root's shell on a machine.
    pub(super) fn freeze_shell(&mut self, machine: &str, seconds: &str) -> Result<(), String> {
        let machine = number(machine)? as usize;
        self.world().freeze_shell(machine, span(seconds));
        Ok(())
    }

    pub(super) fn part(&mut self, a: &str, b: &str, seconds: &str) -> Result<(), String> {
        let (a, b) = (number(a)? as usize, number(b)? as usize);
        self.world().part_machines(a, b, span(seconds));
        super::settle(self.world());
        Ok(())
    }
}

/// Runs until everything rests.
pub(super) fn run(world: &mut World) {
    let until = world.nature.now.after(RUN_MAX);
    let most = world.steps() + 10 * STEPS_MAX;
    let mut look = world.nature.now.after(Span::seconds(1));
    while world.steps() < most && world.nature.now < until && world.step() == Course::On {
        if world.nature.now >= look {
            look = world.nature.now.after(Span::seconds(1));
            if quiet::is_tree_at_rest(world).is_ok() {
                return;
            }
        }
    }
    if let Err((id, sentence)) = quiet::is_tree_at_rest(world) {
        world.nature.fail(id, sentence);
    }
}

/// What a queue instance has.
fn extent(text: &str) -> Result<Extent, String> {
    match text.split_once('=') {
        Some(("nodes", nodes)) => Ok(Extent::Fixed {
            nodes: number(nodes)?,
            ranks: None,
        }),
        Some(("elastic", "all")) => Ok(Extent::Elastic(Elastic::default())),
        Some(("elastic", ranks)) => {
            let ranks = ranks.parse().map_err(|why| format!("{ranks}: {why}"))?;
            Ok(Extent::Elastic(Elastic {
                ranks: Some(ranks),
                ..Elastic::default()
            }))
        }
        Some(_) | None => Err("a queue has nodes=N or elastic=RANKS".to_owned()),
    }
}
