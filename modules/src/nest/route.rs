//! Whose a request is: this instance's, or a declared instance's in it.
//!
//! Decided by what it names and by nothing else: a queue, or job numbers.

use std::collections::BTreeMap;

use eddy_broker::{Outbox, Request};
use eddy_wire::error::Refusal;
use eddy_wire::id::JobId;
use eddy_wire::services::Service;
use eddy_wire::services::child::{Children, ChildrenRequest, ID_BLOCK};
use eddy_wire::services::job::{
    self, CollectRequest, EventsRequest, InfoRequest, InputRequest, JobSet, KillRequest,
    ListRequest, OrderRequest, OutputRequest, RaiseRequest, ReleaseRequest, RequeueRequest,
    SuspendRequest, UpdateRequest, UrgencyRequest, WaitRequest,
};
use eddy_wire::services::sched;

use super::Nest;
use super::blocks::Owner;
use crate::named::ranges;

/// Whose a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// This instance's.
    Here,
    /// That declared instance's.
    To(String),
    /// Nobody's: of several, or of one that may know more.
    Nobody(Refusal),
}

impl Nest {
    /// Whether a request is not for this instance's own modules. Most
    /// instances have nothing to relay: then nothing is looked at.
    pub(super) fn is_relayed(&self, request: &Request) -> bool {
        self.way(request) != Way::Here
    }

    pub(super) fn way(&self, request: &Request) -> Way {
        let relays_queues = self.queues.iter().any(|queue| queue.instance.is_some());
        if !relays_queues && self.blocks.is_empty() {
            return Way::Here;
        }
        let Some(jobs) = named(request) else {
            return Way::Here;
        };
        if let Some(refusal) = self.may_have_begun(request, &jobs) {
            return Way::Nobody(refusal);
        }
        match self.by_numbers(&jobs) {
            Way::Here if is_of_tasks(request) => self.by_pass(&jobs),
            way => way,
        }
    }

    /// The instance that runs this job: what is said to its tasks and what those say is there.
    fn by_pass(&self, jobs: &JobSet) -> Way {
        let job = jobs.ranges.first().map(|(first, _)| *first);
        match job.and_then(|job| self.passes.instance_of(job)) {
            Some(name) => Way::To(name.to_owned()),
            None => Way::Here,
        }
    }

    /// Tells which of these numbers one request may name: those of this instance
    /// first, then those of each other.
    pub(super) fn owners(&self, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let jobs: JobSet = request.parse()?;
        ranges(&jobs)?;
        let mut sets: BTreeMap<Option<&str>, Vec<(JobId, JobId)>> = BTreeMap::new();
        for (first, last) in jobs.ranges {
            for (owner, range) in self.blocks.split(first, last) {
                for (own, range) in self.of_this(owner, range) {
                    sets.entry(own).or_default().push(range);
                }
            }
        }
        let sets = sets.into_values().map(|ranges| JobSet { ranges });
        out.answer(request.caller, &sets.collect::<Vec<JobSet>>());
        Ok(())
    }

    /// Whether all these are jobs of this instance: it has taken some under numbers that a child drew.
    fn are_here(&self, first: JobId, last: JobId) -> bool {
        let asked = last.0 - first.0;
        let over = self.blocks.over(first, last);
        let over: u64 = over.map(|(first, last)| last.0 - first.0 + 1).sum();
        asked < ID_BLOCK && {
            let here = self.passes.jobs.range(first..=last);
            here.count() as u64 + over > asked
        }
    }

    /// What of a stretch of one owner's numbers is of jobs that this instance has taken.
    fn of_this<'o>(
        &self,
        owner: Option<&'o str>,
        (first, last): (JobId, JobId),
    ) -> Vec<(Option<&'o str>, (JobId, JobId))> {
        if owner.is_none() {
            return vec![(None, (first, last))];
        }
        let mut parts = Vec::new();
        let mut from = first.0;
        let here = self.passes.jobs.range(first..=last);
        let here = here.map(|(job, _)| (*job, *job));
        let mut here: Vec<(JobId, JobId)> = here.chain(self.blocks.over(first, last)).collect();
        here.sort_unstable();
        for (begin, end) in here {
            if from < begin.0 {
                parts.push((owner, (JobId(from), JobId(begin.0 - 1))));
            }
            parts.push((None, (begin, end)));
            from = end.0 + 1;
        }
        if from <= last.0 {
            parts.push((owner, (JobId(from), last)));
        }
        parts
    }

    fn by_numbers(&self, jobs: &JobSet) -> Way {
        if self.blocks.is_empty() {
            return Way::Here;
        }
        let owner = |(first, last): &(_, _)| match self.are_here(*first, *last) {
            true => Owner::Here,
            false => self.blocks.owner(*first, *last),
        };
        let mut owners = jobs.ranges.iter().map(owner);
        let Some(first) = owners.next() else {
            return Way::Here;
        };
        let same = owners.all(|owner| owner == first);
        match first {
            Owner::Here if same => Way::Here,
            Owner::Of(name) if same => Way::To(name.to_owned()),
            Owner::Here | Owner::Of(_) | Owner::Several => Way::Nobody(of_several(jobs)),
        }
    }
}

fn of_several(jobs: &JobSet) -> Refusal {
    let spell = |(first, last): &(JobId, JobId)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let mut shown: Vec<String> = jobs.ranges.iter().take(4).map(spell).collect();
    if jobs.ranges.len() > shown.len() {
        shown.push("...".to_owned());
    }
    let shown = shown.join(",");
    Refusal::invalid(format!(
        "jobs: {shown} given, which are of several instances; name those of one"
    ))
}

/// Whether a request is for the tasks of one job, or for what is inside it.
fn is_of_tasks(request: &Request) -> bool {
    [job::Output::TOPIC, job::Input::TOPIC, Children::TOPIC].contains(&request.topic.as_str())
}

/// The one job whose tasks a request is for, or what is inside it.
pub(super) fn of_tasks(request: &Request) -> Option<JobId> {
    let jobs = named(request).filter(|_| is_of_tasks(request))?;
    jobs.ranges.first().map(|(first, _)| *first)
}

/// What a request about jobs names; `None` for others, and for those that
/// cannot be read or name jobs as none may, which their own module refuses: every message of a user is looked at,
/// and nobody walks more ranges than that allows to find whose they are.
pub(crate) fn named(request: &Request) -> Option<JobSet> {
    given(request).filter(|jobs| ranges(jobs).is_ok())
}

fn given(request: &Request) -> Option<JobSet> {
    Some(match request.topic.as_str() {
        job::Wait::TOPIC => request.parse::<WaitRequest>().ok()?.jobs,
        job::Raise::TOPIC | job::WouldRaise::TOPIC => request.parse::<RaiseRequest>().ok()?.jobs,
        job::Kill::TOPIC => request.parse::<KillRequest>().ok()?.jobs,
        job::Update::TOPIC => request.parse::<UpdateRequest>().ok()?.jobs,
        job::Urgency::TOPIC => request.parse::<UrgencyRequest>().ok()?.jobs,
        job::Release::TOPIC => request.parse::<ReleaseRequest>().ok()?.jobs,
        job::Suspend::TOPIC | job::Resume::TOPIC => request.parse::<SuspendRequest>().ok()?.jobs,
        job::RequeueJob::TOPIC => request.parse::<RequeueRequest>().ok()?.jobs,
        sched::Explain::TOPIC => request.parse::<sched::ExplainRequest>().ok()?.jobs?,
        sched::Bounds::TOPIC => request.parse::<sched::BoundsRequest>().ok()?.jobs,
        job::List::TOPIC => request.parse::<ListRequest>().ok()?.jobs,
        job::Order::TOPIC => JobSet::of(request.parse::<OrderRequest>().ok()?.jobs),
        job::Events::TOPIC => JobSet::one(request.parse::<EventsRequest>().ok()?.id),
        job::Output::TOPIC => JobSet::one(request.parse::<OutputRequest>().ok()?.id),
        job::Input::TOPIC => JobSet::one(request.parse::<InputRequest>().ok()?.id),
        job::Info::TOPIC => JobSet::one(request.parse::<InfoRequest>().ok()?.id),
        // Its job may be an instance in a declared one.
        Children::TOPIC => JobSet::one(request.parse::<ChildrenRequest>().ok()?.job?),
        job::Collect::TOPIC => JobSet::one(request.parse::<CollectRequest>().ok()?.id?),
        _ => return None,
    })
}
