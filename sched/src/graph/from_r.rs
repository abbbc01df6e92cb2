//! A graph of what R version 1 says: a cluster of nodes with cores, GPUs and
//! memory.
//!
//! Called where an inventory is known as R. R says nothing of racks, and of sockets only where
//! somebody knew them; else they come from JGF, from hosts or from the generator.

use eddy_wire::idset::Idset;
use eddy_wire::resource_set::ResourceSet;
use petgraph::graph::NodeIndex;

use super::containment::Graph;
use super::draft::{Draft, GraphError, Thing};

impl Graph {
    /// The graph of a resource set; its properties are properties of nodes.
    ///
    /// # Errors
    /// [`GraphError`] where it has no node or more than can be counted.
    pub fn from_resource_set(set: &ResourceSet) -> Result<Graph, GraphError> {
        let mut draft = Draft::new();
        let root = draft.add(Thing::one("cluster", 0));
        for (rank, node) in &set.nodes {
            let mut thing = Thing::node(rank.0, &node.host, rank.0);
            for (property, having) in &set.properties {
                if having.contains(rank.0) {
                    thing.properties.insert(property.clone(), String::new());
                    if let Some((key, value)) = property.split_once('=') {
                        thing.properties.insert(key.to_owned(), value.to_owned());
                    }
                }
            }
            let at = draft.within(root, thing);
            let mut rest = node.clone();
            for (socket, id) in node.sockets.known().unwrap_or_default().iter().zip(0..) {
                let part = node.of_socket(socket);
                (rest.cores, rest.gpus) = (
                    rest.cores.difference(&part.cores),
                    rest.gpus.difference(&part.gpus),
                );
                let within = draft.within(at, Thing::one("socket", id));
                runs(&mut draft, within, (&part.cores, &part.gpus));
            }
            runs(&mut draft, at, (&rest.cores, &rest.gpus));
            if node.memory > 0 {
                draft.within(at, Thing::amount("memory", 0, node.memory));
            }
        }
        draft.finish()
    }
}

fn runs(draft: &mut Draft, within: NodeIndex, (cores, gpus): (&Idset, &Idset)) {
    for (kind, ids) in [("core", cores), ("gpu", gpus)] {
        if !ids.is_empty() {
            draft.within(within, Thing::run(kind, ids.clone()));
        }
    }
}
