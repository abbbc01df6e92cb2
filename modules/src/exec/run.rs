//! One attempt of a job on its shells: what each part has come to.
//!
//! Partly the fold of records (grant, start, end), partly what shells said
//! since the last restart; a shell repeats the latter on each hello.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_broker::{Effect, Outbox};
use eddy_wire::event::{Kind, Submit};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::jobspec::Work;
use eddy_wire::shell::{Ended, Part, Role, Start, ToShell};
use eddy_wire::time::{Span, Time};

use super::layout::layout;
use super::shells::Shells;
use super::{SIGKILL, killed};

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
    parts: BTreeMap<Rank, PartView>,
    /// When the start was recorded.
    started: Option<Time>,
    /// When its first fatal exception was recorded.
    pub(super) end: Option<Time>,
    /// How often KILL was sent, and when last.
    pub(super) kills: u32,
    last_kill: Time,
    /// Why a part is lost, if one is.
    lost: Option<String>,
    /// Whether the record was proposed; each is proposed once in a leader's life.
    pub(super) start_proposed: bool,
    pub(super) failure_proposed: bool,
    pub(super) end_proposed: bool,
    release: Release,
}

/// How far the end of an attempt is recorded: its release goes along with its
/// finish, but a journal that was cut may hold the one without the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    NotYet,
    Owed,
    Recorded,
}

/// What the part at this place among the job's ranks is to it.
fn role(work: &Work, index: usize) -> Role {
    match (work, index) {
        (Work::Tasks, _) => Role::Tasks,
        (Work::Instance { .. }, 0) => Role::Leader,
        (Work::Instance { .. }, _) => Role::Ground,
    }
}

impl Run {
    pub(super) fn new(job: JobId, attempt: Attempt, grant: Arc<Grant>, submit: Arc<Submit>) -> Run {
        let parts = grant
            .set
            .nodes
            .keys()
            .map(|rank| (*rank, PartView::Asked))
            .collect();
        Run {
            job,
            attempt,
            grant,
            submit,
            parts,
            started: None,
            end: None,
            kills: 0,
            last_kill: Time(0),
            lost: None,
            start_proposed: false,
            failure_proposed: false,
            end_proposed: false,
            release: Release::NotYet,
        }
    }

    /// Folds a record of this attempt.
    pub(super) fn apply(&mut self, t: Time, kind: &Kind) {
        match kind {
            Kind::Start => {
                self.started = Some(t);
                self.start_proposed = true;
                // All of them ran; after a restart their shells say how they are.
                for view in self.parts.values_mut() {
                    if *view == PartView::Asked {
                        *view = PartView::Running;
                    }
                }
            }
            Kind::Exception(exception) if exception.severity == 0 => {
                self.end.get_or_insert(t);
            }
            Kind::Finish(_) => {
                self.end_proposed = true;
                self.release = Release::Owed;
            }
            Kind::Release(..) => self.release = Release::Recorded,
            _ => {}
        }
    }

    /// A shell this run may be on is gone for good.
    pub(super) fn shell_lost(&mut self, epoch: Epoch) {
        for (rank, view) in &mut self.parts {
            if self.grant.shells.get(rank) == Some(&epoch) && !matches!(view, PartView::Ended(_)) {
                // The end of a lost part is at its loss; nothing tells when exactly.
                *view = PartView::Ended(killed(Time(0), None));
                self.lost
                    .get_or_insert_with(|| format!("the shell on rank {rank} died"));
            }
        }
    }

    /// Parts on shells that are not in service any more are lost.
    pub(super) fn lose_shells_but(&mut self, shells: &Shells) {
        let gone: Vec<Epoch> = self
            .grant
            .shells
            .values()
            .copied()
            .filter(|epoch| !shells.is_current(*epoch))
            .collect();
        gone.into_iter().for_each(|epoch| self.shell_lost(epoch));
    }

    /// Whether its finish is recorded and its release is not.
    pub(super) fn owes_release(&self) -> bool {
        self.release == Release::Owed
    }

    /// A part cannot be found any more.
    pub(super) fn lose(&mut self, rank: Rank, now: Time, why: &str) {
        self.lost
            .get_or_insert_with(|| format!("rank {rank}: {why}"));
        self.learn(rank, PartView::Ended(killed(now, None)));
    }

    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
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

    pub(super) fn is_on(&self, epoch: Epoch) -> bool {
        self.grant.shells.values().any(|shell| *shell == epoch)
    }

    /// Takes what a shell says; an end stands, whatever is said later.
    pub(super) fn learn(&mut self, rank: Rank, view: PartView) {
        if let Some(known) = self.parts.get_mut(&rank) {
            match (&*known, &view) {
                (PartView::Ended(_), _) | (PartView::Running, PartView::Asked) => {}
                (PartView::Asked | PartView::Running, _) => *known = view,
            }
        }
    }

    /// The parts on that shell that have not ended.
    pub(super) fn unended(&self, epoch: Epoch) -> impl Iterator<Item = Part> + '_ {
        self.parts
            .iter()
            .filter(move |(rank, view)| {
                self.shell(**rank) == Some(epoch) && !matches!(view, PartView::Ended(_))
            })
            .map(|(rank, _)| self.part(*rank))
    }

    /// The starts of the parts nothing was heard of.
    pub(super) fn starts(&self) -> Vec<(Rank, Start)> {
        layout(&self.submit.spec.request, &self.grant.set)
            .into_iter()
            .enumerate()
            .filter(|(_, place)| self.parts.get(&place.rank) == Some(&PartView::Asked))
            .map(|(index, place)| {
                let node = &self.grant.set.nodes[&place.rank];
                let start = Start {
                    part: self.part(place.rank),
                    shell: self.grant.shells[&place.rank],
                    role: role(&self.submit.spec.request.work, index),
                    user: self.submit.user,
                    jobspec: self.submit.spec.hash,
                    environment: self.submit.spec.environment_hash,
                    cc: self.submit.cc,
                    first_task: place.first_task,
                    ntasks: place.ntasks,
                    job_ntasks: self.submit.spec.request.ntasks,
                    node_index: index as u32,
                    job_nnodes: self.grant.set.nnodes() as u32,
                    host: node.host.to_string(),
                    nodelist: self.grant.set.nodelist(),
                    cores: node.cores.clone(),
                    gpus: node.gpus.clone(),
                    memory: node.memory,
                };
                (place.rank, start)
            })
            .collect()
    }

    pub(super) fn start_of(&self, rank: Rank) -> Option<Start> {
        self.starts()
            .into_iter()
            .find(|(of, _)| *of == rank)
            .map(|(_, start)| start)
    }

    /// Sends a signal to every part that has not ended.
    pub(super) fn signal(&self, signal: i32, shells: &Shells, out: &mut Outbox) {
        for (rank, view) in &self.parts {
            let part = self.part(*rank);
            match (view, self.shell(*rank)) {
                (PartView::Asked | PartView::Running, Some(epoch)) if shells.is_current(epoch) => {
                    out.effect(Effect::Shell(epoch, ToShell::Signal { part, signal }));
                }
                _ => {}
            }
        }
    }

    /// KILL is sent now, once more.
    pub(super) fn kill(&mut self, now: Time, shells: &Shells, out: &mut Outbox) {
        self.kills += 1;
        self.last_kill = now;
        self.signal(SIGKILL, shells, out);
    }

    /// The time limit of the job.
    pub(super) fn limit(&self) -> Option<Span> {
        self.submit.spec.request.duration.map(Span)
    }

    /// When this run needs attention: its limit, counted from the start (a
    /// start that was slow is not the job's fault), or the next KILL: a grace
    /// after the end was recorded, then at doubling distances from the last.
    pub(super) fn due(&self, grace: Span) -> Option<Time> {
        if self.end_proposed {
            return None;
        }
        match (self.end, self.started, self.limit()) {
            (Some(end), _, _) if self.kills == 0 => Some(end.after(grace)),
            (Some(_), _, _) => {
                let factor = 1_i64 << (self.kills - 1).min(6);
                let distance = Span(grace.0.max(1).saturating_mul(factor));
                Some(self.last_kill.after(distance))
            }
            (None, Some(started), Some(limit)) => Some(started.after(limit)),
            (None, _, _) => None,
        }
    }

    /// Whether the start can be recorded: all parts ran and it was not yet.
    pub(super) fn is_starting_recordable(&self) -> bool {
        !self.start_proposed
            && self.lost.is_none()
            && self.parts.values().all(|view| match view {
                PartView::Asked => false,
                PartView::Running => true,
                PartView::Ended(ended) => ended.note.is_none() && ended.status != SIGKILL,
            })
    }

    /// A fatal exception that is to be recorded, with its note.
    pub(super) fn failure(&self) -> Option<(&'static str, String)> {
        if self.failure_proposed || self.end.is_some() || self.end_proposed {
            return None;
        }
        if let Some(why) = &self.lost {
            return Some(("node-failure", why.clone()));
        }
        self.parts.iter().find_map(|(rank, view)| match view {
            PartView::Ended(Ended {
                note: Some(note), ..
            }) if self.parts.len() == 1 => Some(("exec", note.clone())),
            PartView::Ended(Ended {
                note: Some(note), ..
            }) => Some(("exec", format!("rank {rank}: {note}"))),
            PartView::Asked | PartView::Running | PartView::Ended(_) => None,
        })
    }

    /// The largest wait status, once every part is over and nothing is owed
    /// before the end.
    pub(super) fn end_recordable(&self) -> Option<i32> {
        if self.end_proposed || self.failure().is_some() {
            return None;
        }
        let statuses: Option<Vec<i32>> = self
            .parts
            .values()
            .map(|view| match view {
                PartView::Ended(ended) => Some(ended.status),
                PartView::Asked | PartView::Running => None,
            })
            .collect();
        let worst = |statuses: Vec<i32>| {
            statuses
                .into_iter()
                .max_by_key(|status| eddy_wire::job::exit_code(*status))
        };
        statuses.and_then(worst)
    }
}
