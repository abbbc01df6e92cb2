//! `job.kill`: a signal to the tasks of jobs, which changes no record.

use eddy_broker::{Outbox, Request, Sender};
use eddy_wire::error::Refusal;
use eddy_wire::id::JobId;
use eddy_wire::services::job::{Changed, KillRequest, REFUSED_MAX};

use super::Exec;
use crate::named;

pub(super) const SIGCONT: i32 = 18;
/// Why somebody's job is not sent one.
pub(super) const OTHERS: &str = "it is another user's";
/// Why a job that is stopped is not sent that.
pub(super) const SUSPENDED: &str = "it is suspended; `resume` lets it go on";

impl Exec {
    pub(super) fn kill(&mut self, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
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
                } else {
                    run.signal(body.signal, &self.shells, out);
                    changed.count += 1;
                }
            }
            let told = (request, body.signal);
            self.kill_away((*first, *last), told, &mut changed, out);
        }
        out.reply(request.caller, &changed);
        Ok(())
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

pub(super) fn refuse(changed: &mut Changed, job: JobId, why: &str) {
    if changed.refused.len() < REFUSED_MAX {
        changed.refused.push((job, why.to_owned()));
    }
}
