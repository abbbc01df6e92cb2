//! A number of nodes that is left to the scheduler: at least so many, and more where they are free.
//!
//! The [`Request`] of such a jobspec is that of the least. A scheduler plans and promises that, and where
//! it starts the job it may give it any other number that the jobspec allows: then everybody asks
//! [`Request::granted`] instead. The nodes of a grant tell which it was, so nobody records it.

use std::borrow::Cow;
use std::sync::Arc;

use super::count::{CountRange, Operator};
use super::{Count, Request, TASKS_MAX, Work};
use crate::resource_set::ResourceSet;

/// Other numbers of nodes that will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// All numbers that will, the least among them.
    pub nodes: Count,
    /// Whether more nodes run more tasks.
    pub tasks: Tasks,
}

/// What tasks there are on more nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tasks {
    /// As many in all.
    AsMany,
    /// As many on each.
    OnEach,
}

impl Choice {
    /// The numbers over `least` up to `most`, in order.
    pub fn over(&self, least: u32, most: u32) -> Vec<u32> {
        let all = self.nodes.up_to(most);
        all.into_iter().filter(|nodes| *nodes > least).collect()
    }
}

impl From<u32> for Count {
    fn from(count: u32) -> Count {
        Count::Exactly(count)
    }
}

impl Count {
    /// The least number that will do.
    pub fn least(&self) -> u32 {
        match self {
            Count::Exactly(count) => *count,
            Count::OneOf(set) => set.first().unwrap_or(1),
            Count::Range(range) => range.min,
        }
    }

    /// The most that will do, if there is a limit.
    pub fn most(&self) -> Option<u32> {
        match self {
            Count::Exactly(count) => Some(*count),
            Count::OneOf(set) => set.last(),
            Count::Range(range) => range.max,
        }
    }

    /// All numbers that will do and are no more than this, in order.
    fn up_to(&self, most: u32) -> Vec<u32> {
        match self {
            Count::Exactly(count) => Vec::from_iter(Some(*count).filter(|count| *count <= most)),
            Count::OneOf(set) => set.iter().take_while(|count| *count <= most).collect(),
            Count::Range(range) => {
                let most = range.max.unwrap_or(most).min(most);
                let next = |at: &u32| range.next(*at).filter(|next| *next <= most);
                let first = Some(range.min).filter(|min| *min <= most);
                std::iter::successors(first, next).collect()
            }
        }
    }
}

impl CountRange {
    /// The number after this one.
    fn next(&self, at: u32) -> Option<u32> {
        match self.operator {
            Operator::Add => at.checked_add(self.operand),
            Operator::Multiply => at.checked_mul(self.operand),
            Operator::Power => at.checked_pow(self.operand),
        }
    }
}

impl Request {
    /// The same on another number of nodes, which its choice allows; as it is where it has none.
    pub fn on_nodes(&self, nodes: u32) -> Request {
        let Some(choice) = &self.choice else {
            return self.clone();
        };
        let least = self.nodes.unwrap_or(1).max(1);
        let ntasks = match choice.tasks {
            Tasks::AsMany => self.ntasks,
            Tasks::OnEach => (self.ntasks / least).saturating_mul(nodes),
        };
        Request {
            nodes: Some(nodes),
            slots: self.slots_per_node.saturating_mul(nodes),
            ntasks,
            choice: None,
            ..self.clone()
        }
    }

    /// What it comes to where it was granted these resources.
    pub fn granted(&self, set: &ResourceSet) -> Cow<'_, Request> {
        match self.choice {
            None => Cow::Borrowed(self),
            Some(_) => Cow::Owned(self.on_nodes(set.nodes.len() as u32)),
        }
    }

    /// Numbers of nodes that will do as well, more than the least and at most `most`, in order: so many that
    /// slots and tasks can still be counted.
    pub fn wider(&self, most: u32) -> Vec<u32> {
        let Some(choice) = self.choice.as_ref() else {
            return Vec::new();
        };
        let least = self.nodes.unwrap_or(1).max(1);
        let (each, most) = match (choice.tasks, &self.work) {
            (Tasks::OnEach, _) => (self.ntasks / least, most),
            // Nodes without a task would be of no use.
            (Tasks::AsMany, Work::Tasks) => (1, most.min(self.ntasks)),
            (Tasks::AsMany, Work::Instance { .. } | Work::Ground { .. }) => (1, most),
        };
        let each = each.max(self.slots_per_node).max(1);
        choice.over(least, most.min(TASKS_MAX / each))
    }
}

/// The choice that a count is, if it is one.
pub(super) fn choice(nodes: &Count, tasks: Tasks) -> Option<Arc<Choice>> {
    let choice = Choice {
        nodes: nodes.clone(),
        tasks,
    };
    nodes.fixed().is_none().then(|| Arc::new(choice))
}
