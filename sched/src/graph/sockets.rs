//! The sockets of the nodes of a graph, as a resource set has them.
//!
//! Called where an inventory comes with a graph. What lies in no socket is left out.

use std::collections::BTreeMap;

use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::{Socket, Sockets, SocketsError};

use super::containment::{Body, Graph};

impl Graph {
    /// The sockets of each node that has a rank and any socket with cores.
    ///
    /// # Errors
    /// A node, by its path, whose sockets cannot be what they are said to be.
    pub fn sockets(&self) -> Result<BTreeMap<Rank, Sockets>, (String, SocketsError)> {
        let mut all = BTreeMap::new();
        let Some(kind) = self.kind("socket") else {
            return Ok(all);
        };
        for &node in &self.hosts {
            let Some(rank) = self.vertex(node).rank else {
                continue;
            };
            let within = node..self.end[node as usize];
            let sockets = within.filter(|at| self.vertex(*at).kind == kind);
            let sockets = sockets.map(|at| Socket {
                cores: self.ids_within(at, "core"),
                gpus: self.ids_within(at, "gpu"),
            });
            let sockets: Vec<Socket> = sockets.filter(|one| !one.cores.is_empty()).collect();
            if !sockets.is_empty() {
                let sockets = Sockets::new(sockets).map_err(|why| (self.path(node), why))?;
                all.insert(Rank(rank), sockets);
            }
        }
        Ok(all)
    }

    /// The numbers of all of a type that lie in a vertex.
    fn ids_within(&self, at: u32, kind: &str) -> Idset {
        let Some(kind) = self.kind(kind) else {
            return Idset::new();
        };
        let within = (at..self.end[at as usize]).map(|at| self.vertex(at));
        let these = within.filter(|vertex| vertex.kind == kind);
        these.fold(Idset::new(), |all, vertex| match &vertex.body {
            Body::Units(ids) => all.union(ids),
            Body::Place | Body::Amount(_) => all.union(&Idset::one(vertex.id)),
        })
    }
}
