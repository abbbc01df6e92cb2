//! Leaders of children that hang: nothing is heard of them for so long that they are begun anew.
//!
//! A leader that does not beat is away (`pulse`), and may go on. One that does not for `exec.hung_after` more is
//! ended by the shell that it is a task of, and started again as one that died: its jobs have run on, and
//! somebody has to keep their limits. Counted is only while this leader runs and hears that shell: whoever was
//! stopped itself, or cut off, knows nothing of what was said meanwhile. It ends nothing itself, and of a leader
//! that has not come so far as to say hello it judges nothing (doc/protocol/nesting.md).

use std::collections::VecDeque;

use eddy_broker::{Effect, Outbox, Volatile};
use eddy_wire::event::{Exception, Kind};
use eddy_wire::id::{Epoch, JobId};
use eddy_wire::lifecycle::JobState;
use eddy_wire::shell::{FromShell, Part, ToShell};
use eddy_wire::time::{MICROS, Span, Time};

use super::Nest;
use super::child::Child;

/// What exceptions that tell of it are of: those that end a job, and those that do not.
const HUNG: &str = "hung";
/// So many times within [`HANGS_SPAN`] are too many.
const HANGS_MAX: usize = 5;
/// In which time.
const HANGS_SPAN: Span = Span::seconds(600);
/// In so many steps silence is counted: a leader that was stopped itself has heard nothing in one of them.
const STEPS: i64 = 8;
const STEP_MAX: Span = Span::seconds(5);

/// What is known of a leader that has no channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    /// It begins, and how long that takes nobody knows.
    Begins,
    /// It said hello, and nothing was heard since for so long.
    Silent {
        listened: Span,
        /// Of that, when its shell was told last.
        said: Span,
    },
}

impl Default for Hearing {
    /// What its next hello may be.
    fn default() -> Hearing {
        Hearing::Silent {
            listened: Span(0),
            said: Span(0),
        }
    }
}

impl Hearing {
    /// Of one that says hello. Before it leads it asks for what it has, and does not beat yet.
    pub(super) fn of_hello(beat: Option<Span>) -> Hearing {
        match beat {
            Some(_) => Hearing::default(),
            None => Hearing::Begins,
        }
    }

    /// It was not heard for another step; for how long not, if its shell is to be told now.
    fn silent_for(&mut self, step: Span, hung_after: Span) -> Option<Span> {
        let Hearing::Silent { listened, said } = self else {
            return None;
        };
        listened.0 = listened.0.saturating_add(step.0);
        let is_due = listened.0 - said.0 >= hung_after.0;
        is_due.then(|| {
            *said = *listened;
            *listened
        })
    }
}

/// How often the leader of an attempt hung.
#[derive(Debug, Default)]
pub(super) struct Hangs(VecDeque<Time>);

impl Hangs {
    /// It did, by what is recorded.
    pub(super) fn add(&mut self, t: Time) {
        self.0.push_back(t);
        while self.0.front().is_some_and(|hung| *hung + HANGS_SPAN < t) {
            self.0.pop_front();
        }
    }
}

/// Whether an exception tells that a leader hung; users name theirs as they like.
pub(super) fn tells(exception: &Exception) -> bool {
    exception.kind == HUNG && exception.userid.is_none()
}

/// Why an instance ends, if it does since its leader hung too often.
pub(crate) fn ends(exception: &Exception) -> Option<&str> {
    (tells(exception) && exception.severity == 0).then_some(exception.note.as_str())
}

fn exception(severity: u8, note: String) -> Kind {
    Kind::Exception(Box::new(Exception {
        kind: HUNG.to_owned(),
        severity,
        note,
        userid: None,
        until: None,
    }))
}

impl Child {
    /// The part that its leader is, and the shell that started it, where silence is counted.
    fn watched(&self) -> Option<(Part, Epoch)> {
        let is_silent = self.job.state == JobState::Run && self.told.channel.is_none();
        // Before its first hello it begins.
        self.adoption().filter(|_| is_silent)?;
        let (rank, shell) = self.job.grant()?.shells.first_key_value()?;
        let part = Part {
            job: self.job.id,
            attempt: self.job.attempt,
            rank: *rank,
        };
        Some((part, *shell))
    }
}

impl Nest {
    /// A shell is heard.
    pub(super) fn heard(&mut self, now: Time, shell: Epoch, word: &FromShell, out: &mut Outbox) {
        match word {
            FromShell::Hello { .. } => {
                self.shells.insert(shell);
                self.listen(now, out);
            }
            FromShell::Restarted { part, silent } => self.restarted(now, *part, *silent, out),
            _ => {}
        }
    }

    /// A shell is not: what it leads may be cut off as it is.
    pub(super) fn unheard(&mut self, shell: Epoch) {
        self.shells.remove(&shell);
        for child in self.children.values_mut() {
            let is_its = child.watched().is_some_and(|(_, of)| of == shell);
            if is_its && child.told.hearing != Hearing::Begins {
                child.told.hearing = Hearing::default();
            }
        }
    }

    /// Looks again in a while, if anybody is silent.
    pub(super) fn listen(&mut self, now: Time, out: &mut Outbox) {
        let Some(step) = self.hung_after.map(step) else {
            return;
        };
        let mut children = self.children.values();
        let is_any = children.any(|child| {
            let shell = child.watched().filter(|(_, of)| self.shells.contains(of));
            shell.is_some() && child.told.hearing != Hearing::Begins
        });
        if is_any && self.listens.is_none() {
            self.listens = Some(now.after(step));
            out.volatile(Volatile::Wake(now.after(step)));
        }
    }

    /// Has leaders started again of which nothing was heard for too long.
    pub(super) fn end_hung(&mut self, now: Time, out: &mut Outbox) {
        let is_due = self.listens.is_some_and(|at| at <= now);
        let Some(hung_after) = self.hung_after.filter(|_| is_due) else {
            return;
        };
        self.listens = None;
        for child in self.children.values_mut() {
            let shell = child.watched().filter(|(_, of)| self.shells.contains(of));
            let Some((part, shell)) = shell else {
                continue;
            };
            if let Some(silent) = child.told.hearing.silent_for(step(hung_after), hung_after) {
                out.effect(Effect::Shell(shell, ToShell::Restart { part, silent }));
            }
        }
        self.listen(now, out);
    }

    /// Its shell has ended a leader that hung: that is recorded, for who looks, and for how often it was.
    fn restarted(&mut self, now: Time, part: Part, silent: Span, out: &mut Outbox) {
        let its = |child: &&mut Child| child.job.attempt == part.attempt;
        let Some(child) = self.children.get_mut(&part.job).filter(its) else {
            return;
        };
        if child.told.channel.is_none() {
            child.told.hearing = Hearing::Begins;
        }
        if child.job.state == JobState::Run {
            let seconds = silent.0 / MICROS;
            let note = format!("its leader hung, silent for {seconds} s, and was started again");
            out.append(now, part.job, exception(1, note));
        }
    }

    /// That is recorded: too often is too often.
    pub(super) fn hung(&self, now: Time, job: JobId, kind: &Kind, out: &mut Outbox) {
        let Some(child) = self.children.get(&job) else {
            return;
        };
        let is_told = matches!(kind, Kind::Exception(e) if e.severity > 0 && tells(e));
        if is_told && child.job.state == JobState::Run && child.hangs.0.len() >= HANGS_MAX {
            let minutes = HANGS_SPAN.0 / MICROS / 60;
            let note = format!("its leader hung {HANGS_MAX} times within {minutes} minutes");
            out.append(now, job, exception(0, note));
        }
    }
}

/// How long it is between two looks.
fn step(hung_after: Span) -> Span {
    Span(hung_after.0 / STEPS).clamp(Span(1), STEP_MAX)
}
