//! The parent's side of nesting: the instances that are jobs of this one.
//!
//! A child's leader says hello over its channel (`child.adopt`) and is told
//! what it has; the agents of its other nodes are ordered to host its ranks;
//! declared instances draw job numbers here, and requests that are theirs are
//! relayed over the channel (doc/protocol/nesting.md). It starts and ends
//! nothing: a child is a job, and its jobs are the child's own.

mod adopt;
mod asks;
mod begun;
pub(crate) mod blocks;
mod child;
mod closed;
mod handed;
mod host;
pub(crate) mod hung;
mod leaving;
mod left;
mod listing;
mod pace;
mod pass;
mod passes;
mod payload;
mod pulse;
pub(crate) mod relay;
pub(crate) mod route;
pub(crate) mod run;
mod taken;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::{Endpoint, Input, Module, Notice, Outbox, ParentWord, Request};
use eddy_wire::error::Refusal;
use eddy_wire::event::{Event, Exception, Final, Kind, Record};
use eddy_wire::id::{Epoch, JobId, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Work;
use eddy_wire::queue::Gates;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::Service;
use eddy_wire::services::child::{
    Adopt, Answer, Beat, Children, Drained, HandUp, Ids, Inside, Owners, Release, Report, Settled,
    Told,
};
use eddy_wire::time::{Span, Time};

use crate::callers;
use crate::ingest::fleet::Fleet;
use crate::limits::Limits;
use crate::live::Change;
use crate::settings::{Place, Queue, Settings};
use crate::sight::Sight;
use asks::Asks;
use blocks::Blocks;
use child::Child;
use host::Hosts;
use leaving::Leaving;
use listing::Listing;
use passes::Passes;
use relay::Relays;

/// The instances in this one.
pub struct Nest {
    place: Place,
    kill_grace: Span,
    mock: Option<Span>,
    sight: Sight,
    queues: Vec<Queue>,
    fleet: Fleet,
    /// Declared instances that hold nothing themselves, and the ranks that their jobs may have.
    elastic: BTreeMap<String, Option<Idset>>,
    inventory: Arc<ResourceSet>,
    /// The jobs that are instances and not over.
    children: BTreeMap<JobId, Child>,
    /// Jobs that are instances and were passed on: another attempt of one may be a child here.
    below: BTreeMap<JobId, Child>,
    /// The children that were declared.
    by_name: BTreeMap<String, JobId>,
    /// Which instances they are: a child that ended comes again as the same.
    declared_ids: BTreeMap<String, String>,
    /// Jobs that are ground for a child, and of which.
    grounds: BTreeMap<JobId, JobId>,
    /// Ranks that this instance is to give back itself.
    leaving: Leaving,
    passes: Passes,
    /// The declared instances that the other modules know to be reached.
    serving: BTreeSet<String>,
    /// When this leader began.
    woke: Option<Time>,
    /// What was begun in declared instances without this one.
    begun: begun::Begins,
    /// Where nothing is to begin in them but what this instance says.
    closed: closed::Nodes,
    /// The first record of which declared instances are to be told when it is durable.
    untold: Option<Seq>,
    /// What is counted of jobs; it knows none.
    limits: Limits,
    gates: Gates,
    default_time: Option<Span>,
    blocks: Blocks,
    /// The highest job number given or set aside.
    last_job: JobId,
    reached: Idset,
    hosts: Hosts,
    relays: Relays,
    /// When the first of those that beat may be gone, if that is watched.
    pulses: Option<Time>,
    /// How long a leader may say nothing beyond its beats until it is begun anew; `None` is for ever.
    hung_after: Option<Span>,
    /// The shells that are heard.
    shells: BTreeSet<Epoch>,
    /// When to look next for whom nothing was heard, if there is anybody.
    listens: Option<Time>,
    asks: Asks,
    listing: Listing,
}

impl Module for Nest {
    fn name(&self) -> &'static str {
        "nest"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        const ENDPOINTS: &[Endpoint] = &[
            Endpoint::of::<Adopt>(),
            Endpoint::of::<Answer>(),
            Endpoint::of::<Beat>(),
            Endpoint::of::<Ids>(),
            Endpoint::of::<Report>(),
            Endpoint::of::<Told>(),
            Endpoint::of::<HandUp>(),
            Endpoint::of::<Settled>(),
            Endpoint::of::<Release>(),
            Endpoint::of::<Inside>(),
            Endpoint::of::<Children>(),
            Endpoint::of::<Drained>(),
            Endpoint::of::<Owners>(),
        ];
        ENDPOINTS
    }

    fn claims(&self, request: &Request) -> bool {
        self.is_relayed(request)
    }

    fn stands(&self, event: &Event) -> bool {
        match (&event.kind, event.job) {
            (Kind::Passed(_) | Kind::Alloc(_), Some(job)) => self.may_be_granted(job),
            (Kind::Exception(exception), Some(job)) if is_willed(exception) => self.may_end(job),
            _ => true,
        }
    }

    fn apply(&mut self, record: &Record) {
        self.sight.apply(record);
        self.fleet.apply(record);
        self.blocks.apply(record);
        self.place.recorded(&record.event.kind);
        self.passes.apply(record);
        if record.event.job.is_none() {
            self.limits.apply(record);
            self.closed.apply(record);
        }
        match (&record.event.kind, record.event.job) {
            (Kind::Submit(submit), Some(job)) => {
                self.last_job = self.last_job.max(job);
                if let Work::Ground { of } = submit.spec.request.work {
                    self.grounds.insert(job, of);
                    if let Some(child) = self.children.get_mut(&of) {
                        child.ground(job, record.event.t, &record.event.kind);
                    }
                }
                if let Some(child) = Child::from_record(record) {
                    let name = child.declared.clone();
                    self.by_name.extend(name.map(|name| (name, job)));
                    self.children.insert(job, child);
                }
            }
            // It is the child of the instance that it was passed to.
            (kind, Some(job)) if kind.passed_to().is_some() => self.leaves(job, record),
            (Kind::Clean, Some(job)) => {
                if let Some(of) = self.grounds.remove(&job)
                    && let Some(child) = self.children.get_mut(&of)
                {
                    child.ground(job, record.event.t, &record.event.kind);
                }
                self.children.remove(&job);
                self.below.remove(&job);
                self.by_name.retain(|_, of| *of != job);
            }
            (Kind::ResourceDefine(set, _), None) => self.inventory = Arc::clone(set),
            (Kind::Memo(memo), None) => {
                if let Some(last) = blocks::last_of(memo) {
                    self.last_job = self.last_job.max(last);
                }
                if let Some(change) = Change::told(memo) {
                    (self.queues, self.default_time) =
                        (change.live.queues, change.live.default_time);
                }
            }
            (Kind::Queue(turned), None) => self.gates.apply(record.event.t, turned),
            (kind, Some(job)) => match self.grounds.get(&job) {
                Some(of) => {
                    if let Some(child) = self.children.get_mut(of) {
                        child.ground(job, record.event.t, kind);
                    }
                }
                None => self.goes_on(job, record),
            },
            (_, None) => {}
        }
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Request(request) => {
                if let Err(refusal) = self.request(now, request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Applied(record) => self.applied(now, record, out),
            Input::Durable(record) => {
                self.tell_queues(now, record, out);
                if let (Kind::Clean, Some(job)) = (&record.event.kind, record.event.job) {
                    self.listing.ended(job, out);
                    self.look_back(job, out);
                }
            }
            Input::Resume(_) => self.woke = Some(now),
            Input::Marking => {
                if let Some(note) = self.blocks.note() {
                    out.append_own(now, note);
                }
            }
            Input::Shell(shell, word) => self.heard(now, shell, word, out),
            Input::ShellAway(shell) | Input::ShellDead(shell) => self.unheard(shell),
            Input::Ranks(ranks) => self.ranks(ranks, out),
            Input::Hosted(rank, hosted) => self.hosted(rank, hosted, out),
            Input::Parent(ParentWord::Granted(granted)) => {
                self.place.told(now, granted);
                self.leaving.told(now, granted);
                self.tell_limits(now, out);
            }
            Input::Answer(tag, answer) if left::is_of_left(tag) => {
                self.left_answered(now, tag, answer, out);
            }
            Input::Answer(tag, answer) => {
                let elsewhere = self.listing.answered(tag, answer, &self.sight, out);
                if let Some((request, name)) = elsewhere
                    && let Err(refusal) = self.relay_to(now, &name, &request, out)
                {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Cancel(caller) => {
                self.listing.drop_where(|of| of == caller);
                self.channels_gone(now, |of| of == caller, out);
                self.taken_back(callers::only(caller), out);
            }
            Input::Gone(client) => {
                self.listing.drop_where(|of| of.client == client);
                self.channels_gone(now, |of| of.client == client, out);
                self.taken_back(callers::all_of(client), out);
            }
            Input::Notice(Notice::AskInside(inner)) => self.ask_inside(now, *inner, out),
            Input::Notice(Notice::Signal(job, signal)) => self.signal(now, *job, *signal, out),
            Input::Notice(Notice::Elsewhere(request, name)) => {
                if let Err(refusal) = self.relay_to(now, name, request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Tick => {
                self.tell_rows(now, out);
                self.settle_late(now, out);
                self.end_silent(now, out);
                self.end_hung(now, out);
                self.ask_all(now, out);
            }
            _ => {}
        }
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        self.blocks.live(seqs);
    }
}

/// Whether somebody ends a job, and it does not end by what it waits for.
fn is_willed(exception: &Exception) -> bool {
    exception.severity == 0 && exception.userid.is_some()
}

impl Nest {
    /// A job is passed to an instance: if it is one itself it is a child of that, for this attempt.
    fn leaves(&mut self, job: JobId, record: &Record) {
        let child = self.children.remove(&job);
        if let Some(mut child) = child.or_else(|| self.below.remove(&job)) {
            child.apply(record);
            self.below.insert(job, child);
        }
        self.grounds.remove(&job);
    }

    /// Any other record of a job that may be an instance.
    fn goes_on(&mut self, job: JobId, record: &Record) {
        let below = self.below.get_mut(&job);
        if let Some(child) = self.children.get_mut(&job).or(below) {
            child.apply(record);
            if let (Some(name), Kind::Adopt(adoption)) = (&child.declared, &record.event.kind) {
                self.declared_ids
                    .insert(name.clone(), adoption.instance.clone());
            }
        }
        if let Kind::Requeue(_) = record.event.kind {
            self.children.extend(self.below.remove_entry(&job));
        }
    }

    /// A nest of no instances.
    pub fn new(settings: &Settings) -> Nest {
        Nest {
            place: settings.place.clone(),
            kill_grace: settings.kill_grace,
            mock: settings.mock,
            sight: Sight::new(settings),
            queues: settings.queues.clone(),
            fleet: Fleet::new(settings),
            elastic: settings.elastic().collect(),
            inventory: Arc::clone(&settings.inventory),
            children: BTreeMap::new(),
            below: BTreeMap::new(),
            by_name: BTreeMap::new(),
            declared_ids: BTreeMap::new(),
            grounds: BTreeMap::new(),
            leaving: Leaving::default(),
            passes: Passes::new(settings),
            serving: BTreeSet::new(),
            woke: None,
            begun: begun::Begins::default(),
            closed: closed::Nodes::default(),
            untold: None,
            limits: Limits::new(settings),
            gates: Gates::default(),
            default_time: settings.default_time,
            blocks: Blocks::default(),
            last_job: settings.last_job,
            reached: settings.local.clone(),
            hosts: Hosts::new(settings.local.clone()),
            relays: Relays::default(),
            pulses: None,
            hung_after: settings.hung_after,
            shells: BTreeSet::new(),
            listens: None,
            asks: Asks::default(),
            listing: Listing::default(),
        }
    }

    fn request(&mut self, now: Time, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        match request.topic.as_str() {
            Adopt::TOPIC => self.adopt(now, request, out),
            Answer::TOPIC => self.answer(now, request, out),
            Beat::TOPIC => self.beat(now, request, out),
            Ids::TOPIC => self.ids(now, request, out),
            Report::TOPIC => self.report(now, request, out),
            Told::TOPIC => self.told(now, request, out),
            HandUp::TOPIC => self.handed_up(now, request, out),
            Settled::TOPIC => self.settled(now, request, out),
            Release::TOPIC => self.given_back(request, out),
            Drained::TOPIC => self.drained_inside(now, request, out),
            Inside::TOPIC => self.inside(request, out),
            Children::TOPIC if !self.is_relayed(request) => self.list(request, out),
            Owners::TOPIC => self.owners(request, out),
            _ => self.relay(now, request, out),
        }
    }

    fn applied(&mut self, now: Time, record: &Record, out: &mut Outbox) {
        let Some(job) = record.event.job else {
            return self.queues_change(record);
        };
        self.pass_on(now, record, out);
        self.taken_on(now, job, &record.event.kind, out);
        if let (Kind::Exception(_) | Kind::JobspecUpdate(_), Some(of)) =
            (&record.event.kind, self.grounds.get(&job))
        {
            // What it holds is to go back, or at another time.
            let of = *of;
            self.tell_grant(now, of, out);
        }
        match &record.event.kind {
            kind if kind.passed_to().is_some() => return self.listing.passed(job, out),
            Kind::Clean => self.asks_over(job),
            _ if !self.children.contains_key(&job) => return,
            Kind::GrantChanged(_) => {
                self.tell_grant(now, job, out);
                self.host_changed(job, out);
            }
            Kind::Start | Kind::JobspecUpdate(_) | Kind::Shrink(_) => {
                self.tell_grant(now, job, out);
            }
            kind @ Kind::Exception(_) => self.hung(now, job, kind, out),
            // The first hello: who it is had to be recorded before others host it.
            Kind::Adopt(_) => self.host(job, out),
            Kind::Release(ranks, Final::No) => self.unhost(job, ranks, out),
            Kind::Release(ranks, Final::Yes) => {
                self.unhost(job, ranks, out);
                self.note_summary(now, job, out);
                self.lose_passes(now, job, out);
                self.ended(job, out);
                self.listing.ends(job);
            }
            _ => {}
        }
        self.changed(now, job, out);
    }
}
