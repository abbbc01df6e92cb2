//! Jobs passed down to queue instances: what was passed to whom, and what came of it.
//!
//! A job of a queue that leads to an instance is this instance's own: ordered, charged and
//! recorded here. When it is granted resources (`passed`, then `alloc`), its instance is told over
//! the channel, again whenever that stands anew, until its end is recorded here; the instance runs
//! it and says what it comes to (`modules/src/passed.rs` there). Nothing is remembered of what was
//! said but which nodes it has returned: what is owed follows from the records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use eddy_broker::{Caller, Effect, Notice, Outbox, Reply, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Exception, Final, Kind, Pass, Record, Taken};
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::message::Type;
use eddy_wire::preempt::Shrink;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::{FromParent, PASS_LARGE, PassState, Passed, ToldOf, ToldRequest};
use eddy_wire::time::{Span, Time};

use super::Nest;
use super::begun::Lost;
use super::child::{Child, Stated};
use super::payload;
use super::run::{Heard, Run, Told};

impl Nest {
    /// A record of a job that was passed: its instance is told what follows from it.
    pub(super) fn pass_on(&mut self, now: Time, record: &Record, out: &mut Outbox) {
        let Some(job) = record.event.job else { return };
        let Some(run) = self.passes.jobs.get(&job) else {
            return;
        };
        let Some(to) = run.to.as_deref().and_then(|name| self.instance(name)) else {
            return;
        };
        match &record.event.kind {
            Kind::Alloc(_) => self.pass_down(now, to.id(), job, out),
            Kind::Exception(e) if e.severity == 0 && run.is_under_way() => {
                self.pass_down(now, to.id(), job, out);
            }
            Kind::Shrink(_) => self.shrink_down(now, to, job, out),
            Kind::JobspecUpdate(_) => self.limit_down(to, job, out),
            Kind::Release(_, Final::Yes | Final::Free(_) | Final::Over(_)) => {
                forget(to, (job, run.attempt), out)
            }
            kind => {
                if let Kind::GrantChanged(_) = kind {
                    // More may have been said meanwhile.
                    run.leave_returned(now, job, out);
                }
                self.pace_on(to, job, record, out);
            }
        }
    }

    /// This child has said what it did before: all that was passed to it and is not over is passed again, but what
    /// it has said that it has.
    pub(super) fn pass_again(&mut self, now: Time, of: JobId, out: &mut Outbox) {
        let has = std::mem::take(&mut self.child(of).told.has);
        for job in self.under_way_in(of) {
            let run = &self.passes.jobs[&job];
            if run.end.is_some() {
                continue;
            }
            // One that it took itself may wait there for what it is given here.
            let is_known = has.contains(&job) && run.submit.taken_in.is_none();
            match is_known {
                true => self.said_since(now, of, job, out),
                false => self.pass_whole(now, of, job, out),
            }
        }
    }

    /// Says of a job what its instance is to do, and all that was said of it since it was granted something.
    fn pass_whole(&mut self, now: Time, of: JobId, job: JobId, out: &mut Outbox) {
        self.pass_down(now, of, job, out);
        self.said_since(now, of, job, out);
    }

    fn said_since(&self, now: Time, of: JobId, job: JobId, out: &mut Outbox) {
        let to = &self.children[&of];
        self.limit_down(to, job, out);
        self.pace_down(to, job, out);
        self.shrink_down(now, to, job, out);
    }

    /// A child has said something of these: those have their turn that wait for their answers.
    fn passed_on(&mut self, now: Time, of: JobId, answered: &[(JobId, Attempt)], out: &mut Outbox) {
        let passing = &mut self.child(of).told.passing;
        for key in answered {
            passing.is_answered(key);
        }
        while let Some((job, attempt)) = self.child(of).told.passing.next() {
            let run = self.passes.jobs.get(&job);
            let is_owed = |run: &Run| run.attempt == attempt && run.end.is_none();
            if run.is_some_and(|run| is_owed(run) && run.is_under_way()) {
                self.pass_whole(now, of, job, out);
            }
        }
    }

    /// The channel of this child stands, and it has not said yet what it did before: it is told what is to
    /// end, and of nothing that is to begin.
    pub(super) fn end_again(&mut self, now: Time, of: JobId, out: &mut Outbox) {
        for job in self.under_way_in(of) {
            if self.passes.jobs[&job].end.is_some() {
                self.pass_down(now, of, job, out);
            }
        }
    }

    /// What was passed to the instance that this job is and is not over.
    fn under_way_in(&self, of: JobId) -> Vec<JobId> {
        let name = self.children.get(&of).and_then(|to| to.declared.as_deref());
        name.map_or_else(Vec::new, |name| self.passes.under_way(name))
    }

    /// Says how long a job may run whose limit was changed since it was passed.
    fn limit_down(&self, to: &Child, job: JobId, out: &mut Outbox) {
        let run = &self.passes.jobs[&job];
        let goes_on = run.is_under_way() && run.end.is_none();
        if let (Some(channel), Some(limit)) = (to.told.channel, run.limit.filter(|_| goes_on)) {
            let attempt = run.attempt;
            let word = FromParent::Limit {
                job,
                attempt,
                limit,
            };
            say(channel, &word, Bytes::new(), out);
        }
    }

    /// Says which nodes an instance that was passed is to give while it goes on.
    fn shrink_down(&self, now: Time, to: &Child, job: JobId, out: &mut Outbox) {
        let run = &self.passes.jobs[&job];
        let goes_on = run.release == Told::No && run.end.is_none();
        // Before it has said what it did alone it knows nothing of what came since.
        let is_settled = to.told.settled == Stated::Yes && goes_on;
        let Some(channel) = to.told.channel.filter(|_| is_settled) else {
            return;
        };
        for shrink in run.shrinking.open() {
            let ranks = shrink.ranks.iter().map(Rank);
            let numbers = ranks.filter_map(|rank| to.number(rank));
            let word = FromParent::Shrink {
                job,
                attempt: run.attempt,
                left: Span((shrink.until - now).0.max(0)),
                shrink: Box::new(Shrink {
                    ranks: numbers.map(|number| number.0).collect(),
                    ..shrink.clone()
                }),
            };
            say(channel, &word, Bytes::new(), out);
        }
    }

    /// Says what the instance of that job is to do with another: to run it, or to end it.
    fn pass_down(&mut self, now: Time, of: JobId, job: JobId, out: &mut Outbox) {
        let (run, to) = (&self.passes.jobs[&job], &self.children[&of]);
        let (Some(channel), Some(grant), Told::No) = (to.told.channel, &run.grant, run.release)
        else {
            return;
        };
        if let Some(exception) = &run.end {
            return run.say_end(now, (job, channel), exception, out);
        }
        // What it has begun itself it has; and it begins nothing more before it has said all of that.
        if to.told.settled == Stated::NotYet || run.heard == Heard::Begun {
            return;
        }
        let key = (job, run.attempt);
        let passed = run.passed(job, within(to, &grant.set));
        let is_large = payload::unsaid_bytes(&to.told.said, &run.submit.spec) >= PASS_LARGE;
        if is_large && !to.told.passing.has_room() {
            return self.child(of).told.passing.waits(key);
        }
        self.say_pass((of, channel), passed, out);
    }

    /// Passes a job, with what its instance does not keep of what it carries.
    fn say_pass(&mut self, (of, channel): (JobId, Caller), mut passed: Passed, out: &mut Outbox) {
        let spec = Arc::clone(&self.passes.jobs[&passed.job].submit.spec);
        let told = &mut self.child(of).told;
        let bytes = payload::unsaid_bytes(&told.said, &spec);
        if bytes >= PASS_LARGE {
            told.passing.says((passed.job, passed.pass.attempt), bytes);
        }
        let (jobspec_bytes, tail) = payload::unsaid(&mut told.said, &spec);
        passed.jobspec_bytes = jobspec_bytes;
        say(channel, &FromParent::Pass(Box::new(passed)), tail, out);
    }

    /// Something else is to be said of a job to its instance, which knows nothing of it while it waits for its turn:
    /// it has that now.
    pub(super) fn pass_now(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        let run = self.passes.jobs.get(&job).filter(|run| run.end.is_none());
        let of = run.and_then(|run| self.by_name.get(run.to.as_ref()?));
        let (Some(run), Some(of)) = (run, of.copied()) else {
            return;
        };
        let (key, grant) = ((job, run.attempt), run.grant.clone());
        let Some(to) = self.children.get_mut(&of) else {
            return;
        };
        let waits = to.told.passing.hurries(&key);
        if let (true, Some(channel), Some(grant)) = (waits, to.told.channel, grant) {
            let passed =
                self.passes.jobs[&job].passed(job, within(&self.children[&of], &grant.set));
            self.say_pass((of, channel), passed, out);
            self.said_since(now, of, job, out);
        }
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
        let answered: Vec<(JobId, Attempt)> = body
            .jobs
            .iter()
            .map(|told| (told.job, told.attempt))
            .collect();
        for told in body.jobs {
            self.told_of(now, (of, &name), told, out);
        }
        self.passed_on(now, of, &answered, out);
        // With what follows from it, which wakes the child once for both.
        out.reply(request.caller, &());
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
            adopted,
        } = told;
        let run = self.passes.jobs.get_mut(&job);
        let run = run.filter(|run| {
            run.attempt == attempt && run.to.as_deref() == Some(name) && run.is_under_way()
        });
        let Some(run) = run else {
            // It is over here, or was given up: nothing that is said of it counts.
            return forget(&self.children[&child], (job, attempt), out);
        };
        if let PassState::Accepted | PassState::Running = state
            && let Some(to) = self.children.get_mut(&child)
            && to.told.settled == Stated::NotYet
        {
            to.told.has.insert(job);
        }
        if let (Some(adopted), Some(below)) = (adopted, self.below.get(&job)) {
            below.told_adopted(now, job, adopted, out);
        }
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
                // What never came there took nothing from anybody there, however late that is heard.
                let held_nothing = !began && ended_at.is_none() && run.may_be_recalled();
                let never_came = held_nothing.then(|| run.since());
                let ended_at = ended_at.or(never_came);
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
        self.lose_taken(now, child, Lost::Over, out);
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
            until: None,
        };
        for job in self.passes.under_way(&name) {
            let run = self.passes.jobs.get_mut(&job);
            let run = run.expect("it was just found");
            run.over(now, job, (None, Some(lost.clone())), None, out);
        }
    }

    /// Sends a signal to the tasks of a job that was passed, or to the program of an instance.
    pub(super) fn signal(&mut self, now: Time, job: JobId, signal: i32, out: &mut Outbox) {
        if self.children.contains_key(&job) {
            return self.signal_program(job, signal, out);
        }
        self.pass_now(now, job, out);
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

    /// To the program of an instance, as soon as its leader is heard: that may begin yet.
    pub(super) fn signal_program(&mut self, job: JobId, signal: i32, out: &mut Outbox) {
        let told = &mut self.child(job).told;
        // One that only asks what it has leads nothing yet, and reads no more.
        match told.channel.filter(|_| told.leader > Epoch(0)) {
            Some(channel) => say(channel, &FromParent::Program { signal }, Bytes::new(), out),
            None => drop(told.signals.insert(signal)),
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
    /// What its instance is told of it; how much of its jobspec goes along its caller knows.
    fn passed(&self, job: JobId, set: ResourceSet) -> Passed {
        let submit = &self.submit;
        Passed {
            job,
            pass: Pass {
                attempt: self.attempt,
                set: Arc::new(set),
                with: self.with,
                taken: Taken::Above,
            },
            user: submit.user,
            urgency: self.urgency,
            cc: submit.cc,
            party: submit.party.clone(),
            key: submit.key,
            index: submit.index,
            count: submit.count,
            sent: submit.sent.as_deref().copied(),
            jobspec: Some(submit.spec.hash),
            environment: Some(submit.spec.environment_hash),
            jobspec_bytes: 0,
        }
    }

    /// Says that it is to end, and for whose sake.
    fn say_end(
        &self,
        now: Time,
        (job, channel): (JobId, Caller),
        exception: &Exception,
        out: &mut Outbox,
    ) {
        let attempt = self.attempt;
        if let Some(preemption) = self.preempted.clone() {
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
            exception: exception.clone(),
        };
        say(channel, &end, Bytes::new(), out);
    }
}

/// A set of this instance's nodes as the child counts them. One that has left the child keeps the
/// number that it had there: the child finds nothing behind it, and gives the job back.
pub(super) fn within(child: &Child, set: &ResourceSet) -> ResourceSet {
    // One by one: what collects a map sorts first, and mostly there is one.
    let mut nodes = BTreeMap::new();
    for (rank, node) in &set.nodes {
        if let Some(number) = child.number(*rank) {
            nodes.insert(number, node.clone());
        }
    }
    ResourceSet {
        nodes,
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
