//! The driver of one leader: what brokerd's loop does, over simulated disks and connections.
//!
//! One turn is one arrival handed to the broker and everything it gave in return: records to the
//! disk, effects to where they go. The requests to the planner of one turn are one request. Effects
//! for a shell that is not connected are dropped. Decides nothing that the broker decides.

mod links;
mod modules;
mod parent;
mod proposed;
mod tree;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use eddy_broker::broker::Identity;
use eddy_broker::effect::QueryTag;
use eddy_broker::{Answer, Arrival, Broker, Caller, Disk, Effect, Exit, Output, Phase, Query};
use eddy_modules::live::{Change, Live};
use eddy_wire::event::Kind;
use eddy_wire::id::{JobId, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::message::Type;
use eddy_wire::plan::{Delta, Outcome, Want};
use eddy_wire::services::Service;
use eddy_wire::services::instance::{SetConfig, SetConfigRequest};
use eddy_wire::shell::Start;
use eddy_wire::time::{Span, Time};

use crate::broken::{self, Rule};
use crate::client::OWNER;
use crate::clock;
use crate::clock::Clock;
use crate::desk::Desk;
use crate::filter;
use crate::heads::{Before, Watched};
use crate::instance::{Hold, Instance};
use crate::journal::{Batch, Mark, Room, Torn};
use crate::nature::{Delay, Happening, Life, Nature, Pace, Turn};
use crate::pipe::{PipeId, Side};
use crate::quiet;
use crate::replay;
use crate::shell::{Course, Keeper, Seat};
pub use links::tell_client;
pub use parent::{HEAD_CLIENTS, RELAYED, referred};
use proposed::Proposed;
use tree::Tree;

/// A leader that lives.
pub struct Leader {
    life: Life,
    broker: Broker,
    clock: Clock,
    planner: Watched,
    /// Requests the planner has not answered.
    plans: u32,
    /// Those of them that the planner has not heard.
    unheard: u32,
    /// When it is done with the last of them: it takes one after the other.
    planned_at: Time,
    /// What came of its answers.
    proposed: Proposed,
    /// The connections of its clients and shells.
    pub desk: Desk,
    /// Its end of the tree of ranks.
    tree: Option<Tree>,
    /// A mark to go with the next commit.
    mark: Option<Mark>,
    /// Starts that were sent, of which one may come late.
    starts: Vec<Start>,
    /// What came while a turn was under way.
    inbox: VecDeque<Arrival>,
    turn: Under,
    course: Course,
    /// The record of its start.
    began: Seq,
}

/// Whether a turn of the leader is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Under {
    Way,
    Nothing,
}

impl Leader {
    /// Which life it is.
    pub fn life(&self) -> Life {
        self.life
    }

    /// The broker, to ask it things.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// The broker, to ask it things that change a counter.
    pub fn broker_mut(&mut self) -> &mut Broker {
        &mut self.broker
    }

    /// All its connections, with its end of each.
    pub fn pipes(&self) -> Vec<(PipeId, Side)> {
        let own = self.desk.pipes().into_iter();
        let links = self.tree.iter().flat_map(|tree| tree.door.pipes());
        own.map(|pipe| (pipe, Side::Server)).chain(links).collect()
    }

    /// Whether it answers who knocks: its start is durable, so that no two speak under one epoch.
    pub fn speaks(&self) -> bool {
        self.broker.durable() >= self.began
    }

    /// When it planned last, by its own clock.
    pub fn planned(&self) -> Time {
        self.planner.planned
    }

    /// What its planner knows and has promised.
    pub fn planned_last(&self) -> Option<Before> {
        self.planner.left()
    }

    /// Whether nothing is under way between planner and leader.
    pub fn is_planned(&self) -> bool {
        self.plans == 0
    }
}

/// Identity of a leader of this instance.
pub fn identity(instance: &Instance) -> Identity {
    let place = &instance.settings.place;
    Identity {
        instance: instance.id.name(),
        version: "0".to_owned(),
        owner: OWNER,
        path: place.path.clone(),
        depth: place.depth,
        parent: instance.nested.as_ref().map(|nested| nested.parent.name()),
        declared: place.name.clone(),
    }
}

impl Instance {
    /// Starts a leader of a root over what is on the disk.
    pub fn start_leader(&mut self, nature: &mut Nature) {
        if self.leader.is_none() {
            self.settings.inventory = Arc::clone(&self.inventory);
            if self.fanout.is_none() {
                self.settings.local = self.inventory.ranks();
            }
            let life = self.next_life();
            self.begin_leader(nature, life);
        }
    }

    /// A leader begins over what is on the disk.
    pub fn begin_leader(&mut self, nature: &mut Nature, life: Life) {
        let of = self.of(nature);
        nature.note(|| format!("leader{of} starts"));
        self.settings.last_job = self.journal.last_job();
        self.settings.over = self.journal.over();
        let mut modules = eddy_modules::leader(&self.settings);
        self.break_modules(nature, &mut modules);
        let mut broker = Broker::new(identity(self), modules);
        for record in self.journal.to_replay() {
            broker.replay(&record);
        }
        if let Err(sentence) = replay::agrees_with_all(self, &broker) {
            nature.fail(self.id, sentence);
        }
        let in_force = self.in_force(nature.judge(self.id).recorded());
        nature.oracle(self.id).configured(&Live::of(&in_force));
        let mut clock = Clock::start(nature.clock(self.machine()), self.journal.floor());
        let now = clock.now(nature.clock(self.machine()));
        if self.nested.is_some() {
            let terms = self.terms();
            nature.oracle(self.id).silent().begins(now, terms);
        }
        let output = broker.resume(now, self.journal.last(), None);
        let tree = self.tree(nature, life, broker.epoch());
        self.leader = Some(Leader {
            life,
            broker,
            clock,
            planner: Watched::after(self.planned.take()),
            plans: 0,
            unheard: 0,
            planned_at: nature.now,
            proposed: Proposed::default(),
            desk: Desk::default(),
            tree,
            mark: None,
            starts: Vec::new(),
            inbox: VecDeque::new(),
            turn: Under::Way,
            course: Course::On,
            began: self.journal.last().next(),
        });
        self.give(nature, now, output);
        if let Some(leader) = &mut self.leader {
            leader.turn = Under::Nothing;
        }
        self.take_turns(nature);
        if self.journal.room == Room::None {
            let why = "the disk of the journal is full".to_owned();
            self.arrive(nature, Arrival::Disk(Disk::Full(why)));
        }
    }

    /// Broker time of the leader that lives.
    pub fn leader_now(&mut self, nature: &Nature) -> Time {
        let reading = nature.clock(self.machine());
        match &mut self.leader {
            Some(leader) => leader.clock.now(reading),
            None => reading.wall,
        }
    }

    /// Broker time as a leader that begins now would tell it: not before its last record, whatever the clock says.
    pub fn begins_at(&self, nature: &Nature) -> Time {
        let reading = nature.clock(self.machine());
        Clock::start(reading, self.journal.floor()).now(reading)
    }

    /// Broker time as it would be told now, without telling it.
    pub fn would_say(&self, nature: &Nature) -> Time {
        let reading = nature.clock(self.machine());
        match &self.leader {
            Some(leader) => leader.clock.clone().now(reading),
            None => reading.wall,
        }
    }

    /// Something came for the leader, if one lives. What comes in the middle of a turn waits.
    pub fn arrive(&mut self, nature: &mut Nature, arrival: Arrival) {
        let arrival = self.reads_configuration(nature, arrival);
        if let Some(leader) = &mut self.leader {
            leader.inbox.push_back(arrival);
            self.take_turns(nature);
        }
    }

    /// What asks for another configuration is the driver's own: it carries that.
    fn reads_configuration(&self, nature: &Nature, arrival: Arrival) -> Arrival {
        let Arrival::Message(client, message) = arrival else {
            return arrival;
        };
        let own = message.kind == Type::Request && message.topic == SetConfig::TOPIC;
        let asked = message.parse::<SetConfigRequest>().ok().filter(|_| own);
        let ledger = nature.judge(self.id).recorded();
        let memo = asked.and_then(|asked| self.configuration(ledger, &asked.set));
        let caller = Caller {
            client,
            matchtag: message.matchtag,
        };
        match memo {
            Some(memo) => Arrival::Configure(caller, memo),
            None => Arrival::Message(client, message),
        }
    }

    fn take_turns(&mut self, nature: &mut Nature) {
        while let Some(leader) = &mut self.leader
            && leader.turn == Under::Nothing
            && let Some(arrival) = leader.inbox.pop_front()
        {
            leader.turn = Under::Way;
            links::judge_hears(nature, self.id, &arrival);
            let now = self.leader_now(nature);
            let Some(leader) = &mut self.leader else {
                return;
            };
            let output = leader.broker.handle(now, arrival);
            self.give(nature, now, output);
            if nature.breaks(Rule::GateOpen) {
                self.open_gate(nature, now);
            }
            if let Some(leader) = &mut self.leader {
                leader.turn = Under::Nothing;
            }
        }
    }

    /// The rule broken: everything recorded is called durable at once.
    fn open_gate(&mut self, nature: &mut Nature, now: Time) {
        while let Some(leader) = &mut self.leader
            && leader.broker.durable() < leader.broker.last()
        {
            let all = leader.broker.last();
            let output = leader.broker.handle(now, Arrival::Durable(all));
            self.give(nature, now, output);
        }
    }

    /// Does what a turn gave.
    fn give(&mut self, nature: &mut Nature, now: Time, mut output: Output) {
        for record in &output.records {
            nature.record(self.id, record);
            if let Kind::ResourceDefine(set, _) = &record.event.kind {
                self.set_ranks(&set.ranks());
            }
            if let Kind::Memo(memo) = &record.event.kind
                && let Some(change) = Change::told(memo)
            {
                self.configured(&change);
            }
        }
        if nature.breaks(Rule::RowStale) {
            for finished in &mut output.finished {
                finished.seqs.pop();
            }
        }
        for finished in &output.finished {
            nature.oracle(self.id).finished(finished);
        }
        if !output.records.is_empty() {
            let mark = self.leader.as_mut().and_then(|leader| leader.mark.take());
            self.journal.write(Batch {
                records: output.records,
                finished: output.finished,
                mark,
            });
            self.commit_soon(nature);
        }
        let mut deltas = None;
        for effect in output.effects {
            self.act(nature, now, effect, &mut deltas);
        }
        if let (Some(leader), Some(deltas)) = (&mut self.leader, deltas) {
            leader.plans += 1;
            leader.unheard += 1;
            leader.planned_at = nature
                .now
                .after(nature.delay(Delay::Plan))
                .max(leader.planned_at);
            let deltas = broken::planned(nature, deltas);
            nature.oracle(self.id).planned(&deltas);
            let plans = Happening::Leader(self.id, leader.life, Turn::Plans(deltas));
            match nature.pace {
                Pace::Links(_) => nature.queue.push_last(leader.planned_at, plans),
                Pace::Exact | Pace::Random(_) => nature.queue.push(leader.planned_at, plans),
            }
        }
        self.exit(nature);
    }

    fn act(
        &mut self,
        nature: &mut Nature,
        now: Time,
        effect: Effect,
        plan: &mut Option<Vec<Delta>>,
    ) {
        if let Effect::Shell(shell, message) = &effect {
            nature.oracle(self.id).ordered(now, *shell, message);
        }
        let Some(effect) = self.route(nature, effect) else {
            return;
        };
        let (id, machine) = (self.id, self.machine());
        let Some(leader) = &mut self.leader else {
            return;
        };
        let turn = |turn| Happening::Leader(id, leader.life, turn);
        match effect {
            Effect::Reply(reply) => self.answer(nature, reply),
            Effect::Shell(epoch, message) => self.tell_shell(nature, epoch, message),
            Effect::LaunchShell(ranks, epoch) => {
                let within = self.nested.as_ref().map(|nested| nested.within.clone());
                let seat = Seat {
                    machine,
                    ranks,
                    keeper: Keeper::Leader,
                    within: within.unwrap_or_default(),
                };
                self.launch_shell(nature, epoch, seat);
            }
            Effect::CheckShell(_, epoch) => {
                let checks = turn(Turn::Checks(epoch));
                nature.later(Delay::Process, checks);
            }
            Effect::Host(..) | Effect::Unhost(..) | Effect::EndShell(..) => {}
            Effect::Parent(word) => self.tell_parent(nature, word),
            Effect::Query(tag, query) => {
                let reads = turn(Turn::Reads(tag, query));
                nature.later(Delay::Query, reads);
            }
            Effect::Filter(tag, filter, asked) => {
                let (mut ruling, takes) = filter::ruling(&filter, &asked);
                if nature.breaks(Rule::FilterOverruled) {
                    ruling = broken::never_refuse(ruling);
                }
                let answers = turn(Turn::Answers(tag, Answer::Ruled(ruling)));
                let takes = takes.max(nature.delay(Delay::Query));
                nature.queue.push(nature.now.after(takes), answers);
            }
            Effect::Plan(deltas) => {
                let told = plan.get_or_insert_default();
                // Nothing at all asks for a slice all the same, whatever it is told along with.
                if deltas.is_empty() {
                    told.push(Delta::Up(Idset::new()));
                }
                told.extend(deltas);
            }
            Effect::Wake(at) => {
                if !nature.breaks(Rule::WakeLost) {
                    let due = nature.now.after(clock::earliest(at - now).max(Span::ZERO));
                    nature.queue.push(due, turn(Turn::Ticks(at)));
                }
            }
            // What else leaves with this turn still does.
            Effect::Exit(Exit::Stopped) => leader.course = Course::Exit,
        }
    }

    fn exit(&mut self, nature: &mut Nature) {
        if let Some(leader) = self.leader.take_if(|leader| leader.course == Course::Exit) {
            let of = self.of(nature);
            nature.note(|| format!("leader{of} ends"));
            self.leader_ended(nature, &leader, Torn::Lost);
            self.process_ends(nature);
        }
    }

    /// Looks for something to commit in a moment; a little later while a plan is under way, so that
    /// one commit carries a job from submit to alloc.
    pub fn commit_soon(&mut self, nature: &mut Nature) {
        let Some(leader) = &self.leader else { return };
        if self.journal.is_commit_due() {
            let begins = Happening::Leader(self.id, leader.life, Turn::CommitBegins);
            match leader.plans {
                0 => nature.queue.push(nature.now, begins),
                _ => nature.later(Delay::Plan, begins),
            }
        }
    }

    /// Begins a commit, if there is something to commit and the disk takes it.
    pub fn commit_begins(&mut self, nature: &mut Nature, life: Life) {
        let blocked = self.journal.room == Room::None || self.held.contains(&Hold::Disk);
        if self.leader_of(life).is_some() && self.journal.is_commit_due() && !blocked {
            self.journal.begin();
            let commits = Happening::Leader(self.id, life, Turn::Commits);
            nature.later(Delay::Disk, commits);
        }
    }

    /// A commit is on disk.
    pub fn commits(&mut self, nature: &mut Nature, life: Life) {
        if self.leader_of(life).is_none() {
            return;
        }
        let before = self.journal.last();
        let seq = self.journal.commit();
        nature.oracle(self.id).commit(seq);
        for record in &self.journal.records()[before.0 as usize..] {
            crate::transcript::note_record(nature, self.id, record);
        }
        nature.tell_ends(self.id, &self.journal.records()[before.0 as usize..]);
        if nature.breaks(Rule::GateOpen) {
            self.commit_soon(nature);
            return;
        }
        self.arrive(nature, Arrival::Durable(seq));
        self.ends_with_program(nature, before.0 as usize);
        self.commit_soon(nature);
    }

    /// The planner works on its next request.
    pub fn plans(&mut self, nature: &mut Nature, life: Life, deltas: Vec<Delta>) {
        let holds = self.held.contains(&Hold::Planner);
        let now = self.leader_now(nature);
        let id = self.id;
        let expected = self.expected(nature, now);
        let Some(leader) = self.leader_of(life) else {
            return;
        };
        // That a job holds what was proposed lets nobody start: brokerd asks for no slice then.
        let is_news = deltas.iter().any(|delta| !matches!(delta, Delta::Held(..)));
        for delta in deltas {
            leader.planner.apply(delta, |rule| nature.breaks(rule));
        }
        leader.unheard -= 1;
        if matches!(nature.pace, Pace::Links(_)) && leader.unheard > 0 {
            // More of this moment is to be heard first.
            leader.plans -= 1;
            return;
        }
        if !is_news {
            leader.plans -= 1;
            return;
        }
        let steps = match nature.pace {
            Pace::Exact | Pace::Links(_) => 64,
            Pace::Random(_) => *nature.random.pick(&[1, 2, 64]),
        };
        leader.planner.expect(expected);
        let (outcome, checked) = leader.planner.plan(now, steps);
        nature.heads.add(leader.planner.tally());
        if let Err(sentence) = checked {
            nature.fail(id, sentence);
        }
        let takes = match nature.pace {
            _ if holds => HELD,
            Pace::Links(_) => Span::ZERO,
            Pace::Exact | Pace::Random(_) => nature.delay(Delay::Net),
        };
        let at = nature.now.after(takes).max(leader.planned_at);
        leader.planned_at = at;
        let planned = Happening::Leader(id, life, Turn::Planned(outcome));
        nature.queue.push(at, planned);
    }

    /// Who waits for instances that are expected, where the planner has heard all that is recorded once it has heard
    /// this, and somebody may begin.
    fn expected(&self, nature: &Nature, now: Time) -> BTreeMap<JobId, Want> {
        let leader = self.leader.as_ref();
        let runs = leader.filter(|leader| leader.broker.phase() == Phase::Run);
        match (runs.map(|leader| leader.unheard), nature.pace) {
            // There nothing goes wrong, and thousands wait.
            (_, Pace::Links(_)) => BTreeMap::new(),
            (Some(1), _) => quiet::expected(self, nature.judge(self.id), now),
            (_, _) => BTreeMap::new(),
        }
    }

    /// The planner answered.
    pub fn planned(&mut self, nature: &mut Nature, life: Life, outcome: Outcome) {
        if self.held.contains(&Hold::Planner) {
            let planned = Happening::Leader(self.id, life, Turn::Planned(outcome));
            nature.queue.push(nature.now.after(HELD), planned);
            return;
        }
        let last = nature.judge(self.id).recorded().last();
        if let Some(leader) = self.leader_of(life) {
            leader.plans -= 1;
            if let Err(sentence) = leader.proposed.add(last, &outcome) {
                nature.fail(self.id, sentence);
            }
            self.arrive(nature, Arrival::Planned(outcome));
        }
    }

    /// The journal reads for a question.
    pub fn reads(&mut self, nature: &mut Nature, life: Life, tag: QueryTag, query: &Query) {
        let mut answer = self.journal.answer(query);
        if nature.breaks(Rule::KeysForgotten) && matches!(query, Query::Key(..)) {
            answer = Answer::Key(None);
        }
        let answers = Happening::Leader(self.id, life, Turn::Answers(tag, answer));
        nature.later(Delay::Query, answers);
    }

    /// A wake-up is due, by the leader's own clock.
    pub fn ticks(&mut self, nature: &mut Nature, life: Life, at: Time) {
        if self.leader_of(life).is_none() {
            return;
        }
        let left = at - self.leader_now(nature);
        if left.0 > 0 {
            let again = nature.now.after(clock::earliest(left).max(Span::millis(1)));
            let ticks = Happening::Leader(self.id, life, Turn::Ticks(at));
            nature.queue.push(again, ticks);
        } else {
            self.arrive(nature, Arrival::Tick);
        }
    }

    /// Makes a mark of the present state, to go with the next commit.
    pub fn marks(&mut self, nature: &mut Nature) {
        if self.leader.is_some() {
            self.arrive(nature, Arrival::Marking);
        }
        let Some(leader) = &mut self.leader else {
            return;
        };
        let mut live = leader.broker.live();
        if nature.breaks(Rule::MarkDropsRecord) {
            live = broken::drop_one(live);
        }
        let seq = leader.broker.last();
        leader.mark = Some(Mark { seq, live });
    }
}

/// How long a held planner is not looked at.
const HELD: Span = Span::millis(1);
