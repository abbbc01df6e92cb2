//! The process that parents tasks: the product's own bookkeeping around simulated tasks.
//!
//! Mimics `eddy shell`: it outlives the leader and connects again; its tasks die with it, but what
//! they started may linger until it is swept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::shellbook::{ShellBook, ShellEffect, ShellInput, Spawn};
use eddy_wire::id::Epoch;
use eddy_wire::idset::Idset;
use eddy_wire::shell::{Part, PartState, Start, ToShell};
use eddy_wire::time::{Span, Time};

use crate::broken::{self, Rule};
use crate::clock::Clock;
use crate::nature::{ChildTurn, Delay, Happening, InstanceId, Life, Nature, Parcel, ShellTurn};
use crate::nested::{Process, Within};
use crate::pipe::{Peer, PipeId, Post, Side};
use crate::task::{self, Behaviour, OnTerm, SIGKILL, SIGTERM};
use crate::transcript::part_label;

/// Where a shell is and for whom.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The machine it is on.
    pub machine: usize,
    /// The ranks it serves.
    pub ranks: Idset,
    /// Whose shell it is.
    pub keeper: Keeper,
    /// What it runs within.
    pub within: Within,
}

/// Who launched a shell and hears from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// The leader.
    Leader,
    /// The rank that an agent hosts.
    Agent,
}

/// One life of a shell.
pub struct Shell {
    instance: InstanceId,
    epoch: Epoch,
    /// Where it is.
    pub seat: Seat,
    book: ShellBook,
    /// Its own, from when it begins.
    clock: Option<Clock>,
    pipe: Option<PipeId>,
    tasks: BTreeMap<(Part, u32), Task>,
    /// Parts that are being stopped.
    pausing: BTreeMap<Part, u32>,
    /// Tasks started, to tell a new end of a task from one that was put off.
    count: u64,
}

/// A task that runs.
#[derive(Clone, Debug)]
struct Task {
    start: Arc<Start>,
    does: Does,
    /// Which of the ends asked for counts.
    end: u64,
    status: i32,
    pace: Pace,
}

/// Whether a task is stopped.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// It ends then.
    Until(Time),
    /// It lasts so much longer once it goes on.
    Stopped(Span),
}

/// What a task is.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// A timer.
    Waits(Behaviour),
    /// It leads a child instance.
    Leads(InstanceId, Life),
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
    pub fn new(instance: InstanceId, epoch: Epoch, seat: Seat) -> Shell {
        Shell {
            instance,
            epoch,
            seat,
            book: ShellBook::new(instance.name(), epoch, epoch.0 as u32),
            clock: None,
            pipe: None,
            tasks: BTreeMap::new(),
            pausing: BTreeMap::new(),
            count: 0,
        }
    }

    /// Its connection.
    pub fn pipe(&self) -> Option<PipeId> {
        self.pipe
    }

    /// A part of these that it remembers, if any.
    pub fn remembers(&self, is_it: impl Fn(&Part) -> bool) -> Option<(Part, PartState)> {
        self.book.parts().into_iter().find(|(part, _)| is_it(part))
    }

    /// Its tasks that are timers.
    pub fn timers(&self) -> BTreeSet<(Part, u32)> {
        let timers = self
            .tasks
            .iter()
            .filter(|(_, task)| matches!(task.does, Does::Waits(_)));
        timers.map(|(key, _)| *key).collect()
    }

    /// Its tasks that lead instances.
    pub fn leaders(&self) -> Vec<(InstanceId, Life)> {
        let leaders = self.tasks.values().filter_map(|task| match task.does {
            Does::Leads(child, life) => Some((child, life)),
            Does::Waits(_) => None,
        });
        leaders.collect()
    }

    /// A connection to a leader stands.
    pub fn connect(&mut self, nature: &mut Nature, server: Post) -> PipeId {
        let peer = Peer::Shell(self.instance, self.epoch);
        let pipe = nature.pipes.open(nature.now, server, peer);
        self.pipe = Some(pipe);
        self.take(nature, ShellInput::Connected);
        pipe
    }

    /// The connection ended.
    pub fn disconnected(&mut self, nature: &mut Nature) {
        if self.pipe.take().is_some() {
            self.take(nature, ShellInput::Disconnected);
            nature.later(Delay::Retry, self.turn(ShellTurn::Connects));
        }
    }

    fn turn(&self, turn: ShellTurn) -> Happening {
        Happening::Shell(self.instance, self.epoch, turn)
    }

    /// The leader said something.
    pub fn told(&mut self, nature: &mut Nature, message: ToShell) -> Course {
        if let ToShell::Start(start) = &message
            && nature.breaks(Rule::ShellForgetsStarts)
            && self.book.state(&start.part).is_some()
        {
            let effects = broken::start_afresh(self.instance, self.epoch, start);
            return self.act(nature, effects);
        }
        if nature.breaks(Rule::RestartUnheard) && matches!(message, ToShell::Restart { .. }) {
            return Course::On;
        }
        self.take(nature, ShellInput::Broker(message))
    }

    /// Something happened to it.
    pub fn take(&mut self, nature: &mut Nature, input: ShellInput) -> Course {
        let reading = nature.clock(self.seat.machine);
        let clock = self
            .clock
            .get_or_insert_with(|| Clock::start(reading, Time(0)));
        let now = clock.now(reading);
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
                        nature.send(pipe, Side::Server, Parcel::FromShell(message));
                    }
                }
                ShellEffect::Spawn(spawn) => {
                    nature.later(Delay::Process, self.turn(ShellTurn::Spawns(spawn)));
                }
                ShellEffect::Signal(part, signal) => self.signal(nature, part, signal),
                ShellEffect::Pause(part, stop) => {
                    self.pausing.insert(part, stop);
                    nature.later(Delay::Process, self.turn(ShellTurn::Pauses(part, stop)));
                }
                ShellEffect::Proceed(part, cores) => self.proceed(nature, part, &cores),
                ShellEffect::EndLeader(part) => self.end_leader(nature, part),
                ShellEffect::Sweep(part) => {
                    nature.later(Delay::Process, self.turn(ShellTurn::Sweeps(part)));
                }
                ShellEffect::Drop => {
                    if let Some(pipe) = self.pipe {
                        nature.close(pipe, Side::Peer);
                        self.disconnected(nature);
                    }
                }
                ShellEffect::Exit => return Course::Exit,
                // Each start is under way already.
                ShellEffect::GiveUp(_)
                | ShellEffect::Forget(_)
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
        if behaviour.start == task::Start::Fails {
            let status = 127 << 8;
            nature.task_ended(self.instance, part, task, status);
            let note = "task: no such program".to_owned();
            self.take(nature, ShellInput::Failed(part, task, status, note));
            return;
        }
        self.begins(nature, spawn);
        let who = part_label(nature, self.instance, part);
        nature.note(|| format!("task {task} of {who} begins"));
        self.count += 1;
        let ends = nature.now.after(behaviour.run);
        let running = Task {
            start: Arc::clone(&spawn.start),
            does: Does::Waits(behaviour),
            end: self.count,
            status: behaviour.status(),
            pace: Pace::Until(ends),
        };
        self.tasks.insert((part, task), running);
        let end = self.turn(ShellTurn::TaskEnds(part, task, self.count));
        nature.queue.push(ends, end);
        self.take(nature, ShellInput::Spawned(part, task));
    }

    /// A task begins: what is true of it, for those who judge.
    fn begins(&self, nature: &mut Nature, spawn: &Spawn) {
        let shell = (self.instance, self.epoch);
        nature.task_begins(shell, &spawn.start, spawn.task);
    }

    /// The process that leads a child is made.
    pub fn leads(&mut self, nature: &mut Nature, spawn: &Spawn, child: InstanceId, life: Life) {
        let (part, task) = (spawn.start.part, spawn.task);
        self.begins(nature, spawn);
        self.count += 1;
        let running = Task {
            start: Arc::clone(&spawn.start),
            does: Does::Leads(child, life),
            end: self.count,
            status: 0,
            pace: Pace::Until(Time(i64::MAX)),
        };
        self.tasks.insert((part, task), running);
        self.take(nature, ShellInput::Spawned(part, task));
    }

    /// The process that led a child has ended.
    pub fn leader_ended(&mut self, nature: &mut Nature, process: Process, status: i32) {
        let Process {
            life, part, task, ..
        } = process;
        let ours = |task: &Task| matches!(task.does, Does::Leads(_, led) if led == life);
        if self.tasks.get(&(part, task)).is_some_and(ours) {
            self.tasks.remove(&(part, task));
            nature.task_ended(self.instance, part, task, status);
            self.take(nature, ShellInput::Exited(part, task, status));
        }
    }

    /// Sends a signal to all tasks of a part.
    fn signal(&mut self, nature: &mut Nature, part: Part, signal: i32) {
        let who = part_label(nature, self.instance, part);
        nature.note(|| format!("{who} gets signal {signal}"));
        if matches!(signal, SIGTERM | SIGKILL) {
            nature.oracle(self.instance).asked_to_end(part);
        }
        let range = (part, 0)..=(part, u32::MAX);
        for ((_, rank), task) in self.tasks.range_mut(range) {
            if task.status == SIGKILL {
                // It is dying already.
                continue;
            }
            let behaviour = match task.does {
                Does::Waits(behaviour) => behaviour,
                Does::Leads(child, life) => {
                    let signal = Happening::Child(child, life, ChildTurn::Signal(signal));
                    nature.later(Delay::Process, signal);
                    continue;
                }
            };
            let (after, status) = match (signal, behaviour.term) {
                (SIGTERM, OnTerm::Ignore) => continue,
                (SIGTERM, OnTerm::Exit(after)) => (after, 3 << 8),
                (SIGKILL | SIGTERM, _) => (nature.delay(Delay::Process), signal),
                // The other signals mean nothing to these tasks.
                _ => continue,
            };
            self.count += 1;
            (task.end, task.status) = (self.count, status);
            if let (Pace::Stopped(left), SIGTERM) = (&mut task.pace, signal) {
                // It heeds that when it goes on.
                *left = after;
                continue;
            }
            task.pace = Pace::Until(nature.now.after(after));
            let end = ShellTurn::TaskEnds(part, *rank, self.count);
            let end = Happening::Shell(self.instance, self.epoch, end);
            nature.queue.push(nature.now.after(after), end);
        }
    }

    /// Ends the leader that a part is, which hangs.
    fn end_leader(&self, nature: &mut Nature, part: Part) {
        let who = part_label(nature, self.instance, part);
        nature.note(|| format!("{who} hangs and is ended"));
        for (_, task) in self.tasks.range((part, 0)..=(part, u32::MAX)) {
            if let Does::Leads(child, life) = task.does {
                let hangs = Happening::Child(child, life, ChildTurn::Hangs);
                nature.later(Delay::Process, hangs);
            }
        }
    }

    /// Stops the tasks of a part, if they still are to be stopped.
    pub fn pauses(&mut self, nature: &mut Nature, part: Part, stop: u32) {
        if self.pausing.get(&part) != Some(&stop) {
            return;
        }
        self.pausing.remove(&part);
        let who = part_label(nature, self.instance, part);
        for ((_, rank), task) in self.tasks.range_mut((part, 0)..=(part, u32::MAX)) {
            let Pace::Until(ends) = task.pace else {
                continue;
            };
            if nature.breaks(Rule::PauseUnheard) || task.status == SIGKILL {
                continue;
            }
            self.count += 1;
            task.end = self.count;
            task.pace = Pace::Stopped(Span((ends - nature.now).0.max(0)));
            nature.tree.leaf_ends(self.instance, part, *rank);
        }
        nature.note(|| format!("{who} is stopped"));
        self.take(nature, ShellInput::Paused(part, stop));
    }

    /// Lets the tasks of a part go on, on these cores; on none that it could count on if it is to end.
    fn proceed(&mut self, nature: &mut Nature, part: Part, cores: &Idset) {
        self.pausing.remove(&part);
        let who = part_label(nature, self.instance, part);
        nature.note(|| format!("{who} goes on"));
        for ((_, rank), task) in self.tasks.range_mut((part, 0)..=(part, u32::MAX)) {
            let Pace::Stopped(left) = task.pace else {
                continue;
            };
            let ends = nature.now.after(left);
            task.pace = Pace::Until(ends);
            if !cores.is_empty() {
                Arc::make_mut(&mut task.start).cores = cores.clone();
                nature.tree.leaf_begins(self.instance, &task.start, *rank);
            }
            let end = ShellTurn::TaskEnds(part, *rank, task.end);
            let end = Happening::Shell(self.instance, self.epoch, end);
            nature.queue.push(ends, end);
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
        nature.task_ended(self.instance, part, task, status);
        let who = part_label(nature, self.instance, part);
        let code = eddy_wire::job::exit_code(status);
        nature.note(|| format!("task {task} of {who} ends with {code}"));
        self.take(nature, ShellInput::Exited(part, task, status));
    }
}
