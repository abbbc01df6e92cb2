//! The leader's end of the channel to its parent: what a child asks and is told.
//!
//! Mimics the child's driver in brokerd: requests of the parent's clients come over the channel as
//! if from clients of the child, and their answers go back as calls.

use bytes::Bytes;
use eddy_broker::{Arrival, Caller, ClientId, HandedUp, ParentWord, Reply, Saying, ToParent};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{IdBlock, Kind};
use eddy_wire::id::Epoch;
use eddy_wire::message::{Message, Roles, Type};
use eddy_wire::services::Service;
use eddy_wire::services::child::{self, AnswerKind, AnswerRequest, FromParent};
use eddy_wire::services::job::{Kill, KillRequest};

use super::links::tell_client;
use crate::broken;
use crate::call::{About, Ask, Call, Nests};
use crate::client::OWNER;
use crate::instance::Instance;
use crate::nature::{ChildTurn, Happening, InstanceId, Life, Nature, Parcel};
use crate::nested::{Asked, Nested};
use crate::oracle::silence::Terms;
use crate::pipe::{PipeId, Side};

/// Clients that ask over the channel are numbered from here.
pub const RELAYED: u64 = ClientId::OWN_FROM;
/// Clients at other ranks are numbered from here.
pub const HEAD_CLIENTS: u64 = 1 << 40;

/// The judge of an instance is told of a signal that came another way than from a client of it.
fn signalled(nature: &mut Nature, instance: InstanceId, message: &Message) {
    if let (Kill::TOPIC, Ok(kill)) = (message.topic.as_str(), message.parse::<KillRequest>()) {
        let judge = nature.oracle(instance);
        let first = kill.jobs.ranges.iter().map(|(first, _)| *first);
        // Clients of the world name one job at a time.
        first.for_each(|job| judge.signalled(job));
    }
}

/// Whether the parent may take the child if it says hello again.
fn is_for_now(message: &Message) -> bool {
    let refusal = message.parse::<Refusal>();
    refusal.is_ok_and(|refusal| refusal.code == Code::Unreachable)
}

/// What a child refers to this instance may be a signal.
pub fn referred(nature: &mut Nature, instance: InstanceId, message: &Message) {
    if message.topic == child::Refer::TOPIC
        && let Ok(inner) = Message::decode(&message.tail)
    {
        signalled(nature, instance, &inner);
    }
}

impl Instance {
    /// An answer of the broker: to a client of this node, or over the channel.
    pub(super) fn answer(&mut self, nature: &mut Nature, reply: Reply) {
        let client = reply.to.client.0;
        if !reply.to.client.is_own() {
            return tell_client(nature, self.id, reply);
        }
        let call = client - RELAYED;
        let kind = match reply.kind {
            Type::Part => AnswerKind::Part,
            Type::Refused => AnswerKind::Refused,
            Type::Request | Type::Reply | Type::Cancel => AnswerKind::Reply,
        };
        let Some(nested) = &mut self.nested else {
            return;
        };
        if kind != AnswerKind::Part && !nested.channel.relayed.remove(&call) {
            return;
        }
        let request = AnswerRequest {
            child: nested.child,
            call,
            kind,
        };
        // The answer's own body and tail, as one message.
        let mut answer = Message::answer(reply.kind, reply.to.matchtag, &());
        (answer.body, answer.tail) = (reply.body, reply.tail);
        let tail = answer.encode().unwrap_or_default();
        self.ask_parent::<child::Answer>(nature, Asked::Told, &request, tail);
    }

    /// Tells the parent something, if it can be heard.
    pub(super) fn tell_parent(&mut self, nature: &mut Nature, word: ToParent) {
        let Some(child) = self.nested.as_ref().map(|nested| nested.child) else {
            return;
        };
        match word {
            ToParent::Ids(number) => {
                let request = child::IdsRequest { child, number };
                self.ask_parent::<child::Ids>(nature, Asked::Ids, &request, Bytes::new());
            }
            ToParent::Told(told) if broken::unreturned(nature, &told) => {}
            ToParent::Told(told) => {
                let jobs = vec![broken::told(nature, *told)];
                let request = child::ToldRequest { child, jobs };
                self.ask_parent::<child::Told>(nature, Asked::Told, &request, Bytes::new());
            }
            ToParent::Submit(tag, handed) => {
                self.hand_up(nature, Asked::Submit(tag), *handed, None);
            }
            ToParent::TakenUp(handed, taken) => {
                let asked = Asked::TakenUp(taken.first);
                self.hand_up(nature, asked, *handed, Some(taken));
            }
            ToParent::Settled(open) => {
                let request = child::SettledRequest { child, open };
                self.ask_parent::<child::Settled>(nature, Asked::Told, &request, Bytes::new());
            }
            ToParent::Release(ranks) => {
                let mut held = nature.judge(self.id).durable().held.iter();
                let on = held.find(|(_, grant)| {
                    let mut nodes = grant.set.nodes.iter();
                    nodes.any(|(rank, node)| !node.is_empty() && ranks.contains(rank.0))
                });
                if let Some((job, _)) = on.map(|(job, grant)| (*job, grant)) {
                    let sentence = format!("it gives ranks {ranks} back, where job {job} is");
                    return nature.fail(self.id, sentence);
                }
                let request = child::ReleaseRequest { child, ranks };
                self.ask_parent::<child::Release>(nature, Asked::Told, &request, Bytes::new());
            }
            ToParent::Drained(nodes) => {
                let request = child::DrainedRequest { child, nodes };
                self.ask_parent::<child::Drained>(nature, Asked::Told, &request, Bytes::new());
            }
            ToParent::Report(summary) => {
                let request = child::ReportRequest { child, summary };
                self.ask_parent::<child::Report>(nature, Asked::Told, &request, Bytes::new());
            }
            ToParent::Refer(caller, request) => {
                // Its answer is held against what the parent knows, which is not here.
                nature.oracle(self.id).forget(caller);
                self.ask_parent::<child::Refer>(nature, Asked::Referred(caller), &child, request);
            }
            ToParent::TakeBack(caller) => self.take_back(nature, caller),
        }
    }

    /// Hands a submission up.
    fn hand_up(
        &mut self,
        nature: &mut Nature,
        asked: Asked,
        handed: HandedUp,
        taken: Option<Box<child::TakenUp>>,
    ) {
        let Some(nested) = &self.nested else { return };
        let request = child::HandUpRequest {
            child: nested.child,
            user: handed.user,
            roles: handed.roles,
            submission: handed.submission,
            taken,
        };
        self.ask_parent::<child::HandUp>(nature, asked, &request, Bytes::new());
    }

    /// Nobody waits for that answer of the parent any more.
    fn take_back(&mut self, nature: &mut Nature, caller: Caller) {
        let Some(nested) = &mut self.nested else {
            return;
        };
        let asked = nested.channel.asked.iter();
        let mut asked = asked.filter(|(_, asked)| **asked == Asked::Referred(caller));
        let Some(tag) = asked.next().map(|(tag, _)| *tag) else {
            return;
        };
        nested.channel.asked.remove(&tag);
        if let Some(pipe) = nested.channel.pipe {
            let cancel = Message::answer(Type::Cancel, tag, &());
            let cancel = Parcel::FromClient(cancel, About::Other);
            nature.send(pipe, Side::Server, cancel);
        }
    }

    fn ask_parent<S: Service>(
        &mut self,
        nature: &mut Nature,
        asked: Asked,
        request: &S::Request,
        tail: Bytes,
    ) {
        let Some(nested) = &mut self.nested else {
            return;
        };
        let Some(pipe) = nested.channel.pipe else {
            return;
        };
        nested.channel.tag += 1;
        let tag = nested.channel.tag;
        nested.channel.asked.insert(tag, asked);
        let mut message = Message::request(S::TOPIC, tag, request).with_tail(tail);
        (message.uid, message.roles) = (OWNER, Roles::OWNER.or(Roles::USER));
        nature.send(
            pipe,
            Side::Server,
            Parcel::FromClient(message, About::Other),
        );
    }

    /// The channel stands: says who it is.
    pub fn channel_stands(&mut self, nature: &mut Nature, pipe: PipeId) {
        let leads = self.journal.records().iter().rev();
        let epoch = leads
            .filter_map(|record| match record.event.kind {
                Kind::LeaderStart(epoch) => Some(epoch),
                _ => None,
            })
            .next();
        // A leader that has not begun yet will have the next epoch.
        let leader = match &self.leader {
            Some(leader) => leader.broker().epoch(),
            None => epoch.unwrap_or(Epoch(0)).next(),
        };
        let Some(nested) = &mut self.nested else {
            return;
        };
        nested.channel.pipe = Some(pipe);
        nested.channel.asked.clear();
        let request = child::AdoptRequest {
            child: nested.child,
            instance: self.id.name(),
            uri: format!("local:{}", self.id.name()),
            door: format!("{}/0", self.id.name()),
            statedir: format!("/state/{}", self.id.name()),
            leader,
            beat: nature.beat(),
            keeps: Some(self.settings.keeps),
        };
        let life = nested.process.map(|process| process.life);
        self.ask_parent::<child::Adopt>(nature, Asked::Adopt, &request, Bytes::new());
        if let Some(life) = life {
            self.beats_later(nature, pipe, life);
        }
    }

    /// Says over this channel that its leader is there, if it still stands, and will again.
    pub fn beats(&mut self, nature: &mut Nature, pipe: PipeId, life: Life) {
        let of = |nested: &Nested| (nested.child, nested.channel.pipe == Some(pipe));
        let Some((child, true)) = self.nested.as_ref().map(of) else {
            return;
        };
        self.ask_parent::<child::Beat>(nature, Asked::Told, &child, Bytes::new());
        self.beats_later(nature, pipe, life);
    }

    fn beats_later(&self, nature: &mut Nature, pipe: PipeId, life: Life) {
        if let Some(every) = nature.beat() {
            let beats = Happening::Child(self.id, life, ChildTurn::Beats(pipe));
            nature.queue.push(nature.now.after(every), beats);
        }
    }

    /// The channel is down: who asked over it is gone.
    pub fn channel_lost(&mut self, nature: &mut Nature) {
        let Some(nested) = &mut self.nested else {
            return;
        };
        nested.channel.pipe = None;
        nested.channel.asked.clear();
        nested.channel.early.clear();
        nested.channel.words.clear();
        for call in std::mem::take(&mut nested.channel.relayed) {
            self.arrive(nature, Arrival::Gone(ClientId(RELAYED + call)));
        }
        if self.leader.is_some() {
            let (now, terms) = (self.leader_now(nature), self.terms());
            nature.oracle(self.id).silent().begins(now, terms);
        }
        self.arrive(nature, Arrival::Parent(ParentWord::Away));
    }

    /// What begins while its parent is silent.
    pub(super) fn terms(&self) -> Terms {
        Terms {
            lease: self.settings.lease,
            alone: self.settings.autonomous_after,
        }
    }

    /// An answer of the parent.
    pub fn channel_told(&mut self, nature: &mut Nature, life: Life, message: &Message) {
        let Some(nested) = &mut self.nested else {
            return;
        };
        let Some(asked) = nested.channel.asked.get(&message.matchtag).copied() else {
            return;
        };
        if message.kind != Type::Part {
            nested.channel.asked.remove(&message.matchtag);
        }
        match (asked, message.kind) {
            (Asked::Adopt, Type::Part) => {
                if let Ok(word) = message.parse::<FromParent>() {
                    self.parent_said(nature, life, word, &message.tail);
                }
            }
            (Asked::Adopt, _) if is_for_now(message) => {
                let pipe = nested.channel.pipe;
                let ends = pipe.map(|pipe| Happening::Ends(pipe, Side::Peer));
                ends.into_iter()
                    .for_each(|ends| nature.queue.push(nature.now, ends));
            }
            (Asked::Adopt, _) => self.turned_away(nature, life, message),
            (Asked::Ids, Type::Reply) => {
                if let Ok(block) = message.parse::<IdBlock>() {
                    self.arrive(nature, Arrival::Parent(ParentWord::Ids(block)));
                }
            }
            (Asked::Ids, Type::Refused) => {
                if let Ok(refusal) = message.parse::<Refusal>() {
                    self.arrive(nature, Arrival::Parent(ParentWord::NoIds(refusal)));
                }
            }
            (Asked::Submit(_) | Asked::TakenUp(_), Type::Reply | Type::Refused) => {
                let outcome = match message.kind {
                    Type::Reply => message.parse(),
                    _ => Err(message.parse().unwrap_or_else(|refusal| refusal)),
                };
                let word = match asked {
                    Asked::TakenUp(first) => ParentWord::TakenUp(first, outcome),
                    Asked::Submit(tag) => ParentWord::Submitted(tag, outcome),
                    Asked::Adopt | Asked::Ids | Asked::Told | Asked::Referred(_) => return,
                };
                self.arrive(nature, Arrival::Parent(word));
            }
            (Asked::Referred(to), kind) => {
                let (body, tail) = (message.body.clone(), message.tail.clone());
                let reply = Reply {
                    to,
                    kind,
                    body,
                    tail,
                };
                self.arrive(nature, Arrival::Parent(ParentWord::Answered(reply)));
            }
            (Asked::Ids | Asked::Submit(_) | Asked::TakenUp(_) | Asked::Told, _) => {}
        }
    }

    fn parent_said(&mut self, nature: &mut Nature, life: Life, word: FromParent, tail: &Bytes) {
        let Some(word) = broken::heard(nature, self.leader.as_ref(), word) else {
            return;
        };
        match Saying::new(word, tail) {
            Saying::Modules(word) => {
                if let ParentWord::Signal(job, ..) = word {
                    nature.oracle(self.id).signalled(job);
                }
                if let ParentWord::Program(_) = word {
                    nature.oracle(self.id).signalled(child::PROGRAM);
                }
                self.parent_word(nature, word);
            }
            Saying::Granted(granted) if self.leader.is_none() => {
                // It is told again once it leads.
                self.parent_word(nature, ParentWord::Granted(granted.clone()));
                let granted = Happening::Child(self.id, life, ChildTurn::Granted(granted));
                nature.queue.push(nature.now, granted);
            }
            Saying::Granted(granted) => {
                let changed = ChildTurn::Changed(granted.clone());
                let changed = Happening::Child(self.id, life, changed);
                nature.queue.push(nature.now, changed);
                let now = self.leader_now(nature);
                let until = granted.remaining.map(|remaining| now.after(remaining));
                nature.oracle(self.id).set_until(until, granted.reserve);
                nature.oracle(self.id).silent().ends();
                self.arrive(nature, Arrival::Parent(ParentWord::Granted(granted)));
            }
            Saying::Request(call) => self.relayed(nature, call, tail),
            Saying::Cancel(call) => {
                let Some(nested) = &mut self.nested else {
                    return;
                };
                nested.channel.early.remove(&call);
                if nested.channel.relayed.remove(&call) {
                    self.arrive(nature, Arrival::Gone(ClientId(RELAYED + call)));
                }
            }
        }
    }

    /// A request of one of the parent's clients.
    fn relayed(&mut self, nature: &mut Nature, call: u64, tail: &Bytes) {
        let Ok(message) = Message::decode(tail) else {
            let why = format!("{}: a relayed request is no message", self.id.name());
            return nature.fail(self.id, why);
        };
        let Some(nested) = &mut self.nested else {
            return;
        };
        signalled(nature, self.id, &message);
        nested.channel.relayed.insert(call);
        if self.leader.is_none() {
            nested.channel.early.insert(call, message);
            return;
        }
        self.arrive(nature, Arrival::Message(ClientId(RELAYED + call), message));
    }

    fn parent_word(&mut self, nature: &mut Nature, word: ParentWord) {
        match (&self.leader, &mut self.nested) {
            (None, Some(nested)) => nested.channel.words.push(word),
            (_, _) => self.arrive(nature, Arrival::Parent(word)),
        }
    }

    /// The leader began: what was asked of it before is asked now.
    pub fn take_early(&mut self, nature: &mut Nature) {
        let Some(nested) = &mut self.nested else {
            return;
        };
        let words = std::mem::take(&mut nested.channel.words);
        for (call, message) in std::mem::take(&mut nested.channel.early) {
            self.arrive(nature, Arrival::Message(ClientId(RELAYED + call), message));
        }
        for word in words {
            if matches!(word, ParentWord::Granted(_)) {
                nature.oracle(self.id).silent().ends();
            }
            self.arrive(nature, Arrival::Parent(word));
        }
    }

    /// The parent does not know this child: it is nobody's, and ends.
    fn turned_away(&mut self, nature: &mut Nature, life: Life, message: &Message) {
        let of = self.of(nature);
        let text = String::from_utf8_lossy(&message.body).into_owned();
        nature.note(|| format!("leader{of} is turned away: {text}"));
        match self.leader {
            Some(_) => self.arrive(nature, Arrival::Stop),
            None => {
                let ended = Happening::Child(self.id, life, ChildTurn::Ended(1 << 8));
                nature.queue.push(nature.now, ended);
            }
        }
    }

    /// The leader ended in order: so does its process.
    pub(super) fn process_ends(&mut self, nature: &mut Nature) {
        if let Some(process) = self.nested.as_ref().and_then(|nested| nested.process) {
            let status = self.exit_status();
            let ended = Happening::Child(self.id, process.life, ChildTurn::Ended(status));
            nature.later(crate::nature::Delay::Process, ended);
        }
    }

    /// What the instance was made to run is its first job: submitted by each life, made once.
    pub fn submit_program(&mut self, nature: &mut Nature) {
        let Some(nested) = &self.nested else { return };
        let Some(program) = nested.program else {
            return;
        };
        let ask = Ask {
            command: program.command(),
            name: "program".to_owned(),
            nests: Nests::Beside,
            ..Ask::default()
        };
        let call = Call::submit(OWNER, &ask, nested.key);
        let mut message = Message::answer(Type::Request, 1, &());
        (message.topic, message.body) = (call.topic.to_owned(), call.body);
        (message.uid, message.roles) = (OWNER, Roles::OWNER.or(Roles::USER));
        self.arrive(nature, Arrival::Message(ClientId(RELAYED - 1), message));
        self.ends_with_program(nature, 0);
    }

    /// When its first job is over, so is an instance that was made for it; one whose limit ended
    /// that job is ended by its parent.
    pub(super) fn ends_with_program(&mut self, nature: &mut Nature, before: usize) {
        let made_for = self.nested.as_ref().and_then(|nested| nested.program);
        let over = |record: &std::sync::Arc<eddy_wire::event::Record>| {
            let kind = &record.event.kind;
            let is_over = *kind == Kind::Clean || kind.implied() == Some(Kind::Clean);
            record.event.job == Some(eddy_wire::id::JobId(1)) && is_over
        };
        let timed_out = |record: &std::sync::Arc<eddy_wire::event::Record>| {
            let job = record.event.job;
            job == Some(eddy_wire::id::JobId(1))
                && matches!(&record.event.kind, Kind::Exception(e) if e.kind == "timeout")
        };
        if made_for.is_some()
            && self.journal.records()[before..].iter().any(over)
            && !self.journal.records().iter().any(timed_out)
        {
            self.arrive(nature, Arrival::Stop);
        }
    }

    /// The exit status of a leader that ended in order: that of its first job, if it was to run one.
    fn exit_status(&self) -> i32 {
        let first = self.journal.records().iter().find_map(|record| {
            let is_first = record.event.job == Some(eddy_wire::id::JobId(1));
            record.event.kind.finish().filter(|_| is_first)
        });
        match self.nested.as_ref().and_then(|nested| nested.program) {
            Some(_) => eddy_wire::job::exit_code(first.unwrap_or(0)) << 8,
            None => 0,
        }
    }
}
