//! What of the requests of a queue instance's clients is its parent's to answer, and how it is said there.
//!
//! A queue instance has jobs and nodes, and both are its parent's: which queues are open, who is charged, which
//! nodes are in service and who is next is known there. What it kept of that itself nobody would go by. Nodes
//! are named by host on the way, since the parent has other numbers for them.

use std::collections::BTreeSet;

use eddy_broker::Request;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::hostlist::Hostlist;
use eddy_wire::services::job::{self, ListRequest};
use eddy_wire::services::reservation::{self, CreateRequest, Which};
use eddy_wire::services::resource::{self, DeadRequest, DrainRequest, Targets, UndrainRequest};
use eddy_wire::services::{Service, account, child, pool, queue, sched, usage};
use serde::Serialize;
use serde_json::Value;

use super::{Channel, Passed};
use crate::nest::route::named;

/// What is referred as it is.
const ABOVE: [&str; 10] = [
    account::List::TOPIC,
    account::Set::TOPIC,
    child::Owners::TOPIC,
    pool::List::TOPIC,
    queue::List::TOPIC,
    queue::TurnQueue::TOPIC,
    reservation::Delete::TOPIC,
    reservation::List::TOPIC,
    sched::Shares::TOPIC,
    usage::Report::TOPIC,
];

/// Whose a request is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Whose {
    /// This instance's own.
    Own,
    /// The parent's, as it stands.
    Parents,
    /// The parent's, with this body.
    Worded(Vec<u8>),
    /// The parent's, who would take it for something else than is meant.
    Refused(Refusal),
}

impl Passed {
    /// Whose a request of a client here is.
    pub(super) fn whose(&self, request: &Request) -> Whose {
        if self.declared.is_none() || request.caller.client.is_own() {
            return Whose::Own;
        }
        match request.topic.as_str() {
            // Those that have jobs here: who asks why a job waits needs no more.
            queue::List::TOPIC if self.channel == Channel::Away => Whose::Own,
            topic if ABOVE.contains(&topic) => Whose::Parents,
            sched::SetPolicy::TOPIC => Whose::Refused(Refusal::new(
                Code::Conflict,
                "policy: jobs here start in the order of the instance around this one: set it there",
            )),
            sched::Explain::TOPIC if is_of_all_that_waits(request) => Whose::Parents,
            reservation::Create::TOPIC => self.kept(request),
            resource::Drain::TOPIC | resource::Undrain::TOPIC | resource::Dead::TOPIC => {
                match self.channel {
                    // Handed up later; what was drained so is let go here, too.
                    Channel::Away => Whose::Own,
                    Channel::Stands => self.of_nodes(request),
                }
            }
            _ => match named(request) {
                Some(jobs) if !jobs.is_empty() => match self.answers_for(&jobs) {
                    true => Whose::Own,
                    false => Whose::Parents,
                },
                Some(_) if names_a_set(request) => Whose::Parents,
                Some(_) if request.topic == job::List::TOPIC => self.of_its_queues(request),
                Some(_) | None => Whose::Own,
            },
        }
    }

    /// A listing of the jobs of all queues that lead here, most of which wait in the parent. While that is
    /// away, what is here is all that can be told.
    fn of_its_queues(&self, request: &Request) -> Whose {
        let names = self.queues.names();
        let Ok(asked) = request.parse::<ListRequest>() else {
            return Whose::Own;
        };
        if asked.here || names.is_empty() || self.channel == Channel::Away {
            return Whose::Own;
        }
        match asked.queue {
            Some(_) => Whose::Parents,
            None => worded(&ListRequest {
                queues: names.into_iter().map(str::to_owned).collect(),
                ..asked
            }),
        }
    }

    /// A reservation, which the parent makes.
    fn kept(&self, request: &Request) -> Whose {
        let Ok(asked) = request.parse::<CreateRequest>() else {
            return Whose::Parents;
        };
        let Which::Named(targets) = &asked.nodes else {
            return Whose::Parents;
        };
        match self.by_host(targets) {
            Some(targets) => worded(&CreateRequest {
                nodes: Which::Named(targets),
                ..asked
            }),
            None => Whose::Refused(Refusal::invalid(
                "nodes: these ranks have no hosts of their own; name how many, or make it in the instance around",
            )),
        }
    }

    /// What is to become of nodes. Those that cannot be named by host are this instance's own until it has
    /// handed that up.
    fn of_nodes(&self, request: &Request) -> Whose {
        let worded = match request.topic.as_str() {
            resource::Drain::TOPIC => request.parse().ok().and_then(|asked: DrainRequest| {
                let targets = self.by_host(&asked.targets)?;
                Some(worded(&DrainRequest { targets, ..asked }))
            }),
            resource::Undrain::TOPIC => request.parse().ok().and_then(|asked: UndrainRequest| {
                let targets = self.by_host(&asked.targets)?;
                Some(worded(&UndrainRequest { targets, ..asked }))
            }),
            _ => request.parse().ok().and_then(|asked: DeadRequest| {
                let targets = self.by_host(&asked.targets)?;
                Some(worded(&DeadRequest { targets, ..asked }))
            }),
        };
        worded.unwrap_or(Whose::Own)
    }

    /// The same nodes by host, if each of them has one that no other here has.
    fn by_host(&self, targets: &Targets) -> Option<Targets> {
        let Targets::Ranks(ranks) = targets else {
            return Some(targets.clone());
        };
        let nodes = &self.inventory.nodes;
        let hosts = nodes.iter().filter(|(rank, _)| ranks.contains(rank.0));
        let hosts: BTreeSet<&str> = hosts.map(|(_, node)| &*node.host).collect();
        let all = nodes.values().filter(|node| hosts.contains(&*node.host));
        let is_plain = !hosts.is_empty() && hosts.len() as u64 == ranks.len();
        if !is_plain || all.count() != hosts.len() {
            return None;
        }
        let mut list = Hostlist::default();
        for host in hosts {
            list.push(host).ok()?;
        }
        Some(Targets::Hosts(list.to_string()))
    }
}

fn worded(body: &impl Serialize) -> Whose {
    Whose::Worded(serde_json::to_vec(body).expect("a request is JSON"))
}

/// Whether it asks who is next: in the parent's order.
fn is_of_all_that_waits(request: &Request) -> bool {
    let asked = request.parse::<sched::ExplainRequest>();
    asked.is_ok_and(|asked| asked.jobs.is_none())
}

/// Whether it is of a set of jobs by its name: where they are the parent knows.
fn names_a_set(request: &Request) -> bool {
    let body: Option<Value> = serde_json::from_slice(&request.body).ok();
    let set = body.as_ref().and_then(|body| body.get("job_set"));
    set.is_some_and(|set| !set.is_null())
}
