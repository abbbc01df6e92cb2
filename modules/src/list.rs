//! What one can ask about jobs: rows, ends, event logs, documents.
//!
//! Folds the same records as the manager, but only once they are durable: what
//! it shows has happened. Jobs that have left memory are asked of the journal.

mod collect;
mod document;
mod follow;
mod lines;
mod ready;
mod rows;
mod scans;
mod veil;
mod wait;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use eddy_broker::{
    Answer, Caller, Endpoint, Heads, Input, Line, Module, Notice, Outbox, Request, Sender,
};
use eddy_wire::error::Refusal;
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::job::Job;
use eddy_wire::plan::Reason;
use eddy_wire::queue::Gates;
use eddy_wire::services::Service;
use eddy_wire::services::job;
use eddy_wire::time::{MICROS, Span, Time};

use crate::callers;
use crate::ingest::fleet::Fleet;
use crate::jobs::Jobs;
use crate::limits::Limits;
use crate::live::Change;
use crate::settings::Settings;
use crate::sight::Sight;

use collect::Collectors;
use document::Documents;
use follow::Followers;
use lines::Lines;
use ready::Ready;
use rows::Listings;
use scans::Scans;
use wait::Waiters;

/// The durable view of jobs.
#[derive(Default)]
pub struct List {
    view: View,
    waiters: Waiters,
    followers: Followers,
    listings: Listings,
    documents: Documents,
    collectors: Collectors,
    scans: Scans,
    asked: BTreeMap<u64, Asked>,
    source: Source,
}

/// The jobs as far as they are durable, and why the first ones wait.
#[derive(Default)]
struct View {
    jobs: Jobs<Job>,
    heads: Heads,
    /// When that was said.
    said: Time,
    /// When somebody asks.
    now: Time,
    /// Those who wait though their queue leaves them nothing, and why.
    unmet: BTreeMap<JobId, Reason>,
    /// Why nothing begins at all.
    halted: Option<Reason>,
    /// Whether those behind them wait for them.
    line: Line,
    lines: Lines,
    /// The declared instances, of which one may be down.
    fleet: Fleet,
    ready: Ready,
    /// The ranks whose shells are connected.
    online: Idset,
    next_tag: u64,
    /// How often anything of it changed.
    version: u64,
    /// Who is at which limit.
    limits: Limits,
    /// Whether queues start jobs.
    gates: Gates,
    sight: Sight,
}

/// Where records come from: the journal (durable), or live (durable later).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Source {
    #[default]
    Replay,
    Live,
}

/// Whose query it is.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Wait,
    Follow,
    Rows,
    Document,
}

impl Module for List {
    fn name(&self) -> &'static str {
        "list"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        const ENDPOINTS: &[Endpoint] = &[
            Endpoint::of::<job::List>(),
            Endpoint::of::<job::Wait>(),
            Endpoint::of::<job::Events>(),
            Endpoint::of::<job::Info>(),
            Endpoint::of::<job::Collect>(),
        ];
        ENDPOINTS
    }

    fn apply(&mut self, record: &Record) {
        if let (Kind::Waited, Some(job)) = (&record.event.kind, record.event.job) {
            self.collectors.taken(job);
        }
        if self.source == Source::Replay {
            self.view.fold(record);
            if let Some(job) = record.event.job {
                self.collectable(job, &record.event.kind);
                self.forget(job);
            }
        }
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        self.view.now = now;
        match input {
            Input::Request(request) => {
                if let Err(refusal) = self.request(now, request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Durable(record) => self.durable(now, record, out),
            Input::Applied(record) if matches!(record.event.kind, Kind::Waited) => {
                self.collectors.turn_away(out);
            }
            Input::Answer(tag, answer) => self.answered(tag, answer, out),
            Input::Notice(notice) => self.view.notice(notice),
            Input::Resume(_) => self.source = Source::Live,
            Input::Tick => self.waiters.tick(now, out),
            Input::Cancel(caller) => {
                self.drop_of(&callers::only(caller));
                self.collectors.drop_where(|of| of == caller);
            }
            Input::Gone(client) => {
                self.drop_of(&callers::all_of(client));
                self.collectors.drop_where(|of| of.client == client);
            }
            _ => {}
        }
    }
}

impl List {
    /// A view of nothing.
    pub fn new(settings: &Settings) -> List {
        List {
            view: View {
                limits: Limits::new(settings),
                sight: Sight::new(settings),
                lines: Lines::new(settings),
                fleet: Fleet::new(settings),
                ready: Ready::default(),
                ..View::default()
            },
            ..List::default()
        }
    }

    fn request(&mut self, now: Time, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let tag = self.view.take_tag();
        let scans = &mut self.scans;
        let asked = match request.topic.as_str() {
            job::List::TOPIC => {
                let listings = &mut self.listings;
                listings.request(&self.view, (tag, scans), request, out)?
            }
            job::Wait::TOPIC => {
                let waiters = &mut self.waiters;
                waiters.request(&self.view, (tag, scans), request, out)?
            }
            job::Events::TOPIC => self.followers.request(&self.view, tag, request, out)?,
            job::Info::TOPIC => self.documents.request(&self.view, tag, request, out)?,
            job::Collect::TOPIC => self.collectors.request(&self.view, now, request, out)?,
            other => unreachable!("the router sent `{other}` to list"),
        };
        if let Some(asked) = asked {
            self.asked.insert(tag, asked);
        }
        Ok(())
    }

    fn durable(&mut self, now: Time, record: &Record, out: &mut Outbox) {
        self.view.fold(record);
        let Some(id) = record.event.job else { return };
        self.followers.durable(&self.view, id, record, out);
        self.collectable(id, &record.event.kind);
        if matches!(record.event.kind, Kind::Clean)
            && let Some(job) = self.view.jobs.get(&id)
        {
            self.waiters.ended(&self.view, job, now, out);
            self.collectors.ended(&self.view, job, now, out);
        }
        self.forget(id);
    }

    /// Whether there is a result to be collected, of which it may be said.
    fn collectable(&mut self, id: JobId, kind: &Kind) {
        let Some(job) = self.view.jobs.get(&id) else {
            return;
        };
        match kind {
            Kind::Submit(_) => self.collectors.submitted(job),
            Kind::Clean => self.collectors.is_over(job),
            _ => {}
        }
    }

    /// Lets a job go that is over and of no more use.
    fn forget(&mut self, id: JobId) {
        if self.view.jobs.get(&id).is_some_and(Job::is_done) {
            self.view.jobs.remove(&id);
        }
    }

    /// Nobody waits for these any more.
    fn drop_of(&mut self, callers: &RangeInclusive<Caller>) {
        self.waiters.drop_of(callers);
        self.followers.drop_of(callers);
        self.listings.drop_of(callers);
        for tag in self.scans.drop_of(callers) {
            self.asked.remove(&tag);
        }
    }

    fn answered(&mut self, tag: u64, answer: &Answer, out: &mut Outbox) {
        self.scans.answered(tag, out);
        let (scans, view) = (&mut self.scans, &self.view);
        let again = match self.asked.remove(&tag) {
            Some(Asked::Wait) => self.waiters.answered(view, (tag, scans), answer, out),
            Some(Asked::Follow) => self.followers.answered(view, tag, answer, out),
            Some(Asked::Rows) => self.listings.answered(view, (tag, scans), answer, out),
            Some(Asked::Document) => self.documents.answered(view, tag, answer, out),
            None => None,
        };
        if let Some(asked) = again {
            self.asked.insert(tag, asked);
        }
    }
}

impl View {
    fn take_tag(&mut self) -> u64 {
        self.next_tag += 1;
        self.next_tag
    }

    /// Whose rows a sender sees: everybody's, or only those of this user.
    fn shown_to(&self, sender: Sender) -> Option<u32> {
        self.sight.only(sender)
    }

    fn notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Serving(serving) => self.lines.serving(serving),
            Notice::Head(head, line) => {
                self.heads.clone_from(head);
                self.said = self.now;
                self.line = *line;
            }
            Notice::Online(online) => self.online.clone_from(online),
            Notice::Unmet(id, Some(reason)) => drop(self.unmet.insert(*id, reason.clone())),
            Notice::Halted(why) => self.halted.clone_from(why),
            Notice::Unmet(id, None) => drop(self.unmet.remove(id)),
            _ => return,
        }
        self.version += 1;
    }

    /// How long ago it was said why the first ones wait.
    fn age(&self) -> Span {
        Span((self.now - self.said).0.max(0))
    }

    /// How many seconds ago, where that makes another reason of it.
    fn ticks(&self) -> i64 {
        let main = self.heads.main.iter().map(|(_, reason)| reason);
        let apart = self.heads.apart.iter().map(|head| &head.reason);
        match main.chain(apart).any(Reason::is_timed) {
            true => self.age().0 / MICROS,
            false => 0,
        }
    }

    fn fold(&mut self, record: &Record) {
        self.version += 1;
        self.limits.apply(record);
        if let Kind::Queue(turned) = &record.event.kind {
            self.gates.apply(record.event.t, turned);
        }
        if let Kind::Memo(memo) = &record.event.kind
            && let Some(change) = Change::told(memo)
        {
            self.lines.configured(&change.live);
        }
        self.sight.apply(record);
        self.lines.apply(record);
        self.fleet.apply(record);
        let Some(id) = record.event.job else { return };
        if let Some(job) = Job::from_record(record) {
            self.ready.submitted(&job);
            self.jobs.insert(id, job);
        } else if let Some(job) = self.jobs.get_mut(&id) {
            if let Err(illegal) = job.apply(record) {
                panic!("record {} of job {id}: {illegal}", record.seq);
            }
            self.ready.moved(job);
        }
    }
}
