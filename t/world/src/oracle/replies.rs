//! What clients are told, against what is durable at the moment of telling.

use std::collections::{BTreeMap, BTreeSet};

use eddy_broker::{Caller, Reply};
use eddy_modules::row::row;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Kind;
use eddy_wire::id::{JobId, Seq};
use eddy_wire::lifecycle::JobState;
use eddy_wire::message::Type;
use eddy_wire::services::instance::StreamReply;
use eddy_wire::services::job::{Changed, EventsLine, EventsReply, JobEnd, JobRow, Submitted};
use eddy_wire::services::kvs::Entry;
use eddy_wire::services::usage::UsageReport;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::Records;
use super::ledger::Ledger;
use crate::call::About;

/// The calls that are not answered to their end.
#[derive(Clone, Debug, Default)]
pub struct Replies {
    calls: BTreeMap<Caller, Told>,
    /// Jobs whose result was given to somebody.
    collected: BTreeSet<JobId>,
    /// Jobs that a submitter was told of.
    pub acknowledged: BTreeSet<JobId>,
    /// Jobs of the parent that a submitter was told of in a queue instance, by key.
    pub handed_up: Vec<(Copy, JobId)>,
}

/// Whose submission a job is, under which key, and which of its copies.
pub type Copy = (u32, Uuid, u32);

/// What an instance is in another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nested {
    /// Its jobs are its own.
    #[default]
    Own,
    /// Its parent orders its jobs.
    Queue,
}

/// What one call has been told.
#[derive(Clone, Debug)]
struct Told {
    about: About,
    ends: BTreeSet<JobId>,
    places: Vec<Seq>,
}

impl Replies {
    /// A call reached the leader.
    pub fn asked(&mut self, caller: Caller, about: About) {
        let told = Told {
            about,
            ends: BTreeSet::new(),
            places: Vec::new(),
        };
        self.calls.insert(caller, told);
    }

    /// The leader is gone, its calls with it.
    pub fn forget(&mut self) {
        self.calls.clear();
    }

    /// Forgets these jobs.
    pub fn let_go(&mut self, over: &BTreeSet<JobId>) {
        self.acknowledged.retain(|job| !over.contains(job));
        self.collected.retain(|job| !over.contains(job));
    }

    /// A call is not judged any more.
    pub fn forget_call(&mut self, caller: Caller) {
        self.calls.remove(&caller);
    }

    /// An answer leaves the leader.
    pub fn told(&mut self, facts: &Facts<'_>, reply: &Reply) -> Result<(), String> {
        let Some(mut told) = self.calls.remove(&reply.to) else {
            return Ok(());
        };
        let checked = match reply.kind {
            Type::Refused => facts.refused(&told.about, &parse(&reply.body)?),
            Type::Part => self.part(facts, &mut told, reply),
            Type::Reply => self.last(facts, &told, reply),
            Type::Request | Type::Cancel => Err("a leader asks nothing of a client".to_owned()),
        };
        if reply.kind == Type::Part {
            self.calls.insert(reply.to, told);
        }
        checked
    }

    fn part(&self, facts: &Facts<'_>, told: &mut Told, reply: &Reply) -> Result<(), String> {
        match &told.about {
            About::Wait(_) => {
                for end in parse::<Vec<JobEnd>>(&reply.body)? {
                    facts.ended(&end)?;
                    if !told.ends.insert(end.id) {
                        return Err(format!("the end of job {} was told twice", end.id));
                    }
                }
                Ok(())
            }
            About::List => parse::<Vec<JobRow>>(&reply.body)?
                .iter()
                .try_for_each(|row| facts.row(row)),
            About::Events(job) => {
                let lines = parse::<EventsReply>(&reply.body)?.lines;
                for lines in lines.chunk_by(|one, next| one.seq == next.seq) {
                    told.places.push(facts.told(Some(*job), lines)?);
                }
                facts.log(*job, &told.places)
            }
            About::Stream => {
                let records = parse::<StreamReply>(&reply.body)?.records;
                for lines in records.chunk_by(|(_, one), (_, next)| one.seq == next.seq) {
                    let job = lines.first().and_then(|(job, _)| *job);
                    let lines: Vec<_> = lines.iter().map(|(_, line)| line.clone()).collect();
                    let seq = facts.told(job, &lines)?;
                    let expected = told.places.last().map_or(Seq(1), |seq| seq.next());
                    if seq != expected {
                        return Err(format!("the stream goes from before {expected} to {seq}"));
                    }
                    told.places = vec![seq];
                }
                Ok(())
            }
            About::Watch(_) => facts.change(&parse(&reply.body)?),
            _ => Ok(()),
        }
    }

    /// The jobs that a submitter is told of are durable, and those of its key.
    fn submitted(
        &mut self,
        facts: &Facts<'_>,
        told: Submitted,
        (user, key): (u32, Uuid),
        count: u32,
    ) -> Result<(), String> {
        if told.count != count {
            return Err(format!(
                "{count} jobs were submitted, {} acknowledged",
                told.count
            ));
        }
        for index in 0..count {
            let job = JobId(told.first.0 + u64::from(index));
            if facts.nested == Nested::Queue && !facts.durable.jobs.contains_key(&job) {
                // It was handed up, and is the parent's.
                self.handed_up.push(((user, key, index), job));
                continue;
            }
            let known = facts.durable.jobs.get(&job);
            let is_passed = |known: &&eddy_wire::job::Job| {
                known.submit.pass.is_some() && !known.submit.is_taken_here()
            };
            if known.filter(is_passed).is_some() {
                continue;
            }
            self.acknowledged.insert(job);
            // What was submitted to the parent, too, under the same key, may have been passed down meanwhile.
            let is_of_it =
                known.is_some_and(|known| (known.submit.user, known.submit.key) == (user, key));
            if !is_of_it && facts.durable.keys.get(&(user, key, index)) != Some(&job) {
                return Err(format!(
                    "acknowledged job {job} is not in the durable journal"
                ));
            }
        }
        Ok(())
    }

    fn last(&mut self, facts: &Facts<'_>, told: &Told, reply: &Reply) -> Result<(), String> {
        match &told.about {
            About::Submit { user, key, count } => {
                self.submitted(facts, parse(&reply.body)?, (*user, *key), *count)
            }
            About::Wait(jobs) => match told.ends.len() as u64 == jobs.len() {
                true => Ok(()),
                false => Err("a wait ended before all its jobs were told of".to_owned()),
            },
            About::Collect => {
                let end: JobEnd = parse(&reply.body)?;
                facts.ended(&end)?;
                if !facts.durable.jobs[&end.id].collected {
                    return Err(format!(
                        "job {} was collected, which is not durable",
                        end.id
                    ));
                }
                match self.collected.insert(end.id) {
                    true => Ok(()),
                    false => Err(format!("job {} was collected twice", end.id)),
                }
            }
            About::Exception { job, kind } => {
                let durable = facts.durable.exceptions.contains(&(*job, kind.clone()));
                confirms(reply, durable, || format!("`{kind}` of job {job}"))
            }
            About::Urgency { job, urgency } => {
                let durable = facts.durable.urgencies.contains(&(*job, *urgency));
                confirms(reply, durable, || format!("urgency of job {job}"))
            }
            About::Limit(job) => {
                let durable = facts.durable.limited.contains(job);
                confirms(reply, durable, || format!("a time limit of job {job}"))
            }
            About::Put { key, value } => {
                match facts
                    .durable
                    .puts
                    .contains(&(key.clone(), value.to_string()))
                {
                    true => Ok(()),
                    false => Err(format!("value `{key}` was confirmed, it is not durable")),
                }
            }
            // What is the parent's is recorded there.
            About::Once(key)
                if facts.nested == Nested::Own && !facts.durable.done.contains(key) =>
            {
                Err(format!("request {key} was confirmed, it is not durable"))
            }
            About::Get(_) => facts.durable_value(&parse(&reply.body)?),
            About::Usage => adds_up(&parse(&reply.body)?),
            About::Events(_)
            | About::List
            | About::Stream
            | About::Watch(_)
            | About::Why
            | About::Dead(_)
            | About::Once(_)
            | About::Other => Ok(()),
        }
    }
}

/// Each core-second is in one place, and all of them are the capacity; GPUs and memory likewise.
fn adds_up(report: &UsageReport) -> Result<(), String> {
    let (sum, capacity) = (report.identity.spent.sum(), report.identity.capacity);
    match sum == capacity {
        true => Ok(()),
        false => Err(format!(
            "where the capacity went is {sum:?} in all, the capacity is {capacity:?}"
        )),
    }
}

/// What an answer is held against.
pub struct Facts<'a> {
    /// The fold of what is durable.
    pub durable: &'a Ledger,
    /// What the instance is in another.
    pub nested: Nested,
    /// The fold of all that is recorded.
    pub recorded: &'a Ledger,
    /// The durable records.
    pub records: &'a Records,
}

impl Facts<'_> {
    /// A refusal changed nothing.
    fn refused(&self, about: &About, refusal: &Refusal) -> Result<(), String> {
        let (user, key) = match about {
            About::Submit { user, key, .. } => (user, key),
            About::Once(key)
                if refusal.code != Code::NotReady && self.recorded.done.contains(key) =>
            {
                return Err(format!(
                    "request {key}, which was done, was refused: {refusal}"
                ));
            }
            _ => return Ok(()),
        };
        let made = self.recorded.keys.get(&(*user, *key, 0));
        match (made, refusal.code) {
            // Who is ending takes nothing, and says of nothing that it is not there.
            (None, _) | (Some(_), Code::Conflict | Code::NotReady) => Ok(()),
            (Some(job), _) => Err(format!(
                "a submission that is job {job} was refused: {refusal}"
            )),
        }
    }

    fn ended(&self, end: &JobEnd) -> Result<(), String> {
        let id = end.id;
        let job = self
            .durable
            .jobs
            .get(&id)
            .filter(|job| job.state == JobState::Inactive);
        let known = self.durable.jobs.get(&id);
        if known.is_some_and(|job| job.submit.pass.is_some()) {
            // It may have been passed down again since.
            return Ok(());
        }
        match job {
            None => Err(format!("the end of job {id} was told, it is not durable")),
            Some(job) if job.result() != Some(end.result) => Err(format!(
                "job {id} was told as {:?}, it is {:?}",
                end.result,
                job.result()
            )),
            Some(job) if job.returncode() != Some(end.returncode) => Err(format!(
                "job {id} was told to end with {}, it is {:?}",
                end.returncode,
                job.returncode()
            )),
            Some(_) => Ok(()),
        }
    }

    fn row(&self, told: &JobRow) -> Result<(), String> {
        let Some(job) = self.durable.jobs.get(&told.id) else {
            return Err(format!("job {} was listed, it is not durable", told.id));
        };
        // Why a job waits is not in the records.
        let reason = match job.end {
            Some(_) => String::new(),
            None => told.reason.clone(),
        };
        let right = row(job, reason);
        // It may have been passed down again since.
        let is_before = job.submit.pass.is_some() && told.attempt < job.attempt;
        match is_before || right == *told {
            true => Ok(()),
            false => Err(format!(
                "job {} was listed as {told:?}, durable is {right:?}",
                told.id
            )),
        }
    }

    /// The lines of one record are all of it, as it is; its place.
    fn told(&self, job: Option<JobId>, told: &[EventsLine]) -> Result<Seq, String> {
        let seq = told.first().map_or(Seq(0), |line| line.seq);
        match self.records.durable(seq) {
            Some(record) if record.event.job == job && EventsLine::of(record) == told => Ok(seq),
            Some(_) => Err(format!("record {seq} was told otherwise than it is")),
            None => Err(format!("record {seq} was told, it is not durable")),
        }
    }

    /// What was told of a job's log is its beginning, without a hole.
    fn log(&self, job: JobId, places: &[Seq]) -> Result<(), String> {
        let Some(job) = self.durable.jobs.get(&job) else {
            return Err(format!("the log of job {job} was told, it is not durable"));
        };
        match job.seqs.starts_with(places) {
            true => Ok(()),
            false => Err(format!("the log of job {} was told with a hole", job.id)),
        }
    }

    /// A watcher is told of each change in turn.
    fn change(&self, told: &Entry) -> Result<(), String> {
        let record = self
            .records
            .durable(told.seq)
            .map(|record| &record.event.kind);
        let right = match (record, &told.value) {
            (Some(Kind::Put(key, value, _)), Some(given)) => *key == told.key && value == given,
            (Some(Kind::Delete(key, _)), None) => *key == told.key,
            (None, None) => told.seq == Seq(0),
            _ => false,
        };
        match right {
            true => Ok(()),
            false => Err(format!(
                "value `{}` was told as of record {}, which is another",
                told.key, told.seq
            )),
        }
    }

    fn durable_value(&self, told: &Entry) -> Result<(), String> {
        let found = self.durable.values.get(&told.key);
        match found.map(|(value, _)| value) == told.value.as_ref() {
            true => Ok(()),
            false => Err(format!(
                "value `{}` was told, it is not the durable one",
                told.key
            )),
        }
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|e| format!("an answer cannot be read: {e}"))
}

/// A change is confirmed only if it is durable.
fn confirms(reply: &Reply, durable: bool, what: impl Fn() -> String) -> Result<(), String> {
    let changed: Changed = parse(&reply.body)?;
    match changed.count == 0 || durable {
        true => Ok(()),
        false => Err(format!("{} was confirmed, it is not durable", what())),
    }
}
