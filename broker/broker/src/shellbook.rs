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
//! 3. an end is remembered and repeated on each hello until it is forgotten;
//! 4. tasks that were stopped stay so until they are let go on or end; a stop that is said again is
//!    answered again;
//! 5. a leader that dies without having been asked to is started again, and its
//!    part goes on; so does one that is said to hang, if it is the life of which
//!    that is said; ground is held until it is killed.

mod live;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::id::Epoch;
use eddy_wire::idset::Idset;
use eddy_wire::input::Portion;
use eddy_wire::payload::{KEPT_MAX, Keeps, Payloads};
use eddy_wire::shell::{FromShell, Part, PartState, Role, Start, ToShell};
use eddy_wire::time::Time;

use self::live::{Held, Live};

/// What a shell keeps of payloads, and what the leader may assume it keeps, from each welcome on: as many bytes as
/// so many jobspecs have.
pub const KEEPS: Keeps = Keeps {
    count: KEPT_MAX,
    bytes: u64::MAX,
};

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

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
    /// A task was not started, as it was asked for.
    GivenUp(Part, u32),
    /// A task ended with this wait status.
    Exited(Part, u32, i32),
    /// Every process of the part is stopped, which was to be for that time.
    Paused(Part, u32),
    /// Nothing of the part runs, its output is written.
    Swept(Part),
}

/// What the shell process is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum ShellEffect {
    /// Tell the broker; dropped while there is none.
    Send(FromShell),
    /// Start one task; answer `Spawned` or `Failed`. A leader's task that died is
    /// started again: with the standard streams that it had.
    Spawn(Spawn),
    /// Start no more tasks of the part than are being started; answer `GivenUp` for each that is not.
    GiveUp(Part),
    /// Send a signal to everything of the part.
    Signal(Part, i32),
    /// Stop everything of the part, for that time; answer `Paused`, once nothing of it runs.
    Pause(Part, u32),
    /// Let everything of the part go on that was stopped, on these cores (none is no change).
    Proceed(Part, Idset),
    /// End the process of the leader that the part is, and nothing that it started.
    EndLeader(Part),
    /// End whatever of the part is left over, what is nested in it included, and
    /// write out its output; answer `Swept`.
    Sweep(Part),
    /// The part's end is recorded: drop what is kept for it.
    Forget(Part),
    /// Feed standard input.
    Input(Part, Portion),
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

/// Whether a leader knows of a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It never said hello.
    ToNobody,
    /// It said hello, and was never answered.
    Perhaps,
    /// One welcomed it.
    Surely,
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
    /// What is to be thought as long as no leader ever did.
    unanswered: Known,
    parts: BTreeMap<Part, Held>,
    payloads: Payloads<Arc<str>>,
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
            unanswered: Known::ToNobody,
            parts: BTreeMap::new(),
            payloads: Payloads::new(KEEPS),
        }
    }

    /// How many parts have not ended.
    pub fn live(&self) -> usize {
        self.parts
            .values()
            .filter(|held| matches!(held, Held::Live(_)))
            .count()
    }

    /// Whether any leader knows of this shell.
    pub fn known(&self) -> Known {
        match self.leader {
            Epoch(0) => self.unanswered,
            _ => Known::Surely,
        }
    }

    /// What is known of a part; `None` when nothing is.
    pub fn state(&self, part: &Part) -> Option<PartState> {
        self.parts.get(part).map(Held::state)
    }

    /// What a part that is not over is to its job.
    pub fn role(&self, part: &Part) -> Option<Role> {
        match self.parts.get(part) {
            Some(Held::Live(live)) => Some(live.role),
            Some(Held::Ended(_)) | None => None,
        }
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
                self.unanswered = Known::Perhaps;
                out.push(ShellEffect::Send(self.hello()));
            }
            ShellInput::Disconnected => self.welcomed = false,
            ShellInput::Broker(message) => self.told(now, message, out),
            ShellInput::Spawned(part, _) => self.spawned(now, part, out),
            ShellInput::Failed(part, task, status, note) => {
                self.failed(now, part, task, status, note, out);
            }
            ShellInput::GivenUp(part, task) => {
                let live = self.live_mut(part);
                live.given_up(task);
                live.all_started(now, part, out);
            }
            ShellInput::Exited(part, task, status) => self.exited(now, part, task, status, out),
            ShellInput::Paused(part, stop) => self.paused(part, stop, out),
            ShellInput::Swept(part) => self.swept(now, part, out),
        }
    }

    fn hello(&self) -> FromShell {
        FromShell::Hello {
            instance: self.instance.clone(),
            epoch: self.epoch,
            pid: self.pid,
            version: eddy_wire::shell::VERSION,
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
            ToShell::Payload { hash, text } => self.payloads.keep(hash, text.len() as u64, text),
            ToShell::Start(start) => self.start(now, *start, out),
            ToShell::Signal {
                part,
                signal,
                occasion,
            } => self.change(part, out, |live, out| {
                live.signalled(part, (signal, occasion), out);
            }),
            ToShell::Pause { part, stop } => {
                self.change(part, out, |live, out| live.pause(part, stop, out));
            }
            ToShell::Proceed { part, cores } => {
                self.change(part, out, |live, out| live.proceed(part, cores, out));
            }
            ToShell::Restart { part, silent } => {
                self.change(part, out, |live, out| {
                    live.restart(now, (part, silent), out)
                });
            }
            ToShell::Forget { part } => self.forget(part, out),
            ToShell::Input { part, portion } => out.push(ShellEffect::Input(part, portion)),
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
        self.payloads = Payloads::new(KEEPS);
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
        if start.role == Role::Ground {
            // Nothing is started, so no text is needed.
            let live = Live::ground(now, part, out);
            self.parts.insert(part, Held::Live(live));
            return;
        }
        let texts = (
            self.payloads.get(&start.jobspec),
            self.payloads.get(&start.environment),
        );
        let (Some(jobspec), Some(environment)) = texts else {
            let why = "its jobspec was not sent on this connection".to_owned();
            return out.push(ShellEffect::Send(FromShell::NotMine { part, why }));
        };
        let first = Spawn {
            task: start.first_task,
            jobspec: Arc::clone(jobspec),
            environment: Arc::clone(environment),
            start: Arc::new(start),
        };
        let mut live = Live::of_tasks(&first);
        if first.start.ntasks == 0 {
            // A rank of a job with fewer tasks than ranks: it is done at once.
            live.all_started(now, part, out);
        }
        self.parts.insert(part, Held::Live(live));
        for task in first.start.first_task..first.start.first_task + first.start.ntasks {
            out.push(ShellEffect::Spawn(Spawn {
                task,
                ..first.clone()
            }));
        }
    }

    /// Does something with a part that is not over; of another says what is known.
    fn change(
        &mut self,
        part: Part,
        out: &mut Vec<ShellEffect>,
        change: impl FnOnce(&mut Live, &mut Vec<ShellEffect>),
    ) {
        match self.parts.get_mut(&part) {
            Some(Held::Live(live)) => change(live, out),
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
        live.spawned(now);
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
        live.failed(part, (task, status), note, out);
        live.all_started(now, part, out);
    }

    fn exited(
        &mut self,
        now: Time,
        part: Part,
        task: u32,
        status: i32,
        out: &mut Vec<ShellEffect>,
    ) {
        let live = self.live_mut(part);
        live.running -= 1;
        if let Some(again) = live.again(now, (part, task, status), out) {
            live.starting += 1;
            return out.push(ShellEffect::Spawn(again));
        }
        live.ended.insert(task, status);
        if live.is_over() {
            out.push(ShellEffect::Sweep(part));
        }
    }

    /// It may have been let go on, or have ended, meanwhile.
    fn paused(&mut self, part: Part, stop: u32, out: &mut Vec<ShellEffect>) {
        if let Some(Held::Live(live)) = self.parts.get_mut(&part) {
            live.paused(part, stop, out);
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
