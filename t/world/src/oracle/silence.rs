//! Whether an instance that has not heard its parent for its lease begins nothing, and before that what
//! the parent has not ordered in its time and its turn only.
//!
//! Told by the driver when the channel is lost and when the parent is heard.

use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::jobspec::Work;
use eddy_wire::lifecycle::JobState;
use eddy_wire::time::{MICROS, Span, Time};

use super::Ledger;

/// Since when the parent of an instance is silent, and what begins all the same.
#[derive(Debug, Default)]
pub struct Silent {
    since: Option<(Time, Terms)>,
}

/// How long jobs begin though the parent is silent, and from when on those that it has not ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Nothing begins when it was silent for so long.
    pub lease: Span,
    /// What was taken without it begins when it was silent for so long, if ever.
    pub alone: Option<Span>,
}

impl Silent {
    /// The channel is lost, by the clock of the instance.
    pub fn begins(&mut self, now: Time, terms: Terms) {
        self.since.get_or_insert((now, terms));
    }

    /// The parent is heard, or another leader begins.
    pub fn ends(&mut self) {
        self.since = None;
    }

    /// One more record.
    ///
    /// # Errors
    /// A job begins after the lease, or one that the parent has not ordered too early or out of turn. What
    /// a parent passed down it has said to begin.
    pub fn apply(&self, ledger: &Ledger, record: &Record) -> Result<(), String> {
        match (&record.event.kind, record.event.job) {
            (Kind::Alloc(_), Some(id)) if ledger.is_unordered(id) => {
                self.began_alone(record.event.t, id)?;
                in_turn(ledger, id)?;
                self.began(record.event.t, id)
            }
            (Kind::Alloc(_), Some(id)) if !is_passed(ledger, id) => self.began(record.event.t, id),
            _ => Ok(()),
        }
    }

    fn began(&self, t: Time, id: JobId) -> Result<(), String> {
        match self
            .since
            .filter(|(since, terms)| t > since.after(terms.lease))
        {
            Some((since, terms)) => Err(format!(
                "job {id} begins {} s after the parent was heard last, the lease is {} s",
                (t - since).0 / MICROS,
                terms.lease.0 / MICROS,
            )),
            None => Ok(()),
        }
    }

    fn began_alone(&self, t: Time, id: JobId) -> Result<(), String> {
        let Some((since, terms)) = self.since else {
            return Err(format!(
                "job {id} begins without the parent, which is heard"
            ));
        };
        match terms.alone.filter(|alone| t >= since.after(*alone)) {
            Some(_) => Ok(()),
            None => Err(format!(
                "job {id} begins without the parent, which is silent for {} s alone",
                t - since
            )),
        }
    }
}

/// Of what begins without the parent the first who came is the first, in each queue: of those who ask for
/// nothing that the parent might have to say.
fn in_turn(ledger: &Ledger, id: JobId) -> Result<(), String> {
    let submit = &ledger.jobs[&id].submit;
    let queue = |submit: &Submit| submit.spec.jobspec.attributes.system.queue.clone();
    let waits = |job: &Job| {
        let spec = &job.submit.spec;
        let system = &spec.jobspec.attributes.system;
        let is_plain = system.other.is_empty() && system.qos.is_none() && system.class.is_none();
        let request = &spec.request;
        let is_simple = request.constraint.is_none()
            && request.ranks.is_none()
            && request.choice.is_none()
            && request.work == Work::Tasks
            && spec.needs.is_empty();
        job.state == JobState::Sched && job.urgency > 0 && is_plain && is_simple
    };
    let mut before = ledger.jobs.range(..id);
    let passed_over = before.find(|(other, job)| {
        ledger.is_unordered(**other) && waits(job) && queue(&job.submit) == queue(submit)
    });
    match passed_over {
        Some((other, _)) => Err(format!(
            "job {id} begins without the parent before job {other}, which came first"
        )),
        None => Ok(()),
    }
}

fn is_passed(ledger: &Ledger, id: JobId) -> bool {
    let job = ledger.jobs.get(&id);
    job.is_some_and(|job| job.submit.pass.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_begins_between_the_lease_and_the_next_word_is_found() {
        let at = |seconds| Time(0).after(Span::seconds(seconds));
        let mut silent = Silent::default();
        assert_eq!(silent.began(at(100), JobId(1)), Ok(()));
        let terms = Terms {
            lease: Span::seconds(5),
            alone: Some(Span::seconds(2)),
        };
        let early = silent.began_alone(at(100), JobId(1));
        assert!(early.is_err_and(|why| why.contains("which is heard")));
        silent.begins(at(100), terms);
        let early = silent.began_alone(at(101), JobId(1));
        assert!(early.is_err_and(|why| why.contains("silent for 1.0")));
        assert_eq!(silent.began_alone(at(102), JobId(1)), Ok(()));
        // A channel that is lost once more was not heard in between.
        silent.begins(at(104), terms);
        assert_eq!(silent.began(at(105), JobId(1)), Ok(()));
        let found = silent.began(at(106), JobId(2)).expect_err("it is late");
        assert!(found.contains("job 2 begins 6 s after"), "{found}");
        silent.ends();
        assert_eq!(silent.began(at(107), JobId(3)), Ok(()));
    }
}
