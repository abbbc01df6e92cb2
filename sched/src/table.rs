//! Accounts that take turns in a running instance: who waits of each, and a round
//! over them in steps.
//!
//! The same choices as [`crate::rounds::schedule`] makes where nothing that runs is
//! taken back, over the nodes of the occupancy instead of a state that is copied:
//! by cost (`cost`) or by slices and a draw (`deal`). Told by the planner who comes
//! and goes; what each account holds say the books of the occupancy. Nothing is
//! reserved but for those who waited too long (`late`). It knows no clock.

mod cost;

mod late;

mod deal;

mod shapes;

mod told;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use eddy_wire::account::Name;
use eddy_wire::id::JobId;
use eddy_wire::plan::Owner;
use eddy_wire::time::{Span, Time};

use crate::accounts::{Stop, account_of};
use crate::amounts::Amounts;
use crate::occupancy::{Ask, Now, Occupancy, Spot};
use crate::policy::{Charge, NodeRank, Policy, Preference, Share, SliceBasis, Source, Walk};
use crate::rounds::{all_alike, drf};
use crate::turns::{Turn, Turns};
use crate::walk::{Blocked, Room, Verdict};
use cost::Cost;
use deal::Deal;
use late::Late;
use shapes::{Shape, Shapes, Stuck};

/// The least usage of an account where the policy does not say (Armada, HTCondor).
const FLOOR: f64 = 0.5;

/// Up to so many different needs of an account are passed at once: each is looked at for that.
const ALIKE_MAX: usize = 64;

/// The least that an account weighs: one without shares comes last, and what it costs is a number.
pub(crate) const WEIGHT_MIN: f64 = 1e-6;

/// What of a policy a round obeys.
#[derive(Clone, Debug)]
struct Rules {
    policy: Policy,
    turns: Taking,
    /// Resources that cost, each with its multiplier.
    resources: BTreeMap<String, f64>,
    large: Preference,
    floor: f64,
}

/// How accounts take turns.
#[derive(Clone, Copy, Debug)]
enum Taking {
    ByCost,
    BySlices(SliceBasis, crate::policy::Remainder),
}

/// Who waits, by account.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    rules: Rules,
    lines: BTreeMap<String, Line>,
    shapes: Shapes,
    late: Late,
    round: Option<Round>,
    /// What stopped everybody in the last round, and what single accounts.
    stop: Option<Halt>,
    stops: BTreeMap<String, Halt>,
    /// What accounts weigh.
    weights: Arc<BTreeMap<String, f64>>,
    news: News,
    /// When the limits that held somebody back in the last round let go.
    again: Option<Time>,
    /// Where the next draw begins.
    seed: u64,
}

/// Those of one account, in the order of their turn.
#[derive(Clone, Debug, Default)]
struct Line {
    jobs: BTreeMap<Turn, Entry>,
    /// The same by what no placement can tell apart; those that name ranks are under none.
    alike: BTreeMap<Option<Shape>, BTreeSet<Turn>>,
    /// The sum of what they ask for.
    asked: Amounts,
}

#[derive(Clone, Debug)]
struct Entry {
    ask: Arc<Ask>,
    shape: Option<Shape>,
    span: Span,
    asks: Amounts,
    /// The priority of its class.
    class: i64,
}

/// A round that is under way.
#[derive(Clone, Debug)]
struct Round {
    now: Time,
    /// What does not fit in it; room only shrinks.
    stuck: Stuck,
    course: Course,
}

#[derive(Clone, Debug)]
enum Course {
    /// Those who waited too long are first.
    Late(VecDeque<(Time, Turn)>),
    Cost(Cost),
    Deal(Deal),
}

/// What keeps those who wait from being looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    Limit(Stop),
    /// Nobody passes this one of the account.
    Behind(JobId),
    /// So many of the account were looked at.
    Lookback(u32),
}

/// Whether anything happened since the last round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    None,
    Some,
}

/// How far a round has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A job starts; what it holds is to be told before the round goes on.
    Started,
    More,
    Done,
}

/// What became of an offer.
enum Offered {
    Started,
    /// It waits: others of the account may go.
    No,
    /// It can never be.
    Never,
    Account,
    All,
}

fn weight(weights: &BTreeMap<String, f64>, account: &str) -> f64 {
    weights.get(account).copied().unwrap_or(1.0).max(WEIGHT_MIN)
}

type Verdicts = Vec<Verdict<Turn, Spot>>;

impl Table {
    /// Nobody waits; `None` where accounts do not take turns by the policy.
    pub fn new(policy: &Policy) -> Option<Table> {
        let turns = match policy.queue.source {
            Source::Global | Source::ByQueue => return None,
            Source::PerAccountCost => Taking::ByCost,
            Source::PerAccountSlices { basis, remainder } => Taking::BySlices(basis, remainder),
        };
        let (resources, _, large) = drf(policy, all_alike(&crate::accounts::KINDS));
        let floor = match policy.share.algorithm {
            Share::PriorityFloor { floor } => floor,
            Share::None
            | Share::Classic { .. }
            | Share::Ticket { .. }
            | Share::FairTree
            | Share::ProjectRatio { .. }
            | Share::PbsTree { .. }
            | Share::Drf { .. } => FLOOR,
        };
        Some(Table {
            rules: Rules {
                policy: policy.clone(),
                turns,
                resources,
                large,
                floor,
            },
            lines: BTreeMap::new(),
            shapes: Shapes::default(),
            late: Late::new(policy.queue.reserve_after),
            round: None,
            stop: None,
            stops: BTreeMap::new(),
            weights: Arc::default(),
            news: News::Some,
            again: None,
            seed: 1,
        })
    }

    /// Where jobs go by a policy whose accounts take turns: any node that will do is the best.
    pub fn rank(policy: &Policy) -> NodeRank {
        match (policy.queue.source, policy.placement.rank) {
            (Source::PerAccountCost | Source::PerAccountSlices { .. }, NodeRank::FirstFit) => {
                NodeRank::BestFit
            }
            (_, rank) => rank,
        }
    }

    /// What accounts weigh from the next round on; whoever is not named weighs 1.
    pub fn weigh(&mut self, weights: BTreeMap<String, f64>) {
        self.weights = Arc::new(weights);
    }

    fn weight(&self, account: &str) -> f64 {
        weight(&self.weights, account)
    }

    /// Something happened that a round has not looked at.
    pub fn stir(&mut self) {
        self.news = News::Some;
    }

    /// One more waits.
    pub fn enter(&mut self, turn: Turn, ask: Arc<Ask>, limit: Option<Span>, asks: Amounts) {
        let span = limit.or(self.rules.policy.queue.default_limit);
        let class = self.rules.class_of(&ask.want.owner);
        let line = self.lines.entry(account_of(&ask.want.owner)).or_default();
        line.asked += asks;
        let shape = self.shapes.enter(&ask);
        if let (Some(shape), Some(round)) = (shape, &mut self.round) {
            round.stuck.asked(shape);
        }
        line.alike.entry(shape).or_default().insert(turn);
        let span = span.unwrap_or(Span(i64::MAX));
        self.late.enter(turn, &ask, span);
        let entry = Entry {
            shape,
            span,
            ask,
            asks,
            class,
        };
        line.jobs.insert(turn, entry);
        self.stir();
    }

    /// One does not wait any more.
    pub fn leave(&mut self, turn: &Turn, owner: &Owner, room: &mut Occupancy) {
        let account = account_of(owner);
        let Some(line) = self.lines.get_mut(&account) else {
            return;
        };
        if let Some(entry) = line.jobs.remove(turn) {
            line.asked -= entry.asks;
            self.shapes.leave(&entry.ask);
            self.late.leave(turn, &entry.ask, room);
            let shape = entry.shape;
            if let Some(alike) = line.alike.get_mut(&shape) {
                alike.remove(turn);
                if alike.is_empty() {
                    line.alike.remove(&shape);
                }
            }
        }
        if line.jobs.is_empty() {
            self.lines.remove(&account);
        }
    }

    /// Goes on with the round, or begins one if there was news; looks at so many jobs at most.
    pub fn round(
        &mut self,
        room: &mut Occupancy,
        turns: &Turns,
        now: Time,
        looks: &mut u64,
        out: &mut Verdicts,
    ) -> Next {
        let mut round = match self.round.take() {
            Some(round) => round,
            None if self.news == News::None && self.again.is_none_or(|at| at > now) => {
                return Next::Done;
            }
            None => self.begin(room, turns, now),
        };
        while *looks > 0 {
            *looks -= 1;
            let Round {
                now, stuck, course, ..
            } = &mut round;
            let next = match course {
                Course::Late(late) => match late.pop_front() {
                    Some(one) => self.late_step(one, room, *now, out),
                    None => {
                        round = self.in_turn(room, turns, *now);
                        Next::More
                    }
                },
                Course::Cost(cost) => self.cost_step(cost, stuck, room, *now, out),
                Course::Deal(deal) => self.deal_step(deal, stuck, room, *now, out),
            };
            match next {
                Next::More => {}
                Next::Started => {
                    self.round = Some(round);
                    return Next::Started;
                }
                Next::Done => {
                    if let Course::Deal(deal) = &round.course {
                        self.seed = deal.seed();
                    }
                    let late = self.late.next(round.now);
                    self.again = room.gate().again().into_iter().chain(late).min();
                    return Next::Done;
                }
            }
        }
        self.round = Some(round);
        Next::More
    }

    /// When there is to be a round though nothing happens.
    pub fn again(&self) -> Option<Time> {
        self.again
    }

    fn begin(&mut self, room: &mut Occupancy, turns: &Turns, now: Time) -> Round {
        (self.news, self.again) = (News::None, None);
        (self.stop, self.stops) = (None, BTreeMap::new());
        let late = self.late.overdue(now);
        if late.is_empty() {
            return self.in_turn(room, turns, now);
        }
        Round {
            now,
            stuck: Stuck::default(),
            course: Course::Late(late),
        }
    }

    /// The round goes on with all accounts in turn.
    fn in_turn(&self, room: &mut Occupancy, turns: &Turns, now: Time) -> Round {
        let stuck = match self.rules.policy.queue.walk {
            // The first who does not fit stops those behind him.
            Walk::Stop => Stuck::default(),
            Walk::Skip | Walk::Reserve { .. } => self.shapes.stuck(room, now),
        };
        let course = match self.rules.turns {
            Taking::ByCost => Course::Cost(self.cost(room, &stuck)),
            Taking::BySlices(basis, remainder) => {
                Course::Deal(self.deal(room, turns, basis, remainder, now))
            }
        };
        Round { now, stuck, course }
    }

    /// The first of an account behind a turn that may fit: those known to be stuck are passed
    /// many at once, where nothing depends on how many they are; so many of it were seen in the round.
    fn behind<'t>(
        &'t self,
        account: &str,
        (after, seen): (Option<&Turn>, u32),
        stuck: &Stuck,
    ) -> Option<(&'t Turn, &'t Entry)> {
        let line = self.lines.get(account)?;
        let from = after.map_or(Bound::Unbounded, |turn| Bound::Excluded(*turn));
        let from = (from, Bound::Unbounded);
        let queue = &self.rules.policy.queue;
        let counts = queue
            .lookback
            .is_some_and(|most| line.jobs.len() + seen as usize > most as usize);
        let few = line.alike.len() <= ALIKE_MAX;
        if stuck.is_empty() || counts || !few || queue.walk == Walk::Stop {
            return line.jobs.range(from).next();
        }
        let next = |turns: &'t BTreeSet<Turn>| turns.range(from).next();
        let turn = match stuck.open().filter(|open| open.len() < line.alike.len()) {
            Some(open) => {
                let shapes = open.iter().copied().map(Some).chain([None]);
                let alike = shapes.filter_map(|shape| line.alike.get(&shape));
                alike.filter_map(next).min()
            }
            None => {
                let may_fit = |shape: Option<Shape>| shape.is_none_or(|one| !stuck.contains(&one));
                let open = line.alike.iter().filter(|(shape, _)| may_fit(**shape));
                open.filter_map(|(_, turns)| next(turns)).min()
            }
        };
        line.jobs.get_key_value(turn?)
    }

    /// Offers a job the room that is free now.
    fn offer(
        &mut self,
        (account, turn): (&str, &Turn),
        stuck: &mut Stuck,
        room: &mut Occupancy,
        now: Time,
        out: &mut Verdicts,
    ) -> Offered {
        let Some(entry) = self.lines.get(account).and_then(|line| line.jobs.get(turn)) else {
            // It went meanwhile.
            return Offered::No;
        };
        if self.late.promise(turn).is_some() {
            // It was looked at first of all, and others are to keep off what it has.
            return self.denied(account, turn);
        }
        let passed = match room.gate().is_open() {
            // Whose it is need not be read.
            true => Ok(()),
            false => room.pass(&entry.ask.want.owner, &entry.asks),
        };
        match passed {
            Ok(()) => {}
            Err(stop @ (Stop::Pass | Stop::Rate(_))) => {
                self.stop = Some(Halt::Limit(stop));
                return Offered::All;
            }
            Err(stop @ Stop::AccountRate(_)) => {
                self.stops.insert(account.to_owned(), Halt::Limit(stop));
                return Offered::Account;
            }
            Err(Stop::Fraction) => return self.denied(account, turn),
        }
        let shape = entry.shape;
        if shape.as_ref().is_some_and(|shape| stuck.contains(shape)) {
            return self.denied(account, turn);
        }
        match room.fits(&entry.ask, now, entry.span) {
            Now::Fits(spot) => {
                room.take(&spot, now, entry.span);
                out.push(Verdict::Start {
                    key: *turn,
                    spot,
                    span: entry.span,
                });
                Offered::Started
            }
            Now::Never => {
                out.push(Verdict::Wait {
                    key: *turn,
                    why: Blocked::Never,
                });
                Offered::Never
            }
            Now::NoRoom => {
                // Whoever is done before a promise begins may fit all the same.
                let promises = self.late.promises().next().is_some() || room.closes();
                let is_stuck =
                    !promises || matches!(room.fits_briefly(&entry.ask, now), Now::NoRoom);
                let stuck_shape = shape.filter(|_| is_stuck);
                stuck_shape.into_iter().for_each(|shape| stuck.shuts(shape));
                self.denied(account, turn)
            }
        }
    }

    /// What becomes of an account one of whose jobs does not start: it is passed, though it may have
    /// something promised.
    fn denied(&mut self, account: &str, turn: &Turn) -> Offered {
        match self.rules.policy.queue.walk {
            Walk::Stop => {
                let halt = Halt::Behind(turn.job);
                self.stops.insert(account.to_owned(), halt);
                Offered::Account
            }
            Walk::Skip | Walk::Reserve { .. } => Offered::No,
        }
    }

    /// Whether an account has been looked at as far as may be, after so many.
    fn is_beyond(&mut self, account: &str, seen: u32) -> bool {
        let most = self.rules.policy.queue.lookback;
        let Some(most) = most.filter(|most| seen >= *most) else {
            return false;
        };
        self.stops.insert(account.to_owned(), Halt::Lookback(most));
        true
    }
}

impl Rules {
    fn class_of(&self, owner: &Owner) -> i64 {
        let placement = &self.policy.placement;
        let named = owner.class.as_ref().map(Name::as_str);
        let class = placement
            .classes
            .get(named.unwrap_or(&placement.default_class));
        class.map_or(0, |class| class.priority)
    }

    /// Whether slices are cut by how scarce each resource is.
    fn is_by_scarcity(&self) -> bool {
        match self.policy.usage.charge {
            Charge::Scarcity => true,
            Charge::Sum | Charge::MaxOfNode => false,
        }
    }
}
