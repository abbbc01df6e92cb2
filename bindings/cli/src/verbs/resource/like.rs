//! `eddy resource list` and `status` by what nodes are like: their properties, and only those that a
//! constraint allows.

use std::collections::BTreeMap;

use eddy_wire::constraint::Constraint;
use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::resource::{ListReply, RankStatus};

/// What is shown for nodes without properties.
const NONE: &str = "-";

/// Only nodes of which the instance has something, and which are like this. An elastic one has its leader on
/// a node that may be none of those that its jobs are given.
pub fn only(reply: ListReply, constraint: Option<&Constraint>) -> ListReply {
    let nodes = reply.all.nodes.iter();
    let had = nodes.filter(|(_, node)| !node.is_empty());
    let had: Idset = had.map(|(rank, _)| rank.0).collect();
    let ranks = match constraint {
        None => had,
        Some(constraint) => constraint.ranks(&reply.all).intersect(&had),
    };
    ListReply {
        all: reply.all.restrict(&ranks),
        allocated: reply.allocated.restrict(&ranks),
        down: reply.down.restrict(&ranks),
        free: reply.free.restrict(&ranks),
    }
}

/// The ranks that are like this.
pub fn only_ranks(
    ranks: Vec<RankStatus>,
    all: &ResourceSet,
    constraint: Option<&Constraint>,
) -> Vec<RankStatus> {
    let Some(constraint) = constraint else {
        return ranks;
    };
    let like = constraint.ranks(all);
    let ranks = ranks.into_iter();
    ranks.filter(|one| like.contains(one.rank.0)).collect()
}

/// The properties of a node, in the order of their names.
pub fn of_rank(all: &ResourceSet, rank: Rank) -> Vec<&str> {
    let properties = all.properties.iter();
    let having = properties.filter(|(_, ranks)| ranks.contains(rank.0));
    having.map(|(name, _)| name.as_str()).collect()
}

/// The same as one word of a table.
pub fn shown(properties: &[&str]) -> String {
    match properties {
        [] => NONE.to_owned(),
        some => some.join(","),
    }
}

/// The parts of a set whose nodes have the same properties, by those; one part where the inventory
/// has none.
pub fn parts(set: &ResourceSet, all: &ResourceSet) -> Vec<(String, ResourceSet)> {
    let mut alike: BTreeMap<Vec<&str>, Idset> = BTreeMap::new();
    for rank in set.nodes.keys() {
        let ranks = alike.entry(of_rank(all, *rank)).or_default();
        ranks.insert(rank.0);
    }
    if alike.is_empty() {
        return vec![(shown(&[]), set.clone())];
    }
    let alike = alike.iter();
    let parts = alike.map(|(properties, ranks)| (shown(properties), set.restrict(ranks)));
    parts.collect()
}

#[cfg(test)]
mod tests {
    use eddy_wire::resource_set::NodeSet;
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_of_the_same_properties_are_one_part() {
        let all = ResourceSet::from_value(json!({"version": 1, "execution": {
            "R_lite": [{"rank": "0-3", "children": {"core": "0"}}],
            "nodelist": ["n[0-3]"],
            "properties": {"fast": "1-2", "new": "2"},
        }}));
        let all = all.expect("four nodes");
        let shown = |set: &ResourceSet| -> Vec<String> {
            let parts = parts(set, &all).into_iter();
            parts
                .map(|(name, set)| format!("{name} {}", set.ranks()))
                .collect()
        };
        assert_eq!(shown(&all), ["- 0,3", "fast 1", "fast,new 2"]);
        assert_eq!(shown(&ResourceSet::new()), ["- "]);
        let fast = Constraint::from_query("fast").expect("a query");
        let reply = ListReply {
            all: all.clone(),
            free: all.restrict(&Idset::range(2, 3)),
            ..ListReply::default()
        };
        let reply = only(reply, Some(&fast));
        assert_eq!(shown(&reply.free), ["fast,new 2"]);
        assert_eq!(reply.all.nnodes(), 2);
    }

    #[test]
    fn a_node_of_which_there_is_nothing_is_not_shown() {
        let all = ResourceSet::from_value(json!({"version": 1, "execution": {
            "R_lite": [{"rank": "1-2", "children": {"core": "0"}}],
            "nodelist": ["n[1-2]"],
        }}));
        let mut all = all.expect("two nodes");
        all.nodes.insert(Rank(0), NodeSet::default());
        let reply = ListReply {
            free: all.clone(),
            all,
            ..ListReply::default()
        };
        let ranks = |reply: &ListReply| (reply.all.ranks(), reply.free.ranks());
        let two = Idset::range(1, 2);
        assert_eq!(ranks(&only(reply, None)), (two.clone(), two));
    }
}
