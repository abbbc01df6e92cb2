//! What would be in the way of a job that waits, were it to ask for something else: as of a change of it.
//!
//! The planner knows what such a job would wait for (`sched/supposed`); here is what refuses it, and which limits
//! would keep it back, by what others have of them now. Nothing is changed by asking.

use eddy_broker::{Caller, Outbox, SupposedJob};
use eddy_wire::account::{Excess, Party};
use eddy_wire::error::Refusal;
use eddy_wire::event::Submit;
use eddy_wire::id::JobId;
use eddy_wire::plan::Suppose;
use eddy_wire::services::sched::{Becomes, Bounded};
use eddy_wire::spec::Spec;
use eddy_wire::time::Time;
use eddy_wire::update::{Change, Limit};

use super::Ingest;

impl Ingest {
    /// Tells what is in the way of each that does not go on.
    pub(super) fn supposed(
        &self,
        now: Time,
        caller: Caller,
        (suppose, jobs): (&Suppose, &[SupposedJob]),
        out: &mut Outbox,
    ) {
        let bounded = jobs.iter().filter_map(|one| {
            let job = one.job;
            let (becomes, why) = match &one.denied {
                Some(why) => (Becomes::Refused, why.clone()),
                None => self.in_the_way(now, (job, &one.submit), suppose)?,
            };
            Some(Bounded { job, becomes, why })
        });
        out.answer(caller, &bounded.collect::<Vec<Bounded>>());
    }

    fn in_the_way(
        &self,
        now: Time,
        (job, submit): (JobId, &Submit),
        suppose: &Suppose,
    ) -> Option<(Becomes, String)> {
        let (party, spec) = match self.as_supposed(now, submit, suppose) {
            Ok(supposed) => supposed,
            Err(refusal) => return Some((Becomes::Refused, refusal.text)),
        };
        let limits = self.parties.limits();
        let who = (submit.user, &party, &spec);
        let behind = || limits.behind((job, suppose.urgency), who);
        let Some(bound) = limits.binding_instead(now, job, who) else {
            let (_, bound) = behind()?;
            let why = format!("would wait behind a job that is before it: {}", bound.text);
            return Some((Becomes::Held, why));
        };
        // Those who are less urgent and only wait would give it their places.
        let is_held = !bound.refuses() && bound.excess != Excess::Standby;
        if is_held
            && limits.has_places_instead(now, (job, suppose.urgency), who)
            && behind().is_none()
        {
            return None;
        }
        let becomes = match bound.excess {
            Excess::Standby => Becomes::Standby,
            Excess::Hold | Excess::Refuse if bound.refuses() => Becomes::Refused,
            Excess::Hold | Excess::Refuse => Becomes::Held,
        };
        Some((becomes, bound.text))
    }

    /// Whom it would be charged to, and what it would ask for.
    fn as_supposed(
        &self,
        now: Time,
        submit: &Submit,
        suppose: &Suppose,
    ) -> Result<(Party, Spec), Refusal> {
        let set = suppose.terms();
        let mut change = Change {
            limit: suppose.limit.map(|limit| Limit::of(Some(limit))),
            queue: set.queue.clone(),
            ..Change::default()
        };
        let mut spec = change.spec(&submit.spec);
        let mut party = submit.party.clone();
        if set.moves() {
            self.queues.takes(&spec)?;
            party = self.party_of(submit, &spec, &set)?;
            change.account = party.account.clone();
        }
        if set.queue.is_some()
            && suppose.limit.is_none()
            && spec.request.duration.is_none()
            && let Some(time) = self.time(now, (submit.user, &party), &spec)
        {
            change.limit = Some(Limit::To(time));
        }
        spec = change.spec(&submit.spec);
        spec.request = suppose.request(&spec.request);
        self.served.admits(now, &spec)?;
        self.fits(&spec)?;
        self.fits_reservation(now, submit.user, &party, &spec)?;
        self.is_let_in((submit.user, &party), &spec)?;
        // What is supposed is not in the jobspec, which names nodes or does not.
        let is_as_it_was = suppose.nodes.is_none() && suppose.slots.is_none();
        if set.moves() && is_as_it_was {
            self.names_nodes((submit.user, &party), &spec, self.queues.rules(&spec))?;
        }
        Ok((party, spec))
    }
}
