//! A job of a queue as it is recorded: where it was passed to, what it has there, and whether that has
//! been said of it which is to be recorded once.

use std::sync::Arc;

use eddy_broker::Outbox;
use eddy_wire::event::{Exception, Final, Kind, Submit, Together};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Attempt, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Work;
use eddy_wire::lifecycle::JobState;
use eddy_wire::preempt::{Mode, Preemption};
use eddy_wire::shrinking::Shrinking;
use eddy_wire::suspension::Suspension;
use eddy_wire::time::{Span, Time};
use eddy_wire::update;
use serde_json::{Map, Value};

use crate::exec::Over;
use crate::manager::SHUTDOWN;
use crate::sched::BOUNCE;

/// What is said within this time is as of when it is heard: clocks differ by less.
const AT_ONCE: Span = Span::seconds(1);
/// The wait status of a task of which nothing is known.
const SIGKILL: i32 = 9;

/// A job of a queue, and where it was passed to.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) submit: Arc<Submit>,
    pub(super) state: JobState,
    pub(super) attempt: Attempt,
    pub(super) urgency: u8,
    /// The instance that this attempt was passed to.
    pub(super) to: Option<String>,
    /// With whom it starts there.
    pub(super) with: Option<Together>,
    pub(super) grant: Option<Arc<Grant>>,
    began: Told,
    /// When it was recorded last that something of it was so.
    t: Time,
    /// That it is to end for the sake of another.
    pub(super) preempted: Option<Preemption>,
    /// The nodes that it is to give while it goes on.
    pub(super) shrinking: Shrinking,
    /// Whether it has its cores.
    pub(super) suspension: Suspension,
    /// Its time limit, where that was changed since it was granted something.
    pub(super) limit: Option<Span>,
    pub(super) end: Option<Exception>,
    pub(super) release: Told,
    /// The nodes that it has returned, by what its instance said to this leader.
    pub(super) returned: Idset,
    /// What its instance has said of it that took it itself.
    pub(super) heard: Heard,
    fate: Fate,
}

/// What is recorded of whether an instance has begun an attempt that it took itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// This instance says where it begins: it took it, or that one has said that it has not begun it, and never
    /// does by itself.
    Known,
    /// That one is to say.
    Unsaid,
}

/// In the memo of a job that an instance took, which has said that it waits there.
const WAITS_BELOW: &str = "waits-below";

/// Whether an instance that took a job has said that it has not begun it, and that it knows that it is this
/// one's.
pub(crate) fn waits_below(memo: &Map<String, Value>) -> bool {
    memo.contains_key(WAITS_BELOW)
}

/// Whether an instance that took a job while this one was away has said what it did with it, in this
/// leader's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    No,
    /// It has not begun, and begins where this instance says.
    Yes,
    /// It began it.
    Begun,
}

/// Whether something is recorded. Each is proposed once in a leader's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    No,
    Proposed,
    Recorded,
}

impl Run {
    pub(super) fn new(submit: &Arc<Submit>, t: Time) -> Run {
        Run {
            submit: Arc::clone(submit),
            state: submit.entry.state(),
            t,
            attempt: eddy_wire::job::first_attempt(submit),
            urgency: submit.urgency,
            to: None,
            with: None,
            grant: None,
            began: Told::No,
            preempted: None,
            shrinking: Shrinking::default(),
            suspension: Suspension::default(),
            limit: None,
            end: None,
            release: Told::No,
            returned: Idset::new(),
            heard: Heard::No,
            fate: match submit.taken_in {
                Some(_) => Fate::Unsaid,
                None => Fate::Known,
            },
        }
    }

    /// Its instance says that it waits there.
    pub(super) fn waits(&self, now: Time, job: JobId, out: &mut Outbox) {
        if self.is_unsaid() {
            let memo = [(WAITS_BELOW.to_owned(), Value::Bool(true))];
            out.append(now, job, Kind::Memo(memo.into_iter().collect()));
        }
    }

    pub(super) fn apply(&mut self, t: Time, kind: &Kind) {
        self.suspension.apply(t, kind);
        self.shrinking.apply(kind);
        if let Ok(next) = self.state.next(kind) {
            self.state = next;
        }
        if let Kind::Alloc(_) | Kind::Start | Kind::GrantChanged(_) = kind {
            self.t = t;
        }
        if let Some(to) = kind.passed_to() {
            self.to = Some(to.instance.clone());
            self.with = to.with;
        }
        match kind {
            Kind::Urgency(urgency, _) => self.urgency = *urgency,
            Kind::JobspecUpdate(map) => {
                update::submit(&mut self.submit, map);
                let limit = update::duration(map).filter(|_| self.grant.is_some());
                self.limit = limit.or(self.limit);
            }
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => self.grant = Some(Arc::clone(grant)),
            Kind::Start => self.began = Told::Recorded,
            Kind::Preempted(preemption) if preemption.mode != Mode::Suspend => {
                self.preempted.get_or_insert_with(|| (**preemption).clone());
            }
            Kind::Exception(exception) if exception.severity == 0 => {
                // As of any job: the first counts, unless a cancel ends for good what was to come again.
                let is_for_good = self.is_to_be_requeued() && exception.kind == "cancel";
                if self.end.is_none() || is_for_good {
                    self.end = Some((**exception).clone());
                }
            }
            Kind::Release(_, Final::Yes | Final::Free(_) | Final::Over(_)) => {
                self.release = Told::Recorded
            }
            Kind::Memo(memo) if waits_below(memo) => self.fate = Fate::Known,
            Kind::Requeue(attempt) => {
                let (urgency, state) = (self.urgency, self.state);
                *self = Run::new(&self.submit, t);
                (self.attempt, self.urgency, self.state) = (*attempt, urgency, state);
                self.fate = Fate::Known;
            }
            _ => {}
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.grant.is_some() && self.release != Told::Recorded
    }

    /// Whether the attempt that is ending is to be followed by another.
    pub(super) fn is_to_be_requeued(&self) -> bool {
        let end = self.end.as_ref();
        end.is_some_and(|end| self.submit.runs_again_after(end))
    }

    /// Whether it waits in its instance, as far as is known here, and may be wanted back.
    pub(super) fn may_be_recalled(&self) -> bool {
        let waits = self.began == Told::No && self.release == Told::No && self.grant.is_some();
        waits && self.heard != Heard::Begun
    }

    /// Whether the instance that took it is to say whether it has begun it.
    pub(super) fn is_unsaid(&self) -> bool {
        let is_over = matches!(self.state, JobState::Cleanup | JobState::Inactive);
        self.fate == Fate::Unsaid && self.grant.is_none() && !is_over
    }

    /// When the last of that was.
    pub(super) fn since(&self) -> Time {
        self.t
    }

    /// When something of it happened that is told of now: then where that was said long after, at its
    /// own time; else it is as of now.
    fn at(&self, now: Time, told: Option<Time>) -> Time {
        let told = told.filter(|told| now - *told > AT_ONCE);
        told.map_or(now, |told| told.max(self.t))
    }

    pub(super) fn begin(&mut self, now: Time, job: JobId, at: Option<Time>, out: &mut Outbox) {
        if self.began == Told::No {
            self.began = Told::Proposed;
            let t = self.at(now, at);
            self.t = t;
            out.append(t, job, Kind::Start);
        }
    }

    /// What it has returned it holds no more. Which node is its leader's its instance knows.
    pub(super) fn leave_returned(&self, now: Time, job: JobId, out: &mut Outbox) {
        let is_instance = self.submit.spec.request.work != Work::Tasks;
        let goes_on = is_instance && self.end.is_none();
        let Some(grant) = self.grant.as_ref().filter(|_| goes_on) else {
            return;
        };
        let goes = |rank: &Rank| self.returned.contains(rank.0);
        let going = grant.set.nodes.keys().filter(|rank| goes(rank)).count();
        // The last goes with its end.
        if going == 0 || going == grant.set.nodes.len() {
            return;
        }
        let mut set = grant.set.as_ref().clone();
        for rank in grant.set.nodes.keys().filter(|rank| goes(rank)) {
            set.remove(*rank);
        }
        let next = Grant {
            epoch: grant.epoch.next(),
            set: Arc::new(set),
            ..grant.as_ref().clone()
        };
        out.append(now, job, Kind::GrantChanged(Arc::new(next)));
    }

    /// It is over, and nothing of it runs.
    pub(super) fn over(
        &mut self,
        now: Time,
        job: JobId,
        (status, exception): (Option<i32>, Option<Exception>),
        at: Option<Time>,
        out: &mut Outbox,
    ) {
        let t = self.at(now, at);
        let Some(grant) = self.grant.as_ref().filter(|_| self.release == Told::No) else {
            return;
        };
        self.release = Told::Proposed;
        let exception = match (exception, status) {
            (None, None) => Some(unexplained()),
            (exception, _) => exception,
        };
        // As of any job whose tasks nobody can ask.
        let status = status.unwrap_or(SIGKILL);
        if let (Some(exception), None) = (exception, &self.end) {
            if is_bounce(&exception) {
                let instance = self.to.clone().unwrap_or_default();
                out.append(t, job, Kind::Recalled(instance));
            }
            out.append(t, job, Kind::Exception(Box::new(as_here(exception))));
        }
        let over = Over {
            t,
            status,
            ranks: grant.set.ranks(),
            work: &self.submit.spec.request.work,
        };
        over.record(now, job, out);
    }
}

/// What ended a job there is what ends it here, but that one that came back waits again, and that
/// the end of the instance alone is no will of anybody's: its ground was lost.
pub(super) fn as_here(exception: Exception) -> Exception {
    // When it was to be killed there is that instance's.
    let exception = Exception {
        until: None,
        ..exception
    };
    match exception.kind.as_str() {
        "cancel" if exception.userid.is_none() && exception.note == SHUTDOWN => Exception {
            kind: "node-failure".to_owned(),
            note: "its queue instance ended".to_owned(),
            ..exception
        },
        _ if is_bounce(&exception) => Exception {
            kind: "requeue".to_owned(),
            note: format!("it came back: {}", exception.note),
            ..exception
        },
        _ => exception,
    }
}

/// Whether the instance sent it back, which no user can.
fn is_bounce(exception: &Exception) -> bool {
    exception.kind == BOUNCE && exception.userid.is_none()
}

fn unexplained() -> Exception {
    Exception {
        kind: "exec".to_owned(),
        severity: 0,
        note: "it ended, and neither a status nor a reason is known".to_owned(),
        userid: None,
        until: None,
    }
}
