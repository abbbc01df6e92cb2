//! The shell's bookkeeping: which parts it holds, for which leader, and what
//! it owes them.
//!
//! Driven by the shell process of brokerd and by the simulated world. It holds
//! no process, pipe or clock: it is told of spawns and exits and says what is
//! to be started, signalled and sent. Its promises:
//!
//! 1. a part is started at most once in the life of this shell: a repeated
//!    start is answered with what is known;
//! 2. a start for another life of the shell, or from an older leader, is
//!    answered `NotMine`;
//! 3. an end is remembered and repeated on each hello until it is forgotten.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use eddy_wire::hash::Hash;
use eddy_wire::id::Epoch;
use eddy_wire::idset::Idset;
use eddy_wire::shell::{Ended, FromShell, Part, PartState, Start, ToShell};
use eddy_wire::time::Time;

/// How many payload texts a shell keeps, and how many the leader may assume it
/// keeps: first in, first out on both sides, reset by each welcome.
pub const PAYLOADS_MAX: usize = 256;

const SIGKILL: i32 = 9;

/// What the shell process brings.
#[derive(Clone, Debug, PartialEq)]
pub enum ShellInput {
    /// A connection to the broker stands.
    Connected,
    /// It ended.
    Disconnected,
    /// The broker said something.
    Broker(ToShell),
    /// A task runs.
    Spawned(Part, u32),
    /// A task could not be started: a wait status in its place, and why.
    Failed(Part, u32, i32, String),
    /// A task ended with this wait status.
    Exited(Part, u32, i32),
    /// Nothing of the part runs, its output is written.
    Swept(Part),
}

/// What the shell process is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum ShellEffect {
    /// Tell the broker; dropped while there is none.
    Send(FromShell),
    /// Start one task; answer `Spawned` or `Failed`.
    Spawn(Spawn),
    /// Send a signal to everything of the part.
    Signal(Part, i32),
    /// End whatever of the part is left over and write out its output; answer `Swept`.
    Sweep(Part),
    /// The part's end is recorded: drop what is kept for it.
    Forget(Part),
    /// Feed standard input: task ranks (empty is all), bytes, whether it ends.
    Input(Part, Idset, Vec<u8>, bool),
    /// Send output: part, read, offset, follow.
    Read(Part, u64, u64, bool),
    /// Stop that.
    StopRead(u64),
    /// End this connection: its leader is not the one to follow.
    Drop,
    /// End the process.
    Exit,
}

/// One task to start.
#[derive(Clone, Debug, PartialEq)]
pub struct Spawn {
    /// The part's start, with all that its tasks have in common.
    pub start: Arc<Start>,
    /// The task's rank in the job.
    pub task: u32,
    /// Text of the jobspec.
    pub jobspec: Arc<str>,
    /// Text of the environment.
    pub environment: Arc<str>,
}

/// One part held.
#[derive(Clone, Debug, PartialEq)]
enum Held {
    Live(Live),
    Ended(Ended),
}

#[derive(Clone, Debug, PartialEq)]
struct Live {
    ntasks: u32,
    /// Tasks whose spawn is not answered yet.
    starting: u32,
    /// Tasks that run.
    running: u32,
    /// When all had been started.
    started: Option<Time>,
    /// Wait status of each task that ended.
    ended: BTreeMap<u32, i32>,
    note: Option<String>,
    /// Signals that came before the tasks ran.
    pending: Vec<i32>,
}

/// The bookkeeping of one shell.
#[derive(Debug)]
pub struct ShellBook {
    instance: String,
    epoch: Epoch,
    pid: u32,
    /// The highest leader epoch ever seen.
    leader: Epoch,
    /// Whether the leader of the present connection has said its epoch.
    welcomed: bool,
    parts: BTreeMap<Part, Held>,
    payloads: BTreeMap<Hash, Arc<str>>,
    payload_order: VecDeque<Hash>,
}

impl ShellBook {
    /// The book of a shell that was just started under `epoch`.
    pub fn new(instance: String, epoch: Epoch, pid: u32) -> ShellBook {
        ShellBook {
            instance,
            epoch,
            pid,
            leader: Epoch(0),
            welcomed: false,
            parts: BTreeMap::new(),
            payloads: BTreeMap::new(),
            payload_order: VecDeque::new(),
        }
    }

    /// How many parts have not ended.
    pub fn live(&self) -> usize {
        self.parts
            .values()
            .filter(|held| matches!(held, Held::Live(_)))
            .count()
    }

    /// What is known of a part; `None` when nothing is.
    pub fn state(&self, part: &Part) -> Option<PartState> {
        self.parts.get(part).map(Held::state)
    }

    /// Every part held, in order.
    pub fn parts(&self) -> Vec<(Part, PartState)> {
        self.parts
            .iter()
            .map(|(part, held)| (*part, held.state()))
            .collect()
    }

    /// Takes one input and says what is to be done.
    pub fn handle(&mut self, now: Time, input: ShellInput, out: &mut Vec<ShellEffect>) {
        match input {
            ShellInput::Connected => {
                self.welcomed = false;
                out.push(ShellEffect::Send(self.hello()));
            }
            ShellInput::Disconnected => self.welcomed = false,
            ShellInput::Broker(message) => self.told(now, message, out),
            ShellInput::Spawned(part, _) => self.spawned(now, part, out),
            ShellInput::Failed(part, task, status, note) => {
                self.failed(now, part, task, status, note, out);
            }
            ShellInput::Exited(part, task, status) => self.exited(part, task, status, out),
            ShellInput::Swept(part) => self.swept(now, part, out),
        }
    }

    fn hello(&self) -> FromShell {
        FromShell::Hello {
            instance: self.instance.clone(),
            epoch: self.epoch,
            pid: self.pid,
            parts: self.parts(),
        }
    }

    fn told(&mut self, now: Time, message: ToShell, out: &mut Vec<ShellEffect>) {
        if let ToShell::Welcome { leader } = message {
            return self.welcome(leader, out);
        }
        if !self.welcomed {
            // Whoever has not said who leads is not followed.
            return out.push(ShellEffect::Drop);
        }
        match message {
            ToShell::Welcome { .. } => unreachable!("handled above"),
            ToShell::Payload { hash, text } => self.keep(hash, text),
            ToShell::Start(start) => self.start(now, *start, out),
            ToShell::Signal { part, signal } => self.signal(part, signal, out),
            ToShell::Forget { part } => self.forget(part, out),
            ToShell::Input {
                part,
                tasks,
                eof,
                data,
            } => {
                out.push(ShellEffect::Input(part, tasks, data, eof));
            }
            ToShell::Read {
                part,
                read,
                offset,
                follow,
            } => {
                out.push(ShellEffect::Read(part, read, offset, follow));
            }
            ToShell::StopRead { read } => out.push(ShellEffect::StopRead(read)),
            ToShell::Exit => out.push(ShellEffect::Exit),
        }
    }

    fn welcome(&mut self, leader: Epoch, out: &mut Vec<ShellEffect>) {
        if leader < self.leader {
            return out.push(ShellEffect::Drop);
        }
        self.leader = leader;
        self.welcomed = true;
        self.payloads.clear();
        self.payload_order.clear();
    }

    fn keep(&mut self, hash: Hash, text: Arc<str>) {
        if self.payloads.insert(hash, text).is_some() {
            return;
        }
        self.payload_order.push_back(hash);
        if self.payload_order.len() > PAYLOADS_MAX
            && let Some(oldest) = self.payload_order.pop_front()
        {
            self.payloads.remove(&oldest);
        }
    }

    fn start(&mut self, now: Time, start: Start, out: &mut Vec<ShellEffect>) {
        let part = start.part;
        if start.shell != self.epoch {
            let why = format!("start is for shell {}, this is {}", start.shell, self.epoch);
            return out.push(ShellEffect::Send(FromShell::NotMine { part, why }));
        }
        if let Some(held) = self.parts.get(&part) {
            return out.extend(held.news(part).map(ShellEffect::Send));
        }
        let texts = (
            self.payloads.get(&start.jobspec),
            self.payloads.get(&start.environment),
        );
        let (Some(jobspec), Some(environment)) = texts else {
            let why = "its jobspec was not sent on this connection".to_owned();
            return out.push(ShellEffect::Send(FromShell::NotMine { part, why }));
        };
        let mut live = Live::new(start.ntasks);
        if start.ntasks == 0 {
            // A rank of a job with fewer tasks than ranks: it is done at once.
            live.all_started(now, part, out);
        }
        self.parts.insert(part, Held::Live(live));
        let start = Arc::new(start);
        for task in start.first_task..start.first_task + start.ntasks {
            out.push(ShellEffect::Spawn(Spawn {
                start: Arc::clone(&start),
                task,
                jobspec: Arc::clone(jobspec),
                environment: Arc::clone(environment),
            }));
        }
    }

    fn signal(&mut self, part: Part, signal: i32, out: &mut Vec<ShellEffect>) {
        match self.parts.get_mut(&part) {
            Some(Held::Live(live)) if live.starting > 0 => live.pending.push(signal),
            Some(Held::Live(_)) => out.push(ShellEffect::Signal(part, signal)),
            Some(Held::Ended(ended)) => {
                let ended = ended.clone();
                out.push(ShellEffect::Send(FromShell::Ended { part, ended }));
            }
            None => {
                let why = "it is not held here".to_owned();
                out.push(ShellEffect::Send(FromShell::NotMine { part, why }));
            }
        }
    }

    fn forget(&mut self, part: Part, out: &mut Vec<ShellEffect>) {
        if matches!(self.parts.get(&part), Some(Held::Ended(_))) {
            self.parts.remove(&part);
            out.push(ShellEffect::Forget(part));
        }
    }

    fn live_mut(&mut self, part: Part) -> &mut Live {
        match self.parts.get_mut(&part) {
            Some(Held::Live(live)) => live,
            other => panic!("part {part} has a live task but is {other:?}"),
        }
    }

    fn spawned(&mut self, now: Time, part: Part, out: &mut Vec<ShellEffect>) {
        let live = self.live_mut(part);
        live.starting -= 1;
        live.running += 1;
        live.all_started(now, part, out);
    }

    fn failed(
        &mut self,
        now: Time,
        part: Part,
        task: u32,
        status: i32,
        note: String,
        out: &mut Vec<ShellEffect>,
    ) {
        let live = self.live_mut(part);
        live.starting -= 1;
        live.ended.insert(task, status);
        live.note.get_or_insert(note);
        // A job whose tasks cannot all run is of no use to its user.
        live.pending.push(SIGKILL);
        live.all_started(now, part, out);
    }

    fn exited(&mut self, part: Part, task: u32, status: i32, out: &mut Vec<ShellEffect>) {
        let live = self.live_mut(part);
        live.running -= 1;
        live.ended.insert(task, status);
        if live.is_over() {
            out.push(ShellEffect::Sweep(part));
        }
    }

    fn swept(&mut self, now: Time, part: Part, out: &mut Vec<ShellEffect>) {
        let live = self.live_mut(part);
        assert!(live.is_over(), "part {part} was swept with tasks running");
        let ended = live.end(now);
        self.parts.insert(part, Held::Ended(ended.clone()));
        out.push(ShellEffect::Send(FromShell::Ended { part, ended }));
    }
}

impl Held {
    fn state(&self) -> PartState {
        match self {
            Held::Live(Live { started: None, .. }) => PartState::Starting,
            Held::Live(Live {
                started: Some(t), ..
            }) => PartState::Running { t: *t },
            Held::Ended(ended) => PartState::Ended(ended.clone()),
        }
    }

    fn news(&self, part: Part) -> Option<FromShell> {
        match self.state() {
            PartState::Starting => None,
            PartState::Running { t } => Some(FromShell::Started { part, t }),
            PartState::Ended(ended) => Some(FromShell::Ended { part, ended }),
        }
    }
}

impl Live {
    fn new(ntasks: u32) -> Live {
        Live {
            ntasks,
            starting: ntasks,
            running: 0,
            started: None,
            ended: BTreeMap::new(),
            note: None,
            pending: Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.starting == 0 && self.running == 0
    }

    /// Called when a spawn was answered: tells of the start once all are, and
    /// lets the signals through that waited for it.
    fn all_started(&mut self, now: Time, part: Part, out: &mut Vec<ShellEffect>) {
        if self.starting > 0 {
            return;
        }
        if self.note.is_none() {
            self.started = Some(now);
            out.push(ShellEffect::Send(FromShell::Started { part, t: now }));
        }
        if self.is_over() {
            self.pending.clear();
            out.push(ShellEffect::Sweep(part));
        }
        out.extend(
            self.pending
                .drain(..)
                .map(|signal| ShellEffect::Signal(part, signal)),
        );
    }

    fn end(&self, now: Time) -> Ended {
        let worst = self
            .ended
            .values()
            .copied()
            .max_by_key(|s| eddy_wire::job::exit_code(*s));
        let alike = self.ended.values().all(|status| Some(*status) == worst);
        Ended {
            t: now,
            status: worst.unwrap_or(0),
            note: self.note.clone(),
            tasks: if alike || self.ntasks == 1 {
                BTreeMap::new()
            } else {
                self.ended.clone()
            },
        }
    }
}
