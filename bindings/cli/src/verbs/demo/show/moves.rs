//! Nodes that go over from one queue instance to the other.
//!
//! Called by `show` at each of its looks. Each instance is asked what its jobs hold, as `eddy
//! resource list` does; what comes and goes between two looks is not seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use eddy_client::Client;
use eddy_wire::services::resource::List;

use super::work::CORES;

/// Who alone holds cores of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    /// The instance's name.
    name: &'static str,
    /// How many.
    cores: u64,
    /// When that was seen last.
    at: Instant,
}

/// What each holds of each node.
type Held = BTreeMap<Arc<str>, Vec<(&'static str, u64)>>;

/// A node that has gone over.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Move {
    node: Arc<str>,
    from: Holder,
    to: Holder,
}

impl Move {
    fn told(&self) -> String {
        let (from, to) = (&self.from, &self.to);
        format!(
            "node {} moves from {} to {}: {} held {} of its {CORES} cores, and {:.2} s later {} holds {}, each alone",
            self.node,
            from.name,
            to.name,
            from.name,
            from.cores,
            (to.at - from.at).as_secs_f64(),
            to.name,
            to.cores
        )
    }
}

/// Those that were seen.
pub struct Moves {
    instances: Vec<(&'static str, Client)>,
    holders: BTreeMap<Arc<str>, Holder>,
    seen: usize,
}

impl Moves {
    /// Between these instances.
    pub fn between(instances: Vec<(&'static str, Client)>) -> Moves {
        Moves {
            instances,
            holders: BTreeMap::new(),
            seen: 0,
        }
    }

    /// The first node that moves, when it is seen to.
    ///
    /// # Errors
    /// An instance cannot be asked.
    pub async fn look(&mut self) -> anyhow::Result<Option<String>> {
        let mut held = Held::new();
        for (name, client) in &self.instances {
            for node in client
                .call::<List>(&())
                .await?
                .allocated
                .nodes
                .into_values()
            {
                let cores = node.cores.len();
                if cores > 0 {
                    held.entry(node.host).or_default().push((*name, cores));
                }
            }
        }
        let moves = self.note(&held, Instant::now());
        let is_first = self.seen == 0;
        self.seen += moves.len();
        Ok(moves.first().filter(|_| is_first).map(Move::told))
    }

    /// How many there were, in words.
    pub fn counted(&self) -> String {
        let names: Vec<&str> = self.instances.iter().map(|(name, _)| *name).collect();
        let names = names.join(" and ");
        match self.seen {
            0 => format!("no node was seen to move between {names}"),
            1 => format!("one move of a node between {names} was seen"),
            more => format!("{more} moves of nodes between {names} were seen"),
        }
    }

    /// A node of which both hold cores is on its way; one that nobody uses is still whose it was.
    fn note(&mut self, held: &Held, at: Instant) -> Vec<Move> {
        let mut moves = Vec::new();
        for (node, holders) in held {
            let [(name, cores)] = holders[..] else {
                continue;
            };
            let to = Holder { name, cores, at };
            let before = self.holders.insert(node.clone(), to);
            if let Some(from) = before.filter(|from| from.name != name) {
                let node = node.clone();
                moves.push(Move { node, from, to });
            }
        }
        moves
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_node_moves_when_the_other_alone_holds_cores_of_it() {
        let mut moves = Moves::between(Vec::new());
        let begun = Instant::now();
        let mut look = |tenths: u32, holders: &[(&'static str, u64)]| {
            let held = match holders {
                [] => Held::new(),
                holders => [("n0".into(), holders.to_vec())].into(),
            };
            let moves = moves.note(&held, begun + Duration::from_millis(100) * tenths);
            moves.iter().map(Move::told).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(look(0, &[("batch", 4)]), none);
        assert_eq!(look(1, &[("batch", 1), ("debug", 3)]), none);
        assert_eq!(look(2, &[]), none);
        assert_eq!(look(3, &[("batch", 2)]), none);
        let told = "node n0 moves from batch to debug: batch held 2 of its 4 cores, \
                    and 0.20 s later debug holds 3, each alone";
        assert_eq!(look(5, &[("debug", 3)]), [told]);
        assert_eq!(look(6, &[("debug", 1)]), none);
        assert_eq!(look(7, &[("batch", 1)]).len(), 1);
    }
}
