//! Who knocks at this rank, and where it is sent.
//!
//! Part of [`super::Overlay`]. The leader decides under which rank another
//! hangs; every rank refuses what is foreign, what speaks another protocol and a
//! second life beside one whose link is open. A rank hangs under a smaller one
//! only, so that ranks can never hang in a ring.

use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::{Attempt, JobId, Rank};
use eddy_wire::link::{Hello, HelloAnswer, PROTOCOL_MAX, PROTOCOL_MIN};
use eddy_wire::time::{Span, Time};
use eddy_wire::tree::{ATTENDANT, Member};
use uuid::Uuid;

use super::neighbour::{Neighbour, Pipe, Standing};
use super::{KNOCK_PATIENCE, Overlay, OverlayOutput, PipeId, Place, RANKS_MAX};
use crate::link::{Link, LinkOutput};

/// A rank that the leader sent to another and that comes back within this time
/// did not get in there. Longer than a knock may take.
pub const RETURN_WITHIN: Span = Span::seconds(15);

/// How long the leader keeps a rank waiting for the one that it belongs under.
/// Ranks that begin together come in any order; without this those that are
/// quicker than their parent would hang elsewhere for good.
pub const PARENT_PATIENCE: Span = Span::millis(300);

/// Where the leader sent a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    parent: Rank,
    life: Uuid,
    at: Time,
}

/// What becomes of who knocks and is not refused.
enum Entry {
    Here,
    Elsewhere(Rank, String),
}

/// The rank under which another hangs when all are there. The agent of the
/// leader's own node is beside the tree and hangs under the leader.
pub(super) fn parent_in_tree(rank: Rank, fanout: u32) -> Rank {
    if rank == ATTENDANT {
        return Rank(0);
    }
    Rank(rank.0.saturating_sub(1) / fanout.max(1))
}

impl Overlay {
    /// Somebody knocks.
    pub(super) fn knock(
        &mut self,
        now: Time,
        pipe: PipeId,
        hello: Hello,
        out: &mut Vec<OverlayOutput>,
    ) {
        let answer = match self.examine(&hello) {
            Err(refusal) => HelloAnswer::Refused(refusal),
            Ok(protocol) => match self.admit(now, &hello, out) {
                Err(refusal) => HelloAnswer::Refused(refusal),
                Ok(Entry::Elsewhere(rank, door)) => HelloAnswer::Elsewhere { rank, door },
                Ok(Entry::Here) => self.welcome(now, pipe, protocol, hello, out),
            },
        };
        out.push(OverlayOutput::Answer(pipe, answer));
    }

    /// What can be said of a hello by itself: the protocol both speak.
    fn examine(&self, hello: &Hello) -> Result<u16, Refusal> {
        let (here, rank) = (&self.seat.instance, hello.rank);
        if hello.instance != *here {
            let given = &hello.instance;
            let text = format!("instance {given} is not served here; this is {here}");
            return Err(Refusal::new(Code::NotFound, text));
        }
        if hello.job != self.seat.job {
            let (given, own) = (job_name(hello.job), job_name(self.seat.job));
            let text = format!("rank {rank} is of {given} of instance {here}; this is {own}");
            return Err(Refusal::new(Code::Conflict, text));
        }
        let (oldest, newest) = hello.protocol;
        let (low, high) = (oldest.max(PROTOCOL_MIN), newest.min(PROTOCOL_MAX));
        if low > high {
            return Err(Refusal::invalid(format!(
                "protocol {oldest} to {newest} is spoken by rank {rank}; \
                 here it is {PROTOCOL_MIN} to {PROTOCOL_MAX}"
            )));
        }
        if rank == Rank(0) {
            let text = "rank 0 is the leader and follows nobody";
            return Err(Refusal::new(Code::Conflict, text));
        }
        if rank <= self.seat.rank {
            let own = self.seat.rank;
            let text = format!("rank {rank} cannot hang under rank {own}: only larger ranks do");
            return Err(Refusal::invalid(text));
        }
        if rank.0 >= RANKS_MAX && rank != ATTENDANT {
            let text = format!("rank {rank} is over the limit `ranks` of {RANKS_MAX}");
            return Err(Refusal::new(Code::TooLarge, text));
        }
        match &self.ranks {
            Some(ranks) if rank != ATTENDANT && !ranks.contains(rank.0) => {
                let text = format!("rank {rank} is not in the inventory, which has {ranks}");
                Err(Refusal::new(Code::NotFound, text))
            }
            Some(_) | None => Ok(high),
        }
    }

    /// Whether it may come in here, given who is here.
    fn admit(
        &mut self,
        now: Time,
        hello: &Hello,
        out: &mut Vec<OverlayOutput>,
    ) -> Result<Entry, Refusal> {
        let rank = hello.rank;
        if let Some(child) = self.children.get(&rank) {
            let same = child.member.life == hello.life;
            let goes_on = hello
                .heard
                .is_some_and(|heard| heard.life == self.seat.life);
            let why = match (same, &child.pipe) {
                (true, _) if goes_on && child.stands() => return Ok(Entry::Here),
                (true, _) => "it has forgotten the link",
                (false, Pipe::Broken(..)) => "another life of it took over",
                (false, Pipe::Open(_) | Pipe::Welcomed(..)) => {
                    return Err(two_lives(rank, child.member.life, hello.life));
                }
            };
            self.forsake(now, Place::Below(rank), why, out);
        }
        let other = self.routes.member(rank).filter(|m| m.life != hello.life);
        match (self.is_leader(), other) {
            (true, None) => self.choose(now, hello),
            // Only the rank where the other life hangs knows whether it still does.
            (true, Some(other)) => self
                .sent_to(rank)
                .ok_or_else(|| two_lives(rank, other.life, hello.life)),
            (false, Some(other)) => Err(two_lives(rank, other.life, hello.life)),
            (false, None) if self.up.is_open() => Ok(Entry::Here),
            (false, None) => {
                let text = format!("rank {} has no way up", self.seat.rank);
                Err(Refusal::new(Code::NotReady, text))
            }
        }
    }

    /// The leader's decision: the nearest reached rank above it in the tree. One
    /// that comes back soon did not get in where it was sent: it goes one
    /// further up each time, at last to the leader, so this always ends.
    fn choose(&mut self, now: Time, hello: &Hello) -> Result<Entry, Refusal> {
        let came_back = self
            .sent
            .get(&hello.rank)
            .filter(|sent| sent.life == hello.life && now - sent.at < RETURN_WITHIN);
        let fanout = self.seat.fanout;
        let above = |rank| parent_in_tree(rank, fanout);
        let mut parent = above(came_back.map_or(hello.rank, |sent| sent.parent));
        if came_back.is_none() && parent != Rank(0) && !self.is_reached_now(parent) {
            self.wait_for_parent(now, hello, parent)?;
        }
        self.waits.remove(&hello.rank);
        while parent != Rank(0) && !self.is_reached_now(parent) {
            parent = above(parent);
        }
        let (life, at) = (hello.life, now);
        self.sent.insert(hello.rank, Sent { parent, life, at });
        Ok(match self.routes.member(parent) {
            Some(member) if parent != Rank(0) => Entry::Elsewhere(parent, member.door.clone()),
            _ => Entry::Here,
        })
    }

    /// Has a rank knock again a little later, while its parent may still come.
    fn wait_for_parent(&mut self, now: Time, hello: &Hello, parent: Rank) -> Result<(), Refusal> {
        let first = self.waits.entry(hello.rank).or_insert((hello.life, now));
        if first.0 != hello.life {
            *first = (hello.life, now);
        }
        if now - first.1 >= PARENT_PATIENCE {
            return Ok(());
        }
        let text = format!("rank {parent}, which it belongs under, has not come yet");
        Err(Refusal::new(Code::NotReady, text))
    }

    fn is_reached_now(&self, rank: Rank) -> bool {
        let link = self
            .routes
            .via(rank)
            .and_then(|via| self.children.get(&via));
        link.is_some_and(Neighbour::is_open)
    }

    /// The rank to which a rank was sent, if it hangs there as far as is known.
    fn sent_to(&self, rank: Rank) -> Option<Entry> {
        let sent = self.sent.get(&rank)?;
        let together = self.routes.via(sent.parent)? == self.routes.via(rank)?;
        let door = self.routes.member(sent.parent)?.door.clone();
        together.then_some(Entry::Elsewhere(sent.parent, door))
    }

    /// Lets it in: on with the link it had, or a new one.
    fn welcome(
        &mut self,
        now: Time,
        pipe: PipeId,
        protocol: u16,
        hello: Hello,
        out: &mut Vec<OverlayOutput>,
    ) -> HelloAnswer {
        let (rank, life) = (hello.rank, hello.life);
        let member = Member {
            life,
            door: hello.door,
        };
        let until = now + KNOCK_PATIENCE;
        self.replace_pipe(Place::Below(rank), out);
        let child = self.children.entry(rank).or_insert_with(|| Neighbour {
            rank,
            member: member.clone(),
            link: Link::new(self.config, self.turn),
            pipe: Pipe::Welcomed(pipe, until),
            standing: Standing::New,
        });
        child.pipe = Pipe::Welcomed(pipe, until);
        child.member = member;
        let mut met = Vec::new();
        child.link.meet(life, hello.heard, &mut met);
        let heard = child.link.heard();
        if met.contains(&LinkOutput::Fresh) {
            child.standing = Standing::New;
            self.routes.drop_link(rank, "its link began anew", out);
        }
        self.pipes.insert(pipe, Place::Below(rank));
        self.want(until);
        HelloAnswer::Welcome {
            protocol,
            hello: self.hello(heard),
            endpoint: None,
        }
    }

    /// A pipe that another takes the place of.
    fn replace_pipe(&mut self, place: Place, out: &mut Vec<OverlayOutput>) {
        let old = self.neighbour(place).and_then(|neighbour| {
            neighbour.link.closed();
            neighbour.pipe_id()
        });
        if let Some(old) = old {
            self.pipes.remove(&old);
            out.push(OverlayOutput::Close(
                old,
                "another pipe took its place".to_owned(),
            ));
        }
    }

    /// Under which rank the leader believes a rank to hang: where it was sent, or
    /// where it would be by the shape of the tree.
    pub(super) fn believed_parent(&self, rank: Rank) -> Option<Rank> {
        let via = self.routes.via(rank)?;
        if via == rank {
            return Some(self.seat.rank);
        }
        let behind = |above: &Rank| self.routes.via(*above) == Some(via);
        let sent = self.sent.get(&rank).map(|sent| sent.parent);
        if let Some(parent) = sent.filter(behind) {
            return Some(parent);
        }
        let mut parent = parent_in_tree(rank, self.seat.fanout);
        while parent > via && !behind(&parent) {
            parent = parent_in_tree(parent, self.seat.fanout);
        }
        Some(parent.max(via))
    }
}

/// Which job an instance is, for people.
pub(super) fn job_name(job: Option<(JobId, Attempt)>) -> String {
    match job {
        Some((job, attempt)) => format!("attempt {attempt} of job {job}"),
        None => "no job".to_owned(),
    }
}

fn two_lives(rank: Rank, held: Uuid, given: Uuid) -> Refusal {
    Refusal::new(
        Code::Conflict,
        format!("rank {rank} is held by life {held}; life {given} knocks: two agents for one rank"),
    )
}
