//! Which letter goes where, and what the rank above is told.
//!
//! Part of [`super::Overlay`]. A letter climbs until the rank it is for is below,
//! then goes down; it never returns over the link it came by, so none runs in a
//! circle. What cannot be brought is answered `unreachable`, once.

use std::collections::BTreeMap;

use bytes::Bytes;
use eddy_wire::id::Rank;
use eddy_wire::time::Time;
use eddy_wire::tree::{ATTENDANT, Address, Letter, Member, Word};

use super::neighbour::Neighbour;
use super::{Overlay, OverlayOutput, Place, RANKS_MAX};

/// Where a letter came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// This rank wrote it.
    Here,
    /// Over that link.
    Link(Place),
}

/// A letter with its bytes, made once and only if it goes on.
struct Post {
    letter: Letter,
    payload: Option<Bytes>,
}

impl Overlay {
    /// A letter of this rank's own.
    pub(super) fn send(&mut self, now: Time, letter: Letter, out: &mut Vec<OverlayOutput>) {
        let post = Post {
            letter,
            payload: None,
        };
        self.route(now, Origin::Here, post, out);
    }

    /// A payload came over a link.
    pub(super) fn received(
        &mut self,
        now: Time,
        place: Place,
        payload: Bytes,
        out: &mut Vec<OverlayOutput>,
    ) {
        let letter = match Letter::decode(&payload) {
            Ok(letter) => letter,
            Err(error) => return self.forsake(now, place, &error.to_string(), out),
        };
        if let Place::Below(child) = place {
            if let (Word::Reach(reach), Address::Next) = (&letter.word, letter.to) {
                return self.reach(now, child, reach, out);
            }
            // Left over from a path that does not hold any more.
            if self.routes.via(letter.from) != Some(child) {
                return;
            }
        }
        let post = Post {
            letter,
            payload: Some(payload),
        };
        self.route(now, Origin::Link(place), post, out);
    }

    /// A child said what it reaches.
    fn reach(
        &mut self,
        now: Time,
        child: Rank,
        reach: &BTreeMap<Rank, Member>,
        out: &mut Vec<OverlayOutput>,
    ) {
        let mut ends = [reach.keys().next(), reach.keys().next_back()].into_iter();
        let wrong = ends
            .by_ref()
            .flatten()
            .find(|rank| **rank < child || (rank.0 >= RANKS_MAX && child != ATTENDANT));
        if let Some(rank) = wrong {
            let why = format!("rank {child} says it reaches rank {rank}, which cannot be below it");
            return self.forsake(now, Place::Below(child), &why, out);
        }
        // One that was taken out may still be linked somewhere below.
        let is_known = |rank: &Rank| self.ranks.as_ref().is_none_or(|all| all.contains(rank.0));
        match reach.keys().all(is_known) {
            true => self.routes.replace(child, reach, out),
            false => {
                let known = reach.iter().filter(|(rank, _)| is_known(rank));
                let known = known.map(|(rank, member)| (*rank, member.clone()));
                self.routes.replace(child, &known.collect(), out);
            }
        }
    }

    fn route(&mut self, now: Time, origin: Origin, post: Post, out: &mut Vec<OverlayOutput>) {
        let to = match post.letter.to {
            Address::Leader => Address::Rank(Rank(0)),
            to => to,
        };
        match (to, origin) {
            // Reach is for the overlay alone; one that strayed means nothing.
            _ if matches!(post.letter.word, Word::Reach(_)) => {}
            (Address::Next, Origin::Here) => self.post(now, Place::Up, &post, out),
            (Address::Next, Origin::Link(_)) => out.push(OverlayOutput::Deliver(post.letter)),
            (Address::Below, Origin::Link(Place::Below(_))) => {}
            (Address::Below, _) => self.spread(now, origin, post, out),
            (Address::Rank(rank), _) if rank == self.seat.rank => {
                out.push(OverlayOutput::Deliver(post.letter));
            }
            (Address::Rank(rank), Origin::Link(Place::Up)) if self.is_void(rank, &post.letter) => {}
            (Address::Rank(rank), _) => match self.next_hop(rank, origin) {
                Some(place) => self.post(now, place, &post, out),
                None => self.bounce(now, rank, &post.letter, out),
            },
            (Address::Leader, _) => unreachable!("spelt as rank 0 above"),
        }
    }

    /// Whether a letter of the leader is of a tenure that is over for that rank.
    fn is_void(&mut self, rank: Rank, letter: &Letter) -> bool {
        let counts = letter.from == Rank(0) && letter.tenure.number > 0;
        counts && !self.routes.pass(rank, letter.tenure)
    }

    /// The link over which a rank is reached; none when that is the one by which
    /// the letter came, or when there is none.
    fn next_hop(&self, rank: Rank, origin: Origin) -> Option<Place> {
        let place = match (self.routes.via(rank), self.is_leader()) {
            (Some(via), _) => Place::Below(via),
            (None, false) => Place::Up,
            (None, true) => return None,
        };
        (origin != Origin::Link(place)).then_some(place)
    }

    /// To everybody below, and to this rank unless it wrote it.
    fn spread(&mut self, now: Time, origin: Origin, post: Post, out: &mut Vec<OverlayOutput>) {
        let standing = self.children.values().filter(|child| child.stands());
        let ranks: Vec<Rank> = standing.map(|child| child.rank).collect();
        let payload = post.payload.or_else(|| post.letter.encode().ok());
        let post = Post { payload, ..post };
        for rank in ranks {
            self.post(now, Place::Below(rank), &post, out);
        }
        if origin != Origin::Here {
            out.push(OverlayOutput::Deliver(post.letter));
        }
    }

    /// Gives a letter to a link. Without a way up it is dropped: in the next
    /// tenure everything that still matters is said again.
    fn post(&mut self, now: Time, place: Place, post: &Post, out: &mut Vec<OverlayOutput>) {
        if !self.neighbour(place).is_some_and(|n| n.stands()) {
            return;
        }
        let payload = match &post.payload {
            Some(payload) => payload.clone(),
            None => match post.letter.encode() {
                Ok(payload) => payload,
                // Too large with its address: whoever waits for it must hear.
                Err(_) => return self.cannot(now, place, &post.letter, out),
            },
        };
        self.give(now, place, payload, out);
    }

    fn give(&mut self, now: Time, place: Place, payload: Bytes, out: &mut Vec<OverlayOutput>) {
        let Some(neighbour) = self.neighbour(place) else {
            return;
        };
        let mut done = Vec::new();
        match neighbour.link.send(now, payload, &mut done) {
            Ok(()) => self.digest(now, place, done, out),
            Err(full) => self.forsake(now, place, &full.to_string(), out),
        }
    }

    fn cannot(&mut self, now: Time, place: Place, letter: &Letter, out: &mut Vec<OverlayOutput>) {
        match (letter.to, place) {
            (Address::Rank(rank), _) => self.bounce(now, rank, letter, out),
            (Address::Leader, _) => self.bounce(now, Rank(0), letter, out),
            (Address::Next | Address::Below, _) => {}
        }
    }

    /// Says to the writer of a letter that it could not be brought.
    fn bounce(&mut self, now: Time, rank: Rank, letter: &Letter, out: &mut Vec<OverlayOutput>) {
        if matches!(letter.word, Word::Unreachable { .. }) {
            return;
        }
        let answer = Letter {
            to: Address::Rank(letter.from),
            from: self.seat.rank,
            tenure: letter.tenure,
            word: Word::Unreachable { rank },
        };
        self.send(now, answer, out);
    }

    /// Tells the rank above what is reached here, if it does not know. Ranks that
    /// were lost in between are first left out once, so that it hears of the loss.
    pub(super) fn tell_up(&mut self, now: Time, out: &mut Vec<OverlayOutput>) {
        let version = self.routes.version();
        let standing = self.up.neighbour.as_ref().is_some_and(Neighbour::stands);
        if self.is_leader() || !standing {
            self.routes.take_lost();
            return;
        }
        if self.up.told.as_ref().is_some_and(|told| told.0 == version) {
            return;
        }
        let lost = self.routes.take_lost();
        let mut reached = self.routes.reached();
        let (life, door) = (self.seat.life, self.seat.door.clone());
        reached.insert(self.seat.rank, Member { life, door });
        let told = self.up.told.take().map(|(_, told)| told);
        let told = told.unwrap_or_default();
        let returned = |rank: &&Rank| told.contains_key(rank) && reached.contains_key(rank);
        if lost.iter().any(|rank| returned(&rank)) {
            let mut without = reached.clone();
            without.retain(|rank, _| !lost.contains(rank));
            self.say_reach(now, without, out);
        }
        self.up.told = Some((version, reached.clone()));
        if told != reached || !lost.is_empty() {
            self.say_reach(now, reached, out);
        }
    }

    fn say_reach(
        &mut self,
        now: Time,
        reach: BTreeMap<Rank, Member>,
        out: &mut Vec<OverlayOutput>,
    ) {
        let letter = Letter {
            to: Address::Next,
            from: self.seat.rank,
            tenure: Default::default(),
            word: Word::Reach(reach),
        };
        match letter.encode() {
            Ok(payload) => self.give(now, Place::Up, payload, out),
            Err(error) => self.forsake(now, Place::Up, &error.to_string(), out),
        }
    }
}
