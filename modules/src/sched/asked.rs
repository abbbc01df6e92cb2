//! Who asked why jobs wait, or what each account is due: the planner knows, and answers with its
//! next outcome. What queues and reservations take it does not know, nor anything of jobs that wait for something
//! else than resources: that is added here where something is supposed.

use std::collections::BTreeMap;

use eddy_broker::{Caller, Outbox, Request, Volatile};
use eddy_wire::account::Book;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Record;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Sharing;
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::{
    Answer, Breakdown, Delta, Explained, Lent, Question, Reason, ShareRow, SharesTold, Suppose,
    Want,
};
use eddy_wire::reservation;
use eddy_wire::services::child::Granted;
use eddy_wire::services::sched::{
    EXPLAINED_MAX, ExplainReply, ExplainRequest, SUPPOSED_MAX, SharesReply,
};
use eddy_wire::spec::Spec;
use eddy_wire::time::{Span, Time};

use super::policy;
use super::seen::Seen;
use crate::ingest::queues::{self, Queues};
use crate::ingest::reserved::Reserved;
use crate::ingest::served;
use crate::jobs::Jobs;
use crate::limits::Limits;
use crate::settings::{Place, Queue, Settings};

/// The most questions that wait for the planner.
const ASKED_MAX: usize = 256;
/// The most of them of one user.
const ASKED_BY_ONE_MAX: usize = 32;

/// The questions on their way.
#[derive(Debug, Default)]
pub(super) struct Asked {
    last: u64,
    callers: BTreeMap<u64, Asker>,
    queues: Queues,
    reserved: Reserved,
    /// Until when jobs may run here.
    place: Place,
}

/// Who asked.
#[derive(Debug)]
struct Asker {
    caller: Caller,
    user: u32,
    /// The user whose jobs alone are told, if not all are.
    only: Option<u32>,
    /// The jobs of which something is supposed.
    jobs: Vec<(JobId, JobId)>,
    suppose: Suppose,
    /// The nodes that jobs are not lent.
    lent: BTreeMap<JobId, Vec<Lent>>,
}

/// What jobs would ask for that somebody asks about.
#[derive(Debug, Default)]
pub(super) struct Would {
    /// Those of whom the planner does not know it.
    pub wants: Vec<(JobId, Want)>,
    /// Those who are not lent some nodes, were their limit as short as it is to be there.
    pub withheld: BTreeMap<JobId, Vec<(Lent, Option<Want>)>>,
}

/// What is known of the jobs that are told of.
pub(super) struct Known<'s> {
    pub jobs: &'s Jobs<Seen>,
    pub book: &'s Book,
    pub limits: &'s Limits,
}

impl Asked {
    /// Nobody asks.
    pub(super) fn new(settings: &Settings) -> Asked {
        Asked {
            queues: Queues::new(settings),
            reserved: Reserved::new(settings),
            place: settings.place.clone(),
            ..Asked::default()
        }
    }

    /// Folds a record.
    pub(super) fn apply(&mut self, record: &Record) {
        self.queues.apply(record);
        self.reserved.apply(record);
        self.place.recorded(&record.event.kind);
    }

    /// The queues that are configured.
    pub(super) fn queues(&self) -> &[Queue] {
        self.queues.all()
    }

    /// The parent said anew where this instance is and how long.
    pub(super) fn granted(&mut self, now: Time, granted: &Granted) {
        self.place.told(now, granted);
    }

    /// Refuses for an instance in an instance, whose nodes are its parent's to take out.
    ///
    /// # Errors
    /// Which job it is.
    pub(super) fn is_whole(&self) -> Result<(), Refusal> {
        let Some(child) = self.place.child else {
            return Ok(());
        };
        let text = format!(
            "this instance is job {} of another, whose nodes are its own to take out",
            child.job.f58_ascii()
        );
        Err(Refusal::new(Code::Denied, text))
    }

    /// Whether it is a user's instance in another.
    pub(super) fn is_users(&self) -> bool {
        self.place.child.is_some() && self.place.name.is_none()
    }

    /// How long jobs may still run here; `None` is for ever.
    pub(super) fn left(&self, now: Time) -> Option<Span> {
        self.place.end().map(|end| end - now)
    }

    /// Passes a question on, with what some of its jobs would ask for.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn ask(
        &mut self,
        (request, only): (&Request, Option<u32>),
        body: ExplainRequest,
        would: Would,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let jobs = body.jobs.map(|jobs| jobs.ranges);
        let supposed = match body.suppose.is_nothing() {
            true => Vec::new(),
            false => jobs.clone().unwrap_or_default(),
        };
        let tag = self.tag(request, only, (supposed, body.suppose.clone()))?;
        let mut lent = Vec::new();
        for (job, withheld) in would.withheld {
            let asker = self.callers.get_mut(&tag);
            let told = withheld.iter().map(|(one, _)| one.clone()).collect();
            asker.map(|asker| asker.lent.insert(job, told));
            let wants = withheld.into_iter().filter_map(|(_, want)| want);
            lent.extend(wants.map(|want| (job, want)));
        }
        let question = Question {
            tag,
            jobs,
            most: EXPLAINED_MAX,
            suppose: body.suppose,
            wants: would.wants,
            lent,
        };
        out.volatile(Volatile::Plan(vec![Delta::Explain(question)]));
        Ok(())
    }

    /// Asks what each account is due, and each user or that one alone.
    ///
    /// # Errors
    /// Too many questions are under way.
    pub(super) fn ask_shares(
        &mut self,
        request: &Request,
        only: Option<u32>,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let tag = self.tag(request, only, Default::default())?;
        out.volatile(Volatile::Plan(vec![Delta::Shares(tag)]));
        Ok(())
    }

    fn tag(
        &mut self,
        request: &Request,
        only: Option<u32>,
        (jobs, suppose): (Vec<(JobId, JobId)>, Suppose),
    ) -> Result<u64, Refusal> {
        let (caller, user) = (request.caller, request.uid);
        if self.callers.len() >= ASKED_MAX {
            let text = format!("the limit `questions` is {ASKED_MAX}, all are under way");
            return Err(Refusal::new(Code::Busy, text));
        }
        let own = self.callers.values().filter(|asker| asker.user == user);
        if own.count() >= ASKED_BY_ONE_MAX {
            let text = format!(
                "the limit `questions` is {ASKED_BY_ONE_MAX} of one user, all are under way"
            );
            return Err(Refusal::new(Code::Busy, text));
        }
        self.last += 1;
        let asker = Asker {
            caller,
            user,
            only,
            jobs,
            suppose,
            lent: BTreeMap::new(),
        };
        self.callers.insert(self.last, asker);
        Ok(self.last)
    }

    /// The planner tells what each account is due.
    pub(super) fn told(&mut self, told: &SharesTold, preset: &str, out: &mut Outbox) {
        for asker in told.tags.iter().filter_map(|tag| self.callers.remove(tag)) {
            let Asker { caller, only, .. } = asker;
            let is_shown =
                |row: &&ShareRow| only.is_none() || row.user.is_none() || row.user == only;
            let reply = SharesReply {
                preset: preset.to_owned(),
                rows: told.rows.iter().filter(is_shown).cloned().collect(),
            };
            out.answer(caller, &reply);
        }
    }

    /// The planner answers.
    pub(super) fn answered(
        &mut self,
        now: Time,
        answer: &Answer,
        known: &Known<'_>,
        out: &mut Outbox,
    ) {
        let Some(asker) = self.callers.remove(&answer.tag) else {
            return;
        };
        let user = |job| known.jobs.get(&job).map(|seen| seen.submit.user);
        let is_told = |told: &&Explained| asker.only.is_none() || user(told.job) == asker.only;
        let mut jobs = self.refused_aside(now, answer, &asker, known);
        let own = |told: &Explained| answer.jobs.iter().any(|one| one.job == told.job);
        let (elsewhere, let_go): (Vec<_>, Vec<_>) =
            answer.let_go.iter().partition(|told| own(told));
        // Who would wait in another line is told of by that one; what its own says is of it as it is.
        jobs.extend(answer.jobs.iter().map(|told| {
            let other = elsewhere.iter().find(|one| one.job == told.job);
            Explained::clone(other.map_or(told, |other| other))
        }));
        let as_taken = |told| {
            let mut told = self.as_taken(now, told, &asker.suppose, known);
            told.lent = asker.lent.get(&told.job).cloned().unwrap_or_default();
            match asker.only {
                None => told,
                Some(_) => told.as_seen(&|job| user(job) == asker.only),
            }
        };
        let let_go = let_go.into_iter().filter(is_told);
        let reply = ExplainReply {
            jobs: jobs.iter().filter(is_told).map(as_taken).collect(),
            more: answer.more,
            let_go: let_go.map(as_taken).collect(),
        };
        out.answer(asker.caller, &reply);
    }

    /// Those of whom something is supposed, and of whom the planner tells nothing, as far as it would be refused.
    fn refused_aside(
        &self,
        now: Time,
        answer: &Answer,
        asker: &Asker,
        known: &Known<'_>,
    ) -> Vec<Explained> {
        let left = SUPPOSED_MAX.saturating_sub(answer.jobs.len());
        let ranges = asker.jobs.iter().filter(|(first, last)| first <= last);
        let asked = ranges.flat_map(|(first, last)| known.jobs.range(*first..=*last));
        let aside = asked.filter(|(job, seen)| {
            let mut told = answer.jobs.iter().chain(&answer.let_go);
            seen.state.is_pending() && told.all(|told| told.job != **job)
        });
        let refused = aside.take(left).filter_map(|(job, _)| {
            Some(Explained {
                job: *job,
                reason: self.refused(now, *job, &asker.suppose, known)?,
                ahead: 0,
                start: None,
                // It has no turn yet.
                priority: Breakdown::default(),
                moved: None,
                sharing: Sharing::default(),
                advice: Vec::new(),
                lent: Vec::new(),
            })
        });
        refused.collect()
    }

    /// The same, as far as the queue and the reservation of the job would take it.
    fn as_taken(
        &self,
        now: Time,
        told: &Explained,
        suppose: &Suppose,
        known: &Known<'_>,
    ) -> Explained {
        let mut told = told.clone();
        if let Some(reason) = self.refused(now, told.job, suppose, known) {
            (told.reason, told.start) = (reason, None);
        }
        if !told.advice.is_empty() && is_awaited(told.job, known) {
            told.advice.clear();
        }
        let mut advice = std::mem::take(&mut told.advice);
        advice.retain(|one| self.refused(now, told.job, one, known).is_none());
        Explained { advice, ..told }
    }

    /// That the instance, its queue, or the reservation that it names would not take a job that asks for what is
    /// supposed.
    fn refused(
        &self,
        now: Time,
        job: JobId,
        suppose: &Suppose,
        known: &Known<'_>,
    ) -> Option<Reason> {
        let submit = &known.jobs.get(&job)?.submit;
        let request = suppose.request(&submit.spec.request);
        if request == submit.spec.request {
            return None;
        }
        let spec = Spec {
            request,
            ..Spec::clone(&submit.spec)
        };
        if let Err(refusal) = served::lasts_in(&self.place, now, &spec) {
            return Some(Reason::RefusedHere { why: refusal.text });
        }
        let of = (submit.user, &submit.party);
        let cores = || known.limits.most_cores(&spec);
        if let Err(refusal) = self.queues.lets(of, known.book, &spec, cores) {
            let (queue, why) = (queues::of(&spec)?.to_owned(), refusal.text);
            return Some(Reason::Refused { queue, why });
        }
        let whose = (submit.user, &submit.party, known.book);
        // Of the nodes of a reservation those are left out that its queue does not lead to: the planner knows.
        let refusal = self.reserved.lets(now, whose, &spec, None).err()?;
        Some(Reason::NotInReservation {
            name: reservation::of(&spec)?.parse().ok()?,
            why: refusal.text,
        })
    }

    /// These callers wait no more.
    pub(super) fn drop_where(&mut self, gone: impl Fn(Caller) -> bool) {
        self.callers.retain(|_, asker| !gone(asker.caller));
    }
}

/// Whether somebody is kept back by a limit that counts for a job, too: what this gives back to come again he has.
fn is_awaited(job: JobId, known: &Known<'_>) -> bool {
    let Some(own) = known.jobs.get(&job) else {
        return false;
    };
    let of = |seen: &Seen| {
        let submit = &seen.submit;
        known
            .limits
            .all_of_running(submit.user, &submit.party, &submit.spec)
    };
    let limits = of(own);
    let is_kept_back = |seen: &Seen| seen.state == JobState::Priority && seen.urgency > 0;
    let mut others = known
        .jobs
        .iter()
        .filter(|(other, seen)| **other != job && is_kept_back(seen));
    !limits.is_empty()
        && others.any(|(_, seen)| of(seen).iter().any(|whose| limits.contains(whose)))
}

/// Whether what is supposed can be.
pub(super) fn may_be_supposed(body: &ExplainRequest) -> Result<(), Refusal> {
    let suppose = &body.suppose;
    if suppose.is_nothing() {
        return Ok(());
    }
    if body.jobs.is_none() {
        let text = "jobs: none given; something is supposed of jobs that are named";
        return Err(Refusal::invalid(text));
    }
    suppose
        .check()
        .map_err(|error| Refusal::invalid(error.to_string()))?;
    match &suppose.policy {
        Some(text) => policy::readable(text).map(drop),
        None => Ok(()),
    }
}
