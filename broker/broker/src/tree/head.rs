//! The leader's end of the tree: turns letters into arrivals and effects into
//! letters, so that modules see clients and shells and never a tree.
//!
//! Between [`crate::Broker`] and [`super::Overlay`], used by both drivers. It
//! gives each reached rank a tenure; what comes of an older one is dropped. It
//! keeps nothing that must survive: all of it is said again after a restart.

mod beside;
mod status;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use eddy_wire::access::Access;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::message::{Message, Target, Type};
use eddy_wire::shell::FromShell;
use eddy_wire::time::Time;
use eddy_wire::tree::{
    ATTENDANT, Address, Call, ClientLimits, HOSTED_MAX, InstanceFacts, Letter, Member, Tenure,
    Word, portable,
};
use serde_json::json;

use self::beside::Beside;
use crate::broker::Arrival;
use crate::effect::{Caller, ClientId, Effect, Reply};

/// How many events are kept for ranks that missed some; who missed more is
/// given a new tenure, which starts after them.
const EVENTS_KEPT: usize = 256;
/// The topic of the event that ranks are reached no more; its body is an idset.
pub(super) const RANKS_LOST: &str = "ranks-lost";
/// The topic of the event that others may connect than before; its body is an [`Access`].
pub(super) const ADMITTED: &str = "admitted";
/// And of other limits for its clients.
pub(super) const LIMITS: &str = "limits";

/// Where an effect goes.
#[derive(Debug)]
pub enum Routed {
    /// It is the driver's own to do, on this node.
    Here(Effect),
    /// It was turned into letters (none if that rank is not reached: what
    /// matters is told again in its next tenure).
    Sent(Vec<Letter>),
}

/// What comes of an input.
#[derive(Debug, Default)]
pub struct HeadOutput {
    /// For the broker, in order.
    pub arrivals: Vec<Arrival>,
    /// For the overlay.
    pub letters: Vec<Letter>,
    /// For clients of this node: answers to requests that named another rank.
    pub replies: Vec<Reply>,
    /// For the broker, in order: what was heard of shells of this node.
    pub own: Vec<Arrival>,
    /// When `tick` is due, at the latest.
    pub wake: Option<Time>,
}

impl HeadOutput {
    fn add(&mut self, more: HeadOutput) {
        self.arrivals.extend(more.arrivals);
        self.letters.extend(more.letters);
        self.replies.extend(more.replies);
        self.own.extend(more.own);
        self.wake = more.wake.or(self.wake);
    }
}

/// The leader's books on its ranks.
#[derive(Debug)]
pub struct Head {
    epoch: Epoch,
    local: Idset,
    facts: InstanceFacts,
    /// Clients at other ranks are numbered from here up.
    clients_from: u64,
    next_client: u64,
    next_tenure: u64,
    ranks: BTreeMap<Rank, Ranked>,
    /// The ranks that there are, once it was told.
    inventory: Option<Idset>,
    clients: BTreeMap<ClientId, (Rank, u64)>,
    /// On which rank each shell that is not on this node is.
    shells: BTreeMap<Epoch, Rank>,
    /// Calls of this node's clients to other ranks.
    calls: BTreeMap<Call, Rank>,
    beside: Beside,
    last_event: u64,
    events: VecDeque<(u64, Word)>,
}

/// One rank that is or was reached.
#[derive(Debug)]
struct Ranked {
    tenure: u64,
    since: Time,
    state: State,
    clients: BTreeMap<u64, ClientId>,
    /// Shells of it that have said hello in this tenure.
    shells: BTreeSet<Epoch>,
}

#[derive(Debug)]
enum State {
    Reached,
    Lost(String),
}

impl Head {
    /// Nobody reached yet. `local` are the ranks whose shell is the driver's
    /// own; clients at other ranks are numbered from `clients_from` up, which
    /// the driver gives to none of its own.
    pub fn new(epoch: Epoch, local: Idset, facts: InstanceFacts, clients_from: u64) -> Head {
        Head {
            epoch,
            local,
            facts,
            clients_from,
            next_client: clients_from,
            next_tenure: 0,
            ranks: BTreeMap::new(),
            inventory: None,
            clients: BTreeMap::new(),
            shells: BTreeMap::new(),
            calls: BTreeMap::new(),
            beside: Beside::default(),
            last_event: 0,
            events: VecDeque::new(),
        }
    }

    /// The ranks that are reached, those of this node among them.
    pub fn reached_ranks(&self) -> Idset {
        let reached = self
            .ranks
            .iter()
            .filter(|(rank, ranked)| **rank != ATTENDANT && matches!(ranked.state, State::Reached));
        self.local
            .union(&Idset::from_iter(reached.map(|(rank, _)| rank.0)))
    }

    /// The instance has these ranks now: what is known of others that are not
    /// reached is forgotten.
    pub fn set_ranks(&mut self, ranks: &Idset) {
        let is_there = |rank: &Rank| *rank == ATTENDANT || ranks.contains(rank.0);
        self.ranks
            .retain(|rank, ranked| is_there(rank) || matches!(ranked.state, State::Reached));
        let known = &self.ranks;
        self.shells
            .retain(|_, rank| is_there(rank) || known.contains_key(rank));
        self.inventory = Some(ranks.clone());
    }

    /// These may connect to the instance from now on: every rank hears of it.
    pub fn admit(&mut self, access: &Access) -> HeadOutput {
        let mut out = HeadOutput::default();
        self.facts.access.clone_from(access);
        self.publish(ADMITTED, json!(access), &mut out);
        out
    }

    /// Clients are held to these from now on: every rank hears of it.
    pub fn limit(&mut self, limits: ClientLimits) -> HeadOutput {
        let mut out = HeadOutput::default();
        if self.facts.limits.replace(limits) != Some(limits) {
            self.publish(LIMITS, json!(limits), &mut out);
        }
        out
    }

    /// A rank is reached, by the overlay's word: its tenure begins.
    pub fn reached(&mut self, now: Time, rank: Rank, _member: &Member) -> HeadOutput {
        self.begin(now, rank)
    }

    fn begin(&mut self, now: Time, rank: Rank) -> HeadOutput {
        let mut out = HeadOutput::default();
        self.leave(now, rank, "it began another life", &mut out);
        self.next_tenure += 1;
        let ranked = Ranked {
            tenure: self.next_tenure,
            since: now,
            state: State::Reached,
            clients: BTreeMap::new(),
            shells: BTreeSet::new(),
        };
        self.ranks.insert(rank, ranked);
        let begin = Word::Tenure {
            events: self.last_event,
            instance: Box::new(self.facts.clone()),
        };
        out.letters.extend(self.write(rank, begin));
        if rank == ATTENDANT {
            for order in self.beside.orders() {
                out.letters.extend(self.write(rank, Word::Host(order)));
            }
        }
        out.arrivals.push(Arrival::Ranks(self.reached_ranks()));
        out
    }

    /// A rank is not reached any more: its clients are gone, its shells away,
    /// calls to it fail by its name.
    pub fn lost(&mut self, now: Time, rank: Rank, why: &str) -> HeadOutput {
        let mut out = HeadOutput::default();
        self.leave(now, rank, why, &mut out);
        if let Some(ranked) = self.ranks.get_mut(&rank) {
            ranked.since = now;
            ranked.state = State::Lost(why.to_owned());
        }
        if let Some(ranks) = self.inventory.take() {
            self.set_ranks(&ranks);
        }
        if rank != ATTENDANT {
            let body = json!(Idset::one(rank.0));
            self.publish(RANKS_LOST, body, &mut out);
        }
        out.arrivals.push(Arrival::Ranks(self.reached_ranks()));
        out
    }

    /// What ends with the tenure of a rank.
    fn leave(&mut self, now: Time, rank: Rank, why: &str, out: &mut HeadOutput) {
        if rank == ATTENDANT {
            self.beside.lost();
            self.tell_of_own(now, out);
        }
        let Some(ranked) = self.ranks.get_mut(&rank) else {
            return;
        };
        for client in std::mem::take(&mut ranked.clients).into_values() {
            self.clients.remove(&client);
            out.arrivals.push(Arrival::Gone(client));
        }
        for epoch in std::mem::take(&mut ranked.shells) {
            out.arrivals.push(Arrival::ShellAway(epoch));
        }
        self.fail_calls(rank, why, out);
    }

    fn fail_calls(&mut self, rank: Rank, why: &str, out: &mut HeadOutput) {
        let failed = self.calls.extract_if(.., |_, to| *to == rank);
        let refusal = Refusal::new(Code::Unreachable, format!("rank {rank} was lost: {why}"));
        out.replies
            .extend(failed.map(|(call, _)| refused(call, &refusal)));
    }

    fn publish(&mut self, topic: &str, body: serde_json::Value, out: &mut HeadOutput) {
        self.last_event += 1;
        let word = Word::Event {
            number: self.last_event,
            topic: topic.to_owned(),
            body,
        };
        self.events.push_back((self.last_event, word.clone()));
        if self.events.len() > EVENTS_KEPT {
            self.events.pop_front();
        }
        out.letters.push(Letter {
            to: Address::Below,
            from: Rank(0),
            tenure: self.tenure(0),
            word,
        });
    }

    fn tenure(&self, number: u64) -> Tenure {
        Tenure {
            leader: self.epoch,
            number,
        }
    }

    /// A letter to that rank in its tenure; none when it is not reached.
    fn write(&self, rank: Rank, word: Word) -> Option<Letter> {
        let ranked = self.ranks.get(&rank)?;
        match ranked.state {
            State::Lost(_) => None,
            State::Reached => Some(Letter {
                to: Address::Rank(rank),
                from: Rank(0),
                tenure: self.tenure(ranked.tenure),
                word,
            }),
        }
    }

    /// A letter for the leader.
    pub fn letter(&mut self, now: Time, letter: Letter) -> HeadOutput {
        let mut out = HeadOutput::default();
        let from = letter.from;
        if let Word::Unreachable { rank } = letter.word {
            let known = self.ranks.get(&rank).map(|ranked| ranked.tenure);
            if known.is_some_and(|number| letter.tenure == self.tenure(number)) {
                self.fail_calls(rank, "it is not in the tree", &mut out);
            }
            return out;
        }
        let current = self.ranks.get(&from).map(|ranked| ranked.tenure);
        if current.is_none_or(|number| letter.tenure != self.tenure(number)) {
            // Of an earlier tenure: what matters of it is said again.
            return out;
        }
        match letter.word {
            Word::Request { call, message } => {
                if let Some(message) = message {
                    self.asked(from, call, *message, &mut out);
                }
            }
            Word::Answer { call, message } => {
                if let Some(message) = message {
                    self.answered(call, *message, &mut out);
                }
            }
            Word::Gone { client } => self.client_gone(from, client, &mut out),
            Word::FromShell { epoch, word } => self.shell_said(from, epoch, word, &mut out),
            Word::ShellAway { epoch } => {
                if let Some(ranked) = self.ranks.get_mut(&from) {
                    ranked.shells.remove(&epoch);
                }
                out.arrivals.push(Arrival::ShellAway(epoch));
            }
            Word::ShellDead { epoch } => {
                // Nobody has a word for it any more, and its number is never given again.
                self.shells.remove(&epoch);
                if let Some(ranked) = self.ranks.get_mut(&from) {
                    ranked.shells.remove(&epoch);
                }
                out.arrivals.push(Arrival::ShellDead(epoch));
            }
            Word::EventsFrom { number } => self.repeat_events(now, from, number, &mut out),
            Word::Hosted(mut hosted) => {
                hosted.truncate(HOSTED_MAX);
                if from == ATTENDANT {
                    self.beside.hosts(&hosted);
                }
                out.arrivals.push(Arrival::Hosted(from, hosted));
            }
            Word::Unhosted(job, attempt) => {
                if from == ATTENDANT {
                    self.beside.unhosted(job, attempt);
                    self.tell_of_own(now, &mut out);
                }
            }
            // A leader says these and is told none of them.
            Word::Reach(_)
            | Word::Tenure { .. }
            | Word::Unreachable { .. }
            | Word::LaunchShell { .. }
            | Word::CheckShell { .. }
            | Word::EndShell { .. }
            | Word::ToShell { .. }
            | Word::Host(_)
            | Word::Unhost { .. }
            | Word::Event { .. } => {}
        }
        out
    }

    /// A client at another rank asks, or takes back what it asked.
    fn asked(&mut self, rank: Rank, call: Call, mut message: Message, out: &mut HeadOutput) {
        let Some(ranked) = self.ranks.get_mut(&rank) else {
            return;
        };
        let next = &mut self.next_client;
        let client = *ranked.clients.entry(call.client).or_insert_with(|| {
            *next += 1;
            ClientId(*next)
        });
        self.clients.insert(client, (rank, call.client));
        message.matchtag = call.matchtag;
        message.target = Target::Service;
        out.arrivals.push(Arrival::Message(client, message));
    }

    fn answered(&mut self, call: Call, message: Message, out: &mut HeadOutput) {
        if !self.calls.contains_key(&call) {
            return;
        }
        if message.kind != Type::Part {
            self.calls.remove(&call);
        }
        out.replies.push(Reply {
            to: caller(call),
            kind: message.kind,
            body: message.body,
            tail: message.tail,
        });
    }

    fn client_gone(&mut self, rank: Rank, client: u64, out: &mut HeadOutput) {
        let ranked = self.ranks.get_mut(&rank);
        if let Some(id) = ranked.and_then(|ranked| ranked.clients.remove(&client)) {
            self.clients.remove(&id);
            out.arrivals.push(Arrival::Gone(id));
        }
    }

    fn shell_said(&mut self, rank: Rank, epoch: Epoch, word: FromShell, out: &mut HeadOutput) {
        self.shells.insert(epoch, rank);
        if let (FromShell::Hello { .. }, Some(ranked)) = (&word, self.ranks.get_mut(&rank)) {
            ranked.shells.insert(epoch);
        }
        out.arrivals.push(Arrival::Shell(epoch, word));
    }

    /// Events that a rank missed, if they are still kept; else a tenure anew,
    /// which needs none of them.
    fn repeat_events(&mut self, now: Time, rank: Rank, number: u64, out: &mut HeadOutput) {
        let kept_from = self.last_event + 1 - self.events.len() as u64;
        if number < kept_from {
            // As if it had been lost: whoever has orders for it gives them anew.
            out.add(self.lost(now, rank, "it missed too many events"));
            out.add(self.begin(now, rank));
            return;
        }
        let missed = self.events.iter().filter(|(kept, _)| *kept >= number);
        let words: Vec<Word> = missed.map(|(_, word)| word.clone()).collect();
        for word in words {
            out.letters.extend(self.write(rank, word));
        }
    }

    /// A request or a cancel of a client of this node for another rank; given
    /// back when it is for the leader itself.
    pub fn request(&mut self, client: ClientId, message: Message) -> Result<HeadOutput, Message> {
        let call = Call {
            client: client.0,
            matchtag: message.matchtag,
        };
        let mut out = HeadOutput::default();
        let rank = match (message.kind, message.target) {
            (Type::Cancel, _) => match self.calls.remove(&call) {
                Some(rank) => rank,
                None => return Err(message),
            },
            (Type::Request, Target::Rank(rank)) if rank != Rank(0) => rank,
            (Type::Request, Target::Upstream) => {
                let text = "target: upstream given, rank 0 has no rank above it";
                out.replies.push(refused(call, &Refusal::invalid(text)));
                return Ok(out);
            }
            _ => return Err(message),
        };
        let asks = message.kind == Type::Request;
        if let Err(refusal) = portable(&message) {
            out.replies.push(refused(call, &refusal));
            return Ok(out);
        }
        let word = Word::Request {
            call,
            message: Some(Box::new(message)),
        };
        match self.write(rank, word) {
            Some(letter) => {
                if asks {
                    self.calls.insert(call, rank);
                }
                out.letters.push(letter);
            }
            None if asks => out.replies.push(refused(call, &self.unreachable(rank))),
            None => {}
        }
        Ok(out)
    }

    fn unreachable(&self, rank: Rank) -> Refusal {
        if let Some(ranks) = &self.inventory
            && !ranks.contains(rank.0)
        {
            let text = format!("no rank {rank} in this instance, whose ranks are {ranks}");
            return Refusal::new(Code::Unreachable, text);
        }
        let why = match self.ranks.get(&rank) {
            Some(Ranked {
                state: State::Lost(why),
                ..
            }) => format!("it was lost: {why}"),
            Some(_) | None => "it was never reached by this leader".to_owned(),
        };
        Refusal::new(
            Code::Unreachable,
            format!("rank {rank} is not reached: {why}"),
        )
    }

    /// A client of this node is gone, with its calls.
    pub fn gone(&mut self, client: ClientId) -> Vec<Letter> {
        let of_client = |matchtag| Call {
            client: client.0,
            matchtag,
        };
        let own = of_client(0)..=of_client(u64::MAX);
        let calls: Vec<(Call, Rank)> = self.calls.extract_if(own, |_, _| true).collect();
        let ranks: BTreeSet<Rank> = calls.into_iter().map(|(_, rank)| rank).collect();
        let word = Word::Gone { client: client.0 };
        ranks
            .into_iter()
            .filter_map(|rank| self.write(rank, word.clone()))
            .collect()
    }

    /// Sends an effect on its way: shells of other ranks and clients there by
    /// letter, all else is the driver's.
    pub fn route(&mut self, effect: Effect) -> Routed {
        match effect {
            Effect::Reply(reply) if reply.to.client.is_above(self.clients_from) => {
                self.route_reply(reply)
            }
            Effect::Shell(epoch, word) => match self.shells.get(&epoch) {
                None => Routed::Here(Effect::Shell(epoch, word)),
                Some(rank) => self.sent(*rank, Word::ToShell { epoch, word }),
            },
            Effect::LaunchShell(ranks, epoch) => match self.seat(&ranks) {
                None => Routed::Here(Effect::LaunchShell(ranks, epoch)),
                Some(rank) => {
                    self.shells.insert(epoch, rank);
                    self.sent(rank, Word::LaunchShell { epoch })
                }
            },
            Effect::CheckShell(ranks, epoch) => match self.seat(&ranks) {
                None => Routed::Here(Effect::CheckShell(ranks, epoch)),
                Some(rank) => {
                    self.shells.insert(epoch, rank);
                    self.sent(rank, Word::CheckShell { epoch })
                }
            },
            Effect::EndShell(rank, epoch) => self.sent(rank, Word::EndShell { epoch }),
            Effect::Host(rank, order) => self.route_host(rank, order),
            Effect::Unhost(rank, instance) => self.route_unhost(rank, instance),
            Effect::Reply(_)
            | Effect::Parent(_)
            | Effect::Query(..)
            | Effect::Filter(..)
            | Effect::Plan(_)
            | Effect::Wake(_)
            | Effect::Exit(_) => Routed::Here(effect),
        }
    }

    fn sent(&self, rank: Rank, word: Word) -> Routed {
        Routed::Sent(self.write(rank, word).into_iter().collect())
    }

    fn route_reply(&self, reply: Reply) -> Routed {
        let Some((rank, client)) = self.clients.get(&reply.to.client) else {
            return Routed::Sent(Vec::new());
        };
        let call = Call {
            client: *client,
            matchtag: reply.to.matchtag,
        };
        let mut message = Message::answer(reply.kind, reply.to.matchtag, &());
        (message.body, message.tail) = (reply.body, reply.tail);
        if let Err(refusal) = portable(&message) {
            // Whoever waits for it must hear that it does not come.
            message = Message::answer(Type::Refused, reply.to.matchtag, &refusal);
        }
        let message = Some(Box::new(message));
        self.sent(*rank, Word::Answer { call, message })
    }

    /// The rank whose broker keeps the shell of these ranks; `None` is this one.
    fn seat(&self, ranks: &Idset) -> Option<Rank> {
        let first = ranks.iter().next()?;
        (!self.local.contains(first)).then_some(Rank(first))
    }
}

fn caller(call: Call) -> Caller {
    Caller {
        client: ClientId(call.client),
        matchtag: call.matchtag,
    }
}

fn refused(call: Call, refusal: &Refusal) -> Reply {
    Reply::new(caller(call), Type::Refused, refusal)
}

#[cfg(test)]
mod tests;
