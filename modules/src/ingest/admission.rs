//! Whether a new submission can be taken: by limits, by its queue, by what there is.
//!
//! Part of [`Ingest`], asked once it is known that its key is new. Nothing is recorded by it.

use eddy_sched::Capacity;
use eddy_wire::account::Party;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::gang;
use eddy_wire::plan::Reason;
use eddy_wire::spec::Spec;
use eddy_wire::time::Time;

use super::{Ingest, Submission, pools};

/// How many other queues are looked at for one that could take what another refuses.
const OTHERS_MAX: usize = 32;
/// How many of them are named.
const OTHERS_NAMED: usize = 3;

/// By what a job asks for what there is not.
fn field(why: &Reason) -> &'static str {
    match why {
        Reason::NoSuchNodes { .. } | Reason::NoSuchRanks { .. } => "attributes.system.constraints",
        _ => "resources",
    }
}

impl Ingest {
    /// Whether new jobs can be taken, and these served; settles whom they are charged to.
    pub(super) fn admissible(
        &mut self,
        now: Time,
        submission: &mut Submission,
    ) -> Result<(), Refusal> {
        self.is_open()?;
        self.has_room(submission)?;
        self.fill_in(now, submission)?;
        let count = submission.count();
        self.grounds
            .lets(submission.user, &submission.spec, count)?;
        self.served.admits(now, &submission.spec)?;
        self.is_let_in((submission.user, &submission.party), &submission.spec)
            .map_err(|refusal| self.or_elsewhere(now, submission, refusal))?;
        let (party, count) = ((submission.user, &submission.party), submission.count());
        self.parties
            .within_limits(now, party, &submission.spec, count)
            .map_err(|refusal| self.or_elsewhere(now, submission, refusal))?;
        self.fits(&submission.spec)
            .map_err(|refusal| self.or_elsewhere(now, submission, refusal))?;
        pools::have(&self.pools, &submission.spec)?;
        self.gangs.let_in(party, &submission.spec, count)?;
        let user = submission.user;
        self.gangs
            .have(&self.pools, user, &submission.spec, count)?;
        self.fits_together(user, &submission.spec, count)?;
        self.fits_reservation(now, user, &submission.party, &submission.spec)
    }

    /// Whether there is room for its jobs. Who let one in that comes from another instance, and what a user may have
    /// there, was looked at there.
    pub(super) fn has_room(&self, submission: &Submission) -> Result<(), Refusal> {
        let (user, count) = (submission.user, submission.count());
        let roles = submission.sender.map(|sender| sender.roles);
        let is_held = roles.is_some_and(|roles| !roles.may_administer());
        self.room.is_there(user, count, is_held)
    }

    pub(super) fn fits_reservation(
        &self,
        now: Time,
        user: u32,
        party: &Party,
        spec: &Spec,
    ) -> Result<(), Refusal> {
        let queue = spec.jobspec.attributes.system.queue.as_deref();
        let instance = self.queues.leads_to(queue);
        let ground = self.served.ranks((queue, instance), &spec.request);
        let whose = (user, party, &self.parties.charter().book);
        self.reserved.lets(now, whose, spec, ground.as_ref())
    }

    /// Whether it could be placed if all were free: here, or in the instance its queue leads to.
    pub(super) fn fits(&self, spec: &Spec) -> Result<(), Refusal> {
        let queue = spec.jobspec.attributes.system.queue.as_deref();
        let instance = self.queues.leads_to(queue);
        if let Some(why) = instance.and_then(|name| self.fleet.down(name)) {
            return Err(Refusal::new(Code::NotReady, why));
        }
        let capacity = self.capacity.as_ref();
        let aside = instance.and_then(|name| self.served.ground(name));
        let beside = |all: &Capacity| self.grounds.beside(&spec.request, all.ranks());
        let beside = aside.or(capacity).and_then(beside);
        let request = beside.as_ref().unwrap_or(&spec.request);
        let has = self.served.has(capacity, (queue, instance), request);
        has.map_err(|why| {
            let others = self.served.others(instance);
            Refusal::invalid(format!("{}: {why}{others}", field(&why)))
        })
    }

    /// Whether its gang could be placed at once if all were free, as far as members are there.
    fn fits_together(&self, user: u32, spec: &Spec, count: u32) -> Result<(), Refusal> {
        let Some((gang, requests)) = self.gangs.asked(user, spec, count) else {
            return Ok(());
        };
        let queue = spec.jobspec.attributes.system.queue.as_deref();
        let instance = self.queues.leads_to(queue);
        let has = self.served.has_together((queue, instance), gang, requests);
        has.map_err(|why| {
            let others = self.served.others(instance);
            Refusal::invalid(format!(
                "attributes.system.{}: {why}{others}",
                gang::ATTRIBUTE
            ))
        })
    }

    /// Whether the queue that is named in it lets it in.
    pub(super) fn is_let_in(&self, of: (u32, &Party), spec: &Spec) -> Result<(), Refusal> {
        let book = &self.parties.charter().book;
        let cores = || self.parties.most_cores(spec);
        self.queues.lets(of, book, spec, cores)
    }

    /// A refusal of what is asked for, with the queues that could take it.
    fn or_elsewhere(&self, now: Time, submission: &Submission, refusal: Refusal) -> Refusal {
        // What is too large is over a limit, which may be of its queue.
        if !matches!(refusal.code, Code::Invalid | Code::TooLarge) {
            return refusal;
        }
        let own = submission.spec.jobspec.attributes.system.queue.as_deref();
        let others = self.queues.names().filter(|name| Some(*name) != own);
        let could = others
            .take(OTHERS_MAX)
            .filter(|name| self.could(now, submission, name));
        let names: Vec<String> = could
            .take(OTHERS_NAMED)
            .map(|name| format!("`{name}`"))
            .collect();
        let text = match &names[..] {
            [] => return refusal,
            [one] => format!("{}; queue {one} could take it", refusal.text),
            more => format!("{}; queues {} could take it", refusal.text, more.join(", ")),
        };
        Refusal::new(refusal.code, text)
    }

    /// Whether another queue could take it, with what that one gives to those who do not say.
    fn could(&self, now: Time, submission: &Submission, queue: &str) -> bool {
        let spec = submission.spec.with(Some(queue), None);
        let user = submission.user;
        let Ok((filled, party)) = self.filled(now, user, &spec) else {
            return false;
        };
        let spec = filled.as_ref().unwrap_or(&spec);
        let within = || {
            let count = submission.count();
            self.parties
                .within_limits(now, (user, &party), spec, count)
                .is_ok()
        };
        self.is_let_in((user, &party), spec).is_ok()
            && within()
            && self.fits(spec).is_ok()
            && self.fits_reservation(now, user, &party, spec).is_ok()
    }
}
