//! The leader's side of its connections: what shells and clients say, what they are told, and when a
//! shell is dead.

use eddy_broker::{Arrival, Caller, ClientId, Reply};
use eddy_wire::id::Epoch;
use eddy_wire::message::Message;
use eddy_wire::shell::{FromShell, Start, ToShell};

use crate::broken::{self, Rule};
use crate::call::About;
use crate::desk::{Known, Left};
use crate::fault::Fault;
use crate::instance::Instance;
use crate::nature::{Delay, Happening, InstanceId, Life, Nature, Parcel, Turn};
use crate::pipe::{PipeId, Side};

/// How many starts are remembered, to repeat one late.
const STARTS_KEPT: usize = 4;

impl Instance {
    /// Tells a shell, if it is connected.
    pub(super) fn tell_shell(&mut self, nature: &mut Nature, epoch: Epoch, message: ToShell) {
        let Some(leader) = &mut self.leader else {
            return;
        };
        let Some(pipe) = leader.desk.connected(epoch) else {
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
        let stale = |start: &&Start| leader.desk.connected(start.shell).is_none();
        let found = leader.starts.iter().find(stale).cloned();
        let found = found.zip(leader.desk.newest());
        let Some((mut start, (epoch, pipe))) = found else {
            return;
        };
        if nature.breaks(Rule::StartTakenByOtherLife) {
            start.shell = epoch;
            for hash in [start.jobspec, start.environment] {
                let text = "{}".into();
                let payload = Parcel::ToShell(ToShell::Payload { hash, text });
                nature.send(pipe, Side::Peer, payload);
            }
        }
        let start = Parcel::ToShell(ToShell::Start(Box::new(start)));
        nature.send(pipe, Side::Peer, start);
    }

    /// Looks whether a shell lives: one that does is watched until it does not.
    pub fn checks(&mut self, nature: &mut Nature, life: Life, epoch: Epoch) {
        let lives = self.shells.contains_key(&epoch);
        let Some(leader) = self.leader_of(life) else {
            return;
        };
        if lives {
            leader.desk.watch(epoch);
        } else {
            leader.desk.unwatch(epoch);
            self.sweep(nature, epoch);
            let dead = Happening::Leader(self.id, life, Turn::ShellDead(epoch));
            nature.later(Delay::Process, dead);
        }
    }

    /// A shell is dead and swept: told once all it said has been read.
    pub fn shell_dead(&mut self, nature: &mut Nature, life: Life, epoch: Epoch) {
        let Some(leader) = self.leader_of(life) else {
            return;
        };
        if leader.desk.connected(epoch).is_some() {
            leader.desk.died(epoch);
        } else {
            self.own_shell(nature, Arrival::ShellDead(epoch));
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
            let about = self.judged(about.clone());
            nature.oracle(self.id).asked(caller, &about);
            super::referred(nature, self.id, &message);
        }
        self.request(nature, client, message);
    }

    /// A shell's message reached the leader; its first on a connection is its hello.
    pub fn from_shell(&mut self, nature: &mut Nature, pipe: PipeId, mut message: FromShell) {
        if let FromShell::Hello { epoch, .. } = &message {
            let epoch = *epoch;
            if let Some(leader) = &mut self.leader {
                // Its earlier connection may not have been seen to end.
                if leader.desk.hello(pipe, epoch).is_some() {
                    self.own_shell(nature, Arrival::ShellAway(epoch));
                }
            }
        }
        if nature.breaks(Rule::NoExchangeOfLists) {
            message = broken::without_list(message);
        }
        let said = self
            .leader
            .as_ref()
            .and_then(|leader| leader.desk.shell_on(pipe));
        if let Some(epoch) = said {
            let hello = matches!(message, FromShell::Hello { .. });
            self.own_shell(nature, Arrival::Shell(epoch, message));
            if hello && nature.chance(30) {
                nature.later(Delay::Retry, Happening::Strikes(Fault::LateStart(self.id)));
            }
        }
    }

    /// A connection's other end has closed.
    pub fn peer_ended(&mut self, nature: &mut Nature, pipe: PipeId) {
        nature.pipes.close(pipe, Side::Server);
        let Some(leader) = &mut self.leader else {
            return;
        };
        match leader.desk.ended(pipe) {
            Left::Shell(epoch, known) => {
                self.own_shell(nature, Arrival::ShellAway(epoch));
                if known == Known::Dead || nature.breaks(Rule::SilenceIsDeath) {
                    self.own_shell(nature, Arrival::ShellDead(epoch));
                }
            }
            Left::Nobody => {}
            Left::Client => self.client_gone(nature, ClientId(pipe.0)),
        }
    }
}

/// The judge is told which shells came back before what the leader makes of it.
pub(super) fn judge_hears(nature: &mut Nature, instance: InstanceId, arrival: &Arrival) {
    if let Arrival::Shell(shell, FromShell::Hello { .. }) = arrival {
        nature.oracle(instance).hello(*shell);
    }
    if let Arrival::Stop = arrival {
        nature.oracle(instance).told_to_end();
    }
}

/// An answer leaves for its client.
pub fn tell_client(nature: &mut Nature, instance: InstanceId, reply: Reply) {
    nature.oracle(instance).told(&reply);
    nature.handed_up(instance);
    let pipe = PipeId(reply.to.client.0);
    let message = Message {
        body: reply.body,
        tail: reply.tail,
        ..Message::answer(reply.kind, reply.to.matchtag, &())
    };
    nature.send(pipe, Side::Peer, Parcel::ToClient(message));
}
