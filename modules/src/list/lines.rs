//! Why a job waits, in words: of those who wait for resources, by who is first in its line.
//!
//! Decides nothing: the planner says who is first and why.

use std::collections::{BTreeMap, BTreeSet};

use eddy_broker::Line;
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::jobspec::{Need, Takes, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::Reason;
use eddy_wire::reservation;
use eddy_wire::time::Span;

use super::View;
use crate::ingest::queues;
use crate::live::Live;
use crate::settings::{Queue, Settings};

/// The lines in which jobs wait for what a queue instance holds.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// By queue, the instance that it leads to.
    leads: BTreeMap<String, String>,
    /// Jobs that are declared instances.
    jobs: BTreeMap<JobId, String>,
    /// Those that hold something.
    there: BTreeSet<String>,
    /// Those that hold nothing, whose jobs wait in the one line of all others: so the job says that one is, or how
    /// it is declared where it has none.
    elastic: BTreeSet<String>,
    declared_elastic: BTreeSet<String>,
    /// Those that are reached.
    serving: BTreeSet<String>,
}

/// Where a job waits for resources.
enum Stand<'l> {
    /// With all others.
    InLine,
    /// In a line apart, of that name.
    Apart(&'l str),
    /// Nowhere: that instance is not reached.
    Silent(&'l str),
    /// Nowhere yet: that instance cannot have it.
    Away(&'l str),
}

fn leads(queues: &[Queue]) -> BTreeMap<String, String> {
    let leads = queues
        .iter()
        .filter_map(|queue| Some((queue.name.clone(), queue.instance.clone()?)));
    leads.collect()
}

impl Lines {
    pub(super) fn new(settings: &Settings) -> Lines {
        let elastic: BTreeSet<String> = settings.elastic().map(|(name, _)| name).collect();
        Lines {
            leads: leads(&settings.queues),
            elastic: elastic.clone(),
            declared_elastic: elastic,
            ..Lines::default()
        }
    }

    /// Queues lead where this says from now on.
    pub(super) fn configured(&mut self, live: &Live) {
        self.leads = leads(&live.queues);
    }

    pub(super) fn apply(&mut self, record: &Record) {
        let Some(id) = record.event.job else { return };
        match &record.event.kind {
            Kind::Submit(submit) => {
                if let Work::Instance { name: Some(name) } = &submit.spec.request.work {
                    self.jobs.insert(id, name.clone());
                    match submit.spec.request.takes {
                        Takes::Nothing => self.elastic.insert(name.clone()),
                        Takes::Resources => self.elastic.remove(name),
                    };
                }
            }
            Kind::Alloc(_) => self.there.extend(self.jobs.get(&id).cloned()),
            Kind::Free => {
                if let Some(name) = self.jobs.get(&id) {
                    self.there.remove(name);
                }
            }
            Kind::Clean => {
                if let Some(name) = self.jobs.remove(&id) {
                    match self.declared_elastic.contains(&name) {
                        true => self.elastic.insert(name),
                        false => self.elastic.remove(&name),
                    };
                }
            }
            _ => {}
        }
    }

    /// The instances that are reached now.
    pub(super) fn serving(&mut self, serving: &BTreeSet<String>) {
        self.serving.clone_from(serving);
    }

    fn stand(&self, job: &Job) -> Stand<'_> {
        let queue = job.submit.spec.jobspec.attributes.system.queue.as_ref();
        let Some(name) = queue.and_then(|queue| self.leads.get(queue)) else {
            return Stand::InLine;
        };
        match (self.elastic.contains(name), self.serving.contains(name)) {
            (true, true) => Stand::InLine,
            (false, true) if self.there.contains(name) => Stand::Apart(name),
            (_, false) if self.there.contains(name) => Stand::Silent(name),
            (true | false, _) => Stand::Away(name),
        }
    }
}

/// How many of the things a job waits for are named.
const NEEDS_SHOWN: usize = 3;

/// What a job in DEPEND waits for, in words.
fn needs(job: &Job) -> String {
    let needs = job
        .dependencies
        .iter()
        .map(|text| match Need::of_description(text) {
            // Whoever is held is given no place of its array.
            Some(Need::Throttle(_)) if job.urgency == 0 => None,
            Some(need) => Some(need.to_string()),
            None => Some(text.clone()),
        });
    let words: Vec<String> = needs.flatten().collect();
    let more = match words.len().saturating_sub(NEEDS_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown: Vec<String> = words.into_iter().take(NEEDS_SHOWN).collect();
    format!("{}{more}", shown.join(", "))
}

/// Why one waits that is held, and what it would wait for else.
fn held(job: &Job) -> Reason {
    Reason::Held {
        job: job.id,
        besides: match job.state {
            JobState::Depend => needs(job),
            _ => String::new(),
        },
    }
}

/// Why it waits, by why the first in its line does, who was told of so long ago.
fn behind(job: &Job, head: Option<&(JobId, Reason)>, line: Line, age: Span) -> Reason {
    match (head, line) {
        (Some((head, reason)), _) if *head == job.id => reason.clone().later(age),
        (Some((head, reason)), Line::Stands) => Reason::Behind {
            head: *head,
            why: reason.clone().later(age).to_string(),
        },
        (Some(_), Line::Passes) => Reason::Turn { job: job.id },
        (None, _) => Reason::New,
    }
}

/// That it is for a reservation.
fn for_reservation(job: &Job) -> Option<Reason> {
    let name = reservation::of(&job.submit.spec)?;
    Some(Reason::Dependency {
        what: format!("reservation `{}`", name.escape_debug()),
    })
}

impl View {
    /// Why a job waits that takes nothing: for its ranks, never for its turn.
    fn beside(&self, job: &Job) -> Reason {
        let ranks = job.submit.spec.request.beside().unwrap_or_default();
        let ranks = ranks.difference(&self.online);
        match ranks.is_empty() {
            true => Reason::New,
            false => Reason::RanksDown { ranks },
        }
    }

    /// That nothing begins here by itself.
    fn halted_for(&self, job: &Job) -> Option<Reason> {
        let halted = self.halted.as_ref();
        halted.filter(|_| job.submit.pass.is_none()).cloned()
    }

    /// That the instance which is to grow by a job waits itself.
    fn grows_what_waits(&self, job: &Job) -> Option<Reason> {
        let of = self.jobs.get(&job.submit.spec.request.grows()?)?;
        of.state.is_pending().then(|| Reason::Dependency {
            what: format!(
                "job {}, the instance that is to grow by it, to run",
                of.id.f58_ascii()
            ),
        })
    }

    /// That the queue of a job is stopped.
    fn stopped(&self, job: &Job) -> Option<Reason> {
        let queue = queues::of(&job.submit.spec)?;
        let shut = self.gates.stopped(queue)?;
        Some(Reason::QueueStopped {
            queue: queue.to_owned(),
            why: shut.reason.clone(),
        })
    }

    /// Why a job waits, in words; empty when it does not. Who is shown the jobs of one user alone is told no number
    /// of another's.
    pub(super) fn reason(&self, job: &Job, shown_to: Option<u32>) -> String {
        let user = |job| self.jobs.get(&job).map(|job| job.submit.user);
        let reason = match (self.waits_for(job), shown_to) {
            (Some(reason), None) => reason,
            (Some(reason), Some(_)) => reason.as_seen(&|job| user(job) == shown_to),
            (None, _) => return String::new(),
        };
        reason.to_string()
    }

    fn waits_for(&self, job: &Job) -> Option<Reason> {
        let reason = match job.state {
            JobState::Depend | JobState::Priority | JobState::Sched if job.urgency == 0 => {
                held(job)
            }
            JobState::Depend => Reason::Dependency { what: needs(job) },
            // What a parent passed down begins as it said.
            JobState::Sched if let Some(why) = self.halted_for(job) => why,
            JobState::Sched if job.submit.spec.request.takes == Takes::Nothing => self.beside(job),
            JobState::Sched if let Some(instance) = self.grows_what_waits(job) => instance,
            JobState::Sched if let Some(stopped) = self.stopped(job) => stopped,
            JobState::Sched if let Some(unmet) = self.unmet.get(&job.id) => unmet.clone(),
            JobState::Sched if let Some(incomplete) = self.ready.incomplete(job.id) => incomplete,
            JobState::Sched if let Some(reservation) = for_reservation(job) => reservation,
            JobState::Sched => match self.lines.stand(job) {
                Stand::InLine => behind(job, self.heads.main.as_ref(), self.line, self.age()),
                Stand::Away(name) => Reason::Dependency {
                    what: match self.fleet.why_down(name) {
                        Some(why) => format!("queue instance {name}, which is down: {why}"),
                        None => format!("queue instance {name}, which has no nodes yet"),
                    },
                },
                Stand::Silent(name) => Reason::Dependency {
                    what: format!("queue instance {name}, which is not reached"),
                },
                Stand::Apart(name) => {
                    let head = self.heads.apart.iter().find(|head| *head.line == *name);
                    let head = head.map(|head| (head.job, head.reason.clone()));
                    behind(job, head.as_ref(), self.line, self.age())
                }
            },
            JobState::Priority if let Some(instance) = self.grows_what_waits(job) => instance,
            JobState::Priority if let Some(barred) = self.limits.bars_gang(job.id) => barred,
            JobState::Priority if let Some(stopped) = self.stopped(job) => stopped,
            JobState::Priority if self.limits.is_shut(self.now, job.id) => for_reservation(job)?,
            JobState::Priority => self.limits.reason_then(job.id)?,
            JobState::New | JobState::Run | JobState::Cleanup | JobState::Inactive => return None,
        };
        Some(reason)
    }
}
