//! Whether ever more of a pool is in use than there is.
//!
//! Knows the records and how much there is, nothing of how it is given.

use std::collections::BTreeMap;

use eddy_wire::account::Name;
use eddy_wire::event::{Final, Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::pool::{self, Pool, Takes};

/// The pools, what jobs ask of them and what they have.
#[derive(Clone, Debug, Default)]
pub struct Pooled {
    counts: BTreeMap<Name, u64>,
    asked: BTreeMap<JobId, Takes>,
    held: BTreeMap<JobId, Takes>,
}

impl Pooled {
    /// Of pools of which there is so much.
    pub fn new(pools: &[Pool]) -> Pooled {
        let counts = pools.iter().map(|pool| (pool.name.clone(), pool.count));
        Pooled {
            counts: counts.collect(),
            ..Pooled::default()
        }
    }

    /// There is so much from now on. Who has more goes on.
    pub fn configured(&mut self, pools: &[Pool]) {
        *self = Pooled {
            asked: std::mem::take(&mut self.asked),
            held: std::mem::take(&mut self.held),
            ..Pooled::new(pools)
        };
    }

    /// With the same counts, and no records.
    pub fn forgetful(&self) -> Pooled {
        Pooled {
            counts: self.counts.clone(),
            ..Pooled::default()
        }
    }

    /// One more record.
    ///
    /// # Errors
    /// More is in use than there is.
    pub fn apply(&mut self, record: &Record) -> Result<(), String> {
        let Some(id) = record.event.job else {
            return Ok(());
        };
        match &record.event.kind {
            Kind::Submit(submit) if submit.pass.is_none() => {
                let takes = pool::of(&submit.spec).unwrap_or_default();
                self.asked.insert(id, takes);
            }
            Kind::Alloc(_) => {
                if let Some(takes) = self.asked.get(&id) {
                    self.held.insert(id, takes.clone());
                }
                return self.enough(id);
            }
            Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)) => {
                self.held.remove(&id);
            }
            Kind::Clean => {
                self.asked.remove(&id);
            }
            _ => {}
        }
        Ok(())
    }

    fn enough(&self, id: JobId) -> Result<(), String> {
        let mut sums: BTreeMap<&Name, u64> = BTreeMap::new();
        for (name, count) in self.held.values().flat_map(|takes| takes.iter()) {
            *sums.entry(name).or_default() += count;
        }
        let own = self.asked.get(&id);
        let takes = |name: &Name| own.is_some_and(|own| own.iter().any(|(own, _)| own == name));
        let over = sums
            .iter()
            .filter(|(name, _)| takes(name))
            .find(|(name, sum)| **sum > self.counts.get(**name).copied().unwrap_or(0));
        match over {
            Some((name, sum)) => Err(format!(
                "with job {id} {sum} of pool `{name}` are in use, which has fewer"
            )),
            None => Ok(()),
        }
    }
}
