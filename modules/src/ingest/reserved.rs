//! Whether a job may run in the reservation that it names.
//!
//! Asked by ingest when a job is submitted, and by sched where one is supposed to be otherwise; what is wrong is
//! told by field.

use std::sync::Arc;

use eddy_sched::{Capacity, cleanup};
use eddy_wire::account::{Book, Party};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record};
use eddy_wire::fsd::seconds_of_micros;
use eddy_wire::idset::Idset;
use eddy_wire::reservation::{ATTRIBUTE, Purpose, Reservation, Reservations};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::spec::Spec;
use eddy_wire::time::{MICROS, Span, Time};

use crate::settings::Settings;

const DURATION: &str = "attributes.system.duration";

/// The reservations that stand.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    all: Reservations,
    inventory: Arc<ResourceSet>,
    /// From TERM to KILL of jobs at their limits.
    grace: Span,
}

impl Reserved {
    /// None stands.
    pub fn new(settings: &Settings) -> Reserved {
        Reserved {
            grace: settings.kill_grace,
            ..Reserved::default()
        }
    }

    /// Folds a record.
    pub fn apply(&mut self, record: &Record) {
        match &record.event.kind {
            Kind::Reservation(kept) => self.all.apply(kept),
            Kind::ResourceDefine(set, _) => self.inventory = Arc::clone(set),
            _ => {}
        }
    }

    /// Whether a job of this party may run in the one that it names, if it does; `ground` are the
    /// nodes that jobs of its queue may have.
    ///
    /// # Errors
    /// By the field.
    pub fn lets(
        &self,
        now: Time,
        (user, party, book): (u32, &Party, &Book),
        spec: &Spec,
        ground: Option<&Idset>,
    ) -> Result<(), Refusal> {
        let Some(value) = spec.jobspec.attributes.system.other.get(ATTRIBUTE) else {
            return Ok(());
        };
        let name = value.as_str().unwrap_or_default();
        let given = || format!("attributes.system.{ATTRIBUTE}: {value} given");
        let Some(found) = self.all.get(name) else {
            let there: Vec<&str> = self.all.all().map(|one| one.name.as_str()).collect();
            let there = match there.is_empty() {
                true => "there are no reservations".to_owned(),
                false => format!("there are {}", there.join(", ")),
            };
            return Err(Refusal::invalid(format!("{}, {there}", given())));
        };
        if !is_for(found, user, party, book) {
            let text = format!("{}, it is {}", given(), whose(found));
            return Err(Refusal::new(Code::Denied, text));
        }
        self.in_time(now, found, spec)?;
        let ranks = match ground {
            Some(ground) => found.ranks.intersect(ground),
            None => found.ranks.clone(),
        };
        if ranks.is_empty() && !found.ranks.is_empty() {
            let text = format!(
                "{}, its ranks {} are none of those that its jobs may have here",
                given(),
                found.ranks
            );
            return Err(Refusal::invalid(text));
        }
        let has = Capacity::of(&self.inventory.restrict(&ranks));
        let mut request = spec.request.clone();
        if let Some(constraint) = &request.constraint {
            request.ranks = Some(constraint.ranks(&self.inventory).intersect(&ranks));
        }
        has.feasible(&request).map_err(|why| {
            let text = format!("{}, its ranks {ranks} will not do: {why}", given());
            Refusal::invalid(text)
        })
    }

    /// Whether one that runs on these ranks may do so until then: in its reservation, and in no other's way.
    ///
    /// # Errors
    /// By the field.
    pub fn lets_on(&self, spec: &Spec, ranks: &Idset, until: Time) -> Result<(), Refusal> {
        let free = until.after(cleanup(self.grace));
        let own = eddy_wire::reservation::of(spec);
        let is_in_the_way = |one: &&Arc<Reservation>| match own == Some(one.name.as_str()) {
            true => free > one.until,
            false => free > one.from && !one.ranks.is_disjoint(ranks),
        };
        let Some(one) = self.all.all().find(is_in_the_way) else {
            return Ok(());
        };
        let (what, at) = match own == Some(one.name.as_str()) {
            true => ("in which it is, ends", one.until),
            false => ("which has them, begins", one.from),
        };
        let text = format!(
            "{DURATION}: it could hold its nodes for {} s after reservation `{}`, {what}",
            free - at,
            one.name,
        );
        Err(Refusal::new(Code::Conflict, text))
    }

    /// A job of a reservation ends in it.
    fn in_time(&self, now: Time, found: &Reservation, spec: &Spec) -> Result<(), Refusal> {
        let margin = margin(self.grace).0;
        let left = (found.until - now.max(found.from)).0 - margin;
        let left = left.max(0);
        let given = match spec.request.duration {
            Some(limit) if limit > 0 && limit <= left => return Ok(()),
            Some(limit) if limit > 0 => format!("{} s", seconds_of_micros(limit)),
            Some(_) | None => "none".to_owned(),
        };
        let text = format!(
            "{DURATION}: {given} given, reservation `{}` has {} s left for jobs ({} s before its end they are to begin \
             to end)",
            found.name,
            left / MICROS,
            seconds_of_micros(margin)
        );
        Err(Refusal::invalid(text))
    }
}

fn is_for(found: &Reservation, user: u32, party: &Party, book: &Book) -> bool {
    let Purpose::Jobs { accounts, users } = &found.purpose else {
        return false;
    };
    let by_account = party.account.as_ref().is_some_and(|own| {
        accounts.contains(own) || book.line(own).any(|(above, _)| accounts.contains(above))
    });
    by_account || users.contains(&user)
}

fn whose(found: &Reservation) -> String {
    let Purpose::Jobs { accounts, users } = &found.purpose else {
        return "for maintenance, nothing runs in it".to_owned();
    };
    let users = users.iter().map(|user| format!("user {user}"));
    let accounts = accounts.iter().map(|account| format!("account {account}"));
    let all: Vec<String> = accounts.chain(users).collect();
    format!("for {}", all.join(", "))
}

/// How long before the end of a reservation the limits of its jobs are over, and then what is no room for any:
/// where so much passes between TERM and KILL.
pub(crate) fn margin(grace: Span) -> Span {
    Span(cleanup(grace).0.saturating_add(BEGINNING.0))
}

/// What begins with a reservation begins a little later: who asks for all of it would never begin.
const BEGINNING: Span = Span::seconds(1);

#[cfg(test)]
mod tests;
