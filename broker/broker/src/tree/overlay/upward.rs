//! A follower's way up: knocking, being sent on, and coming back.
//!
//! Part of [`super::Overlay`]; the leader has none of this. It knocks for ever,
//! first where it hung, then at the leader's door, with pauses that grow to a
//! second and differ from rank to rank.

use std::collections::BTreeMap;

use eddy_wire::id::Rank;
use eddy_wire::link::{Hello, HelloAnswer, PROTOCOL_MAX, PROTOCOL_MIN};
use eddy_wire::time::{Span, Time};
use eddy_wire::tree::Member;

use super::door::job_name;
use super::neighbour::{Neighbour, Pipe, Standing};
use super::{KNOCK_PATIENCE, Overlay, OverlayOutput, PipeId, Place, Upstream};
use crate::link::{Link, LinkOutput};

/// The first pause between knocks.
pub const PAUSE_MIN: Span = Span::millis(10);
/// The longest, give or take a quarter.
pub const PAUSE_MAX: Span = Span::seconds(1);
/// A rank without a way up for so long sends those below it to find another.
pub const ALONE_MAX: Span = Span::seconds(10);

/// What is being done about the way up.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    /// Nothing until then.
    Waiting(Time),
    /// A knock is unanswered; given up then.
    Knocking(PipeId, Door, Time),
    /// There is a pipe.
    Made,
}

/// Whose door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    /// The leader's.
    Leader,
    /// That of the rank to which the leader sent us.
    Sent(Rank),
    /// That of the rank under which we hung a moment ago.
    Former(Rank),
}

/// All of it.
#[derive(Debug)]
pub(super) struct Upward {
    way: Way,
    pub neighbour: Option<Neighbour>,
    /// Knocks in vain since the rank above was heard last.
    attempts: u32,
    next_pipe: u64,
    /// Alone since when, and what was heard last about it.
    since: Option<Time>,
    why: String,
    said: Option<Upstream>,
    /// What the rank above was told to be reached here, and at which version.
    pub told: Option<(u64, BTreeMap<Rank, Member>)>,
}

impl Upward {
    pub fn new() -> Upward {
        Upward {
            way: Way::Waiting(Time(i64::MIN)),
            neighbour: None,
            attempts: 0,
            next_pipe: 1,
            since: None,
            why: "nobody has answered yet".to_owned(),
            said: None,
            told: None,
        }
    }

    /// Whether letters go up now.
    pub fn is_open(&self) -> bool {
        self.neighbour
            .as_ref()
            .is_some_and(|above| above.is_open() && above.stands())
    }

    fn stands(&self) -> bool {
        self.neighbour.as_ref().is_some_and(Neighbour::stands)
    }

    /// The rank that is being asked to let us in.
    pub fn asked(&self) -> Option<Rank> {
        match self.way {
            Way::Knocking(_, Door::Leader, _) => Some(Rank(0)),
            Way::Knocking(_, Door::Sent(rank) | Door::Former(rank), _) => Some(rank),
            Way::Waiting(_) | Way::Made => None,
        }
    }

    /// A frame of the rank above came: what was in vain is forgotten.
    pub fn heard(&mut self) {
        self.attempts = 0;
    }

    /// When something is to be done; `below` is how many hang below.
    pub fn due(&self, below: usize) -> Option<Time> {
        let way = match self.way {
            Way::Waiting(until) | Way::Knocking(_, _, until) => Some(until),
            Way::Made => None,
        };
        let link = self.neighbour.as_ref().and_then(Neighbour::due);
        [way, link, self.patience_ends(below)]
            .into_iter()
            .flatten()
            .min()
    }

    fn patience_ends(&self, below: usize) -> Option<Time> {
        let since = self.since.filter(|_| below > 0 && !self.stands())?;
        Some(since + ALONE_MAX)
    }
}

/// The pause after so many knocks in vain. Differs from rank to rank by up to a
/// quarter each way, so that ranks that lost one parent do not knock in step.
pub(super) fn pause(rank: Rank, attempts: u32) -> Span {
    let doubled = PAUSE_MIN.0 << attempts.saturating_sub(1).min(10);
    let base = doubled.min(PAUSE_MAX.0);
    let mixed = (u64::from(rank.0) << 32 | u64::from(attempts)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let share = (mixed >> 40) as i64 % 512;
    Span(base * 3 / 4 + base * share / 1024)
}

impl Overlay {
    /// Does what is due about the way up; asked after every input.
    pub(super) fn climb(&mut self, now: Time, out: &mut Vec<OverlayOutput>) {
        if self.is_leader() {
            return;
        }
        if !self.up.stands() {
            self.up.since.get_or_insert(now);
        }
        if let Way::Waiting(until) = self.up.way
            && until <= now
        {
            self.dial(now, Door::Leader, self.seat.leader.clone(), out);
        }
        self.say_upstream(out);
    }

    /// Looks after knocks and patience that ran out.
    pub(super) fn climb_tick(&mut self, now: Time, out: &mut Vec<OverlayOutput>) {
        if let Way::Knocking(pipe, _, until) = self.up.way
            && until <= now
        {
            let why = format!("no answer within {KNOCK_PATIENCE} s");
            out.push(OverlayOutput::Close(pipe, why.clone()));
            self.knock_failed(now, &why, out);
        }
        let below = self.children.len();
        if self.up.patience_ends(below).is_some_and(|end| end <= now) {
            let why = format!("rank {} has no way up", self.seat.rank);
            let ranks: Vec<Rank> = self.children.keys().copied().collect();
            for rank in ranks {
                self.forsake(now, Place::Below(rank), &why, out);
            }
        }
    }

    fn dial(&mut self, now: Time, door: Door, at: String, out: &mut Vec<OverlayOutput>) {
        let pipe = PipeId(self.up.next_pipe);
        self.up.next_pipe += 2;
        let until = now + KNOCK_PATIENCE;
        self.up.way = Way::Knocking(pipe, door, until);
        self.want(until);
        let heard = self.up.neighbour.as_ref().and_then(|n| n.link.heard());
        out.push(OverlayOutput::Dial(pipe, at, Box::new(self.hello(heard))));
    }

    fn wait(&mut self, now: Time) {
        self.up.attempts = self.up.attempts.saturating_add(1);
        let until = now + pause(self.seat.rank, self.up.attempts);
        self.up.way = Way::Waiting(until);
        self.want(until);
    }

    /// A knock of ours was answered, or not.
    pub(super) fn answered(
        &mut self,
        now: Time,
        pipe: PipeId,
        answer: Result<HelloAnswer, String>,
        out: &mut Vec<OverlayOutput>,
    ) {
        let Way::Knocking(waited, door, _) = self.up.way else {
            return;
        };
        if waited != pipe {
            return;
        }
        match answer {
            Ok(HelloAnswer::Welcome {
                protocol, hello, ..
            }) => match self.check_welcome(protocol, &hello) {
                Ok(()) => self.welcomed(now, pipe, hello, out),
                Err(why) => {
                    out.push(OverlayOutput::Close(pipe, why.clone()));
                    self.knock_failed(now, &why, out);
                }
            },
            Ok(HelloAnswer::Elsewhere { rank, door: at }) => {
                let sound = door == Door::Leader && rank > Rank(0) && rank < self.seat.rank;
                match sound {
                    true => self.dial(now, Door::Sent(rank), at, out),
                    false => {
                        let why = format!("sent on to rank {rank}, which cannot be above");
                        self.knock_failed(now, &why, out);
                    }
                }
            }
            Ok(HelloAnswer::Refused(refusal)) => self.knock_failed(now, &refusal.text, out),
            Err(why) => self.knock_failed(now, &why, out),
        }
    }

    /// A knock came to nothing. At a former parent's door that may only mean that
    /// it is gone, so the leader is asked at once.
    fn knock_failed(&mut self, now: Time, why: &str, out: &mut Vec<OverlayOutput>) {
        let door = match self.up.way {
            Way::Knocking(_, door, _) => door,
            Way::Waiting(_) | Way::Made => Door::Leader,
        };
        match door {
            Door::Former(rank) => {
                self.up.why = format!("rank {rank}: {why}");
                self.dial(now, Door::Leader, self.seat.leader.clone(), out);
            }
            Door::Sent(rank) => {
                self.up.why = format!("rank {rank}: {why}");
                self.wait(now);
            }
            Door::Leader => {
                self.up.why = format!("the leader's door: {why}");
                self.wait(now);
            }
        }
    }

    /// Whether who welcomes us is who we asked.
    fn check_welcome(&self, protocol: u16, hello: &Hello) -> Result<(), String> {
        let (here, asked) = (&self.seat.instance, self.up.asked());
        if hello.instance != *here {
            return Err(format!(
                "instance {} answered; this is {here}",
                hello.instance
            ));
        }
        if hello.job != self.seat.job {
            let (given, own) = (job_name(hello.job), job_name(self.seat.job));
            return Err(format!("rank {} is of {given}; this is {own}", hello.rank));
        }
        if asked != Some(hello.rank) {
            return Err(format!("rank {} answered at another's door", hello.rank));
        }
        if !(PROTOCOL_MIN..=PROTOCOL_MAX).contains(&protocol) {
            return Err(format!(
                "protocol {protocol} was chosen; here it is {PROTOCOL_MIN} to {PROTOCOL_MAX}"
            ));
        }
        Ok(())
    }

    /// We are let in: on with the link we had there, or with a new one.
    fn welcomed(&mut self, now: Time, pipe: PipeId, hello: Hello, out: &mut Vec<OverlayOutput>) {
        let (rank, life) = (hello.rank, hello.life);
        let former = self.up.neighbour.as_ref();
        if former.is_some_and(|above| above.rank != rank || above.member.life != life) {
            self.drop_up(now, &format!("another rank, {rank}, let us in"), out);
        }
        let member = Member {
            life,
            door: hello.door,
        };
        let until = now + KNOCK_PATIENCE;
        let above = self.up.neighbour.get_or_insert_with(|| Neighbour {
            rank,
            member: member.clone(),
            link: Link::new(self.config, self.turn),
            pipe: Pipe::Welcomed(pipe, until),
            standing: Standing::New,
        });
        above.member = member;
        above.pipe = Pipe::Welcomed(pipe, until);
        let mut met = Vec::new();
        above.link.meet(life, hello.heard, &mut met);
        if met.contains(&LinkOutput::Fresh) {
            if above.stands() {
                self.up.since = Some(now);
                self.up.why = format!("the link to rank {rank} began anew");
            }
            above.standing = Standing::New;
            self.up.told = None;
        }
        self.up.way = Way::Made;
        self.pipes.insert(pipe, Place::Up);
        self.want(until);
    }

    /// The pipe up broke while the link is kept: back to where we hung.
    pub(super) fn pipe_up_broke(&mut self, now: Time, why: &str, out: &mut Vec<OverlayOutput>) {
        self.up.why = why.to_owned();
        let above = self.up.neighbour.as_ref();
        let Some(above) = above.filter(|_| self.up.attempts == 0) else {
            return self.wait(now);
        };
        self.up.attempts = 1;
        match above.rank {
            Rank(0) => self.dial(now, Door::Leader, self.seat.leader.clone(), out),
            rank => {
                let door = above.member.door.clone();
                self.dial(now, Door::Former(rank), door, out);
            }
        }
    }

    /// The link up is no more, its pipe is closed.
    pub(super) fn link_up_gone(&mut self, now: Time, why: &str, out: &mut Vec<OverlayOutput>) {
        self.drop_up(now, why, out);
        match self.up.way {
            Way::Knocking(pipe, Door::Former(_), _) => {
                let why = "the link there is given up".to_owned();
                out.push(OverlayOutput::Close(pipe, why));
                self.dial(now, Door::Leader, self.seat.leader.clone(), out);
            }
            Way::Made => self.wait(now),
            Way::Knocking(..) | Way::Waiting(_) => {}
        }
    }

    fn drop_up(&mut self, now: Time, why: &str, out: &mut Vec<OverlayOutput>) {
        let Some(mut above) = self.up.neighbour.take() else {
            return;
        };
        self.retire(&mut above, why, out);
        if above.stands() {
            self.up.since = Some(now);
            self.want(now + ALONE_MAX);
        }
        self.up.why = format!("rank {}: {why}", above.rank);
        self.up.told = None;
    }

    /// The link up begins.
    pub(super) fn up_stands(&mut self) {
        self.up.since = None;
    }

    /// Tells the driver whether there is a way up, when that changed.
    fn say_upstream(&mut self, out: &mut Vec<OverlayOutput>) {
        let standing = self.up.neighbour.as_ref().filter(|above| above.stands());
        let now = match (standing, self.up.since) {
            (Some(above), _) => Upstream::Linked(above.rank),
            (None, Some(since)) => {
                Upstream::Alone(format!("no way up since {since}: {}", self.up.why))
            }
            (None, None) => return,
        };
        if self.up.said.as_ref() != Some(&now) {
            self.up.said = Some(now.clone());
            out.push(OverlayOutput::Upstream(now));
        }
    }
}
