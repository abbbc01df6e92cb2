//! Whether a core is charged for one job at a time: of what instances of queues have, too, of which some is
//! told long after it was.
//!
//! Knows the records of jobs and the times in them, nothing of who held what when they were written.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::event::{Kind, Record};
use eddy_wire::id::{JobId, Rank};
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::time::{Span, Time};

/// The clocks of machines differ by less, and what is heard so soon is as of when it is heard.
const SKEW: Span = Span::seconds(3);

/// Who had what of each node, and when.
#[derive(Clone, Debug, Default)]
pub struct Charged {
    open: BTreeMap<JobId, Open>,
    past: BTreeMap<Rank, Vec<Had>>,
    /// Jobs that hold nothing for themselves.
    aside: std::collections::BTreeSet<JobId>,
}

#[derive(Clone, Debug)]
struct Open {
    set: Arc<ResourceSet>,
    from: Time,
    /// When it gave this back.
    until: BTreeMap<Rank, Time>,
}

#[derive(Clone, Debug)]
struct Had {
    job: JobId,
    node: NodeSet,
    from: Time,
    until: Time,
}

impl Charged {
    /// One more record.
    ///
    /// # Errors
    /// Two jobs had a core at the same time.
    pub fn apply(&mut self, record: &Record) -> Result<(), String> {
        let Some(id) = record.event.job else {
            return Ok(());
        };
        let t = record.event.t;
        match &record.event.kind {
            Kind::Submit(submit) => {
                let request = &submit.spec.request;
                if request.work != Work::Tasks || request.takes == Takes::Nothing {
                    self.aside.insert(id);
                }
            }
            Kind::Alloc(grant) if !self.aside.contains(&id) => {
                let open = Open {
                    set: Arc::clone(&grant.set),
                    from: t,
                    until: BTreeMap::new(),
                };
                self.open.insert(id, open);
            }
            Kind::GrantChanged(grant) => {
                if let Some(open) = self.open.get_mut(&id) {
                    open.set = Arc::clone(&grant.set);
                }
            }
            // What it has then it has only now and then.
            Kind::Suspend(_) => drop(self.open.remove(&id)),
            Kind::Release(ranks, _) => {
                if let Some(open) = self.open.get_mut(&id) {
                    for rank in ranks.iter() {
                        open.until.entry(Rank(rank)).or_insert(t);
                    }
                }
            }
            _ => {}
        }
        if !record.event.kind.frees() {
            return Ok(());
        }
        let open = self.open.remove(&id);
        open.map_or(Ok(()), |open| self.close(id, &open, t))
    }

    /// Of what was given back before then nothing is told any more.
    pub fn let_go(&mut self, before: Time) {
        for past in self.past.values_mut() {
            past.retain(|had| had.until >= before);
        }
    }

    fn close(&mut self, job: JobId, open: &Open, t: Time) -> Result<(), String> {
        for (rank, node) in &open.set.nodes {
            let until = open.until.get(rank).copied().unwrap_or(t);
            let had = Had {
                job,
                node: node.clone(),
                from: open.from,
                until,
            };
            let past = self.past.entry(*rank).or_default();
            let both = past.iter().find(|other| {
                let from = other.from.max(had.from);
                let until = other.until.min(had.until);
                until - from > SKEW && other.node.intersects(&had.node)
            });
            if let Some(other) = both {
                return Err(format!(
                    "jobs {} and {job} are charged for the same cores of rank {} at the same time",
                    other.job, rank.0
                ));
            }
            past.push(had);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn had(job: u64, cores: (u32, u32), from: i64, until: i64) -> (JobId, Open, Time) {
        let at = |seconds| Time(0).after(Span::seconds(seconds));
        let node = NodeSet {
            cores: eddy_wire::idset::Idset::range(cores.0, cores.1),
            ..NodeSet::default()
        };
        let set = ResourceSet {
            nodes: [(Rank(1), node)].into(),
            ..ResourceSet::default()
        };
        let open = Open {
            set: Arc::new(set),
            from: at(from),
            until: BTreeMap::new(),
        };
        (JobId(job), open, at(until))
    }

    #[test]
    fn only_the_same_cores_at_the_same_time_are_found() {
        let mut charged = Charged::default();
        let mut close = |(job, open, until): (JobId, Open, Time)| charged.close(job, &open, until);
        assert_eq!(close(had(1, (0, 1), 0, 100)), Ok(()));
        assert_eq!(close(had(2, (2, 3), 50, 150)), Ok(()));
        assert_eq!(close(had(3, (0, 1), 100, 200)), Ok(()));
        assert_eq!(close(had(4, (0, 1), 199, 300)), Ok(()), "clocks differ");
        let found = close(had(5, (1, 1), 20, 90)).expect_err("they are held");
        assert!(found.contains("jobs 1 and 5"), "{found}");
    }
}
