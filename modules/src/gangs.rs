//! Gangs as they stand: who is in which, and whether it began.
//!
//! A part of ingest, which lets nobody in who does not belong there, and of sched, which tells the
//! planner how many are to be there. Folded from records of jobs that are not over, so that a restart
//! finds the same. A name is a gang's from its first submission until its last member is over.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::account::{Name, Party};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::gang::{self, ATTRIBUTE, Gang};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::{Need, Request, Work};
use eddy_wire::pool::{self, Pool, Takes};
use eddy_wire::reservation;
use eddy_wire::spec::Spec;

/// All gangs, by user and name.
#[derive(Debug, Default)]
pub(crate) struct Gangs {
    all: BTreeMap<(u32, Name), Known>,
    of: BTreeMap<JobId, (u32, Name)>,
}

/// One gang.
#[derive(Debug)]
pub(crate) struct Known {
    pub gang: Gang,
    terms: Terms,
    pub members: BTreeMap<JobId, Begun>,
    /// The one whose end was recorded last: who hears of that record asks what it was in.
    past: Option<JobId>,
    /// What each takes of pools.
    takes: BTreeMap<JobId, Takes>,
    /// What each asks for.
    asks: BTreeMap<JobId, Arc<Submit>>,
}

/// What all members have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Terms {
    queue: Option<String>,
    party: Party,
    reservation: Option<String>,
}

/// Whether a member was ever given its resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    No,
    Yes,
}

impl Terms {
    fn of(party: &Party, spec: &Spec) -> Terms {
        Terms {
            queue: spec.jobspec.attributes.system.queue.clone(),
            party: party.clone(),
            reservation: reservation::of(spec).map(str::to_owned),
        }
    }
}

impl Known {
    pub(crate) fn has_begun(&self) -> bool {
        self.members.values().any(|begun| *begun == Begun::Yes)
    }

    /// Whether it may begin: all members are there, or it has begun and others run again.
    pub(crate) fn is_there(&self) -> bool {
        self.has_begun() || self.members.len() as u64 == u64::from(self.gang.size)
    }

    /// What a member would have that the others have not.
    fn differs(&self, gang: &Gang, terms: &Terms) -> Option<&'static str> {
        let there = &self.terms;
        let all = [
            ("label", gang.uniform != self.gang.uniform),
            ("queue", terms.queue != there.queue),
            ("account, QoS or class", terms.party != there.party),
            ("reservation", terms.reservation != there.reservation),
        ];
        let mut other = all.into_iter().filter(|(_, differs)| *differs);
        other.next().map(|(what, _)| what)
    }
}

impl Gangs {
    /// Folds a record.
    pub(crate) fn apply(&mut self, record: &Record) {
        let Some(job) = record.event.job else {
            return;
        };
        match &record.event.kind {
            Kind::Submit(submit) if submit.pass.is_none() => self.submitted(job, submit),
            Kind::Alloc(_) => {
                if let Some(known) = self.of.get(&job).and_then(|key| self.all.get_mut(key)) {
                    known.members.insert(job, Begun::Yes);
                }
            }
            Kind::Clean => {
                let Some(key) = self.of.get(&job) else {
                    return;
                };
                let Some(known) = self.all.get_mut(key) else {
                    return;
                };
                known.members.remove(&job);
                known.takes.remove(&job);
                known.asks.remove(&job);
                let before = known.past.replace(job);
                if known.members.is_empty() {
                    self.all.remove(&key.clone());
                    self.of.remove(&job);
                }
                before.and_then(|job| self.of.remove(&job));
            }
            _ => {}
        }
    }

    fn submitted(&mut self, job: JobId, submit: &Arc<Submit>) {
        let Ok(Some(gang)) = gang::of(&submit.spec) else {
            return;
        };
        let key = (submit.user, gang.name.clone());
        let known = self.all.entry(key.clone()).or_insert_with(|| Known {
            gang,
            terms: Terms::of(&submit.party, &submit.spec),
            members: BTreeMap::new(),
            past: None,
            takes: BTreeMap::new(),
            asks: BTreeMap::new(),
        });
        known.members.insert(job, Begun::No);
        known.asks.insert(job, Arc::clone(submit));
        known
            .takes
            .insert(job, pool::of(&submit.spec).unwrap_or_default());
        self.of.insert(job, key);
    }

    /// The gang that a job is in, or was in until just now if others are.
    pub(crate) fn of(&self, job: JobId) -> Option<&Known> {
        self.all.get(self.of.get(&job)?)
    }

    /// Whether these pools have what so many more members take, beside what the others do.
    ///
    /// # Errors
    /// By the field.
    pub(crate) fn have(
        &self,
        pools: &[Pool],
        user: u32,
        spec: &Spec,
        count: u32,
    ) -> Result<(), Refusal> {
        let Ok(Some(gang)) = gang::of(spec) else {
            return Ok(());
        };
        let others = self.all.get(&(user, gang.name.clone()));
        for (name, asked) in pool::of(spec).unwrap_or_default().iter() {
            let others = others.into_iter().flat_map(|known| known.takes.values());
            let others = others.flat_map(|takes| takes.iter());
            let taken = others.filter(|(of, _)| of == name).map(|(_, n)| *n);
            let all = taken.fold(asked.saturating_mul(u64::from(count)), u64::saturating_add);
            let pool = pools.iter().find(|pool| pool.name == *name);
            if let Some(pool) = pool.filter(|pool| all > pool.count) {
                let text = format!(
                    "attributes.system.{}.{name}: members of gang `{}` take {all} together, there are {}",
                    pool::ATTRIBUTE,
                    gang.name,
                    pool.count
                );
                return Err(Refusal::invalid(text));
            }
        }
        Ok(())
    }

    /// What the members of a gang ask for that are there and so many more, and with how few of these it may begin
    /// at least; nothing where one alone would do, or none.
    pub(crate) fn asked(&self, user: u32, spec: &Spec, count: u32) -> Option<(Gang, Vec<Request>)> {
        let mut gang = gang::of(spec).ok()??;
        let known = self.all.get(&(user, gang.name.clone()));
        let there = known.into_iter().flat_map(|known| known.asks.values());
        let there = there.map(|submit| submit.spec.request.clone());
        let more = std::iter::repeat_n(&spec.request, count as usize).cloned();
        let requests: Vec<Request> = there.chain(more).collect();
        let missing = gang.size.saturating_sub(requests.len() as u32);
        gang.min = gang.min.saturating_sub(missing);
        // One alone finds room, but on nodes that have the label.
        let is_bound = gang.uniform.is_some();
        gang.min = gang.min.max(u32::from(is_bound));
        (is_bound || gang.min > 1).then_some((gang, requests))
    }

    /// Whether a member that waits for this would wait for others of its gang.
    fn is_for_mates(&self, need: &Need, (user, gang): (u32, &Gang)) -> bool {
        match need {
            Need::After(_, job) => {
                let known = self.all.get(&(user, gang.name.clone()));
                known.is_some_and(|known| known.members.contains_key(job))
            }
            Need::Within(..) | Need::Begin(_) => false,
            Need::Singleton => gang.size > 1,
            Need::Throttle(most) => *most < gang.size,
        }
    }

    /// Whether so many more jobs of this user may be in the gang that their jobspec names.
    ///
    /// # Errors
    /// By the field.
    pub(crate) fn let_in(
        &self,
        (user, party): (u32, &Party),
        spec: &Spec,
        count: u32,
    ) -> Result<(), Refusal> {
        let Some(gang) = gang::of(spec).map_err(Refusal::invalid)? else {
            return Ok(());
        };
        let path = format!("attributes.system.{ATTRIBUTE}");
        if spec.request.takes == eddy_wire::jobspec::Takes::Nothing {
            let text = format!("{path}: a job that takes nothing is in no gang");
            return Err(Refusal::invalid(text));
        }
        if matches!(spec.request.work, Work::Ground { .. }) {
            let text = format!("{path}: ground for an instance is in no gang");
            return Err(Refusal::invalid(text));
        }
        let mut needs = spec.needs.iter();
        if let Some(need) = needs.find(|need| self.is_for_mates(need, (user, &gang))) {
            let text = format!(
                "{path}: members start together, one of them would wait for others by `{}`",
                need.description()
            );
            return Err(Refusal::invalid(text));
        }
        let Gang { name, size, .. } = &gang;
        let Some(known) = self.all.get(&(user, name.clone())) else {
            return within(&path, &gang, 0, count);
        };
        if known.has_begun() {
            let text = format!(
                "{path}.name: gang `{name}` has begun; the name is free when its last member is over"
            );
            return Err(Refusal::new(Code::Conflict, text));
        }
        let both = [
            ("size", *size, known.gang.size),
            ("min", gang.min, known.gang.min),
        ];
        if let Some((key, given, there)) = both.into_iter().find(|(_, given, there)| given != there)
        {
            let text = format!("{path}.{key}: {given} given, gang `{name}` has {there}");
            return Err(Refusal::new(Code::Conflict, text));
        }
        if let Some(what) = known.differs(&gang, &Terms::of(party, spec)) {
            let text = format!("{path}: gang `{name}` has another {what}; all members have one");
            return Err(Refusal::new(Code::Conflict, text));
        }
        let there = u32::try_from(known.members.len()).unwrap_or(u32::MAX);
        within(&path, &gang, there, count)
    }
}

/// Whether a gang that has so many members has room for so many more.
fn within(path: &str, gang: &Gang, there: u32, more: u32) -> Result<(), Refusal> {
    let Gang { name, size, .. } = gang;
    if there.saturating_add(more) <= *size {
        return Ok(());
    }
    let text =
        format!("{path}.size: gang `{name}` has {there} of {size} members, {more} more given");
    Err(Refusal::new(Code::Conflict, text))
}
