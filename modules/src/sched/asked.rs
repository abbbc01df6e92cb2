//! Who asked why jobs wait, or what each account is due: the planner knows, and answers with its
//! next outcome.

use std::collections::BTreeMap;

use eddy_broker::{Caller, Outbox, Request, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::JobId;
use eddy_wire::plan::{Answer, Delta, Explained, Question, ShareRow, SharesTold};
use eddy_wire::services::sched::{EXPLAINED_MAX, ExplainReply, ExplainRequest, SharesReply};

use super::policy;

/// The most questions that wait for the planner.
const ASKED_MAX: usize = 256;

/// The questions on their way.
#[derive(Debug, Default)]
pub(super) struct Asked {
    last: u64,
    /// Who asked, and the user whose jobs alone are told, if not all are.
    callers: BTreeMap<u64, (Caller, Option<u32>)>,
}

impl Asked {
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
            tag: self.tag(request.caller, only)?,
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
        let tag = self.tag(request.caller, only)?;
        out.volatile(Volatile::Plan(vec![Delta::Shares(tag)]));
        Ok(())
    }

    fn tag(&mut self, caller: Caller, only: Option<u32>) -> Result<u64, Refusal> {
        if self.callers.len() >= ASKED_MAX {
            let text = format!("the limit `questions` is {ASKED_MAX}, all are under way");
            return Err(Refusal::new(Code::Busy, text));
        }
        self.last += 1;
        self.callers.insert(self.last, (caller, only));
        Ok(self.last)
    }

    /// The planner tells what each account is due.
    pub(super) fn told(&mut self, told: &SharesTold, preset: &str, out: &mut Outbox) {
        for (caller, only) in told.tags.iter().filter_map(|tag| self.callers.remove(tag)) {
            let is_shown =
                |row: &&ShareRow| only.is_none() || row.user.is_none() || row.user == only;
            let reply = SharesReply {
                preset: preset.to_owned(),
                rows: told.rows.iter().filter(is_shown).cloned().collect(),
            };
            out.answer(caller, &reply);
        }
    }

    /// The planner answers; `user` says whose a job is.
    pub(super) fn answered(
        &mut self,
        answer: &Answer,
        user: impl Fn(JobId) -> Option<u32>,
        out: &mut Outbox,
    ) {
        let Some((caller, only)) = self.callers.remove(&answer.tag) else {
            return;
        };
        let is_told = |told: &&Explained| only.is_none() || user(told.job) == only;
        let reply = ExplainReply {
            jobs: answer.jobs.iter().filter(is_told).cloned().collect(),
            more: answer.more,
        };
        out.answer(caller, &reply);
    }

    /// These callers wait no more.
    pub(super) fn drop_where(&mut self, gone: impl Fn(Caller) -> bool) {
        self.callers.retain(|_, (caller, _)| !gone(*caller));
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
