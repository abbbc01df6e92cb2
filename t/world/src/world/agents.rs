//! What agents do: host ranks, let clients and shells in there, and what a rank wants done.

use eddy_broker::tree::overlay::Seat as RankSeat;
use eddy_broker::tree::{FollowerInput, FollowerOutput, OverlayInput};
use eddy_broker::{Caller, ClientId};
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::link::Hello;
use eddy_wire::message::Type;
use eddy_wire::services::child::ChildOf;
use eddy_wire::shell::{FromShell, Part};
use eddy_wire::time::{Span, Time};
use eddy_wire::tree::{ATTENDANT, HostOrder, Letter, Word};

use super::World;
use crate::agent::{Hosted, Running, hosting};
use crate::broken::Rule;
use crate::call::About;
use crate::desk::{Known, Left};
use crate::door::Said;
use crate::leader::{referred, tell_client};
use crate::nature::{AgentTurn, Delay, Happening, InstanceId, Parcel, PostTurn, ROOT};
use crate::nested::Within;
use crate::pipe::{PipeId, Post, Side};
use crate::shell::{Keeper, Seat};

impl World {
    /// The rank at that post, while it is hosted.
    pub fn hosted(&mut self, post: Post) -> Option<&mut Hosted> {
        let (machine, _, instance) = hosting(post)?;
        let hosted = self.agents.get_mut(machine)?.hosted.get_mut(&instance)?;
        (hosted.post == post).then_some(hosted)
    }

    /// The agent of a machine starts: its rank of the root is its own to host.
    pub(super) fn agent_starts(&mut self, machine: usize) {
        if self.agents[machine].course == Running::Yes || !self.has_machine(machine) {
            return;
        }
        let agent = &mut self.agents[machine];
        agent.course = Running::Yes;
        self.nature.note(|| format!("agent {machine} starts"));
        let rank = self.instances[ROOT.place()]
            .seats
            .iter()
            .position(|seat| *seat == machine);
        if let Some(rank) = rank.filter(|rank| *rank > 0) {
            let door = self.instances[ROOT.place()].door_name(Rank(0));
            let seat = (Rank(rank as u32), door, None);
            self.host(machine, ROOT, seat, Within::new());
        }
        self.attends_again(machine);
    }

    /// kill -9 of an agent: every rank it hosts is gone; it is started again in a while.
    pub fn crash_agent(&mut self, machine: usize, down: Span) {
        if self.agents[machine].course == Running::No {
            return;
        }
        self.nature.note(|| format!("agent {machine} is killed"));
        self.agents[machine].course = Running::No;
        let hosted: Vec<InstanceId> = self.agents[machine].hosted.keys().copied().collect();
        hosted
            .into_iter()
            .for_each(|instance| self.unhost(machine, instance));
        let at = self.nature.now.after(down);
        let starts = Happening::Agent(machine, AgentTurn::Starts);
        self.nature.queue.push(at, starts);
    }

    /// An order to host came to the agent of a machine.
    pub(super) fn agent_hosts(&mut self, machine: usize, parent: InstanceId, order: HostOrder) {
        let Some(instance) = InstanceId::named(&order.instance) else {
            return;
        };
        if self.agents[machine].course == Running::No {
            return;
        }
        let Some(hosted) = self.agents[machine].hosted.get(&parent) else {
            return;
        };
        let mut within = hosted.within.clone();
        let rank = match hosted.rank {
            ATTENDANT => self.rank_attended(parent, order.job),
            rank => Some(rank),
        };
        // It may be over meanwhile.
        let Some(rank) = rank else { return };
        let part = Part {
            job: order.job,
            attempt: order.attempt,
            rank,
        };
        within.push((parent, part));
        let own = ChildOf {
            job: order.job,
            attempt: order.attempt,
        };
        let seat = (order.rank, order.door, Some(order.child.unwrap_or(own)));
        self.host(machine, instance, seat, within);
    }

    /// An order to host no more: the rank ends at once, then what it started.
    pub(super) fn agent_unhosts(&mut self, machine: usize, parent: InstanceId, id: InstanceId) {
        let Some(post) = self.agents[machine].hosted.get(&parent).map(|h| h.post) else {
            return;
        };
        let within = self.agents[machine].hosted.get(&id);
        let Some((_, part)) = within.and_then(|hosted| hosted.within.last().copied()) else {
            return self.follow(post, FollowerInput::Unhosted(id.name()));
        };
        self.unhost(machine, id);
        let unhosted = Happening::Post(post, PostTurn::Unhosted(id, part));
        self.nature.later(Delay::Process, unhosted);
    }

    fn unhosted(&mut self, post: Post, id: InstanceId, part: Part) {
        if self.hosted(post).is_none() {
            return;
        }
        let ground = (post.instance(), part);
        self.end_within(|within| *within == ground);
        self.follow(post, FollowerInput::Unhosted(id.name()));
    }

    /// Breaks a rule: hosts by the order alone.
    fn hosts_at_once(&mut self, post: Post, letter: &Letter) {
        if let Word::Host(order) = &letter.word
            && let Some((machine, _, id)) = hosting(post)
            && self.nature.breaks(Rule::GroundUnchecked)
        {
            let hosts = Happening::Agent(machine, AgentTurn::Hosts(id, order.clone()));
            self.nature.queue.push(self.nature.now, hosts);
        }
    }

    /// A rank begins, with this door of its leader; of a child it is told which job that is.
    pub(super) fn host(
        &mut self,
        machine: usize,
        id: InstanceId,
        (rank, door, child): (Rank, String, Option<ChildOf>),
        within: Within,
    ) {
        if self.agents[machine].hosted.contains_key(&id) {
            return;
        }
        self.hostings += 1;
        let post = Post::Hosted(machine, self.hostings, id);
        let instance = &self.instances[id.place()];
        let seat = RankSeat {
            instance: id.name(),
            job: child.map(|child| (child.job, child.attempt)),
            rank,
            life: self.nature.uuid(),
            door: instance.door_name(rank),
            leader: door,
            fanout: instance.fanout.unwrap_or(16),
        };
        let of = instance.of(&self.nature);
        self.nature
            .note(|| format!("agent {machine} hosts {}{of}", seat_name(rank)));
        let hosted = Hosted::new(post, seat, within);
        self.agents[machine].hosted.insert(id, hosted);
        self.hosted_overlay(post, OverlayInput::Tick);
    }

    /// A rank is hosted no more: its connections end, its shells go on.
    pub(super) fn unhost(&mut self, machine: usize, id: InstanceId) {
        let Some(hosted) = self.agents[machine].hosted.remove(&id) else {
            return;
        };
        let of = self.instances[id.place()].of(&self.nature);
        let rank = hosted.rank;
        self.nature
            .note(|| format!("agent {machine} hosts {}{of} no more", seat_name(rank)));
        for (pipe, side) in hosted.pipes() {
            self.nature.close(pipe, side);
        }
        // What it hosts for instances inside goes with it.
        let inner = self.agents[machine].hosted.iter();
        let inner: Vec<InstanceId> = inner
            .filter(|(_, other)| other.within.iter().any(|(outer, _)| *outer == id))
            .map(|(inner, _)| *inner)
            .collect();
        inner
            .into_iter()
            .for_each(|inner| self.unhost(machine, inner));
    }

    /// The time that a hosted rank goes by.
    fn post_now(&self, post: Post) -> Time {
        let machine = hosting(post).map_or(0, |(machine, ..)| machine);
        self.nature.clock(machine).boot
    }

    // -- its overlay --

    pub(super) fn hosted_overlay(&mut self, post: Post, input: OverlayInput) {
        let now = self.post_now(post);
        if let OverlayInput::Send(letter) = &input {
            self.nature.tree.sent(post.instance(), letter);
        }
        let (nature, agents) = (&mut self.nature, &mut self.agents);
        let Some(hosted) = hosted_in(agents, post) else {
            return;
        };
        let said = hosted.door.take(nature, now, input);
        self.hosted_heard(post, said);
    }

    fn hosted_heard(&mut self, post: Post, said: Vec<Said>) {
        for word in said {
            let input = match word {
                Said::Letter(letter) => {
                    let Some(rank) = self.hosted(post).map(|hosted| hosted.rank) else {
                        return;
                    };
                    self.nature.tree.came(post.instance(), rank, &letter);
                    self.hosts_at_once(post, &letter);
                    FollowerInput::Letter(letter)
                }
                Said::Upstream(upstream) => {
                    if let Some(hosted) = self.hosted(post) {
                        hosted.upstream = upstream.clone();
                    }
                    FollowerInput::Upstream(upstream)
                }
                // Who is below is the leader's business.
                Said::Reached(..) | Said::Lost(..) => continue,
            };
            self.follow(post, input);
        }
    }

    pub(super) fn hosted_knocked(&mut self, post: Post, pipe: PipeId, hello: Hello) {
        let now = self.post_now(post);
        let Some(hosted) = hosted_in(&mut self.agents, post) else {
            return;
        };
        let said = hosted.door.knocked(&mut self.nature, now, pipe, hello);
        self.hosted_heard(post, said);
    }

    pub(super) fn hosted_link(&mut self, post: Post, pipe: PipeId, side: Side, parcel: Parcel) {
        let now = self.post_now(post);
        let Some(hosted) = hosted_in(&mut self.agents, post) else {
            return;
        };
        let said = hosted
            .door
            .arrived(&mut self.nature, now, (pipe, side), parcel);
        self.hosted_heard(post, said);
    }

    pub(super) fn hosted_link_ended(&mut self, post: Post, pipe: PipeId, side: Side) {
        self.nature.pipes.close(pipe, side);
        let now = self.post_now(post);
        let Some(hosted) = hosted_in(&mut self.agents, post) else {
            return;
        };
        let said = hosted.door.ended(&mut self.nature, now, pipe, side);
        self.hosted_heard(post, said);
    }

    /// Something about a post, be it a leader's or a hosted rank's.
    pub(super) fn post_turn(&mut self, post: Post, turn: PostTurn) {
        match (post, turn) {
            (Post::Leader(id, life), turn) => {
                let instance = &mut self.instances[id.place()];
                if instance.leader_of(life).is_none() {
                    return;
                }
                match turn {
                    PostTurn::Ticks(at) => instance.overlay_ticks(&mut self.nature, post, at),
                    PostTurn::Unanswered(name, why) => {
                        instance.overlay(&mut self.nature, OverlayInput::Answered(name, Err(why)));
                    }
                    PostTurn::Checks(_) | PostTurn::ShellDead(_) | PostTurn::Unhosted(..) => {}
                }
            }
            (Post::Hosted(..), PostTurn::Ticks(at)) => {
                let left = at - self.post_now(post);
                if left.0 <= 0 {
                    self.hosted_overlay(post, OverlayInput::Tick);
                } else if self.hosted(post).is_some() {
                    let again = self.nature.now.after(left.max(Span::millis(1)));
                    let ticks = Happening::Post(post, PostTurn::Ticks(at));
                    self.nature.queue.push(again, ticks);
                }
            }
            (Post::Hosted(..), PostTurn::Unanswered(name, why)) => {
                self.hosted_overlay(post, OverlayInput::Answered(name, Err(why)));
            }
            (Post::Hosted(..), PostTurn::Unhosted(inner, part)) => {
                self.unhosted(post, inner, part);
            }
            (Post::Hosted(..), PostTurn::Checks(epoch)) => self.hosted_checks(post, epoch),
            (Post::Hosted(..), PostTurn::ShellDead(epoch)) => {
                let Some(hosted) = self.hosted(post) else {
                    return;
                };
                if hosted.desk.connected(epoch).is_some() {
                    hosted.desk.died(epoch);
                } else {
                    self.follow(post, FollowerInput::ShellDead(epoch));
                }
            }
        }
    }

    // -- the rank itself --

    pub(super) fn follow(&mut self, post: Post, input: FollowerInput) {
        let now = self.post_now(post);
        let Some(hosted) = hosted_in(&mut self.agents, post) else {
            return;
        };
        let mut outputs = Vec::new();
        hosted.follower.handle(now, input, &mut outputs);
        for output in outputs {
            self.do_for(post, output);
        }
    }

    fn do_for(&mut self, post: Post, output: FollowerOutput) {
        let Some((machine, _, id)) = hosting(post) else {
            return;
        };
        let Some(hosted) = hosted_in(&mut self.agents, post) else {
            return;
        };
        let nature = &mut self.nature;
        match output {
            FollowerOutput::Reply(reply) => {
                // What was refused may have been taken since, in other words.
                if reply.kind == Type::Refused {
                    nature.oracle(id).forget(reply.to);
                }
                tell_client(nature, id, reply);
            }
            FollowerOutput::CloseClient(client) => {
                hosted.desk.ended(PipeId(client.0));
                nature.close(PipeId(client.0), Side::Server);
            }
            FollowerOutput::Shell(epoch, word) => {
                if let Some(pipe) = hosted.desk.connected(epoch) {
                    nature.send(pipe, Side::Peer, Parcel::ToShell(word));
                }
            }
            FollowerOutput::CloseShell(epoch) => {
                if let Some(pipe) = hosted.desk.connected(epoch) {
                    hosted.desk.ended(pipe);
                    nature.close(pipe, Side::Server);
                }
            }
            FollowerOutput::LaunchShell(epoch) => self.launches(post, epoch),
            FollowerOutput::CheckShell(epoch) => {
                let checks = Happening::Post(post, PostTurn::Checks(epoch));
                nature.later(Delay::Process, checks);
            }
            FollowerOutput::EndShell(epoch) if nature.breaks(Rule::DeadSpared) => {
                hosted.desk.unwatch(epoch);
                let dead = Happening::Post(post, PostTurn::ShellDead(epoch));
                nature.later(Delay::Process, dead);
                self.instances[id.place()].kill_shell(&mut self.nature, epoch);
            }
            FollowerOutput::EndShell(epoch) => {
                let checks = Happening::Post(post, PostTurn::Checks(epoch));
                nature.later(Delay::Process, checks);
                self.instances[id.place()].kill_shell(&mut self.nature, epoch);
            }
            FollowerOutput::Facts(_) | FollowerOutput::Admitted(_) | FollowerOutput::Limits(_) => {}
            FollowerOutput::Host(order) => {
                let hosts = Happening::Agent(machine, AgentTurn::Hosts(id, order));
                nature.queue.push(nature.now, hosts);
            }
            FollowerOutput::Unhost(instance) => {
                if nature.breaks(Rule::HostsForNobody) {
                    return self.follow(post, FollowerInput::Unhosted(instance));
                }
                if let Some(inner) = InstanceId::named(&instance) {
                    let unhosts = Happening::Agent(machine, AgentTurn::Unhosts(id, inner));
                    nature.queue.push(nature.now, unhosts);
                }
            }
            FollowerOutput::Send(letter) => {
                self.hosted_overlay(post, OverlayInput::Send(letter));
            }
            FollowerOutput::AskLinks(to) => {
                let links = hosted.door.overlay().links();
                self.follow(post, FollowerInput::Links(to, links));
            }
        }
    }

    /// A shell of a hosted rank is launched.
    fn launches(&mut self, post: Post, epoch: Epoch) {
        let Some((machine, _, id)) = hosting(post) else {
            return;
        };
        let Some(hosted) = hosted_in(&mut self.agents, post) else {
            return;
        };
        let nature = &mut self.nature;
        let seat = Seat {
            machine,
            ranks: Idset::one(hosted.rank.0),
            keeper: Keeper::Agent,
            within: hosted.within.clone(),
        };
        hosted.desk.watch(epoch);
        self.instances[id.place()].launch_shell(nature, epoch, seat);
    }

    /// Looks whether a shell of a hosted rank lives: one that does is watched until it does not.
    fn hosted_checks(&mut self, post: Post, epoch: Epoch) {
        let id = post.instance();
        let lives = self.instances[id.place()].shells.contains_key(&epoch);
        let Some(hosted) = hosted_in(&mut self.agents, post) else {
            return;
        };
        if lives {
            hosted.desk.watch(epoch);
        } else {
            hosted.desk.unwatch(epoch);
            self.instances[id.place()].sweep(&mut self.nature, epoch);
            let dead = Happening::Post(post, PostTurn::ShellDead(epoch));
            self.nature.later(Delay::Process, dead);
        }
    }

    /// A shell of a hosted rank died: the agent looks, if it watches.
    pub(super) fn shell_missed(&mut self, id: InstanceId, epoch: Epoch) {
        let watching = self.agents.iter().find_map(|agent| {
            let hosted = agent.hosted.get(&id)?;
            hosted.desk.watches(epoch).then_some(hosted.post)
        });
        if let Some(post) = watching {
            self.hosted_checks(post, epoch);
        }
    }

    // -- its clients and shells --

    pub(super) fn hosted_brought(&mut self, post: Post, pipe: PipeId, parcel: Parcel) {
        let id = post.instance();
        match parcel {
            Parcel::FromClient(message, about) => {
                let client = ClientId(pipe.0);
                if message.kind == Type::Request {
                    let matchtag = message.matchtag;
                    let caller = Caller { client, matchtag };
                    // What changes while the answer is on its way cannot be judged at its end, and it may be
                    // the parent's.
                    let is_queue = self.instances[id.place()].is_queue();
                    let about = match about {
                        About::List | About::Get(_) | About::Events(_) | About::Stream => {
                            About::Other
                        }
                        submit @ About::Submit { .. } => submit,
                        _ if is_queue => About::Other,
                        other => other,
                    };
                    let about = self.instances[id.place()].judged(about);
                    self.nature.oracle(id).asked(caller, &about);
                    referred(&mut self.nature, id, &message);
                }
                self.follow(post, FollowerInput::Message(client, message));
            }
            Parcel::FromShell(message) => {
                let Some(hosted) = hosted_in(&mut self.agents, post) else {
                    return;
                };
                if let FromShell::Hello { epoch, .. } = &message {
                    let epoch = *epoch;
                    if hosted.desk.hello(pipe, epoch).is_some() {
                        self.follow(post, FollowerInput::ShellAway(epoch));
                    }
                }
                let said = self
                    .hosted(post)
                    .and_then(|hosted| hosted.desk.shell_on(pipe));
                if let Some(epoch) = said {
                    self.follow(post, FollowerInput::Shell(epoch, message));
                }
            }
            Parcel::ToClient(_)
            | Parcel::ToShell(_)
            | Parcel::Answer(_)
            | Parcel::Opened
            | Parcel::Frame(_) => {}
        }
    }

    pub(super) fn hosted_peer_ended(&mut self, post: Post, pipe: PipeId) {
        self.nature.pipes.close(pipe, Side::Server);
        let Some(hosted) = self.hosted(post) else {
            return;
        };
        match hosted.desk.ended(pipe) {
            Left::Shell(epoch, known) => {
                self.follow(post, FollowerInput::ShellAway(epoch));
                if known == Known::Dead {
                    self.follow(post, FollowerInput::ShellDead(epoch));
                }
            }
            Left::Nobody => {}
            Left::Client => self.follow(post, FollowerInput::Gone(ClientId(pipe.0))),
        }
    }
}

fn hosted_in(agents: &mut [crate::agent::Agent], post: Post) -> Option<&mut Hosted> {
    let (machine, _, instance) = hosting(post)?;
    let hosted = agents.get_mut(machine)?.hosted.get_mut(&instance)?;
    (hosted.post == post).then_some(hosted)
}

/// What is hosted, in a transcript.
fn seat_name(rank: Rank) -> String {
    match rank {
        ATTENDANT => "beside the leader".to_owned(),
        rank => format!("rank {rank}"),
    }
}
