//! `job.kill`: a signal to the tasks of jobs, or to the program of an instance. It changes nothing that is recorded;
//! that somebody else than the job's user sent it is a memo of the job.

use eddy_broker::{Notice, Outbox, Request, Sender};
use eddy_wire::error::Refusal;
use eddy_wire::event::{Kind, Submit};
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::jobspec::Work;
use eddy_wire::services::child::PROGRAM;
use eddy_wire::services::job::{Changed, KillRequest, REFUSED_MAX, SIGNALLED};
use eddy_wire::time::Time;
use serde_json::{Map, json};

use super::Exec;
use crate::named;

pub(super) const SIGCONT: i32 = 18;
/// Why somebody's job is not sent one.
pub(super) const OTHERS: &str = "it is another user's";
/// Why an instance is sent none that has nothing to be sent it.
const NO_PROGRAM: &str = "it is an instance without an initial program, which a signal is for";
/// Why a job is sent none that only holds nodes.
const GROUND: &str = "it holds nodes for an instance and has no tasks";
/// Why a job that is stopped is not sent that.
pub(super) const SUSPENDED: &str = "it is suspended; `resume` lets it go on";

impl Exec {
    pub(super) fn kill(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: KillRequest = request.parse()?;
        if !(1..=64).contains(&body.signal) {
            let text = format!("signal: {} given, allowed are 1 to 64", body.signal);
            return Err(Refusal::invalid(text));
        }
        if body.jobs.is_empty() {
            return Err(Refusal::invalid("jobs: none given, at least one is needed"));
        }
        named::ranges(&body.jobs)?;
        let (mut changed, is_alone) = (Changed::default(), body.jobs.len() == 1);
        for (first, last) in &body.jobs.ranges {
            let is_seen = self.is_seen(*first, request.sender());
            let has_tasks = self.runs.contains_key(first) || self.away.contains_key(first);
            if first == last && !(has_tasks && is_seen) {
                refuse(&mut changed, *first, self.not_running(*first, request));
            }
            for (id, run) in self.runs.range(*first..=*last) {
                if self.sight.hides(request.sender(), run.submit.user) {
                    continue;
                } else if !request.sender().may_act_for(run.submit.user) {
                    refuse(&mut changed, *id, OTHERS);
                } else if body.signal == SIGCONT && run.is_to_stop() {
                    refuse(&mut changed, *id, SUSPENDED);
                } else if let Some(name) = run.name().filter(|_| !is_alone) {
                    // It has the jobs of others in it: only its number, given alone, means it.
                    changed.spared.push((*id, name.to_owned()));
                } else if let Some(why) = unheard(&run.submit) {
                    refuse(&mut changed, *id, why);
                } else {
                    note(now, (*id, run.submit.user), (request, body.signal), out);
                    match run.is_of_instance() {
                        true => out.notice(Notice::Signal(*id, body.signal)),
                        false => run.signal(body.signal, &self.shells, out),
                    }
                    changed.count += 1;
                }
            }
            let told = (now, request, body.signal);
            self.kill_away((*first, *last), told, &mut changed, out);
        }
        out.reply(request.caller, &changed);
        Ok(())
    }

    /// A signal by the parent's word for a job that it passed.
    pub(super) fn signal_passed(
        &self,
        (job, attempt): (JobId, Attempt),
        signal: i32,
        out: &mut Outbox,
    ) {
        match self.runs.get(&job).filter(|run| run.attempt == attempt) {
            Some(run) if run.is_of_instance() => out.notice(Notice::Signal(job, signal)),
            Some(run) => run.signal(signal, &self.shells, out),
            None => {}
        }
    }

    /// A signal for the program that this instance was begun for. One that comes before that began waits for it, as in
    /// a shell one that comes before the tasks run.
    pub(super) fn signal_program(&mut self, signal: i32, out: &mut Outbox) {
        match self.runs.get(&PROGRAM) {
            Some(run) => run.signal(signal, &self.shells, out),
            None => drop(self.early.insert(signal)),
        }
    }

    /// The program may be what begins.
    pub(super) fn program_begins(&mut self, job: JobId, out: &mut Outbox) {
        if job == PROGRAM {
            let early = std::mem::take(&mut self.early);
            early
                .into_iter()
                .for_each(|signal| self.signal_program(signal, out));
        }
    }

    /// Whether a sender may know of a job that it is there.
    pub(super) fn is_seen(&self, job: JobId, sender: Sender) -> bool {
        let submit = self.submit_of(job);
        submit.is_none_or(|submit| !self.sight.hides(sender, submit.user))
    }

    /// Why a job that has no tasks is sent none. Whose it is comes first, as for all else that is done to jobs.
    fn not_running(&self, job: JobId, request: &Request) -> &'static str {
        let seen = self.submit_of(job);
        match seen.filter(|_| self.is_seen(job, request.sender())) {
            Some(submit) if !request.sender().may_act_for(submit.user) => OTHERS,
            _ => "it is not running",
        }
    }
}

/// Records that somebody else sends a job a signal, before that is sent: what comes of it may be the end of the job,
/// and its log would not say by whom. What its user sends is his own affair, and programs do that all the time.
pub(super) fn note(
    now: Time,
    (job, user): (JobId, u32),
    (request, signal): (&Request, i32),
    out: &mut Outbox,
) {
    if request.uid != user {
        let said = json!({ "signum": signal, "userid": request.uid });
        out.append(
            now,
            job,
            Kind::Memo(Map::from_iter([(SIGNALLED.to_owned(), said)])),
        );
    }
}

/// Why a job has nobody whom a signal is for. The leader of an instance is none: to stop it or to end it is done by
/// words.
pub(super) fn unheard(submit: &Submit) -> Option<&'static str> {
    match &submit.spec.request.work {
        Work::Instance { .. } if !submit.spec.jobspec.has_program() => Some(NO_PROGRAM),
        Work::Ground { .. } => Some(GROUND),
        Work::Instance { .. } | Work::Tasks => None,
    }
}

pub(super) fn refuse(changed: &mut Changed, job: JobId, why: &str) {
    if changed.refused.len() < REFUSED_MAX {
        changed.refused.push((job, why.to_owned()));
    }
}
