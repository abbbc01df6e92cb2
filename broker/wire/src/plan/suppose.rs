//! What would be if a job asked for something else, or another policy were
//! obeyed.
//!
//! Written by `eddy why --if`, answered by a planner on a copy of what it plans
//! over: nothing changes by asking.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::jobspec::{Request, Takes};
use crate::time::Span;
use crate::update::{Limit, Terms};

/// What is supposed to be otherwise; what is not said stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suppose {
    /// So many nodes, each with as many slots as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// So many slots, anywhere; a job that asks for whole nodes and no cores keeps its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// A time limit; 0 is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Span>,
    /// An urgency, 1 to 31.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgency: Option<u8>,
    /// Its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The account that is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Its QoS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// The text of a policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Arc<str>>,
}

/// Why that cannot be supposed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SupposeError {
    /// Less than one.
    #[error("suppose.{field}: 0 given, allowed is 1 or more")]
    Nothing {
        /// Which field.
        field: &'static str,
    },
    /// No time limit.
    #[error("suppose.limit: {0} s given, allowed is more than 0, or 0 for none")]
    Limit(Span),
    /// No urgency.
    #[error("suppose.urgency: {0} given, allowed are 1 to 31")]
    Urgency(u8),
    /// Both ways to say how much.
    #[error("suppose.slots: {slots} given together with {nodes} nodes; one of the two is allowed")]
    Both {
        /// Nodes given.
        nodes: u32,
        /// Slots given.
        slots: u32,
    },
}

impl Suppose {
    /// Whether all stays as it is.
    pub fn is_nothing(&self) -> bool {
        *self == Suppose::default()
    }

    /// With whom it would be, as a change of one that waits.
    pub fn terms(&self) -> Terms {
        Terms {
            name: None,
            queue: self.queue.clone(),
            account: self.account.clone(),
            qos: self.qos.clone(),
        }
    }

    /// Whether anything but the policy is otherwise.
    pub fn is_of_jobs(&self) -> bool {
        let rest = Suppose {
            policy: None,
            ..self.clone()
        };
        !rest.is_nothing()
    }

    /// Checks what can be checked without a job.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Result<(), SupposeError> {
        let zero = |is_zero: bool, field: &'static str| match is_zero {
            true => Err(SupposeError::Nothing { field }),
            false => Ok(()),
        };
        zero(self.nodes == Some(0), "nodes")?;
        zero(self.slots == Some(0), "slots")?;
        if let Some(limit) = self.limit.filter(|limit| *limit < Span::ZERO) {
            return Err(SupposeError::Limit(limit));
        }
        match (self.urgency, self.nodes, self.slots) {
            (Some(urgency), ..) if !(1..=31).contains(&urgency) => {
                Err(SupposeError::Urgency(urgency))
            }
            (_, Some(nodes), Some(slots)) => Err(SupposeError::Both { nodes, slots }),
            (_, _, _) => Ok(()),
        }
    }

    /// The request of a job as it would be. Tasks are as many for each slot as before, slots that lie in
    /// sockets as many in each, so that there may be some more of them than supposed; a job that takes
    /// nothing is not made to take something.
    pub fn request(&self, request: &Request) -> Request {
        let mut supposed = request.clone();
        if let Some(limit) = self.limit {
            supposed.duration = Limit::of(Some(limit)).span().map(|limit| limit.0);
        }
        if request.takes == Takes::Nothing {
            return supposed;
        }
        let is_of_slots = request.cores_per_slot > 0 || request.sockets.is_some();
        let least = request.sockets.map_or(1, |group| group.slots.max(1));
        if let Some(nodes) = self.nodes {
            (supposed.nodes, supposed.choice) = (Some(nodes), None);
            supposed.slots = nodes.saturating_mul(match request.nodes {
                Some(_) => request.slots_per_node,
                None => least,
            });
        } else if let Some(slots) = self.slots.filter(|_| is_of_slots) {
            let slots = slots.div_ceil(least).saturating_mul(least);
            (supposed.nodes, supposed.choice, supposed.slots) = (None, None, slots);
        } else {
            return supposed;
        }
        supposed.slots_per_node = match supposed.nodes {
            Some(nodes) => supposed.slots / nodes.max(1),
            None => supposed.slots,
        };
        let tasks = u64::from(request.ntasks) * u64::from(supposed.slots);
        let tasks = tasks / u64::from(request.slots.max(1));
        supposed.ntasks = u32::try_from(tasks.max(1)).unwrap_or(u32::MAX);
        supposed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobspec::{MemoryNeed, Sharing, Work};

    fn request() -> Request {
        Request {
            nodes: Some(4),
            choice: None,
            slots: 8,
            slots_per_node: 2,
            cores_per_slot: 3,
            gpus_per_slot: 0,
            memory: MemoryNeed::None,
            sharing: Sharing::Shared,
            takes: Takes::Resources,
            ranks: None,
            constraint: None,
            work: Work::Tasks,
            ntasks: 16,
            duration: None,
            sockets: None,
        }
    }

    #[test]
    fn fewer_nodes_have_as_many_slots_and_tasks_each() {
        let suppose = Suppose {
            nodes: Some(3),
            limit: Some(Span::seconds(60)),
            ..Suppose::default()
        };
        let supposed = suppose.request(&request());
        let expected = Request {
            nodes: Some(3),
            slots: 6,
            ntasks: 12,
            duration: Some(60_000_000),
            ..request()
        };
        assert_eq!(supposed, expected);
    }

    #[test]
    fn a_limit_of_0_is_none() {
        let suppose = Suppose {
            limit: Some(Span::ZERO),
            ..Suppose::default()
        };
        let limited = Request {
            duration: Some(60_000_000),
            ..request()
        };
        assert_eq!(suppose.check(), Ok(()));
        assert_eq!(suppose.request(&limited), request());
    }

    #[test]
    fn slots_may_be_anywhere() {
        let suppose = Suppose {
            slots: Some(3),
            ..Suppose::default()
        };
        let expected = Request {
            nodes: None,
            slots: 3,
            slots_per_node: 3,
            ntasks: 6,
            ..request()
        };
        assert_eq!(suppose.request(&request()), expected);
    }

    #[test]
    fn what_cannot_be_is_refused_by_field() {
        let said = |suppose: Suppose| suppose.check().map_err(|error| error.to_string());
        let nothing = Suppose::default();
        assert_eq!(said(nothing.clone()), Ok(()));
        let cases = [
            (
                Suppose {
                    nodes: Some(0),
                    ..nothing.clone()
                },
                "suppose.nodes: 0 given, allowed is 1 or more",
            ),
            (
                Suppose {
                    urgency: Some(32),
                    ..nothing.clone()
                },
                "suppose.urgency: 32 given, allowed are 1 to 31",
            ),
            (
                Suppose {
                    nodes: Some(2),
                    slots: Some(5),
                    ..nothing
                },
                "suppose.slots: 5 given together with 2 nodes; one of the two is allowed",
            ),
        ];
        for (suppose, text) in cases {
            assert_eq!(said(suppose), Err(text.to_owned()));
        }
    }
}
