//! One round while it is made: jobs as tasks, nodes as a field, accounts as lines.
//!
//! Made by [`super::schedule`] and by whoever wants to offer gangs one by one
//! ([`super::Bench`]). This file holds the parts and what each task is in; how
//! they change is in `place`, `evict`, `turns` and `slices`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use eddy_wire::time::Time;

use super::field::Field;
use super::limits::{self, Tokens};
use super::order::{JobKey, Stage};
use super::outcome::{Method, Reason};
use super::setting::Grounds;
use super::state::{Account, Away, Job, Node, Service, State, Toleration};
use crate::amounts::Amounts;
use crate::policy::{Class, Evict, Policy, Preference, Rung};
use crate::share::adjusted::{Wanting, adjusted_fair_shares};
use crate::share::drf::Costs;

use super::rules::{all_alike, costs, drf, priorities};

/// A job in the round.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub job: &'a Job,
    /// Its line; `None` where the account is not known.
    pub line: Option<u32>,
    /// Its class in the list of classes; `None` where it is not in the policy.
    pub class: Option<u32>,
    /// The level of its class.
    pub level: usize,
    /// Since when it runs, if it came running.
    pub start: Option<Time>,
    pub shape: u32,
    pub phase: Phase,
    /// The list of those it came or was placed with.
    pub mates: Option<u32>,
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Phase {
    /// It has no node.
    Waiting,
    /// It has one.
    Placed {
        node: u32,
        level: usize,
        method: Method,
    },
    /// Put back: it still takes up room at level 0, and may only go where it was.
    Evicted {
        node: u32,
        level: usize,
        method: Method,
    },
    /// Put back, and another has its room.
    Taken { by: u32 },
    /// Put back, and there was no room any more.
    Lost { node: u32 },
    /// It runs where this state has no node.
    Elsewhere,
}

/// What jobs that no placement can tell apart have in common.
#[derive(Debug)]
pub(super) struct Shape {
    pub request: Amounts,
    /// Home first, then away: level and the number of the setting.
    pub ways: Vec<(usize, u32)>,
    pub standing: Standing,
}

/// What is known of all jobs of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing yet.
    Unmeasured,
    /// There are nodes that would have room were everything free.
    Possible,
    /// There are none.
    Impossible(Reason),
    /// It does not fit in this round any more.
    Stuck,
}

/// Jobs that start together: a range of the members of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bunch {
    pub from: u32,
    pub len: u32,
    /// How many of the line had been looked at once it was complete.
    pub seen: u32,
}

/// An account while the round is made.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub account: &'a Account,
    pub weight: f64,
    pub has: Amounts,
    pub has_of_class: Vec<Amounts>,
    /// Not to be exceeded, by class; empty where nothing limits.
    pub most_of_class: Vec<Amounts>,
    pub given: Amounts,
    /// What it may cost over its weight.
    pub budget: f64,
    /// The fraction of everything that it is due at least.
    pub due: f64,
    pub tokens: Option<Tokens>,
    pub stop: Option<Reason>,
    pub members: Vec<u32>,
    pub bunches: Vec<Bunch>,
    /// Bunches before this one were put back for fair share.
    pub put_back: usize,
    pub at: usize,
}

/// How bunches are counted as complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counting {
    /// With as many as are there.
    Alive,
    /// With as many as the gang says.
    Declared,
}

/// What may be taken from others in the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    /// What the policy says.
    Policy,
    /// Nothing.
    FreeOnly,
}

/// A change that can be undone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Undo {
    Phase {
        task: u32,
        phase: Phase,
    },
    Take {
        node: u32,
        levels: (usize, usize),
        amount: Amounts,
    },
    Give {
        node: u32,
        levels: (usize, usize),
        amount: Amounts,
    },
}

/// One round while it is made.
#[derive(Debug)]
pub(super) struct Round<'a> {
    pub state: &'a State,
    pub policy: &'a Policy,
    pub ladder: Vec<Rung>,
    pub evict: Evict,
    pub nodes: Vec<&'a Node>,
    /// Class priorities, ascending; the `i`-th is level `i + 1`.
    pub priorities: Vec<i64>,
    pub classes: Vec<(&'a str, &'a Class)>,
    pub away: Vec<&'a [Away]>,
    pub grounds: Grounds<'a>,
    pub field: Field,
    pub tasks: Vec<Task<'a>>,
    pub shapes: Vec<Shape>,
    pub lines: Vec<Line<'a>>,
    pub mates: Vec<Vec<u32>>,
    pub total: Amounts,
    /// `None` where nothing is counted: all costs nothing.
    pub costs: Option<Costs>,
    pub large: Preference,
    pub protected: f64,
    /// Tasks put back for fair share, in the order in which they would be placed again.
    pub order: Vec<u32>,
    pub log: Vec<Undo>,
    /// Tasks whose room was taken since the last gang was settled.
    pub took: usize,
    pub reasons: Vec<Option<Reason>>,
    /// The rest of gangs that started with fewer, each with one that started.
    pub failed: BTreeMap<u32, u32>,
    /// The last task placed by urgency on each node.
    pub urgent: BTreeMap<u32, u32>,
    pub started: Amounts,
    pub round_most: Amounts,
    pub tokens: Option<Tokens>,
    pub preempt_tokens: Option<Tokens>,
    pub stop: Option<Reason>,
    /// Room for walks over what was put back: by node, the walk it was last used in and what
    /// would be free.
    pub scratch: Vec<(u64, Amounts)>,
    pub walks: u64,
}

impl<'a> Round<'a> {
    /// The round with everything that runs on its node and every line empty.
    pub(super) fn new(state: &'a State, policy: &'a Policy, means: Means) -> Round<'a> {
        let mut nodes: Vec<&Node> = state.nodes.iter().collect();
        nodes.sort_by_key(|node| node.rank);
        let priorities = priorities(state, policy);
        let grounds = Grounds::new(state, &nodes);
        let total = nodes
            .iter()
            .fold(Amounts::NONE, |sum, node| sum + node.capacity);
        let limits = &policy.queue.limits;
        let classes: Vec<(&str, &Class)> = policy
            .placement
            .classes
            .iter()
            .map(|(name, class)| (name.as_str(), class))
            .collect();
        let of_nodes = (0..nodes.len()).map(|at| (grounds.group(at as u32), nodes[at].capacity));
        let (resources, protected, large) = drf(policy, all_alike(state.kinds.names()));
        let mut round = Round {
            ladder: match means {
                Means::Policy => policy.placement.ladder.clone(),
                Means::FreeOnly => vec![Rung::Free],
            },
            evict: match means {
                Means::Policy => policy.queue.evict,
                Means::FreeOnly => Evict::Nothing,
            },
            field: Field::new(priorities.len() + 1, of_nodes),
            away: classes
                .iter()
                .map(|(name, _)| state.away.get(*name).map_or(&[][..], Vec::as_slice))
                .collect(),
            costs: costs(total, &state.kinds, resources),
            tokens: limits
                .rate
                .map(|rate| Tokens::new(rate, state.buckets.all, state.now)),
            preempt_tokens: limits
                .preempt_rate
                .map(|rate| Tokens::new(rate, state.buckets.preempt, state.now)),
            round_most: limits::fractions(&total, &state.kinds, &limits.pass_fraction),
            scratch: vec![(0, Amounts::NONE); nodes.len()],
            walks: 0,
            tasks: Vec::with_capacity(state.runs.len() + state.jobs.len()),
            shapes: Vec::new(),
            lines: Vec::new(),
            mates: Vec::new(),
            order: Vec::new(),
            log: Vec::new(),
            took: 0,
            reasons: Vec::new(),
            failed: BTreeMap::new(),
            urgent: BTreeMap::new(),
            started: Amounts::NONE,
            stop: None,
            state,
            policy,
            nodes,
            priorities,
            classes,
            grounds,
            total,
            large,
            protected,
        };
        round.open_lines();
        round.admit();
        round.settle_dues();
        round.field.sort();
        round
    }

    fn open_lines(&mut self) {
        let limits = &self.policy.queue.limits;
        let mut accounts: Vec<&'a Account> = self.state.accounts.iter().collect();
        accounts.sort_by(|a, b| a.name.cmp(&b.name));
        for account in accounts {
            let mut line = Line {
                account,
                weight: account.weight(),
                has: Amounts::NONE,
                has_of_class: vec![Amounts::NONE; self.classes.len()],
                most_of_class: Vec::new(),
                given: Amounts::NONE,
                budget: 0.0,
                due: 0.0,
                tokens: limits.account_rate.map(|rate| {
                    let bucket = self.state.buckets.accounts.get(&account.name);
                    Tokens::new(rate, bucket.copied(), self.state.now)
                }),
                stop: match account.service {
                    Service::Up => None,
                    Service::Cordoned | Service::Down => Some(Reason::AccountClosed),
                },
                members: Vec::new(),
                bunches: Vec::new(),
                put_back: 0,
                at: 0,
            };
            if !limits.account_fraction.is_empty() || !account.fractions.is_empty() {
                line.most_of_class = self.most_of_class(account);
            }
            for (class, held) in &account.held {
                line.has += *held;
                if let Some(at) = self.classes.iter().position(|(name, _)| name == class) {
                    line.has_of_class[at] += *held;
                }
            }
            self.lines.push(line);
        }
    }

    fn most_of_class(&self, account: &Account) -> Vec<Amounts> {
        let of_all = &self.policy.queue.limits.account_fraction;
        let most = |&(class, _): &(&str, &Class)| {
            let mut fractions = of_all.get(class).cloned().unwrap_or_default();
            fractions.extend(account.fractions.get(class).cloned().unwrap_or_default());
            limits::fractions(&self.total, &self.state.kinds, &fractions)
        };
        self.classes.iter().map(most).collect()
    }

    /// Makes tasks of runs and jobs, by id, and puts the runs on their nodes.
    fn admit(&mut self) {
        let mut runs: Vec<_> = self.state.runs.iter().collect();
        runs.sort_by_key(|run| run.job.id);
        let mut shapes = BTreeMap::new();
        let mut gangs: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for run in runs {
            let task = self.task(&run.job, &mut shapes);
            let level = match run.priority {
                Some(priority) => self.level(priority),
                None => task.level,
            };
            let node = self.nodes.binary_search_by_key(&run.node, |node| node.rank);
            let number = self.tasks.len() as u32;
            self.tasks.push(Task {
                start: Some(run.start),
                phase: Phase::Elsewhere,
                ..task
            });
            if let Some(gang) = &run.job.gang {
                let list = *gangs
                    .entry((&run.job.account, &gang.id))
                    .or_insert_with(|| {
                        self.mates.push(Vec::new());
                        self.mates.len() as u32 - 1
                    });
                self.mates[list as usize].push(number);
                self.tasks[number as usize].mates = Some(list);
            }
            if let Ok(node) = node {
                self.put(number, node as u32, level, Method::Free);
            }
            self.account(number);
        }
        let mut jobs: Vec<_> = self.state.jobs.iter().collect();
        jobs.sort_by_key(|job| job.id);
        for job in jobs {
            let task = self.task(job, &mut shapes);
            self.tasks.push(task);
        }
        self.reasons = vec![None; self.tasks.len()];
        self.log.clear();
    }

    fn task(&mut self, job: &'a Job, shapes: &mut Shapes<'a>) -> Task<'a> {
        let name = match job.class.is_empty() {
            true => self.policy.placement.default_class.as_str(),
            false => job.class.as_str(),
        };
        let class = self
            .classes
            .binary_search_by_key(&name, |(name, _)| name)
            .ok();
        let line = self
            .lines
            .binary_search_by(|line| line.account.name.as_str().cmp(&job.account))
            .ok();
        let level = class.map_or(1, |class| self.level(self.classes[class].1.priority));
        let next = self.shapes.len() as u32;
        let shape = *shapes
            .entry((&job.request, &job.setting, class))
            .or_insert(next);
        if shape == next {
            let away = class.map_or(&[][..], |class| self.away[class]);
            let none: &'a [Toleration] = &[];
            let mut ways = vec![(level, self.grounds.number(&job.setting, none))];
            for away in away {
                let ground = self.grounds.number(&job.setting, &away.tolerations);
                ways.push((self.level(away.priority), ground));
            }
            self.shapes.push(Shape {
                request: job.request,
                ways,
                standing: Standing::Unmeasured,
            });
        }
        Task {
            job,
            line: line.map(|line| line as u32),
            class: class.map(|class| class as u32),
            level,
            start: None,
            shape,
            phase: Phase::Waiting,
            mates: None,
        }
    }

    /// The level of a priority that is one of the round's.
    pub(super) fn level(&self, priority: i64) -> usize {
        self.priorities.partition_point(|&known| known < priority) + 1
    }

    /// Budgets and dues of all lines, from what they ask for.
    fn settle_dues(&mut self) {
        let mut demands: Vec<Amounts> = self.lines.iter().map(held).collect();
        for task in &self.tasks {
            if let Some(line) = task.line {
                demands[line as usize] += task.job.request;
            }
        }
        let mut active = Vec::new();
        let mut asks = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            let demand = line.account.demand.unwrap_or(demands[at]);
            if !demand.is_none() {
                active.push(at);
                asks.push(Wanting {
                    weight: line.weight,
                    demand: self.cost(&demand),
                });
            }
        }
        for (at, due) in active.into_iter().zip(adjusted_fair_shares(&asks)) {
            let line = &mut self.lines[at];
            line.budget = due.capped / line.weight;
            line.due = due.capped.max(due.fair);
        }
    }

    /// What having so much costs.
    pub(super) fn cost(&self, has: &Amounts) -> f64 {
        self.costs.map_or(0.0, |costs| costs.cost(has))
    }

    /// Counts what a task has as its account's.
    pub(super) fn account(&mut self, task: u32) {
        let task = &self.tasks[task as usize];
        if let Some(line) = task.line {
            let line = &mut self.lines[line as usize];
            line.has += task.job.request;
            if let Some(class) = task.class {
                line.has_of_class[class as usize] += task.job.request;
            }
        }
    }

    /// Takes back [`Round::account`].
    pub(super) fn unaccount(&mut self, task: u32) {
        let task = &self.tasks[task as usize];
        if let Some(line) = task.line {
            let line = &mut self.lines[line as usize];
            line.has -= task.job.request;
            if let Some(class) = task.class {
                line.has_of_class[class as usize] -= task.job.request;
            }
        }
    }

    /// The key of a task among those of its account.
    pub(super) fn key(&self, task: u32) -> JobKey<u32> {
        let number = task;
        let task = &self.tasks[task as usize];
        let class = task
            .class
            .map_or(i64::MIN, |class| self.classes[class as usize].1.priority);
        JobKey {
            stage: match task.start {
                Some(_) => Stage::Running,
                None => Stage::Waiting,
            },
            class: Reverse(class),
            priority: task.job.priority,
            since: task.start.unwrap_or(task.job.submit),
            submit: task.job.submit,
            // Tasks are numbered by id within a stage.
            id: number,
        }
    }

    /// Sorts tasks and gathers them into bunches, each where its last member stands.
    pub(super) fn gather(&mut self, line: u32, tasks: Vec<u32>, counting: Counting) {
        let mut keyed: Vec<(JobKey<u32>, u32)> = tasks
            .into_iter()
            .map(|task| (self.key(task), task))
            .collect();
        keyed.sort_unstable();
        let mut sizes: BTreeMap<&'a str, u32> = BTreeMap::new();
        if counting == Counting::Alive {
            for (_, task) in &keyed {
                if let Some(gang) = &self.tasks[*task as usize].job.gang {
                    *sizes.entry(gang.id.as_str()).or_default() += 1;
                }
            }
        }
        let mut open: BTreeMap<&'a str, Vec<u32>> = BTreeMap::new();
        let mut seen = 0;
        for (_, task) in keyed {
            seen += u32::from(counting == Counting::Declared && !self.never(task));
            let gang = self.tasks[task as usize].job.gang.as_ref();
            let members = match gang {
                None => vec![task],
                Some(gang) => {
                    let size = sizes
                        .get(gang.id.as_str())
                        .copied()
                        .unwrap_or(gang.cardinality);
                    let members = open.entry(gang.id.as_str()).or_default();
                    members.push(task);
                    if (members.len() as u32) < size {
                        continue;
                    }
                    open.remove(gang.id.as_str()).unwrap_or_default()
                }
            };
            let line = &mut self.lines[line as usize];
            line.bunches.push(Bunch {
                from: line.members.len() as u32,
                len: members.len() as u32,
                seen,
            });
            line.members.extend(members);
        }
        for members in open.into_values() {
            let have = members.len() as u32;
            for task in members {
                let gang = self.tasks[task as usize].job.gang.as_ref();
                let cardinality = gang.map_or(1, |gang| gang.cardinality);
                self.reasons[task as usize] = Some(Reason::GangIncomplete { have, cardinality });
            }
        }
    }

    /// Whether a task could not start were everything free; such jobs use up no lookback.
    fn never(&mut self, task: u32) -> bool {
        self.policy.queue.lookback.is_some() && self.impossible(task).is_some()
    }
}

/// Numbers of shapes.
type Shapes<'a> = BTreeMap<(&'a Amounts, &'a super::state::Setting, Option<usize>), u32>;

fn held(line: &Line<'_>) -> Amounts {
    let held = line.account.held.values();
    held.fold(Amounts::NONE, |sum, amounts| sum + *amounts)
}
