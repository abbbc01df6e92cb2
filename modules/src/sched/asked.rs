//! Who asked why jobs wait, or what each account is due: the planner knows, and answers with its
//! next outcome. What queues take it does not know: that is added here where something is supposed.

use std::collections::BTreeMap;

use eddy_broker::{Caller, Outbox, Request, Volatile};
use eddy_wire::account::Book;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Record;
use eddy_wire::id::JobId;
use eddy_wire::plan::{Answer, Delta, Explained, Question, Reason, ShareRow, SharesTold, Suppose};
use eddy_wire::services::sched::{EXPLAINED_MAX, ExplainReply, ExplainRequest, SharesReply};
use eddy_wire::spec::Spec;

use super::policy;
use super::seen::Seen;
use crate::ingest::queues::{self, Queues};
use crate::limits::Limits;
use crate::settings::Settings;

/// The most questions that wait for the planner.
const ASKED_MAX: usize = 256;

/// The questions on their way.
#[derive(Debug, Default)]
pub(super) struct Asked {
    last: u64,
    callers: BTreeMap<u64, Asker>,
    queues: Queues,
}

/// Who asked.
#[derive(Debug)]
struct Asker {
    caller: Caller,
    /// The user whose jobs alone are told, if not all are.
    only: Option<u32>,
    suppose: Suppose,
}

/// What is known of the jobs that are told of.
pub(super) struct Known<'s> {
    pub jobs: &'s BTreeMap<JobId, Seen>,
    pub book: &'s Book,
    pub limits: &'s Limits,
}

impl Asked {
    /// Nobody asks.
    pub(super) fn new(settings: &Settings) -> Asked {
        Asked {
            queues: Queues::new(settings),
            ..Asked::default()
        }
    }

    /// Folds a record.
    pub(super) fn apply(&mut self, record: &Record) {
        self.queues.apply(record);
    }

    /// Passes a question on.
    ///
    /// # Errors
    /// What is wrong with it, or that there are too many.
    pub(super) fn ask(
        &mut self,
        request: &Request,
        only: Option<u32>,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: ExplainRequest = request.parse()?;
        may_be_supposed(&body)?;
        let question = Question {
            tag: self.tag(request.caller, only, body.suppose.clone())?,
            jobs: body.jobs.map(|jobs| jobs.ranges),
            most: EXPLAINED_MAX,
            suppose: body.suppose,
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
        let tag = self.tag(request.caller, only, Suppose::default())?;
        out.volatile(Volatile::Plan(vec![Delta::Shares(tag)]));
        Ok(())
    }

    fn tag(&mut self, caller: Caller, only: Option<u32>, suppose: Suppose) -> Result<u64, Refusal> {
        if self.callers.len() >= ASKED_MAX {
            let text = format!("the limit `questions` is {ASKED_MAX}, all are under way");
            return Err(Refusal::new(Code::Busy, text));
        }
        self.last += 1;
        let asker = Asker {
            caller,
            only,
            suppose,
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
    pub(super) fn answered(&mut self, answer: &Answer, known: &Known<'_>, out: &mut Outbox) {
        let Some(asker) = self.callers.remove(&answer.tag) else {
            return;
        };
        let user = |job| known.jobs.get(&job).map(|seen| seen.submit.user);
        let is_told = |told: &&Explained| asker.only.is_none() || user(told.job) == asker.only;
        let told = answer.jobs.iter().filter(is_told);
        let reply = ExplainReply {
            jobs: told
                .map(|told| self.as_taken(told, &asker.suppose, known))
                .collect(),
            more: answer.more,
        };
        out.answer(asker.caller, &reply);
    }

    /// The same, as far as the queue of the job would take it.
    fn as_taken(&self, told: &Explained, suppose: &Suppose, known: &Known<'_>) -> Explained {
        let mut told = told.clone();
        if let Some(reason) = self.refused(told.job, suppose, known) {
            (told.reason, told.start) = (reason, None);
        }
        let is_taken = |one: &Suppose| self.refused(told.job, one, known).is_none();
        told.advice = told
            .advice
            .iter()
            .filter(|one| is_taken(one))
            .cloned()
            .collect();
        told
    }

    /// That its queue would not take a job that asks for what is supposed.
    fn refused(&self, job: JobId, suppose: &Suppose, known: &Known<'_>) -> Option<Reason> {
        let submit = &known.jobs.get(&job)?.submit;
        let request = suppose.request(&submit.spec.request);
        if request == submit.spec.request {
            return None;
        }
        let spec = Spec {
            request,
            ..Spec::clone(&submit.spec)
        };
        let of = (submit.user, &submit.party);
        let cores = || known.limits.most_cores(&spec);
        let refusal = self.queues.lets(of, known.book, &spec, cores).err()?;
        Some(Reason::Refused {
            queue: queues::of(&spec)?.to_owned(),
            why: refusal.text,
        })
    }

    /// These callers wait no more.
    pub(super) fn drop_where(&mut self, gone: impl Fn(Caller) -> bool) {
        self.callers.retain(|_, asker| !gone(asker.caller));
    }
}

/// Whether what is supposed can be.
fn may_be_supposed(body: &ExplainRequest) -> Result<(), Refusal> {
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
