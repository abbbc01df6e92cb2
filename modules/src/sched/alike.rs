//! Which nodes are as a constraint says, found once for all jobs that ask the same.
//!
//! Copies of a submission ask alike, each is asked about when it waits and when it is granted something, and
//! to find out is a look at every node there is.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use eddy_wire::constraint::Constraint;
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::ResourceSet;

/// So many are remembered, the last ones that were asked for.
const KEPT_MAX: usize = 16;

/// What was found of the nodes there are.
#[derive(Debug, Default)]
pub(super) struct Alike(RefCell<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// Of which nodes: kept, so that no others are where these were.
    all: Option<Arc<ResourceSet>>,
    /// The newest first.
    answers: VecDeque<(Arc<Constraint>, Idset)>,
}

impl Kept {
    /// Of other nodes nothing is known.
    fn turn_to(&mut self, all: &Arc<ResourceSet>) {
        if !self
            .all
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, all))
        {
            self.answers.clear();
            self.all = Some(Arc::clone(all));
        }
    }

    fn take(&mut self, constraint: &Arc<Constraint>) -> Option<(Arc<Constraint>, Idset)> {
        let is_it = |known: &Arc<Constraint>| Arc::ptr_eq(known, constraint) || known == constraint;
        let place = self.answers.iter().position(|(known, _)| is_it(known))?;
        self.answers.remove(place)
    }
}

impl Alike {
    /// The ranks of those of all nodes for which the constraint holds.
    pub(super) fn ranks(&self, constraint: &Arc<Constraint>, all: &Arc<ResourceSet>) -> Idset {
        let mut kept = self.0.borrow_mut();
        kept.turn_to(all);
        let known = kept.take(constraint);
        let answer = known.unwrap_or_else(|| (Arc::clone(constraint), constraint.ranks(all)));
        let ranks = answer.1.clone();
        kept.answers.truncate(KEPT_MAX - 1);
        kept.answers.push_front(answer);
        ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(fast: &str) -> Arc<ResourceSet> {
        let set = serde_json::json!({"version": 1, "execution": {
            "R_lite": [{"rank": "0-7", "children": {"core": "0"}}],
            "nodelist": ["n[0-7]"],
            "properties": {"fast": fast},
        }});
        Arc::new(ResourceSet::from_value(set).expect("eight nodes"))
    }

    fn query(text: &str) -> Arc<Constraint> {
        Arc::new(Constraint::from_query(text).expect("a query"))
    }

    #[test]
    fn what_is_remembered_is_of_that_constraint_and_those_nodes() {
        let (alike, before, after) = (Alike::default(), nodes("2-5"), nodes("1"));
        let ranks = |text: &str, all| alike.ranks(&query(text), all).to_string();
        for _ in 0..2 {
            assert_eq!(ranks("fast", &before), "2-5");
            assert_eq!(ranks("fast", &after), "1", "the nodes are others");
            assert_eq!(ranks("-fast", &before), "0-1,6-7");
        }
        for host in 0..KEPT_MAX {
            ranks(&format!("hosts:n{}", host % 8), &after);
        }
        assert_eq!(ranks("fast", &before), "2-5", "and when it was forgotten");
        assert!(alike.0.borrow().answers.len() <= KEPT_MAX);
    }
}
