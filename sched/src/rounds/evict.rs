//! Who is put back at the beginning of a round, and again where more urgent jobs
//! were placed over them.
//!
//! What is put back returns to its account, may only go where it was, and comes
//! before anything that waits. A gang is put back whole. Called once before the
//! walk over the accounts and once after it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::outcome::Method;
use super::round::{Counting, Phase, Round};
use super::state::Service;
use crate::policy::{Class, Preference};

impl Round<'_> {
    /// Puts back what runs in classes that allow it, of accounts above the protected fraction of
    /// what they are due.
    pub(super) fn put_back(&mut self) {
        let over: Vec<bool> = self
            .lines
            .iter()
            .map(|line| self.cost(&line.has) > self.protected * line.due)
            .collect();
        let back: BTreeSet<u32> = (0..self.tasks.len() as u32)
            .filter(|&task| {
                let line = self.tasks[task as usize].line;
                line.is_some_and(|line| over[line as usize])
                    && self.may_evict(task, |class| class.fair_share_preemptible)
            })
            .collect();
        self.evict_all(back);
        self.set_order();
    }

    /// Puts back what no longer has room under what was placed over it, and places of it again
    /// what fits, the more urgent first.
    pub(super) fn resolve(&mut self) {
        let mut short: BTreeMap<u32, Vec<bool>> = BTreeMap::new();
        for &node in self.urgent.keys() {
            let below = |level| self.field.free(node, level).iter().any(|free| free < 0);
            let levels: Vec<bool> = (0..self.field.levels())
                .map(|at| at > 0 && below(at))
                .collect();
            if levels.contains(&true) {
                short.insert(node, levels);
            }
        }
        if short.is_empty() {
            return;
        }
        let back: BTreeSet<u32> = (0..self.tasks.len() as u32)
            .filter(|&task| match self.tasks[task as usize].phase {
                Phase::Placed { node, level, .. } => {
                    short.get(&node).is_some_and(|levels| levels[level])
                        && self.may_evict(task, |class| class.urgency_preemptible)
                }
                Phase::Waiting
                | Phase::Evicted { .. }
                | Phase::Taken { .. }
                | Phase::Lost { .. }
                | Phase::Elsewhere => false,
            })
            .collect();
        for line in &mut self.lines {
            line.members.clear();
            line.bunches.clear();
            (line.put_back, line.at) = (0, 0);
        }
        self.evict_all(back);
        self.fill();
    }

    fn may_evict(&self, task: u32, allows: impl Fn(&Class) -> Preference) -> bool {
        let task = &self.tasks[task as usize];
        let (Phase::Placed { node, .. }, Some(class), Some(_)) =
            (task.phase, task.class, task.line)
        else {
            return false;
        };
        allows(self.classes[class as usize].1) == Preference::On
            && self.nodes[node as usize].service != Service::Down
    }

    /// Puts these and the rest of their gangs back into their lines.
    fn evict_all(&mut self, mut back: BTreeSet<u32>) {
        let lists: BTreeSet<u32> = back
            .iter()
            .filter_map(|&task| self.tasks[task as usize].mates)
            .collect();
        for list in lists {
            let mates = self.mates[list as usize].iter();
            back.extend(mates.filter(|&&task| self.may_evict(task, |_| Preference::On)));
        }
        let mut of_line: Vec<Vec<u32>> = vec![Vec::new(); self.lines.len()];
        for task in back {
            self.evict_one(task);
            if let Some(line) = self.tasks[task as usize].line {
                of_line[line as usize].push(task);
            }
        }
        for (line, tasks) in of_line.into_iter().enumerate() {
            self.gather(line as u32, tasks, Counting::Alive);
            self.lines[line].put_back = self.lines[line].bunches.len();
        }
    }

    fn evict_one(&mut self, task: u32) {
        let Phase::Placed {
            node,
            level,
            method,
        } = self.tasks[task as usize].phase
        else {
            return;
        };
        let amount = self.tasks[task as usize].job.request;
        self.field
            .give(node, (1, self.cut(task, node, level)), &amount);
        self.tasks[task as usize].phase = Phase::Evicted {
            node,
            level,
            method,
        };
        self.unaccount(task);
    }

    /// The order in which all that was put back would be placed again were there room for all:
    /// the last of it gives way first.
    fn set_order(&mut self) {
        let has: Vec<_> = self.lines.iter().map(|line| line.has).collect();
        let mut seats: BinaryHeap<_> = (0..self.lines.len() as u32)
            .filter_map(|line| self.seat(line))
            .map(Reverse)
            .collect();
        while let Some(Reverse(seat)) = seats.pop() {
            let at = seat.line as usize;
            let bunch = self.lines[at].bunches[self.lines[at].at];
            let from = bunch.from as usize;
            let members = self.lines[at].members[from..from + bunch.len as usize].to_vec();
            let sum = self.sum(&members);
            self.lines[at].has += sum;
            self.lines[at].at += 1;
            self.order.extend(members);
            seats.extend(self.seat(seat.line).map(Reverse));
        }
        for (line, has) in self.lines.iter_mut().zip(has) {
            line.has = has;
            line.at = 0;
        }
    }

    /// Places a bunch that was put back where it was, all of it or nothing of it. What has no
    /// room gives up what it held at the lowest level.
    pub(super) fn place_back(&mut self, members: &[u32]) {
        let all = members.iter().all(|&task| self.place_back_one(task));
        if !all {
            self.undo(0);
            for &task in members {
                if let Phase::Evicted { node, .. } = self.tasks[task as usize].phase {
                    let amount = self.tasks[task as usize].job.request;
                    self.field.give(node, (0, 0), &amount);
                    self.tasks[task as usize].phase = Phase::Lost { node };
                }
            }
            return;
        }
        for &task in members {
            self.account(task);
        }
        self.log.clear();
    }

    fn place_back_one(&mut self, task: u32) -> bool {
        let Phase::Evicted {
            node,
            level,
            method,
        } = self.tasks[task as usize].phase
        else {
            return false;
        };
        let need = &self.tasks[task as usize].job.request;
        if !self.field.free(node, level).holds(need) {
            return false;
        }
        self.put(task, node, level, method);
        true
    }

    /// The tasks put back for fair share, in their order, by which account each is of.
    pub(super) fn order_of_lines(&self) -> Vec<u32> {
        let lines = self
            .order
            .iter()
            .filter_map(|&task| self.tasks[task as usize].line);
        lines.collect()
    }

    /// How a task that was placed got its room.
    pub(super) fn method(&self, task: u32) -> Option<Method> {
        match self.tasks[task as usize].phase {
            Phase::Placed { method, .. } => Some(method),
            Phase::Waiting
            | Phase::Evicted { .. }
            | Phase::Taken { .. }
            | Phase::Lost { .. }
            | Phase::Elsewhere => None,
        }
    }
}
