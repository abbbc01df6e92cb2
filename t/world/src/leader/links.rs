//! The leader's side of its connections: what shells and clients say, what they are told, and when a
//! shell is dead.

use eddy_broker::{Arrival, Caller, ClientId, Reply};
use eddy_wire::id::Epoch;
use eddy_wire::message::Message;
use eddy_wire::shell::{FromShell, Start, ToShell};
use eddy_wire::time::Time;

use crate::broken::{self, Rule};
use crate::call::About;
use crate::fault::Fault;
use crate::instance::Instance;
use crate::nature::{Delay, Happening, Life, Nature, Parcel};
use crate::pipe::{PipeId, Side};

/// How many starts are remembered, to repeat one late.
const STARTS_KEPT: usize = 4;

impl Instance {
    /// Tells a shell, if it is connected.
    pub(super) fn tell_shell(
        &mut self,
        nature: &mut Nature,
        now: Time,
        epoch: Epoch,
        message: ToShell,
    ) {
        nature.oracle.ordered(now, &message);
        let Some(leader) = &mut self.leader else {
            return;
        };
        let Some(pipe) = leader.connected(epoch) else {
            return;
        };
        let lost = matches!(&message, ToShell::Signal { signal: 9, .. });
        if lost && nature.breaks(Rule::KillLost) {
            return;
        }
        if let ToShell::Start(start) = &message {
            leader.starts.push((**start).clone());
            let surplus = leader.starts.len().saturating_sub(STARTS_KEPT);
            leader.starts.drain(..surplus);
        }
        // Everything a leader says may be said twice.
        if nature.chance(5) {
            nature.send(pipe, Side::Peer, Parcel::ToShell(message.clone()));
        }
        nature.send(pipe, Side::Peer, Parcel::ToShell(message));
    }

    /// A start for an earlier life of a shell comes late, to the one that lives now.
    pub fn late_start(&mut self, nature: &mut Nature) {
        let Some(leader) = &self.leader else { return };
        let stale = |start: &&Start| !leader.shells.contains_key(&start.shell);
        let found = leader.starts.iter().find(stale).cloned();
        let found = found.zip(leader.shells.last_key_value());
        let Some((mut start, (epoch, pipe))) = found else {
            return;
        };
        if nature.breaks(Rule::StartTakenByOtherLife) {
            start.shell = *epoch;
            for hash in [start.jobspec, start.environment] {
                let text = "{}".into();
                nature.send(
                    *pipe,
                    Side::Peer,
                    Parcel::ToShell(ToShell::Payload { hash, text }),
                );
            }
        }
        nature.send(
            *pipe,
            Side::Peer,
            Parcel::ToShell(ToShell::Start(Box::new(start))),
        );
    }

    /// Looks whether a shell lives: one that does is watched until it does not.
    pub fn checks(&mut self, nature: &mut Nature, life: Life, epoch: Epoch) {
        let lives = self.shells.contains_key(&epoch);
        let Some(leader) = self.leader_of(life) else {
            return;
        };
        if lives {
            leader.watched.insert(epoch);
        } else {
            leader.watched.remove(&epoch);
            self.sweep(nature, epoch);
            nature.later(Delay::Process, Happening::ShellDead(life, epoch));
        }
    }

    /// A shell is dead and swept: told once all it said has been read.
    pub fn shell_dead(&mut self, nature: &mut Nature, life: Life, epoch: Epoch) {
        let Some(leader) = self.leader_of(life) else {
            return;
        };
        if leader.connected(epoch).is_some() {
            leader.dead.insert(epoch);
        } else {
            self.arrive(nature, Arrival::ShellDead(epoch));
        }
    }

    /// A client's message reached the leader.
    pub fn from_client(
        &mut self,
        nature: &mut Nature,
        pipe: PipeId,
        message: Message,
        about: &About,
    ) {
        let client = ClientId(pipe.0);
        let caller = Caller {
            client,
            matchtag: message.matchtag,
        };
        if message.kind == eddy_wire::message::Type::Request {
            nature.oracle.asked(caller, about);
        }
        self.arrive(nature, Arrival::Message(client, message));
    }

    /// A shell's message reached the leader; its first on a connection is its hello.
    pub fn from_shell(&mut self, nature: &mut Nature, pipe: PipeId, mut message: FromShell) {
        if let FromShell::Hello { epoch, .. } = &message {
            let epoch = *epoch;
            if let Some(leader) = &mut self.leader {
                leader.peers.insert(pipe, Some(epoch));
                // Its earlier connection may not have been seen to end.
                if leader.shells.insert(epoch, pipe).is_some() {
                    self.arrive(nature, Arrival::ShellAway(epoch));
                }
            }
        }
        if nature.breaks(Rule::NoExchangeOfLists) {
            message = broken::without_list(message);
        }
        let said = self
            .leader
            .as_ref()
            .and_then(|leader| *leader.peers.get(&pipe)?);
        if let Some(epoch) = said {
            let hello = matches!(message, FromShell::Hello { .. });
            self.arrive(nature, Arrival::Shell(epoch, message));
            if hello && nature.chance(30) {
                nature.later(Delay::Retry, Happening::Strikes(Fault::LateStart));
            }
        }
    }

    /// A connection's other end has closed.
    pub fn peer_ended(&mut self, nature: &mut Nature, pipe: PipeId) {
        nature.pipes.close(pipe, Side::Leader);
        let Some(leader) = &mut self.leader else {
            return;
        };
        match leader.peers.remove(&pipe) {
            Some(Some(epoch)) if leader.shells.get(&epoch) == Some(&pipe) => {
                leader.shells.remove(&epoch);
                let dead = leader.dead.remove(&epoch);
                self.arrive(nature, Arrival::ShellAway(epoch));
                if dead || nature.breaks(Rule::SilenceIsDeath) {
                    self.arrive(nature, Arrival::ShellDead(epoch));
                }
            }
            Some(Some(_)) => {}
            Some(None) | None => self.arrive(nature, Arrival::Gone(ClientId(pipe.0))),
        }
    }
}

/// An answer leaves for its client.
pub(super) fn tell_client(nature: &mut Nature, reply: Reply) {
    nature.oracle.told(&reply);
    let pipe = PipeId(reply.to.client.0);
    let message = Message {
        body: reply.body,
        tail: reply.tail,
        ..Message::answer(reply.kind, reply.to.matchtag, &())
    };
    nature.send(pipe, Side::Peer, Parcel::ToClient(message));
}
