//! How jobs ended in instances that are over, for jobs here that wait for them.
//!
//! An instance may be over before this leader has heard how its jobs ended: this one was away, or what a shell
//! says was quicker than what was said over the channel. What it recorded is in its state directory, and where
//! that is its last hello said, which the records of its job have. So the journal here is asked for those, and
//! the driver for what was left; of an instance in a queue the queue instance is asked where it was. What
//! cannot be read for some time nobody tells.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use eddy_broker::{Answer, Effect, Inner, Inside, Left, Notice, Outbox, Query, Reply, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Adoption;
use eddy_wire::id::JobId;
use eddy_wire::message::Type;
use eddy_wire::services::Service;
use eddy_wire::services::child::{AnswerKind, ChildRow, Children, ChildrenRequest, FromParent};
use eddy_wire::services::job::{EventsLine, JobEnd, JobSet};
use eddy_wire::time::{Span, Time};

use super::Nest;
use super::asks::{AGAIN, heard, of_user};
use super::listing::{adopted, passed_to};
use super::relay::wrapped;

/// How many instances are looked for at a time: what each left is read by a process of its own.
const LOOKED_FOR_MAX: usize = 16;
/// For how long one is looked for that cannot be read: who else reads it is done by then.
const PATIENCE: Span = Span::seconds(20);
/// Questions to the journal that are of here; the rest of the tag is the instance.
const TAG: u64 = 1 << 63;

/// The instances that are over and of which somebody waits for a job.
#[derive(Debug, Default)]
pub(super) struct Lefts {
    of: BTreeMap<JobId, Looked>,
    /// What queue instances are asked: which of them, and where which instance was.
    calls: BTreeMap<u64, (JobId, JobId)>,
}

/// How far it is known what an instance left.
#[derive(Debug, Default)]
struct Looked {
    step: Step,
    /// Since when it could not be read.
    since: Option<Time>,
}

#[derive(Debug, Default)]
enum Step {
    /// It is to be looked for.
    #[default]
    Due,
    /// It is due when those who could not answer are asked again.
    Rests,
    /// The journal here is asked for its row.
    Row,
    /// And for its records; its user.
    Records(u32),
    /// Its queue instance is asked where it was.
    Place(u32),
    /// What it left is read, for these.
    Read(BTreeSet<Inner>),
}

/// Whether a question to the journal is of here.
pub(super) fn is_of_left(tag: u64) -> bool {
    tag & TAG != 0
}

impl Nest {
    /// The instance is over, and that is on disk: those who wait for jobs in it are told by what it left.
    pub(super) fn look_back(&mut self, instance: JobId, out: &mut Outbox) {
        if !self.asks.of_instance(instance).is_empty() {
            self.asks.lefts.of.entry(instance).or_default();
            self.look_on(out);
        }
    }

    /// Those that rested are due again.
    pub(super) fn look_anew(&mut self, out: &mut Outbox) {
        for looked in self.asks.lefts.of.values_mut() {
            if let Step::Rests = looked.step {
                looked.step = Step::Due;
            }
        }
        self.look_on(out);
    }

    /// Looks for those that are due, as many as may be looked for.
    pub(super) fn look_on(&mut self, out: &mut Outbox) {
        let waits = |looked: &Looked| matches!(looked.step, Step::Due | Step::Rests);
        let under_way = self.asks.lefts.of.values();
        let under_way = under_way.filter(|looked| !waits(looked)).count();
        let due = self.asks.lefts.of.iter_mut();
        let due = due.filter(|(_, looked)| matches!(looked.step, Step::Due));
        for (instance, looked) in due.take(LOOKED_FOR_MAX.saturating_sub(under_way)) {
            looked.step = Step::Row;
            let query = Query::Finished(*instance);
            out.volatile(Volatile::Query(TAG | instance.0, query));
        }
    }

    /// The journal, or what was left, answers.
    pub(super) fn left_answered(&mut self, now: Time, tag: u64, answer: &Answer, out: &mut Outbox) {
        let instance = JobId(tag & !TAG);
        let Some(looked) = self.asks.lefts.of.get_mut(&instance) else {
            return;
        };
        match (std::mem::take(&mut looked.step), answer) {
            (_, Answer::Failed(_)) | (Step::Row, Answer::Finished(None)) => {
                self.look_again(now, instance, out);
            }
            (Step::Row, Answer::Finished(Some(found))) => {
                looked.step = Step::Records(found.0.userid);
                let query = Query::Records(found.1.clone());
                out.volatile(Volatile::Query(tag, query));
            }
            (Step::Records(user), Answer::Records(lines)) => {
                // Those of the attempt that was the last: what others left was no end.
                let last = lines.iter().rposition(|(_, line)| line.name == "requeue");
                let lines = &lines[last.unwrap_or(0)..];
                self.left_by(now, (instance, user), lines.iter().map(|of| &of.1), out);
            }
            (Step::Read(asked), Answer::Within(ends)) => {
                self.tell_left(instance, &asked, ends, out);
            }
            (step, other) => {
                panic!("{instance} was looked for ({step:?}), the answer is {other:?}")
            }
        }
    }

    /// What it was by the records of its last attempt.
    fn left_by<'a>(
        &mut self,
        now: Time,
        (instance, user): (JobId, u32),
        lines: impl DoubleEndedIterator<Item = &'a EventsLine> + Clone,
        out: &mut Outbox,
    ) {
        match (passed_to(lines.clone()), adopted(lines)) {
            (Some(name), _) => self.ask_place(now, (instance, user), &name, out),
            (None, Some(Adoption { statedir, .. })) => self.read(instance, user, statedir, out),
            (None, None) => self.nobody_tells(instance, out),
        }
    }

    /// Asks the queue instance that it was passed to where it was.
    fn ask_place(
        &mut self,
        now: Time,
        (instance, user): (JobId, u32),
        name: &str,
        out: &mut Outbox,
    ) {
        let child = self
            .by_name
            .get(name)
            .and_then(|job| self.children.get(job));
        let Some(child) = child else {
            return self.nobody_tells(instance, out);
        };
        let Some(channel) = child.told.channel else {
            // It comes back, and has its journal: nothing is given up meanwhile.
            self.asks.lefts.of.entry(instance).or_default().step = Step::Rests;
            return self.rest(now, AGAIN, out);
        };
        let job = child.id();
        let body = ChildrenRequest {
            job: Some(instance),
            follow: false,
            name: None,
        };
        let body = serde_json::to_vec(&body);
        let asked = of_user(user, Children::TOPIC, body, Bytes::new());
        let Ok(tail) = wrapped(&asked, 1) else {
            return self.nobody_tells(instance, out);
        };
        let call = self.relays.next();
        self.asks.lefts.calls.insert(call, (job, instance));
        self.asks.lefts.of.entry(instance).or_default().step = Step::Place(user);
        let word = FromParent::Request { call };
        out.effect(Effect::Reply(Reply {
            tail,
            ..Reply::new(channel, Type::Part, &word)
        }));
    }

    /// Whether an answer of this child is to where an instance was; then it is looked for there.
    pub(super) fn is_place(
        &mut self,
        now: Time,
        (child, call): (JobId, u64),
        (kind, body): (AnswerKind, &[u8]),
        out: &mut Outbox,
    ) -> bool {
        let calls = &mut self.asks.lefts.calls;
        let Some((_, instance)) = calls.get(&call).copied().filter(|(of, _)| *of == child) else {
            return false;
        };
        calls.remove(&call);
        let Some(looked) = self.asks.lefts.of.get_mut(&instance) else {
            return true;
        };
        let Step::Place(user) = std::mem::take(&mut looked.step) else {
            return true;
        };
        let rows: Vec<ChildRow> = serde_json::from_slice(body).unwrap_or_default();
        let place = rows.into_iter().find_map(|row| row.statedir);
        let refusal: Option<Refusal> = serde_json::from_slice(body).ok();
        let code = refusal.map(|refusal| refusal.code);
        match (kind, place, code) {
            (AnswerKind::Reply | AnswerKind::Part, Some(place), _) => {
                self.read(instance, user, place, out);
            }
            (AnswerKind::Refused, _, Some(Code::Busy | Code::NotReady | Code::Unreachable)) => {
                self.look_again(now, instance, out);
            }
            _ => self.nobody_tells(instance, out),
        }
        true
    }

    /// That channel is down: who was asked over it is asked again.
    pub(super) fn places_lost(&mut self, child: JobId) {
        let lefts = &mut self.asks.lefts;
        for (_, (_, instance)) in lefts.calls.extract_if(.., |_, (of, _)| *of == child) {
            if let Some(looked) = lefts.of.get_mut(&instance) {
                looked.step = Step::Due;
            }
        }
    }

    fn read(&mut self, instance: JobId, user: u32, statedir: String, out: &mut Outbox) {
        let asked = self.asks.of_instance(instance);
        let left = Left {
            statedir,
            user,
            jobs: JobSet::of(asked.iter().map(|inner| inner.job)),
        };
        self.asks.lefts.of.entry(instance).or_default().step = Step::Read(asked);
        out.volatile(Volatile::Query(
            TAG | instance.0,
            Query::Within(Box::new(left)),
        ));
    }

    fn look_again(&mut self, now: Time, instance: JobId, out: &mut Outbox) {
        let looked = self.asks.lefts.of.entry(instance).or_default();
        looked.step = Step::Rests;
        let since = *looked.since.get_or_insert(now);
        match now - since < PATIENCE {
            true => self.rest(now, AGAIN, out),
            false => self.nobody_tells(instance, out),
        }
    }

    fn tell_left(
        &mut self,
        instance: JobId,
        asked: &BTreeSet<Inner>,
        ends: &BTreeMap<JobId, Option<JobEnd>>,
        out: &mut Outbox,
    ) {
        self.asks.lefts.of.remove(&instance);
        for inner in asked {
            self.asks.told(*inner);
            let told = match ends.get(&inner.job) {
                Some(Some(end)) => heard(end),
                // It is over with its instance, and how was not recorded.
                Some(None) => Inside::Over,
                None => Inside::Unknown,
            };
            out.notice(Notice::Inside(*inner, told));
        }
        // Those who came meanwhile.
        self.look_back(instance, out);
        self.look_on(out);
    }

    fn nobody_tells(&mut self, instance: JobId, out: &mut Outbox) {
        self.asks.lefts.of.remove(&instance);
        for inner in self.asks.of_instance(instance) {
            self.asks.told(inner);
            out.notice(Notice::Inside(inner, Inside::Over));
        }
        self.look_on(out);
    }
}
