//! Advance reservations and maintenance: made and ended on an administrator's word, and by time.
//!
//! Chooses the nodes of one that names a count, sees that no job would still run on them, and tells
//! the planner. It looks at what is recorded as held; who waits is the planner's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::{Outbox, Request, Volatile};
use eddy_sched::cleanup;
use eddy_wire::account::Name;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Kind;
use eddy_wire::fsd::seconds_of_micros;
use eddy_wire::id::{JobId, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::plan::Delta;
use eddy_wire::reservation::{self, Kept, Purpose, RESERVATIONS_MAX, Reservation, Reservations};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::Service;
use eddy_wire::services::reservation::{
    Create, CreateRequest, DELETED_JOBS_MAX, DeleteRequest, Deleted, List, ReservationRow, Running,
    Which,
};
use eddy_wire::time::{Span, Time};

use super::{Sched, Seen};
use crate::ingest::reserved::margin;
use crate::once;
use crate::resource::targets;

/// How many jobs that are in the way are named.
const JOBS_SHOWN: usize = 8;

/// The reservations that stand, and the records that say so.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    all: Reservations,
    seqs: BTreeMap<Name, Seq>,
}

impl Reserved {
    /// Takes a record in.
    pub(super) fn apply(&mut self, seq: Seq, kept: &Kept) {
        self.all.apply(kept);
        match kept {
            Kept::Made(_) => drop(self.seqs.insert(kept.name().clone(), seq)),
            Kept::Deleted { name, .. } | Kept::Over { name } => drop(self.seqs.remove(name)),
        }
    }

    pub(super) fn live(&self, seqs: &mut Vec<Seq>) {
        seqs.extend(self.seqs.values());
    }

    /// As a planner is told of them.
    pub(super) fn deltas(&self) -> impl Iterator<Item = Delta> + '_ {
        self.all.all().map(|one| Delta::Reserved(Arc::clone(one)))
    }

    /// Whether a job may start on these nodes now, as far as reservations go.
    pub(super) fn lets(&self, now: Time, seen: &Seen, (set, end): (&ResourceSet, Time)) -> bool {
        let request = &seen.submit.spec.request;
        let is_declared = matches!(request.work, Work::Instance { name: Some(_) });
        if is_declared || request.takes == Takes::Nothing {
            return true;
        }
        let own = reservation::of(&seen.submit.spec);
        let ranks = set.ranks();
        if let Some(own) = own
            && !self.all.get(own).is_some_and(|one| {
                one.is_on(now) && end <= one.until && one.ranks.contains_all(&ranks)
            })
        {
            return false;
        }
        let others = self.all.all().filter(|one| own != Some(one.name.as_str()));
        let mut met = others.filter(|one| !one.ranks.is_disjoint(&ranks));
        met.all(|one| end <= one.from || one.until <= now)
    }

    /// Those whose time is over.
    fn over(&self, now: Time) -> Vec<Name> {
        let all = self.all.all().filter(|one| one.until <= now);
        all.map(|one| one.name.clone()).collect()
    }
}

/// Jobs by number, a few of them.
fn some(jobs: &[JobId]) -> String {
    let shown = jobs.iter().take(JOBS_SHOWN);
    let mut words: Vec<String> = shown.map(|job| job.f58_ascii()).collect();
    if jobs.len() > JOBS_SHOWN {
        words.push(format!("{} more", jobs.len() - JOBS_SHOWN));
    }
    words.join(", ")
}

impl Sched {
    /// Whether a request is about reservations; if it is, it is answered.
    pub(super) fn reservation_request(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        match request.topic.as_str() {
            List::TOPIC => out.answer(request.caller, &self.reservation_rows(now)),
            Create::TOPIC => {
                let asked: CreateRequest = request.parse()?;
                let key = asked.once;
                let made = Arc::new(self.made(now, request.uid, asked)?);
                let kept = Kept::Made(Arc::clone(&made));
                out.append_own(now, Kind::Reservation(Box::new(kept)));
                once::reply(now, request, key, &made, out);
            }
            _ => {
                let asked: DeleteRequest = request.parse()?;
                let key = asked.once;
                let gone = self.deleted(asked)?;
                let gone: Vec<Deleted> = gone.into_iter().map(|name| self.let_go(name)).collect();
                for one in &gone {
                    let (name, userid) = (one.name.clone(), request.uid);
                    let kept = Kept::Deleted { name, userid };
                    out.append_own(now, Kind::Reservation(Box::new(kept)));
                }
                once::reply(now, request, key, &gone, out);
            }
        }
        Ok(())
    }

    /// Those that are to be deleted, each once, if all of them are there.
    fn deleted(&self, asked: DeleteRequest) -> Result<BTreeSet<Name>, Refusal> {
        let names = std::iter::once(asked.name).chain(asked.also);
        let is_there = |name: &Name| self.reserved.all.get(name.as_str()).is_some();
        names
            .map(|name| match is_there(&name) {
                true => Ok(name),
                false => Err(Refusal::not_found(self.unknown(&name))),
            })
            .collect()
    }

    /// Who waits for one that is to be no more.
    fn let_go(&self, name: Name) -> Deleted {
        let waits = |(_, seen): &(&JobId, &Seen)| {
            seen.held.is_none() && reservation::of(&seen.submit.spec) == Some(name.as_str())
        };
        let all = || self.jobs.iter().filter(waits);
        let jobs = all().take(DELETED_JOBS_MAX).map(|(job, _)| *job);
        let (jobs, pending) = (jobs.collect(), all().count() as u64);
        Deleted {
            name,
            pending,
            jobs,
        }
    }

    fn unknown(&self, name: &Name) -> String {
        let there: Vec<&str> = self
            .reserved
            .all
            .all()
            .map(|one| one.name.as_str())
            .collect();
        match there.is_empty() {
            true => format!("name: `{name}` given, there are no reservations"),
            false => format!("name: `{name}` given, there are {}", there.join(", ")),
        }
    }

    /// A record of one: the planner is told, and the end is waited for.
    pub(super) fn reservation_applied(&self, kept: &Kept, out: &mut Outbox) {
        let delta = match kept {
            Kept::Made(one) => {
                out.volatile(Volatile::Wake(one.until));
                Delta::Reserved(Arc::clone(one))
            }
            Kept::Deleted { name, .. } | Kept::Over { name } => Delta::Unreserved(name.clone()),
        };
        out.volatile(Volatile::Plan(vec![delta]));
    }

    /// After a restart: ends are waited for again.
    pub(super) fn wait_for_ends(&self, out: &mut Outbox) {
        for one in self.reserved.all.all() {
            out.volatile(Volatile::Wake(one.until));
        }
    }

    /// Those whose time is over are recorded as such.
    pub(super) fn end_reservations(&self, now: Time, out: &mut Outbox) {
        for name in self.reserved.over(now) {
            out.append_own(now, Kind::Reservation(Box::new(Kept::Over { name })));
        }
    }

    fn reservation_rows(&self, now: Time) -> Vec<ReservationRow> {
        let row = |one: &Arc<Reservation>| {
            let of_it = self.jobs.values();
            let of_it =
                of_it.filter(|seen| reservation::of(&seen.submit.spec) == Some(one.name.as_str()));
            let (mut pending, mut running) = (0, 0);
            for seen in of_it {
                match seen.held {
                    Some(_) => running += 1,
                    None => pending += 1,
                }
            }
            // Of nodes that were taken out since nothing is kept.
            let inventory = self.inventory.as_deref();
            let there = inventory.map(|all| all.restrict(&one.ranks));
            let mut shown = Arc::clone(one);
            if let Some(there) = &there
                && there.ranks() != one.ranks
            {
                Arc::make_mut(&mut shown).ranks = there.ranks();
            }
            ReservationRow {
                unreached: self.unreached(&one.purpose, &shown.ranks),
                reservation: shown,
                hosts: there.map(|there| there.nodelist()).unwrap_or_default(),
                on: one.is_on(now),
                pending,
                running,
            }
        };
        self.reserved.all.all().map(row).collect()
    }

    /// The reservation that is asked for.
    ///
    /// # Errors
    /// What of it cannot be, by field.
    fn made(&self, now: Time, userid: u32, body: CreateRequest) -> Result<Reservation, Refusal> {
        let CreateRequest { name, span, .. } = body;
        let all = &self.reserved.all;
        if all.get(name.as_str()).is_some() {
            let text = format!("name: `{name}` given, there is a reservation of this name");
            return Err(Refusal::new(Code::Conflict, text));
        }
        if all.all().count() >= RESERVATIONS_MAX {
            let text = format!("the limit `reservations` is {RESERVATIONS_MAX}, all of them stand");
            return Err(Refusal::new(Code::TooLarge, text));
        }
        self.may_be_for(&body.purpose)?;
        let from = body.from.max(now);
        let until = from.after(span);
        if span <= Span::ZERO || until.0 == i64::MAX {
            let text = format!("duration: {span} s given, allowed is a time that ends");
            return Err(Refusal::invalid(text));
        }
        // One that no job could ever be in would keep its nodes for nobody, which maintenance says in its name.
        let margin = margin(self.rules.grace());
        if body.purpose != Purpose::Maintenance && span <= margin {
            let (given, margin) = (seconds_of_micros(span.0), seconds_of_micros(margin.0));
            let text = format!(
                "duration: {given} s given, allowed is more than {margin} s, or maintenance: so long before its end its \
                 jobs begin to end"
            );
            return Err(Refusal::invalid(text));
        }
        let mut made = Reservation {
            name,
            from,
            until,
            ranks: Idset::new(),
            purpose: body.purpose,
            userid,
        };
        made.ranks = match &body.nodes {
            Which::Named(nodes) => {
                let inventory = self.inventory.as_deref();
                let none = ResourceSet::default();
                targets::ranks("nodes", nodes, inventory.unwrap_or(&none))?
            }
            Which::Count(count) => self.chosen(&made, *count, body.running)?,
        };
        if let Some(other) = all.all().find(|other| other.meets(&made)) {
            let both = other.ranks.intersect(&made.ranks);
            let text = format!(
                "nodes: reservation `{}` has ranks {both} at that time",
                other.name
            );
            return Err(Refusal::new(Code::Conflict, text));
        }
        let (late, where_) = self.late(&made);
        if body.running == Running::Refuse && !late.is_empty() {
            let text = format!(
                "start: jobs {} would still run on ranks {where_} then; allowed is a later time, \
                 other nodes, or to ignore what runs",
                some(&late)
            );
            return Err(Refusal::new(Code::Conflict, text));
        }
        Ok(made)
    }

    fn may_be_for(&self, purpose: &Purpose) -> Result<(), Refusal> {
        let Purpose::Jobs { accounts, users } = purpose else {
            return Ok(());
        };
        if accounts.is_empty() && users.is_empty() {
            let text = "accounts, users: none given; at least one is needed, or maintenance";
            return Err(Refusal::invalid(text));
        }
        let unknown = accounts
            .iter()
            .find_map(|name| self.book.named("accounts", name.as_str()).err());
        unknown.map_or(Ok(()), |error| Err(Refusal::not_found(error.to_string())))
    }

    /// So many nodes that are free at the beginning; where what runs is ignored, others too. Those that somebody
    /// can have whom it is for come first ([`Reach::choose`](super::reach::Reach::choose)).
    fn chosen(&self, made: &Reservation, count: u32, running: Running) -> Result<Idset, Refusal> {
        let all = Reservation {
            ranks: self.ranks.difference(&self.drained),
            ..made.clone()
        };
        let taken = self.reserved.all.all().filter(|other| other.meets(&all));
        let taken = taken.fold(Idset::new(), |all, other| all.union(&other.ranks));
        let open = Reservation {
            ranks: all.ranks.difference(&taken),
            ..all
        };
        let (_, busy) = self.late(&open);
        let free = open.ranks.difference(&busy);
        let held = open.ranks.intersect(&busy);
        let second = match running {
            Running::Refuse => Idset::new(),
            Running::Ignore => held.clone(),
        };
        if count == 0 || u64::from(count) > free.len() + second.len() {
            return Err(too_many(count, free.len(), held.len(), running));
        }
        let reach = self.reach(&made.purpose);
        Ok(reach.choose(u64::from(count), &free, &second))
    }

    /// When what is held is planned to be free.
    pub(super) fn end_of(&self, set: &ResourceSet) -> Time {
        match set.expiration {
            0 => Time(i64::MAX),
            end => Time(end).after(cleanup(self.rules.grace())),
        }
    }

    /// Jobs that would still run on nodes of a reservation when it begins, and on which.
    fn late(&self, made: &Reservation) -> (Vec<JobId>, Idset) {
        let (mut jobs, mut ranks) = (Vec::new(), Idset::new());
        for (job, seen) in self.jobs.iter() {
            let Some(held) = seen
                .held
                .as_ref()
                .filter(|held| self.end_of(held) > made.from)
            else {
                continue;
            };
            let there = held.nodes.iter().filter(|(_, part)| !part.is_empty());
            let there: Idset = there.map(|(rank, _)| rank.0).collect();
            let there = there.intersect(&made.ranks);
            if !there.is_empty() {
                jobs.push(*job);
                ranks = ranks.union(&there);
            }
        }
        (jobs, ranks)
    }
}

/// That so many nodes cannot be reserved, where so many are free then and on so many more jobs would still run.
fn too_many(count: u32, free: u64, held: u64, running: Running) -> Refusal {
    let allowed = |most: u64| match most {
        0 => "no node can be had then".to_owned(),
        1 => "allowed is 1 node".to_owned(),
        most => format!("allowed are 1 to {most} nodes"),
    };
    let allowed = match running {
        Running::Refuse if held > 0 => format!(
            "{}, and up to {} where jobs that would still run on them are ignored",
            allowed(free),
            free + held
        ),
        Running::Refuse => allowed(free),
        Running::Ignore => allowed(free + held),
    };
    let text = format!("count: {count} given; {allowed}");
    Refusal::new(Code::Conflict, text)
}
