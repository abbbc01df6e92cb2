//! One job that is an instance: the fold of its records, and what its leader
//! has told this leader.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::{Caller, Outbox};
use eddy_wire::access::Access;
use eddy_wire::event::{Adoption, IdBlock, Kind, Record};
use eddy_wire::grant::{Grant, Seats};
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::job::{Job, first_attempt};
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::payload::Payloads;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::{ChildOf, ChildRow, Closed, QueueAbove, Stage, Summary};
use eddy_wire::shrinking::Shrinking;
use eddy_wire::time::{Span, Time};
use eddy_wire::update;

use super::hung::{self, Hangs, Hearing};
use super::pulse::Pulse;
use crate::portion::Portion;
use crate::row::row;
use crate::settings::Queue;

/// An instance in this one.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) job: Job,
    /// The name it was declared under.
    pub(super) declared: Option<String>,
    /// Who it is, and since which attempt.
    adoption: Option<(Attempt, Adoption)>,
    /// The block of numbers drawn last, and in which attempt.
    block: Option<(Attempt, IdBlock)>,
    /// Jobs that are ground for it beside its own.
    grounds: BTreeMap<JobId, Ground>,
    /// What its nodes are called in it.
    seats: Seats,
    /// Those that it is to give while it goes on.
    shrinking: Shrinking,
    /// Its time limit, where that was changed in this attempt.
    limit: Option<Span>,
    /// How often its leader hung.
    pub(super) hangs: Hangs,
    /// What its leader has told: lost with this leader, told again to the next.
    pub(super) told: Told,
}

/// What is known from a child's leader and not recorded.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Where it listens to this instance.
    pub(super) channel: Option<Caller>,
    /// Whether it has handed up all that it took while this instance was away.
    pub(super) settled: Stated,
    /// When it counts as if it had, since it has handed nothing up.
    pub(super) settles: Option<Time>,
    /// Its leader's epoch.
    pub(super) leader: Epoch,
    /// The payloads that were said over its channel and that it keeps.
    pub(super) said: Payloads<()>,
    /// What it was told last over it beside its grant.
    pub(super) above: Option<Above>,
    /// Jobs that were passed over it with much of that, or are to be.
    pub(super) passing: Portion<(JobId, Attempt)>,
    /// The jobs that it has said it has, before it said all that it did: those need not be passed again.
    pub(super) has: BTreeSet<JobId>,
    /// When it was heard last, where it beats.
    pub(super) pulse: Option<Pulse>,
    /// Signals for its program that it could not be told: as those of a process, each waits once.
    pub(super) signals: BTreeSet<i32>,
    /// For how long it was not, where it has no channel.
    pub(super) hearing: Hearing,
    /// Where its ranks knock.
    pub(super) door: Option<String>,
    /// What it has come to.
    pub(super) summary: Summary,
}

/// What queue instances are told beside what they have, which changes for all of them at once.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Above {
    pub(super) access: Access,
    pub(super) queues: Vec<QueueAbove>,
    pub(super) closed: Vec<Closed>,
}

/// Whether something was said over the channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stated {
    #[default]
    NotYet,
    Yes,
}

/// A job that is ground for an instance.
#[derive(Debug)]
struct Ground {
    attempt: Attempt,
    grant: Option<Arc<Grant>>,
    stage: GroundStage,
    limit: Option<Span>,
    started: Option<Time>,
}

/// Whether such a job goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroundStage {
    /// As far as anybody knows.
    Staying,
    /// It is to end.
    Leaving,
}

impl Child {
    /// The child that a `submit` record makes; `None` for other jobs.
    pub(super) fn from_record(record: &Record) -> Option<Child> {
        let Kind::Submit(submit) = &record.event.kind else {
            return None;
        };
        let Work::Instance { name } = &submit.spec.request.work else {
            return None;
        };
        let declared = name.clone();
        Some(Child {
            job: Job::from_record(record)?,
            declared,
            adoption: None,
            block: None,
            grounds: BTreeMap::new(),
            seats: Seats::default(),
            shrinking: Shrinking::default(),
            limit: None,
            hangs: Hangs::default(),
            told: Told::default(),
        })
    }

    pub(super) fn apply(&mut self, record: &Record) {
        if let Err(illegal) = self.job.apply(record) {
            panic!("record {} of job {}: {illegal}", record.seq, self.job.id);
        }
        self.shrinking.apply(&record.event.kind);
        match &record.event.kind {
            Kind::Adopt(adoption) => {
                self.adoption = Some((self.job.attempt, adoption.as_ref().clone()));
            }
            Kind::IdBlock(block) => self.block = Some((self.job.attempt, *block)),
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => self.seats.follow(grant),
            Kind::JobspecUpdate(map) => self.limit = update::duration(map).or(self.limit),
            Kind::Exception(exception) if hung::tells(exception) => {
                self.hangs.add(record.event.t);
            }
            Kind::Requeue(_) => {
                self.limit = None;
                self.hangs = Hangs::default();
                self.told = Told::default();
                self.seats = Seats::default();
            }
            _ => {}
        }
    }

    /// A record of a job that is ground for it. When what that holds is its own its own records say.
    pub(super) fn ground(&mut self, job: JobId, t: Time, kind: &Kind) {
        let ground = self.grounds.entry(job).or_insert(Ground {
            attempt: Attempt(1),
            grant: None,
            stage: GroundStage::Staying,
            limit: None,
            started: None,
        });
        match kind {
            Kind::Submit(submit) => {
                ground.attempt = first_attempt(submit);
                ground.limit = submit.spec.request.duration.map(Span);
            }
            Kind::Start => ground.started = Some(t),
            Kind::JobspecUpdate(map) => {
                ground.limit = update::limit(map).map_or(ground.limit, update::Limit::span);
            }
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => {
                ground.grant = Some(Arc::clone(grant));
            }
            Kind::Exception(exception) if exception.severity == 0 => {
                ground.stage = GroundStage::Leaving;
            }
            Kind::Requeue(attempt) => {
                *ground = Ground {
                    attempt: *attempt,
                    grant: None,
                    stage: GroundStage::Staying,
                    limit: ground.limit,
                    started: None,
                };
            }
            Kind::Clean => {
                self.grounds.remove(&job);
            }
            _ => {}
        }
    }

    /// All that it has: what its own job was granted, and what others hold for it; for as long as its
    /// limit says by now.
    pub(super) fn whole(&self) -> Option<Grant> {
        let own = self.job.grant()?;
        let mut whole = Grant {
            beside: BTreeMap::new(),
            passed: None,
            ..own.clone()
        };
        let set = Arc::make_mut(&mut whole.set);
        if let (Some(_), Some(until)) = (self.limit, self.until()) {
            set.expiration = until.0;
        }
        for (rank, (_, grant)) in self.beside(own) {
            set.nodes.insert(rank, grant.set.nodes[&rank].clone());
            for (name, ranks) in &grant.set.properties {
                if ranks.contains(rank.0) {
                    let all = set.properties.entry(name.clone()).or_default();
                    *all = all.union(&Idset::one(rank.0));
                }
            }
            let shell = grant.shells.get(&rank);
            whole.shells.extend(shell.map(|shell| (rank, *shell)));
        }
        Some(whole)
    }

    /// The nodes that other jobs hold for it, with those.
    fn beside<'a>(
        &'a self,
        own: &'a Grant,
    ) -> impl Iterator<Item = (Rank, (ChildOf, &'a Grant))> + 'a {
        own.beside.iter().filter_map(|(rank, job)| {
            let ground = self.grounds.get(job)?;
            let grant = ground.grant.as_deref()?;
            let attempt = ground.attempt;
            let has = grant.set.nodes.contains_key(rank);
            has.then_some((*rank, (ChildOf { job: *job, attempt }, grant)))
        })
    }

    /// Until when it has those that it has until a time, and the limit that says so.
    pub(super) fn beside_until(&self) -> impl Iterator<Item = (Rank, Time, Span)> + '_ {
        let own = self.job.grant();
        let nodes = own.into_iter().flat_map(|own| self.beside(own));
        nodes.filter_map(|(rank, (holder, _))| {
            let ground = self.grounds.get(&holder.job)?;
            let limit = ground.limit.filter(|limit| limit.0 > 0)?;
            Some((rank, ground.started?.after(limit), limit))
        })
    }

    /// How many nodes, and cores on them, it has by other jobs.
    fn grown(&self) -> (u32, u32) {
        let own = self.job.grant();
        let nodes = own.into_iter().flat_map(|own| self.beside(own));
        let nodes = nodes.map(|(rank, (_, grant))| grant.set.nodes[&rank].cores.len() as u32);
        nodes.fold((0, 0), |(nodes, cores), more| (nodes + 1, cores + more))
    }

    /// Those nodes as they are called in it, with the jobs that hold them.
    pub(super) fn beside_numbers(&self) -> BTreeMap<Rank, JobId> {
        let Some(own) = self.job.grant() else {
            return BTreeMap::new();
        };
        let beside = self.beside(own);
        let numbers =
            beside.filter_map(|(rank, (holder, _))| Some((self.number(rank)?, holder.job)));
        numbers.collect()
    }

    /// The job through which it has that rank: its own, or one that is ground for it.
    pub(super) fn holder(&self, rank: Rank) -> ChildOf {
        let own = ChildOf {
            job: self.job.id,
            attempt: self.job.attempt,
        };
        let Some(grant) = self.job.grant() else {
            return own;
        };
        let mut beside = self.beside(grant);
        let found = beside.find(|(of, _)| *of == rank);
        found.map_or(own, |(_, (holder, _))| holder)
    }

    /// The ranks that it is to give back soon: for the sake of others, or since jobs that were ground for it
    /// are to end.
    pub(super) fn leaving(&self) -> Idset {
        let Some(grant) = self.job.grant() else {
            return Idset::new();
        };
        let leaves = |job: &JobId| {
            let ground = self.grounds.get(job);
            ground.is_some_and(|ground| ground.stage == GroundStage::Leaving)
        };
        let beside = grant.beside.iter();
        let leaving = beside.filter(|(_, job)| leaves(job));
        let leaving: Idset = leaving.map(|(rank, _)| rank.0).collect();
        leaving.union(&self.shrinking.ranks())
    }

    /// When whatever is left of it on that node is killed, where that is recorded.
    pub(super) fn until_on(&self, rank: Rank) -> Option<Time> {
        self.shrinking.until(rank)
    }

    /// What its nodes are called in it.
    pub(super) fn numbers(&self) -> BTreeMap<Rank, Rank> {
        let mut numbers = self.seats.numbers();
        if let Some(own) = self.job.grant() {
            let beside: Vec<Rank> = self.beside(own).map(|(rank, _)| rank).collect();
            numbers.retain(|rank, _| own.shells.contains_key(rank) || beside.contains(rank));
        }
        numbers
    }

    pub(super) fn id(&self) -> JobId {
        self.job.id
    }

    /// Who this attempt said it is.
    pub(super) fn adoption(&self) -> Option<&Adoption> {
        let (attempt, adoption) = self.adoption.as_ref()?;
        (*attempt == self.job.attempt).then_some(adoption)
    }

    /// The queue instance that it is in says who it is: recorded where that is new.
    pub(super) fn told_adopted(
        &self,
        now: Time,
        job: JobId,
        adopted: Box<Adoption>,
        out: &mut Outbox,
    ) {
        if self.adoption() != Some(&*adopted) {
            out.append(now, job, Kind::Adopt(adopted));
        }
    }

    /// The block of numbers that this attempt drew last. One that an earlier
    /// attempt drew is lost with what that one recorded.
    pub(super) fn block(&self) -> Option<&IdBlock> {
        let (attempt, block) = self.block.as_ref()?;
        (*attempt == self.job.attempt).then_some(block)
    }

    /// The node its leader is on: the first of its grant.
    pub(super) fn leader_rank(&self) -> Option<Rank> {
        self.job.grant()?.set.nodes.keys().next().copied()
    }

    /// What one of its nodes is called in it, or was called last.
    pub(super) fn number(&self, rank: Rank) -> Option<Rank> {
        self.seats.number(rank)
    }

    /// The ranks that have these numbers in it, or had them.
    pub(super) fn ranks_of(&self, numbers: &Idset) -> Idset {
        // There may be more numbers than anything ever had.
        let there = numbers.intersect(&self.seats.all());
        let ranks = there.iter().filter_map(|n| self.seats.rank(Rank(n)));
        ranks.map(|rank| rank.0).collect()
    }

    /// The rank that is called so in it, or ever was.
    pub(super) fn rank(&self, number: Rank) -> Option<Rank> {
        self.seats.rank(number)
    }

    /// Whether it holds nothing itself: what its jobs are given is theirs alone.
    pub(super) fn is_elastic(&self) -> bool {
        self.job.submit.spec.request.takes == Takes::Nothing
    }

    /// `queue instance batch (job 3)`, or `instance f5`.
    pub(super) fn title(&self) -> String {
        match &self.declared {
            Some(name) => format!("queue instance {name} (job {})", self.job.id),
            None => format!("instance of job {}", self.job.id),
        }
    }

    /// When its job ends by its limit, once it has started.
    pub(super) fn until(&self) -> Option<Time> {
        let limit = self.job.submit.spec.request.duration?;
        Some(self.job.started?.after(Span(limit)))
    }

    /// Time left until its limit.
    pub(super) fn remaining(&self, now: Time) -> Option<Span> {
        let limit = Span(self.job.submit.spec.request.duration?);
        Some(match self.job.started {
            Some(started) => Span((started.after(limit) - now).0.max(0)),
            None => limit,
        })
    }

    /// How long it lives at most, by its limit or the `latest` its parent allows.
    pub(super) fn span(&self, now: Time, latest: Option<Time>) -> Option<Span> {
        let own = self.job.submit.spec.request.duration.map(Span);
        let started = self.job.started.unwrap_or(now);
        let allowed = latest.map(|latest| Span((latest - started).0.max(0)));
        own.into_iter().chain(allowed).min()
    }

    fn stage(&self) -> Stage {
        match self.job.state {
            JobState::New | JobState::Depend | JobState::Priority | JobState::Sched => {
                Stage::Waiting
            }
            JobState::Run if self.told.channel.is_some() => Stage::Serving,
            JobState::Run if self.adoption().is_some() => Stage::Away,
            JobState::Run => Stage::Starting,
            JobState::Cleanup => Stage::Ending,
            JobState::Inactive => Stage::Over,
        }
    }

    /// Its row; `latest` is when this instance ends its last jobs, `room` what jobs of an elastic
    /// instance may be given.
    pub(super) fn row(
        &self,
        queues: &[Queue],
        room: Option<&ResourceSet>,
        latest: Option<Time>,
    ) -> ChildRow {
        let shown = row(&self.job, String::new());
        let (nodes, cores) = self.grown();
        let adoption = self.adoption();
        let held = self.job.grant().map(|grant| &*grant.set);
        let leads = |queue: &&Queue| self.declared.is_some() && queue.instance == self.declared;
        ChildRow {
            job: self.job.id,
            name: self.declared.clone().unwrap_or(shown.name),
            instance: adoption.map(|adoption| adoption.instance.clone()),
            uri: adoption.map(|adoption| adoption.uri.clone()),
            statedir: adoption.map(|adoption| adoption.statedir.clone()),
            stage: self.stage(),
            // Its leader may be beside what its jobs may be given.
            nnodes: match (room, held) {
                (Some(room), _) => given(room),
                (None, Some(held)) => given(held) + nodes,
                (None, None) => shown.nnodes + nodes,
            },
            ncores: room.map_or(shown.ncores + cores, |room| room.ncores() as u32),
            queues: queues
                .iter()
                .filter(leads)
                .map(|q| q.name.clone())
                .collect(),
            declared: self.declared.is_some(),
            until: self.until().into_iter().chain(latest).min(),
            summary: self.told.summary,
        }
    }
}

/// How many nodes it has something of.
fn given(set: &ResourceSet) -> u32 {
    let given = set.nodes.values().filter(|node| !node.is_empty());
    given.count() as u32
}
