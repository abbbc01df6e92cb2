//! Which nodes a job may use at all: labels, taints, service.
//!
//! Nodes that no job can tell apart are one group; what a setting allows is a
//! list of groups, worked out once for each different setting. Used by the
//! field and by placement. It knows no amounts.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::state::{Node, Service, Setting, State, Toleration};
use crate::amounts::Amounts;

/// Nodes that no job of the round can tell apart.
#[derive(Clone, Debug)]
struct Group<'a> {
    labels: BTreeMap<&'a str, &'a str>,
    /// Each different one once.
    capacities: BTreeSet<Amounts>,
    /// Any of them: they are alike in all that is looked at.
    node: &'a Node,
}

/// A setting and what is tolerated beside it, as a key.
type Asked<'a> = (&'a Setting, &'a [Toleration]);

/// The groups of the nodes and what each setting allows of them.
#[derive(Debug)]
pub(super) struct Grounds<'a> {
    groups: Vec<Group<'a>>,
    /// Of each node, by its index; `None` takes no new jobs.
    of_node: Vec<Option<u32>>,
    known: BTreeMap<Asked<'a>, u32>,
    allowed: Vec<Rc<[u32]>>,
}

impl<'a> Grounds<'a> {
    /// The groups of these nodes, as far as the jobs of the state can tell them apart.
    pub(super) fn new(state: &'a State, nodes: &[&'a Node]) -> Grounds<'a> {
        let labels = labels_looked_at(state);
        let mut groups: Vec<Group<'a>> = Vec::new();
        let mut numbers = BTreeMap::new();
        let of_node = nodes
            .iter()
            .map(|&node| match node.service {
                Service::Cordoned | Service::Down => None,
                Service::Up => {
                    let seen: BTreeMap<&str, &str> = node
                        .labels
                        .iter()
                        .filter(|(label, _)| labels.contains(label.as_str()))
                        .map(|(label, value)| (label.as_str(), value.as_str()))
                        .collect();
                    let number =
                        *numbers
                            .entry((seen.clone(), &node.taints))
                            .or_insert_with(|| {
                                groups.push(Group {
                                    labels: seen,
                                    capacities: BTreeSet::new(),
                                    node,
                                });
                                groups.len() as u32 - 1
                            });
                    groups[number as usize].capacities.insert(node.capacity);
                    Some(number)
                }
            })
            .collect();
        Grounds {
            groups,
            of_node,
            known: BTreeMap::new(),
            allowed: Vec::new(),
        }
    }

    /// The group of a node by its index.
    pub(super) fn group(&self, node: u32) -> Option<u32> {
        self.of_node[node as usize]
    }

    /// The different capacities of the nodes of a group.
    pub(super) fn capacities(&self, group: u32) -> &BTreeSet<Amounts> {
        &self.groups[group as usize].capacities
    }

    /// The number of this setting with more tolerations.
    pub(super) fn number(&mut self, setting: &'a Setting, more: &'a [Toleration]) -> u32 {
        if let Some(&number) = self.known.get(&(setting, more)) {
            return number;
        }
        let allowed = (0..self.groups.len() as u32)
            .filter(|&group| allows(self.groups[group as usize].node, setting, more))
            .collect();
        self.allowed.push(allowed);
        let number = self.allowed.len() as u32 - 1;
        self.known.insert((setting, more), number);
        number
    }

    /// The groups that the setting of this number allows, ascending.
    pub(super) fn allowed(&self, number: u32) -> Rc<[u32]> {
        Rc::clone(&self.allowed[number as usize])
    }

    /// The values of a label among the groups that the setting allows, each with those groups.
    pub(super) fn values(&self, number: u32, label: &str) -> BTreeMap<&'a str, Vec<u32>> {
        let mut values: BTreeMap<&'a str, Vec<u32>> = BTreeMap::new();
        for &group in self.allowed(number).iter() {
            if let Some(&value) = self.groups[group as usize].labels.get(label) {
                values.entry(value).or_default().push(group);
            }
        }
        values
    }
}

fn allows(node: &Node, setting: &Setting, more: &[Toleration]) -> bool {
    let tolerated = |taint| {
        let mut all = setting.tolerations.iter().chain(more);
        all.any(|toleration| toleration.covers(taint))
    };
    node.taints.iter().all(tolerated)
        && setting
            .selector
            .iter()
            .all(|(label, value)| node.labels.get(label) == Some(value))
        && (setting.affinity.is_empty()
            || setting
                .affinity
                .iter()
                .any(|term| term.iter().all(|wish| wish.met(&node.labels))))
}

/// The labels that any job asks about. A label nobody asks about (a host name) must not make
/// each node a group of its own.
fn labels_looked_at(state: &State) -> BTreeSet<&str> {
    let mut labels = BTreeSet::new();
    for job in state
        .jobs
        .iter()
        .chain(state.runs.iter().map(|run| &run.job))
    {
        labels.extend(job.setting.selector.keys().map(String::as_str));
        labels.extend(
            job.setting
                .affinity
                .iter()
                .flatten()
                .map(|wish| wish.label()),
        );
        labels.extend(job.gang.iter().filter_map(|gang| gang.uniform.as_deref()));
    }
    labels
}
