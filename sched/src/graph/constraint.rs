//! Which nodes of a graph a constraint (RFC 31) allows.
//!
//! Evaluated once for each request, into a set of nodes. It knows nothing of what is free.

use eddy_wire::constraint::Constraint;
use fixedbitset::FixedBitSet;

use super::containment::Graph;

/// The nodes for which it holds, by their place in the graph.
pub(super) fn nodes(constraint: &Constraint, graph: &Graph) -> FixedBitSet {
    let count = graph.host_count();
    let mut found = FixedBitSet::with_capacity(count);
    match constraint {
        Constraint::Properties(names) => {
            let fits = |&host: &usize| names.iter().all(|name| has(graph, host, name));
            (0..count).filter(fits).for_each(|host| found.insert(host));
        }
        Constraint::Hostlist(hosts) => {
            let mut hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
            hosts.sort_unstable();
            let fits = |&host: &usize| {
                let name = graph.host_name(graph.host(host));
                hosts.binary_search(&&*name).is_ok()
            };
            (0..count).filter(fits).for_each(|host| found.insert(host));
        }
        Constraint::Ranks(ranks) => {
            let rank = |host: usize| graph.vertex(graph.host(host)).rank;
            let fits = |&host: &usize| rank(host).is_some_and(|rank| ranks.contains(rank));
            (0..count).filter(fits).for_each(|host| found.insert(host));
        }
        Constraint::And(all) => {
            found.insert_range(..);
            all.iter()
                .for_each(|one| found.intersect_with(&nodes(one, graph)));
        }
        Constraint::Or(all) => {
            if all.is_empty() {
                found.insert_range(..);
            }
            all.iter()
                .for_each(|one| found.union_with(&nodes(one, graph)));
        }
        Constraint::Not(all) => {
            found.insert_range(..);
            all.iter()
                .for_each(|one| found.intersect_with(&nodes(one, graph)));
            found.toggle_range(..);
        }
    }
    found
}

/// Whether a node has a property: its own or of what contains it, its host name, or, with `^`
/// before it, has it not. `key=value` asks for both, `key` for either.
fn has(graph: &Graph, host: usize, name: &str) -> bool {
    if let Some(other) = name.strip_prefix('^') {
        return !has(graph, host, other);
    }
    let mut at = graph.host(host);
    if *graph.host_name(at) == *name {
        return true;
    }
    loop {
        if let Some(properties) = &graph.vertex(at).properties {
            let pair = name.split_once('=');
            let pair = pair
                .is_some_and(|(key, value)| properties.get(key).is_some_and(|had| had == value));
            if pair || properties.contains_key(name) {
                return true;
            }
        }
        if at == 0 {
            return false;
        }
        at = graph.parent[at as usize];
    }
}
