//! Where one job goes, and where a gang goes: all of it or nothing.
//!
//! Each rung of the ladder is a way to make room: what is free, what was put
//! back for fair share (from the end of its order), what runs at lower classes.
//! Called for each gang whose turn it is. Everything a trial changes is logged
//! and can be undone.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::limits::{self, Denial, Scope};
use super::outcome::{Method, Reason};
use super::round::{Phase, Round, Standing, Undo};
use super::state::Service;
use crate::amounts::Amounts;
use crate::policy::{Preference, Rung};

/// How well a gang fits: more members first, then the least urgent preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    pub placed: u32,
    /// Sum of the class priorities preempted at, one for each member.
    preempted: i128,
}

impl Fit {
    fn better(&self, other: &Fit) -> bool {
        let mean = |fit: &Fit, n: u32| fit.preempted * i128::from(n);
        self.placed > other.placed
            || self.placed == other.placed && mean(self, other.placed) < mean(other, self.placed)
    }
}

/// How room was made for one job, and the class priority of those who gave way.
type Made = (Method, i64);

impl<'a> Round<'a> {
    /// Offers a gang that is not placed yet: what limits it, where it goes.
    ///
    /// # Errors
    /// What stops it, and what else that stops.
    pub(super) fn offer(&mut self, members: &[u32]) -> Result<(), Denial> {
        let gang = |reason| Denial {
            reason,
            scope: Scope::Gang,
        };
        self.may_start(members)?;
        if let [only] = members {
            let shape = self.tasks[*only as usize].shape as usize;
            if self.shapes[shape].standing == Standing::Stuck {
                return Err(gang(Reason::NoRoom));
            }
        }
        self.took = 0;
        match self.place_gang(members) {
            Ok(()) => {
                self.settle(members);
                Ok(())
            }
            Err(reason) => {
                self.undo(0);
                self.remember_stuck(members);
                Err(gang(reason))
            }
        }
    }

    /// The limits, in the order in which they are asked.
    fn may_start(&mut self, members: &[u32]) -> Result<(), Denial> {
        let full = |reason, scope| Err(Denial { reason, scope });
        if !self.round_most.holds(&self.started) {
            return full(Reason::RoundFull, Scope::Round);
        }
        let first = &self.tasks[members[0] as usize];
        let (Some(line), Some(class)) = (first.line, first.class) else {
            return full(Reason::Class, Scope::Gang);
        };
        let line = &self.lines[line as usize];
        if line.account.service != Service::Up {
            return full(Reason::AccountClosed, Scope::Account);
        }
        if let Some(tokens) = &self.tokens {
            tokens.check(members.len(), &limits::OF_ALL)?;
        }
        if let Some(tokens) = &line.tokens {
            tokens.check(members.len(), &limits::OF_ACCOUNT)?;
        }
        let asked = self.sum(members);
        let of_class = line.has_of_class[class as usize] + asked;
        let most = line.most_of_class.get(class as usize);
        let beyond_round = line
            .account
            .round_most
            .is_some_and(|most| !most.holds(&(line.given + asked)));
        if beyond_round || most.is_some_and(|most| !most.holds(&of_class)) {
            return full(Reason::AccountFull, Scope::Gang);
        }
        Ok(())
    }

    /// What the members ask for together.
    pub(super) fn sum(&self, members: &[u32]) -> Amounts {
        let requests = members
            .iter()
            .map(|&task| self.tasks[task as usize].job.request);
        requests.fold(Amounts::NONE, |sum, request| sum + request)
    }

    fn place_gang(&mut self, members: &[u32]) -> Result<(), Reason> {
        let gang = self.tasks[members[0] as usize].job.gang.as_ref();
        let spare = members.len() - self.minimum(members) as usize;
        let never = members.iter().filter_map(|&task| self.impossible(task));
        if let Some(reason) = never.collect::<Vec<_>>().get(spare) {
            return Err(*reason);
        }
        let label = match members.len() {
            1 => None,
            _ => gang.and_then(|gang| gang.uniform.as_deref()),
        };
        let Some(label) = label else {
            return self.try_gang(members, None).map(drop);
        };
        let together = self.state.together.as_ref();
        if together.is_some_and(|labels| !labels.contains(label)) {
            return Err(Reason::NotTogether);
        }
        self.place_together(members, label)
    }

    /// How many of a gang must be placed.
    fn minimum(&self, members: &[u32]) -> u32 {
        let all = members.len() as u32;
        match &self.tasks[members[0] as usize].job.gang {
            None => all,
            Some(gang) => gang.minimum.clamp(1, all),
        }
    }

    /// Tries each value of the label that all nodes must share; the best fit stays, the first of
    /// equals in the order of the values.
    fn place_together(&mut self, members: &[u32], label: &str) -> Result<(), Reason> {
        let shape = &self.shapes[self.tasks[members[0] as usize].shape as usize];
        let mut values: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for &(_, ground) in &shape.ways {
            for (value, groups) in self.grounds.values(ground, label) {
                let all = values.entry(value).or_default();
                all.extend(groups);
                all.sort_unstable();
                all.dedup();
            }
        }
        let mut best: Option<(Fit, Vec<u32>)> = None;
        let mut reason = Reason::NotTogether;
        for groups in values.into_values() {
            match self.try_gang(members, Some(&groups)) {
                Err(no) => reason = no,
                Ok(fit) => {
                    if best.as_ref().is_none_or(|(best, _)| fit.better(best)) {
                        best = Some((fit, groups));
                    }
                }
            }
            self.undo(0);
            self.took = 0;
        }
        let (_, groups) = best.ok_or(reason)?;
        self.try_gang(members, Some(&groups)).map(drop)
    }

    /// Places as many members as fit, each in turn; fewer than the minimum are an error, with what
    /// was placed still in the log.
    fn try_gang(&mut self, members: &[u32], within: Option<&[u32]>) -> Result<Fit, Reason> {
        let gang = self.tasks[members[0] as usize].job.gang.as_ref();
        let minimum = self.minimum(members);
        let mut fit = Fit {
            placed: 0,
            preempted: 0,
        };
        for (at, &task) in members.iter().enumerate() {
            match self.place(task, within) {
                Some((_, preempted)) => {
                    fit.placed += 1;
                    fit.preempted += i128::from(preempted);
                }
                None if fit.placed + ((members.len() - at - 1) as u32) < minimum => {
                    return Err(match gang {
                        None => Reason::NoRoom,
                        Some(_) => Reason::GangNoRoom {
                            fitted: fit.placed,
                            minimum,
                        },
                    });
                }
                None => {}
            }
        }
        Ok(fit)
    }

    /// Places one job at home or else away.
    fn place(&mut self, task: u32, within: Option<&[u32]>) -> Option<Made> {
        let shape = self.tasks[task as usize].shape as usize;
        for way in 0..self.shapes[shape].ways.len() {
            let (level, ground) = self.shapes[shape].ways[way];
            let groups = self.grounds.allowed(ground);
            let groups: Rc<[u32]> = match within {
                None => groups,
                Some(within) => {
                    let both = groups
                        .iter()
                        .filter(|group| within.binary_search(group).is_ok());
                    both.copied().collect()
                }
            };
            if let Some(made) = self.climb(task, level, &groups) {
                return Some(made);
            }
        }
        None
    }

    /// Climbs the ladder for one job at one level.
    fn climb(&mut self, task: u32, level: usize, groups: &[u32]) -> Option<Made> {
        let need = self.tasks[task as usize].job.request;
        let mut may = None;
        for at in 0..self.ladder.len() {
            let rung = self.ladder[at];
            if rung != Rung::Free {
                // What does not fit beside its own class and higher needs no search.
                let may = *may.get_or_insert_with(|| self.field.best(level, groups, &need));
                may?;
            }
            match rung {
                Rung::Free => {
                    if let Some(node) = self.field.best(0, groups, &need) {
                        self.put(task, node, level, Method::Free);
                        return Some((Method::Free, self.priorities[0].saturating_sub(1)));
                    }
                }
                Rung::Evicted => {
                    if let Some((node, highest)) = self.give_way(task, level, groups) {
                        self.put(task, node, level, Method::FairShare);
                        return Some((Method::FairShare, self.priorities[highest - 1]));
                    }
                }
                Rung::Urgency => {
                    let found =
                        (1..=level).find_map(|at| Some((self.field.best(at, groups, &need)?, at)));
                    if let Some((node, at)) = found {
                        self.put(task, node, level, Method::Urgency);
                        return Some((Method::Urgency, self.priorities[at - 1]));
                    }
                }
            }
        }
        None
    }

    /// Walks what was put back from the one that would be placed again last, until the job fits on
    /// the node of one; those of that node give way. Never one of a higher class.
    fn give_way(&mut self, task: u32, level: usize, groups: &[u32]) -> Option<(u32, usize)> {
        if self.preempt_tokens.is_some_and(|tokens| tokens.spent()) {
            return None;
        }
        let need = self.tasks[task as usize].job.request;
        self.walks += 1;
        let mut passed: Vec<(u32, u32, usize)> = Vec::new();
        for at in (0..self.order.len()).rev() {
            let other = self.order[at];
            let Phase::Evicted {
                node,
                level: theirs,
                ..
            } = self.tasks[other as usize].phase
            else {
                continue;
            };
            let allowed = self
                .grounds
                .group(node)
                .is_some_and(|group| groups.binary_search(&group).is_ok());
            if theirs > level || !allowed {
                continue;
            }
            if self.scratch[node as usize].0 != self.walks {
                self.scratch[node as usize] = (self.walks, *self.field.free(node, 0));
            }
            passed.push((node, other, theirs));
            let free = &mut self.scratch[node as usize].1;
            *free += self.tasks[other as usize].job.request;
            if free.holds(&need) {
                let those = passed.iter().filter(|(on, ..)| *on == node);
                let highest = those.clone().map(|(.., level)| *level).max().unwrap_or(1);
                for (_, other, _) in those.copied().collect::<Vec<_>>() {
                    self.take_room(other, task);
                }
                return Some((node, highest));
            }
        }
        None
    }

    /// What was put back gives its room to another, and its gang with it.
    fn take_room(&mut self, task: u32, by: u32) {
        let all = match self.tasks[task as usize].mates {
            None => vec![task],
            Some(list) => self.mates[list as usize].clone(),
        };
        for task in all {
            let Phase::Evicted { node, .. } = self.tasks[task as usize].phase else {
                continue;
            };
            let amount = self.tasks[task as usize].job.request;
            self.field.give(node, (0, 0), &amount);
            self.log.push(Undo::Give {
                node,
                levels: (0, 0),
                amount,
            });
            self.turn(task, Phase::Taken { by });
            self.took += 1;
        }
    }

    /// Gives a task a node at a level. What was put back has level 0 already.
    pub(super) fn put(&mut self, task: u32, node: u32, level: usize, method: Method) {
        let lowest = match self.tasks[task as usize].phase {
            Phase::Evicted { .. } => 1,
            Phase::Waiting
            | Phase::Placed { .. }
            | Phase::Taken { .. }
            | Phase::Lost { .. }
            | Phase::Elsewhere => 0,
        };
        let levels = (lowest, self.cut(task, node, level));
        let amount = self.tasks[task as usize].job.request;
        self.field.take(node, levels, &amount);
        self.log.push(Undo::Take {
            node,
            levels,
            amount,
        });
        self.turn(
            task,
            Phase::Placed {
                node,
                level,
                method,
            },
        );
    }

    /// The highest level at which a task counts: that of its class, or all where nobody may take
    /// from it.
    pub(super) fn cut(&self, task: u32, node: u32, level: usize) -> usize {
        let task = &self.tasks[task as usize];
        let class = task
            .class
            .map(|class| self.classes[class as usize].1.urgency_preemptible);
        let down = self.nodes[node as usize].service == Service::Down;
        match (class, task.line) {
            (Some(Preference::On), Some(_)) if !down => level,
            (Some(Preference::On | Preference::Off) | None, _) => self.field.levels() - 1,
        }
    }

    fn turn(&mut self, task: u32, phase: Phase) {
        let before = std::mem::replace(&mut self.tasks[task as usize].phase, phase);
        self.log.push(Undo::Phase {
            task,
            phase: before,
        });
    }

    /// Undoes everything logged after a mark.
    pub(super) fn undo(&mut self, mark: usize) {
        while self.log.len() > mark {
            match self.log.pop() {
                None => return,
                Some(Undo::Phase { task, phase }) => self.tasks[task as usize].phase = phase,
                Some(Undo::Take {
                    node,
                    levels,
                    amount,
                }) => self.field.give(node, levels, &amount),
                Some(Undo::Give {
                    node,
                    levels,
                    amount,
                }) => self.field.take(node, levels, &amount),
            }
        }
    }

    /// Charges a gang that was placed, and fails those of it that were not.
    fn settle(&mut self, members: &[u32]) {
        let is_placed =
            |task: &u32| matches!(self.tasks[*task as usize].phase, Phase::Placed { .. });
        let (placed, rest): (Vec<u32>, Vec<u32>) = members.iter().copied().partition(is_placed);
        self.failed
            .extend(rest.into_iter().map(|task| (task, placed[0])));
        for &task in &placed {
            self.account(task);
            if let Phase::Placed { node, method, .. } = self.tasks[task as usize].phase {
                if method == Method::Urgency {
                    self.urgent.insert(node, task);
                }
            }
        }
        let sum = self.sum(&placed);
        self.started += sum;
        if let Some(line) = self.tasks[members[0] as usize].line {
            let line = &mut self.lines[line as usize];
            line.given += sum;
            if let Some(tokens) = &mut line.tokens {
                tokens.charge(placed.len());
            }
        }
        if let Some(tokens) = &mut self.tokens {
            tokens.charge(placed.len());
        }
        if let Some(tokens) = &mut self.preempt_tokens {
            tokens.charge(self.took);
        }
        if placed.len() > 1 {
            let list = self.mates.len() as u32;
            for &task in &placed {
                self.tasks[task as usize].mates = Some(list);
            }
            self.mates.push(placed);
        }
        self.log.clear();
    }

    /// A single job that does not fit beside its own class: nothing that happens in this round can
    /// change that for others like it, for at its level room only shrinks.
    fn remember_stuck(&mut self, members: &[u32]) {
        let [task] = members else {
            return;
        };
        let shape = self.tasks[*task as usize].shape as usize;
        let need = self.shapes[shape].request;
        let gives = self.ladder.contains(&Rung::Evicted);
        let stuck = !gives
            || (0..self.shapes[shape].ways.len()).all(|way| {
                let (level, ground) = self.shapes[shape].ways[way];
                let groups = self.grounds.allowed(ground);
                self.field.best(level, &groups, &need).is_none()
            });
        let uniform = self.tasks[*task as usize].job.gang.is_some();
        if stuck && !uniform {
            self.shapes[shape].standing = Standing::Stuck;
        }
    }

    /// Why a task could not start were everything free.
    pub(super) fn impossible(&mut self, task: u32) -> Option<Reason> {
        let shape = self.tasks[task as usize].shape as usize;
        if self.shapes[shape].standing == Standing::Unmeasured {
            self.shapes[shape].standing = self.measure(shape);
        }
        match self.shapes[shape].standing {
            Standing::Impossible(reason) => Some(reason),
            Standing::Unmeasured | Standing::Possible | Standing::Stuck => None,
        }
    }

    fn measure(&self, shape: usize) -> Standing {
        let shape = &self.shapes[shape];
        let mut most = Amounts::NONE;
        let mut any = false;
        for &(_, ground) in &shape.ways {
            for &group in self.grounds.allowed(ground).iter() {
                any = true;
                for capacity in self.grounds.capacities(group).iter().rev() {
                    if capacity.holds(&shape.request) {
                        return Standing::Possible;
                    }
                    most = most.most(capacity);
                }
            }
        }
        if !any {
            return Standing::Impossible(Reason::NoSuchNode);
        }
        let kind = shape
            .request
            .iter()
            .zip(most.iter())
            .position(|(asked, most)| asked > most);
        Standing::Impossible(match kind {
            // Each is there, but not all on one node.
            None => Reason::NoSuchNode,
            Some(kind) => Reason::Never {
                kind,
                asked: shape.request[kind],
                most: most[kind],
            },
        })
    }
}
