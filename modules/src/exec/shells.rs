//! The shells of the instance: which life of each serves which ranks, and what
//! each has been sent.
//!
//! The ranks on the leader's own node share one shell, started at once. Every
//! other rank has a node and a shell of its own, started when the rank is
//! reached. A rank that is not reached keeps the shell it had: nobody can say
//! that it is dead. Everything is kept as it changes, since a thousand shells
//! come and go one by one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use eddy_broker::shellbook::KEEPS;
use eddy_broker::{Effect, Outbox, Volatile};
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::{Epoch, Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::payload::Payloads;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::shell::{Start, ToShell};
use eddy_wire::spec::{self, Spec};
use eddy_wire::time::{Span, Time};

/// How many shells may be started in a row on one seat without a pause: the
/// first and three more, as leaders and agents are.
const LAUNCHES_MAX: usize = 4;
/// Within how long.
const LAUNCH_WINDOW: Span = Span::seconds(60);

/// Where a shell sits: each has one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seat {
    /// The leader's own node, with all ranks on it.
    Own,
    /// The node of this rank.
    Of(Rank),
}

/// A life of a shell in service.
#[derive(Debug)]
struct Serving {
    seat: Seat,
    ranks: Idset,
    /// The record that says so.
    seq: Seq,
}

/// The shells, by epoch.
#[derive(Debug, Default)]
pub(super) struct Shells {
    /// The ranks on the leader's own node.
    local: Idset,
    leader: Epoch,
    nodes: Arc<ResourceSet>,
    inventory: Idset,
    current: BTreeMap<Epoch, Serving>,
    /// Lives in service on the leader's own node: one, but in an instance that
    /// was once spread over other nodes than now.
    own: BTreeSet<Epoch>,
    /// The life in service of each rank elsewhere.
    seats: BTreeMap<Rank, Epoch>,
    /// The ranks that are reached now.
    reached: Idset,
    /// Ranks elsewhere that are reached and have no shell.
    bare: BTreeSet<Rank>,
    /// Lives in service on ranks that are in the inventory no more.
    strangers: BTreeSet<Epoch>,
    /// Seats for which a record is proposed, and the highest epoch proposed.
    proposed: BTreeSet<Seat>,
    given: Epoch,
    /// The highest epoch ever recorded, and its record.
    last: (Epoch, Seq),
    /// The record of its loss, once it is lost: without it a restart from a
    /// mark would find it in service.
    last_lost: Option<Seq>,
    /// The record of the present leader.
    leader_seq: Seq,
    /// What each connected shell keeps of the payloads it was sent.
    connected: BTreeMap<Epoch, Payloads<()>>,
    /// When shells were last launched.
    launches: BTreeMap<Seat, VecDeque<Time>>,
    course: Course,
    launch: Launch,
}

/// Whether the shell that was recorded last is still to be started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Launch {
    /// It was, and serves more ranks now.
    #[default]
    IsThere,
    Owed,
}

/// Whether shells are still wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Course {
    #[default]
    Serving,
    /// What runs is being ended.
    Stopping,
    /// Nothing runs: a shell that comes now may go.
    Dismissed,
}

/// The texts that starts of one job name, made once for all its shells.
pub(super) struct Texts<'s> {
    spec: &'s Spec,
    jobspec: Option<Arc<str>>,
    environment: Option<Arc<str>>,
}

impl Texts<'_> {
    pub(super) fn of(spec: &Spec) -> Texts<'_> {
        Texts {
            spec,
            jobspec: None,
            environment: None,
        }
    }

    fn jobspec(&mut self) -> Arc<str> {
        let text = || String::from_utf8_lossy(&self.spec.text).into();
        Arc::clone(self.jobspec.get_or_insert_with(text))
    }

    fn environment(&mut self) -> Arc<str> {
        let text = || String::from_utf8_lossy(&self.spec.environment_text).into();
        Arc::clone(self.environment.get_or_insert_with(text))
    }
}

impl Shells {
    /// No shells yet. `local` are the ranks on the leader's own node.
    pub(super) fn new(local: Idset) -> Shells {
        Shells {
            local,
            ..Shells::default()
        }
    }

    /// Folds a record.
    pub(super) fn apply(&mut self, record: &Record) {
        match &record.event.kind {
            Kind::LeaderStart(epoch) => (self.leader, self.leader_seq) = (*epoch, record.seq),
            Kind::ResourceDefine(set, _) => {
                self.nodes = Arc::clone(set);
                self.defined(set.ranks());
            }
            Kind::ShellStart(ranks, epoch) => self.started(ranks, *epoch, record.seq),
            Kind::ShellLost(epoch, _) => self.lost(*epoch, record.seq),
            _ => {}
        }
    }

    fn defined(&mut self, inventory: Idset) {
        self.inventory = inventory;
        let elsewhere = self.inventory.difference(&self.local);
        let bare = elsewhere.intersect(&self.reached);
        let bare = bare.iter().map(Rank);
        self.bare = bare.filter(|rank| !self.seats.contains_key(rank)).collect();
        let gone = |(rank, _): &(&Rank, &Epoch)| !elsewhere.contains(rank.0);
        let has_seat = |seat: &Seat| match seat {
            Seat::Own => true,
            Seat::Of(rank) => self.inventory.contains(rank.0),
        };
        self.launches.retain(|seat, _| has_seat(seat));
        self.strangers = self.seats.iter().filter(gone).map(|(_, e)| *e).collect();
    }

    fn started(&mut self, ranks: &Idset, epoch: Epoch, seq: Seq) {
        self.launch = match self.current.contains_key(&epoch) {
            true => Launch::IsThere,
            false => Launch::Owed,
        };
        let seat = self.seat_of(ranks);
        match seat {
            Seat::Own => drop(self.own.insert(epoch)),
            Seat::Of(rank) => {
                self.seats.insert(rank, epoch);
                self.bare.remove(&rank);
            }
        }
        self.proposed.remove(&seat);
        let ranks = ranks.clone();
        self.current.insert(epoch, Serving { seat, ranks, seq });
        if epoch > self.last.0 {
            (self.last, self.last_lost) = ((epoch, seq), None);
        }
    }

    fn lost(&mut self, epoch: Epoch, seq: Seq) {
        self.connected.remove(&epoch);
        self.strangers.remove(&epoch);
        self.own.remove(&epoch);
        if epoch == self.last.0 {
            self.last_lost = Some(seq);
        }
        let Some(serving) = self.current.remove(&epoch) else {
            return;
        };
        if let Seat::Of(rank) = serving.seat
            && self.seats.get(&rank) == Some(&epoch)
        {
            self.seats.remove(&rank);
            if self.inventory.contains(rank.0) && self.reached.contains(rank.0) {
                self.bare.insert(rank);
            }
        }
    }

    fn seat_of(&self, ranks: &Idset) -> Seat {
        match ranks.first() {
            Some(first) if ranks.is_disjoint(&self.local) => Seat::Of(Rank(first)),
            Some(_) | None => Seat::Own,
        }
    }

    /// The records this rests on: shells in service, the last epoch given, the leader.
    pub(super) fn live(&self, seqs: &mut Vec<Seq>) {
        seqs.extend(self.current.values().map(|serving| serving.seq));
        seqs.extend(self.last_lost);
        seqs.extend(
            [self.last.1, self.leader_seq]
                .into_iter()
                .filter(|seq| seq.0 > 0),
        );
    }

    /// Whether that life of a shell is in service.
    pub(super) fn is_current(&self, epoch: Epoch) -> bool {
        self.current.contains_key(&epoch)
    }

    /// The life in service of a rank's shell, if it is on another node.
    pub(super) fn of(&self, rank: Rank) -> Option<Epoch> {
        self.seats.get(&rank).copied()
    }

    /// The name of a rank's node.
    pub(super) fn host(&self, rank: Rank) -> Option<Arc<str>> {
        let node = self.nodes.nodes.get(&rank)?;
        Some(Arc::clone(&node.host))
    }

    /// Whether that rank is reached now.
    pub(super) fn is_reached(&self, rank: Rank) -> bool {
        self.reached.contains(rank.0)
    }

    /// The one rank that life of a shell serves, if it is on another node.
    pub(super) fn rank_of(&self, epoch: Epoch) -> Option<Rank> {
        match self.current.get(&epoch)?.seat {
            Seat::Own => None,
            Seat::Of(rank) => Some(rank),
        }
    }

    /// Lives in service of shells whose ranks were taken out and that nothing
    /// rests on; each is told once. One whose connection has ended does not come back: nothing reaches its rank any
    /// more, so what rests on it would wait for ever.
    pub(super) fn retired(&mut self, is_used: impl Fn(Epoch) -> bool) -> Vec<Epoch> {
        let all = std::mem::take(&mut self.strangers);
        let is_used = |epoch: &Epoch| is_used(*epoch) && self.connected.contains_key(epoch);
        let (used, retired) = all.into_iter().partition(is_used);
        self.strangers = used;
        let retired: BTreeSet<Epoch> = retired;
        retired.into_iter().collect()
    }

    /// No more shells are to be started.
    pub(super) fn stop(&mut self) {
        self.course = Course::Stopping;
    }

    /// A shell's connection ended. It comes back by itself, or it is dead: one
    /// of both will be told, now or when its rank is reached again.
    pub(super) fn away(&mut self, epoch: Epoch, out: &mut Outbox) {
        self.connected.remove(&epoch);
        self.check(epoch, out);
    }

    /// Asks after the shell of the leader's own node; those elsewhere are
    /// asked after as their ranks are reached.
    pub(super) fn check_own(&self, out: &mut Outbox) {
        self.own.iter().for_each(|epoch| self.check(*epoch, out));
    }

    fn check(&self, epoch: Epoch, out: &mut Outbox) {
        let Some(serving) = self.current.get(&epoch) else {
            return;
        };
        let is_there = match serving.seat {
            Seat::Own => true,
            Seat::Of(rank) => self.reached.contains(rank.0),
        };
        if is_there {
            out.volatile(Volatile::CheckShell(serving.ranks.clone(), epoch));
        }
    }

    /// These ranks are reached now and no others; those that were not before.
    pub(super) fn reach(&mut self, now: Time, ranks: &Idset, out: &mut Outbox) -> Idset {
        let new = ranks.difference(&self.reached);
        for rank in self.reached.difference(ranks).iter() {
            self.bare.remove(&Rank(rank));
        }
        self.reached = ranks.clone();
        for rank in new.difference(&self.local).iter() {
            match self.seats.get(&Rank(rank)) {
                Some(epoch) => self.check(*epoch, out),
                None if self.inventory.contains(rank) => drop(self.bare.insert(Rank(rank))),
                None => {}
            }
        }
        self.cover(now, out);
        new
    }

    /// Answers a hello: who leads.
    pub(super) fn welcome(&mut self, epoch: Epoch, out: &mut Outbox) {
        self.connected.insert(epoch, Payloads::new(KEEPS));
        out.effect(Effect::Shell(
            epoch,
            ToShell::Welcome {
                leader: self.leader,
            },
        ));
        if self.course == Course::Dismissed {
            out.effect(Effect::Shell(epoch, ToShell::Exit));
        }
    }

    /// Sends a start and what it needs that the shell does not hold. A shell
    /// that is away is told after its next hello.
    pub(super) fn send_start(&mut self, start: Start, texts: &mut Texts<'_>, out: &mut Outbox) {
        let epoch = start.shell;
        let Some(payloads) = self.connected.get_mut(&epoch) else {
            return;
        };
        // Twice, since sending the one may have pushed out the other.
        let (jobspec, environment) = (texts.spec.hash, texts.spec.environment_hash);
        let needed = match texts.spec.texts {
            spec::Texts::Whole => &[jobspec, environment, jobspec, environment][..],
            // Ground needs none, and a shell that has the part does not begin it again.
            spec::Texts::Lost => &[],
        };
        for &hash in needed {
            if payloads.get(&hash).is_none() {
                let text = match hash == jobspec {
                    true => texts.jobspec(),
                    false => texts.environment(),
                };
                payloads.keep(hash, text.len() as u64, ());
                out.effect(Effect::Shell(epoch, ToShell::Payload { hash, text }));
            }
        }
        out.effect(Effect::Shell(epoch, ToShell::Start(Box::new(start))));
    }

    /// Has ranks served that no shell serves: on the leader's own node by the
    /// shell that is there (an inventory that grew is of the same node), else
    /// by a new one, a little later if the shells of that seat keep dying.
    pub(super) fn cover(&mut self, now: Time, out: &mut Outbox) {
        if self.course != Course::Serving {
            return;
        }
        let mut later = None;
        self.cover_own(now, &mut later, out);
        let bare: Vec<Rank> = self.bare.iter().copied().collect();
        for rank in bare {
            self.launch(now, Seat::Of(rank), Idset::one(rank.0), &mut later, out);
        }
        if let Some(at) = later {
            out.volatile(Volatile::Wake(at));
        }
    }

    fn cover_own(&mut self, now: Time, later: &mut Option<Time>, out: &mut Outbox) {
        let serving = self.own.iter().filter_map(|epoch| self.current.get(epoch));
        let covered = serving.fold(Idset::new(), |all, serving| all.union(&serving.ranks));
        let bare = self.inventory.intersect(&self.local).difference(&covered);
        if bare.is_empty() {
            return;
        }
        let Some((epoch, serving)) = self
            .own
            .last()
            .and_then(|epoch| self.current.get_key_value(epoch))
        else {
            return self.launch(now, Seat::Own, bare, later, out);
        };
        if self.proposed.insert(Seat::Own) {
            let ranks = serving.ranks.intersect(&self.local).union(&bare);
            out.append_own(now, Kind::ShellStart(ranks, *epoch));
        }
    }

    /// Proposes another life of the shell on that seat, unless it had too many;
    /// `later` is then when it may have one.
    fn launch(
        &mut self,
        now: Time,
        seat: Seat,
        ranks: Idset,
        later: &mut Option<Time>,
        out: &mut Outbox,
    ) {
        if self.proposed.contains(&seat) {
            return;
        }
        let launches = self.launches.entry(seat).or_default();
        while launches
            .pop_front_if(|t| t.after(LAUNCH_WINDOW) <= now)
            .is_some()
        {}
        if launches.len() >= LAUNCHES_MAX
            && let Some(oldest) = launches.front()
        {
            let at = oldest.after(LAUNCH_WINDOW);
            *later = Some(later.map_or(at, |earliest| earliest.min(at)));
            return;
        }
        launches.push_back(now);
        self.proposed.insert(seat);
        self.given = self.given.max(self.last.0).next();
        out.append_own(now, Kind::ShellStart(ranks, self.given));
    }

    /// The start of a shell is recorded: starts it, unless it is there.
    pub(super) fn recorded(&self, ranks: &Idset, epoch: Epoch, out: &mut Outbox) {
        if self.launch == Launch::Owed {
            out.effect(Effect::LaunchShell(ranks.clone(), epoch));
        }
    }

    /// The instance has recorded its end: the shells may go.
    pub(super) fn dismiss(&mut self, out: &mut Outbox) {
        self.course = Course::Dismissed;
        for epoch in self.current.keys() {
            out.effect(Effect::Shell(*epoch, ToShell::Exit));
        }
    }
}
