//! Records on their way to the journal, and questions to it.
//!
//! Used by the leader's loop. One batch a turn is handed to the writer, which
//! commits all that came while it was busy in one transaction. A batch waits
//! for a plan that is under way, but no longer than [`HOLD_MAX`], so that one
//! commit carries a job from its submission to its grant.
//!
//! Rows of jobs that are over wait for each other, since each of their indexes costs a commit a
//! page. Nobody sees it: who answers a question is given those that are not written yet
//! ([`super::rows`] writes those that a killed leader leaves).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eddy_broker::effect::QueryTag;
use eddy_broker::{Answer, Broker, Finished as Over, Query};
use eddy_modules::live::Change;
use eddy_wire::access::Access;
use eddy_wire::account::Name;
use eddy_wire::event::{EVENT_VERSION, Kind, Record};
use eddy_wire::hash::Hash;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::json;
use eddy_wire::pool::{Pool, Takes};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;
use uuid::Uuid;

use super::answers::{self, GENERATION, result_name};
use super::lost::Lost;
use super::queued::Queued;
use super::{Inner, Inside, spools};
use crate::config::InstanceConfig;
use crate::journal::{
    Batch, Blob, Committed, Finished, Mark, Purge, Readers, Row, SendError, Writer,
};

/// The longest a batch waits for a plan. It is looked at whenever anything comes,
/// the plan's next slice for one; without that the runtime's timer, which counts
/// in milliseconds, ends the wait.
pub const HOLD_MAX: Duration = Duration::from_micros(500);
/// The longest a batch waits that only says that tasks started. Nothing is held
/// for it, and each commit costs as much as a job: it goes along with what comes
/// next, the end of some job more often than not.
pub const STARTS_MAX: Duration = Duration::from_millis(5);
/// So many rows of jobs that are over wait to be written together; the next makes all go.
const ROWS_MAX: usize = 64;
/// And for so long, for who reads the database beside this leader.
const ROWS_WAIT_MAX: Duration = Duration::from_secs(2);
/// So many jobs are named that lack a pool.
const LACKING_SHOWN: usize = 8;
/// A batch this large waits for nothing.
const HOLD_ROWS_MAX: usize = 4096;
/// Records between two marks at least, and how many times what is live.
const MARK_RECORDS: u64 = 50_000;
const MARK_FACTOR: u64 = 4;
/// How often finished jobs that are too old or too many are looked for.
const PURGE_EVERY: Duration = Duration::from_secs(60);
/// How many are forgotten in one commit.
const PURGE_JOBS: u32 = 1_000;

/// Threads for questions that take long.
const LONG_READERS: usize = 1;

/// The way to the journal and back.
pub struct Store {
    writer: Writer,
    readers: Readers,
    /// For what takes long, so that what does not never waits for it.
    long_readers: Readers,
    inside: Inside,
    batch: Batch,
    /// Blobs that are in `batch`, by the run of records that share them.
    blobs: BTreeSet<(u64, Hash)>,
    /// When the first record of `batch` came.
    since: Option<Instant>,
    haste: Haste,
    rows: Rows,
    /// Batches sent so far, and how many of them are durable.
    sent: u64,
    durable: u64,
    /// Submission keys of jobs that have no derived row yet.
    keys: BTreeMap<JobId, Uuid>,
    last_job: JobId,
    /// Records that sum up what was used, those among them that the last mark rests on.
    summaries: BTreeSet<u64>,
    unmarked: u64,
    live: u64,
    purging: Purging,
    /// The instance's: output of forgotten jobs is found from there.
    statedir: PathBuf,
}

/// Rows of jobs that are over and are not known to be written.
#[derive(Default)]
struct Rows {
    late: VecDeque<Late>,
    /// How many of them, the last ones, are in no batch yet.
    waiting: usize,
    /// When the first of these came.
    since: Option<Instant>,
}

/// One row.
struct Late {
    /// The batch that has the job's last record. Until that is durable the job is not over for
    /// whoever asks.
    record: u64,
    /// The batch that has the row, once there is one.
    row: Option<u64>,
    finished: Arc<Finished>,
}

/// When finished jobs are forgotten.
struct Purging {
    keep_age: Option<i64>,
    keep_jobs: u64,
    next: Instant,
    /// How many the last look left that ended after the last mark: a mark is made for them.
    unmarked: u64,
    /// No mark is made for such before then.
    mark_next: Instant,
    /// How many were forgotten whose output may be there.
    forgotten: u64,
    /// Output is looked through again then: each look reads the whole directory.
    spools_next: Instant,
}

/// What replay leaves for the store to know.
#[derive(Debug, Default)]
pub struct Known {
    /// Submission keys of the jobs replayed.
    pub keys: BTreeMap<JobId, Uuid>,
    /// The highest job number ever given.
    pub last_job: JobId,
    /// Records that sum up what was used.
    pub summaries: BTreeSet<u64>,
    /// How many records were replayed.
    pub replayed: u64,
    /// The inventory recorded last.
    pub inventory: Option<Arc<ResourceSet>>,
    /// The digest of what the leader was told that recorded it.
    pub told: Option<Hash>,
    /// The ranks that jobs hold.
    pub held: BTreeMap<JobId, Idset>,
    /// Ranks that were taken out of it for good.
    pub removed: Idset,
    /// The configuration recorded last.
    pub change: Option<Change>,
    /// Who may connect, as the parent said last.
    pub admitted: Option<Access>,
    /// Jobs of whose jobspecs a text is lost.
    pub lost: Lost,
    /// In which queues jobs are that are not over.
    pub queued: Queued,
    /// Jobs that are not over and take of pools.
    pub takers: BTreeMap<JobId, Takes>,
}

impl Known {
    /// What becomes of the ranks that a job holds by a record of it.
    pub fn holds(&mut self, job: JobId, kind: &Kind) {
        match kind {
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => {
                self.held.insert(job, grant.set.ranks());
            }
            Kind::Clean => drop(self.held.remove(&job)),
            kind if kind.frees() => drop(self.held.remove(&job)),
            _ => {}
        }
    }

    /// What a person is to know of jobs that take more of a pool than there is now, a line for each pool.
    pub fn lacking(&self, pools: &[Pool]) -> Vec<String> {
        let mut lacking: BTreeMap<(&Name, u64), Vec<JobId>> = BTreeMap::new();
        for (job, takes) in &self.takers {
            for (name, asked) in takes.iter() {
                let count = pools.iter().find(|pool| pool.name == *name);
                let count = count.map_or(0, |pool| pool.count);
                if count < *asked {
                    lacking.entry((name, count)).or_default().push(*job);
                }
            }
        }
        let line = |((name, count), jobs): ((&Name, u64), Vec<JobId>)| {
            let shown = jobs.iter().take(LACKING_SHOWN).map(|job| job.f58_ascii());
            let shown: Vec<String> = shown.collect();
            let more = match jobs.len() - shown.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let shown = shown.join(", ");
            format!(
                "pool `{name}`: there are {count}, and jobs that wait for more never start as things are: {shown}{more}"
            )
        };
        lacking.into_iter().map(line).collect()
    }
}

impl Store {
    /// Begins after replay.
    pub fn new(
        writer: Writer,
        readers: Readers,
        inside: Inside,
        config: &InstanceConfig,
        known: Known,
        statedir: PathBuf,
    ) -> Store {
        Store {
            writer,
            readers,
            long_readers: Readers::new(&statedir, LONG_READERS),
            inside,
            batch: Batch::default(),
            blobs: BTreeSet::new(),
            since: None,
            haste: Haste::Starts,
            rows: Rows::default(),
            sent: 0,
            durable: 0,
            keys: known.keys,
            last_job: known.last_job,
            summaries: known.summaries,
            // What was replayed counts, so that a leader that keeps being
            // killed does not read more and more.
            unmarked: known.replayed,
            live: 0,
            purging: Purging::new(config),
            statedir,
        }
    }

    /// Finished jobs are forgotten by this from now on.
    pub fn set_purging(&mut self, config: &InstanceConfig) {
        self.purging.keep_age = config.keep_age.map(|age| age.0);
        self.purging.keep_jobs = config.keep_jobs;
    }

    /// Takes records and rows of jobs that are over.
    pub fn add(&mut self, records: Vec<Arc<Record>>, over: Vec<Over>) {
        if records.is_empty() && over.is_empty() {
            return;
        }
        self.since.get_or_insert_with(Instant::now);
        for record in &records {
            self.add_record(record);
        }
        for over in over {
            let key = self.keys.remove(&over.row.id).unwrap_or_default();
            self.rows.put(self.sent + 1, finished(&over, key));
        }
        self.unmarked += records.len() as u64;
    }

    fn add_record(&mut self, record: &Record) {
        let (seq, event) = (record.seq, &record.event);
        if !matches!(event.kind, Kind::Start) {
            self.haste = Haste::Now;
        }
        tracing::debug!(
            seq = seq.0,
            job = event.job.map(|job| job.0),
            name = event.kind.name()
        );
        if event.kind.sums_up() {
            self.summaries.insert(seq.0);
        }
        if let (Kind::Submit(submit), Some(job)) = (&event.kind, event.job) {
            self.last_job = self.last_job.max(job);
            self.keys.insert(job, submit.key);
            let spec = &submit.spec;
            for (hash, text) in [
                (spec.hash, &spec.text),
                (spec.environment_hash, &spec.environment_text),
            ] {
                if self.blobs.insert((seq.0 / GENERATION, hash)) {
                    self.batch.blobs.push(Blob {
                        seq: seq.0,
                        hash: hash.0,
                        bytes: Arc::clone(text),
                    });
                }
            }
        }
        self.batch.rows.push(Row {
            seq: seq.0,
            t: event.t.0,
            job: event.job.map_or(0, |job| job.0),
            name: Cow::Borrowed(event.kind.name()),
            version: EVENT_VERSION,
            context: event.kind.context(),
        });
    }

    /// When the batch must go although a plan is under way; `None` when there
    /// is none.
    pub fn must_go_at(&self) -> Option<Instant> {
        let rows = self.rows.since.map(|since| since + ROWS_WAIT_MAX);
        self.records_go_at().into_iter().chain(rows).min()
    }

    fn records_go_at(&self) -> Option<Instant> {
        let longest = match self.haste {
            Haste::Now => HOLD_MAX,
            Haste::Starts => STARTS_MAX,
        };
        self.since.map(|since| since + longest)
    }

    /// Whether the batch, if there is one, is to go now.
    pub fn is_due(&self, now: Instant, plan_is_under_way: Plan) -> bool {
        let waits = match (self.haste, plan_is_under_way) {
            (Haste::Now, Plan::None) => false,
            (Haste::Now, Plan::UnderWay) | (Haste::Starts, _) => true,
        };
        match self.records_go_at() {
            None => self.must_go_at().is_some_and(|at| at <= now),
            Some(at) => !waits || at <= now || self.batch.rows.len() >= HOLD_ROWS_MAX,
        }
    }

    /// Whether a mark is to go with the next batch.
    pub fn is_mark_due(&self) -> bool {
        self.purging.unmarked > 0 || self.unmarked >= MARK_RECORDS.max(MARK_FACTOR * self.live)
    }

    /// Hands the batch to the writer, and says what became of it if that is known.
    pub fn send(&mut self, now: Time, broker: &Broker) -> Result<Option<Committed>, SendError> {
        self.since = None;
        self.haste = Haste::Starts;
        self.blobs.clear();
        let is_mark_due = self.is_mark_due();
        // What a mark leaves out nobody folds again, so rows behind it would be lost.
        if is_mark_due || self.rows.are_due() {
            self.take_rows();
        }
        let mut batch = std::mem::take(&mut self.batch);
        if is_mark_due {
            let live = broker.live();
            self.live = live.len() as u64;
            self.unmarked = 0;
            let live: Vec<u64> = live.into_iter().map(|seq| seq.0).collect();
            let stands = |seq: &u64| live.binary_search(seq).is_ok();
            self.summaries.retain(stands);
            batch.summaries = self.summaries.iter().copied().collect();
            batch.mark = Some(Mark {
                seq: broker.last().0,
                last_job: self.last_job.0,
                live,
            });
            self.purging.marked();
        }
        batch.purge = self.purging.due(now);
        // What was given to the thread is heard of first: a later batch that is durable here meanwhile would be
        // told before it.
        let is_heard = self.sent == self.durable;
        self.sent += 1;
        match is_heard {
            true => self.writer.commit(batch),
            false => self.writer.send(batch).map(|()| None),
        }
    }

    /// The next batch has the rows that wait.
    fn take_rows(&mut self) {
        let rows = self.rows.take(self.sent + 1);
        self.batch.finished.extend(rows);
    }

    /// So many batches became durable, and so many jobs were forgotten in them; so many others only
    /// wait for a mark to be.
    pub fn committed(&mut self, batches: u64, purged: u64, unmarked: u64) {
        self.durable += batches;
        self.rows.written(self.durable);
        if self.purging.done(purged, unmarked) == Spools::Due {
            self.list_spools();
        }
    }

    /// The output of jobs that were forgotten goes, too: first is looked what there is.
    fn list_spools(&mut self) {
        let (statedir, inside) = (self.statedir.clone(), self.inside.clone());
        let asked = self.readers.ask(move |_| match spools::list(&statedir) {
            // The loop is gone only when the process ends.
            Ok(listed) => drop(inside.send(Inner::Spools(listed))),
            Err(error) => tracing::error!("cannot list spools: {}", super::chain(&error)),
        });
        if asked.is_err() {
            tracing::warn!("spools of forgotten jobs stay until the next are forgotten");
        }
    }

    /// Removes those of these that are of jobs that were forgotten.
    pub fn remove_spools(&mut self, listed: spools::Listed) {
        let last = self.last_job;
        let late = self.rows.late.iter().map(|late| JobId(late.finished.id));
        let open: HashSet<JobId> = self.keys.keys().copied().chain(late).collect();
        let asked = self.readers.ask(move |reader| {
            let is_open = |job: JobId| job > last || open.contains(&job);
            match spools::remove(reader, listed, is_open) {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "output of forgotten jobs was removed"),
                Err(error) => tracing::error!("cannot remove spools: {}", super::chain(&error)),
            }
        });
        if asked.is_err() {
            tracing::warn!("spools of forgotten jobs stay until the next are forgotten");
        }
    }

    /// Asks the journal on a thread of its own.
    pub fn ask(&mut self, tag: QueryTag, query: Query) {
        let late = self.rows.over(self.durable);
        let inside = self.inside.clone();
        let readers = match answers::is_long(&query) {
            true => &mut self.long_readers,
            false => &mut self.readers,
        };
        let asked = readers.ask(move |reader| {
            // The loop is gone only when the process ends.
            let _ = inside.send(Inner::Answer(tag, answers::answer(reader, &query, &late)));
        });
        if let Err(busy) = asked {
            let _ = self
                .inside
                .send(Inner::Answer(tag, Answer::Failed(busy.to_string())));
        }
    }

    /// Commits what was sent and ends.
    pub fn close(mut self) {
        let finished = self.rows.take(self.sent + 1);
        if !finished.is_empty() {
            let batch = Batch {
                finished,
                ..Batch::default()
            };
            if let Err(error) = self.writer.commit(batch) {
                tracing::error!(%error, "rows of jobs that are over are not written");
            }
        }
        if let Err(error) = self.writer.close() {
            tracing::error!(%error, "the journal was not closed in order");
        }
    }
}

/// What a batch waits for at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Haste {
    /// It says nothing but that tasks started.
    Starts,
    /// Somebody waits for it.
    Now,
}

/// Whether the planner is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing was asked of it.
    None,
    /// Its answer will come.
    UnderWay,
}

impl Rows {
    fn put(&mut self, record: u64, finished: Finished) {
        self.late.push_back(Late {
            record,
            row: None,
            finished: Arc::new(finished),
        });
        self.waiting += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    fn are_due(&self) -> bool {
        let is_old = |since: Instant| since.elapsed() >= ROWS_WAIT_MAX;
        self.waiting >= ROWS_MAX || self.since.is_some_and(is_old)
    }

    /// Those that wait, for this batch.
    fn take(&mut self, batch: u64) -> Vec<Arc<Finished>> {
        let first = self.late.len() - self.waiting;
        (self.waiting, self.since) = (0, None);
        let taken = self.late.range_mut(first..).map(|late| {
            late.row = Some(batch);
            Arc::clone(&late.finished)
        });
        taken.collect()
    }

    /// Batches up to this one are durable.
    fn written(&mut self, durable: u64) {
        let is_written = |late: &mut Late| late.row.is_some_and(|batch| batch <= durable);
        while self.late.pop_front_if(is_written).is_some() {}
    }

    /// Those of jobs whose end is durable; of one that was passed to this instance once more, its last.
    fn over(&self, durable: u64) -> Vec<Arc<Finished>> {
        let over = self.late.iter().filter(|late| late.record <= durable);
        let mut seen = HashSet::new();
        let last = over.rev().filter(|late| seen.insert(late.finished.id));
        let mut rows: Vec<_> = last.map(|late| Arc::clone(&late.finished)).collect();
        rows.reverse();
        rows
    }
}

/// Whether output of forgotten jobs is to be looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spools {
    NotYet,
    Due,
}

impl Purging {
    fn new(config: &InstanceConfig) -> Purging {
        let now = Instant::now();
        Purging {
            keep_age: config.keep_age.map(|age| age.0),
            keep_jobs: config.keep_jobs,
            next: now,
            unmarked: 0,
            mark_next: now,
            forgotten: 0,
            spools_next: now,
        }
    }

    /// A mark goes with this batch: those that waited for it are forgotten in the same.
    fn marked(&mut self) {
        if std::mem::take(&mut self.unmarked) > 0 {
            self.next = Instant::now();
            self.mark_next = self.next + PURGE_EVERY;
        }
    }

    fn done(&mut self, purged: u64, unmarked: u64) -> Spools {
        let now = Instant::now();
        if purged >= u64::from(PURGE_JOBS) {
            self.next = now;
        }
        if unmarked > 0 && self.mark_next <= now {
            self.unmarked = unmarked;
        }
        self.forgotten += purged;
        if self.forgotten == 0 || now < self.spools_next {
            return Spools::NotYet;
        }
        self.forgotten = 0;
        self.spools_next = now + PURGE_EVERY;
        Spools::Due
    }

    fn due(&mut self, now: Time) -> Option<Purge> {
        let instant = Instant::now();
        if instant < self.next {
            return None;
        }
        self.next = instant + PURGE_EVERY;
        let ended_before = self
            .keep_age
            .map_or(i64::MIN, |age| now.0.saturating_sub(age));
        Some(Purge {
            ended_before,
            keep_most: self.keep_jobs,
            jobs_max: PURGE_JOBS,
        })
    }
}

/// The row as the journal has it.
pub fn finished(over: &Over, key: Uuid) -> Finished {
    let row = &over.row;
    Finished {
        id: row.id.0,
        user: row.userid,
        key: key.into_bytes(),
        name: row.name.clone(),
        result: row.result.map_or("", result_name).to_owned(),
        t_submit: row.t_submit.0,
        t_inactive: row.t_inactive.unwrap_or(row.t_submit).0,
        events: over.seqs.iter().map(|seq| seq.0).collect(),
        row: json::to_string(row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(id: u64, events: &[u64]) -> Finished {
        Finished {
            id,
            user: 0,
            key: [0; 16],
            name: String::new(),
            result: "completed".to_owned(),
            t_submit: 0,
            t_inactive: 0,
            events: events.to_vec(),
            row: "{}".to_owned(),
        }
    }

    /// Its rows may both be on their way to the journal, which keeps the last.
    #[test]
    fn a_job_that_came_twice_is_over_as_it_was_last() {
        let mut rows = Rows::default();
        rows.put(1, finished(7, &[1, 2]));
        rows.put(2, finished(8, &[3]));
        rows.put(3, finished(7, &[4, 5]));
        let told = |durable| {
            let over = rows.over(durable).into_iter();
            over.map(|row| (row.id, row.events[0])).collect::<Vec<_>>()
        };
        assert_eq!(told(2), [(7, 1), (8, 3)]);
        assert_eq!(told(3), [(8, 3), (7, 4)]);
    }
}
