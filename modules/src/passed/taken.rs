//! Submissions that this instance took itself while its parent was away.
//!
//! They are recorded as jobs in their first attempt that have no place yet (`taken: here`). Once the
//! channel stands each is handed up under its own numbers, with what has begun of it, and again over each
//! channel until the parent has answered; that is recorded (a `memo` of the job), and from then on its jobs
//! are as those that were passed down: the parent orders what waits, and hears of what runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use eddy_broker::{Effect, HandedUp, Outbox, ToParent, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Exception, Kind, Submit};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Need;
use eddy_wire::message::Roles;
use eddy_wire::services::child::{Begun, Passed as Given, TakenUp};
use eddy_wire::services::job::{SubmitRequest, Submitted};
use eddy_wire::time::{Span, Time};
use serde_json::{Map, Value};

use super::{Channel, Held, Life, Passed, tell};
use crate::row;
use crate::sched::BOUNCE;

/// How long after the parent could not take something it is handed up again.
const RETRY: Span = Span::seconds(5);
/// How often at most that doubles over one channel: then it is over five minutes.
const RETRY_DOUBLINGS: u32 = 6;
/// Submissions that are handed up at a time: filters look at them one after the other there, and give up
/// those that wait too long.
const HANDED_MAX: usize = 32;
/// In the memo of a job that the parent has taken.
const KEY: &str = "ordered-above";

/// Whether the parent has taken a job that this instance took for it.
pub(crate) fn is_ordered_above(memo: &Map<String, Value>) -> bool {
    memo.contains_key(KEY)
}

fn ordered_above() -> Kind {
    let memo = [(KEY.to_owned(), Value::Bool(true))];
    Kind::Memo(memo.into_iter().collect())
}

/// A job that this instance took itself.
pub(super) struct Own {
    submit: Arc<Submit>,
    submitted: Time,
    urgency: u8,
    begun: Option<Begun>,
    known: Known,
}

/// Whether the parent knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    No,
    /// It was handed up over this channel.
    Asked,
    /// It was, and the parent wants nothing of it, though it has begun.
    Refused,
    /// That it does is recorded.
    Yes,
}

/// What is handed up over this channel.
#[derive(Debug, Default)]
pub(super) struct Hand {
    /// Submissions by their first job that are to be, those of which something has begun before all.
    next: BTreeSet<(Order, JobId)>,
    /// Those that are not answered.
    out: BTreeSet<JobId>,
    said: Said,
}

/// What the parent was told of how much it has heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Said {
    #[default]
    Nothing,
    /// All that has begun.
    Begun,
    /// All that was taken.
    All,
}

/// In which order they are handed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Begun,
    Waits,
}

/// Whether a pass of a job that this instance took, and has not begun, is of the same job: a filter of the
/// parent may have made it another.
pub(crate) fn is_as_taken(submit: &Submit, given: &Given, tail: &Bytes) -> bool {
    let text = || tail.get(..given.jobspec_bytes as usize);
    submit.is_taken_here()
        && match given.jobspec {
            Some(hash) => hash == submit.spec.hash,
            None => text() == Some(&*submit.spec.text),
        }
}

impl Own {
    /// That of a `submit` record, if it is one.
    pub(super) fn of(t: Time, submit: &Arc<Submit>) -> Option<Own> {
        submit.is_taken_here().then(|| Own {
            submit: Arc::clone(submit),
            submitted: t,
            urgency: submit.urgency,
            begun: None,
            known: Known::No,
        })
    }

    pub(super) fn apply(&mut self, t: Time, kind: &Kind) {
        match kind {
            // Where one begins that the parent has taken, that said.
            Kind::Alloc(grant) if self.known != Known::Yes => {
                let set = Arc::clone(&grant.set);
                self.begun = Some(Begun { t, set });
            }
            Kind::Urgency(urgency, _) => self.urgency = *urgency,
            Kind::Memo(memo) if is_ordered_above(memo) => self.known = Known::Yes,
            _ => {}
        }
    }

    /// What it was given by this instance.
    pub(super) fn begun(&self) -> Option<Box<Begun>> {
        let begun = self.begun.clone();
        begun.map(Box::new)
    }

    pub(super) fn is_known(&self) -> bool {
        self.known == Known::Yes
    }

    /// What was said over another channel may be lost, and the parent be another.
    pub(super) fn ask_again(&mut self) {
        if let Known::Asked | Known::Refused = self.known {
            self.known = Known::No;
        }
    }

    /// Whether the parent has to hear more of it before it has anything begin here.
    fn is_owed(&self) -> bool {
        match self.known {
            Known::Asked | Known::No => self.begun.is_some(),
            Known::Refused | Known::Yes => false,
        }
    }
}

impl Held {
    /// The parent passes it: whether it is not to be told of it now. One that has not begun begins where
    /// the parent said, if it asks for the same there (`sched/unordered.rs`); else it goes back, and comes as
    /// another attempt.
    pub(super) fn is_placed(
        &mut self,
        now: Time,
        given: &Given,
        tail: &Bytes,
        out: &mut Outbox,
    ) -> bool {
        let Some(own) = &self.own else {
            return false;
        };
        let goes = self.life == Life::Goes && self.exception.is_none();
        if own.begun.is_some() || !goes {
            // What it has come to is said with what is handed up.
            return own.known != Known::Yes;
        }
        if own.known != Known::Yes {
            out.append(now, given.job, ordered_above());
        }
        if is_as_taken(&own.submit, given, tail) {
            return own.known != Known::Yes;
        }
        let exception = Exception {
            kind: BOUNCE.to_owned(),
            severity: 0,
            note: "its parent has changed what it asks for".to_owned(),
            userid: None,
            until: None,
        };
        out.append(now, given.job, Kind::Exception(Box::new(exception)));
        true
    }
}

impl Passed {
    /// The parent is there: hands up what it does not know, and says that this was all.
    pub(super) fn settle(&mut self, out: &mut Outbox) {
        let unknown = self.jobs.iter().filter(|(_, held)| !held.is_known());
        let has_begun = |own: &Own| own.begun.is_some();
        let mut firsts: BTreeMap<JobId, Order> = BTreeMap::new();
        for (job, held) in unknown {
            let order = match held.own.as_ref().is_some_and(has_begun) {
                true => Order::Begun,
                false => Order::Waits,
            };
            if let Some(first) = first((job, held)) {
                let least = firsts.entry(first).or_insert(order);
                *least = order.min(*least);
            }
        }
        self.hand.next = firsts
            .into_iter()
            .map(|(first, order)| (order, first))
            .collect();
        self.hand_more(out);
        self.say_settled(out);
    }

    /// Hands up the next ones, as many as may be on their way.
    fn hand_more(&mut self, out: &mut Outbox) {
        while self.hand.out.len() < HANDED_MAX
            && let Some((_, first)) = self.hand.next.pop_first()
        {
            self.hand_up(first, out);
        }
    }

    /// Hands up what the parent could not take, if the time has come.
    pub(super) fn try_again(&mut self, now: Time, out: &mut Outbox) {
        if self.retry.is_some_and(|at| at <= now) {
            self.retry = None;
            if self.channel == Channel::Stands {
                self.settle(out);
            }
        }
    }

    /// The parent has taken one, and that is recorded: it hears what it has come to.
    pub(super) fn is_ordered(&mut self, job: JobId, out: &mut Outbox) {
        if let Some(held) = self
            .jobs
            .get(&job)
            .filter(|_| self.channel == Channel::Stands)
        {
            tell(job, held, out);
            held.tell_returned(job, out);
            self.hand_up_after(job, out);
            self.say_settled(out);
        }
    }

    /// Once all that has begun is answered for, and said; and once more when all that was taken is.
    fn say_settled(&mut self, out: &mut Outbox) {
        let is_owed = |held: &Held| held.own.as_ref().is_some_and(Own::is_owed);
        if self.declared.is_none() || self.hand.said == Said::All || self.jobs.values().any(is_owed)
        {
            return;
        }
        let open = self.jobs.values().filter(|held| !held.is_known()).count() as u64;
        let said = match open {
            0 => Said::All,
            _ => Said::Begun,
        };
        if said != self.hand.said {
            self.hand.said = said;
            out.effect(Effect::Parent(ToParent::Settled(open)));
        }
    }

    /// One more was taken, and the parent is there: hands its submission up with the last of it.
    pub(super) fn hand_up_last(&mut self, job: JobId, out: &mut Outbox) {
        let own = self.jobs.get(&job).and_then(|held| held.own.as_ref());
        if let Some(own) = own.filter(|own| own.submit.index + 1 == own.submit.count) {
            self.hand_up(
                JobId(job.0.saturating_sub(u64::from(own.submit.index))),
                out,
            );
        }
    }

    /// This job is the parent's now, or nobody's any more: hands up what waited for that.
    pub(super) fn hand_up_after(&mut self, job: JobId, out: &mut Outbox) {
        for first in self.late.remove(&job).unwrap_or_default() {
            self.hand_up(first, out);
        }
    }

    /// Hands up the submission with that first job, unless that was done over this channel, or the parent is
    /// to take another before.
    fn hand_up(&mut self, first: JobId, out: &mut Outbox) {
        let jobs = self.of_submission(first);
        let asked = |job: &JobId| {
            let own = self.jobs.get(job).and_then(|held| held.own.as_ref());
            own.is_none_or(|own| own.known != Known::No)
        };
        if jobs.iter().all(asked) {
            return;
        }
        if let Some(before) = self.before(first, jobs[0]) {
            self.late.entry(before).or_default().insert(first);
            return;
        }
        let (handed, taken) = self.handed(first, &jobs);
        for job in &jobs {
            let own = self.jobs.get_mut(job).and_then(|held| held.own.as_mut());
            own.into_iter().for_each(|own| own.known = Known::Asked);
        }
        self.hand.out.insert(first);
        out.effect(Effect::Parent(ToParent::TakenUp(handed, taken)));
    }

    /// The last job that the parent is to take before a submission, which has this `job`: one that it waits
    /// for. Filters there answer in any order, and what it waits for has to be there.
    fn before(&self, first: JobId, job: JobId) -> Option<JobId> {
        let submit = &self.jobs.get(&job)?.own.as_ref()?.submit;
        let unknown = |held: &Held| !held.is_known();
        let needs = submit.spec.needs.iter();
        let before = needs.filter_map(|need| match need {
            Need::After(_, target) if *target < first => {
                let is_unknown = self.jobs.get(target).is_some_and(unknown);
                is_unknown.then_some(*target)
            }
            Need::Singleton => {
                let name = row::name(submit);
                let is_alike = |own: &Own| {
                    own.submit.user == submit.user
                        && own.known != Known::Yes
                        && row::name(&own.submit) == name
                };
                let mut earlier = self.jobs.range(..first).rev();
                let alike = earlier.find(|(_, held)| held.own.as_ref().is_some_and(is_alike));
                alike.map(|(job, _)| *job)
            }
            Need::After(..) | Need::Within(..) | Need::Begin(_) | Need::Throttle(_) => None,
        });
        before.max()
    }

    /// The jobs of the submission with that first one which the parent may not know.
    fn of_submission(&self, first: JobId) -> Vec<JobId> {
        let count = self.jobs.range(first..).next();
        let count = count.and_then(|(_, held)| Some(held.own.as_ref()?.submit.count));
        let beyond = JobId(first.0.saturating_add(u64::from(count.unwrap_or(0))));
        let jobs = self.jobs.range(first..beyond);
        jobs.filter(|(_, held)| !held.is_known())
            .map(|(job, _)| *job)
            .collect()
    }

    fn handed(&self, first: JobId, jobs: &[JobId]) -> (Box<HandedUp>, Box<TakenUp>) {
        let owns = jobs.iter().filter_map(|job| {
            let own = self.jobs.get(job)?.own.as_ref()?;
            Some((*job, own))
        });
        let owns: BTreeMap<JobId, &Own> = owns.collect();
        let (_, one) = owns.first_key_value().expect("it has jobs");
        let submit = &one.submit;
        let mut jobspec = submit.spec.jobspec.clone();
        jobspec.put_environment(submit.spec.environment());
        let copies: Idset = owns.values().filter_map(|own| own.submit.cc).collect();
        let submission = SubmitRequest {
            key: submit.key,
            jobspec: serde_json::from_str(&jobspec.to_json()).expect("a jobspec is JSON"),
            cc: submit.cc.map(|_| copies),
            urgency: submit.urgency,
            waitable: submit.waitable,
            requeue: submit.requeue,
            on_behalf: None,
        };
        let handed = HandedUp {
            user: submit.user,
            roles: Roles::USER,
            submission,
        };
        let begun = owns.iter().filter(|(_, own)| own.begun.is_some());
        let begun = begun.map(|(job, _)| *job);
        let changed = owns
            .iter()
            .filter(|(_, own)| own.urgency != own.submit.urgency);
        let changed = changed.map(|(job, own)| (*job, own.urgency));
        let taken = TakenUp {
            first,
            submitted: one.submitted,
            asked_by: submit.asked_by,
            sent: Some(submit.sent()),
            begun: begun.collect(),
            urgencies: changed.collect(),
        };
        (Box::new(handed), Box::new(taken))
    }

    /// The parent answers.
    pub(super) fn taken_up(
        &mut self,
        now: Time,
        first: JobId,
        outcome: &Result<Submitted, Refusal>,
        out: &mut Outbox,
    ) {
        if self.channel == Channel::Away {
            return;
        }
        self.hand.out.remove(&first);
        let jobs = self.of_submission(first);
        let (known, why) = match outcome {
            Ok(submitted) if submitted.first == first => (Known::Yes, None),
            Ok(submitted) => {
                let why = format!("it is job {}, submitted before", submitted.first);
                (Known::Yes, Some(why))
            }
            Err(refusal) if is_for_now(refusal) => {
                self.retry_later(now, out);
                (Known::No, None)
            }
            Err(refusal) => {
                let why = format!("the parent refuses it: {}", refusal.text);
                (Known::Refused, Some(why))
            }
        };
        for job in jobs {
            let held = self.jobs.get_mut(&job).expect("it was just found");
            let goes = held.life == Life::Goes && held.exception.is_none();
            let own = held.own.as_mut().expect("it is one of this instance's own");
            match known {
                Known::No | Known::Asked => own.known = Known::No,
                // What runs is nobody's to refuse.
                Known::Refused if own.begun.is_some() => own.known = Known::Refused,
                Known::Refused | Known::Yes => {
                    out.append(now, job, ordered_above());
                    let why = why.clone().filter(|_| goes);
                    why.into_iter()
                        .for_each(|why| out.append(now, job, cancelled(why)));
                }
            }
        }
        self.hand_more(out);
        self.say_settled(out);
    }

    /// The parent could not take something: it is handed up again.
    fn retry_later(&mut self, now: Time, out: &mut Outbox) {
        if self.retry.is_none() {
            self.tries += 1;
            let doublings = self.tries.saturating_sub(1).min(RETRY_DOUBLINGS);
            let at = now.after(Span(RETRY.0 << doublings));
            self.retry = Some(at);
            out.volatile(Volatile::Wake(at));
        }
    }
}

/// Whether it may be taken a little later.
fn is_for_now(refusal: &Refusal) -> bool {
    match refusal.code {
        Code::Busy | Code::NotReady | Code::Unreachable | Code::End => true,
        Code::Invalid
        | Code::Denied
        | Code::NotFound
        | Code::Conflict
        | Code::TooLarge
        | Code::NoService => false,
    }
}

/// The first job of the submission that a job is of which this instance took.
fn first((job, held): (&JobId, &Held)) -> Option<JobId> {
    let own = held.own.as_ref()?;
    Some(JobId(job.0.saturating_sub(u64::from(own.submit.index))))
}

fn cancelled(note: String) -> Kind {
    Kind::Exception(Box::new(Exception {
        kind: "cancel".to_owned(),
        severity: 0,
        note,
        userid: None,
        until: None,
    }))
}
