//! The driver of one leader: what brokerd's loop does, over simulated disks and connections.
//!
//! One turn is one arrival handed to the broker and everything it gave in return: records to the
//! disk, effects to where they go. The requests to the planner of one turn are one request. Effects
//! for a shell that is not connected are dropped. Decides nothing that the broker decides.

mod links;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::broker::Identity;
use eddy_broker::effect::QueryTag;
use eddy_broker::{Arrival, Broker, Disk, Effect, Exit, Output, Query};
use eddy_sched::Planner;
use eddy_wire::id::Epoch;
use eddy_wire::plan::{Delta, Outcome};
use eddy_wire::shell::Start;
use eddy_wire::time::Time;

use crate::broken::{self, Credulous, Rule};
use crate::client::OWNER;
use crate::clock::Clock;
use crate::instance::{Hold, Instance};
use crate::journal::{Batch, Mark, Room, Torn};
use crate::nature::{Delay, Happening, Life, Nature, Pace};
use crate::pipe::PipeId;
use crate::replay;
use crate::shell::{Course, INSTANCE};

/// Place of the sched module among the leader's.
const SCHED: usize = 2;

/// A leader that lives.
pub struct Leader {
    life: Life,
    broker: Broker,
    clock: Clock,
    planner: Planner,
    /// Requests the planner has not answered.
    plans: u32,
    /// When it is done with the last of them: it takes one after the other.
    planned_at: Time,
    /// Connections accepted, and which of them a shell said hello on.
    peers: BTreeMap<PipeId, Option<Epoch>>,
    shells: BTreeMap<Epoch, PipeId>,
    /// A mark to go with the next commit.
    mark: Option<Mark>,
    /// Starts that were sent, of which one may come late.
    starts: Vec<Start>,
    /// Shells whose death would be noticed.
    watched: BTreeSet<Epoch>,
    /// Shells known to be dead whose last words are still to be read.
    dead: BTreeSet<Epoch>,
    course: Course,
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

    /// All its connections.
    pub fn pipes(&self) -> Vec<PipeId> {
        self.peers.keys().copied().collect()
    }

    /// Whether the death of that shell would be noticed.
    pub fn watches(&self, epoch: Epoch) -> bool {
        self.watched.contains(&epoch)
    }

    /// Somebody connects.
    pub fn accept(&mut self, pipe: PipeId) {
        self.peers.insert(pipe, None);
    }

    /// Whether nothing is under way between planner and leader.
    pub fn is_planned(&self) -> bool {
        self.plans == 0
    }

    /// Broker time.
    pub fn now(&mut self, nature: &Nature) -> Time {
        self.clock.now(nature.machine.read(nature.now))
    }

    /// Broker time as it would be told now, without telling it.
    pub fn would_say(&self, nature: &Nature) -> Time {
        self.clock.clone().now(nature.machine.read(nature.now))
    }

    fn connected(&self, epoch: Epoch) -> Option<PipeId> {
        self.shells.get(&epoch).copied()
    }
}

/// Identity of every leader of the world.
pub fn identity() -> Identity {
    Identity {
        instance: INSTANCE.to_owned(),
        version: "0".to_owned(),
        owner: OWNER,
        path: String::new(),
        depth: 0,
        parent: None,
    }
}

impl Instance {
    /// Starts a leader over what is on the disk.
    pub fn start_leader(&mut self, nature: &mut Nature) {
        if self.leader.is_some() {
            return;
        }
        nature.note(|| "leader starts".to_owned());
        self.settings.inventory = Arc::clone(&self.inventory);
        self.settings.last_job = self.journal.last_job();
        let mut modules = eddy_modules::leader(&self.settings);
        if nature.breaks(Rule::VerdictUnchecked) {
            modules[SCHED] = Box::new(Credulous::default());
        }
        let mut broker = Broker::new(identity(), modules);
        for record in self.journal.to_replay() {
            broker.replay(&record);
        }
        if let Err(sentence) = replay::agrees_with_all(self, &broker) {
            nature.oracle.fail(sentence);
        }
        let mut clock = Clock::start(nature.machine.read(nature.now), self.journal.floor());
        let now = clock.now(nature.machine.read(nature.now));
        let output = broker.resume(now, self.journal.last());
        self.leader = Some(Leader {
            life: self.next_life(),
            broker,
            clock,
            planner: Planner::new(),
            plans: 0,
            planned_at: nature.now,
            peers: BTreeMap::new(),
            shells: BTreeMap::new(),
            mark: None,
            starts: Vec::new(),
            watched: BTreeSet::new(),
            dead: BTreeSet::new(),
            course: Course::On,
        });
        self.give(nature, now, output);
        if self.journal.room == Room::None {
            let why = "the disk of the journal is full".to_owned();
            self.arrive(nature, Arrival::Disk(Disk::Full(why)));
        }
    }

    /// One turn of the leader, if one lives.
    pub fn arrive(&mut self, nature: &mut Nature, arrival: Arrival) {
        let Some(leader) = &mut self.leader else {
            return;
        };
        let now = leader.now(nature);
        let output = leader.broker.handle(now, arrival);
        self.give(nature, now, output);
        if nature.breaks(Rule::GateOpen) {
            self.open_gate(nature, now);
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
            nature.oracle.record(record);
        }
        if nature.breaks(Rule::RowStale) {
            for finished in &mut output.finished {
                finished.seqs.pop();
            }
        }
        for finished in &output.finished {
            nature.oracle.finished(finished);
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
            leader.planned_at = nature
                .now
                .after(nature.delay(Delay::Plan))
                .max(leader.planned_at);
            let plans = Happening::Plans(leader.life, deltas);
            nature.queue.push(leader.planned_at, plans);
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
        let Some(leader) = &mut self.leader else {
            return;
        };
        let life = leader.life;
        match effect {
            Effect::Reply(reply) => links::tell_client(nature, reply),
            Effect::Shell(epoch, message) => self.tell_shell(nature, now, epoch, message),
            Effect::LaunchShell(_, epoch) => self.launch_shell(nature, epoch),
            // One instance has neither ranks elsewhere nor a parent.
            Effect::Host(..) | Effect::Unhost(..) | Effect::Parent(_) => {}
            Effect::CheckShell(_, epoch) => {
                nature.later(Delay::Process, Happening::Checks(life, epoch))
            }
            Effect::Query(tag, query) => {
                nature.later(Delay::Query, Happening::Reads(life, tag, query));
            }
            Effect::Plan(deltas) => plan.get_or_insert_default().extend(deltas),
            Effect::Wake(at) => {
                if !nature.breaks(Rule::WakeLost) {
                    let due = nature.now.after((at - now).max(eddy_wire::Span::ZERO));
                    nature.queue.push(due, Happening::Ticks(life, at));
                }
            }
            // What else leaves with this turn still does.
            Effect::Exit(Exit::Stopped) => leader.course = Course::Exit,
        }
    }

    fn exit(&mut self, nature: &mut Nature) {
        if let Some(leader) = self.leader.take_if(|leader| leader.course == Course::Exit) {
            nature.note(|| "leader ends".to_owned());
            self.leader_ended(nature, &leader, Torn::Lost);
        }
    }

    /// Looks for something to commit in a moment; a little later while a plan is under way, so that
    /// one commit carries a job from submit to alloc.
    pub fn commit_soon(&mut self, nature: &mut Nature) {
        let Some(leader) = &self.leader else { return };
        if self.journal.is_commit_due() {
            let life = leader.life;
            match leader.plans {
                0 => nature.queue.push(nature.now, Happening::CommitBegins(life)),
                _ => nature.later(Delay::Plan, Happening::CommitBegins(life)),
            }
        }
    }

    /// Begins a commit, if there is something to commit and the disk takes it.
    pub fn commit_begins(&mut self, nature: &mut Nature, life: Life) {
        let blocked = self.journal.room == Room::None || self.held.contains(&Hold::Disk);
        if self.leader_of(life).is_some() && self.journal.is_commit_due() && !blocked {
            self.journal.begin();
            nature.later(Delay::Disk, Happening::Commits(life));
        }
    }

    /// A commit is on disk.
    pub fn commits(&mut self, nature: &mut Nature, life: Life) {
        if self.leader_of(life).is_none() {
            return;
        }
        let before = self.journal.last();
        let seq = self.journal.commit();
        nature.oracle.commit(seq);
        for record in &self.journal.records()[before.0 as usize..] {
            crate::transcript::note_record(nature, record);
        }
        if nature.breaks(Rule::GateOpen) {
            self.commit_soon(nature);
            return;
        }
        self.arrive(nature, Arrival::Durable(seq));
        self.commit_soon(nature);
    }

    /// The planner works on its next request.
    pub fn plans(&mut self, nature: &mut Nature, life: Life, deltas: Vec<Delta>) {
        let holds = self.held.contains(&Hold::Planner);
        let Some(leader) = self.leader_of(life) else {
            return;
        };
        let now = leader.now(nature);
        deltas
            .into_iter()
            .for_each(|delta| leader.planner.apply(delta));
        let steps = match nature.pace {
            Pace::Exact => 64,
            Pace::Random(_) => *nature.random.pick(&[1, 2, 64]),
        };
        let outcome = leader.planner.plan(now, steps);
        let takes = if holds {
            HELD
        } else {
            nature.delay(Delay::Net)
        };
        let at = nature.now.after(takes).max(leader.planned_at);
        leader.planned_at = at;
        nature.queue.push(at, Happening::Planned(life, outcome));
    }

    /// The planner answered.
    pub fn planned(&mut self, nature: &mut Nature, life: Life, outcome: Outcome) {
        if self.held.contains(&Hold::Planner) {
            nature
                .queue
                .push(nature.now.after(HELD), Happening::Planned(life, outcome));
            return;
        }
        if let Some(leader) = self.leader_of(life) {
            leader.plans -= 1;
            self.arrive(nature, Arrival::Planned(outcome));
        }
    }

    /// The journal reads for a question.
    pub fn reads(&mut self, nature: &mut Nature, life: Life, tag: QueryTag, query: &Query) {
        let mut answer = self.journal.answer(query);
        if nature.breaks(Rule::KeysForgotten) && matches!(query, Query::Key(..)) {
            answer = eddy_broker::Answer::Key(None);
        }
        nature.later(Delay::Query, Happening::Answers(life, tag, answer));
    }

    /// A wake-up is due, by the leader's own clock.
    pub fn ticks(&mut self, nature: &mut Nature, life: Life, at: Time) {
        let Some(leader) = self.leader_of(life) else {
            return;
        };
        let left = at - leader.now(nature);
        if left.0 > 0 {
            let again = nature.now.after(left.max(eddy_wire::Span::millis(1)));
            nature.queue.push(again, Happening::Ticks(life, at));
        } else {
            self.arrive(nature, Arrival::Tick);
        }
    }

    /// Makes a mark of the present state, to go with the next commit.
    pub fn marks(&mut self, nature: &mut Nature, life: Life) {
        let Some(leader) = self.leader_of(life) else {
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
const HELD: eddy_wire::Span = eddy_wire::Span::millis(1);
