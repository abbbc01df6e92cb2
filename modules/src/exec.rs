//! Step 5 of a job's path: starts and ends tasks through the shells and
//! records what they say.
//!
//! A grant becomes one start per rank, sent once the grant is durable and
//! repeated after every reconnect until the shell answers. Ends become
//! records, and only a recorded end is forgotten by the shell. It places
//! nothing and spawns nothing itself.

mod away;
mod dead;
mod due;
mod grounds;
mod kill;
mod layout;
mod leaving;
mod over;
mod run;
mod seats;
mod shells;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::{Effect, Endpoint, Input, Module, Notice, Outbox, ParentWord, Reacts};
use eddy_wire::event::{Event, Final, Kind, Record, Submit};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Attempt, Epoch, JobId, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::job::first_attempt;
use eddy_wire::jobspec::Work;
use eddy_wire::services::job;
use eddy_wire::shell::{Ended, FromShell, Occasion, Part, PartState, Role, ToShell};
use eddy_wire::time::{Span, Time};
use eddy_wire::update;

use crate::jobs::Jobs;
use crate::settings::{Place as Where, Settings};
use crate::sight::Sight;
use crate::timers::Timers;
use away::Away;
use dead::{Ending, Returned};
pub use layout::{Place, layout};
pub(crate) use over::Over;
use run::{PartView, Run};
use shells::{Shells, Texts};

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// What runs, and the shells it runs through.
pub struct Exec {
    sight: Sight,
    known: Jobs<Known>,
    runs: BTreeMap<JobId, Run>,
    /// Jobs that are about to be granted something in an instance they are passed to.
    passed: BTreeMap<JobId, String>,
    /// Jobs that are ground of an instance, by the job that this is.
    grounds: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Those of them that are to be cancelled, since that is over and they have nothing.
    orphans: BTreeSet<JobId>,
    /// Those that run in one.
    away: Jobs<Away>,
    /// The instances that can be told something.
    serving: BTreeSet<String>,
    /// Signals for the program that this instance was begun for, which is to begin yet.
    early: BTreeSet<i32>,
    /// The runs that each life of a shell has parts of.
    on: BTreeMap<Epoch, BTreeSet<JobId>>,
    shells: Shells,
    returned: Returned,
    ending: Ending,
    /// Declared instances that hold nothing, and the ranks that their jobs may be given.
    elastic: BTreeMap<String, Option<Idset>>,
    online: Idset,
    /// When nodes that have come are given to those.
    gather: Option<Time>,
    kill_grace: Span,
    place: Where,
    /// No limit of a job that the parent passed ends it before: what it changed may be on its way.
    hold: Time,
    timers: Timers,
}

/// A job that is not over.
struct Known {
    submit: Arc<Submit>,
    attempt: Attempt,
}

impl Module for Exec {
    fn name(&self) -> &'static str {
        "exec"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        const ENDPOINTS: &[Endpoint] = &[Endpoint::of::<job::Kill>()];
        ENDPOINTS
    }

    fn apply(&mut self, record: &Record) {
        if let Kind::ShellLost(epoch, by) = &record.event.kind {
            let rank = self.shells.rank_of(*epoch);
            for job in self.on.get(epoch).into_iter().flatten() {
                if let Some(run) = self.runs.get_mut(job) {
                    run.shell_lost(*epoch, rank, by.as_deref());
                }
            }
        }
        self.sight.apply(record);
        self.shells.apply(record);
        self.place.recorded(&record.event.kind);
        if let Some(job) = record.event.job {
            self.apply_job(job, record);
        }
    }

    fn reacts(&self) -> Reacts {
        Reacts::ToApplied
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Request(request) => {
                if let Err(refusal) = self.kill(now, request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Applied(record) => self.applied(now, record, out),
            Input::Shell(epoch, message) => self.shell(now, epoch, message, out),
            Input::ShellAway(epoch) => {
                self.shells.away(epoch, out);
                self.returned.away(epoch);
                self.retire(now, out);
            }
            Input::Ranks(ranks) => {
                let new = self.shells.reach(now, ranks, out);
                self.end_again(&new, out);
            }
            Input::Parent(ParentWord::Granted(granted)) => {
                self.leave(now, granted, out);
                self.place.told(now, granted);
                self.hears(now);
                self.set_timers(now, out);
            }
            Input::ShellDead(epoch) => {
                let by = self.ending.over(epoch);
                if self.shells.is_current(epoch) {
                    out.append_own(now, Kind::ShellLost(epoch, by));
                }
            }
            Input::Parent(ParentWord::Signal(job, attempt, signal)) => {
                self.signal_passed((*job, *attempt), *signal, out);
            }
            Input::Parent(ParentWord::Program(signal)) => self.signal_program(*signal, out),
            Input::Notice(Notice::Dead(caller, ranks, by)) => {
                self.declared_dead(now, (*caller, ranks), by, out);
            }
            Input::Notice(Notice::GivenBack(job, ranks)) => self.vacate(*job, ranks, out),
            Input::Notice(Notice::Serving(names)) => self.serving.clone_from(names),
            Input::Notice(Notice::Online(online)) => {
                self.online.clone_from(online);
                self.gather(now, out);
            }
            Input::Resume(_) => self.resume(now, out),
            Input::Tick => self.tick(now, out),
            Input::Stop => self.shells.stop(),
            _ => {}
        }
    }

    fn stands(&self, event: &Event) -> bool {
        match (&event.kind, event.job) {
            (Kind::GrantChanged(grant), Some(job)) => {
                let run = self.runs.get(&job).map(|run| {
                    let follows = grant.epoch == run.grant.epoch.next() && !run.is_over();
                    follows && run.is_to_change()
                });
                let away = || self.away.get(&job).map(|away| away.is_followed_by(grant));
                run.or_else(away).unwrap_or(false)
            }
            _ => true,
        }
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        self.shells.live(seqs);
    }
}

impl Exec {
    /// An exec of nothing.
    pub fn new(settings: &Settings) -> Exec {
        Exec {
            sight: Sight::new(settings),
            known: Jobs::default(),
            runs: BTreeMap::new(),
            passed: BTreeMap::new(),
            grounds: BTreeMap::new(),
            orphans: BTreeSet::new(),
            away: Jobs::default(),
            serving: BTreeSet::new(),
            early: BTreeSet::new(),
            on: BTreeMap::new(),
            shells: Shells::new(settings.local.clone()),
            returned: Returned::default(),
            ending: Ending::default(),
            elastic: settings.elastic().collect(),
            online: Idset::new(),
            gather: None,
            kill_grace: settings.kill_grace,
            place: settings.place.clone(),
            hold: Time(0),
            timers: Timers::default(),
        }
    }

    fn apply_job(&mut self, job: JobId, record: &Record) {
        let t = record.event.t;
        match &record.event.kind {
            Kind::Submit(submit) => {
                if let Work::Ground { of } = submit.spec.request.work {
                    self.grounds.entry(of).or_default().insert(job);
                }
                let known = Known {
                    submit: Arc::clone(submit),
                    attempt: first_attempt(submit),
                };
                self.known.insert(job, known);
            }
            Kind::Requeue(attempt) => {
                if let Some(known) = self.known.get_mut(&job) {
                    known.attempt = *attempt;
                }
                self.remove(job);
            }
            Kind::Passed(to) => {
                self.passed.insert(job, to.instance.clone());
            }
            // Its instance runs it, and nest says what comes of that.
            Kind::Alloc(grant) if let Some(name) = self.passed_by(job, grant) => {
                let Some(known) = self.known.get(&job) else {
                    panic!("job {job} was granted resources but never submitted")
                };
                let mut away = Away::new(name, known.submit.spec.request.work.clone());
                away.apply(t, &record.event.kind);
                self.away.insert(job, away);
            }
            Kind::Alloc(grant) => self.granted(job, t, grant),
            kind @ Kind::GrantChanged(_) => self.regranted(job, t, kind),
            Kind::Free => self.remove(job),
            Kind::Clean => {
                if let Some(known) = self.known.remove(&job)
                    && let Work::Ground { of } = known.submit.spec.request.work
                    && let Some(grounds) = self.grounds.get_mut(&of)
                {
                    grounds.remove(&job);
                    if grounds.is_empty() {
                        self.grounds.remove(&of);
                    }
                }
                self.passed.remove(&job);
                self.remove(job);
            }
            kind => {
                if let (Kind::JobspecUpdate(map), Some(known)) = (kind, self.known.get_mut(&job)) {
                    update::submit(&mut known.submit, map);
                }
                if let Some(run) = self.runs.get_mut(&job) {
                    run.apply(t, kind);
                } else if let Some(away) = self.away.get_mut(&job) {
                    away.apply(t, kind);
                }
                if let Kind::Adopt(adoption) = kind {
                    self.adopted(job, &adoption.instance);
                }
            }
        }
    }

    /// What a job asks for that is not over.
    fn submit_of(&self, job: JobId) -> Option<&Submit> {
        self.known.get(&job).map(|known| known.submit.as_ref())
    }

    /// A job runs here from now on.
    fn granted(&mut self, job: JobId, t: Time, grant: &Arc<Grant>) {
        let Some(known) = self.known.get(&job) else {
            panic!("job {job} was granted resources but never submitted")
        };
        let mut run = Run::new(
            (job, known.attempt),
            Arc::clone(grant),
            Arc::clone(&known.submit),
            self.place.parent.as_ref(),
        );
        run.granted(t, grant);
        let run = self.grounded(run);
        self.note_shells(&run);
        self.runs.insert(job, run);
    }

    /// The instance that a job is passed to by its grant, or by a record right before it.
    fn passed_by(&mut self, job: JobId, grant: &Grant) -> Option<String> {
        let before = self.passed.remove(&job);
        let passed = grant.passed.as_ref().map(|to| to.instance.clone());
        passed.or(before)
    }

    fn remove(&mut self, job: JobId) {
        self.timers.forget(job);
        self.away.remove(&job);
        if let Some(run) = self.runs.remove(&job) {
            self.forget_shells(&run);
        }
    }

    fn applied(&mut self, now: Time, record: &Record, out: &mut Outbox) {
        match (&record.event.kind, record.event.job) {
            (Kind::Submit(_), Some(job)) => self.settle(now, job, out),
            (Kind::Requeue(_), Some(job)) => {
                self.settle(now, job, out);
                self.retire(now, out);
            }
            (Kind::Alloc(_), Some(job)) => {
                self.start(job, out);
                self.program_begins(job, out);
                self.settle(now, job, out);
                self.set_timer(now, job, out);
            }
            (Kind::Start, Some(job)) => {
                self.set_timer(now, job, out);
                self.ground_changed(now, job, out);
                if self.runs.get(&job).is_some_and(Run::is_elastic) {
                    self.gather(now, out);
                }
            }
            (Kind::Shrink(_) | Kind::JobspecUpdate(_), Some(job)) => self.set_timer(now, job, out),
            (Kind::GrantChanged(_), Some(job)) => {
                self.reseated(now, job, out);
                self.paced(now, job, out);
            }
            (Kind::Suspend(_) | Kind::Resume(_), Some(job)) => self.paced(now, job, out),
            (Kind::Exception(e), Some(job)) if e.severity == 0 => {
                self.end(now, job, out);
                self.conclude(now, job, out);
            }
            (Kind::Release(_, Final::Yes | Final::Free(_) | Final::Over(_)), Some(job)) => {
                self.forget(job, out);
                self.ground_changed(now, job, out);
                self.settle_grounds(now, job, out);
            }
            (Kind::Clean, Some(job)) => {
                self.settle_grounds(now, job, out);
                self.retire(now, out);
            }
            (Kind::Release(_, Final::No), Some(job)) => self.forget(job, out),
            (Kind::Free, Some(_)) => self.retire(now, out),
            (Kind::ResourceDefine(set, _), None) => {
                self.shells.cover(now, out);
                self.evict(&set.ranks(), out);
                self.retire(now, out);
            }
            (Kind::ShellStart(ranks, epoch), None) => self.shells.recorded(ranks, *epoch, out),
            (Kind::ShellLost(epoch, _), None) => {
                let jobs = self.on.get(epoch).cloned().unwrap_or_default();
                jobs.into_iter()
                    .for_each(|job| self.conclude(now, job, out));
                self.shells.cover(now, out);
            }
            (Kind::LeaderStop, None) => self.shells.dismiss(out),
            _ => {}
        }
    }

    /// Replay is over: finds out which shells live (those of other ranks as they
    /// are reached); each says hello then, and what it must be told is told
    /// after that.
    fn resume(&mut self, now: Time, out: &mut Outbox) {
        self.begins(now);
        self.shells.check_own(out);
        self.shells.cover(now, out);
        self.retire(now, out);
        for run in self.runs.values_mut() {
            run.lose_shells_but(&self.shells);
            if run.owes_release() {
                let last = Final::of(&run.submit.spec.request.work);
                let release = Kind::Release(run.grant.set.ranks(), last);
                out.append(now, run.job, release);
            }
        }
        let grounds: Vec<JobId> = self.grounds.values().flatten().copied().collect();
        for job in grounds {
            self.ground_changed(now, job, out);
            self.settle(now, job, out);
        }
        self.set_timers(now, out);
        self.conclude_lost(now, out);
        self.gather(now, out);
    }

    /// Sends the starts of a grant, those that have not been answered.
    fn start(&mut self, job: JobId, out: &mut Outbox) {
        let Some(run) = self.runs.get_mut(&job) else {
            return;
        };
        let submit = Arc::clone(&run.submit);
        let mut texts = Texts::of(&submit.spec);
        for start in run.starts() {
            self.shells.send_start(start, &mut texts, out);
        }
    }

    /// Lets the shells go whose ranks were taken out: no job holds anything
    /// there any more, so nothing of that life runs, whether or not it hears it.
    /// What a parent takes away it has cleared.
    fn retire(&mut self, now: Time, out: &mut Outbox) {
        let is_own = self.place.parent.is_none();
        let is_used = |epoch| is_own && self.on.contains_key(&epoch);
        let retired = self.shells.retired(is_used);
        for epoch in retired {
            out.effect(Effect::Shell(epoch, ToShell::Exit));
            out.append_own(now, Kind::ShellLost(epoch, None));
        }
    }

    /// An attempt is ending: TERM now, KILL when the grace since the recorded
    /// exception is over.
    fn end(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        if let Some(run) = self.runs.get(&job) {
            // Without its leader an instance is only ground, which nothing but KILL clears.
            let signal = match run.is_without_leader() {
                true => SIGKILL,
                false => SIGTERM,
            };
            run.signal_end(signal, &self.shells, out);
            run.pace_all(&self.shells, out);
            self.set_timer(now, job, out);
        }
    }

    /// Whether it has its cores is another matter than before.
    fn paced(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        if let Some(run) = self.runs.get(&job) {
            run.pace_all(&self.shells, out);
            self.set_timer(now, job, out);
            self.conclude(now, job, out);
        }
    }

    /// A shell says that a part is stopped.
    fn paused(&mut self, now: Time, epoch: Epoch, (part, stop): (Part, u32), out: &mut Outbox) {
        let known = self
            .runs
            .get_mut(&part.job)
            .filter(|run| run.attempt == part.attempt && run.shell(part.rank) == Some(epoch));
        if let Some(run) = known {
            run.paused(part.rank, stop);
            self.conclude(now, part.job, out);
        }
    }

    fn shell(&mut self, now: Time, epoch: Epoch, message: &FromShell, out: &mut Outbox) {
        match message {
            FromShell::Hello { parts, .. } => self.hello(now, epoch, parts, out),
            FromShell::Started { part, t: _ } => {
                self.learn(now, epoch, *part, PartView::Running, out);
            }
            FromShell::Ended { part, ended } => {
                let at_once = Ended {
                    t: now,
                    ..ended.clone()
                };
                self.learn(now, epoch, *part, PartView::Ended(at_once), out);
            }
            FromShell::Paused { part, stop } => self.paused(now, epoch, (*part, *stop), out),
            FromShell::NotMine { part, why } => self.not_mine(now, epoch, *part, why, out),
            // What hangs is `nest`'s to know.
            FromShell::Restarted { .. } | FromShell::Took { .. } | FromShell::Output { .. } => {}
        }
    }

    /// Both sides compare what they hold.
    fn hello(&mut self, now: Time, epoch: Epoch, parts: &[(Part, PartState)], out: &mut Outbox) {
        self.shells.welcome(epoch, out);
        if !self.shells.is_current(epoch) {
            // Its loss was recorded: nothing it holds counts any more.
            let parts = parts.iter().map(|(part, _)| *part);
            return self.returned.welcome(epoch, parts, out);
        }
        for (part, state) in parts {
            let view = match state {
                PartState::Starting => PartView::Asked,
                PartState::Running { .. } => PartView::Running,
                PartState::Ended(ended) => PartView::Ended(ended.clone()),
            };
            self.learn(now, epoch, *part, view, out);
        }
        let told: BTreeSet<Part> = parts.iter().map(|(part, _)| *part).collect();
        self.untold(now, epoch, &told, out);
    }

    /// Parts that should be on this shell and that it did not name: it never
    /// got their start.
    fn untold(&mut self, now: Time, epoch: Epoch, told: &BTreeSet<Part>, out: &mut Outbox) {
        let rank = self.shells.rank_of(epoch);
        let jobs = self.on.get(&epoch).cloned().unwrap_or_default();
        for job in jobs {
            let Some(run) = self.runs.get_mut(&job) else {
                continue;
            };
            let untold = run.unended(epoch, rank).into_iter();
            for part in untold.filter(|part| !told.contains(part)) {
                let is_over = run.end.is_some() || run.is_without_leader();
                match (run.view(part.rank), is_over) {
                    // It is to end and has not begun. Its start may still be
                    // held by the gate, though, and come on this connection:
                    // this goes behind it, and the answer tells.
                    (Some(PartView::Asked), true) => {
                        let signal = run.owed_signal(part.rank).unwrap_or(SIGTERM);
                        let word = ToShell::Signal {
                            part,
                            signal,
                            occasion: Occasion::End,
                        };
                        out.effect(Effect::Shell(epoch, word));
                    }
                    (Some(PartView::Asked), false) if !run.may_begin(part.rank) => {}
                    (Some(PartView::Asked), false) => {
                        if let Some(start) = run.start_of(part.rank) {
                            let mut texts = Texts::of(&run.submit.spec);
                            self.shells.send_start(start, &mut texts, out);
                        }
                    }
                    // It had begun, and the shell, though the same, knows nothing of it.
                    (_, _) => run.lose(part.rank, now, "its shell lost it"),
                }
            }
            self.conclude(now, job, out);
        }
    }

    /// A shell said where a part stands.
    fn learn(&mut self, now: Time, epoch: Epoch, part: Part, view: PartView, out: &mut Outbox) {
        let known = self
            .runs
            .get_mut(&part.job)
            .filter(|run| run.attempt == part.attempt && run.shell(part.rank) == Some(epoch));
        let Some(run) = known else {
            return self.unknown(epoch, part, &view, out);
        };
        let held_back = run.holds_back();
        run.learn(part.rank, view);
        let goes_ahead = held_back && run.goes_ahead();
        if run.role_of(part.rank) == Role::Leader && run.is_without_leader() {
            // Its ground is cleared of all that the instance left there.
            run.signal(SIGKILL, &self.shells, out);
        }
        if run.view(part.rank) == Some(&PartView::Running)
            && let Some(signal) = run.owed_signal(part.rank)
        {
            // It began although it is to end, or perhaps no leader before said so: a shell takes it once.
            run.tell_end(part.rank, epoch, signal, &self.shells, out);
        }
        if run.view(part.rank) == Some(&PartView::Running)
            && let Some(signal) = run.warning_again(now, self.place.end())
        {
            run.tell(part.rank, epoch, signal, &self.shells, out);
        }
        // Of a part that runs a shell tells when it began, and on each new connection.
        run.pace_part(part.rank, epoch, &self.shells, out);
        if goes_ahead {
            self.start(part.job, out);
        }
        self.conclude(now, part.job, out);
    }

    /// The shell holds a part that is not in the books.
    fn unknown(&mut self, epoch: Epoch, part: Part, view: &PartView, out: &mut Outbox) {
        let message = match view {
            PartView::Ended(_) => {
                out.effect(Effect::Shell(epoch, ToShell::Forget { part }));
                return self.returned.ended(epoch, part, out);
            }
            PartView::Asked | PartView::Running => ToShell::signal(part, SIGKILL),
        };
        out.effect(Effect::Shell(epoch, message));
    }
}
