//! Input and output of tasks, forwarded between clients and shells.
//!
//! The shells keep the output (spool files) and the pipes; here is only who
//! reads what from which shell, so that a read goes on when the shell comes
//! back. Nothing passes through the journal.

mod input;
mod keepers;
mod past;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use eddy_broker::{
    Answer, Caller, Effect, Endpoint, Input, Module, Notice, Outbox, Query, Request, Volatile,
};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::hostlist::Hostlist;
use eddy_wire::id::{Attempt, Epoch, JobId, Rank, Seq};
use eddy_wire::job::first_attempt;
use eddy_wire::services::Service;
use eddy_wire::services::job::{self, InputReply, OutputReply, OutputRequest};
use eddy_wire::shell::{FromShell, Part, ToShell};
use eddy_wire::time::Time;

use crate::callers::{self, Callers};
use crate::exec::{Place, layout};
use crate::jobs::Jobs;
use crate::settings::Settings;
use crate::sight::{Sight, no_job};

use input::Portions;
use keepers::{hosts, keeper, miss};
use past::whereabouts;

/// Reads of one instance at most.
const READS_MAX: usize = 65_536;

/// Who reads what.
#[derive(Default)]
pub struct Stdio {
    /// Where each attempt of each job in memory is or was, in order; the latest
    /// has no ranks before it has a place.
    jobs: Jobs<Known>,
    /// Jobs that are over, by the record that says so, until it is durable.
    over: VecDeque<(Seq, JobId)>,
    shells: BTreeMap<Rank, Epoch>,
    /// The hosts of its ranks. A rank that a job had may be another's by now, if this is a queue instance, whose
    /// nodes come and go: what was kept there is where the host is.
    hosts: BTreeMap<Rank, Arc<str>>,
    calls: BTreeMap<u64, Call>,
    callers: Callers,
    reads: BTreeMap<u64, Read>,
    portions: Portions,
    next: u64,
    sight: Sight,
}

/// A job in memory.
struct Known {
    submit: Arc<Submit>,
    attempts: Vec<Whereabouts>,
    /// Which tasks of the latest attempt are on which rank, where that runs here.
    places: Vec<Place>,
}

/// An attempt and its ranks.
#[derive(Clone, Debug)]
struct Whereabouts {
    attempt: Attempt,
    nodes: Vec<(Rank, Arc<str>)>,
    /// The instance that it was passed to.
    to: Option<String>,
}

impl Whereabouts {
    fn nowhere(attempt: Attempt) -> Whereabouts {
        Whereabouts {
            attempt,
            nodes: Vec::new(),
            to: None,
        }
    }
}

/// Where the output that is asked for is to be found.
enum Found {
    /// There.
    At(Whereabouts),
    /// The attempt has no place yet.
    NotYet,
    /// The job has left memory.
    InJournal,
}

/// One `job.output` call.
struct Call {
    request: OutputRequest,
    /// As it came.
    message: Request,
    stage: Stage,
    /// Hosts of which nothing can be told.
    missing: Hostlist,
}

/// How far a call has come.
enum Stage {
    /// The journal is asked for the finished job.
    AskedJob,
    /// And for its records.
    AskedRecords,
    /// The job has no place yet.
    Waiting,
    /// These reads are not at their end.
    Reading(BTreeSet<u64>),
}

/// One rank's part of a call.
struct Read {
    call: u64,
    part: Part,
    host: Arc<str>,
    node_index: u32,
    offset: u64,
}

impl Module for Stdio {
    fn name(&self) -> &'static str {
        "stdio"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        const ENDPOINTS: &[Endpoint] =
            &[Endpoint::of::<job::Output>(), Endpoint::of::<job::Input>()];
        ENDPOINTS
    }

    fn apply(&mut self, record: &Record) {
        self.sight.apply(record);
        match (&record.event.kind, record.event.job) {
            (Kind::Submit(submit), Some(id)) => {
                let known = Known {
                    submit: Arc::clone(submit),
                    attempts: vec![Whereabouts::nowhere(first_attempt(submit))],
                    places: Vec::new(),
                };
                self.jobs.insert(id, known);
            }
            (Kind::Requeue(attempt), Some(id)) => {
                if let Some(known) = self.jobs.get_mut(&id) {
                    known.attempts.push(Whereabouts::nowhere(*attempt));
                    known.places.clear();
                }
            }
            (Kind::Passed(to), Some(id)) => {
                let known = self.jobs.get_mut(&id);
                if let Some(latest) = known.and_then(|known| known.attempts.last_mut()) {
                    latest.to = Some(to.instance.clone());
                }
            }
            (Kind::Alloc(grant), Some(id)) => {
                if let Some(known) = self.jobs.get_mut(&id) {
                    // Of one that is passed its instance is asked where its tasks are.
                    known.places = match grant.passed {
                        Some(_) => Vec::new(),
                        None => {
                            let request = known.submit.spec.request.granted(&grant.set);
                            layout(&request, &grant.set)
                        }
                    };
                    if let Some(latest) = known.attempts.last_mut() {
                        let passed = grant.passed.as_ref();
                        let to = passed.map(|passed| passed.instance.clone());
                        latest.to = to.or(latest.to.take());
                        latest.nodes = hosts(&grant.set);
                    }
                }
            }
            // It stays until the journal can be asked for it.
            (Kind::Clean, Some(id)) => self.over.push_back((record.seq, id)),
            (Kind::ResourceDefine(set, _), None) => self.hosts = hosts(set).into_iter().collect(),
            (Kind::ShellStart(ranks, epoch), None) => {
                self.shells
                    .extend(ranks.iter().map(|rank| (Rank(rank), *epoch)));
            }
            _ => {}
        }
    }

    fn handle(&mut self, _now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Request(request) => {
                if let Err(refusal) = self.request(request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Answer(tag, answer) => self.answered(tag, answer, out),
            Input::Shell(epoch, FromShell::Hello { version, .. }) => {
                self.resend(epoch, out);
                self.portions.came(epoch, *version, out);
            }
            Input::Shell(
                epoch,
                FromShell::Took {
                    part,
                    portion,
                    next,
                    taken,
                },
            ) => {
                let (next, taken) = (*next, *taken);
                let said = InputReply { next, taken };
                self.portions.took(epoch, (*part, *portion), said, out);
            }
            Input::ShellDead(epoch) => self.portions.over(epoch, out),
            Input::Shell(
                _,
                FromShell::Output {
                    read,
                    next,
                    frames,
                    end,
                },
            ) => {
                self.output(*read, *next, frames, *end, out);
            }
            Input::Applied(record) => {
                self.portions.applied(record, out);
                self.applied(record, out);
            }
            Input::Durable(record) => self.forget_to(record.seq),
            // What was replayed is durable.
            Input::Resume(_) => self.forget_to(Seq(u64::MAX)),
            Input::Cancel(caller) => self.drop_calls(&callers::only(caller), out),
            Input::Gone(client) => self.drop_calls(&callers::all_of(client), out),
            _ => {}
        }
    }
}

impl Stdio {
    /// Of no job.
    pub fn new(settings: &Settings) -> Stdio {
        Stdio {
            sight: Sight::new(settings),
            ..Stdio::default()
        }
    }

    fn request(&mut self, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        match request.topic.as_str() {
            job::Input::TOPIC => self.input(request, out),
            _ => self.open(request, out),
        }
    }

    fn forget_to(&mut self, durable: Seq) {
        while let Some((_, id)) = self.over.pop_front_if(|(seq, _)| *seq <= durable) {
            self.jobs.remove(&id);
        }
    }

    /// Whether it is the sender's to read and write what a job reads and writes.
    fn check_sender(
        &self,
        request: &Request,
        job: JobId,
        unseen: fn(JobId) -> Refusal,
    ) -> Result<(), Refusal> {
        self.jobs.get(&job).map_or(Ok(()), |known| {
            let user = known.submit.user;
            self.sight.permits(request.sender(), (job, user), unseen)
        })
    }

    fn open(&mut self, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let body: OutputRequest = request.parse()?;
        if self.reads.len() >= READS_MAX {
            let text = format!("the limit `reads` of {READS_MAX} is reached");
            return Err(Refusal::new(Code::Busy, text));
        }
        self.check_sender(request, body.id, no_job)?;
        let place = self.place(&body)?;
        let tag = self.take_tag();
        let (id, follow) = (body.id, body.follow);
        let stage = match place {
            Found::At(_) => Stage::Reading(BTreeSet::new()),
            Found::NotYet => Stage::Waiting,
            Found::InJournal => Stage::AskedJob,
        };
        self.callers.insert(request.caller, tag);
        self.calls.insert(
            tag,
            Call {
                request: body,
                message: request.clone(),
                stage,
                missing: Hostlist::default(),
            },
        );
        match place {
            Found::At(whereabouts) => self.read(tag, &whereabouts, out),
            // It has no output yet: wait for it, or be done.
            Found::NotYet if follow => {}
            Found::NotYet => self.finish(tag, out),
            Found::InJournal => out.volatile(Volatile::Query(tag, Query::Finished(id))),
        }
        Ok(())
    }

    /// Where the output that is asked for is to be found.
    fn place(&self, body: &OutputRequest) -> Result<Found, Refusal> {
        let Some(Known { attempts, .. }) = self.jobs.get(&body.id) else {
            return Ok(Found::InJournal);
        };
        let wanted = match body.attempt {
            Some(attempt) => attempts.iter().find(|w| w.attempt == attempt),
            None => attempts.last(),
        };
        match wanted {
            Some(whereabouts) if whereabouts.nodes.is_empty() => Ok(Found::NotYet),
            Some(whereabouts) => Ok(Found::At(whereabouts.clone())),
            None => {
                let (id, last) = (body.id.f58_ascii(), attempts.len());
                let text = format!("attempt: job {id} has had attempts 1 to {last}");
                Err(Refusal::not_found(text))
            }
        }
    }

    fn take_tag(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Asks the shell of each rank.
    fn read(&mut self, tag: u64, whereabouts: &Whereabouts, out: &mut Outbox) {
        if let Some(name) = &whereabouts.to {
            let call = self.remove(tag);
            let request = call.map(|call| Box::new(call.message));
            let elsewhere = request.map(|request| Notice::Elsewhere(request, name.clone()));
            return elsewhere.into_iter().for_each(|notice| out.notice(notice));
        }
        let Some(call) = self.calls.get_mut(&tag) else {
            return;
        };
        let (job, offsets) = (call.request.id, call.request.offsets.clone());
        let mut reads = BTreeMap::new();
        for (index, (rank, host)) in whereabouts.nodes.iter().enumerate() {
            if keeper(&self.hosts, *rank, host).is_none() {
                miss(call, host);
                continue;
            }
            let part = Part {
                job,
                attempt: whereabouts.attempt,
                rank: *rank,
            };
            let read = Read {
                call: tag,
                part,
                host: Arc::clone(host),
                node_index: index as u32,
                offset: offsets.get(index).copied().unwrap_or(0),
            };
            self.next += 1;
            reads.insert(self.next, read);
        }
        call.stage = Stage::Reading(reads.keys().copied().collect());
        if reads.is_empty() {
            return self.finish(tag, out);
        }
        for (id, read) in reads {
            self.reads.insert(id, read);
            self.send(id, out);
        }
    }

    fn send(&self, id: u64, out: &mut Outbox) {
        let Some(read) = self.reads.get(&id) else {
            return;
        };
        let follow = self
            .calls
            .get(&read.call)
            .is_some_and(|call| call.request.follow);
        if let Some(epoch) = self.shell(read) {
            let message = ToShell::Read {
                part: read.part,
                read: id,
                offset: read.offset,
                follow,
            };
            out.effect(Effect::Shell(epoch, message));
        }
    }

    /// A shell came (back): what is read from it is asked for again.
    fn resend(&self, epoch: Epoch, out: &mut Outbox) {
        for (id, read) in &self.reads {
            if self.shell(read) == Some(epoch) {
                self.send(*id, out);
            }
        }
    }

    fn output(&mut self, id: u64, next: u64, frames: &[u8], end: bool, out: &mut Outbox) {
        let Some(read) = self.reads.get_mut(&id) else {
            return;
        };
        read.offset = next;
        let tag = read.call;
        let Some(call) = self.calls.get_mut(&tag) else {
            return;
        };
        if !frames.is_empty() {
            let reply = OutputReply {
                attempt: read.part.attempt,
                node_index: read.node_index,
                next,
                missing: String::new(),
            };
            out.part(call.message.caller, &reply, Bytes::copy_from_slice(frames));
        }
        if end {
            self.end(id, out);
        }
    }

    /// A read has come to its end.
    fn end(&mut self, id: u64, out: &mut Outbox) {
        let Some(read) = self.reads.remove(&id) else {
            return;
        };
        let Some(call) = self.calls.get_mut(&read.call) else {
            return;
        };
        let Stage::Reading(left) = &mut call.stage else {
            return;
        };
        left.remove(&id);
        if left.is_empty() {
            self.finish(read.call, out);
        }
    }

    fn applied(&mut self, record: &Record, out: &mut Outbox) {
        let Some(id) = record.event.job else {
            if matches!(record.event.kind, Kind::ResourceDefine(..)) {
                self.end_missing(out);
            }
            return;
        };
        let ends = match record.event.kind {
            Kind::Alloc(_) => false,
            Kind::Clean => true,
            _ => return,
        };
        let waiting: Vec<u64> = self
            .calls
            .iter()
            .filter(|(_, call)| call.request.id == id && matches!(call.stage, Stage::Waiting))
            .map(|(tag, _)| *tag)
            .collect();
        for tag in waiting {
            match self
                .jobs
                .get(&id)
                .and_then(|known| known.attempts.last())
                .cloned()
            {
                Some(whereabouts) if !ends => self.read(tag, &whereabouts, out),
                Some(_) | None => self.finish(tag, out),
            }
        }
    }

    fn answered(&mut self, tag: u64, answer: &Answer, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(&tag) else {
            return;
        };
        let id = call.request.id;
        match (answer, &call.stage) {
            (Answer::Finished(Some(found)), Stage::AskedJob) => {
                let of = (id, found.0.userid);
                if let Err(refusal) = self.sight.permits(call.message.sender(), of, no_job) {
                    return self.refuse(tag, &refusal, out);
                }
                call.stage = Stage::AskedRecords;
                let query = Query::Records(found.1.clone());
                out.volatile(Volatile::Query(tag, query));
            }
            (Answer::Finished(None), Stage::AskedJob) => {
                self.refuse(tag, &no_job(id), out);
            }
            (Answer::Records(records), Stage::AskedRecords) => {
                let wanted = call.request.attempt;
                match whereabouts(records.iter().map(|(_, line)| line), wanted) {
                    Some(found) => self.read(tag, &found, out),
                    None => self.finish(tag, out),
                }
            }
            (Answer::Failed(why), _) => {
                let refusal = Refusal::new(Code::Busy, why.clone());
                self.refuse(tag, &refusal, out);
            }
            (other, _) => panic!("a finished job was asked for, the answer is {other:?}"),
        }
    }

    fn remove(&mut self, tag: u64) -> Option<Call> {
        let call = self.calls.remove(&tag)?;
        self.callers.remove(call.message.caller, tag);
        Some(call)
    }

    fn finish(&mut self, tag: u64, out: &mut Outbox) {
        if let Some(call) = self.remove(tag) {
            let end = OutputReply {
                attempt: Attempt(0),
                node_index: 0,
                next: 0,
                missing: call.missing.to_string(),
            };
            // Behind everything recorded of the job's end.
            out.reply(call.message.caller, &end);
        }
    }

    fn refuse(&mut self, tag: u64, refusal: &Refusal, out: &mut Outbox) {
        if let Some(call) = self.remove(tag) {
            out.refuse(call.message.caller, refusal);
        }
    }

    fn drop_calls(&mut self, gone: &RangeInclusive<Caller>, out: &mut Outbox) {
        self.portions.drop_of(gone);
        for tag in self.callers.of(gone) {
            let stage = self.remove(tag).map(|call| call.stage);
            let Some(Stage::Reading(reads)) = stage else {
                continue;
            };
            for id in reads {
                let read = self.reads.remove(&id).expect("its call reads it");
                if let Some(epoch) = self.shell(&read) {
                    out.volatile(Volatile::Shell(epoch, ToShell::StopRead { read: id }));
                }
            }
        }
    }
}

/// What is said of a number that no job with tasks has.
fn not_running(job: JobId) -> Refusal {
    Refusal::not_found(format!("id: job {} is not running", job.f58_ascii()))
}
