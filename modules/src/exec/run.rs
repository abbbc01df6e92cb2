//! One attempt of a job on its shells: what each part has come to.
//!
//! Partly the fold of records (grant, start, end), partly what shells said
//! since the last restart; a shell repeats the latter on each hello. What all
//! parts have come to together is counted as they change, since a job may have
//! a thousand of them.

mod first;
mod limit;
mod pace;
mod signals;
mod warned;

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::event::{DeclaredDead, Kind, Submit};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Work;
use eddy_wire::preempt::Mode;
use eddy_wire::shell::{Ended, Part, Role, Start};
use eddy_wire::time::{Span, Time};
use eddy_wire::update;

pub(super) use self::limit::Limit;
use self::pace::Pace;
use super::SIGKILL;
use super::layout::{Place, layout, tasks};
use super::leaving::Leaving;
use super::over::killed;
use super::shells::Shells;

/// What is said within this time is as of when it is heard: clocks differ by less.
const AT_ONCE: Span = Span::seconds(1);

/// What is known of one part.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PartView {
    /// Its start was or will be sent; nothing was heard.
    Asked,
    /// Its tasks run.
    Running,
    /// It is over.
    Ended(Ended),
}

/// One attempt on its shells.
pub(super) struct Run {
    pub(super) job: JobId,
    pub(super) attempt: Attempt,
    pub(super) grant: Arc<Grant>,
    pub(super) submit: Arc<Submit>,
    /// The instance its tasks know, if it is not this one.
    home: Option<Arc<str>>,
    /// The id of the instance that this attempt is, or is ground of, once that has said it.
    instance: Option<String>,
    /// The attempt of the job that it is ground for when it was granted.
    ground_for: Option<Attempt>,
    parts: BTreeMap<Rank, PartView>,
    tally: Tally,
    /// When the start was recorded, and the last record of it.
    started: Option<Time>,
    last: Time,
    /// When its first fatal exception was recorded.
    pub(super) end: Option<Time>,
    /// When KILL is due where that is recorded.
    until: Option<Time>,
    /// How often KILL was sent, and when last.
    pub(super) kills: u32,
    last_kill: Time,
    /// Why a part is lost, if one is.
    lost: Option<String>,
    /// And why one that is ground: that is the end only if the instance goes on.
    ground_lost: Option<String>,
    leader: Leader,
    /// Whether the record was proposed; each is proposed once in a leader's life.
    pub(super) start_proposed: bool,
    pub(super) failure_proposed: bool,
    pub(super) end_proposed: bool,
    release: Release,
    sheet: Option<Sheet>,
    /// The latest change of its grant that was proposed.
    pub(super) reseated: Epoch,
    /// Parts that left it, and their shells, which may forget them.
    pub(super) left: Vec<(Rank, Epoch)>,
    /// Where ground could not be had, in which life of the rank's shell.
    pub(super) failed: BTreeMap<Rank, Epoch>,
    /// Ground that is to be cleared since its rank was taken out.
    pub(super) evicted: Idset,
    pub(super) leaving: Leaving,
    pace: Pace,
    /// The end of which its tasks were warned last.
    warned: Option<Time>,
}

/// What all parts have come to.
#[derive(Default)]
struct Tally {
    /// Parts nothing was heard of.
    asked: usize,
    /// Parts that have not ended, those among them.
    unended: usize,
    /// Parts that ended without having run.
    unrun: usize,
    /// The first part that said why it could not run, and its words.
    failed: Option<(Rank, String)>,
    /// The worst wait status so far.
    worst: Option<i32>,
    /// When the last of them had ended.
    over: Option<Time>,
}

/// What all starts of an attempt have in common.
struct Sheet {
    places: Vec<Place>,
    nodelist: String,
}

/// How far the end of an attempt is recorded: its release goes along with its
/// finish, but a journal that was cut may hold the one without the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    NotYet,
    Owed,
    Recorded,
}

/// Whether a shell has said in this leader's life how the instance's leader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leader {
    Unheard,
    Heard,
}

impl Run {
    /// `parent` is where the instance's parent takes clients.
    pub(super) fn new(
        (job, attempt): (JobId, Attempt),
        grant: Arc<Grant>,
        submit: Arc<Submit>,
        parent: Option<&Arc<str>>,
    ) -> Run {
        // What was passed down is the parent's job: what its tasks submit is so, too.
        let is_of_parent = submit.pass.is_some() && submit.spec.request.work == Work::Tasks;
        let ranks = grant.shells.keys();
        let parts: BTreeMap<Rank, PartView> = ranks.map(|rank| (*rank, PartView::Asked)).collect();
        Run {
            job,
            attempt,
            home: parent.filter(|_| is_of_parent).cloned(),
            grant,
            submit,
            instance: None,
            ground_for: None,
            tally: Tally {
                asked: parts.len(),
                unended: parts.len(),
                ..Tally::default()
            },
            parts,
            started: None,
            last: Time(0),
            end: None,
            until: None,
            kills: 0,
            last_kill: Time(0),
            lost: None,
            ground_lost: None,
            leader: Leader::Unheard,
            start_proposed: false,
            failure_proposed: false,
            end_proposed: false,
            release: Release::NotYet,
            sheet: None,
            reseated: Epoch(0),
            left: Vec::new(),
            failed: BTreeMap::new(),
            evicted: Idset::new(),
            leaving: Leaving::default(),
            pace: Pace::default(),
            warned: None,
        }
    }

    /// Folds a record of this attempt.
    pub(super) fn apply(&mut self, t: Time, kind: &Kind) {
        self.last = t;
        self.pace.apply(t, kind);
        self.leaving.apply(kind);
        match kind {
            Kind::Start => {
                self.started = Some(t);
                self.start_proposed = true;
                // All of them ran; after a restart their shells say how they are.
                if self.tally.asked > 0 {
                    let asked = self.parts.values_mut();
                    asked
                        .filter(|view| **view == PartView::Asked)
                        .for_each(|view| *view = PartView::Running);
                    self.tally.asked = 0;
                }
            }
            Kind::Exception(exception) if exception.severity == 0 => {
                if let (None, Some(until)) = (self.end, exception.until) {
                    self.until.get_or_insert(until);
                }
                self.end.get_or_insert(t);
            }
            Kind::Preempted(preemption) => match preemption.mode {
                Mode::Requeue | Mode::Cancel => {
                    self.until.get_or_insert(preemption.until);
                }
                // Its end has a grace of its own, should it come.
                Mode::Suspend => {}
            },
            Kind::Finish(_) => {
                self.end_proposed = true;
                self.release = Release::Owed;
            }
            Kind::Release(..) => (self.end_proposed, self.release) = (true, Release::Recorded),
            Kind::Adopt(adoption) => self.instance = Some(adoption.instance.clone()),
            Kind::GrantChanged(grant) => self.regrant(grant),
            Kind::JobspecUpdate(map) => update::submit(&mut self.submit, map),
            _ => {}
        }
    }

    /// Where it has no ground any more it has no part, and new ones are asked for.
    fn regrant(&mut self, grant: &Arc<Grant>) {
        let there = &grant.shells;
        for (rank, view) in self
            .parts
            .extract_if(.., |rank, _| !there.contains_key(rank))
        {
            let shell = self.grant.shells.get(&rank).copied();
            match view {
                PartView::Asked => {
                    self.tally.asked -= 1;
                    self.tally.unended -= 1;
                }
                PartView::Running => self.tally.unended -= 1,
                PartView::Ended(ended) if ended.note.is_some() => {
                    self.failed.extend(shell.map(|shell| (rank, shell)));
                }
                PartView::Ended(_) => {}
            }
            self.left.extend(shell.map(|shell| (rank, shell)));
        }
        for rank in there.keys() {
            self.parts.entry(*rank).or_insert_with(|| {
                self.tally.asked += 1;
                self.tally.unended += 1;
                PartView::Asked
            });
        }
        self.grant = Arc::clone(grant);
        self.sheet = None;
    }

    /// The name of the declared instance that it is.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.submit.spec.request.work {
            Work::Instance { name } => name.as_deref(),
            Work::Tasks | Work::Ground { .. } => None,
        }
    }

    /// Whether it is an instance itself: of what is signalled, its program is meant.
    pub(super) fn is_of_instance(&self) -> bool {
        matches!(self.submit.spec.request.work, Work::Instance { .. })
    }

    /// The instance that it is ground of, if it is nothing else.
    pub(super) fn grows(&self) -> Option<JobId> {
        self.submit.spec.request.grows()
    }

    /// As which instance its agents know it.
    pub(super) fn instance(&self) -> Option<&str> {
        self.instance.as_deref()
    }

    /// It is granted for that attempt of an instance, if that has begun.
    pub(super) fn set_ground_for(&mut self, attempt: Option<Attempt>) {
        self.ground_for = attempt;
    }

    /// The attempt of its instance that it is ground for.
    pub(super) fn ground_for(&self) -> Option<Attempt> {
        self.ground_for
    }

    /// It is ground of that instance.
    pub(super) fn set_instance(&mut self, instance: &str) {
        self.instance = Some(instance.to_owned());
    }

    /// Whether another part of it than that goes on.
    pub(super) fn goes_on_but(&self, rank: Rank) -> bool {
        let goes_on = |view: &PartView| !matches!(view, PartView::Ended(_));
        let mut parts = self.parts.iter();
        parts.any(|(of, view)| *of != rank && goes_on(view))
    }

    pub(super) fn is_started(&self) -> bool {
        self.started.is_some()
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = (&Rank, &PartView)> {
        self.parts.iter()
    }

    pub(super) fn is_ground(&self, rank: Rank) -> bool {
        self.role_of(rank) == Role::Ground
    }

    pub(super) fn is_instance(&self) -> bool {
        self.submit.spec.request.work != Work::Tasks
    }

    /// A shell this run may be on is gone for good, with all parts on it (the
    /// one on `rank`, if it served no other). Where only ground of an instance
    /// was there it goes on without that node.
    pub(super) fn shell_lost(
        &mut self,
        epoch: Epoch,
        rank: Option<Rank>,
        by: Option<&DeclaredDead>,
    ) {
        let on = |of: &Rank| self.grant.shells.get(of) == Some(&epoch);
        let ranks: Vec<Rank> = match rank {
            Some(rank) => Some(rank).filter(on).into_iter().collect(),
            None => self.parts.keys().filter(|of| on(of)).copied().collect(),
        };
        ranks.into_iter().for_each(|rank| self.part_lost(rank, by));
    }

    fn part_lost(&mut self, rank: Rank, by: Option<&DeclaredDead>) {
        if matches!(self.view(rank), Some(PartView::Asked | PartView::Running)) {
            self.lacks(rank, why_lost(rank, by));
            // The end of a lost part is at its loss; nothing tells when exactly.
            self.learn(rank, PartView::Ended(killed(Time(0), None)));
        }
    }

    /// Parts on shells that are not in service any more are lost.
    pub(super) fn lose_shells_but(&mut self, shells: &Shells) {
        let shells_of = self.grant.shells.iter();
        let gone = shells_of.filter(|(_, epoch)| !shells.is_current(**epoch));
        let gone: Vec<Rank> = gone.map(|(rank, _)| *rank).collect();
        gone.into_iter().for_each(|rank| self.part_lost(rank, None));
    }

    /// Whether its release is recorded.
    pub(super) fn is_over(&self) -> bool {
        self.release == Release::Recorded
    }

    /// Whether its finish is recorded and its release is not.
    pub(super) fn owes_release(&self) -> bool {
        self.release == Release::Owed
    }

    fn lacks(&mut self, rank: Rank, why: String) {
        let of = match self.is_ground(rank) {
            true if self.spares(rank) => return,
            true => &mut self.ground_lost,
            false => &mut self.lost,
        };
        of.get_or_insert(why);
    }

    /// A part cannot be found any more. Ground of an instance that is over need not be.
    pub(super) fn lose(&mut self, rank: Rank, now: Time, why: &str) {
        self.lacks(rank, format!("rank {rank}: {why}"));
        self.learn(rank, PartView::Ended(killed(now, None)));
    }

    pub(super) fn is_lacking(&self) -> bool {
        self.lost.is_some() || self.ground_lost.is_some()
    }

    pub(super) fn part(&self, rank: Rank) -> Part {
        Part {
            job: self.job,
            attempt: self.attempt,
            rank,
        }
    }

    pub(super) fn view(&self, rank: Rank) -> Option<&PartView> {
        self.parts.get(&rank)
    }

    pub(super) fn shell(&self, rank: Rank) -> Option<Epoch> {
        self.grant.shells.get(&rank).copied()
    }

    /// What the part on this rank is to the job.
    pub(super) fn role_of(&self, rank: Rank) -> Role {
        match &self.submit.spec.request.work {
            Work::Tasks => Role::Tasks,
            Work::Instance { .. } if self.parts.keys().next() == Some(&rank) => Role::Leader,
            Work::Instance { .. } | Work::Ground { .. } => Role::Ground,
        }
    }

    /// Whether this is an instance whose leader has ended: what is left of it
    /// is ground that is to be cleared.
    pub(super) fn is_without_leader(&self) -> bool {
        let first = self.parts.first_key_value();
        matches!(
            (&self.submit.spec.request.work, first),
            (Work::Instance { .. }, Some((_, PartView::Ended(_))))
        )
    }

    /// Takes what a shell says; an end stands, whatever is said later.
    pub(super) fn learn(&mut self, rank: Rank, view: PartView) {
        let (role, spared) = (self.role_of(rank), self.spares(rank));
        if role == Role::Leader {
            self.leader = Leader::Heard;
        }
        let Some(known) = self.parts.get_mut(&rank) else {
            return;
        };
        match (&*known, &view) {
            (PartView::Ended(_), _) | (PartView::Running, PartView::Asked) => return,
            (PartView::Asked, PartView::Running | PartView::Ended(_)) => self.tally.asked -= 1,
            (PartView::Asked, PartView::Asked) | (PartView::Running, _) => {}
        }
        match &view {
            PartView::Ended(_) if spared => self.tally.unended -= 1,
            PartView::Ended(ended) => self.tally.ended(rank, role, known, ended),
            PartView::Asked | PartView::Running => {}
        }
        *known = view;
    }

    /// The parts on that shell that have not ended; `rank` is the one that the
    /// shell serves if it serves one.
    pub(super) fn unended(&self, epoch: Epoch, rank: Option<Rank>) -> Vec<Part> {
        let is_on = |of: &Rank| {
            let is_live = matches!(self.view(*of), Some(PartView::Asked | PartView::Running));
            is_live && self.shell(*of) == Some(epoch)
        };
        let ranks: Vec<Rank> = match rank {
            Some(rank) => Some(rank).filter(is_on).into_iter().collect(),
            None => self.parts.keys().filter(|of| is_on(of)).copied().collect(),
        };
        ranks.into_iter().map(|rank| self.part(rank)).collect()
    }

    /// The start of the part on this rank.
    pub(super) fn start_of(&mut self, rank: Rank) -> Option<Start> {
        let role = self.role_of(rank);
        let part = self.part(rank);
        let (grant, spec) = (&self.grant, &self.submit.spec);
        let sheet = self.sheet.get_or_insert_with(|| Sheet {
            places: layout(&spec.request.granted(&grant.set), &grant.set),
            nodelist: grant.set.nodelist(),
        });
        let places = &sheet.places;
        let index = places
            .binary_search_by_key(&rank, |place| place.rank)
            .ok()?;
        let (place, node) = (places[index], &grant.set.nodes[&rank]);
        Some(Start {
            part,
            shell: *grant.shells.get(&rank)?,
            role,
            user: self.submit.user,
            jobspec: spec.hash,
            environment: spec.environment_hash,
            cc: self.submit.cc,
            array: self.submit.array(part.job),
            uri: self.home.clone(),
            first_task: place.first_task,
            ntasks: place.ntasks,
            job_ntasks: tasks(&spec.request.granted(&self.grant.set)),
            node_index: index as u32,
            job_nnodes: places.len() as u32,
            host: node.host.to_string(),
            nodelist: sheet.nodelist.clone(),
            cores: node.cores.clone(),
            gpus: node.gpus.clone(),
            memory: node.memory,
        })
    }

    /// Whether the start can be recorded: all parts ran and it was not yet.
    pub(super) fn is_starting_recordable(&self) -> bool {
        !self.start_proposed && !self.is_lacking() && self.tally.asked == 0 && self.tally.unrun == 0
    }

    /// A fatal exception that is to be recorded, with its note.
    pub(super) fn failure(&self) -> Option<(&'static str, String)> {
        if self.failure_proposed || self.end.is_some() || self.end_proposed {
            return None;
        }
        if let Some(why) = &self.lost {
            return Some(("node-failure", why.clone()));
        }
        // Whose leader is over needs its ground no more; whether it is its shell says.
        let has_leader = self.leader == Leader::Heard && !self.is_without_leader();
        let goes_on = self.grows().is_some() || has_leader;
        if let Some(why) = self.ground_lost.as_ref().filter(|_| goes_on) {
            return Some(("node-failure", why.clone()));
        }
        let (rank, note) = self.tally.failed.as_ref()?;
        match self.parts.len() {
            1 => Some(("exec", note.clone())),
            _ => Some(("exec", format!("rank {rank}: {note}"))),
        }
    }

    /// When its tasks were over. Shells say long after only what ended while no leader was there: that was
    /// when they saw it, and after all that is recorded of it.
    pub(super) fn over_at(&self, now: Time) -> Time {
        let is_tasks = self.submit.spec.request.work == Work::Tasks && self.started.is_some();
        let over = self.tally.over.filter(|_| is_tasks);
        let late = over.filter(|over| now - *over > AT_ONCE);
        late.map_or(now, |over| over.max(self.last))
    }

    /// The largest wait status, once every part is over and nothing is owed
    /// before the end.
    pub(super) fn end_recordable(&self) -> Option<i32> {
        if self.end_proposed || self.tally.unended > 0 || self.failure().is_some() {
            return None;
        }
        // What ended it comes first: two shells may be lost before that is folded.
        if self.failure_proposed && self.end.is_none() {
            return None;
        }
        // Ground that is over has ended well.
        let ground = self.grows().map(|_| 0);
        self.tally.worst.or(ground)
    }
}

/// Why nothing runs any more on a rank: as was seen, or as somebody says.
fn why_lost(rank: Rank, by: Option<&DeclaredDead>) -> String {
    match by {
        None => format!("the shell on rank {rank} died"),
        Some(DeclaredDead { userid, reason }) => {
            let said = format!("user {userid} declared rank {rank} dead");
            match reason.as_str() {
                "" => said,
                reason => format!("{said}: {reason}"),
            }
        }
    }
}

impl Tally {
    /// A part ended, which was known to be `before`.
    fn ended(&mut self, rank: Rank, role: Role, before: &PartView, ended: &Ended) {
        self.unended -= 1;
        self.over = self.over.max(Some(ended.t));
        // Ground is always ended by KILL; that says nothing of the job.
        let is_ground = role == Role::Ground;
        let is_killed = ended.status == SIGKILL && !is_ground;
        let has_run = *before == PartView::Running || !is_killed;
        if ended.note.is_some() || !has_run {
            self.unrun += 1;
        }
        if let Some(note) = &ended.note {
            self.failed.get_or_insert_with(|| (rank, note.clone()));
        }
        let code = eddy_wire::job::exit_code;
        if !is_ground
            && self
                .worst
                .is_none_or(|worst| code(worst) <= code(ended.status))
        {
            self.worst = Some(ended.status);
        }
    }
}
