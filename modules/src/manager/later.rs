//! Changes of many jobs: so many of their records in a turn, and the others in those that follow.
//!
//! Used by the manager for what people ask of many jobs at once. Every module folds each record: recorded all at
//! once, they would keep everybody else waiting. So it is recorded first what is to be of which jobs, in a memo of no
//! job, and with each part how many are left: a leader that comes after goes on from there, and nobody is left half
//! changed. What is recorded later is asked again whether it can be; whoever is to end by it begins no more.

use std::collections::{BTreeSet, VecDeque};

use eddy_broker::{Caller, Outbox, Sender, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{EVENT_VERSION, Kind, Record};
use eddy_wire::id::{JobId, Seq};
use eddy_wire::message::Roles;
use eddy_wire::services::job::{Changed, JobSet, REFUSED_MAX, UpdateRequest};
use eddy_wire::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::change::Proposed;

/// So many records are made in a turn: some tens of milliseconds of all modules' time.
pub(super) const PART: usize = 1_000;
/// So many changes may be under way.
const CHANGES_MAX: usize = 64;
/// So many runs of numbers are recorded of one: as a message its record has room for them.
const RUNS_MAX: usize = 262_144;
/// The memo that says what is to be done, and how far it is.
const KEY: &str = "change-of-many";

/// Whether one more change of many jobs may begin beside so many.
fn may_begin(under_way: usize) -> Result<(), Refusal> {
    if under_way < CHANGES_MAX {
        return Ok(());
    }
    let text = format!(
        "jobs: {CHANGES_MAX} changes of more than {PART} jobs each are under way already (limit `changes`); ask again \
         later"
    );
    Err(Refusal::new(Code::Busy, text))
}

/// Changes under way; one after the other has a turn.
#[derive(Debug, Default)]
pub(super) struct Later {
    changes: VecDeque<Change>,
    /// Who asked for those whose beginning is recorded in this turn.
    asked: VecDeque<Asked>,
}

/// One of them.
#[derive(Debug)]
struct Change {
    /// The record by which it began.
    began: Seq,
    /// That of its last part.
    noted: Option<Seq>,
    work: Work,
    /// Those of its jobs that it ends.
    ends: BTreeSet<JobId>,
    /// None is there to be answered who asked another leader.
    asked: Option<Asked>,
}

/// What is left of one.
#[derive(Debug)]
enum Work {
    /// These are to be recorded.
    Events(VecDeque<(JobId, Kind)>),
    /// These jobs are to have other limits and terms, as is found by their turn.
    Terms(Box<Asking>, VecDeque<JobId>),
}

/// Who wants other limits and terms of jobs, and which.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asking {
    uid: u32,
    roles: Roles,
    /// Its jobs are those that are to have them.
    pub(super) request: UpdateRequest,
}

/// Who asks for one, and what is told him at its end.
#[derive(Debug)]
struct Asked {
    caller: Caller,
    changed: Changed,
}

/// What is recorded of one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Noted {
    /// All of it, before any.
    Begins(Vec<Group>),
    /// The same of other limits and terms.
    Asks(Box<Asking>),
    /// A part was recorded of the one that began by that record, or could not be any more: so many are left.
    Left(Seq, usize),
}

/// Jobs that have the same event before them.
#[derive(Debug, Serialize, Deserialize)]
struct Group {
    name: String,
    version: u16,
    context: String,
    /// First and last numbers.
    jobs: Vec<(JobId, JobId)>,
}

impl Noted {
    fn told(memo: &Map<String, Value>) -> Option<Noted> {
        serde_json::from_value(memo.get(KEY)?.clone()).ok()
    }

    fn memo(&self) -> Kind {
        let noted = serde_json::to_value(self).expect("words and numbers are JSON");
        Kind::Memo(Map::from_iter([(KEY.to_owned(), noted)]))
    }
}

impl Group {
    fn kind(&self) -> Option<Kind> {
        // It names no jobspec.
        Kind::decode(&self.name, self.version, &self.context, &mut |_, _| None).ok()
    }
}

impl Work {
    fn len(&self) -> usize {
        match self {
            Work::Events(events) => events.len(),
            Work::Terms(_, jobs) => jobs.len(),
        }
    }
}

impl Asking {
    pub(super) fn new(Sender { uid, roles }: Sender, request: UpdateRequest) -> Asking {
        Asking {
            uid,
            roles,
            request,
        }
    }

    pub(super) fn sender(&self) -> Sender {
        let Asking { uid, roles, .. } = *self;
        Sender { uid, roles }
    }
}

impl Later {
    /// Records what is proposed and answers, or the first time has it done from the next turn on.
    pub(super) fn begin(
        &mut self,
        now: Time,
        caller: Caller,
        proposed: Proposed,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        if proposed.events.len() <= PART {
            let changed = proposed.append(now, out);
            out.reply(caller, &changed);
            return Ok(());
        }
        may_begin(self.changes.len())?;
        let (events, changed) = proposed.apart();
        let begins = Noted::Begins(groups(events)?);
        self.asked.push_back(Asked { caller, changed });
        out.append_own(now, begins.memo());
        out.volatile(Volatile::Wake(now));
        Ok(())
    }

    /// Has many jobs asked about other limits and terms from the next turn on.
    pub(super) fn begin_terms(
        &mut self,
        now: Time,
        caller: Caller,
        (mut asking, jobs): (Asking, Vec<JobId>),
        changed: Changed,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        may_begin(self.changes.len())?;
        asking.request.jobs = JobSet::of(jobs);
        few_runs(asking.request.jobs.ranges.len())?;
        self.asked.push_back(Asked { caller, changed });
        out.append_own(now, Noted::Asks(Box::new(asking)).memo());
        out.volatile(Volatile::Wake(now));
        Ok(())
    }

    /// Folds a record.
    pub(super) fn apply(&mut self, record: &Record) {
        let (Kind::Memo(memo), None) = (&record.event.kind, record.event.job) else {
            return;
        };
        match Noted::told(memo) {
            Some(Noted::Begins(groups)) => self.began(record.seq, events(&groups)),
            Some(Noted::Asks(asking)) => {
                let ranges = asking.request.jobs.ranges.iter();
                let jobs = ranges.flat_map(|(first, last)| (first.0..=last.0).map(JobId));
                let jobs = jobs.collect();
                self.began(record.seq, Work::Terms(asking, jobs));
            }
            Some(Noted::Left(began, left)) => self.noted(record.seq, began, left),
            None => {}
        }
    }

    /// After a restart: what is under way goes on.
    pub(super) fn resume(&self, now: Time, out: &mut Outbox) {
        if !self.changes.is_empty() {
            out.volatile(Volatile::Wake(now));
        }
    }

    /// The records on which what is under way rests.
    pub(super) fn live(&self, seqs: &mut Vec<Seq>) {
        let of = |change: &Change| [Some(change.began), change.noted];
        seqs.extend(self.changes.iter().flat_map(of).flatten());
    }

    /// Whether a job is to end by a change that is under way.
    pub(super) fn ends(&self, job: JobId) -> bool {
        self.changes.iter().any(|change| change.ends.contains(&job))
    }

    /// The next part of the change whose turn it is, of what `may_still` be.
    pub(super) fn part(
        &mut self,
        now: Time,
        may_still: impl Fn(JobId, &Kind) -> bool,
        out: &mut Outbox,
    ) {
        let Some(change) = self.changes.front() else {
            return;
        };
        let Work::Events(events) = &change.work else {
            return;
        };
        let part = events.iter().take(PART);
        let part = part.filter(|(job, kind)| may_still(*job, kind));
        let mut changed = Changed::default();
        for (job, kind) in part {
            changed.count += 1;
            out.append(now, *job, kind.clone());
        }
        self.done(now, change.began, &changed, out);
    }

    /// The jobs of the next part, where other limits and terms have their turn.
    pub(super) fn terms(&self) -> Option<(Seq, &Asking, Vec<JobId>)> {
        let change = self.changes.front()?;
        match &change.work {
            Work::Events(_) => None,
            Work::Terms(asking, jobs) => {
                let part = jobs.iter().take(PART).copied();
                Some((change.began, asking, part.collect()))
            }
        }
    }

    /// A part of the one whose turn it is was recorded: says so, and answers with the last.
    pub(super) fn done(&mut self, now: Time, began: Seq, changed: &Changed, out: &mut Outbox) {
        let is_alone = self.changes.len() <= 1;
        let change = self.changes.front_mut();
        let Some(change) = change.filter(|change| change.began == began) else {
            return;
        };
        let left = change.work.len().saturating_sub(PART);
        out.append_own(now, Noted::Left(began, left).memo());
        if let Some(asked) = &mut change.asked {
            asked.changed.count += changed.count;
            asked.changed.refused.extend(changed.refused.clone());
            asked.changed.refused.truncate(REFUSED_MAX);
            if left == 0 {
                out.reply(asked.caller, &asked.changed);
            }
        }
        if left > 0 || !is_alone {
            out.volatile(Volatile::Wake(now));
        }
    }

    fn began(&mut self, began: Seq, work: Work) {
        let ends = match &work {
            Work::Events(events) => {
                let ends = events.iter().filter(|(_, kind)| is_end(kind));
                ends.map(|(job, _)| *job).collect()
            }
            Work::Terms(..) => BTreeSet::new(),
        };
        self.changes.push_back(Change {
            began,
            noted: None,
            ends,
            work,
            asked: self.asked.pop_front(),
        });
    }

    /// The one whose turn it was has the next when all others had theirs.
    fn noted(&mut self, seq: Seq, began: Seq, left: usize) {
        let at = self.changes.iter().position(|change| change.began == began);
        let Some(mut change) = at.and_then(|at| self.changes.remove(at)) else {
            return;
        };
        let part = change.work.len().saturating_sub(left);
        match &mut change.work {
            Work::Events(events) => {
                for (job, _) in events.drain(..part) {
                    change.ends.remove(&job);
                }
            }
            Work::Terms(_, jobs) => drop(jobs.drain(..part)),
        }
        change.noted = Some(seq);
        if left > 0 {
            self.changes.push_back(change);
        }
    }
}

/// What is to be of which jobs, those together of which it is the same.
fn groups(events: Vec<(JobId, Kind)>) -> Result<Vec<Group>, Refusal> {
    let mut all: Vec<(Kind, Vec<(JobId, JobId)>)> = Vec::new();
    for (job, kind) in events {
        // There are as many as urgencies at most.
        let at = all.iter().position(|(known, _)| *known == kind);
        let at = at.unwrap_or_else(|| {
            all.push((kind, Vec::new()));
            all.len() - 1
        });
        let jobs = &mut all[at].1;
        match jobs.last_mut() {
            Some((_, last)) if last.0 + 1 == job.0 => *last = job,
            _ => jobs.push((job, job)),
        }
    }
    few_runs(all.iter().map(|(_, jobs)| jobs.len()).sum())?;
    let group = |(kind, jobs): (Kind, Vec<(JobId, JobId)>)| Group {
        name: kind.name().to_owned(),
        version: EVENT_VERSION,
        context: kind.context(),
        jobs,
    };
    Ok(all.into_iter().map(group).collect())
}

/// Whether a record has room for so many runs of numbers.
fn few_runs(runs: usize) -> Result<(), Refusal> {
    if runs <= RUNS_MAX {
        return Ok(());
    }
    let text = format!(
        "jobs: they are {runs} runs of numbers, at most {RUNS_MAX} are changed at a time (limit `changes`); ask of \
         fewer"
    );
    Err(Refusal::new(Code::TooLarge, text))
}

/// What is to be recorded, one after the other.
fn events(groups: &[Group]) -> Work {
    let mut events = VecDeque::new();
    for group in groups {
        let Some(kind) = group.kind() else { continue };
        let jobs = group.jobs.iter();
        let jobs = jobs.flat_map(|(first, last)| (first.0..=last.0).map(JobId));
        events.extend(jobs.map(|job| (job, kind.clone())));
    }
    Work::Events(events)
}

fn is_end(kind: &Kind) -> bool {
    matches!(kind, Kind::Exception(exception) if exception.severity == 0)
}
