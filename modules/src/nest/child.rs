//! One job that is an instance: the fold of its records, and what its leader
//! has told this leader.

use eddy_broker::Caller;
use eddy_wire::event::{Adoption, IdBlock, Kind, Record};
use eddy_wire::grant::Seats;
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::job::Job;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::{ChildRow, Stage, Summary};
use eddy_wire::time::{Span, Time};

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
    /// What its nodes are called in it.
    seats: Seats,
    /// What its leader has told: lost with this leader, told again to the next.
    pub(super) told: Told,
}

/// What is known from a child's leader and not recorded.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Where it listens to this instance.
    pub(super) channel: Option<Caller>,
    /// Its leader's epoch.
    pub(super) leader: Epoch,
    /// Where its ranks knock.
    pub(super) door: Option<String>,
    /// What it has come to.
    pub(super) summary: Summary,
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
            seats: Seats::default(),
            told: Told::default(),
        })
    }

    pub(super) fn apply(&mut self, record: &Record) {
        if let Err(illegal) = self.job.apply(record) {
            panic!("record {} of job {}: {illegal}", record.seq, self.job.id);
        }
        match &record.event.kind {
            Kind::Adopt(adoption) => {
                self.adoption = Some((self.job.attempt, adoption.as_ref().clone()));
            }
            Kind::IdBlock(block) => self.block = Some((self.job.attempt, *block)),
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => self.seats.follow(grant),
            Kind::Requeue(_) => {
                self.told = Told::default();
                self.seats = Seats::default();
            }
            _ => {}
        }
    }

    pub(super) fn id(&self) -> JobId {
        self.job.id
    }

    /// Who this attempt said it is.
    pub(super) fn adoption(&self) -> Option<&Adoption> {
        let (attempt, adoption) = self.adoption.as_ref()?;
        (*attempt == self.job.attempt).then_some(adoption)
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

    /// What its nodes are called in it.
    pub(super) fn seats(&self) -> &Seats {
        &self.seats
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
        let adoption = self.adoption();
        let leads = |queue: &&Queue| self.declared.is_some() && queue.instance == self.declared;
        ChildRow {
            job: self.job.id,
            name: self.declared.clone().unwrap_or(shown.name),
            instance: adoption.map(|adoption| adoption.instance.clone()),
            uri: adoption.map(|adoption| adoption.uri.clone()),
            statedir: adoption.map(|adoption| adoption.statedir.clone()),
            stage: self.stage(),
            nnodes: shown.nnodes,
            ncores: room.map_or(shown.ncores, |room| room.ncores() as u32),
            queues: queues
                .iter()
                .filter(leads)
                .map(|q| q.name.clone())
                .collect(),
            until: self.until().into_iter().chain(latest).min(),
            summary: self.told.summary,
        }
    }
}
