//! What must always be true, judged apart from what it judges.
//!
//! The driver tells the oracle of every record, commit, task and answer as it happens; the first
//! broken promise is kept as one sentence, and ends the run. It reads nothing of the modules' state:
//! only what they gave away.

mod arrival;
mod charges;
mod eligible;
mod ending;
mod expected;
mod filtered;
mod forgetting;
mod gangs;
mod kin;
mod ledger;
mod limits;
mod may;
mod numbers;
mod order;
mod pools;
mod preempts;
pub mod queues;
mod refused;
mod replies;
mod reserved;
mod settled;
mod shrinks;
pub mod silence;
mod sockets;
mod staying;
mod tasks;
pub mod terse;
mod twice;
mod users;
mod waits;

use std::collections::{BTreeSet, VecDeque};
use std::iter;
use std::sync::Arc;

use eddy_broker::{Caller, Finished, Reply};
use eddy_modules::live::{Change, Live};
use eddy_modules::row::row;
use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::grace;
use eddy_wire::id::{Epoch, JobId, Rank, Seq};
use eddy_wire::job::Job;
use eddy_wire::plan::Delta;
use eddy_wire::preempt::Mode;
use eddy_wire::services::child::ChildOf;
use eddy_wire::services::usage::UsageReport;
use eddy_wire::shell::{Part, Start, ToShell};
use eddy_wire::time::{Span, Time};

use crate::call::About;
use crate::log::Log;
pub use kin::{Kin, Living};
pub use ledger::{Below, Ledger, places};
pub use queues::Queued;
pub use replies::{Copy, Facts, Nested, Replies};
use tasks::Tasks;
pub use waits::is_left_behind;

/// How long before its instance a job ends, its grace aside; with some room for clocks that slew.
const LAST_MOMENT: Span = Span::seconds(3);

/// The judge of one instance.
#[derive(Debug, Default)]
pub struct Oracle {
    recorded: Ledger,
    durable: Ledger,
    records: Records,
    limited: limits::Limited,
    queued: Queued,
    reserved: reserved::Reserved,
    preempts: preempts::Preempts,
    pooled: pools::Pooled,
    ganged: gangs::Ganged,
    socketed: sockets::Socketed,
    screened: filtered::Screened,
    refused: refused::Refused,
    silent: silence::Silent,
    charged: twice::Charged,
    terse: terse::Terse,
    eligible: eligible::Eligible,
    settled: settled::Settled,
    expected: expected::Expected,
    tasks: Tasks,
    replies: Replies,
    numbers: numbers::Numbers,
    /// Jobs that a person sent a signal to: theirs are not the leader's.
    signalled: BTreeSet<JobId>,
    /// Parts that were asked to end.
    asked_to_end: BTreeSet<Part>,
    grace: Span,
    until: Option<Time>,
    ending: ending::Ending,
    nested: Nested,
    finding: Option<String>,
}

/// The records, durable ones first.
#[derive(Debug, Default)]
pub struct Records {
    durable: Log,
    later: VecDeque<Arc<Record>>,
}

impl Records {
    /// A durable record. Places are dense.
    pub fn durable(&self, seq: Seq) -> Option<&Arc<Record>> {
        self.durable
            .get(usize::try_from(seq.0.checked_sub(1)?).ok()?)
    }
}

impl Oracle {
    /// A judge that has seen nothing, of an instance with this grace from TERM to KILL.
    pub fn new(grace: Span) -> Oracle {
        let mut oracle = Oracle {
            grace,
            ..Oracle::default()
        };
        oracle.set_qos(&[]);
        oracle
    }

    /// The grace from TERM to KILL is this.
    pub fn set_grace(&mut self, grace: Span) {
        self.grace = grace;
    }

    /// So many jobs of these queues may run.
    pub fn set_queues(&mut self, limits: std::collections::BTreeMap<String, u32>) {
        self.queued = Queued::new(limits);
    }

    /// Where a queue is at home.
    pub fn set_home(&mut self, home: queues::Home) {
        self.queued.at_home(home);
    }

    /// The instances of these queues have nodes of their own.
    pub fn set_aside(&mut self, queues: BTreeSet<String>) {
        self.queued.set_aside(queues);
    }

    /// These may take from each other.
    pub fn set_qos(&mut self, qos: &[eddy_modules::settings::Qos]) {
        self.preempts.set(qos, self.grace);
    }

    /// Something goes wrong from now on.
    pub fn struck(&mut self) {
        self.terse.forget();
        self.preempts.struck();
    }

    /// A shell says hello to the leader.
    pub fn hello(&mut self, shell: Epoch) {
        self.terse.forget();
        if let Some(ranks) = self.recorded.shells.get(&shell) {
            self.preempts.hello(ranks);
        }
    }

    /// Who is let through by which limits, as recorded.
    pub fn limited(&self) -> &limits::Limited {
        &self.limited
    }

    /// The queues as recorded.
    pub fn queued(&self) -> &Queued {
        &self.queued
    }

    /// The gangs as recorded.
    pub fn ganged(&self) -> &gangs::Ganged {
        &self.ganged
    }

    /// There is so much of these pools.
    pub fn set_pools(&mut self, pools: &[eddy_wire::pool::Pool]) {
        self.pooled = pools::Pooled::new(pools);
    }

    /// This is in force now; it may be another than was recorded, where the leader was told so.
    pub fn configured(&mut self, live: &Live) {
        self.limited.configured(live);
        self.queued.configured(&live.queues);
        self.pooled.configured(&live.pools);
        self.screened.configured(&live.filters);
    }

    /// Submissions go through these filters.
    pub fn set_filters(&mut self, filters: &[eddy_wire::filter::Filter]) {
        self.screened = filtered::Screened::new(filters);
    }

    /// The reservations as recorded.
    pub fn reservations(&self) -> impl Iterator<Item = &Arc<eddy_wire::reservation::Reservation>> {
        self.reserved.all()
    }

    /// What it hears of its parent: nothing from now on, or again.
    pub fn silent(&mut self) -> &mut silence::Silent {
        &mut self.silent
    }

    /// A job is over in that attempt of an instance.
    pub fn ended_inside(&mut self, of: ChildOf, job: &Job) {
        let counts = waits::Counts::of(self.recorded.jobs.get(&of.job), of.attempt);
        for ledger in [&mut self.durable, &mut self.recorded] {
            let ended = ledger.waits.inside.entry((of.job, job.id)).or_default();
            ended.push(waits::End {
                attempt: of.attempt,
                job: job.clone(),
                counts,
            });
        }
    }

    /// An instance in this one took a job itself, or began it.
    pub fn did_below(&mut self, job: JobId, did: Below) {
        self.recorded.did_below(job, did);
        self.durable.did_below(job, did);
    }

    /// The first broken promise.
    pub fn finding(&self) -> Option<&str> {
        self.finding.as_deref()
    }

    /// Something is wrong; only the first is kept.
    pub fn fail(&mut self, sentence: String) {
        self.finding.get_or_insert(sentence);
    }

    fn check(&mut self, checked: Result<(), String>) {
        if let Err(sentence) = checked {
            self.fail(sentence);
        }
    }

    /// What is durable.
    pub fn durable(&self) -> &Ledger {
        &self.durable
    }

    /// What is recorded.
    pub fn recorded(&self) -> &Ledger {
        &self.recorded
    }

    /// Whether that is what was used, by all that is durable.
    ///
    /// # Errors
    /// What is told otherwise than it was.
    pub fn agrees_with(&self, report: &UsageReport) -> Result<(), String> {
        charges::agree(self.records.durable.iter(), report)
    }

    /// What really runs.
    pub fn running(&self) -> impl Iterator<Item = (Part, u32)> + '_ {
        self.tasks.running()
    }

    /// Jobs that a submitter was told of.
    pub fn acknowledged(&self) -> &BTreeSet<JobId> {
        &self.replies.acknowledged
    }

    /// Its parent orders its jobs.
    pub fn set_nested(&mut self, nested: Nested) {
        self.nested = nested;
    }

    /// Jobs of the parent that somebody was told of here since the last time.
    pub fn handed_up(&mut self) -> Vec<(Copy, JobId)> {
        std::mem::take(&mut self.replies.handed_up)
    }

    /// A submitter was told of this job.
    pub fn acknowledge(&mut self, job: JobId) {
        self.replies.acknowledged.insert(job);
    }

    /// Those who keep what they need of the records themselves.
    fn fold(&mut self, record: &Record) {
        let all = [
            self.pooled.apply(record),
            self.ganged.apply(record),
            self.socketed.apply(record),
            self.charged.apply(record),
            users::may_govern(record),
        ];
        for checked in all {
            self.check(checked);
        }
    }

    /// The leader recorded this, and what it implies; when that was.
    pub fn record(&mut self, record: &Arc<Record>, heard: terse::Heard) {
        self.records.later.push_back(Arc::clone(record));
        let is_limited = |submit: &Submit| self.limited.counts_for(submit);
        let checked = self.terse.apply(record, heard, is_limited);
        self.check(checked);
        self.fold_one(record);
        if let Some(implied) = record.implied() {
            self.fold_one(&implied);
        }
    }

    /// For those who judge only what planners are told.
    fn fold_apart(&mut self, record: &Record) {
        self.eligible.apply(record);
        self.settled.apply(record);
        self.expected.apply(record);
    }

    fn fold_one(&mut self, record: &Record) {
        self.fold_apart(record);
        let goes_on = self.refused.apply(record);
        let urged = users::may_urge(&self.recorded, record)
            .and_then(|()| users::may_extend(&self.recorded, record));
        let checked = self.recorded.apply(record);
        self.check(goes_on.and(checked));
        let checked = self.limited.apply(record, &self.recorded);
        self.check(checked);
        if let Kind::Memo(memo) = &record.event.kind
            && let Some(change) = Change::told(memo)
        {
            self.configured(&change.live);
        }
        // What a queue instance began without the parent it began by what it had heard before.
        let job = record.event.job;
        let is_bound = !job.is_some_and(|job| self.recorded.has_begun_below(job));
        let queued = self.refused.found(record, self.queued.apply(record));
        let reserved = self.reserved.apply(record);
        if is_bound {
            self.check(queued.and(reserved));
        }
        let checked = self.preempts.apply(&self.recorded, record);
        self.check(checked);
        self.fold(record);
        if let (Kind::Submit(submit), Some(job)) = (&record.event.kind, record.event.job)
            && !self.recorded.is_not_as_asked(job, submit)
        {
            let checked = self.refused.found(record, self.screened.apply(job, submit));
            self.check(checked);
        }
        let checked = self.silent.apply(&self.recorded, record);
        self.check(checked);
        let Some(job) = record.event.job else { return };
        let checked = users::may_record(&self.recorded, job, &record.event.kind);
        self.check(checked.and(urged));
        let ledger = &self.recorded;
        if let Some(status) = record.event.kind.finish() {
            let checked = self.tasks.ended_with(ledger, job, status);
            self.check(checked);
        }
        let ledger = &self.recorded;
        let checked = match &record.event.kind {
            Kind::Alloc(_) => self.may_begin(job, record.event.t),
            Kind::Release(..) | Kind::Free => match ledger.jobs.get(&job) {
                Some(found) => self
                    .tasks
                    .is_over(job, found.attempt, record.event.kind.name()),
                None => Ok(()),
            },
            // Its node was taken back from the instance: which is held against what its parent told it.
            Kind::Exception(e) if e.kind == "node-failure" && e.note.contains("goes back") => {
                self.taken_back(job)
            }
            // What an instance began and knows nothing of is lost with its journal.
            Kind::Exception(e) if e.note.ends_with("took it, and has lost what became of it") => {
                ledger.is_lost_below(job)
            }
            Kind::Exception(e) if e.kind == "node-failure" => self.tasks.may_fail(ledger, job),
            Kind::Exception(e) if e.kind == "timeout" => match self.until {
                // All in an instance end so long before its own limit.
                Some(until) if record.event.t >= Time(until.0 - self.grace.0 - LAST_MOMENT.0) => {
                    Ok(())
                }
                _ => in_time(ledger, job, record.event.t),
            },
            _ => Ok(()),
        };
        self.check(checked);
    }

    /// A planner is told of who waits, and what who waits no more was charged, by all that is recorded.
    pub fn planned(&mut self, deltas: &[Delta]) {
        for delta in deltas {
            let checked = self.settled.told(delta);
            self.check(checked);
        }
        let mut told = BTreeSet::new();
        // What was said of one before may be void since.
        for delta in deltas.iter().rev() {
            match delta {
                Delta::Want(job, want) if told.insert(*job) => {
                    let checked = self.eligible.wants(*job, want);
                    self.check(checked);
                }
                Delta::Unwant(job) | Delta::Held(job, ..) => drop(told.insert(*job)),
                _ => {}
            }
        }
    }

    /// The leader wrote the row of a job that is over.
    pub fn finished(&mut self, finished: &Finished) {
        let id = finished.row.id;
        let checked = match self.recorded.jobs.get(&id) {
            None => Err(format!(
                "the row of job {id} was written, there is no such job"
            )),
            Some(job) if row(job, String::new()) != finished.row || job.seqs != finished.seqs => {
                Err(format!("the row of job {id} is not what its events say"))
            }
            Some(_) => Ok(()),
        };
        self.check(checked);
    }

    /// Records up to here are on disk.
    pub fn commit(&mut self, seq: Seq) {
        while let Some(record) = self.records.later.pop_front_if(|record| record.seq <= seq) {
            for record in iter::once(&*record).chain(&record.implied()) {
                let checked = self.durable.apply(record);
                self.check(checked);
            }
            self.records.durable.push(record);
        }
    }

    /// The leader is gone; what is durable up to here is all that is left.
    pub fn leader_lost(&mut self, seq: Seq) {
        self.commit(seq);
        self.silent.forget();
        self.ending.forget();
        self.records.later.clear();
        self.recorded = self.durable.clone();
        self.limited = self.limited.forgetful(seq);
        self.queued = self.queued.forgetful();
        self.reserved = reserved::Reserved::default();
        self.preempts.forget();
        self.pooled = self.pooled.forgetful();
        self.ganged = gangs::Ganged::default();
        self.socketed = sockets::Socketed::default();
        self.charged = twice::Charged::default();
        self.refused = refused::Refused::default();
        self.eligible = eligible::Eligible::default();
        self.settled = settled::Settled::default();
        for record in self.records.durable.iter() {
            for record in iter::once(&**record).chain(&record.implied()) {
                // What was found then is told already.
                self.silent.told(record);
                self.eligible.apply(record);
                self.settled.apply(record);
                self.preempts.again(record);
                drop(self.limited.apply(record, &self.recorded));
                drop(self.queued.apply(record));
                drop(self.reserved.apply(record));
                drop(self.pooled.apply(record));
                drop(self.ganged.apply(record));
                drop(self.socketed.apply(record));
                drop(self.charged.apply(record));
            }
        }
        self.settled.begins_anew();
        self.replies.forget();
        self.numbers.forget();
    }

    /// A task begins on this life of a shell.
    pub fn task_begins(&mut self, start: &Start, shell: Epoch, task: u32) {
        let checked = self.tasks.begin(&self.durable, start, shell, task);
        self.check(checked);
    }

    /// A task ended, or could not be started.
    pub fn task_ended(&mut self, part: Part, task: u32, status: i32) {
        self.tasks.end(part, task, status);
    }

    /// A task died with its shell.
    pub fn task_lost(&mut self, part: Part, task: u32) {
        self.tasks.lose(part, task);
    }

    /// That life of a shell is over.
    pub fn shell_ended(&mut self, shell: Epoch) {
        self.tasks.shell_ended(shell);
    }

    /// A call reached the leader.
    pub fn asked(&mut self, caller: Caller, about: &About) {
        self.replies.asked(caller, about.clone());
        self.comes(caller, about);
    }

    /// The answer to a call is not judged.
    pub fn forget(&mut self, caller: Caller) {
        self.replies.forget_call(caller);
    }

    /// Somebody sends a signal to the tasks of a job.
    pub fn signalled(&mut self, job: JobId) {
        self.signalled.insert(job);
    }

    /// A user does: where he may not, none is to arrive.
    pub fn signalled_by(&mut self, job: JobId, user: u32) {
        if users::may_signal(&self.recorded, job, user) {
            self.signalled(job);
        }
    }

    /// A signal that ends a task reached a part.
    pub fn asked_to_end(&mut self, part: Part) {
        self.asked_to_end.insert(part);
    }

    /// Whether one did.
    pub fn was_asked_to_end(&self, part: &Part) -> bool {
        self.asked_to_end.contains(part)
    }

    /// An answer leaves the leader.
    pub fn told(&mut self, reply: &Reply) {
        let facts = Facts {
            durable: &self.durable,
            nested: self.nested,
            recorded: &self.recorded,
            records: &self.records,
        };
        let checked = self.replies.told(&facts, reply);
        self.check(checked);
        let checked = self.is_in_turn(reply);
        self.check(checked);
    }

    /// The leader tells a shell something at this broker time.
    pub fn ordered(&mut self, now: Time, shell: Epoch, message: &ToShell) {
        let checked = match message {
            ToShell::Start(start) => self.may_start(start),
            // What a shell holds whose loss was recorded counts no more.
            ToShell::Signal { .. } if !self.durable.shells.contains_key(&shell) => Ok(()),
            ToShell::Signal { part, signal, .. } => self.may_signal(now, *part, *signal),
            _ => Ok(()),
        };
        self.check(checked);
    }

    /// A node goes back on which a job was: not that of its instance's leader.
    fn taken_back(&self, job: JobId) -> Result<(), String> {
        let grant = self.recorded.held.get(&job);
        let is_on = |rank: &Rank| *rank != Rank(0);
        match grant.is_some_and(|grant| grant.set.nodes.keys().any(is_on)) {
            true => Ok(()),
            false => Err(format!("job {job} lost the node of its instance's leader")),
        }
    }
}

/// When the KILL of one that is to end is due: a grace later, or when that was recorded to be.
pub fn due(job: &Job, grace: Span) -> Option<Time> {
    let end = job.end.as_ref()?;
    let ended = job.preemption().filter(|one| one.mode != Mode::Suspend);
    let until = ended.map(|preemption| preemption.until);
    let until = until.or(end.exception.until);
    Some(until.unwrap_or(end.t.after(grace::within(&job.submit.spec, grace))))
}

/// A time limit is over no earlier than it says.
fn in_time(ledger: &Ledger, job: JobId, t: Time) -> Result<(), String> {
    // When one that was passed down began its instance knows, which has a judge of its own.
    if ledger.away.contains_key(&job) {
        return Ok(());
    }
    let found = ledger.jobs.get(&job);
    let limit = found.and_then(|job| {
        let limit = job.submit.spec.request.duration?;
        // While it was suspended its time did not run.
        Some((job.started?, limit + job.suspension.lasted().0))
    });
    match limit {
        Some((started, limit)) if t >= started.after(Span(limit)) => Ok(()),
        Some((started, limit)) => Err(format!(
            "job {job} timed out at {t}, it started at {started} for {}",
            Span(limit)
        )),
        None => Err(format!(
            "job {job} timed out, it has no limit or did not start"
        )),
    }
}
