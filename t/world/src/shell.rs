//! The process that parents tasks: the product's own bookkeeping around simulated tasks.
//!
//! Mimics `eddy shell`: it outlives the leader and connects again; its tasks die with it, but what
//! they started may linger until it is swept.

use std::collections::{BTreeMap, BTreeSet};

use eddy_broker::shellbook::{ShellBook, ShellEffect, ShellInput, Spawn};
use eddy_wire::id::Epoch;
use eddy_wire::shell::{Part, PartState, ToShell};
use eddy_wire::time::Time;

use crate::broken::{self, Rule};
use crate::nature::{Delay, Happening, Nature, Parcel};
use crate::pipe::{Peer, PipeId, Side};
use crate::task::{Behaviour, OnTerm, SIGKILL, SIGTERM, Start};
use crate::transcript::part_label;

/// The instance every shell of the world serves.
pub const INSTANCE: &str = "world";

/// One life of a shell.
pub struct Shell {
    epoch: Epoch,
    book: ShellBook,
    pipe: Option<PipeId>,
    tasks: BTreeMap<(Part, u32), Task>,
    /// Tasks started, to tell a new end of a task from one that was put off.
    count: u64,
}

/// A task that runs.
#[derive(Clone, Copy, Debug)]
struct Task {
    behaviour: Behaviour,
    /// Which of the ends asked for counts.
    end: u64,
    status: i32,
}

/// Whether a shell goes on after what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// It does.
    On,
    /// It ends.
    Exit,
}

impl Shell {
    /// A shell that was just launched.
    pub fn new(epoch: Epoch) -> Shell {
        Shell {
            epoch,
            book: ShellBook::new(INSTANCE.to_owned(), epoch, epoch.0 as u32),
            pipe: None,
            tasks: BTreeMap::new(),
            count: 0,
        }
    }

    /// Its connection.
    pub fn pipe(&self) -> Option<PipeId> {
        self.pipe
    }

    /// A part it remembers, if any.
    pub fn remembers(&self) -> Option<(Part, PartState)> {
        self.book.parts().into_iter().next()
    }

    /// Its tasks that run.
    pub fn tasks(&self) -> BTreeSet<(Part, u32)> {
        self.tasks.keys().copied().collect()
    }

    /// A connection to a leader stands.
    pub fn connect(&mut self, nature: &mut Nature) -> PipeId {
        let pipe = nature.pipes.open(nature.now, Peer::Shell(self.epoch));
        self.pipe = Some(pipe);
        self.take(nature, ShellInput::Connected);
        pipe
    }

    /// The connection ended.
    pub fn disconnected(&mut self, nature: &mut Nature) {
        if self.pipe.take().is_some() {
            self.take(nature, ShellInput::Disconnected);
            nature.later(Delay::Retry, Happening::ShellConnects(self.epoch));
        }
    }

    /// The leader said something.
    pub fn told(&mut self, nature: &mut Nature, message: ToShell) -> Course {
        if let ToShell::Start(start) = &message
            && nature.breaks(Rule::ShellForgetsStarts)
            && self.book.state(&start.part).is_some()
        {
            let effects = broken::start_afresh(self.epoch, start);
            return self.act(nature, effects);
        }
        self.take(nature, ShellInput::Broker(message))
    }

    /// Something happened to it.
    pub fn take(&mut self, nature: &mut Nature, input: ShellInput) -> Course {
        let now = shell_time(nature);
        let mut effects = Vec::new();
        self.book.handle(now, input, &mut effects);
        if nature.breaks(Rule::EndsForgotten) {
            broken::forget_ends(&mut self.book, now, &mut effects);
        }
        self.act(nature, effects)
    }

    fn act(&mut self, nature: &mut Nature, effects: Vec<ShellEffect>) -> Course {
        for effect in effects {
            match effect {
                ShellEffect::Send(message) => {
                    if let Some(pipe) = self.pipe {
                        nature.send(pipe, Side::Leader, Parcel::FromShell(message));
                    }
                }
                ShellEffect::Spawn(spawn) => {
                    nature.later(Delay::Process, Happening::Spawns(self.epoch, spawn));
                }
                ShellEffect::Signal(part, signal) => self.signal(nature, part, signal),
                ShellEffect::Sweep(part) => {
                    nature.later(Delay::Process, Happening::Swept(self.epoch, part));
                }
                ShellEffect::Drop => {
                    if let Some(pipe) = self.pipe {
                        nature.close(pipe, Side::Peer);
                        self.disconnected(nature);
                    }
                }
                ShellEffect::Exit => return Course::Exit,
                ShellEffect::Forget(_)
                | ShellEffect::Input(..)
                | ShellEffect::Read(..)
                | ShellEffect::StopRead(_) => {}
            }
        }
        Course::On
    }

    /// A task's process is made.
    pub fn spawn(&mut self, nature: &mut Nature, spawn: &Spawn) {
        let (part, task) = (spawn.start.part, spawn.task);
        let behaviour = Behaviour::of_jobspec(&spawn.jobspec);
        if behaviour.start == Start::Fails {
            let status = 127 << 8;
            nature.oracle.task_ended(part, task, status);
            let note = "task: no such program".to_owned();
            self.take(nature, ShellInput::Failed(part, task, status, note));
            return;
        }
        nature.oracle.task_begins(&spawn.start, self.epoch, task);
        let who = part_label(nature, part);
        nature.note(|| format!("task {task} of {who} begins"));
        self.count += 1;
        let running = Task {
            behaviour,
            end: self.count,
            status: behaviour.status(),
        };
        self.tasks.insert((part, task), running);
        let end = Happening::TaskEnds(self.epoch, part, task, self.count);
        nature.queue.push(nature.now.after(behaviour.run), end);
        self.take(nature, ShellInput::Spawned(part, task));
    }

    /// Sends a signal to all tasks of a part.
    fn signal(&mut self, nature: &mut Nature, part: Part, signal: i32) {
        let who = part_label(nature, part);
        nature.note(|| format!("{who} gets signal {signal}"));
        if matches!(signal, SIGTERM | SIGKILL) {
            nature.oracle.asked_to_end(part);
        }
        let range = (part, 0)..=(part, u32::MAX);
        for ((_, rank), task) in self.tasks.range_mut(range) {
            if task.status == SIGKILL {
                // It is dying already.
                continue;
            }
            let (after, status) = match (signal, task.behaviour.term) {
                (SIGTERM, OnTerm::Ignore) => continue,
                (SIGTERM, OnTerm::Exit(after)) => (after, 3 << 8),
                (SIGKILL | SIGTERM, _) => (nature.delay(Delay::Process), signal),
                // The other signals mean nothing to these tasks.
                _ => continue,
            };
            self.count += 1;
            (task.end, task.status) = (self.count, status);
            let end = Happening::TaskEnds(self.epoch, part, *rank, self.count);
            nature.queue.push(nature.now.after(after), end);
        }
    }

    /// A task ends, unless this is not how it ends any more.
    pub fn task_ends(&mut self, nature: &mut Nature, part: Part, task: u32, end: u64) {
        let found = self
            .tasks
            .get(&(part, task))
            .filter(|found| found.end == end);
        let Some(status) = found.map(|found| found.status) else {
            return;
        };
        self.tasks.remove(&(part, task));
        nature.oracle.task_ended(part, task, status);
        let who = part_label(nature, part);
        let code = eddy_wire::job::exit_code(status);
        nature.note(|| format!("task {task} of {who} ends with {code}"));
        self.take(nature, ShellInput::Exited(part, task, status));
    }
}

/// A shell's own time: that of its machine's wall clock.
fn shell_time(nature: &Nature) -> Time {
    nature.machine.read(nature.now).wall
}
