//! Whether jobs may have other time limits, queues or accounts: asked as of a submission.
//!
//! Who asks may (`manager/update.rs`). What an administrator says stands above the limits of queues and
//! accounts, as nothing of a submission does: it is said of one job that is known. It stands above nothing
//! that was promised: the end of the instance, and reservations.

use eddy_broker::{
    Lent, LimitChange, LimitedJob, LimitsTold, NewLimit, NewLimits, Notice, Outbox, Sender,
};
use eddy_wire::account::{Name, Party};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Submit;
use eddy_wire::idset::Idset;
use eddy_wire::services::job::{Changed, REFUSED_MAX};
use eddy_wire::spec::Spec;
use eddy_wire::time::Time;
use eddy_wire::update::{Change, DURATION, Limit, Terms};

use super::Ingest;
use super::queues;

impl Ingest {
    /// Records those that may be, and says what became of all.
    pub(super) fn new_limits(&self, now: Time, limits: &NewLimits, out: &mut Outbox) {
        let mut changed = Changed {
            refused: limits.refused.clone(),
            ..Changed::default()
        };
        for new in &limits.asked {
            match self.may_have(now, (limits.sender, limits.lent), new) {
                // It is so already, by what it has where nothing is said.
                Ok(change) if change.is_empty() => {}
                Ok(change) => {
                    changed.count += 1;
                    let by = Some(limits.sender.uid);
                    out.append(now, new.job, change.record(by, limits.key));
                }
                Err(refusal) => changed.refused.push((new.job, refusal.text)),
            }
        }
        changed.refused.truncate(REFUSED_MAX);
        match limits.told {
            LimitsTold::Caller(caller) => out.reply(caller, &changed),
            // Said behind these records, so that nothing is known as done that is not.
            LimitsTold::Change(began) => out.notice(Notice::Limited(began, Box::new(changed))),
        }
    }

    /// What is other of a job then, if it may be.
    fn may_have(
        &self,
        now: Time,
        (sender, lent): (Sender, Lent),
        new: &NewLimit,
    ) -> Result<Change, Refusal> {
        let change = Change {
            limit: new.limit,
            ..Change::default()
        };
        match (new.change, &new.stage) {
            (_, LimitedJob::Waits) => self.may_wait(now, sender, new),
            (LimitChange::Shorter, LimitedJob::Runs { .. }) => Ok(change),
            (LimitChange::Longer, LimitedJob::Runs { ranks, until }) => {
                self.served.lasts(now, &new.submit.spec, *until)?;
                self.reserved.lets_on(&new.submit.spec, ranks, *until)?;
                if lent == Lent::AsSaid {
                    self.is_lent(&new.submit.spec, ranks, new.limit)?;
                }
                Ok(change)
            }
        }
    }

    /// Refuses where a job that runs would be on the home of another instance for longer than that lends it.
    fn is_lent(&self, spec: &Spec, ranks: &Idset, limit: Option<Limit>) -> Result<(), Refusal> {
        let limit = limit.and_then(Limit::span);
        let to = self.queues.leads_to(queues::of(spec));
        let Some((name, most, home)) = self.served.borrowed((to, ranks), limit) else {
            return Ok(());
        };
        let asked = limit.map_or("none".to_owned(), |limit| format!("{limit} s"));
        let text = format!(
            "{DURATION}: {asked} given, it runs on ranks {home} of instance {name}, which lends them for at most \
             {most} s; --force gives it the time"
        );
        Err(Refusal::new(Code::Conflict, text))
    }

    /// What is other of one that waits: it could be submitted like that, where it would be with others or for
    /// longer.
    fn may_wait(&self, now: Time, sender: Sender, new: &NewLimit) -> Result<Change, Refusal> {
        let (submit, set) = (&new.submit, &new.set);
        let mut change = Change {
            limit: new.limit,
            name: set.name.clone(),
            queue: set.queue.clone(),
            ..Change::default()
        };
        let (before, own) = (&submit.spec, &submit.party);
        let mut spec = change.spec(before);
        let mut party = own.clone();
        if set.moves() {
            self.queues.takes(&spec)?;
            party = self.party_of(submit, &spec, set)?;
            (change.account, change.qos) = (party.account.clone(), party.qos.clone());
        }
        // Without a limit it has the one of those who ask for none, but if it is to have none at all.
        let is_open = set.queue.is_some() || new.limit == Some(Limit::Without);
        if is_open
            && spec.request.duration.is_none()
            && let Some(time) = self.time(now, (submit.user, &party), &spec)
        {
            change.limit = Some(Limit::To(time));
            spec = change.spec(before);
        }
        if set.moves() || new.change == LimitChange::Longer {
            self.served.admits(now, &spec)?;
            self.fits(&spec)?;
            self.fits_reservation(now, submit.user, &party, &spec)?;
        }
        if !sender.roles.may_administer() && (set.moves() || new.change == LimitChange::Longer) {
            self.is_let_in((submit.user, &party), &spec)?;
            if set.moves() {
                self.names_nodes((submit.user, &party), &spec, self.queues.rules(&spec))?;
            }
            let moved = (submit.user, (own, &**before), (&party, &spec));
            self.parties.within_limits_moved(now, moved)?;
        }
        Ok(only_what_differs(change, before, own))
    }

    /// Whom one is charged to that is told to be with others: what is not told stays, but for a QoS that nobody
    /// named where another queue has one of its own.
    pub(super) fn party_of(
        &self,
        submit: &Submit,
        spec: &Spec,
        set: &Terms,
    ) -> Result<Party, Refusal> {
        let (user, own) = (submit.user, &submit.party);
        let text = |name: &Option<Name>| name.as_ref().map(Name::to_string);
        let account = set.account.clone().or_else(|| text(&own.account));
        let rules = self.queues.rules(spec);
        let of_queue = rules.and_then(|rules| text(&rules.default_qos));
        let of_queue = of_queue.filter(|_| set.queue.is_some() && self.named_no_qos(submit));
        let qos = set.qos.clone().or(of_queue);
        let qos = qos.or_else(|| text(&own.qos));
        let asked = spec.charged_as(account, qos, text(&own.class));
        let party = self.parties.charter().party(user, &asked, rules)?;
        Ok(Party {
            class: own.class.clone(),
            ..party
        })
    }

    /// Whether a job has the QoS that who names none has in its queue, and named none.
    fn named_no_qos(&self, submit: &Submit) -> bool {
        let text = |name: &Option<Name>| name.as_ref().map(Name::to_string);
        let account = text(&submit.party.account);
        let unnamed = submit
            .spec
            .charged_as(account, None, text(&submit.party.class));
        let rules = self.queues.rules(&submit.spec);
        let party = self.parties.charter().party(submit.user, &unnamed, rules);
        submit.spec.jobspec.attributes.system.qos.is_none()
            && party.is_ok_and(|party| party.qos == submit.party.qos)
    }
}

/// Without what a job has already.
fn only_what_differs(change: Change, spec: &Spec, party: &Party) -> Change {
    let system = &spec.jobspec.attributes.system;
    let limit = Limit::of_spec(spec);
    Change {
        limit: change.limit.filter(|asked| *asked != limit),
        name: change.name.filter(|name| name != spec.jobspec.name()),
        queue: change
            .queue
            .filter(|name| Some(name) != system.queue.as_ref()),
        account: change
            .account
            .filter(|name| Some(name) != party.account.as_ref()),
        qos: change.qos.filter(|name| Some(name) != party.qos.as_ref()),
    }
}
