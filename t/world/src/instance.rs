//! One instance: its disk, its shells, and its leader while one lives.
//!
//! What outlives a leader is here; the leader's driver is `leader.rs`. Verbs of the world that
//! concern one instance are methods of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::shellbook::ShellInput;
use eddy_broker::{Arrival, Disk};
use eddy_modules::Settings;
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::shell::Part;
use eddy_wire::time::{Span, Time};

use crate::journal::{Journal, Room, Torn};
use crate::leader::Leader;
use crate::nature::{Delay, Happening, Life, Nature};
use crate::pipe::{Peer, PipeId, Side};
use crate::shell::{Course, Shell};

/// One instance.
pub struct Instance {
    /// Its disk.
    pub journal: Journal,
    /// Its leader, while one lives.
    pub leader: Option<Leader>,
    /// Its shells that live.
    pub shells: BTreeMap<Epoch, Shell>,
    /// What dead shells left behind, until it is swept.
    pub leftovers: BTreeMap<Epoch, BTreeSet<(Part, u32)>>,
    /// What the leader was told.
    pub settings: Settings,
    /// What the next leader is told it owns.
    pub inventory: Arc<ResourceSet>,
    lives: Life,
    /// Shells cannot reach the leader before.
    pub parted_until: Time,
    /// What is held up by a script.
    pub held: BTreeSet<Hold>,
    /// Whether the next shell dies as it is launched.
    pub launch: Launch,
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
}

impl Nodes {
    /// As an inventory.
    pub fn inventory(&self) -> Arc<ResourceSet> {
        let node = |rank: u32| NodeSet {
            host: format!("node{rank}").into(),
            cores: eddy_wire::idset::Idset::first_ids(self.cores),
            gpus: eddy_wire::idset::Idset::first_ids(self.gpus),
            memory: self.memory,
        };
        let nodes = (0..self.count).map(|rank| (Rank(rank), node(rank)));
        Arc::new(ResourceSet {
            nodes: nodes.collect(),
            ..ResourceSet::default()
        })
    }
}

impl Instance {
    /// An instance that never ran.
    pub fn new(nodes: Nodes, grace: Span) -> Instance {
        let mut settings = Settings::for_inventory(nodes.inventory());
        settings.kill_grace = grace;
        Instance {
            journal: Journal::default(),
            leader: None,
            shells: BTreeMap::new(),
            leftovers: BTreeMap::new(),
            inventory: Arc::clone(&settings.inventory),
            settings,
            lives: 0,
            parted_until: Time(0),
            held: BTreeSet::new(),
            launch: Launch::Lives,
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

    /// kill -9 of the leader.
    pub fn crash_leader(&mut self, nature: &mut Nature) {
        let Some(leader) = self.leader.take() else {
            return;
        };
        nature.note(|| "leader is killed".to_owned());
        let torn = match nature.chance(50) {
            true => Torn::Kept,
            false => Torn::Lost,
        };
        self.leader_ended(nature, &leader, torn);
    }

    /// The process of a leader is gone.
    pub fn leader_ended(&mut self, nature: &mut Nature, leader: &Leader, torn: Torn) {
        for pipe in leader.pipes() {
            nature.close(pipe, Side::Leader);
        }
        let last = self.journal.crash(torn);
        nature.oracle.leader_lost(last);
    }

    /// kill -9 of every shell: what it ran dies, or lingers until it is swept.
    pub fn crash_shells(&mut self, nature: &mut Nature) {
        for epoch in self.shells.keys().copied().collect::<Vec<_>>() {
            nature.note(|| format!("shell {epoch} is killed"));
            self.crash_shell(nature, epoch);
        }
    }

    fn crash_shell(&mut self, nature: &mut Nature, epoch: Epoch) {
        let Some(shell) = self.shells.remove(&epoch) else {
            return;
        };
        nature.oracle.shell_ended(epoch);
        let mut left = BTreeSet::new();
        for (part, task) in shell.tasks() {
            if nature.chance(50) {
                left.insert((part, task));
            } else {
                nature.oracle.task_lost(part, task);
            }
        }
        self.leftovers.insert(epoch, left);
        if let Some(leader) = self.leader.as_ref().filter(|leader| leader.watches(epoch)) {
            nature.later(Delay::Process, Happening::Checks(leader.life(), epoch));
        }
        if let Some(pipe) = shell.pipe() {
            nature.close(pipe, Side::Peer);
        }
    }

    /// Ends what a dead shell left behind.
    pub fn sweep(&mut self, nature: &mut Nature, epoch: Epoch) {
        for (part, task) in self.leftovers.remove(&epoch).unwrap_or_default() {
            nature.oracle.task_lost(part, task);
        }
    }

    /// A shell is launched under this epoch.
    pub fn launch_shell(&mut self, nature: &mut Nature, epoch: Epoch) {
        nature.note(|| format!("shell {epoch} is launched"));
        self.shells.insert(epoch, Shell::new(epoch));
        // Who launched it watches it.
        if let Some(leader) = &self.leader {
            let life = leader.life();
            self.checks(nature, life, epoch);
        }
        match std::mem::take(&mut self.launch) {
            Launch::Lives => nature.later(Delay::Process, Happening::ShellConnects(epoch)),
            Launch::Dies => {
                nature.note(|| format!("shell {epoch} dies at once"));
                self.crash_shell(nature, epoch);
            }
        }
    }

    /// A shell tries to connect.
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
                let pipe = shell.connect(nature);
                leader.accept(pipe);
            }
            _ => nature.later(Delay::Retry, Happening::ShellConnects(epoch)),
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
        nature.note(|| format!("shell {epoch} ends"));
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
        let Some(Peer::Shell(epoch)) = nature.pipes.peer(pipe) else {
            return;
        };
        nature.pipes.close(pipe, Side::Peer);
        if let Some(shell) = self.shells.get_mut(&epoch) {
            shell.disconnected(nature);
        }
        nature.later(Delay::Net, Happening::Ends(pipe, Side::Leader));
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
