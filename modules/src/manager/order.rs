//! The order that a user wants among his own jobs: it lowers the factor `user` of those behind.
//!
//! Each job is told its place among those named; the planner weighs it by the policy.

use std::collections::BTreeSet;

use eddy_broker::{Outbox, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Kind;
use eddy_wire::id::JobId;
use eddy_wire::job::Place;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::job::{Changed, ORDERED_MAX, OrderRequest, Places};
use eddy_wire::time::Time;

use super::Manager;
use super::above::ordered_above;
use super::change::{NO_JOB, may_be_remarked};

impl Manager {
    /// The jobs named get their places, all of them or none.
    ///
    /// # Errors
    /// They are not all there, waiting, and of one user whom the sender may act for.
    pub(super) fn order(
        &self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: OrderRequest = request.parse()?;
        let given = body.jobs.len();
        let of = u32::try_from(given).ok().filter(|of| *of <= ORDERED_MAX);
        let Some(of) = of else {
            let text = format!("jobs: {given} given, at most {ORDERED_MAX} are put in order");
            return Err(Refusal::new(Code::TooLarge, text));
        };
        self.may_be_ordered(request, &body.jobs)?;
        let named = (0..of).zip(&body.jobs);
        let places = named.map(|(at, job)| match body.places {
            Places::AsNamed => (*job, Place { at, of }),
            Places::Forgotten => (*job, Place::FIRST),
        });
        let places: Vec<(JobId, Place)> = places
            .filter(|(job, place)| self.jobs[job].place != *place)
            .collect();
        for (job, _) in &places {
            if let Err(why) = may_be_remarked(&self.jobs[job]) {
                let text = format!("jobs: {} given, {why}", job.f58_ascii());
                return Err(Refusal::new(Code::TooLarge, text));
            }
        }
        for (job, place) in places {
            out.append(now, job, Kind::Order(place, request.uid));
        }
        let changed = Changed {
            count: u64::from(of),
            ..Changed::default()
        };
        out.reply(request.caller, &changed);
        Ok(())
    }

    fn may_be_ordered(&self, request: &Request, named: &[JobId]) -> Result<(), Refusal> {
        let wrong = |id: &JobId, why: &str| {
            let id = id.f58_ascii();
            Err(Refusal::invalid(format!("jobs: {id} given, {why}")))
        };
        let mut seen = BTreeSet::new();
        let mut users = BTreeSet::new();
        for id in named {
            let Some(job) = self.jobs.get(id) else {
                return wrong(id, NO_JOB);
            };
            if self.sight.hides(request.sender(), job.submit.user) {
                return wrong(id, NO_JOB);
            }
            if !request.sender().may_act_for(job.submit.user) {
                return Err(request.sender().refused(*id, job.submit.user));
            }
            if self.above.orders(job) {
                return wrong(id, &ordered_above());
            }
            match job.state {
                JobState::New | JobState::Depend | JobState::Priority | JobState::Sched => {}
                JobState::Run | JobState::Cleanup => {
                    return wrong(id, "it is running: its place in the queue is past");
                }
                JobState::Inactive => return wrong(id, "it is over"),
            }
            if !seen.insert(*id) {
                return wrong(id, "twice; each has one place");
            }
            users.insert(job.submit.user);
            if users.len() > 1 {
                return wrong(id, "it is not of the same user as those before it");
            }
        }
        match named.is_empty() {
            true => Err(Refusal::invalid("jobs: none given, at least one is needed")),
            false => Ok(()),
        }
    }
}
