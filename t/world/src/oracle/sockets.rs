//! Whether who asks for sockets is given them as asked.
//!
//! Knows the records: the resources of jobspecs as they were sent, the sockets of the inventory, the numbers
//! of cores in grants; nothing of how sockets are found.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::event::{Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::{Jobspec, Sharing, Vertex};
use eddy_wire::resource_set::{NodeSet, ResourceSet};

/// What jobs ask of sockets, and what there is.
#[derive(Clone, Debug, Default)]
pub struct Socketed {
    inventory: Arc<ResourceSet>,
    asked: BTreeMap<JobId, Shape>,
}

/// Sockets that a job asks for.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Of each node; none where they lie anywhere.
    nodes: Option<u32>,
    /// So many, of each node or in all.
    sockets: u32,
    /// So many lie on one node together.
    together: u32,
    cores: u64,
    gpus: u64,
    sharing: Sharing,
    /// Whether its nodes are nobody else's.
    of_nodes: Sharing,
}

fn count(vertex: &Vertex) -> u32 {
    vertex.count.least()
}

impl Shape {
    fn of(jobspec: &Jobspec) -> Option<Shape> {
        let top = jobspec.resources.first()?;
        let (nodes, inner) = match top.kind.as_str() {
            "node" => (Some(count(top)), top.with.first()?),
            _ => (None, top),
        };
        let amount = |within: &Vertex, kind: &str| {
            let found = within.with.iter().find(|one| one.kind == kind);
            found.map_or(0, |one| u64::from(count(one)))
        };
        let below = inner.with.first()?;
        let place = jobspec.attributes.system.other.get("place");
        let of_nodes = match place.and_then(|place| place.as_str()) {
            Some("excl") => Sharing::Exclusive,
            _ => nodes.and(top.exclusive).unwrap_or_default(),
        };
        match (inner.kind.as_str(), below.kind.as_str()) {
            ("socket", "slot") => {
                let slots = u64::from(count(below));
                Some(Shape {
                    nodes,
                    sockets: count(inner),
                    together: nodes.map_or(1, |_| count(inner)),
                    cores: slots * amount(below, "core"),
                    gpus: slots * amount(below, "gpu"),
                    sharing: inner.exclusive.unwrap_or_default(),
                    of_nodes,
                })
            }
            ("slot", "socket") => {
                let sockets = count(inner) * count(below);
                Some(Shape {
                    nodes,
                    sockets,
                    together: nodes.map_or(count(below), |_| sockets),
                    cores: amount(below, "core"),
                    gpus: amount(below, "gpu"),
                    sharing: Sharing::Exclusive,
                    of_nodes,
                })
            }
            _ => None,
        }
    }

    /// How many sockets of a node it has, each as it is to be.
    fn on(&self, node: &NodeSet, part: &NodeSet) -> Result<u32, String> {
        let mut found = 0;
        for socket in node.sockets().iter() {
            let has = part.of_socket(socket);
            let (cores, gpus) = (has.cores.len(), has.gpus.len());
            if cores == 0 {
                continue;
            }
            let enough = cores >= self.cores && gpus >= self.gpus;
            let is_right = match (self.sharing, self.of_nodes) {
                (_, Sharing::Exclusive) => true,
                (Sharing::Shared, Sharing::Shared) => cores == self.cores && gpus == self.gpus,
                (Sharing::Exclusive, Sharing::Shared) => enough && has == *socket,
            };
            if !is_right {
                return Err(format!("cores {} of socket {}", has.cores, socket.cores));
            }
            found += u32::from(enough);
        }
        Ok(found)
    }
}

impl Socketed {
    /// One more record.
    ///
    /// # Errors
    /// A grant is not of sockets as they were asked for.
    pub fn apply(&mut self, record: &Record) -> Result<(), String> {
        if let Kind::ResourceDefine(set, _) = &record.event.kind {
            self.inventory = Arc::clone(set);
        }
        let Some(id) = record.event.job else {
            return Ok(());
        };
        match &record.event.kind {
            Kind::Submit(submit) => {
                let shape = Shape::of(&submit.spec.jobspec);
                self.asked.extend(shape.map(|shape| (id, shape)));
            }
            Kind::Alloc(grant) => return self.granted(id, &grant.set),
            Kind::Clean => {
                self.asked.remove(&id);
            }
            _ => {}
        }
        Ok(())
    }

    fn granted(&self, id: JobId, set: &ResourceSet) -> Result<(), String> {
        let Some(shape) = self.asked.get(&id) else {
            return Ok(());
        };
        let wrong = |why: String| {
            let given: Vec<String> = set
                .nodes
                .iter()
                .map(|(rank, node)| format!("{rank}/{}", node.cores))
                .collect();
            let given = given.join(" ");
            Err(format!(
                "job {id} was given {given}, which is not in sockets as it asks: {why}"
            ))
        };
        let mut all = 0;
        for (rank, part) in &set.nodes {
            let node = self.inventory.nodes.get(rank).unwrap_or(part);
            let found = match shape.on(node, part) {
                Ok(found) => found,
                Err(why) => return wrong(why),
            };
            let is_right = match (shape.nodes, shape.of_nodes) {
                (_, Sharing::Exclusive) => found >= shape.together,
                (Some(_), _) => found == shape.together,
                (None, _) => found % shape.together == 0,
            };
            if !is_right {
                return wrong(format!("{found} sockets on rank {rank}"));
            }
            all += found;
        }
        let nodes = set.nodes.len() as u32;
        let is_enough = match (shape.nodes, shape.of_nodes) {
            (Some(asked), _) => nodes == asked,
            (None, Sharing::Exclusive) => all >= shape.sockets,
            (None, Sharing::Shared) => all == shape.sockets,
        };
        match is_enough {
            true => Ok(()),
            false => wrong(format!("{all} sockets on {nodes} nodes")),
        }
    }
}
