//! Jobs passed down to queue instances: what was passed to whom, and what came of it.
//!
//! A job of a queue that leads to an instance is this instance's own: ordered, charged and
//! recorded here. When it is granted resources (`passed`, then `alloc`), its instance is told over
//! the channel, again whenever that stands anew, until its end is recorded here; the instance runs
//! it and says what it comes to (`modules/src/passed.rs` there). Nothing is remembered of what was
//! said but which nodes it has returned: what is owed follows from the records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use eddy_broker::{Caller, Effect, Notice, Outbox, Reply, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Exception, Final, Kind, Pass, Record, Submit, Taken, Together};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Attempt, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Work;
use eddy_wire::lifecycle::JobState;
use eddy_wire::message::Type;
use eddy_wire::preempt::{Mode, Preemption};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::{FromParent, PassState, Passed, ToldOf, ToldRequest};
use eddy_wire::suspension::Suspension;
use eddy_wire::time::{Span, Time};

use super::Nest;
use super::child::{Child, Stated};
use crate::manager::SHUTDOWN;
use crate::sched::BOUNCE;

/// What is said within this time is as of when it is heard: clocks differ by less.
const AT_ONCE: Span = Span::seconds(1);
/// The wait status of a task of which nothing is known.
const SIGKILL: i32 = 9;

/// The jobs of queues.
#[derive(Debug, Default)]
pub(super) struct Passes {
    pub(super) jobs: BTreeMap<JobId, Run>,
    /// Those that hold something of each rank.
    on: BTreeMap<Rank, BTreeSet<JobId>>,
}

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
    with: Option<Together>,
    pub(super) grant: Option<Arc<Grant>>,
    began: Told,
    /// When it was recorded last that something of it was so.
    t: Time,
    /// That it is to end for the sake of another.
    preempted: Option<Preemption>,
    /// Whether it has its cores.
    pub(super) suspension: Suspension,
    pub(super) end: Option<Exception>,
    release: Told,
    /// The nodes that it has returned, by what its instance said to this leader.
    returned: Idset,
    /// What its instance has said of it that took it itself.
    pub(super) heard: Heard,
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
enum Told {
    No,
    Proposed,
    Recorded,
}

impl Passes {
    pub(super) fn apply(&mut self, record: &Record) {
        let Some(id) = record.event.job else { return };
        if let Kind::Submit(submit) = &record.event.kind {
            if submit.spec.jobspec.attributes.system.queue.is_some() {
                self.jobs.insert(id, Run::new(submit, record.event.t));
            }
            return;
        }
        let kind = &record.event.kind;
        if let Kind::Alloc(_) | Kind::GrantChanged(_) | Kind::Free | Kind::Clean = kind {
            self.holds(id, kind);
        }
        if let Kind::Clean = kind {
            self.jobs.remove(&id);
        } else if let Some(run) = self.jobs.get_mut(&id) {
            run.apply(record.event.t, kind);
        }
    }

    /// What a job holds is other than before.
    fn holds(&mut self, id: JobId, kind: &Kind) {
        let Some(run) = self.jobs.get(&id) else {
            return;
        };
        for rank in run.grant.iter().flat_map(|grant| grant.set.nodes.keys()) {
            if let Some(jobs) = self.on.get_mut(rank) {
                jobs.remove(&id);
            }
        }
        if let Kind::Alloc(grant) | Kind::GrantChanged(grant) = kind {
            for rank in grant.set.nodes.keys() {
                self.on.entry(*rank).or_default().insert(id);
            }
        }
    }

    /// The jobs that hold any of these.
    pub(super) fn on<'a>(&'a self, set: &'a ResourceSet) -> impl Iterator<Item = JobId> + 'a {
        let jobs = set.nodes.keys().filter_map(|rank| self.on.get(rank));
        jobs.flatten().copied().filter(|job| {
            let grant = self.jobs.get(job).and_then(|run| run.grant.as_ref());
            grant.is_some_and(|grant| grant.set.intersects(set))
        })
    }

    /// A job that was passed, and all that are to start with it.
    pub(super) fn mates(&self, job: JobId) -> Vec<JobId> {
        let with = |run: &Run| Some((run.with?, run.to.clone()?));
        let its = self.jobs.get(&job).and_then(with);
        let others = self
            .jobs
            .iter()
            .filter(|(_, run)| run.may_be_recalled() && its.is_some() && with(run) == its);
        let others = others.map(|(mate, _)| *mate).filter(|mate| *mate != job);
        others.chain([job]).collect()
    }

    /// The instance that has this job.
    pub(super) fn instance_of(&self, job: JobId) -> Option<&str> {
        let run = self.jobs.get(&job)?;
        run.grant.as_ref()?;
        run.to.as_deref()
    }

    /// What was passed to that instance and is not over.
    fn under_way(&self, name: &str) -> Vec<JobId> {
        let is_of = |run: &Run| run.to.as_deref() == Some(name) && run.is_under_way();
        let jobs = self.jobs.iter().filter(|(_, run)| is_of(run));
        jobs.map(|(job, _)| *job).collect()
    }
}

impl Run {
    fn new(submit: &Arc<Submit>, t: Time) -> Run {
        Run {
            submit: Arc::clone(submit),
            state: JobState::New,
            t,
            attempt: eddy_wire::job::first_attempt(submit),
            urgency: submit.urgency,
            to: None,
            with: None,
            grant: None,
            began: Told::No,
            preempted: None,
            suspension: Suspension::default(),
            end: None,
            release: Told::No,
            returned: Idset::new(),
            heard: Heard::No,
        }
    }

    fn apply(&mut self, t: Time, kind: &Kind) {
        self.suspension.apply(t, kind);
        if let Ok(next) = self.state.next(kind) {
            self.state = next;
        }
        if let Kind::Alloc(_) | Kind::Start | Kind::GrantChanged(_) = kind {
            self.t = t;
        }
        match kind {
            Kind::Urgency(urgency, _) => self.urgency = *urgency,
            Kind::Passed(to) => {
                self.to = Some(to.instance.clone());
                self.with = to.with;
            }
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => self.grant = Some(Arc::clone(grant)),
            Kind::Start => self.began = Told::Recorded,
            Kind::Preempted(preemption) if preemption.mode != Mode::Suspend => {
                self.preempted.get_or_insert_with(|| (**preemption).clone());
            }
            Kind::Exception(exception) if exception.severity == 0 => {
                self.end.get_or_insert_with(|| (**exception).clone());
            }
            Kind::Release(_, Final::Yes) => self.release = Told::Recorded,
            Kind::Requeue(attempt) => {
                let (urgency, state) = (self.urgency, self.state);
                *self = Run::new(&self.submit, t);
                (self.attempt, self.urgency, self.state) = (*attempt, urgency, state);
            }
            _ => {}
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.grant.is_some() && self.release != Told::Recorded
    }

    /// Whether it waits in its instance, as far as is known here, and may be wanted back.
    pub(super) fn may_be_recalled(&self) -> bool {
        let waits = self.began == Told::No && self.release == Told::No && self.grant.is_some();
        waits && self.heard != Heard::Begun
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
}

impl Nest {
    /// A record of a job that was passed: its instance is told what follows from it.
    pub(super) fn pass_on(&self, now: Time, record: &Record, out: &mut Outbox) {
        let Some(job) = record.event.job else { return };
        let Some(run) = self.passes.jobs.get(&job) else {
            return;
        };
        let Some(to) = run.to.as_deref().and_then(|name| self.instance(name)) else {
            return;
        };
        match &record.event.kind {
            Kind::Alloc(_) => self.pass_down(now, to, job, out),
            Kind::Exception(e) if e.severity == 0 && run.is_under_way() => {
                self.pass_down(now, to, job, out);
            }
            Kind::Release(_, Final::Yes) => forget(to, (job, run.attempt), out),
            kind => {
                if let Kind::GrantChanged(_) = kind {
                    // More may have been said meanwhile.
                    run.leave_returned(now, job, out);
                }
                self.pace_on(to, job, record, out);
            }
        }
    }

    /// This child has said what it did before: all that was passed to it and is not over is passed again.
    pub(super) fn pass_again(&self, now: Time, job: JobId, out: &mut Outbox) {
        let child = self.children.get(&job);
        let Some((child, name)) = child.and_then(|child| Some((child, child.declared.as_ref()?)))
        else {
            return;
        };
        for job in self.passes.under_way(name) {
            if self.passes.jobs[&job].end.is_none() {
                self.pass_down(now, child, job, out);
                self.pace_down(child, job, out);
            }
        }
    }

    /// The channel of this child stands, and it has not said yet what it did before: it is told what is to
    /// end, and of nothing that is to begin.
    pub(super) fn end_again(&self, now: Time, job: JobId, out: &mut Outbox) {
        let child = self.children.get(&job);
        let Some((child, name)) = child.and_then(|child| Some((child, child.declared.as_ref()?)))
        else {
            return;
        };
        for job in self.passes.under_way(name) {
            if self.passes.jobs[&job].end.is_some() {
                self.pass_down(now, child, job, out);
            }
        }
    }

    /// Says what the instance is to do with a job: to run it, or to end it.
    fn pass_down(&self, now: Time, to: &Child, job: JobId, out: &mut Outbox) {
        let run = &self.passes.jobs[&job];
        if run.release != Told::No {
            return;
        }
        let (Some(channel), Some(grant)) = (to.told.channel, &run.grant) else {
            return;
        };
        let attempt = run.attempt;
        if let Some(exception) = run.end.clone() {
            if let Some(preemption) = run.preempted.clone() {
                let preempted = FromParent::Preempted {
                    job,
                    attempt,
                    left: Span((preemption.until - now).0.max(0)),
                    preemption: Box::new(preemption),
                };
                say(channel, &preempted, Bytes::new(), out);
            }
            let end = FromParent::End {
                job,
                attempt,
                exception,
            };
            return say(channel, &end, Bytes::new(), out);
        }
        // What it has begun itself it has; and it begins nothing more before it has said all of that.
        if to.told.settled == Stated::NotYet || run.heard == Heard::Begun {
            return;
        }
        let spec = &run.submit.spec;
        let pass = Pass {
            attempt,
            set: Arc::new(within(to, &grant.set)),
            with: run.with,
            taken: Taken::Above,
        };
        let passed = Passed {
            job,
            pass,
            user: run.submit.user,
            urgency: run.urgency,
            cc: run.submit.cc,
            party: run.submit.party.clone(),
            key: run.submit.key,
            index: run.submit.index,
            count: run.submit.count,
            sent: run.submit.sent.as_deref().copied(),
            jobspec_bytes: spec.text.len() as u32,
        };
        let mut tail = BytesMut::with_capacity(spec.text.len() + spec.environment_text.len());
        tail.extend_from_slice(&spec.text);
        tail.extend_from_slice(&spec.environment_text);
        say(
            channel,
            &FromParent::Pass(Box::new(passed)),
            tail.freeze(),
            out,
        );
    }

    /// A child says what jobs that were passed to it have come to.
    pub(super) fn told(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: ToldRequest = request.parse()?;
        let child = self.speaker(request, body.child)?;
        // A user's instance is passed nothing, and is not to speak for jobs of this one.
        let (of, Some(name)) = (child.id(), child.declared.clone()) else {
            let text = "child.job: jobs are passed to queue instances only";
            return Err(Refusal::new(Code::Denied, text));
        };
        for told in body.jobs {
            self.told_of(now, (of, &name), told, out);
        }
        out.answer(request.caller, &());
        Ok(())
    }

    pub(super) fn told_of(
        &mut self,
        now: Time,
        (child, name): (JobId, &str),
        told: ToldOf,
        out: &mut Outbox,
    ) {
        if let PassState::Returned { ranks } = &told.state
            && self.told_returned(now, (child, name), (&told, ranks), out)
        {
            return;
        }
        if self.told_of_taken(now, (child, name), &told, out) {
            return;
        }
        let ToldOf {
            job,
            attempt,
            state,
            began: began_at,
            ended: ended_at,
            begun: _,
        } = told;
        let run = self.passes.jobs.get_mut(&job);
        let run = run.filter(|run| {
            run.attempt == attempt && run.to.as_deref() == Some(name) && run.is_under_way()
        });
        let Some(run) = run else {
            // It is over here, or was given up: nothing that is said of it counts.
            return forget(&self.children[&child], (job, attempt), out);
        };
        match state {
            PassState::Accepted => {}
            PassState::Running => {
                // Of what its instance began itself that may have been said before.
                run.leave_returned(now, job, out);
                run.begin(now, job, began_at, out);
                if run.is_unheard() {
                    self.pace_down(&self.children[&child], job, out);
                }
            }
            PassState::Stopped { stop } => run.stopped(now, (job, stop), out),
            PassState::Returned { .. } => {}
            PassState::Over {
                began,
                status,
                exception,
            } => {
                if began {
                    run.begin(now, job, began_at, out);
                }
                run.over(now, job, (status, exception), ended_at, out);
            }
        }
    }

    /// Nodes that a job has returned which was passed to that child, or which it began: whether that is all.
    fn told_returned(
        &mut self,
        now: Time,
        (child, name): (JobId, &str),
        (told, numbers): (&ToldOf, &Idset),
        out: &mut Outbox,
    ) -> bool {
        let ranks = self.children[&child].ranks_of(numbers);
        let is_begun = self.begun.has(told.job);
        let run = self.passes.jobs.get_mut(&told.job);
        let run = run.filter(|run| {
            let is_its = run.to.as_deref() == Some(name) && run.is_under_way();
            run.attempt == told.attempt && (is_its || is_begun)
        });
        let Some(run) = run else {
            return false;
        };
        run.returned = run.returned.union(&ranks);
        run.leave_returned(now, told.job, out);
        true
    }

    /// The job that this child is is over, and with it all that was passed to it.
    pub(super) fn lose_passes(&mut self, now: Time, child: JobId, out: &mut Outbox) {
        let Some(child) = self.children.get(&child) else {
            return;
        };
        let Some(name) = child.declared.clone() else {
            return;
        };
        let lost = Exception {
            kind: "node-failure".to_owned(),
            severity: 0,
            note: format!("{} ended", child.title()),
            userid: None,
        };
        for job in self.passes.under_way(&name) {
            let run = self.passes.jobs.get_mut(&job);
            let run = run.expect("it was just found");
            run.over(now, job, (None, Some(lost.clone())), None, out);
        }
    }

    /// Sends a signal to the tasks of a job that was passed.
    pub(super) fn signal(&self, job: JobId, signal: i32, out: &mut Outbox) {
        let Some(run) = self.passes.jobs.get(&job) else {
            return;
        };
        let to = run.to.as_deref().and_then(|name| self.instance(name));
        if let Some(channel) = to.and_then(|to| to.told.channel) {
            let attempt = run.attempt;
            let word = FromParent::Signal {
                job,
                attempt,
                signal,
            };
            say(channel, &word, Bytes::new(), out);
        }
    }

    /// Tells the other modules which declared instances are reached, if it is news.
    pub(super) fn tell_serving(&mut self, out: &mut Outbox) {
        let serves = |(name, job): (&String, &JobId)| {
            let child = self.children.get(job)?;
            let serves = child.told.channel.is_some() && child.told.settled == Stated::Yes;
            serves.then(|| name.clone())
        };
        let serving: BTreeSet<String> = self.by_name.iter().filter_map(serves).collect();
        if serving != self.serving {
            self.serving.clone_from(&serving);
            out.notice(Notice::Serving(serving));
        }
    }

    /// The declared instance of that name, if its job is not over.
    pub(super) fn instance(&self, name: &str) -> Option<&Child> {
        self.children.get(self.by_name.get(name)?)
    }
}

impl Run {
    fn begin(&mut self, now: Time, job: JobId, at: Option<Time>, out: &mut Outbox) {
        if self.began == Told::No {
            self.began = Told::Proposed;
            let t = self.at(now, at);
            self.t = t;
            out.append(t, job, Kind::Start);
        }
    }

    /// What it has returned it holds no more. Which node is its leader's its instance knows.
    fn leave_returned(&self, now: Time, job: JobId, out: &mut Outbox) {
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
            if exception.kind == BOUNCE {
                let instance = self.to.clone().unwrap_or_default();
                out.append(t, job, Kind::Recalled(instance));
            }
            out.append(t, job, Kind::Exception(Box::new(as_here(exception))));
        }
        out.append(t, job, Kind::Finish(status));
        if t < now {
            // It gave all back then, though it is free here only now.
            out.append(t, job, Kind::Release(grant.set.ranks(), Final::No));
        }
        out.append(t, job, Kind::Release(grant.set.ranks(), Final::Yes));
    }
}

/// What ended a job there is what ends it here, but that one that came back waits again, and that
/// the end of the instance alone is no will of anybody's: its ground was lost.
pub(super) fn as_here(exception: Exception) -> Exception {
    match exception.kind.as_str() {
        "cancel" if exception.userid.is_none() && exception.note == SHUTDOWN => Exception {
            kind: "node-failure".to_owned(),
            note: "its queue instance ended".to_owned(),
            ..exception
        },
        BOUNCE => Exception {
            kind: "requeue".to_owned(),
            note: format!("it came back: {}", exception.note),
            ..exception
        },
        _ => exception,
    }
}

fn unexplained() -> Exception {
    Exception {
        kind: "exec".to_owned(),
        severity: 0,
        note: "it ended, and neither a status nor a reason is known".to_owned(),
        userid: None,
    }
}

/// A set of this instance's nodes as the child counts them. One that has left the child keeps the
/// number that it had there: the child finds nothing behind it, and gives the job back.
pub(super) fn within(child: &Child, set: &ResourceSet) -> ResourceSet {
    let number = |rank: &Rank| child.number(*rank);
    let nodes = set.nodes.iter();
    let nodes = nodes.filter_map(|(rank, node)| Some((number(rank)?, node.clone())));
    ResourceSet {
        nodes: nodes.collect(),
        starttime: set.starttime,
        expiration: set.expiration,
        ..ResourceSet::default()
    }
}

/// The parent's record of the end is on disk when this is heard: it is behind it.
pub(super) fn forget(to: &Child, (job, attempt): (JobId, Attempt), out: &mut Outbox) {
    if let Some(channel) = to.told.channel {
        say(
            channel,
            &FromParent::Forget { job, attempt },
            Bytes::new(),
            out,
        );
    }
}

pub(super) fn say(channel: Caller, word: &FromParent, tail: Bytes, out: &mut Outbox) {
    out.effect(Effect::Reply(Reply {
        tail,
        ..Reply::new(channel, Type::Part, word)
    }));
}
