//! One part that a shell holds: what runs of it, and what it came to.
//!
//! Used by the book. It decides when a part is over and when a leader is started
//! again; it names no process.

use std::collections::{BTreeMap, VecDeque};

use eddy_wire::idset::Idset;
use eddy_wire::job::exit_code;
use eddy_wire::shell::{
    Ended, FromShell, Occasion, Part, PartState, RESTART_WINDOW, RESTARTS_MAX, Role,
};
use eddy_wire::time::{MICROS, Span, Time};

use super::{SIGKILL, SIGTERM, ShellEffect, Spawn};

/// One part held.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Held {
    Live(Live),
    Ended(Ended),
}

/// A part that is not over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Live {
    pub(super) role: Role,
    ntasks: u32,
    work: Work,
    /// Tasks whose spawn is not answered yet.
    pub(super) starting: u32,
    starts: Starts,
    /// Tasks that run.
    pub(super) running: u32,
    /// When all had been started.
    started: Option<Time>,
    /// Wait status of each task that ended.
    pub(super) ended: BTreeMap<u32, i32>,
    note: Option<String>,
    /// Signals that came before the tasks ran.
    pending: Vec<i32>,
    /// What it was told last since its attempt ends.
    end: Option<i32>,
    pace: Pace,
    /// Of the process of a leader.
    life: LeaderLife,
}

/// Whether its tasks may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Goes,
    /// They are being stopped, for that time.
    Stopping(u32),
    Stopped(u32),
}

/// Whether more of its tasks are to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Starts {
    Wanted,
    /// They are not: the wait status in place of those that are not started.
    GivenUp(i32),
    /// And some were not.
    Left(i32),
}

/// What a part lives by.
#[derive(Clone, Debug, PartialEq)]
enum Work {
    /// Its tasks: when they have ended it is over. So it is with a leader that
    /// was asked to end, and with ground that was killed.
    Tasks,
    /// A leader: what to start again when it dies, and when it did so lately.
    Leader {
        again: Box<Spawn>,
        deaths: VecDeque<Time>,
    },
    /// It is held until it is killed.
    Ground,
}

/// A life of a leader's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaderLife {
    /// It is being started.
    Begins,
    /// It runs since then.
    Runs(Time),
    /// It was ended since nothing was heard of it for so long.
    Hangs(Span),
}

impl Held {
    pub(super) fn state(&self) -> PartState {
        match self {
            Held::Live(Live { started: None, .. }) => PartState::Starting,
            Held::Live(Live {
                started: Some(t), ..
            }) => PartState::Running { t: *t },
            Held::Ended(ended) => PartState::Ended(ended.clone()),
        }
    }

    pub(super) fn news(&self, part: Part) -> Option<FromShell> {
        match self.state() {
            PartState::Starting => None,
            PartState::Running { t } => Some(FromShell::Started { part, t }),
            PartState::Ended(ended) => Some(FromShell::Ended { part, ended }),
        }
    }
}

impl Live {
    /// A part whose tasks are about to be started; `first` is the first of them.
    pub(super) fn of_tasks(first: &Spawn) -> Live {
        let ntasks = first.start.ntasks;
        let work = match first.start.role {
            Role::Leader => Work::Leader {
                again: Box::new(first.clone()),
                deaths: VecDeque::new(),
            },
            Role::Tasks | Role::Ground => Work::Tasks,
        };
        Live {
            role: first.start.role,
            ntasks,
            work,
            starting: ntasks,
            starts: Starts::Wanted,
            running: 0,
            started: None,
            ended: BTreeMap::new(),
            note: None,
            pending: Vec::new(),
            end: None,
            pace: Pace::Goes,
            life: LeaderLife::Begins,
        }
    }

    /// Ground, which is there at once.
    pub(super) fn ground(now: Time, part: Part, out: &mut Vec<ShellEffect>) -> Live {
        out.push(ShellEffect::Send(FromShell::Started { part, t: now }));
        Live {
            role: Role::Ground,
            ntasks: 0,
            work: Work::Ground,
            starting: 0,
            starts: Starts::Wanted,
            running: 0,
            started: Some(now),
            ended: BTreeMap::new(),
            note: None,
            pending: Vec::new(),
            end: None,
            pace: Pace::Goes,
            life: LeaderLife::Begins,
        }
    }

    /// Stops its tasks. Neither leaders nor ground are: what they hold goes on elsewhere.
    pub(super) fn pause(&mut self, part: Part, stop: u32, out: &mut Vec<ShellEffect>) {
        match (self.pace, self.role) {
            (_, Role::Leader | Role::Ground) => {}
            // It did not go on since, for whichever time it was stopped.
            (Pace::Stopped(_), Role::Tasks) => {
                self.pace = Pace::Stopped(stop);
                out.push(ShellEffect::Send(FromShell::Paused { part, stop }));
            }
            (Pace::Goes | Pace::Stopping(_), Role::Tasks) => {
                self.pace = Pace::Stopping(stop);
                out.push(ShellEffect::Pause(part, stop));
            }
        }
    }

    /// They are stopped, if they still are to be.
    pub(super) fn paused(&mut self, part: Part, stop: u32, out: &mut Vec<ShellEffect>) {
        if self.pace == Pace::Stopping(stop) {
            self.pace = Pace::Stopped(stop);
            out.push(ShellEffect::Send(FromShell::Paused { part, stop }));
        }
    }

    /// Lets its tasks go on.
    pub(super) fn proceed(&mut self, part: Part, cores: Idset, out: &mut Vec<ShellEffect>) {
        match self.pace {
            Pace::Goes => {}
            Pace::Stopping(_) | Pace::Stopped(_) => {
                self.pace = Pace::Goes;
                out.push(ShellEffect::Proceed(part, cores));
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        let holds = self.work == Work::Ground;
        self.starting == 0 && self.running == 0 && !holds
    }

    /// A task's process is there.
    pub(super) fn spawned(&mut self, now: Time) {
        self.starting -= 1;
        self.running += 1;
        self.life = LeaderLife::Runs(now);
    }

    /// Its leader was not heard for so long, and hangs if it is the one that was not: what began since has had
    /// less time to be heard, however long it takes to begin. One that was asked to end does so by that.
    pub(super) fn restart(
        &mut self,
        now: Time,
        (part, silent): (Part, Span),
        out: &mut Vec<ShellEffect>,
    ) {
        let is_old = |since| now - since >= within_clocks(silent);
        match self.life {
            LeaderLife::Runs(since) if self.role == Role::Leader && is_old(since) => {
                self.life = LeaderLife::Hangs(silent);
                out.push(ShellEffect::EndLeader(part));
            }
            LeaderLife::Begins | LeaderLife::Runs(_) | LeaderLife::Hangs(_) => {}
        }
    }

    /// A task could not be started. A job whose tasks cannot all run is of no use
    /// to its user, so the others end, and those not started yet are not.
    pub(super) fn failed(
        &mut self,
        part: Part,
        (task, status): (u32, i32),
        note: String,
        out: &mut Vec<ShellEffect>,
    ) {
        self.starting -= 1;
        self.ended.insert(task, status);
        self.note.get_or_insert(note);
        self.work = Work::Tasks;
        self.pending.push(SIGKILL);
        self.give_up(part, status, out);
    }

    /// No more tasks of it are started: each start may take seconds, and what is started is killed.
    fn give_up(&mut self, part: Part, status: i32, out: &mut Vec<ShellEffect>) {
        if self.starting > 0 && self.starts == Starts::Wanted {
            self.starts = Starts::GivenUp(status);
            out.push(ShellEffect::GiveUp(part));
        }
    }

    /// A task was not started since it was given up.
    pub(super) fn given_up(&mut self, task: u32) {
        let (Starts::GivenUp(status) | Starts::Left(status)) = self.starts else {
            panic!("task {task} was given up and is wanted");
        };
        self.starts = Starts::Left(status);
        self.starting -= 1;
        self.ended.insert(task, status);
    }

    /// A signal for the part: kept while tasks are being started. A leader that
    /// is asked to end is not started again; ground hears of nothing but its end.
    pub(super) fn signalled(
        &mut self,
        part: Part,
        (signal, occasion): (i32, Occasion),
        out: &mut Vec<ShellEffect>,
    ) {
        let before = match occasion {
            Occasion::Asked => None,
            Occasion::End => self.end.replace(signal),
        };
        if before == Some(signal) && signal != SIGKILL {
            return;
        }
        match (&self.work, signal) {
            (Work::Ground, SIGKILL) => {
                self.work = Work::Tasks;
                return out.push(ShellEffect::Sweep(part));
            }
            (Work::Ground, _) => return,
            (Work::Leader { .. }, SIGKILL | SIGTERM) => self.work = Work::Tasks,
            (Work::Leader { .. } | Work::Tasks, _) => {}
        }
        if self.starting > 0 {
            self.pending.push(signal);
            if signal == SIGKILL {
                self.give_up(part, SIGKILL, out);
            }
        } else {
            out.push(ShellEffect::Signal(part, signal));
        }
    }

    /// A task ended: the same once more, if it was a leader that nobody asked
    /// to end and that does not keep dying.
    pub(super) fn again(
        &mut self,
        now: Time,
        (part, task, status): (Part, u32, i32),
        out: &mut Vec<ShellEffect>,
    ) -> Option<Spawn> {
        let signal = death(status)?;
        let Work::Leader { again, deaths } = &mut self.work else {
            return None;
        };
        let ended = std::mem::replace(&mut self.life, LeaderLife::Begins);
        deaths.retain(|t| now - *t < RESTART_WINDOW);
        deaths.push_back(now);
        if deaths.len() <= RESTARTS_MAX {
            if let LeaderLife::Hangs(silent) = ended {
                out.push(ShellEffect::Send(FromShell::Restarted { part, silent }));
            }
            let spawn = (**again).clone();
            self.starts = Starts::Wanted;
            return Some(Spawn { task, ..spawn });
        }
        let (times, within) = (deaths.len(), RESTART_WINDOW.0 / MICROS);
        let note = format!(
            "its leader died {times} times within {within} s, the last time by signal {signal}"
        );
        self.note.get_or_insert(note);
        self.work = Work::Tasks;
        None
    }

    /// Called when a spawn was answered: tells of the start once all are, and
    /// lets the signals through that waited for it.
    pub(super) fn all_started(&mut self, now: Time, part: Part, out: &mut Vec<ShellEffect>) {
        if self.starting > 0 {
            return;
        }
        let all_run = self.note.is_none() && !matches!(self.starts, Starts::Left(_));
        if all_run && self.started.is_none() {
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

    pub(super) fn end(&self, now: Time) -> Ended {
        let worst = self.ended.values().copied().max_by_key(|s| exit_code(*s));
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

/// The least that was so long by another clock: each may follow a wall clock that was set, at 50 per mille.
fn within_clocks(span: Span) -> Span {
    Span(span.0 - span.0 / 10)
}

/// By which signal a leader died, if this status says that it did and not that
/// it ended: its exit code may be any, that of the program it was started for.
fn death(status: i32) -> Option<i32> {
    Some(status & 0x7f).filter(|signal| *signal != 0)
}
