//! One rank: its modules, what they recorded and may not tell yet, its phase.
//!
//! [`Broker::handle`] takes one arrival and runs it to the end: the module's
//! handler, then for each event proposed a number, a fold by every module, and
//! their reactions, until nothing is proposed any more. What is to be written
//! and what may leave comes out as one [`Output`]. It holds no clock, no
//! socket, no file.

mod identity;

use std::collections::VecDeque;
use std::sync::Arc;

use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Event, Kind, Record};
use eddy_wire::id::{Attempt, Epoch, JobId, Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::message::{Message, Type};
use eddy_wire::plan::Outcome;
use eddy_wire::services::Service;
use eddy_wire::services::child::Refer;
use eddy_wire::services::instance::{Ping, PingRequest, Pong, Shutdown, ShutdownRequest};
use eddy_wire::shell::FromShell;
use eddy_wire::time::Time;
use serde_json::{Map, Value};

use crate::effect::{
    Answer, Caller, ClientId, Disk, Effect, Finished, ParentWord, QueryTag, Reply,
};
use crate::gate::Gate;
use crate::module::{Input, Module, Notice, Outbox, Reacts, Request};
use crate::phase::{Phase, Step};
use crate::router::{Endpoint, Router};
pub use identity::Identity;

/// What a driver brings.
#[derive(Debug)]
pub enum Arrival {
    /// A message of a client; uid and roles stamped by the driver.
    Message(ClientId, Message),
    /// A client's connection ended.
    Gone(ClientId),
    /// A shell said something; its hello is the first.
    Shell(Epoch, FromShell),
    /// A shell's connection ended.
    ShellAway(Epoch),
    /// That life of a shell is over and nothing it started runs.
    ShellDead(Epoch),
    /// The ranks that are reached now, the leader's own among them.
    Ranks(Idset),
    /// Ranks of children that a rank hosts, as it says in each new tenure.
    Hosted(Rank, Vec<(String, JobId, Attempt)>),
    /// The parent said something, or cannot be heard.
    Parent(ParentWord),
    /// The planner's answer.
    Planned(Outcome),
    /// The journal's answer.
    Answer(QueryTag, Answer),
    /// Records up to this place are on disk.
    Durable(Seq),
    /// Room on the disk changed.
    Disk(Disk),
    /// Another configuration, which was checked, is to be in force: who asks, and its memo.
    Configure(Caller, Map<String, Value>),
    /// Time passed.
    Tick,
    /// A mark is about to be made: what is to be kept with it is recorded now.
    Marking,
    /// End the instance (a signal, the parent).
    Stop,
}

/// What is to be written and what may leave.
#[derive(Debug, Default)]
pub struct Output {
    /// New records, in order: to be committed.
    pub records: Vec<Arc<Record>>,
    /// Rows of jobs that are over: in the same commit or a later one.
    pub finished: Vec<Finished>,
    /// Effects that may happen now, in order.
    pub effects: Vec<Effect>,
}

/// One rank.
pub struct Broker {
    identity: Identity,
    epoch: Epoch,
    phase: Phase,
    /// Why the disk takes nothing, while it does not.
    lack: Option<String>,
    router: Router,
    modules: Vec<Box<dyn Module + Send>>,
    /// Places of those that react to what is folded, and to what is durable.
    applied: Vec<usize>,
    durable: Vec<usize>,
    gate: Gate,
    last: Seq,
    /// Recorded and not known to be durable.
    undurable: VecDeque<Arc<Record>>,
}

/// The broker's own endpoints: no module needed to say who is there.
const OWN: &[Endpoint] = &[
    Endpoint::of::<Ping>(),
    Endpoint::of::<Shutdown>(),
    Endpoint::of::<Refer>(),
];

impl Broker {
    /// A rank hosting these modules, in the order of a job's path, before replay.
    pub fn new(identity: Identity, modules: Vec<Box<dyn Module + Send>>) -> Broker {
        let mut router = Router::default();
        router.add(modules.len(), OWN);
        for (place, module) in modules.iter().enumerate() {
            router.add(place, module.endpoints());
        }
        let reacting = |to: Reacts| {
            let places = modules.iter().map(|module| module.reacts()).enumerate();
            let places = places.filter(|(_, reacts)| [to, Reacts::ToBoth].contains(reacts));
            places.map(|(place, _)| place).collect()
        };
        Broker {
            identity,
            epoch: Epoch(0),
            phase: Phase::Replay,
            lack: None,
            router,
            applied: reacting(Reacts::ToApplied),
            durable: reacting(Reacts::ToDurable),
            modules,
            gate: Gate::new(Seq(0)),
            last: Seq(0),
            undurable: VecDeque::new(),
        }
    }

    /// What it is doing.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// This leader's epoch; 0 before it serves.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The last record.
    pub fn last(&self) -> Seq {
        self.last
    }

    /// The last durable record.
    pub fn durable(&self) -> Seq {
        self.gate.durable()
    }

    /// Folds one record of the journal. Only in replay, in order of `seq`.
    pub fn replay(&mut self, record: &Record) {
        assert_eq!(self.phase, Phase::Replay, "replay after resume");
        assert!(
            record.seq > self.last,
            "record {} after {}",
            record.seq,
            self.last
        );
        self.last = record.seq;
        if let Kind::LeaderStart(epoch) = record.event.kind {
            self.epoch = epoch;
        }
        let implied = record.implied();
        for record in [Some(record), implied.as_ref()].into_iter().flatten() {
            for module in &mut self.modules {
                module.apply(record);
            }
        }
    }

    /// Replay is over, the journal ends at `last`: records a new leader's
    /// epoch and does what is owed, under another configuration than the
    /// recorded one where there is a memo of it.
    pub fn resume(&mut self, now: Time, last: Seq, memo: Option<&Map<String, Value>>) -> Output {
        assert!(
            last >= self.last,
            "the journal ends at {last}, before record {}",
            self.last
        );
        self.last = last;
        self.gate = Gate::new(last);
        self.step(Step::Resume);
        self.epoch = self.epoch.next();
        let mut turn = Turn::default();
        turn.events.push_back(Event {
            t: now,
            job: None,
            kind: Kind::LeaderStart(self.epoch),
        });
        self.settle(now, &mut turn);
        self.all(now, &mut turn, |_| Input::Resume(memo));
        self.settle(now, &mut turn);
        turn.output
    }

    /// The places of all records that state rests on, ascending: what a mark holds.
    pub fn live(&self) -> Vec<Seq> {
        let mut seqs = Vec::new();
        for module in &self.modules {
            module.live(&mut seqs);
        }
        seqs.sort_unstable();
        seqs.dedup();
        seqs
    }

    /// Takes one arrival and runs it to the end.
    pub fn handle(&mut self, now: Time, arrival: Arrival) -> Output {
        let mut turn = Turn::default();
        if self.phase == Phase::Stopped {
            self.after_end(now, arrival, &mut turn);
            return turn.output;
        }
        match arrival {
            Arrival::Message(client, message) => self.message(now, client, message, &mut turn),
            Arrival::Gone(client) => self.all(now, &mut turn, |_| Input::Gone(client)),
            Arrival::Shell(epoch, message) => {
                self.all(now, &mut turn, |_| Input::Shell(epoch, &message));
            }
            Arrival::ShellAway(epoch) => self.all(now, &mut turn, |_| Input::ShellAway(epoch)),
            Arrival::ShellDead(epoch) => self.all(now, &mut turn, |_| Input::ShellDead(epoch)),
            Arrival::Ranks(ranks) => self.all(now, &mut turn, |_| Input::Ranks(&ranks)),
            Arrival::Hosted(rank, hosted) => {
                self.all(now, &mut turn, |_| Input::Hosted(rank, &hosted));
            }
            Arrival::Parent(word) => self.all(now, &mut turn, |_| Input::Parent(&word)),
            Arrival::Planned(outcome) => self.all(now, &mut turn, |_| Input::Planned(&outcome)),
            Arrival::Answer(tag, answer) => {
                self.one(now, tag.module, Input::Answer(tag.tag, &answer), &mut turn);
            }
            Arrival::Durable(seq) => self.durable_to(now, seq, &mut turn),
            Arrival::Disk(disk) => {
                self.note_lack(&disk);
                self.all(now, &mut turn, |_| Input::Disk(&disk));
            }
            Arrival::Configure(caller, memo) => {
                self.all(now, &mut turn, |_| Input::Configure(caller, &memo));
            }
            Arrival::Tick => self.all(now, &mut turn, |_| Input::Tick),
            Arrival::Marking => self.all(now, &mut turn, |_| Input::Marking),
            Arrival::Stop => self.stop(now, &mut turn),
        }
        self.settle(now, &mut turn);
        turn.output
    }

    /// The end is recorded and only waits for the disk: nothing more is
    /// recorded, and what would tell of a record is not told. Whoever waits
    /// for what became durable with the end still hears of it; whoever asks
    /// now is not answered, loses the connection and asks the next leader;
    /// but as long as the disk has no room, who looks hears what the end waits for.
    fn after_end(&mut self, now: Time, arrival: Arrival, turn: &mut Turn) {
        match arrival {
            Arrival::Durable(seq) => self.durable_to(now, seq, turn),
            Arrival::Disk(disk) => self.note_lack(&disk),
            Arrival::Message(client, message)
                if self.lack.is_some() && message.topic == Ping::TOPIC =>
            {
                self.message(now, client, message, turn);
            }
            Arrival::Message(..)
            | Arrival::Gone(_)
            | Arrival::Shell(..)
            | Arrival::ShellAway(_)
            | Arrival::ShellDead(_)
            | Arrival::Ranks(_)
            | Arrival::Hosted(..)
            | Arrival::Parent(_)
            | Arrival::Planned(_)
            | Arrival::Answer(..)
            | Arrival::Configure(..)
            | Arrival::Tick
            | Arrival::Marking
            | Arrival::Stop => {}
        }
        turn.events.clear();
        turn.effects.clear();
    }

    fn note_lack(&mut self, disk: &Disk) {
        self.lack = match disk {
            Disk::Full(why) => Some(why.clone()),
            Disk::Room => None,
        };
    }

    fn message(&mut self, now: Time, client: ClientId, message: Message, turn: &mut Turn) {
        let caller = Caller {
            client,
            matchtag: message.matchtag,
        };
        match message.kind {
            Type::Request => {}
            Type::Cancel => return self.all(now, turn, |_| Input::Cancel(caller)),
            // Clients answer nothing.
            Type::Reply | Type::Part | Type::Refused => return,
        }
        match self.router.route(&message) {
            Err(refusal) => turn.refuse(caller, &refusal),
            Ok(_) if message.topic == Refer::TOPIC => match referred(&message) {
                Ok(inner) => self.message(now, client, inner, turn),
                Err(refusal) => turn.refuse(caller, &refusal),
            },
            Ok(place) => {
                let Message {
                    topic,
                    uid,
                    roles,
                    body,
                    tail,
                    ..
                } = message;
                let request = Request {
                    caller,
                    topic,
                    uid,
                    roles,
                    body,
                    tail,
                };
                if place == self.modules.len() {
                    self.own(now, &request, turn);
                } else {
                    let claimed = self.modules.iter().position(|m| m.claims(&request));
                    self.one(
                        now,
                        claimed.unwrap_or(place),
                        Input::Request(&request),
                        turn,
                    );
                }
            }
        }
    }

    /// The broker's own services, but what is referred.
    fn own(&mut self, now: Time, request: &Request, turn: &mut Turn) {
        let answered = match request.topic.as_str() {
            Ping::TOPIC => request.parse::<PingRequest>().map(|ping| {
                let pong = self.pong(now, ping);
                turn.answer(request.caller, &pong);
            }),
            Shutdown::TOPIC => self.shut_down(now, request, turn),
            other => Err(Refusal::new(
                Code::NoService,
                format!("no service matches `{other}`"),
            )),
        };
        if let Err(refusal) = answered {
            turn.refuse(request.caller, &refusal);
        }
    }

    fn pong(&self, now: Time, ping: PingRequest) -> Pong {
        Pong {
            instance: self.identity.instance.clone(),
            epoch: self.epoch,
            version: self.identity.version.clone(),
            owner: self.identity.owner,
            rank: Rank(0),
            path: self.identity.path.clone(),
            depth: self.identity.depth,
            parent: self.identity.parent.clone(),
            phase: self.phase.name().to_owned(),
            durable: self.gate.durable(),
            lack: self.lack.clone(),
            t: now,
            pad: ping.pad,
        }
    }

    /// Somebody asks for the end: whoever reads the records later is told who did.
    fn shut_down(&mut self, now: Time, of: &Request, turn: &mut Turn) -> Result<(), Refusal> {
        let body = of.parse::<ShutdownRequest>()?;
        body.is_meant(self.identity.declared.as_deref())?;
        let kind = Kind::Memo(body.memo(of.uid)?);
        if self.phase.next(Step::Stop).is_some() {
            let (t, job) = (now, None);
            turn.events.push_back(Event { t, job, kind });
        }
        turn.answer(of.caller, &());
        self.stop(now, turn);
        Ok(())
    }

    fn stop(&mut self, now: Time, turn: &mut Turn) {
        if self.phase.next(Step::Stop).is_some() {
            self.step(Step::Stop);
            self.all(now, turn, |_| Input::Stop);
        }
    }

    fn step(&mut self, step: Step) {
        if let Some(next) = self.phase.next(step) {
            self.phase = next;
        }
    }

    fn durable_to(&mut self, now: Time, seq: Seq, turn: &mut Turn) {
        assert!(
            seq <= self.last,
            "record {seq} is durable but the last is {}",
            self.last
        );
        let ready = self.undurable.partition_point(|record| record.seq <= seq);
        let records: Vec<Arc<Record>> = self.undurable.drain(..ready).collect();
        for record in &records {
            let implied = record.implied();
            for record in [Some(&**record), implied.as_ref()].into_iter().flatten() {
                for at in 0..self.durable.len() {
                    self.one(now, self.durable[at], Input::Durable(record), turn);
                }
            }
        }
        // Last, since the end of this process may be among what waited.
        turn.output.effects.extend(self.gate.durable_to(seq));
    }

    /// Gives every event proposed its number, lets every module fold it and
    /// react, until no more is proposed. Each reaction answers a record that
    /// moved something, and the lifecycle has no cycles without an outer
    /// cause, so this ends.
    fn settle(&mut self, now: Time, turn: &mut Turn) {
        loop {
            if let Some(event) = turn.events.pop_front() {
                self.record(now, event, turn);
            } else if let Some(notice) = turn.notices.pop_front() {
                self.all(now, turn, |_| Input::Notice(&notice));
            } else {
                break;
            }
        }
    }

    fn record(&mut self, now: Time, mut event: Event, turn: &mut Turn) {
        if self.phase == Phase::Stopped {
            // It is owed again by the next leader.
            return;
        }
        if !self.modules.iter().all(|module| module.stands(&event)) {
            // It may be the last that effects waited for.
            return self.release(turn);
        }
        let modules = self.modules.iter();
        modules.for_each(|module| module.completes(&mut event));
        self.last = self.last.next();
        let record = Arc::new(Record {
            seq: self.last,
            event,
        });
        self.undurable.push_back(Arc::clone(&record));
        turn.output.records.push(Arc::clone(&record));
        self.fold(now, &record, turn);
        if let Some(implied) = record.implied() {
            self.fold(now, &implied, turn);
        }
        if self.phase == Phase::Stopped {
            // Owed again by the next leader; the end itself waits for none of it.
            turn.events.clear();
        }
        // What was proposed while this record was the last one leaves after it.
        self.release(turn);
    }

    /// Every module folds it, then those that do react.
    fn fold(&mut self, now: Time, record: &Record, turn: &mut Turn) {
        for module in &mut self.modules {
            module.apply(record);
        }
        if matches!(record.event.kind, Kind::LeaderStop) {
            self.step(Step::Stopped);
            turn.void();
        }
        for at in 0..self.applied.len() {
            self.one(now, self.applied[at], Input::Applied(record), turn);
        }
    }

    fn all<'a>(&mut self, now: Time, turn: &mut Turn, input: impl Fn(usize) -> Input<'a>) {
        for place in 0..self.modules.len() {
            self.one(now, place, input(place), turn);
        }
    }

    fn one(&mut self, now: Time, place: usize, input: Input<'_>, turn: &mut Turn) {
        let out = &mut turn.outbox;
        self.modules[place].handle(now, input, out);
        // Most modules have nothing to say to most inputs, of which each record is two.
        if !out.is_empty() {
            for volatile in out.volatile.drain(..) {
                turn.output.effects.push(volatile.into_effect(place));
            }
            turn.effects.append(&mut out.effects);
            // One by one: of each there is mostly none, and what is prepared for many costs more than one.
            out.append
                .drain(..)
                .for_each(|event| turn.events.push_back(event));
            out.notices
                .drain(..)
                .for_each(|notice| turn.notices.push_back(notice));
            turn.output.finished.append(&mut out.finished);
        }
        self.release(turn);
    }

    /// Effects proposed together with events wait for those events. Asked after each word to a module, and mostly
    /// there is nothing.
    #[inline]
    fn release(&mut self, turn: &mut Turn) {
        if turn.events.is_empty() && !turn.effects.is_empty() {
            self.pass(turn);
        }
    }

    /// Stamps what was proposed with the last record and passes it to the gate.
    fn pass(&mut self, turn: &mut Turn) {
        for effect in turn.effects.drain(..) {
            turn.output
                .effects
                .extend(self.gate.pass(self.last, effect));
        }
    }
}

/// What one arrival has led to so far.
#[derive(Default)]
struct Turn {
    outbox: Outbox,
    events: VecDeque<Event>,
    notices: VecDeque<Notice>,
    effects: Vec<Effect>,
    output: Output,
}

impl Turn {
    /// The end was recorded: what is proposed behind it will be no record, so
    /// nothing that may tell of it leaves.
    fn void(&mut self) {
        if !self.events.is_empty() {
            self.events.clear();
            self.effects
                .retain(|effect| matches!(effect, Effect::Exit(_)));
        }
    }

    fn answer(&mut self, to: Caller, body: &impl serde::Serialize) {
        self.output
            .effects
            .push(Effect::Reply(Reply::new(to, Type::Reply, body)));
    }

    fn refuse(&mut self, to: Caller, refusal: &Refusal) {
        self.output
            .effects
            .push(Effect::Reply(Reply::new(to, Type::Refused, refusal)));
    }
}

/// The request that a queue instance refers to this one, its parent: under the number of the call over the
/// channel, so that its answers are that call's.
fn referred(message: &Message) -> Result<Message, Refusal> {
    let inner = Message::decode(&message.tail)
        .map_err(|error| Refusal::invalid(format!("tail: the referred message: {error}")))?;
    if inner.kind != Type::Request || inner.topic == Refer::TOPIC {
        let text = format!(
            "tail: `{}` given, allowed is a request",
            inner.topic.escape_debug()
        );
        return Err(Refusal::invalid(text));
    }
    Ok(Message {
        matchtag: message.matchtag,
        ..inner
    })
}

#[cfg(test)]
mod tests;
