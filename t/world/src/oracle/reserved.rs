//! Whether what is said of reservations holds: in one only those start that it is for, and before it
//! nobody starts who would not have ended.
//!
//! Knows the records, nothing of how nodes are kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::grant::Grant;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::reservation::{self, Purpose, Reservation, Reservations};
use eddy_wire::time::Time;
use eddy_wire::update;

/// The reservations as recorded, and who asked for what.
#[derive(Clone, Debug, Default)]
pub struct Reserved {
    all: Reservations,
    jobs: BTreeMap<JobId, Arc<Submit>>,
}

impl Reserved {
    /// Those that stand.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Reservation>> {
        self.all.all()
    }

    /// One more record.
    ///
    /// # Errors
    /// It is against what a reservation promises.
    pub fn apply(&mut self, record: &Record) -> Result<(), String> {
        match (&record.event.kind, record.event.job) {
            (Kind::Reservation(kept), None) => {
                if let reservation::Kept::Made(made) = &**kept
                    && let Some(other) = self.all().find(|other| other.meets(made))
                {
                    let (one, two) = (&made.name, &other.name);
                    return Err(format!(
                        "reservations `{one}` and `{two}` have the same nodes"
                    ));
                }
                self.all.apply(kept);
                Ok(())
            }
            (Kind::Submit(submit), Some(id)) => {
                self.jobs.insert(id, Arc::clone(submit));
                Ok(())
            }
            (Kind::Clean, Some(id)) => {
                self.jobs.remove(&id);
                Ok(())
            }
            (Kind::JobspecUpdate(map), Some(id)) => {
                if let Some(submit) = self.jobs.get_mut(&id) {
                    update::submit(submit, map);
                }
                Ok(())
            }
            (Kind::Alloc(grant), Some(id)) => self.granted(record.event.t, id, grant),
            _ => Ok(()),
        }
    }

    fn granted(&self, t: Time, id: JobId, grant: &Grant) -> Result<(), String> {
        let Some(submit) = self.jobs.get(&id) else {
            return Ok(());
        };
        let spec = &submit.spec;
        let declared = matches!(&spec.request.work, Work::Instance { name: Some(_) });
        // What its parent let start it let start.
        if declared || spec.request.takes == Takes::Nothing || submit.pass.is_some() {
            return Ok(());
        }
        let end = match grant.set.expiration {
            0 => Time(i64::MAX),
            end => Time(end),
        };
        let ranks = grant.set.ranks();
        let own = reservation::of(spec);
        if let Some(name) = own {
            match self.all.get(name) {
                Some(found) => may_use(found, submit, t, end, &ranks)
                    .map_err(|why| format!("job {id} started in reservation `{name}`, {why}"))?,
                None => return Err(format!("job {id} started and names reservation `{name}`")),
            }
        }
        let others = self.all().filter(|one| own != Some(one.name.as_str()));
        for one in others.filter(|one| !one.ranks.is_disjoint(&ranks)) {
            if one.from < end && t < one.until {
                return Err(format!(
                    "job {id} was granted ranks {ranks} at {t} until {end}, reservation `{}` has {} \
                     from {} until {}",
                    one.name, one.ranks, one.from, one.until
                ));
            }
        }
        Ok(())
    }
}

fn may_use(
    found: &Reservation,
    submit: &Submit,
    t: Time,
    end: Time,
    ranks: &Idset,
) -> Result<(), &'static str> {
    let Purpose::Jobs { accounts, users } = &found.purpose else {
        return Err("which is for maintenance");
    };
    let account = submit.party.account.as_ref();
    // Accounts under those are theirs too; the world has none of them.
    if !users.contains(&submit.user) && account.is_none_or(|own| !accounts.contains(own)) {
        return Err("which is not for it");
    }
    if !found.is_on(t) || end > found.until {
        return Err("which is not on all the time");
    }
    match found.ranks.contains_all(ranks) {
        true => Ok(()),
        false => Err("and not on its nodes"),
    }
}
