//! The channel: who a child says it is, what it is told, what it draws and
//! reports.

use std::collections::BTreeSet;
use std::sync::Arc;

use eddy_broker::{Caller, Effect, Outbox, Reply, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Adoption, IdBlock, Kind};
use eddy_wire::id::JobId;
use eddy_wire::message::{Roles, Type};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::{
    AdoptRequest, ChildOf, FromParent, Granted, ID_BLOCK, IdsRequest, ReportRequest,
};
use eddy_wire::time::{Span, Time};

use super::Nest;
use super::child::{Above, Child, Stated};
use super::hung::Hearing;
use super::payload;
use super::pulse::Pulse;
use crate::portion::Portion;

/// Longest address a child may tell, in bytes.
const ADDRESS_BYTES_MAX: usize = 4096;
/// Longest instance id in bytes.
const INSTANCE_BYTES_MAX: usize = 64;
/// What a child has less between TERM and KILL than its parent: its own end takes that.
const GRACE_STEP: Span = Span::seconds(1);
/// A child of short life keeps this part of it for its end, at most.
const RESERVED_PART: i64 = 4;

impl Nest {
    pub(super) fn adopt(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: AdoptRequest = request.parse()?;
        addresses(&body)?;
        let pulse = Pulse::begins(now, body.beat)?;
        let said = payload::begins(body.keeps)?;
        let child = self.speaker(request, body.child)?;
        let (job, attempt) = (child.id(), body.child.attempt);
        let known = child.adoption();
        if let Some(known) = known.filter(|known| known.instance != body.instance) {
            let text = format!(
                "instance: `{}` given, attempt {attempt} of job {job} is instance `{}`",
                body.instance, known.instance
            );
            return Err(Refusal::new(Code::Conflict, text));
        }
        self.is_its_own(child, &body.instance)?;
        if body.leader < child.told.leader {
            let text = format!(
                "leader: epoch {} given, the leader of epoch {} has said hello",
                body.leader, child.told.leader
            );
            return Err(Refusal::new(Code::Conflict, text));
        }
        let adoption = Adoption {
            instance: body.instance,
            uri: body.uri,
            statedir: body.statedir,
        };
        if known != Some(&adoption) {
            out.append(now, job, Kind::Adopt(Box::new(adoption)));
        }
        self.replace_channel(now, job, request.caller, out);
        let told = &mut self.child(job).told;
        (told.leader, told.pulse, told.said) = (body.leader, pulse, said);
        (told.passing, told.has) = (Portion::default(), BTreeSet::new());
        told.hearing = Hearing::of_hello(body.beat);
        let is_new_door = told.door.as_deref() != Some(body.door.as_str());
        told.door = Some(body.door);
        if is_new_door {
            self.hosts.forget(job);
        }
        self.tell_grant(now, job, out);
        self.tell_serving(out);
        for signal in std::mem::take(&mut self.child(job).told.signals) {
            self.signal_program(job, signal, out);
        }
        self.ask_now(now, out);
        self.end_again(now, job, out);
        // A first adoption is recorded first: its hosts are ordered with the record's fold.
        self.host(job, out);
        self.changed(now, job, out);
        self.watch_pulses(now, out);
        Ok(())
    }

    /// Whether an instance that says hello has an id that no other has.
    fn is_its_own(&self, child: &Child, instance: &str) -> Result<(), Refusal> {
        let job = child.id();
        // What hosts its ranks knows it by its id alone.
        let has_it = |adoption: &Adoption| adoption.instance == instance;
        let mut others = self.children.values().filter(|other| other.id() != job);
        let other = others.find(|other| other.adoption().is_some_and(has_it));
        // Between two jobs of it, too, the id of a declared instance is nobody else's.
        let mut kept = self.declared_ids.iter();
        let kept =
            kept.find(|(name, id)| child.declared.as_ref() != Some(*name) && *id == instance);
        let whose = match (other, kept) {
            (Some(other), _) => other.title(),
            (None, Some((name, _))) => format!("queue instance {name}"),
            (None, None) => return Ok(()),
        };
        let text = format!(
            "instance: `{instance}` given, which is {whose}; job {job} has to have an id of its own"
        );
        Err(Refusal::new(Code::Conflict, text))
    }

    /// The child a request is of, which may speak for it.
    pub(super) fn speaker(&self, request: &Request, of: ChildOf) -> Result<&Child, Refusal> {
        let ChildOf { job, attempt } = of;
        let seen = |child: &&Child| !self.sight.hides(request.sender(), child.job.submit.user);
        let Some(child) = self.children.get(&job).filter(seen) else {
            let text = format!("child.job: {job} given, no instance that is not over is that job");
            return Err(Refusal::not_found(text));
        };
        let user = child.job.submit.user;
        if request.uid != user && !request.roles.any_of(Roles::OWNER) {
            let text = format!(
                "child.job: job {job} is of user {user}, user {} may not speak for it",
                request.uid
            );
            return Err(Refusal::new(Code::Denied, text));
        }
        if child.job.attempt != attempt {
            let text = format!(
                "child.attempt: {attempt} given, job {job} is in attempt {}",
                child.job.attempt
            );
            return Err(Refusal::new(Code::Conflict, text));
        }
        if child.job.grant().is_none() {
            let text = format!("child.job: job {job} holds nothing, so it is not running");
            return Err(Refusal::new(Code::Conflict, text));
        }
        Ok(child)
    }

    /// A child that is known to be there.
    pub(super) fn child(&mut self, job: JobId) -> &mut Child {
        self.children.get_mut(&job).expect("it was just found")
    }

    fn replace_channel(&mut self, now: Time, job: JobId, caller: Caller, out: &mut Outbox) {
        self.unsettle(now, job, out);
        let before = self.child(job).told.channel.replace(caller);
        if let Some(before) = before.filter(|before| *before != caller) {
            let refusal = Refusal::new(Code::End, "its leader has said hello again");
            end_stream(before, &refusal, out);
        }
        if before.is_some() {
            self.lose_calls(job, out);
        }
    }

    /// Tells a child over its channel what it has.
    pub(super) fn tell_grant(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        let Some(child) = self.children.get(&job) else {
            return;
        };
        if let (Some(channel), Some(granted)) = (child.told.channel, self.granted(now, child)) {
            let above = Above {
                access: granted.access.clone(),
                queues: granted.queues.clone(),
                closed: granted.closed.clone(),
            };
            let word = FromParent::Granted(Box::new(granted));
            out.effect(Effect::Reply(Reply::new(channel, Type::Part, &word)));
            self.child(job).told.above = Some(above);
        }
    }

    /// What this instance has changed: so has what its children have.
    pub(super) fn tell_limits(&mut self, now: Time, out: &mut Outbox) {
        let all: Vec<JobId> = self.children.keys().copied().collect();
        for job in all {
            self.tell_grant(now, job, out);
        }
    }

    fn granted(&self, now: Time, child: &Child) -> Option<Granted> {
        let job = child.id();
        let own_left = self.place.end().map(|end| Span((end - now).0.max(0)));
        let kill_grace = grace_within(self.kill_grace);
        let above = self.above(child);
        Some(Granted {
            grant: child.whole()?,
            ranks: child.numbers(),
            beside: child.beside_numbers(),
            leaving: self.leaving(child),
            within: self.within(now, child),
            room: self.room(child),
            local: self.hosts.leaders(child),
            path: match self.place.path.as_str() {
                "" => job.0.to_string(),
                own => format!("{own}/{}", job.0),
            },
            depth: self.place.depth + 1,
            remaining: child.remaining(now).into_iter().chain(own_left).min(),
            reserve: reserve(kill_grace, child.span(now, self.place.end())),
            kill_grace,
            name: child.declared.clone(),
            mock: self.mock,
            access: above.access,
            queues: above.queues,
            closed: above.closed,
        })
    }

    /// What jobs that are passed to an elastic instance may be given.
    pub(super) fn room(&self, child: &Child) -> Option<Arc<ResourceSet>> {
        let name = child.declared.as_ref().filter(|_| child.is_elastic())?;
        let mut room = child.job.grant()?.set.as_ref().clone();
        let within = self.elastic.get(name).cloned().flatten();
        for (rank, node) in &mut room.nodes {
            let is_within = within.as_ref().is_none_or(|ranks| ranks.contains(rank.0));
            let has = self.inventory.nodes.get(rank).filter(|_| is_within);
            *node = has.unwrap_or(node).clone();
        }
        room.properties.clone_from(&self.inventory.properties);
        room.trim_properties();
        Some(Arc::new(room))
    }

    /// The job's last task has ended: nobody speaks for it any more.
    pub(super) fn ended(&mut self, job: JobId, out: &mut Outbox) {
        self.hosts.forget(job);
        self.begun.forget_of(job);
        let Some(child) = self.children.get_mut(&job) else {
            return;
        };
        if let Some(channel) = child.told.channel.take() {
            let refusal = Refusal::new(Code::End, format!("job {job} is over"));
            end_stream(channel, &refusal, out);
        }
        self.tell_serving(out);
        self.lose_calls(job, out);
    }

    /// Channels whose caller is gone are down.
    pub(super) fn channels_gone(
        &mut self,
        now: Time,
        gone: impl Fn(Caller) -> bool,
        out: &mut Outbox,
    ) {
        let mut lost = Vec::new();
        for child in self.children.values_mut() {
            if child.told.channel.take_if(|caller| gone(*caller)).is_some() {
                (child.told.settled, child.told.settles) = (Stated::NotYet, None);
                lost.push(child.id());
            }
        }
        for job in &lost {
            self.lose_calls(*job, out);
            self.changed(now, *job, out);
        }
        if !lost.is_empty() {
            self.tell_serving(out);
            self.listen(now, out);
        }
    }

    pub(super) fn ids(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: IdsRequest = request.parse()?;
        let child = self.speaker(request, body.child)?;
        let Some(name) = &child.declared else {
            let text = "child.job: a user's own instance counts its jobs itself";
            return Err(Refusal::new(Code::Denied, text));
        };
        if self.place.name.is_some() {
            let text = "child.job: this instance draws its own job numbers from its parent";
            return Err(Refusal::new(Code::Denied, text));
        }
        match child.block() {
            Some(block) if block.number == body.number => {
                out.reply(request.caller, block);
                return Ok(());
            }
            Some(block) if body.number < block.number => {
                let text = format!(
                    "number: {} given, block {} was drawn; allowed are that one and later ones",
                    body.number, block.number
                );
                return Err(Refusal::invalid(text));
            }
            _ if body.number == 0 => {
                return Err(Refusal::invalid("number: 0 given, blocks count from 1"));
            }
            Some(_) | None => {}
        }
        let first = self.last_job.0.checked_add(1);
        let Some(first) = first.filter(|first| first.checked_add(ID_BLOCK).is_some()) else {
            let text = "the instance has no job numbers left";
            return Err(Refusal::new(Code::TooLarge, text));
        };
        let block = IdBlock {
            number: body.number,
            first: JobId(first),
            count: ID_BLOCK,
        };
        let note = self.blocks.with(name, &block);
        out.append(now, child.id(), Kind::IdBlock(block));
        out.append_own(now, note);
        out.reply(request.caller, &block);
        Ok(())
    }

    pub(super) fn report(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: ReportRequest = request.parse()?;
        let child = self.speaker(request, body.child)?;
        let (job, used) = (child.id(), body.summary.cores_used);
        let room = self.room(child);
        let own = child.whole().map(|grant| grant.set);
        let cores = room.or(own).map_or(0, |set| set.ncores());
        if used > cores {
            let text = format!("cores_used: {used} given, the grant of job {job} has {cores}");
            return Err(Refusal::invalid(text));
        }
        let summary = std::mem::replace(&mut self.child(job).told.summary, body.summary);
        if summary != body.summary {
            self.changed(now, job, out);
        }
        out.answer(request.caller, &());
        Ok(())
    }
}

/// From TERM to KILL in a child: a second less than outside, since its own end
/// takes that, or half where that is more. So what is inside was always killed
/// before who would have to do it.
pub(super) fn grace_within(outer: Span) -> Span {
    Span((outer.0 - GRACE_STEP.0).max(outer.0 / 2))
}

/// How long before its end a child ends what runs in it: so long as it takes to
/// kill that and to end itself, but never most of the time that it has.
pub(super) fn reserve(grace: Span, whole: Option<Span>) -> Span {
    let full = Span(grace.0.saturating_add(GRACE_STEP.0));
    whole.map_or(full, |whole| full.min(Span(whole.0 / RESERVED_PART)))
}

/// The last word over a channel.
pub(super) fn end_stream(channel: Caller, why: &Refusal, out: &mut Outbox) {
    out.effect(Effect::Reply(Reply::new(channel, Type::Refused, why)));
}

fn addresses(body: &AdoptRequest) -> Result<(), Refusal> {
    let id = &body.instance;
    let is_id = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if id.is_empty() || id.len() > INSTANCE_BYTES_MAX || !id.chars().all(is_id) {
        let text = format!(
            "instance: `{}` given, an id of 1 to {INSTANCE_BYTES_MAX} letters, digits and `-` is needed",
            id.chars()
                .take(INSTANCE_BYTES_MAX)
                .collect::<String>()
                .escape_debug()
        );
        return Err(Refusal::invalid(text));
    }
    let told = [
        ("uri", &body.uri),
        ("door", &body.door),
        ("statedir", &body.statedir),
    ];
    for (field, text) in told {
        if text.is_empty() || text.len() > ADDRESS_BYTES_MAX || text.contains(char::is_control) {
            let text = format!(
                "{field}: {} bytes given, one line of 1 to {ADDRESS_BYTES_MAX} is needed",
                text.len()
            );
            return Err(Refusal::invalid(text));
        }
    }
    Ok(())
}
