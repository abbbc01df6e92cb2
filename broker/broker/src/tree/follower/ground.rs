//! What a rank hosts for children, and the ground under each: the part of the
//! job that the child is, which a shell of this rank holds.
//!
//! Part of [`super::Follower`]. A rank of a child is hosted only while its ground
//! is held here, by the shell's own word. What says that ground is over is told
//! to the leader only when the driver has ended what was hosted on it: else the
//! leader would give to somebody what a shell, started there a moment before,
//! still uses. It holds no clock and starts nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use eddy_wire::id::{Attempt, Epoch, JobId};
use eddy_wire::shell::{FromShell, Part, PartState};
use eddy_wire::tree::{HOSTED_MAX, HostOrder};

use super::FollowerOutput;

/// Words of shells that wait at most; a shell that says more is closed, and says
/// what matters with its next hello.
const SAID_MAX: usize = 1024;

/// A job in one attempt: what ground belongs to.
type Ground = (JobId, Attempt);

/// What is heard of a shell.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Word(Epoch, FromShell),
    Away(Epoch),
    Dead(Epoch),
}

/// What a follower does beyond the words themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// The shell's word tells which ground is held.
    Shell,
    /// Shells of this node speak to the leader: its orders are enough.
    Leader,
}

#[derive(Debug)]
pub(super) struct Grounds {
    trust: Trust,
    /// What each connected shell holds.
    held: BTreeMap<Epoch, BTreeSet<Ground>>,
    hosted: BTreeMap<String, Hosting>,
    /// Heard and not told yet, in order: the first waits for an end.
    said: VecDeque<Said>,
}

#[derive(Debug)]
struct Hosting {
    order: Box<HostOrder>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Ordered; nobody has said that its ground is held.
    Waits,
    /// On ground of that shell (`None`: by the leader's word).
    On(Option<Epoch>),
    /// The driver ends it; what is ordered after it.
    Ends(Option<Epoch>, Option<Box<HostOrder>>),
}

impl Hosting {
    fn ground(&self) -> Ground {
        (self.order.job, self.order.attempt)
    }

    /// Whether that says that the ground under it is over.
    fn is_ended_by(&self, said: &Said) -> bool {
        let shell = match self.stage {
            Stage::Waits => return false,
            Stage::On(shell) | Stage::Ends(shell, _) => shell,
        };
        match said {
            Said::Word(epoch, FromShell::Hello { parts, .. }) => {
                let ground = self.ground();
                let holds = |(part, state): &(Part, PartState)| {
                    !matches!(state, PartState::Ended(_)) && ground_of(part) == ground
                };
                shell == Some(*epoch) && !parts.iter().any(holds)
            }
            Said::Word(epoch, FromShell::Ended { part, .. } | FromShell::NotMine { part, .. }) => {
                shell == Some(*epoch) && ground_of(part) == self.ground()
            }
            Said::Word(
                _,
                FromShell::Started { .. }
                | FromShell::Paused { .. }
                | FromShell::Restarted { .. }
                | FromShell::Took { .. }
                | FromShell::Output { .. },
            ) => false,
            Said::Away(_) => false,
            Said::Dead(epoch) => shell == Some(*epoch),
        }
    }
}

impl Grounds {
    pub(super) fn new(trust: Trust) -> Grounds {
        Grounds {
            trust,
            held: BTreeMap::new(),
            hosted: BTreeMap::new(),
            said: VecDeque::new(),
        }
    }

    /// What is hosted or to be: instance, job and attempt.
    pub(super) fn hosted(&self) -> Vec<(String, JobId, Attempt)> {
        let order = |hosting: &Hosting| match &hosting.stage {
            Stage::Waits | Stage::On(_) => Some(hosting.order.clone()),
            Stage::Ends(_, next) => next.clone(),
        };
        let orders = self.hosted.values().filter_map(order);
        orders.map(|o| (o.instance, o.job, o.attempt)).collect()
    }

    /// A tenure begins: all shells are closed and say again what they hold, and
    /// the leader asks again for those that are dead.
    pub(super) fn forget_shells(&mut self) {
        self.held.clear();
        self.said.clear();
    }

    /// The leader's order.
    pub(super) fn host(&mut self, order: Box<HostOrder>, out: &mut Vec<FollowerOutput>) {
        let known = self.hosted.len();
        match self.hosted.get_mut(&order.instance) {
            // The leader hears with its next tenure that it is not hosted.
            None if known >= HOSTED_MAX => {}
            None => {
                let stage = Stage::Waits;
                let name = order.instance.clone();
                self.hosted.insert(name, Hosting { order, stage });
            }
            Some(hosting) => {
                // A node that left a child and came again is another rank of it.
                let is_same = hosting.ground() == (order.job, order.attempt)
                    && hosting.order.rank == order.rank;
                match &mut hosting.stage {
                    Stage::Waits => hosting.order = order,
                    Stage::On(_) if is_same => {
                        hosting.order = order.clone();
                        out.push(FollowerOutput::Host(order));
                    }
                    Stage::On(shell) => {
                        out.push(FollowerOutput::Unhost(order.instance.clone()));
                        hosting.stage = Stage::Ends(*shell, Some(order));
                    }
                    Stage::Ends(_, next) => *next = Some(order),
                }
            }
        }
        self.begin(out);
    }

    /// The leader's order to host it no more.
    pub(super) fn unhost(&mut self, instance: &str, out: &mut Vec<FollowerOutput>) {
        let Some(hosting) = self.hosted.get_mut(instance) else {
            return;
        };
        match &mut hosting.stage {
            Stage::Waits => drop(self.hosted.remove(instance)),
            Stage::On(shell) => {
                hosting.stage = Stage::Ends(*shell, None);
                out.push(FollowerOutput::Unhost(instance.to_owned()));
            }
            Stage::Ends(_, next) => *next = None,
        }
    }

    /// The driver has ended it and all that was started within it. Beside the leader that is to
    /// be told: on which ground.
    pub(super) fn ended(&mut self, instance: &str) -> Option<(JobId, Attempt)> {
        let hosting = self.hosted.get_mut(instance)?;
        let ground = hosting.ground();
        let Stage::Ends(_, next) = &mut hosting.stage else {
            return None;
        };
        match next.take() {
            None => drop(self.hosted.remove(instance)),
            Some(order) => {
                let stage = Stage::Waits;
                *hosting = Hosting { order, stage };
            }
        }
        match self.trust {
            Trust::Leader => Some(ground),
            // The shell's word of its end, which waited, says as much.
            Trust::Shell => None,
        }
    }

    /// Something is heard of a shell: [`Grounds::next`] gives what may be told.
    /// A shell for which there is no room is to be closed.
    pub(super) fn hear(&mut self, said: Said) -> Option<Epoch> {
        let full = self.said.len() >= SAID_MAX;
        if let (true, Said::Word(epoch, _)) = (full, &said) {
            let closed = *epoch;
            let of_it = |said: &Said| matches!(said, Said::Word(epoch, _) if *epoch == closed);
            self.said.retain(|said| !of_it(said));
            self.said.push_back(Said::Away(closed));
            return Some(closed);
        }
        self.said.push_back(said);
        None
    }

    /// The next that may be told; before what says that ground is over, what is
    /// hosted there is ended.
    pub(super) fn next(&mut self, out: &mut Vec<FollowerOutput>) -> Option<Said> {
        let first = self.said.front()?;
        let mut waits = false;
        for (instance, hosting) in &mut self.hosted {
            if !hosting.is_ended_by(first) {
                continue;
            }
            waits = true;
            if let Stage::On(shell) = hosting.stage {
                hosting.stage = Stage::Ends(shell, None);
                out.push(FollowerOutput::Unhost(instance.clone()));
            }
        }
        if waits {
            return None;
        }
        let first = self.said.pop_front()?;
        self.fold(&first);
        Some(first)
    }

    fn fold(&mut self, said: &Said) {
        match said {
            Said::Away(epoch) | Said::Dead(epoch) => drop(self.held.remove(epoch)),
            Said::Word(epoch, FromShell::Hello { parts, .. }) => {
                self.held.insert(*epoch, BTreeSet::new());
                for (part, state) in parts {
                    match state {
                        PartState::Starting => {}
                        PartState::Running { .. } => self.holds(*epoch, part),
                        PartState::Ended(_) => self.over(*epoch, part),
                    }
                }
            }
            Said::Word(epoch, FromShell::Started { part, .. }) => self.holds(*epoch, part),
            Said::Word(epoch, FromShell::Ended { part, .. } | FromShell::NotMine { part, .. }) => {
                self.over(*epoch, part);
            }
            Said::Word(
                _,
                FromShell::Paused { .. }
                | FromShell::Restarted { .. }
                | FromShell::Took { .. }
                | FromShell::Output { .. },
            ) => {}
        }
    }

    fn holds(&mut self, epoch: Epoch, part: &Part) {
        self.held.entry(epoch).or_default().insert(ground_of(part));
    }

    fn over(&mut self, epoch: Epoch, part: &Part) {
        let ground = ground_of(part);
        if let Some(held) = self.held.get_mut(&epoch) {
            held.remove(&ground);
        }
        let is_late =
            |hosting: &Hosting| matches!(hosting.stage, Stage::Waits) && hosting.ground() == ground;
        self.hosted.retain(|_, hosting| !is_late(hosting));
    }

    /// Begins what was ordered and has its ground now.
    pub(super) fn begin(&mut self, out: &mut Vec<FollowerOutput>) {
        if !self.said.is_empty() {
            // What waits may say that the ground is over.
            return;
        }
        for hosting in self.hosted.values_mut() {
            let ground = hosting.ground();
            let holder = self.held.iter().find(|(_, held)| held.contains(&ground));
            let shell = match (self.trust, holder) {
                (Trust::Leader, _) => None,
                (Trust::Shell, Some((shell, _))) => Some(*shell),
                (Trust::Shell, None) => continue,
            };
            if matches!(hosting.stage, Stage::Waits) {
                hosting.stage = Stage::On(shell);
                out.push(FollowerOutput::Host(hosting.order.clone()));
            }
        }
    }
}

fn ground_of(part: &Part) -> Ground {
    (part.job, part.attempt)
}
