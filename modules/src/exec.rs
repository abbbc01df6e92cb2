//! Step 5 of a job's path: starts and ends tasks through the shells and
//! records what they say.
//!
//! A grant becomes one start per rank, sent once the grant is durable and
//! repeated after every reconnect until the shell answers. Ends become
//! records, and only a recorded end is forgotten by the shell. It places
//! nothing and spawns nothing itself.

mod layout;
mod run;
mod shells;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::{Effect, Endpoint, Input, Module, Outbox, Request, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Exception, Final, Kind, Record, Submit};
use eddy_wire::id::{Attempt, Epoch, JobId, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::message::Roles;
use eddy_wire::services::job::{self, Changed, KillRequest};
use eddy_wire::shell::{Ended, FromShell, Part, PartState, ToShell};
use eddy_wire::time::{Span, Time};

use crate::settings::Settings;
pub use layout::layout;
use run::{PartView, Run};
use shells::Shells;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// How often KILL is repeated before a person is called.
const KILLS_MAX: u32 = 8;
/// How many refusals one answer names.
const REFUSED_MAX: usize = 1000;

/// What runs, and the shells it runs through.
pub struct Exec {
    submits: BTreeMap<JobId, Arc<Submit>>,
    attempts: BTreeMap<JobId, Attempt>,
    runs: BTreeMap<JobId, Run>,
    shells: Shells,
    kill_grace: Span,
    /// When to look at which job again.
    timers: BTreeSet<(Time, JobId)>,
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
        self.shells.apply(record);
        match record.event.job {
            Some(job) => self.apply_job(job, record),
            None => {
                if let Kind::ShellLost(epoch) = record.event.kind {
                    self.runs.values_mut().for_each(|run| run.shell_lost(epoch));
                }
            }
        }
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Request(request) => {
                if let Err(refusal) = self.kill(request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Applied(record) => self.applied(now, record, out),
            Input::Shell(epoch, message) => self.shell(now, epoch, message, out),
            Input::ShellAway(epoch) => {
                self.shells.away(epoch);
                // It comes back by itself, or it is dead: one of both is told.
                out.volatile(Volatile::CheckShell(self.shells.ranks(epoch), epoch));
            }
            Input::ShellDead(epoch) => {
                if self.shells.is_current(epoch) {
                    out.append_own(now, Kind::ShellLost(epoch));
                }
            }
            Input::Resume => self.resume(now, out),
            Input::Tick => self.tick(now, out),
            Input::Stop => self.shells.stop(),
            _ => {}
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
            submits: BTreeMap::new(),
            attempts: BTreeMap::new(),
            runs: BTreeMap::new(),
            shells: Shells::default(),
            kill_grace: settings.kill_grace,
            timers: BTreeSet::new(),
        }
    }

    fn apply_job(&mut self, job: JobId, record: &Record) {
        let t = record.event.t;
        match &record.event.kind {
            Kind::Submit(submit) => {
                self.submits.insert(job, Arc::clone(submit));
                self.attempts.insert(job, Attempt(1));
            }
            Kind::Requeue(attempt) => {
                self.attempts.insert(job, *attempt);
            }
            Kind::Alloc(grant) => {
                let (Some(submit), Some(attempt)) =
                    (self.submits.get(&job), self.attempts.get(&job))
                else {
                    panic!("job {job} was granted resources but never submitted")
                };
                let run = Run::new(job, *attempt, Arc::clone(grant), Arc::clone(submit));
                self.runs.insert(job, run);
            }
            Kind::Free => {
                self.runs.remove(&job);
            }
            Kind::Clean => {
                self.submits.remove(&job);
                self.attempts.remove(&job);
                self.runs.remove(&job);
            }
            kind => {
                if let Some(run) = self.runs.get_mut(&job) {
                    run.apply(t, kind);
                }
            }
        }
    }

    fn applied(&mut self, now: Time, record: &Record, out: &mut Outbox) {
        match (&record.event.kind, record.event.job) {
            (Kind::Alloc(_), Some(job)) => self.start(job, out),
            (Kind::Start, Some(job)) => self.set_timer(now, job, out),
            (Kind::Exception(e), Some(job)) if e.severity == 0 => {
                self.end(now, job, out);
                self.conclude(now, job, out);
            }
            (Kind::Release(..), Some(job)) => self.forget(job, out),
            (Kind::ResourceDefine(..), None) => self.shells.cover(now, out),
            (Kind::ShellStart(ranks, epoch), None) => self.shells.recorded(ranks, *epoch, out),
            (Kind::ShellLost(_), None) => {
                self.conclude_lost(now, out);
                self.shells.cover(now, out);
            }
            (Kind::LeaderStop, None) => self.shells.dismiss(out),
            _ => {}
        }
    }

    /// Replay is over: finds out which shells live; each says hello then, and
    /// what it must be told is told after that.
    fn resume(&mut self, now: Time, out: &mut Outbox) {
        for epoch in self.shells.current() {
            out.volatile(Volatile::CheckShell(self.shells.ranks(epoch), epoch));
        }
        self.shells.cover(now, out);
        for run in self.runs.values_mut() {
            run.lose_shells_but(&self.shells);
            if run.owes_release() {
                let release = Kind::Release(run.grant.set.ranks(), Final::Yes);
                out.append(now, run.job, release);
            }
        }
        let jobs: Vec<JobId> = self.runs.keys().copied().collect();
        for job in &jobs {
            self.set_timer(now, *job, out);
        }
        self.conclude_lost(now, out);
    }

    /// Sends the starts of a grant, those that have not been answered.
    fn start(&mut self, job: JobId, out: &mut Outbox) {
        let Some(run) = self.runs.get(&job) else {
            return;
        };
        for (rank, start) in run.starts() {
            self.shells
                .send_start(run.grant.shells[&rank], start, &run.submit.spec, out);
        }
    }

    /// An attempt is ending: TERM now, KILL when the grace since the recorded
    /// exception is over.
    fn end(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        if let Some(run) = self.runs.get(&job) {
            run.signal(SIGTERM, &self.shells, out);
            self.set_timer(now, job, out);
        }
    }

    fn shell(&mut self, now: Time, epoch: Epoch, message: &FromShell, out: &mut Outbox) {
        match message {
            FromShell::Hello { parts, .. } => self.hello(now, epoch, parts, out),
            FromShell::Started { part, t: _ } => {
                self.learn(now, epoch, *part, PartView::Running, out);
            }
            FromShell::Ended { part, ended } => {
                self.learn(now, epoch, *part, PartView::Ended(ended.clone()), out);
            }
            FromShell::NotMine { part, why } => self.not_mine(now, epoch, *part, why, out),
            FromShell::Output { .. } => {}
        }
    }

    /// Both sides compare what they hold.
    fn hello(&mut self, now: Time, epoch: Epoch, parts: &[(Part, PartState)], out: &mut Outbox) {
        self.shells.welcome(epoch, out);
        if !self.shells.is_current(epoch) {
            // Its loss was recorded: nothing it holds counts any more.
            for (part, _) in parts {
                out.effect(Effect::Shell(
                    epoch,
                    ToShell::Signal {
                        part: *part,
                        signal: SIGKILL,
                    },
                ));
            }
            return;
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
        let jobs: Vec<JobId> = self
            .runs
            .values()
            .filter(|run| run.is_on(epoch))
            .map(|run| run.job)
            .collect();
        for job in jobs {
            let Some(run) = self.runs.get_mut(&job) else {
                continue;
            };
            for part in run
                .unended(epoch)
                .filter(|part| !told.contains(part))
                .collect::<Vec<_>>()
            {
                match (run.end, run.view(part.rank)) {
                    // It is to end and has not begun. Its start may still be
                    // held by the gate, though, and come on this connection:
                    // this goes behind it, and the answer tells.
                    (Some(_), Some(PartView::Asked)) => {
                        let signal = SIGTERM;
                        out.effect(Effect::Shell(epoch, ToShell::Signal { part, signal }));
                    }
                    (None, Some(PartView::Asked)) => {
                        if let Some(start) = run.start_of(part.rank) {
                            self.shells.send_start(epoch, start, &run.submit.spec, out);
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
        run.learn(part.rank, view);
        if run.end.is_some() && run.view(part.rank) == Some(&PartView::Running) {
            // It began although it is to end: repeat what it must be told.
            let signal = if run.kills > 0 { SIGKILL } else { SIGTERM };
            out.effect(Effect::Shell(epoch, ToShell::Signal { part, signal }));
        }
        self.conclude(now, part.job, out);
    }

    /// The shell holds a part that is not in the books.
    fn unknown(&self, epoch: Epoch, part: Part, view: &PartView, out: &mut Outbox) {
        let message = match view {
            PartView::Ended(_) => ToShell::Forget { part },
            PartView::Asked | PartView::Running => ToShell::Signal {
                part,
                signal: SIGKILL,
            },
        };
        out.effect(Effect::Shell(epoch, message));
    }

    fn not_mine(&mut self, now: Time, epoch: Epoch, part: Part, why: &str, out: &mut Outbox) {
        if let Some(run) = self.runs.get_mut(&part.job)
            && run.attempt == part.attempt
            && run.shell(part.rank) == Some(epoch)
        {
            run.lose(part.rank, now, why);
            self.conclude(now, part.job, out);
        }
    }

    fn conclude_lost(&mut self, now: Time, out: &mut Outbox) {
        let lost: Vec<JobId> = self
            .runs
            .values()
            .filter(|run| run.lost().is_some())
            .map(|run| run.job)
            .collect();
        for job in lost {
            self.conclude(now, job, out);
        }
    }

    /// Records what a run has come to: its start, its loss, its end.
    fn conclude(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        let Some(run) = self.runs.get_mut(&job) else {
            return;
        };
        if run.is_starting_recordable() {
            run.start_proposed = true;
            out.append(now, job, Kind::Start);
        }
        if let Some((kind, note)) = run.failure() {
            run.failure_proposed = true;
            let kind = kind.to_owned();
            let exception = Exception {
                kind,
                severity: 0,
                note,
                userid: None,
            };
            // Its fold brings us back here to record the end.
            return out.append(now, job, Kind::Exception(Box::new(exception)));
        }
        if let Some(status) = run.end_recordable() {
            run.end_proposed = true;
            out.append(now, job, Kind::Finish(status));
            out.append(now, job, Kind::Release(run.grant.set.ranks(), Final::Yes));
        }
    }

    /// The end of a run is recorded: the shells may forget it.
    fn forget(&mut self, job: JobId, out: &mut Outbox) {
        let Some(run) = self.runs.get(&job) else {
            return;
        };
        for (rank, epoch) in &run.grant.shells {
            let part = run.part(*rank);
            out.effect(Effect::Shell(*epoch, ToShell::Forget { part }));
        }
    }

    fn set_timer(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        let Some(run) = self.runs.get(&job) else {
            return;
        };
        if let Some(at) = run.due(self.kill_grace) {
            self.timers.insert((at, job));
            out.volatile(Volatile::Wake(at.max(now)));
        }
    }

    fn tick(&mut self, now: Time, out: &mut Outbox) {
        self.shells.cover(now, out);
        while let Some((at, job)) = self.timers.first().copied() {
            if at > now {
                out.volatile(Volatile::Wake(at));
                break;
            }
            self.timers.pop_first();
            self.timer(now, job, out);
        }
    }

    /// What is due for a run: its time limit, or the next KILL.
    fn timer(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        let Some(run) = self.runs.get_mut(&job) else {
            return;
        };
        let due = run.due(self.kill_grace).filter(|due| *due <= now);
        match (due, run.end) {
            (None, _) => return,
            (Some(_), None) => {
                let limit = run.limit().map_or(0.0, |span| span.0 as f64 / 1e6);
                let exception = Exception {
                    kind: "timeout".to_owned(),
                    severity: 0,
                    note: format!("its time limit of {limit} s is over"),
                    userid: None,
                };
                return out.append(now, job, Kind::Exception(Box::new(exception)));
            }
            (Some(_), Some(_)) => {
                run.kill(now, &self.shells, out);
                if run.kills == KILLS_MAX {
                    let reason = format!("tasks of job {job} cannot be killed");
                    for rank in run.grant.set.ranks().iter() {
                        let ranks = Idset::one(rank);
                        out.append_own(now, Kind::Drain(ranks, reason.clone(), u32::MAX));
                    }
                }
            }
        }
        self.set_timer(now, job, out);
    }

    /// `job.kill`: a signal to the tasks, which changes no record.
    fn kill(&mut self, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let body: KillRequest = request.parse()?;
        if !(1..=64).contains(&body.signal) {
            let text = format!("signal: {} given, allowed are 1 to 64", body.signal);
            return Err(Refusal::invalid(text));
        }
        if body.jobs.is_empty() {
            return Err(Refusal::invalid("jobs: none given, at least one is needed"));
        }
        let mut changed = Changed::default();
        for (first, last) in &body.jobs.ranges {
            if first > last {
                let text = format!("jobs: {first}-{last} given, a range ends after it begins");
                return Err(Refusal::new(Code::Invalid, text));
            }
            if first == last
                && !self.runs.contains_key(first)
                && changed.refused.len() < REFUSED_MAX
            {
                changed
                    .refused
                    .push((*first, "it is not running".to_owned()));
            }
            for (id, run) in self.runs.range(*first..=*last) {
                let own = request.roles.any_of(Roles::OWNER.or(Roles::ADMIN))
                    || request.uid == run.submit.user;
                if own {
                    run.signal(body.signal, &self.shells, out);
                    changed.count += 1;
                } else if changed.refused.len() < REFUSED_MAX {
                    changed
                        .refused
                        .push((*id, "it is another user's".to_owned()));
                }
            }
        }
        out.reply(request.caller, &changed);
        Ok(())
    }
}

/// An end for a part nothing is known of: as if killed.
fn killed(now: Time, note: Option<String>) -> Ended {
    Ended {
        t: now,
        status: SIGKILL,
        note,
        tasks: BTreeMap::new(),
    }
}
