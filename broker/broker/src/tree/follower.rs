//! Another rank's end: the clients and the shell on its node, and the hosting
//! of ranks of child instances there.
//!
//! Driven by an agent (brokerd) and by the simulated world. It keeps nothing
//! that must survive: with each new tenure it closes the connections of its
//! shells, and of clients that wait for an answer, who then say again what
//! matters. What is asked while no leader is reached waits, bounded.

mod ground;
mod held;

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::access::Access;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::{Epoch, Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::message::{Message, Target, Type};
use eddy_wire::services::Service;
use eddy_wire::services::child::Adopt;
use eddy_wire::services::instance::{Ping, PingRequest, Pong};
use eddy_wire::services::overlay::{LinkState, Links};
use eddy_wire::shell::{FromShell, ToShell};
use eddy_wire::time::Time;
use eddy_wire::tree::{
    ATTENDANT, Address, Call, ClientLimits, HostOrder, InstanceFacts, Letter, Tenure, Word,
    portable,
};

use self::ground::{Grounds, Said, Trust};
use self::held::Held;
use super::head::{ADMITTED, LIMITS, RANKS_LOST};
use super::overlay::{Seat, Upstream};
use crate::effect::{Caller, ClientId, Reply};

/// What a follower says it is doing when it is pinged.
const PHASE: &str = "follow";

/// What a driver brings.
#[derive(Clone, Debug)]
pub enum FollowerInput {
    /// A request or cancel of a client of this node; uid and roles stamped.
    Message(ClientId, Message),
    /// A client's connection ended.
    Gone(ClientId),
    /// A shell of this node said something; its hello is the first.
    Shell(Epoch, FromShell),
    /// A shell's connection ended.
    ShellAway(Epoch),
    /// That life of a shell is over and nothing it started runs.
    ShellDead(Epoch),
    /// What `Unhost` named is hosted no more, and nothing runs that was started
    /// within that part of its job on this node.
    Unhosted(String),
    /// A letter for this rank.
    Letter(Letter),
    /// The way up stands, or not.
    Upstream(Upstream),
    /// The links that were asked for with `AskLinks`.
    Links(Asker, Vec<LinkState>),
}

/// Who asked this rank for something of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A client of this node.
    Here(Caller),
    /// A client at that rank, in that rank's tenure.
    There(Rank, Tenure, Call),
}

/// What a driver is to do.
#[derive(Clone, Debug)]
pub enum FollowerOutput {
    /// Answer a client of this node.
    Reply(Reply),
    /// Close a client's connection: it comes again and asks again.
    CloseClient(ClientId),
    /// Tell the shell of this node.
    Shell(Epoch, ToShell),
    /// Close a shell's connection: it comes again and says hello.
    CloseShell(Epoch),
    /// Start a shell under this epoch for this rank, unless it is there.
    LaunchShell(Epoch),
    /// Find out whether that shell lives; if not, end what it left and say `ShellDead`.
    CheckShell(Epoch),
    /// End that shell and what it left, then say `ShellDead`.
    EndShell(Epoch),
    /// What the leader said of the instance: needed before a shell is started.
    Facts(Box<InstanceFacts>),
    /// These may connect from now on.
    Admitted(Access),
    /// Clients are held to these from now on.
    Limits(ClientLimits),
    /// Host a rank of a child instance, on ground that is held here; safe to repeat.
    Host(Box<HostOrder>),
    /// Host it no more: end its rank, then all that was started within that part
    /// of its job on this node, its shells first, and say `Unhosted`.
    Unhost(String),
    /// A letter to send.
    Send(Letter),
    /// Say which links there are, with `Links`.
    AskLinks(Asker),
}

/// Where an outstanding call of a client of this node went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Leader,
    Rank(Rank),
    /// The rank above, whichever it was then.
    Upstream(Rank),
}

/// One rank that follows.
#[derive(Debug)]
pub struct Follower {
    seat: Seat,
    upstream: Upstream,
    /// The present tenure; `None` until the first.
    tenure: Option<Tenure>,
    facts: InstanceFacts,
    last_event: u64,
    calls: BTreeMap<Call, Asked>,
    /// The clients that are leaders of child instances.
    children: BTreeSet<ClientId>,
    /// Asked before there was a leader, in order.
    held: Held,
    shells: BTreeSet<Epoch>,
    grounds: Grounds,
}

impl Follower {
    /// A rank that has heard of no leader yet.
    pub fn new(seat: Seat) -> Follower {
        let trust = match seat.rank {
            ATTENDANT => Trust::Leader,
            _ => Trust::Shell,
        };
        Follower {
            seat,
            grounds: Grounds::new(trust),
            upstream: Upstream::Alone("it has just begun".to_owned()),
            tenure: None,
            facts: InstanceFacts::default(),
            last_event: 0,
            calls: BTreeMap::new(),
            children: BTreeSet::new(),
            held: Held::default(),
            shells: BTreeSet::new(),
        }
    }

    /// Takes one input and says what is to be done.
    pub fn handle(&mut self, now: Time, input: FollowerInput, out: &mut Vec<FollowerOutput>) {
        match input {
            FollowerInput::Message(client, message) => self.message(now, client, message, out),
            FollowerInput::Gone(client) => self.gone(client, out),
            FollowerInput::Shell(epoch, word) => {
                self.shells.insert(epoch);
                self.hear(Said::Word(epoch, word), out);
            }
            FollowerInput::ShellAway(epoch) => {
                self.shells.remove(&epoch);
                self.hear(Said::Away(epoch), out);
            }
            FollowerInput::ShellDead(epoch) => self.hear(Said::Dead(epoch), out),
            FollowerInput::Unhosted(instance) => {
                if let Some((job, attempt)) = self.grounds.ended(&instance) {
                    self.tell_leader(Word::Unhosted(job, attempt), out);
                }
                self.tell_of_shells(out);
            }
            FollowerInput::Letter(letter) => self.letter(now, letter, out),
            FollowerInput::Upstream(upstream) => {
                self.upstream = upstream;
                self.fail_upstream(out);
                self.part_with_children(out);
            }
            FollowerInput::Links(asker, links) => {
                self.tell_asker(asker, Type::Reply, json(&links), out);
            }
        }
    }

    /// Something is heard of a shell of this node.
    fn hear(&mut self, said: Said, out: &mut Vec<FollowerOutput>) {
        if let Some(epoch) = self.grounds.hear(said) {
            self.shells.remove(&epoch);
            out.push(FollowerOutput::CloseShell(epoch));
        }
        self.tell_of_shells(out);
    }

    /// Tells the leader what may be told of shells, and hosts what has its ground.
    fn tell_of_shells(&mut self, out: &mut Vec<FollowerOutput>) {
        while let Some(said) = self.grounds.next(out) {
            let word = match said {
                Said::Word(epoch, word) => Word::FromShell { epoch, word },
                Said::Away(epoch) => Word::ShellAway { epoch },
                Said::Dead(epoch) => Word::ShellDead { epoch },
            };
            self.tell_leader(word, out);
        }
        self.grounds.begin(out);
    }

    /// Tells the leader; dropped without one, since it asks in its next tenure.
    fn tell_leader(&self, word: Word, out: &mut Vec<FollowerOutput>) {
        if let Some(tenure) = self.tenure {
            out.push(FollowerOutput::Send(Letter {
                to: Address::Leader,
                from: self.seat.rank,
                tenure,
                word,
            }));
        }
    }

    // -- clients of this node --

    fn message(
        &mut self,
        now: Time,
        client: ClientId,
        message: Message,
        out: &mut Vec<FollowerOutput>,
    ) {
        let call = Call {
            client: client.0,
            matchtag: message.matchtag,
        };
        match message.kind {
            Type::Request => self.request(now, client, call, message, out),
            Type::Cancel => match self.calls.remove(&call) {
                Some(asked) => self.pass_on(asked, call, message, out),
                None => self
                    .held
                    .drop_where(|held, tag| held == client && tag == call.matchtag),
            },
            // Clients answer nothing.
            Type::Reply | Type::Part | Type::Refused => {}
        }
    }

    fn request(
        &mut self,
        now: Time,
        client: ClientId,
        call: Call,
        message: Message,
        out: &mut Vec<FollowerOutput>,
    ) {
        let asked = match (message.target, &self.upstream) {
            (Target::Rank(rank), _) if rank == self.seat.rank => {
                return self.own(now, Asker::Here(caller(call)), &message, out);
            }
            (Target::Service, _) if message.topic == Links::TOPIC => {
                return self.own(now, Asker::Here(caller(call)), &message, out);
            }
            (Target::Rank(Rank(0)) | Target::Service, _) => Asked::Leader,
            (Target::Upstream, Upstream::Linked(rank)) => Asked::Upstream(*rank),
            (Target::Upstream, Upstream::Alone(why)) => {
                return refuse(call, &self.no_way_up(why), out);
            }
            (Target::Rank(rank), _) => Asked::Rank(rank),
        };
        if let Err(refusal) = portable(&message) {
            return refuse(call, &refusal, out);
        }
        if self.tenure.is_none() {
            if let Err(refusal) = self.held.hold(self.seat.rank, client, message) {
                refuse(call, &refusal, out);
            }
            return;
        }
        self.calls.insert(call, asked);
        if message.topic == Adopt::TOPIC {
            self.children.insert(client);
        }
        self.pass_on(asked, call, message, out);
    }

    fn pass_on(&self, asked: Asked, call: Call, message: Message, out: &mut Vec<FollowerOutput>) {
        let message = Some(Box::new(message));
        let word = Word::Request { call, message };
        match asked {
            Asked::Leader | Asked::Upstream(Rank(0)) => self.tell_leader(word, out),
            Asked::Rank(rank) | Asked::Upstream(rank) => out.push(FollowerOutput::Send(Letter {
                to: Address::Rank(rank),
                from: self.seat.rank,
                tenure: self.tenure.unwrap_or_default(),
                word,
            })),
        }
    }

    fn gone(&mut self, client: ClientId, out: &mut Vec<FollowerOutput>) {
        self.held.drop_where(|held, _| held == client);
        self.children.remove(&client);
        let of_client = |matchtag| Call {
            client: client.0,
            matchtag,
        };
        let own = of_client(0)..=of_client(u64::MAX);
        self.calls.extract_if(own, |_, _| true).for_each(drop);
        // The leader numbers clients by what they asked: it may know this one
        // although nothing of it is outstanding.
        self.tell_leader(Word::Gone { client: client.0 }, out);
    }

    /// What this rank answers itself.
    fn own(&self, now: Time, asker: Asker, message: &Message, out: &mut Vec<FollowerOutput>) {
        if message.topic == Links::TOPIC {
            return out.push(FollowerOutput::AskLinks(asker));
        }
        let (kind, body) = self.answer(now, message);
        self.tell_asker(asker, kind, body, out);
    }

    fn tell_asker(&self, asker: Asker, kind: Type, body: Vec<u8>, out: &mut Vec<FollowerOutput>) {
        let (from, tenure, call) = match asker {
            Asker::Here(to) => {
                let (body, tail) = (body.into(), bytes::Bytes::new());
                let reply = Reply {
                    to,
                    kind,
                    body,
                    tail,
                };
                return out.push(FollowerOutput::Reply(reply));
            }
            Asker::There(from, tenure, call) => (from, tenure, call),
        };
        let mut answer = Message::answer(kind, call.matchtag, &());
        answer.body = body.into();
        let message = Some(Box::new(answer));
        let to = match from {
            Rank(0) => Address::Leader,
            from => Address::Rank(from),
        };
        // In the tenure of the question: whoever asked in it may be no more, and
        // another may use its numbers.
        out.push(FollowerOutput::Send(Letter {
            to,
            from: self.seat.rank,
            tenure,
            word: Word::Answer { call, message },
        }));
    }

    fn answer(&self, now: Time, message: &Message) -> (Type, Vec<u8>) {
        let answered = match message.topic.as_str() {
            Ping::TOPIC => message
                .parse::<PingRequest>()
                .map(|ping| self.pong(now, ping)),
            other => Err(Refusal::new(
                Code::NoService,
                format!(
                    "rank {} does not answer `{}`; it answers {} and {}",
                    self.seat.rank,
                    other.escape_debug(),
                    Ping::TOPIC,
                    Links::TOPIC
                ),
            )),
        };
        match answered {
            Ok(pong) => (Type::Reply, json(&pong)),
            Err(refusal) => (Type::Refused, json(&refusal)),
        }
    }

    fn pong(&self, now: Time, ping: PingRequest) -> Pong {
        let depth = match self.facts.path.is_empty() {
            true => 0,
            false => self.facts.path.split('/').count() as u32,
        };
        Pong {
            instance: self.seat.instance.clone(),
            epoch: self.tenure.map_or(Epoch(0), |tenure| tenure.leader),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            owner: self.facts.owner,
            rank: self.seat.rank,
            path: self.facts.path.clone(),
            depth,
            parent: None,
            phase: PHASE.to_owned(),
            durable: Seq(0),
            lack: None,
            t: now,
            pad: ping.pad,
        }
    }

    // -- letters --

    fn letter(&mut self, now: Time, letter: Letter, out: &mut Vec<FollowerOutput>) {
        let Letter {
            from, tenure, word, ..
        } = letter;
        match word {
            Word::Tenure { events, instance } => self.begin(now, tenure, (events, *instance), out),
            Word::Request { call, message } => {
                if let Some(message) = message {
                    let asker = Asker::There(from, tenure, call);
                    self.asked(now, asker, &message, out);
                }
            }
            Word::Event {
                number,
                topic,
                body,
            } => self.event(number, &topic, body, out),
            // What a leader orders counts in its present tenure only, and so does
            // what comes of a question: its client may be no more, and another
            // life of this rank gives its numbers anew.
            _ if self.tenure != Some(tenure) => {}
            Word::Answer { call, message } => {
                if let Some(message) = message {
                    self.answered(call, *message, out);
                }
            }
            Word::Unreachable { rank } => {
                self.fail_calls(&Idset::one(rank.0), out);
            }
            Word::LaunchShell { epoch } => out.push(FollowerOutput::LaunchShell(epoch)),
            Word::CheckShell { epoch } => out.push(FollowerOutput::CheckShell(epoch)),
            Word::EndShell { epoch } => out.push(FollowerOutput::EndShell(epoch)),
            Word::ToShell { epoch, word } => out.push(FollowerOutput::Shell(epoch, word)),
            Word::Host(order) => self.grounds.host(order, out),
            Word::Unhost { instance } => self.grounds.unhost(&instance, out),
            // A leader is told these, or the overlay; another rank's client
            // that is gone has left nothing here.
            Word::Reach(_)
            | Word::Gone { .. }
            | Word::FromShell { .. }
            | Word::ShellAway { .. }
            | Word::ShellDead { .. }
            | Word::Hosted(_)
            | Word::Unhosted(..)
            | Word::EventsFrom { .. } => {}
        }
    }

    /// A tenure begins: whoever waits for something of an earlier one comes
    /// again, and what was held goes on its way.
    fn begin(
        &mut self,
        now: Time,
        tenure: Tenure,
        (events, facts): (u64, InstanceFacts),
        out: &mut Vec<FollowerOutput>,
    ) {
        if self.tenure.is_some_and(|known| known >= tenure) {
            return;
        }
        self.tenure = Some(tenure);
        self.last_event = events;
        self.facts = facts.clone();
        out.push(FollowerOutput::Facts(Box::new(facts)));
        self.grounds.forget_shells();
        let hosted = self.grounds.hosted();
        if !hosted.is_empty() {
            self.tell_leader(Word::Hosted(hosted), out);
        }
        self.children.clear();
        let asked = std::mem::take(&mut self.calls);
        let waiting: BTreeSet<u64> = asked.into_keys().map(|call| call.client).collect();
        let waiting = waiting.into_iter().map(ClientId);
        out.extend(waiting.map(FollowerOutput::CloseClient));
        let shells = std::mem::take(&mut self.shells);
        out.extend(shells.into_iter().map(FollowerOutput::CloseShell));
        for (client, message) in self.held.take() {
            self.message(now, client, message, out);
        }
    }

    /// A client at another rank asks this one.
    fn asked(&self, now: Time, asker: Asker, message: &Message, out: &mut Vec<FollowerOutput>) {
        match message.kind {
            Type::Request => self.own(now, asker, message, out),
            // Everything is answered at once: there is nothing to take back.
            Type::Cancel | Type::Reply | Type::Part | Type::Refused => {}
        }
    }

    fn answered(&mut self, call: Call, message: Message, out: &mut Vec<FollowerOutput>) {
        if !self.calls.contains_key(&call) {
            return;
        }
        if message.kind != Type::Part {
            self.calls.remove(&call);
        }
        out.push(FollowerOutput::Reply(Reply {
            to: caller(call),
            kind: message.kind,
            body: message.body,
            tail: message.tail,
        }));
    }

    fn event(
        &mut self,
        number: u64,
        topic: &str,
        body: serde_json::Value,
        out: &mut Vec<FollowerOutput>,
    ) {
        if number <= self.last_event {
            return;
        }
        if number > self.last_event + 1 {
            let number = self.last_event + 1;
            return self.tell_leader(Word::EventsFrom { number }, out);
        }
        self.last_event = number;
        // Events of a later version are counted and not understood.
        match topic {
            RANKS_LOST => {
                let ranks = serde_json::from_value::<Idset>(body);
                self.fail_calls(&ranks.unwrap_or_default(), out);
            }
            ADMITTED => out.extend(serde_json::from_value(body).map(FollowerOutput::Admitted)),
            LIMITS => out.extend(serde_json::from_value(body).map(FollowerOutput::Limits)),
            _ => {}
        }
    }

    fn fail_calls(&mut self, ranks: &Idset, out: &mut Vec<FollowerOutput>) {
        let is_lost = |_: &Call, asked: &mut Asked| match asked {
            Asked::Leader => false,
            Asked::Rank(rank) | Asked::Upstream(rank) => ranks.contains(rank.0),
        };
        for (call, asked) in self.calls.extract_if(.., is_lost) {
            if let Asked::Rank(rank) | Asked::Upstream(rank) = asked {
                let text = format!("rank {rank} was lost or is not in the tree");
                refuse(call, &Refusal::new(Code::Unreachable, text), out);
            }
        }
    }

    /// Who asked the rank above is told that there is none: of the leader an
    /// answer may still come, of a rank that was above none will.
    fn fail_upstream(&mut self, out: &mut Vec<FollowerOutput>) {
        let Upstream::Alone(why) = &self.upstream else {
            return;
        };
        let refusal = self.no_way_up(why);
        let is_above = |_: &Call, asked: &mut Asked| matches!(asked, Asked::Upstream(_));
        for (call, _) in self.calls.extract_if(.., is_above) {
            refuse(call, &refusal, out);
        }
        for call in self.held.take_upward() {
            refuse(call, &refusal, out);
        }
    }

    /// A child whose parent is out of reach is to know it at once: what it handed up from then on would wait for a
    /// parent that never heard of it, where it may take it itself.
    fn part_with_children(&mut self, out: &mut Vec<FollowerOutput>) {
        if let Upstream::Linked(_) = self.upstream {
            return;
        }
        for client in std::mem::take(&mut self.children) {
            self.calls.retain(|call, _| call.client != client.0);
            out.push(FollowerOutput::CloseClient(client));
        }
    }

    fn no_way_up(&self, why: &str) -> Refusal {
        let text = format!("rank {} has no way up: {why}", self.seat.rank);
        Refusal::new(Code::Unreachable, text)
    }
}

fn caller(call: Call) -> Caller {
    Caller {
        client: ClientId(call.client),
        matchtag: call.matchtag,
    }
}

fn refuse(call: Call, refusal: &Refusal, out: &mut Vec<FollowerOutput>) {
    out.push(FollowerOutput::Reply(Reply::new(
        caller(call),
        Type::Refused,
        refusal,
    )));
}

fn json(body: &impl serde::Serialize) -> Vec<u8> {
    eddy_wire::json::to_vec(body)
}

#[cfg(test)]
mod ground_tests;
#[cfg(test)]
mod tests;
