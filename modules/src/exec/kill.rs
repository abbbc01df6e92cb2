//! `job.kill`: a signal to the tasks of jobs, which changes no record.

use eddy_broker::{Outbox, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::JobId;
use eddy_wire::services::job::{Changed, KillRequest};

use super::Exec;

/// How many refusals one answer names.
const REFUSED_MAX: usize = 1000;

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
        let mut changed = Changed::default();
        for (first, last) in &body.jobs.ranges {
            if first > last {
                let text = format!("jobs: {first}-{last} given, a range ends after it begins");
                return Err(Refusal::new(Code::Invalid, text));
            }
            if first == last && !self.runs.contains_key(first) {
                refuse(&mut changed, *first, "it is not running");
            }
            for (id, run) in self.runs.range(*first..=*last) {
                if request.sender().may_act_for(run.submit.user) {
                    run.signal(body.signal, &self.shells, out);
                    changed.count += 1;
                } else {
                    refuse(&mut changed, *id, "it is another user's");
                }
            }
        }
        out.reply(request.caller, &changed);
        Ok(())
    }
}

fn refuse(changed: &mut Changed, job: JobId, why: &str) {
    if changed.refused.len() < REFUSED_MAX {
        changed.refused.push((job, why.to_owned()));
    }
}
