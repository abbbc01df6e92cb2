//! How much a job may come to have, and whose limits of that count for it.

use eddy_wire::account::{Limits as Given, Party};
use eddy_wire::gang;
use eddy_wire::id::JobId;
use eddy_wire::plan::Reason;
use eddy_wire::spec::Spec;
use eddy_wire::time::Span;

use super::{Limits, Whose, is_nobodys};

impl Limits {
    /// The most cores that a job may be given.
    pub fn most_cores(&self, spec: &Spec) -> u64 {
        self.shapes.most_cores(&spec.request)
    }

    /// Whether a limit of how many nodes, cores or GPUs, or how much memory may be had counts for a job like this.
    pub fn is_of_size(&self, user: u32, party: &Party, spec: &Spec) -> bool {
        let all = self.bound_by(party, user, spec).into_iter();
        let mut given = all.filter_map(|whose| self.given(&whose));
        given.any(|given| {
            let is_of_size = given.limits_together() || given.limits_size_of_each();
            given.core_minutes.is_some() || is_of_size
        })
    }

    /// The longest time limit that a job like this may have, if that is limited.
    pub fn longest(&self, user: u32, party: &Party, spec: &Spec) -> Option<Span> {
        if is_nobodys(spec) {
            return None;
        }
        let all = self.bound_by(party, user, spec).into_iter();
        let given = all.filter_map(|whose| self.given(&whose)?.job_time);
        given.min()
    }

    /// Whose limit of how many nodes may be had counts for a job like this, if any does.
    pub fn of_nodes(&self, user: u32, party: &Party, spec: &Spec) -> Option<Whose> {
        let mut all = self.bound_by(party, user, spec).into_iter();
        let is_of_nodes = |given: &Given| given.nodes.is_some() || given.job_nodes.is_some();
        all.find(|whose| self.given(whose).is_some_and(is_of_nodes))
    }

    /// On how many nodes so many pieces of a job may lie that go anywhere, the fewest first.
    pub fn numbers_of_nodes(&self, spec: &Spec, pieces: u32) -> Vec<u32> {
        self.shapes.numbers_of_nodes(&spec.request, pieces)
    }

    /// A limit of what may run at a time, of those that count for a job like this.
    pub fn of_running(&self, user: u32, party: &Party, spec: &Spec) -> Option<Whose> {
        self.all_of_running(user, party, spec).into_iter().next()
    }

    /// All of them.
    pub fn all_of_running(&self, user: u32, party: &Party, spec: &Spec) -> Vec<Whose> {
        let mut all = self.bound_by(party, user, spec);
        all.retain(|whose| {
            self.given(whose).is_some_and(|given| {
                let is_of_jobs = given.running_jobs.is_some() || given.core_minutes.is_some();
                is_of_jobs || given.limits_together()
            })
        });
        all
    }

    /// Why a job that is there has no place, where it is of a gang and such a limit came since: members would start
    /// one by one.
    pub fn bars_gang(&self, id: JobId) -> Option<Reason> {
        let seen = self.jobs.get(&id)?;
        let gang = gang::of(&seen.spec).ok()??;
        let whose = self.of_running(seen.user, &seen.party, &seen.spec)?;
        Some(Reason::Limit {
            limit: format!("gang `{}` to be let through", gang.name),
            why: format!(
                "{whose} has a limit of what may run since, and gangs are served where there is none"
            ),
            within: None,
        })
    }
}
