//! Step 1 of a job's path: takes a submission, checks it, proposes `submit`.
//!
//! Refuses with a typed reason and changes nothing, or proposes one `submit`
//! per job of the submission and answers once they are durable. A sender
//! repeats a submission under the same key until it is answered: the same key
//! is the same jobs. It submits the jobs of declared instances itself, and holds
//! submissions while job numbers are on their way from the parent. Never starts,
//! orders or places anything.

mod above;
mod admission;
mod counted;
mod filters;
pub(crate) mod fleet;
mod grounds;
mod keys;
mod lookups;
mod numbers;
pub(crate) mod parties;
mod pools;
mod proposal;
pub(crate) mod queues;
pub(crate) mod reserved;
mod room;
pub(crate) mod served;
pub(crate) mod specs;
mod submission;
mod supposed;
mod taking;
mod targets;
mod update;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use eddy_broker::{
    Answer, Caller, Disk, Endpoint, Input, Module, Notice, Outbox, Query, Request, Volatile,
};
use eddy_sched::Capacity;
use eddy_wire::access::HOST_ADMIN;
use eddy_wire::account::Party;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::Seq;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Work;
use eddy_wire::pool::Pool;
use eddy_wire::services::job::{self, SubmitRequest, URGENCY_MAX};
use eddy_wire::spec::Spec;
use eddy_wire::time::{Span, Time};

use crate::gangs::Gangs;
use crate::jobs::Jobs;
use crate::live::Change;
use crate::named;
use crate::nest::blocks;
use crate::settings::Settings;
use crate::sight::Sight;
use above::Above;
use filters::Filters;
use fleet::Fleet;
use grounds::Grounds;
use keys::{Keys, Known, Seen};
use lookups::Lookups;
use numbers::Numbers;
use parties::Parties;
use queues::Queues;
use reserved::Reserved;
use room::Room;
use served::Served;
use specs::Specs;
use submission::Submission;

/// How many submissions wait for one thing; of one user half of that.
const HELD_MAX: usize = 2000;
/// Bytes of their jobspecs; of one user half of that.
const HELD_BYTES: usize = 128 << 20;

/// Takes submissions.
pub struct Ingest {
    /// What the inventory can hold; `None` before it is recorded.
    capacity: Option<Capacity>,
    numbers: Numbers,
    served: Served,
    queues: Queues,
    reserved: Reserved,
    pools: Vec<Pool>,
    gangs: Gangs,
    parties: Parties,
    fleet: Fleet,
    grounds: Grounds,
    /// Declared instances whose job is proposed and not folded yet.
    proposed: BTreeSet<String>,
    owner: u32,
    instance_command: Vec<String>,
    /// The ranks on the leader's own node.
    local: Idset,
    room: Room,
    keys: Keys,
    specs: Specs,
    /// Whose the jobs are that are over and whose end is not durable.
    ended: Jobs<u32>,
    /// Whose jobs a sender may know of.
    sight: Sight,
    /// Submissions for which something is being looked up in the journal: their key, or a job that
    /// they are to wait for.
    asked: BTreeMap<u64, Submission>,
    lookups: Lookups,
    /// Submissions that wait for job numbers, the longest so first.
    held: VecDeque<Submission>,
    above: Above,
    filters: Filters,
    /// What instances took themselves and is looked at, as it was handed up: it is recorded whatever comes of that.
    taken: BTreeMap<Caller, Submission>,
    next_tag: u64,
    intake: Intake,
}

/// Whether new work is taken.
#[derive(Debug)]
enum Intake {
    Open,
    DiskFull(String),
    Stopping,
}

impl Module for Ingest {
    fn name(&self) -> &'static str {
        "ingest"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        const ENDPOINTS: &[Endpoint] = &[Endpoint::of::<job::Submit>()];
        ENDPOINTS
    }

    fn apply(&mut self, record: &Record) {
        self.fleet.apply(record);
        self.grounds.apply(record);
        self.parties.apply(record);
        self.queues.apply(record);
        self.reserved.apply(record);
        self.served.apply(record);
        self.gangs.apply(record);
        self.above.apply(record);
        self.sight.apply(record);
        match (&record.event.kind, record.event.job) {
            (Kind::Submit(submit), Some(job)) => {
                // The number of a job that was passed down is none of this instance's own.
                if submit.pass.is_none() || submit.is_taken_here() {
                    self.numbers.passed(job);
                }
                if let Work::Instance { name: Some(name) } = &submit.spec.request.work {
                    self.proposed.remove(name);
                }
                self.room.submitted(submit.user);
                self.keys.submitted(submit, job);
            }
            (Kind::Clean, Some(job)) => {
                let user = self.keys.user_of(job);
                self.room.ended(user);
                if let Some(user) = user {
                    self.ended.insert(job, user);
                }
                self.keys.ended(job);
            }
            (Kind::ResourceDefine(set, _), _) => self.capacity = Some(Capacity::of(set)),
            (Kind::LeaderStart(epoch), _) => self.keys.leader(*epoch, record.event.t),
            // Drawn by a child: its numbers and all below are set aside.
            (Kind::IdBlock(block), Some(_)) => self.numbers.passed(numbers::last(block)),
            (Kind::IdBlock(block), None) => self.numbers.block(record.seq, *block),
            (Kind::Memo(memo), None) => {
                if let Some(Change { live, .. }) = Change::told(memo) {
                    self.filters.configured(&live.filters);
                    self.room.most(live.jobs_max, live.user_max);
                    self.pools = live.pools;
                }
                self.numbers.noted(record.seq, memo);
                if let Some(last) = blocks::last_of(memo) {
                    self.numbers.passed(last);
                }
            }
            _ => {}
        }
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Request(request) => {
                if let Err(refusal) = self.request(now, request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Answer(tag, Answer::Ruled(ruling)) => self.ruled(now, tag, ruling, out),
            Input::Answer(tag, answer) => self.answered(now, tag, answer, out),
            Input::Tick => self.go_on(now, out),
            Input::Disk(Disk::Full(why)) => {
                // An instance that ends takes nothing more, whatever the disk has.
                if !matches!(self.intake, Intake::Stopping) {
                    self.intake = Intake::DiskFull(why.clone());
                }
            }
            Input::Disk(Disk::Room) => {
                if matches!(self.intake, Intake::DiskFull(_)) {
                    self.intake = Intake::Open;
                    self.bring_up(now, out);
                }
            }
            Input::Notice(Notice::TakenUp(request, taken, by)) => {
                if let Err(refusal) = self.take_up(now, request, (taken, by), out) {
                    self.turn_away(now, request.caller, &refusal, out);
                }
            }
            Input::Notice(Notice::Limits(limits)) => self.new_limits(now, limits, out),
            Input::Notice(Notice::Supposed(caller, suppose, jobs)) => {
                self.supposed(now, *caller, (suppose, jobs), out);
            }
            Input::Resume(_) => {
                // What was replayed is durable.
                self.ended = Jobs::default();
                self.note_homes(now, out);
                self.bring_up(now, out);
                self.ask_numbers(out);
            }
            Input::Applied(record) => self.applied(now, record, out),
            Input::Durable(record) => {
                if let (Kind::Clean, Some(job)) = (&record.event.kind, record.event.job) {
                    self.ended.remove(&job);
                }
            }
            Input::Parent(word) => self.parent(now, word, out),
            Input::Stop => self.stop(out),
            // Made in a queue instance, and handed up.
            Input::Notice(Notice::HandedUp(request)) => {
                if let Err(refusal) = self.request(now, request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Cancel(caller) => {
                self.held.retain(|s| s.caller != caller);
                self.taken.remove(&caller);
                self.above.drop_where(|of| of == caller);
                self.filters.drop_where(|of| of == caller);
            }
            Input::Gone(client) => {
                self.above.drop_where(|of| of.client == client);
                self.filters.drop_where(|of| of.client == client);
                self.asked.retain(|_, s| s.caller.client != client);
                self.held.retain(|s| s.caller.client != client);
                self.taken.retain(|caller, _| caller.client != client);
            }
            _ => {}
        }
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        self.numbers.live(seqs);
        self.fleet.live(seqs);
        self.above.live(seqs);
    }
}

impl Ingest {
    /// An ingest that has seen nothing.
    pub fn new(settings: &Settings) -> Ingest {
        let numbers = match settings.place.name {
            Some(_) => Numbers::drawn(settings.last_job),
            None => Numbers::own(settings.last_job),
        };
        Ingest {
            room: Room::new(settings.jobs_max, settings.user_max),
            capacity: None,
            numbers,
            served: Served::new(settings),
            queues: Queues::new(settings),
            reserved: Reserved::new(settings),
            pools: settings.pools.clone(),
            gangs: Gangs::default(),
            parties: Parties::new(settings),
            fleet: Fleet::new(settings),
            grounds: Grounds::new(settings),
            proposed: BTreeSet::new(),
            owner: settings.owner,
            instance_command: settings.instance_command.clone(),
            local: settings.local.clone(),
            keys: Keys::new(settings.key_skew, settings.key_age_max),
            specs: Specs::default(),
            ended: Jobs::default(),
            sight: Sight::new(settings),
            asked: BTreeMap::new(),
            lookups: Lookups::default(),
            held: VecDeque::new(),
            above: Above::default(),
            filters: Filters::new(&settings.filters),
            taken: BTreeMap::new(),
            next_tag: 0,
            intake: Intake::Open,
        }
    }

    fn request(&mut self, now: Time, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let submission = self.read(request)?;
        self.is_no_others(&submission)?;
        if self.is_for_above(&submission) {
            // A key of one of this instance's own is no other's.
            let (user, key) = submission.name();
            let known = self.keys.recent(user, &key);
            let is_here = self.takes_here(&submission);
            return match known.or_else(|| self.above.answered(user, &key).filter(|_| is_here)) {
                Some(known) => self.repeated(&submission, known, out),
                None if is_here => self.take_unseen(now, submission, out),
                None => self.hand_up(request, &submission, out),
            };
        }
        // The key comes first: a submission that was taken is answered as
        // such, whatever would be said of a new one now.
        match self
            .keys
            .seen(now, submission.user, &submission.request.key)?
        {
            Seen::Never if self.lookups.is_empty() => self.screen(now, submission, out),
            // It goes on behind those that came before it.
            Seen::Never => {
                let tag = self.look_up(submission);
                self.lookups.answered(tag, Answer::Key(None));
                Ok(())
            }
            Seen::As(known) => self.repeated(&submission, known, out),
            Seen::AskJournal => {
                self.ask_journal(submission, out);
                Ok(())
            }
        }
    }

    /// Has its key looked up.
    fn ask_journal(&mut self, submission: Submission, out: &mut Outbox) {
        let query = Query::Key(submission.user, submission.request.key);
        let tag = self.look_up(submission);
        out.volatile(Volatile::Query(tag, query));
    }

    /// Keeps one until its look-up is answered, and those before it are.
    fn look_up(&mut self, submission: Submission) -> u64 {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.asked.insert(tag, submission);
        self.lookups.ask(tag);
        tag
    }

    fn is_open(&self) -> Result<(), Refusal> {
        match &self.intake {
            Intake::Open => Ok(()),
            Intake::DiskFull(why) => Err(Refusal::new(Code::Busy, why.clone())),
            Intake::Stopping => Err(Refusal::new(
                Code::NotReady,
                "the instance is shutting down",
            )),
        }
    }

    /// Puts in what a job has that does not say: queue, whom it is charged to, time limit, on how many nodes it
    /// lies where those are limited.
    fn fill_in(&mut self, now: Time, submission: &mut Submission) -> Result<(), Refusal> {
        let (spec, party) = self.filled(now, submission.user, &submission.spec)?;
        submission.party = party;
        if let Some(spec) = spec {
            submission.amend(self.specs.share(spec));
        }
        if submission.taken.is_some() {
            // It is known as it is where it was taken, and may run there.
            return Ok(());
        }
        let (spec, of) = (&submission.spec, (submission.user, &submission.party));
        if let Some(placed) = self.on_counted_nodes(of, spec, self.queues.rules(spec))? {
            submission.amend(self.specs.share(placed));
        }
        Ok(())
    }

    /// A spec with that in it, where something is put in, and whom it is charged to.
    fn filled(&self, now: Time, user: u32, spec: &Spec) -> Result<(Option<Spec>, Party), Refusal> {
        let unnamed = self.queues.for_unnamed(spec);
        let queued = unnamed.map(|queue| spec.with(Some(queue), None));
        let spec = queued.as_ref().unwrap_or(spec);
        self.queues.takes(spec)?;
        let rules = self.queues.rules(spec);
        let party = self.parties.charter().party(user, spec, rules)?;
        let time = self.time(now, (user, &party), spec);
        let timed = time.map(|time| spec.with(None, Some(time.0)));
        Ok((timed.or(queued), party))
    }

    /// The time limit of a job that has none, no longer than accounts and QoS let one be; and that of one that takes
    /// what is left.
    fn time(&self, now: Time, (user, party): (u32, &Party), spec: &Spec) -> Option<Span> {
        let time = self.queues.time(party, spec, self.served.left(now));
        match spec.request.duration {
            Some(_) => time,
            None if served::is_unlimited(spec) => time,
            None => {
                let longest = self.parties.longest((user, party), spec);
                time.into_iter().chain(longest).min()
            }
        }
    }

    /// Reads a submission: what is wrong with it now will always be.
    fn read(&mut self, request: &Request) -> Result<Submission, Refusal> {
        let mut body: SubmitRequest = request.parse()?;
        if body.urgency > URGENCY_MAX {
            let given = body.urgency;
            return Err(Refusal::invalid(format!(
                "urgency: {given} given, allowed are 0 to 31"
            )));
        }
        match body.on_behalf {
            Some(user) => self.may_submit_as(user, request)?,
            None => self.starts_tasks_of(request.uid)?,
        }
        let copies = body
            .cc
            .as_ref()
            .map(|ids| {
                let lets = self.room.lets_copies(ids.len(), request.roles);
                lets.map(|()| ids.iter().collect())
            })
            .transpose()?;
        let spec = self.specs.intern(body.jobspec.take())?;
        named::a_job(&spec)?;
        let spec = self.named_above(spec);
        self.served.permits(request.roles, &spec)?;
        let submission = Submission::new(request, body, spec, copies);
        targets::bounded(&submission)?;
        Ok(submission)
    }

    /// Whether somebody may submit as that user. Who may act on the jobs of all is not root for that.
    fn may_submit_as(&self, user: u32, request: &Request) -> Result<(), Refusal> {
        let by = request.uid;
        let why = if !request.sender().may_act_for(user) {
            format!("user {by} may submit for nobody else; owner and admins may")
        } else if user == HOST_ADMIN && by != HOST_ADMIN {
            "nobody but root submits as root".to_owned()
        } else if self.owner != HOST_ADMIN && user != self.owner {
            let owner = self.owner;
            format!("this instance runs as user {owner}; what is another's only one of root's runs")
        } else {
            return Ok(());
        };
        let text = format!("as: user {user} given, {why}");
        Err(Refusal::new(Code::Denied, text))
    }

    /// Whether root's own jobs are started, whom every instance lets in: one of a user's starts his alone.
    fn starts_tasks_of(&self, user: u32) -> Result<(), Refusal> {
        if user != HOST_ADMIN || self.owner == HOST_ADMIN {
            return Ok(());
        }
        let owner = self.owner;
        let text = format!(
            "as: none given by user {user}; allowed is {owner}: this instance starts tasks of user {owner} only"
        );
        Err(Refusal::new(Code::Denied, text))
    }

    fn answered(&mut self, now: Time, tag: u64, answer: &Answer, out: &mut Outbox) {
        if !self.lookups.has(tag) {
            return self.told(now, tag, answer, out);
        }
        self.lookups.answered(tag, answer.clone());
        self.go_on(now, out);
    }

    /// The first goes on whose look-up is answered. Those behind it do in turns of their own: whether their keys are
    /// its key is known once it is folded.
    fn go_on(&mut self, now: Time, out: &mut Outbox) {
        if let Some((tag, answer)) = self.lookups.next() {
            self.told(now, tag, &answer, out);
        }
        if self.lookups.is_ready() {
            out.volatile(Volatile::Wake(now));
        }
    }

    fn told(&mut self, now: Time, tag: u64, answer: &Answer, out: &mut Outbox) {
        // Its client may have gone meanwhile.
        let Some(submission) = self.asked.remove(&tag) else {
            return;
        };
        let caller = submission.caller;
        let outcome = match answer {
            Answer::Key(_) | Answer::KeyForgotten if submission.taken.is_some() => {
                let found = match answer {
                    Answer::Key(found) => found.as_ref().map(Known::from),
                    _ => None,
                };
                self.take_known(now, submission, found, out)
            }
            Answer::Key(Some(found)) => self.repeated(&submission, Known::from(found), out),
            // The same key may have come twice while the journal was asked.
            Answer::Key(None) => match self.keys.recent(submission.user, &submission.request.key) {
                Some(known) => self.repeated(&submission, known, out),
                None if self.is_for_above(&submission) => self.take_here(now, submission, out),
                None => self.screen(now, submission, out),
            },
            Answer::Finished(_) => self.found(now, submission, answer, out),
            Answer::KeyForgotten => {
                let key = submission.request.key;
                let text = format!("key: {key} is older than the last job forgotten: unknowable");
                Err(Refusal::invalid(text))
            }
            Answer::Failed(why) => Err(Refusal::new(Code::Busy, why.clone())),
            other => panic!("a key was asked for, the answer is {other:?}"),
        };
        if let Err(refusal) = outcome {
            self.turn_away(now, caller, &refusal, out);
        }
    }
}
