//! What somebody is told of who may not know of all jobs: the same, without the numbers of those.
//!
//! Used by the modules that answer where listings are private. Who may know of which job they say.

use super::{Explained, Moved, Mover, Reason};
use crate::id::JobId;

/// Whether there are none of it.
pub(super) fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Reason {
    /// As it is told to who sees these jobs and no others.
    #[must_use]
    pub fn as_seen(self, is_seen: &impl Fn(JobId) -> bool) -> Reason {
        match self {
            // Why that one waits may name others, in words.
            Reason::Behind { head, .. } if is_seen(head) => Reason::Behind {
                head,
                why: "is before it".to_owned(),
            },
            Reason::Behind { .. } => Reason::BehindAnother,
            Reason::WouldDelay { job, within } if !is_seen(job) => {
                Reason::WouldDelayAnother { within }
            }
            Reason::Preempting {
                jobs,
                others,
                within,
            } => {
                let (jobs, others) = seen(jobs, others, is_seen);
                Reason::Preempting {
                    jobs,
                    others,
                    within,
                }
            }
            Reason::Exempt {
                jobs,
                others,
                within,
            } => {
                let (jobs, others) = seen(jobs, others, is_seen);
                Reason::Exempt {
                    jobs,
                    others,
                    within,
                }
            }
            told => told,
        }
    }
}

fn seen(mut jobs: Vec<JobId>, others: u64, is_seen: &impl Fn(JobId) -> bool) -> (Vec<JobId>, u64) {
    let all = jobs.len();
    jobs.retain(|job| is_seen(*job));
    let hidden = all - jobs.len();
    (jobs, others + hidden as u64)
}

impl Explained {
    /// As it is told to who sees these jobs and no others.
    #[must_use]
    pub fn as_seen(mut self, is_seen: &impl Fn(JobId) -> bool) -> Explained {
        self.reason = self.reason.as_seen(is_seen);
        self.moved = self.moved.map(|moved| moved.as_seen(is_seen));
        self
    }
}

impl Moved {
    fn as_seen(self, is_seen: &impl Fn(JobId) -> bool) -> Moved {
        let by = match self.by {
            Mover::Job { job } if !is_seen(job) => Mover::Another,
            Mover::Extension { job } if !is_seen(job) => Mover::ExtensionOfAnother,
            by => by,
        };
        Moved { by, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Span, Time};

    const OWN: JobId = JobId(1);
    const OTHERS: JobId = JobId(2);

    /// All that names a job that is not the asker's.
    #[test]
    fn who_may_not_know_of_a_job_is_told_no_number_of_it() {
        let within = Span::seconds(4);
        let why = "waits for job f3, making room for it within 4 s".to_owned();
        let jobs = vec![OTHERS, OWN];
        let cases = [
            (
                Reason::Behind {
                    head: OTHERS,
                    why: why.clone(),
                },
                "waits behind a job that is before it",
            ),
            (
                Reason::Behind { head: OWN, why },
                "waits behind job f2, which is before it",
            ),
            (
                Reason::WouldDelay {
                    job: OTHERS,
                    within,
                },
                "would delay a job that is before it, which starts by 4 s from now at the latest",
            ),
            (
                Reason::Preempting {
                    jobs: jobs.clone(),
                    others: 0,
                    within,
                },
                "waits for job f2 and 1 of others, making room for it within 4 s",
            ),
            (
                Reason::Exempt {
                    jobs: vec![OTHERS],
                    others: 0,
                    within,
                },
                "waits until a job of another user may be taken from, in 4 s",
            ),
        ];
        for (reason, told) in cases {
            let seen = reason.as_seen(&|job| job == OWN).to_string();
            assert_eq!(seen, told);
        }
        let moved = |job| Moved {
            from: Time(0),
            by: Mover::Job { job },
        };
        let seen = |job| moved(job).as_seen(&|job| job == OWN).by;
        assert_eq!(seen(OTHERS), Mover::Another);
        assert_eq!(seen(OWN), Mover::Job { job: OWN });
    }
}
