//! One instance: its disk, its shells, and its leader while one lives.
//!
//! What outlives a leader is here; the leader's driver is `leader.rs`. Verbs of the world that
//! concern one instance are methods of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::shellbook::ShellInput;
use eddy_broker::{Arrival, Disk};
use eddy_modules::Settings;
use eddy_modules::keys::Keys;
use eddy_modules::live::{By, Change, Live};
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::{NodeSet, ResourceSet, Sockets};
use eddy_wire::shell::Part;
use eddy_wire::time::{Span, Time};
use serde_json::{Map, Value};

use crate::call::About;
use crate::heads::Before;
use crate::journal::{Journal, Room, Torn};
use crate::leader::Leader;
use crate::nature::{ChildTurn, Delay, Happening, InstanceId, Life, Nature, ROOT, ShellTurn, Turn};
use crate::nested::Nested;
use crate::oracle::{Ledger, Living};
use crate::pipe::{Peer, PipeId, Post, Side};
use crate::shell::{Course, Keeper, Seat, Shell};
use crate::task::SIGKILL;

/// One instance.
pub struct Instance {
    /// Which one.
    pub id: InstanceId,
    /// Its disk.
    pub journal: Journal,
    /// Its leader, while one lives.
    pub leader: Option<Leader>,
    /// Its shells that live.
    pub shells: BTreeMap<Epoch, Shell>,
    /// What dead shells left behind, until it is swept.
    pub leftovers: BTreeMap<Epoch, Leftovers>,
    /// What the leader was told.
    pub settings: Settings,
    /// What the next leader is told it owns.
    pub inventory: Arc<ResourceSet>,
    /// The machine of each rank; the leader's is the first.
    pub seats: Vec<usize>,
    /// How many ranks hang under one; none when all ranks are the leader's own.
    pub fanout: Option<u32>,
    /// What it is to its parent; none for a root.
    pub nested: Option<Nested>,
    lives: Life,
    /// Shells cannot reach the leader before.
    pub parted_until: Time,
    /// What is held up by a script.
    pub held: BTreeSet<Hold>,
    /// Whether the next shell dies as it is launched.
    pub launch: Launch,
    /// What the planner of the last leader knew and had promised.
    pub planned: Option<Before>,
}

/// What a dead shell left.
#[derive(Clone, Debug)]
pub struct Leftovers {
    /// Where it was.
    pub seat: Seat,
    /// Its tasks that live on.
    pub tasks: BTreeSet<(Part, u32)>,
}

/// What a script can hold up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// Commits do not begin.
    Disk,
    /// The planner does not answer.
    Planner,
}

/// What becomes of the next shell that is launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Launch {
    /// It lives.
    #[default]
    Lives,
    /// It dies at once.
    Dies,
}

/// Nodes of an inventory, all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// How many.
    pub count: u32,
    /// Cores of each.
    pub cores: u32,
    /// GPUs of each.
    pub gpus: u32,
    /// Bytes of memory of each; 0 is not known.
    pub memory: u64,
    /// Sockets of each; 1 is not known.
    pub sockets: u32,
}

impl Nodes {
    /// As an inventory: nodes of odd rank are `odd`, each two are in one rack.
    pub fn inventory(&self) -> Arc<ResourceSet> {
        let node = |rank: u32| NodeSet {
            host: format!("node{rank}").into(),
            cores: Idset::first_ids(self.cores),
            gpus: Idset::first_ids(self.gpus),
            memory: self.memory,
            sockets: match self.sockets {
                1 => Sockets::default(),
                several => Sockets::even(several, self.cores, self.gpus),
            },
        };
        let nodes = (0..self.count).map(|rank| (Rank(rank), node(rank)));
        let ranks = 0..self.count;
        let rack = |rank: u32| (format!("rack=r{}", rank / 2), Idset::range(rank, rank + 1));
        let mut properties: BTreeMap<String, Idset> = ranks.clone().step_by(2).map(rack).collect();
        let odd: Idset = ranks.clone().filter(|rank| rank % 2 == 1).collect();
        properties.insert("odd".to_owned(), odd);
        let there: Idset = ranks.collect();
        let meant = properties.values_mut();
        meant.for_each(|having| *having = having.intersect(&there));
        properties.retain(|_, having| !having.is_empty());
        Arc::new(ResourceSet {
            nodes: nodes.collect(),
            properties,
            ..ResourceSet::default()
        })
    }
}

impl Instance {
    /// A root that never ran, all of whose ranks are on one machine.
    pub fn root(nodes: Nodes, grace: Span) -> Instance {
        let mut settings = Settings::for_inventory(nodes.inventory());
        settings.kill_grace = grace;
        settings.hung_after = None;
        let seats = vec![0; nodes.count as usize];
        Instance::new(ROOT, settings, seats)
    }

    /// An instance that never ran.
    pub fn new(id: InstanceId, settings: Settings, seats: Vec<usize>) -> Instance {
        Instance {
            id,
            journal: Journal::default(),
            leader: None,
            shells: BTreeMap::new(),
            leftovers: BTreeMap::new(),
            inventory: Arc::clone(&settings.inventory),
            settings,
            seats,
            fanout: None,
            nested: None,
            lives: 0,
            parted_until: Time(0),
            held: BTreeSet::new(),
            launch: Launch::Lives,
            planned: None,
        }
    }

    /// What the leader obeys now: what it was told, and what was put over that since.
    pub fn in_force(&self, ledger: &Ledger) -> Settings {
        let mut settings = self.settings.clone();
        let change = ledger.configuration.as_ref();
        if let Some(change) = change.filter(|change| change.over == Live::of(&settings).hash()) {
            change.live.put(&mut settings);
        }
        settings
    }

    /// As the leader's driver makes it of a request for another configuration.
    pub fn configuration(&self, ledger: &Ledger, set: &[String]) -> Option<Map<String, Value>> {
        let (live, by) = match set {
            [live] => (live, By::Reload),
            [_, live] => (live, By::Set(set.to_vec())),
            _ => return None,
        };
        let live: Live = serde_json::from_str(live).ok()?;
        let own = Live::of(&self.in_force(ledger));
        let changed = (live != own).then(|| "something".to_owned());
        let over = match by {
            By::Reload | By::Start => live.hash(),
            By::Set(_) => Live::of(&self.settings).hash(),
        };
        let change = Change {
            over,
            userid: 0,
            by,
            changed: changed.into_iter().collect(),
            restart: Vec::new(),
            warned: Vec::new(),
            live,
            keys: Keys::default(),
            given: Vec::new(),
        };
        Some(change.memo())
    }

    /// Another configuration is in force: where that is what the file says, the next leader is told
    /// so from the start.
    pub fn configured(&mut self, change: &Change) {
        if change.by == By::Reload {
            change.live.put(&mut self.settings);
        }
    }

    /// What an answer to this can be judged by: where some jobs are in instances that it declares,
    /// much is answered by those.
    pub fn judged(&self, about: About) -> About {
        match about {
            About::Submit { .. } => about,
            _ if self.settings.declared.is_empty() => about,
            _ => About::Other,
        }
    }

    /// Whether its parent orders its jobs.
    pub fn is_queue(&self) -> bool {
        self.settings.place.name.is_some()
    }

    /// The machine of its leader.
    pub fn machine(&self) -> usize {
        self.seats.first().copied().unwrap_or(0)
    }

    /// What it is called in a transcript, behind what is told of it.
    pub fn of(&self, nature: &Nature) -> String {
        match nature.labels[self.id.place()].as_str() {
            "" => String::new(),
            label => format!(" of {label}"),
        }
    }

    /// The next life of a leader.
    pub fn next_life(&mut self) -> Life {
        self.lives += 1;
        self.lives
    }

    /// The leader of that life, if it still lives.
    pub fn leader_of(&mut self, life: Life) -> Option<&mut Leader> {
        self.leader.as_mut().filter(|leader| leader.life() == life)
    }

    /// kill -9 of the leader of a root.
    pub fn crash_leader(&mut self, nature: &mut Nature) {
        if self.leader.is_some() {
            let of = self.of(nature);
            nature.note(|| format!("leader{of} is killed"));
            self.leader_dies(nature);
        }
    }

    /// The process of a leader dies by a signal: a commit under way may reach the disk.
    pub fn leader_dies(&mut self, nature: &mut Nature) {
        if let Some(leader) = self.leader.take() {
            let torn = match nature.chance(50) {
                true => Torn::Kept,
                false => Torn::Lost,
            };
            self.leader_ended(nature, &leader, torn);
        }
    }

    /// The process of a leader is gone.
    pub fn leader_ended(&mut self, nature: &mut Nature, leader: &Leader, torn: Torn) {
        for (pipe, side) in leader.pipes() {
            nature.close(pipe, side);
        }
        self.planned = leader.planned_last();
        let before = self.journal.last().0 as usize;
        let last = self.journal.crash(torn);
        nature.oracle(self.id).leader_lost(last);
        nature.tell_ends(self.id, &self.journal.records()[before..]);
    }

    /// kill -9 of every shell: what it ran dies, or lingers until it is swept.
    pub fn crash_shells(&mut self, nature: &mut Nature) {
        for epoch in self.shells.keys().copied().collect::<Vec<_>>() {
            self.kill_shell(nature, epoch);
        }
    }

    /// kill -9 of one shell.
    pub fn kill_shell(&mut self, nature: &mut Nature, epoch: Epoch) {
        let of = self.of(nature);
        nature.note(|| format!("shell {epoch}{of} is killed"));
        self.crash_shell(nature, epoch);
    }

    fn crash_shell(&mut self, nature: &mut Nature, epoch: Epoch) {
        let Some(shell) = self.shells.remove(&epoch) else {
            return;
        };
        nature.tree.ends(Living::Shell(self.id, epoch));
        nature.oracle(self.id).shell_ended(epoch);
        let mut tasks = BTreeSet::new();
        for (part, task) in shell.timers() {
            if nature.chance(50) {
                tasks.insert((part, task));
            } else {
                nature.task_lost(self.id, part, task);
            }
        }
        let seat = shell.seat.clone();
        let keeper = seat.keeper;
        self.leftovers.insert(epoch, Leftovers { seat, tasks });
        for (child, life) in shell.leaders() {
            if nature.chance(50) {
                let killed = Happening::Child(child, life, ChildTurn::Signal(SIGKILL));
                nature.later(Delay::Process, killed);
            }
        }
        if keeper == Keeper::Agent {
            let missed = Happening::Shell(self.id, epoch, ShellTurn::Missed);
            nature.later(Delay::Process, missed);
        } else if let Some(leader) = &self.leader
            && leader.desk.watches(epoch)
        {
            let checks = Happening::Leader(self.id, leader.life(), Turn::Checks(epoch));
            nature.later(Delay::Process, checks);
        }
        if let Some(pipe) = shell.pipe() {
            nature.close(pipe, Side::Peer);
        }
    }

    /// A shell is ended with all it runs, because what it is nested in is.
    pub fn end_shell(&mut self, nature: &mut Nature, epoch: Epoch) {
        self.crash_shell(nature, epoch);
        self.end_leftovers(nature, epoch);
    }

    fn end_leftovers(&mut self, nature: &mut Nature, epoch: Epoch) -> Option<Leftovers> {
        let left = self.leftovers.remove(&epoch)?;
        for (part, task) in &left.tasks {
            nature.task_lost(self.id, *part, *task);
        }
        Some(left)
    }

    /// Ends what a dead shell left behind.
    pub fn sweep(&mut self, nature: &mut Nature, epoch: Epoch) {
        if let Some(left) = self.end_leftovers(nature, epoch)
            && self.fanout.is_some()
        {
            let buried = ShellTurn::Buried(left.seat.machine, left.seat.ranks);
            let buried = Happening::Shell(self.id, epoch, buried);
            nature.queue.push(nature.now, buried);
        }
    }

    /// A shell is launched under this epoch.
    pub fn launch_shell(&mut self, nature: &mut Nature, epoch: Epoch, seat: Seat) {
        if self.shells.contains_key(&epoch) {
            return;
        }
        let of = self.of(nature);
        nature.note(|| format!("shell {epoch}{of} is launched"));
        let checks = match &self.leader {
            // Who launched it watches it.
            Some(leader) if seat.keeper == Keeper::Leader => Some(leader.life()),
            _ => None,
        };
        nature.process_begins(Living::Shell(self.id, epoch), &seat.within);
        self.shells.insert(epoch, Shell::new(self.id, epoch, seat));
        if let Some(life) = checks {
            self.checks(nature, life, epoch);
        }
        match std::mem::take(&mut self.launch) {
            Launch::Lives => {
                let connects = Happening::Shell(self.id, epoch, ShellTurn::Connects);
                nature.later(Delay::Process, connects);
            }
            Launch::Dies => {
                nature.note(|| format!("shell {epoch} dies at once"));
                self.crash_shell(nature, epoch);
            }
        }
    }

    /// A shell of the leader's node tries to connect.
    pub fn shell_connects(&mut self, nature: &mut Nature, epoch: Epoch) {
        let Some(shell) = self
            .shells
            .get_mut(&epoch)
            .filter(|shell| shell.pipe().is_none())
        else {
            return;
        };
        match &mut self.leader {
            Some(leader) if nature.now >= self.parted_until => {
                let pipe = shell.connect(nature, Post::Leader(self.id, leader.life()));
                leader.desk.accept(pipe);
            }
            _ => {
                let connects = Happening::Shell(self.id, epoch, ShellTurn::Connects);
                nature.later(Delay::Retry, connects);
            }
        }
    }

    /// Something happened to a shell.
    pub fn shell_input(&mut self, nature: &mut Nature, epoch: Epoch, input: ShellInput) {
        if let Some(shell) = self.shells.get_mut(&epoch)
            && shell.take(nature, input) == Course::Exit
        {
            self.shell_exits(nature, epoch);
        }
    }

    /// A shell ends in order. What it still runs dies with it.
    pub fn shell_exits(&mut self, nature: &mut Nature, epoch: Epoch) {
        let of = self.of(nature);
        nature.note(|| format!("shell {epoch}{of} ends"));
        self.crash_shell(nature, epoch);
        self.sweep(nature, epoch);
    }

    /// Cuts every connection between shells and leader, for a while.
    pub fn part(&mut self, nature: &mut Nature, span: Span) {
        nature.note(|| format!("shells are cut off for {span} s"));
        self.parted_until = nature.now.after(span);
        let pipes: Vec<PipeId> = self.shells.values().filter_map(Shell::pipe).collect();
        pipes.into_iter().for_each(|pipe| self.cut(nature, pipe));
    }

    /// Cuts one connection of a shell: what is under way is lost in both directions.
    pub fn cut(&mut self, nature: &mut Nature, pipe: PipeId) {
        let Some(Peer::Shell(_, epoch)) = nature.pipes.peer(pipe) else {
            return;
        };
        nature.pipes.close(pipe, Side::Peer);
        if let Some(shell) = self.shells.get_mut(&epoch) {
            shell.disconnected(nature);
        }
        nature.later(Delay::Net, Happening::Ends(pipe, Side::Server));
    }

    /// The disk has room, or has none.
    pub fn set_room(&mut self, nature: &mut Nature, room: Room) {
        if self.journal.room == room {
            return;
        }
        self.journal.room = room;
        let told = match room {
            Room::None => {
                nature.note(|| "disk is full".to_owned());
                Disk::Full("the disk of the journal is full".to_owned())
            }
            Room::Enough => {
                nature.note(|| "disk has room".to_owned());
                Disk::Room
            }
        };
        self.arrive(nature, Arrival::Disk(told));
        self.commit_soon(nature);
    }
}
