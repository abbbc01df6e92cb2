//! What the agent of the leader's own node hosts, and what shells of that node say of the ground
//! under it.
//!
//! Part of [`super::Head`]. Those shells speak past the agent: that ground is over waits here until
//! the agent has said that it hosts nothing there any more, and has ended what it started. Else
//! somebody would be given what a shell, started there a moment before, still uses. An agent that
//! hangs holds it up for [`PATIENCE`], one that is not reached not at all. It holds no clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::shell::{FromShell, Part, PartState};
use eddy_wire::time::{Span, Time};
use eddy_wire::tree::{ATTENDANT, HostOrder, Word};

use super::{Head, HeadOutput, Routed, State};
use crate::broker::Arrival;

/// How long what a shell said waits for the agent at most: it takes a rank of another user 5 s to
/// end that does not heed TERM, and what it started is ended after it.
const PATIENCE: Span = Span::seconds(10);
/// Words that wait at most, each about ground; one more, and the first is told.
const HELD_MAX: usize = 1024;

/// A job in one attempt: what ground belongs to.
type Ground = (JobId, Attempt);

/// What is hosted there and what waits for it.
#[derive(Debug, Default)]
pub(super) struct Beside {
    hosted: BTreeMap<String, Hosting>,
    /// Ordered to be hosted no more, and not heard to be.
    leaving: BTreeSet<Ground>,
    /// The shell that said hello last: what is hosted here is on ground that it holds.
    shell: Option<Epoch>,
    held: VecDeque<Held>,
}

#[derive(Debug)]
struct Hosting {
    ground: Ground,
    /// Said again when the agent is reached anew; none where an earlier leader ordered it.
    order: Option<Box<HostOrder>>,
}

/// Said by a shell and not told yet.
#[derive(Debug)]
struct Held {
    arrival: Arrival,
    until: Time,
    /// The ground that it is about.
    grounds: BTreeSet<Ground>,
}

impl Beside {
    pub(super) fn orders(&self) -> impl Iterator<Item = Box<HostOrder>> {
        let hosted = self.hosted.values();
        hosted.filter_map(|hosting| hosting.order.clone())
    }

    fn host(&mut self, order: Box<HostOrder>) {
        let ground = (order.job, order.attempt);
        let hosting = Hosting {
            ground,
            order: Some(order.clone()),
        };
        let before = self.hosted.insert(order.instance, hosting);
        // It is ended before the other begins.
        let before = before.map(|before| before.ground);
        self.leaving
            .extend(before.filter(|before| *before != ground));
    }

    fn unhost(&mut self, instance: &str) {
        let left = self.hosted.remove(instance);
        self.leaving.extend(left.map(|hosting| hosting.ground));
    }

    /// What the agent says it hosts; an earlier leader may have ordered it.
    pub(super) fn hosts(&mut self, hosted: &[(String, JobId, Attempt)]) {
        for (instance, job, attempt) in hosted {
            let ground = (*job, *attempt);
            let hosting = Hosting {
                ground,
                order: None,
            };
            self.hosted.entry(instance.clone()).or_insert(hosting);
        }
    }

    /// The agent hosts nothing on that ground any more.
    pub(super) fn unhosted(&mut self, job: JobId, attempt: Attempt) {
        self.leaving.remove(&(job, attempt));
    }

    /// The agent is not reached: nothing waits for it, and what it hosts it says again.
    pub(super) fn lost(&mut self) {
        self.leaving.clear();
        self.hosted.retain(|_, hosting| hosting.order.is_some());
    }

    /// Takes what a shell said; the instances that are to be hosted no more for that.
    fn hear(&mut self, now: Time, arrival: Arrival) -> Vec<String> {
        match &arrival {
            Arrival::Shell(epoch, FromShell::Hello { .. }) => self.shell = Some(*epoch),
            // What it said it says again with its next hello, or it is dead.
            Arrival::ShellAway(epoch) => {
                self.held
                    .retain(|held| shell_of(&held.arrival) != Some(*epoch));
            }
            _ => {}
        }
        let is_full = self.held.len() >= HELD_MAX;
        let grounds = self.over_by(&arrival);
        let over = |(_, hosting): &(&String, &Hosting)| grounds.contains(&hosting.ground);
        let over: Vec<String> = self
            .hosted
            .iter()
            .filter(over)
            .map(|(i, _)| i.clone())
            .collect();
        over.iter().for_each(|instance| self.unhost(instance));
        if let Some(first) = self.held.front_mut().filter(|_| is_full) {
            first.until = now;
        }
        self.held.push_back(Held {
            arrival,
            until: now.after(PATIENCE),
            grounds,
        });
        over
    }

    /// The ground, of that which is in use here, that is over by that word.
    fn over_by(&self, arrival: &Arrival) -> BTreeSet<Ground> {
        let hosted = self.hosted.values().map(|hosting| hosting.ground);
        let mut used: BTreeSet<Ground> = hosted.chain(self.leaving.iter().copied()).collect();
        match arrival {
            Arrival::Shell(_, FromShell::Ended { part, .. } | FromShell::NotMine { part, .. }) => {
                used.retain(|ground| *ground == ground_of(part));
            }
            Arrival::Shell(_, FromShell::Hello { parts, .. }) => {
                let over = |(part, state): &(Part, PartState)| {
                    matches!(state, PartState::Ended(_)).then(|| ground_of(part))
                };
                let over: BTreeSet<Ground> = parts.iter().filter_map(over).collect();
                used.retain(|ground| over.contains(ground));
            }
            // A death may be told again when another shell is there already.
            Arrival::ShellDead(epoch) if self.shell == Some(*epoch) => {}
            _ => used.clear(),
        }
        used
    }

    /// What may be told now, and when to ask again.
    fn told(&mut self, now: Time) -> (Vec<Arrival>, Option<Time>) {
        let mut told = Vec::new();
        let mut behind: BTreeSet<Epoch> = BTreeSet::new();
        for held in std::mem::take(&mut self.held) {
            let shell = shell_of(&held.arrival);
            if held.until <= now {
                self.leaving.retain(|ground| !held.grounds.contains(ground));
            }
            let is_behind = shell.is_some_and(|shell| behind.contains(&shell));
            if is_behind || !held.grounds.is_disjoint(&self.leaving) {
                // Nobody can be told of parts of a shell that has not said which it holds.
                if matches!(held.arrival, Arrival::Shell(_, FromShell::Hello { .. })) {
                    behind.extend(shell);
                }
                self.held.push_back(held);
            } else {
                told.push(held.arrival);
            }
        }
        (told, self.held.iter().map(|held| held.until).min())
    }
}

impl Head {
    /// A shell of this node said something, its connection ended, or it is dead.
    pub fn own_shell(&mut self, now: Time, arrival: Arrival) -> HeadOutput {
        let mut out = HeadOutput::default();
        for instance in self.beside.hear(now, arrival) {
            out.letters
                .extend(self.write(ATTENDANT, Word::Unhost { instance }));
        }
        let agent = self.ranks.get(&ATTENDANT);
        if !agent.is_some_and(|agent| matches!(agent.state, State::Reached)) {
            self.beside.lost();
        }
        self.tell_of_own(now, &mut out);
        out
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) -> HeadOutput {
        let mut out = HeadOutput::default();
        self.tell_of_own(now, &mut out);
        out
    }

    /// Tells what shells of this node said and what needs wait no more.
    pub(super) fn tell_of_own(&mut self, now: Time, out: &mut HeadOutput) {
        let (told, wake) = self.beside.told(now);
        out.own.extend(told);
        out.wake = wake;
    }

    /// An order to host, for whoever hosts on that rank's node.
    pub(super) fn route_host(&mut self, rank: Rank, order: Box<HostOrder>) -> Routed {
        let rank = self.host_of(rank);
        if rank == ATTENDANT {
            self.beside.host(order.clone());
        }
        self.sent(rank, Word::Host(order))
    }

    /// An order to host no more.
    pub(super) fn route_unhost(&mut self, rank: Rank, instance: String) -> Routed {
        let rank = self.host_of(rank);
        if rank == ATTENDANT {
            self.beside.unhost(&instance);
        }
        self.sent(rank, Word::Unhost { instance })
    }

    /// Whose agent hosts on the node of that rank.
    fn host_of(&self, rank: Rank) -> Rank {
        match self.local.contains(rank.0) {
            true => ATTENDANT,
            false => rank,
        }
    }
}

fn ground_of(part: &Part) -> Ground {
    (part.job, part.attempt)
}

/// Whose connection it is about.
fn shell_of(arrival: &Arrival) -> Option<Epoch> {
    match arrival {
        Arrival::Shell(epoch, _) => Some(*epoch),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
