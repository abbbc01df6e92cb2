//! The planners of an instance: one for its own nodes, and one for each part of them that is set
//! aside, where others wait in a line of their own.
//!
//! What a queue instance of a fixed size holds only the jobs of its queues may have, and who waits
//! for it holds up nobody who waits for something else. Who has had how much counts in all lines:
//! each planner is told what was started in the others. Owned by the sched module's driver, in the
//! place of a planner.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::plan::{Answer, Delta, Head, LineName, Outcome, Owner, Question};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;

use crate::calendar::Calendar;

/// The planners, fed as one.
#[derive(Debug, Default)]
pub struct Lines {
    main: Calendar,
    apart: BTreeMap<Arc<str>, Calendar>,
    /// Questions about jobs that are named. Advice is tried on copies of all who wait, so one of them is answered
    /// in a slice: others wait to start meanwhile.
    asked: VecDeque<Question>,
}

impl Lines {
    /// One planner of first come, first served that knows nothing.
    pub fn new() -> Lines {
        Lines::default()
    }

    /// Takes one change in, as [`crate::Planner::apply`] does.
    ///
    /// - `Line` sets nodes aside, or gives them up: who waits for them then waits no more.
    /// - `Want` and `Held` are of the line that the owner names. One that is not there has nobody
    ///   waiting; who holds something of it is charged all the same.
    /// - `Reserved` and `Unreserved` are for all lines, as far as they have the nodes.
    pub fn apply(&mut self, delta: Delta) {
        match delta {
            Delta::Line(name, set) => self.set_aside(name, set),
            Delta::Want(job, want) => {
                let line = want.owner.line.clone();
                if let Some(planner) = self.of(&line) {
                    planner.apply(Delta::Want(job, want));
                }
            }
            Delta::Held(job, owner, set) => self.held(job, owner, set),
            Delta::Explain(question) => match question.jobs {
                Some(_) => self.asked.push_back(question),
                None => self.explain(&question),
            },
            Delta::Rests(job, line, set) => self.rests(job, line, set),
            Delta::Inventory(_) | Delta::Ground(..) | Delta::Shares(_) => self.main.apply(delta),
            Delta::Up(_)
            | Delta::Down(..)
            | Delta::Unwant(_)
            | Delta::Freed(_)
            | Delta::Ending(..)
            | Delta::Shrinks(..)
            | Delta::Kept(..)
            | Delta::Spared(_)
            | Delta::Gives(..)
            | Delta::Preempts(_)
            | Delta::Stay(_)
            | Delta::Charged(..)
            | Delta::Settled(..)
            | Delta::Policy(_)
            | Delta::Pools(_)
            | Delta::Uses(..)
            | Delta::Reserved(_)
            | Delta::Unreserved(_)
            | Delta::Account(_)
            | Delta::Used(_)
            | Delta::Past(_) => {
                for planner in self.apart.values_mut() {
                    planner.apply(delta.clone());
                }
                self.main.apply(delta);
            }
        }
    }

    /// Looks at each line in turn, by its planner's [`crate::Planner::plan`].
    pub fn plan(&mut self, now: Time, steps: u32) -> Outcome {
        if let Some(question) = self.asked.pop_front() {
            self.explain(&question);
        }
        let mut all = self.main.plan(now, steps);
        all.unfinished |= !self.asked.is_empty();
        let mut uses = self.main.uses(&all);
        for (name, planner) in &mut self.apart {
            planner.tell(&uses);
            let outcome = planner.plan(now, steps);
            uses.extend(planner.uses(&outcome));
            add(&mut all, outcome, name);
        }
        let lines = [&mut self.main].into_iter().chain(self.apart.values_mut());
        lines.for_each(|line| line.tell(&uses));
        all
    }

    fn of(&mut self, line: &LineName) -> Option<&mut Calendar> {
        match line {
            None => Some(&mut self.main),
            Some(name) => self.apart.get_mut(name),
        }
    }

    /// Each line is asked of those who would wait in it.
    fn explain(&mut self, question: &Question) {
        for (name, planner) in &mut self.apart {
            let asked = question.with(|want| want.owner.line.as_ref() == Some(name));
            planner.apply(Delta::Explain(asked));
        }
        let asked = question.with(|want| want.owner.line.is_none());
        self.main.apply(Delta::Explain(asked));
    }

    fn set_aside(&mut self, name: Arc<str>, set: Option<Arc<ResourceSet>>) {
        let Some(set) = set else {
            self.apart.remove(&name);
            return;
        };
        let main = &self.main;
        let planner = self.apart.entry(name).or_insert_with(|| main.set_aside());
        planner.apply(Delta::Inventory(set));
    }

    /// What is left is of the line that has it; in all others nothing is charged for it meanwhile.
    fn rests(&mut self, job: JobId, line: LineName, set: Arc<ResourceSet>) {
        let nothing = Arc::new(ResourceSet::new());
        let told = |is_its: bool| {
            let left = if is_its { &set } else { &nothing };
            Delta::Rests(job, line.clone(), Arc::clone(left))
        };
        self.main.apply(told(line.is_none()));
        for (name, planner) in &mut self.apart {
            planner.apply(told(line.as_ref() == Some(name)));
        }
    }

    fn held(&mut self, job: JobId, owner: Owner, set: Arc<ResourceSet>) {
        let line = owner.line.clone();
        let charged = Delta::Charged(job, owner.clone(), Arc::clone(&set));
        let held = Delta::Held(job, owner, set);
        let told = |is_its: bool| match is_its {
            true => held.clone(),
            false => charged.clone(),
        };
        self.main.apply(told(line.is_none()));
        for (name, planner) in &mut self.apart {
            planner.apply(told(line.as_ref() == Some(name)));
        }
    }
}

/// Adds what another line came to.
fn add(all: &mut Outcome, outcome: Outcome, name: &Arc<str>) {
    all.verdicts.extend(outcome.verdicts);
    all.together.extend(outcome.together);
    let head = outcome.head.into_iter();
    all.apart.extend(head.map(|(job, reason)| Head {
        line: Arc::clone(name),
        job,
        reason,
    }));
    all.unfinished |= outcome.unfinished;
    all.again = all.again.into_iter().chain(outcome.again).min();
    for answer in outcome.answers {
        match all.answers.iter_mut().find(|one| one.tag == answer.tag) {
            Some(one) => merge(one, answer),
            None => all.answers.push(answer),
        }
    }
}

fn merge(one: &mut Answer, answer: Answer) {
    one.jobs.extend(answer.jobs);
    one.let_go.extend(answer.let_go);
    one.more += answer.more;
}
