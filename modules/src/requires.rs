//! What queues require of nodes: jobs of such a queue start only on nodes that have these properties.
//!
//! Asked at submission (ingest) and when a job is planned and granted (sched), so that both say the
//! same. The ranks are found once for each inventory and not for each job. It knows nothing of what
//! is free, and nothing of what a job itself asks of nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::constraint::Constraint;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Takes};
use eddy_wire::plan::Reason;
use eddy_wire::resource_set::ResourceSet;

use crate::settings::Queue;

/// By queue, of those that require something.
#[derive(Clone, Debug, Default)]
pub struct Requires(BTreeMap<String, Required>);

#[derive(Clone, Debug)]
struct Required {
    constraint: Arc<Constraint>,
    /// The nodes that are so.
    ranks: Idset,
}

impl Requires {
    /// As queues say, where these nodes are.
    pub fn new(queues: &[Queue], all: &ResourceSet) -> Requires {
        let required = queues.iter().filter_map(|queue| {
            let constraint = Arc::new(queue.rules.required()?);
            let ranks = constraint.ranks(all);
            Some((queue.name.clone(), Required { constraint, ranks }))
        });
        Requires(required.collect())
    }

    /// Other nodes are there.
    pub fn on(&mut self, all: &ResourceSet) {
        for one in self.0.values_mut() {
            one.ranks = one.constraint.ranks(all);
        }
    }

    /// The nodes that jobs of a queue may have; all when `None`.
    pub fn ranks(&self, queue: Option<&str>) -> Option<&Idset> {
        self.of(queue).map(|required| &required.ranks)
    }

    /// What a job of a queue asks for that may be given these of all nodes, any when `None`.
    pub fn within(&self, queue: Option<&str>, request: Request, ranks: Option<Idset>) -> Request {
        let required = self.of(queue);
        let required = required.filter(|_| request.takes == Takes::Resources);
        let Some(Required {
            constraint,
            ranks: most,
        }) = required
        else {
            return Request { ranks, ..request };
        };
        let named = request.named_ranks().cloned().map(Constraint::Ranks);
        let own = request.constraint.as_deref().cloned().or(named);
        let both = own.map(|own| Arc::new(Constraint::And(vec![own, (**constraint).clone()])));
        Request {
            ranks: Some(ranks.map_or_else(|| most.clone(), |ranks| ranks.intersect(most))),
            constraint: Some(both.unwrap_or_else(|| Arc::clone(constraint))),
            ..request
        }
    }

    /// Why a job does not fit, with what its queue has to do with it.
    pub fn explain(&self, queue: Option<&str>, why: &Reason) -> Option<Reason> {
        let required = self.of(queue)?;
        Some(Reason::NotInQueue {
            queue: queue?.to_owned(),
            requires: required.constraint.to_string(),
            why: why.to_string(),
        })
    }

    fn of(&self, queue: Option<&str>) -> Option<&Required> {
        self.0.get(queue?)
    }
}

#[cfg(test)]
mod tests {
    use eddy_wire::jobspec::Ask;
    use eddy_wire::queue::Rules;

    use super::*;

    fn request(ranks: Option<&str>, query: Option<&str>) -> Request {
        let ask = Ask {
            command: vec!["true".to_owned()],
            ranks: ranks.map(|ranks| ranks.parse().expect("ranks")),
            constraint: query.map(|query| Constraint::from_query(query).expect("a query")),
            ..Ask::default()
        };
        let jobspec = ask.jobspec().expect("a jobspec");
        jobspec.request().expect("a request")
    }

    /// Ranks 0 to 7, of which 2-5 are fast and 4-7 in rack r1.
    fn eight() -> ResourceSet {
        let set = serde_json::json!({"version": 1, "execution": {
            "R_lite": [{"rank": "0-7", "children": {"core": "0"}}],
            "nodelist": ["n[0-7]"],
            "properties": {"fast": "2-5", "rack=r1": "4-7"},
        }});
        ResourceSet::from_value(set).expect("eight nodes")
    }

    /// What a job may have in a queue that requires these, and how that is said.
    fn given(requires: &[&str], request: Request, ranks: Option<&str>) -> (String, String) {
        let queue = Queue {
            name: "q".to_owned(),
            rules: Rules {
                requires: requires.iter().map(|name| (*name).to_owned()).collect(),
                ..Rules::default()
            },
            ..Queue::default()
        };
        let requires = Requires::new(&[queue], &eight());
        let ranks = ranks.map(|ranks| ranks.parse().expect("ranks"));
        let request = requires.within(Some("q"), request, ranks);
        let ranks = request
            .ranks
            .map_or_else(String::new, |ranks| ranks.to_string());
        let like = request.constraint.map(|like| like.to_string());
        (ranks, like.unwrap_or_default())
    }

    fn said(ranks: &str, like: &str) -> (String, String) {
        (ranks.to_owned(), like.to_owned())
    }

    #[test]
    fn a_queue_requires_all_of_its_properties_beside_what_a_job_asks() {
        let any = || request(None, None);
        assert_eq!(given(&[], any(), None), said("", ""));
        assert_eq!(given(&["fast"], any(), None), said("2-5", "fast"));
        assert_eq!(
            given(&["fast", "rack=r1"], any(), None),
            said("4-5", "fast,rack=r1")
        );
        assert_eq!(given(&["^fast"], any(), Some("1-3")), said("1", "^fast"));
        let own = request(None, Some("-rack=r1"));
        assert_eq!(
            given(&["fast"], own, Some("0-3")),
            said("2-3", "not rack=r1 and fast")
        );
        // Who names ranks is told of them.
        let named = request(Some("0-2"), None);
        assert_eq!(
            given(&["fast"], named, Some("0-2")),
            said("2", "rank:0-2 and fast")
        );
    }

    #[test]
    fn what_takes_nothing_is_asked_nothing() {
        let beside = Request {
            takes: Takes::Nothing,
            ..request(Some("0"), None)
        };
        assert_eq!(given(&["fast"], beside, Some("0")), said("0", ""));
    }
}
