//! Gangs of those who wait: gathered until all are there, then seated as one.
//!
//! Called by the planner as members come and go. While a gang is not whole its members are in nobody's
//! way; when it is, the last of them has a seat among those who wait, and stands for all. Whose members
//! start is told as verdicts that stand or fall together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_wire::account::Name;
use eddy_wire::gang::Gang;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Sharing;
use eddy_wire::plan::{Explained, Outcome, Reason, Verdict, Want};
use eddy_wire::time::{Span, Time};

use super::{Place, Planner, Waiting};
use crate::occupancy::{Ask, Spot, Started};
use crate::together::{Member, Together};
use crate::turns::Turn;
use crate::walk::{Job, Rules};

/// Gangs by their user and name.
pub(super) type Gangs = BTreeMap<(u32, Name), Gathering>;

/// Those of a gang who wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathering {
    members: BTreeSet<JobId>,
    /// As the last of them said it: how many are to be there may change while some wait.
    gang: Option<Arc<Gang>>,
    /// Who has a seat for all of them.
    seat: Option<JobId>,
}

impl Gathering {
    fn size(&self) -> usize {
        let size = self.gang.as_ref().map_or(1, |gang| gang.size);
        usize::try_from(size.max(1)).unwrap_or(usize::MAX)
    }
}

fn key_of(want: &Want) -> Option<(u32, Name)> {
    let gang = want.gang.as_ref()?;
    Some((want.owner.user, gang.name.clone()))
}

impl Planner {
    /// One more of a gang waits; it is seated when it is whole.
    pub(super) fn gather(&mut self, job: JobId) {
        let Some(waiting) = self.waiting.get_mut(&job) else {
            return;
        };
        let Some(key) = key_of(&waiting.want) else {
            return;
        };
        waiting.place = Place::Gathered;
        let gang = waiting.want.gang.clone();
        self.unseat(&key);
        let gathering = self.gangs.entry(key.clone()).or_default();
        gathering.members.insert(job);
        gathering.gang = gang;
        self.seat_whole(&key);
    }

    /// The first of a gang have a seat together, if as many wait as it has.
    fn seat_whole(&mut self, key: &(u32, Name)) {
        let Some(gathering) = self.gangs.get_mut(key) else {
            return;
        };
        let size = gathering.size();
        gathering.seat = gathering.members.iter().nth(size - 1).copied();
        if let Some(seat) = gathering.seat {
            self.seat(seat);
        }
    }

    /// One of a gang waits no more, or not now.
    pub(super) fn scatter(&mut self, job: JobId) {
        let Some(key) = self.waiting.get(&job).and_then(|one| key_of(&one.want)) else {
            return;
        };
        self.unseat(&key);
        let Some(gathering) = self.gangs.get_mut(&key) else {
            return;
        };
        gathering.members.remove(&job);
        match gathering.members.is_empty() {
            true => drop(self.gangs.remove(&key)),
            false => self.seat_whole(&key),
        }
    }

    /// Nobody stands for this gang.
    fn unseat(&mut self, key: &(u32, Name)) {
        let seat = self.gangs.get_mut(key).and_then(|one| one.seat.take());
        let Some(waiting) = seat.and_then(|seat| self.waiting.get_mut(&seat)) else {
            return;
        };
        if let (Some(seat), Place::Row(row)) = (seat, waiting.place) {
            waiting.place = Place::Gathered;
            self.unrow(seat, row);
        }
    }

    /// The gang that a job stands for.
    pub(super) fn gang_of_seat(&self, job: JobId) -> Option<&Gathering> {
        let key = key_of(&self.waiting.get(&job)?.want)?;
        self.gangs.get(&key).filter(|one| one.seat == Some(job))
    }

    /// Whether a job starts with others or not at all.
    pub(super) fn is_in_gang(&self, job: JobId) -> bool {
        let waiting = self.waiting.get(&job);
        waiting.is_some_and(|one| one.want.gang.is_some())
    }

    /// A job as the agenda has it, with its gang, and for how long it is planned if it says.
    pub(super) fn entry_of(&self, job: JobId) -> (Job<Arc<Ask>>, Option<Span>) {
        let Waiting { want, .. } = &self.waiting[&job];
        let gathering = self.gang_of_seat(job);
        let gang = gathering.and_then(|gathering| Some((gathering, gathering.gang.as_ref()?)));
        let Some((gathering, gang)) = gang else {
            return self.alone(job, want);
        };
        let rules = Rules::from(&self.policy.queue);
        let mut longest = Some(Span::ZERO);
        let mut pools: BTreeMap<Name, u64> = BTreeMap::new();
        let mut members = Vec::new();
        for member in gathering.members.iter().take(gathering.size()) {
            let want = &self.waiting[member].want;
            let limit = self.limit_of(want);
            longest = longest
                .zip(limit)
                .map(|(longest, limit)| longest.max(limit));
            for (pool, count) in want.pools.iter() {
                let sum = pools.entry(pool.clone()).or_default();
                *sum = sum.saturating_add(*count);
            }
            members.push(Member {
                ask: Ask::new(*member, Arc::clone(want)),
                span: rules.span(limit),
            });
        }
        let all = Want {
            pools: pools.into_iter().collect(),
            ..Want::clone(want)
        };
        let gang = Together {
            gang: Arc::clone(gang),
            members,
        };
        let entry = Job {
            need: Ask::together(job, Arc::new(all), gang),
            since: want.eligible,
        };
        (entry, longest)
    }

    /// All members start of which it was found where; those who were left out never do.
    pub(super) fn start_gang(&mut self, spot: &Spot, started: Vec<Started>, outcome: &mut Outcome) {
        let left_out = spot.left_out();
        let mut together = Vec::new();
        let began = started.len();
        for (member, set, until) in started {
            let set = self.propose(member, set, until);
            outcome.verdicts.push((member, Verdict::Start(set)));
            together.push(member);
        }
        for member in left_out {
            if let Some(gang) = self.gang_of(member) {
                let reason = Reason::LeftOut {
                    gang: gang.name.clone(),
                    began: u32::try_from(began).unwrap_or(u32::MAX),
                    size: gang.size,
                };
                self.unwant(member);
                outcome.verdicts.push((member, Verdict::Never(reason)));
                together.push(member);
            }
        }
        outcome.together.push(together);
    }

    /// None of a gang ever starts on this inventory, as one who stands for them never does.
    pub(super) fn never_gang(&mut self, seat: JobId, reason: &Reason, outcome: &mut Outcome) {
        let members = self.gang_of_seat(seat).into_iter();
        let members = members.flat_map(|one| one.members.iter().take(one.size()).copied());
        for member in members.collect::<Vec<JobId>>() {
            self.unwant(member);
            let never = Verdict::Never(reason.clone());
            outcome.verdicts.push((member, never));
        }
    }

    fn gang_of(&self, job: JobId) -> Option<&Arc<Gang>> {
        self.waiting.get(&job)?.want.gang.as_ref()
    }

    /// Why those of gangs wait who have no seat: who is asked about, with the turn of who stands for it.
    pub(super) fn gathered(&self, is_asked: impl Fn(JobId) -> bool) -> Vec<(JobId, Option<Turn>)> {
        let mut found = Vec::new();
        for gathering in self.gangs.values() {
            let turn = gathering.seat.and_then(|seat| self.turn_of(seat));
            let others = gathering.members.iter();
            let others = others.filter(|job| Some(**job) != gathering.seat && is_asked(**job));
            found.extend(others.map(|job| (*job, turn)));
        }
        found
    }

    /// Why those wait, each as who stands for its gang: what that is told is found once.
    pub(super) fn of_gangs(
        &self,
        asked: impl Iterator<Item = (JobId, Option<Turn>)>,
        turns: &[(u64, Turn)],
        starts: &BTreeMap<JobId, Time>,
        now: Time,
    ) -> Vec<Explained> {
        let mut told: BTreeMap<JobId, Explained> = BTreeMap::new();
        let mut all = Vec::new();
        for (job, seat) in asked {
            let ahead = seat.and_then(|seat| turns.iter().find(|(_, turn)| *turn == seat));
            all.push(match ahead {
                Some((ahead, seat)) => {
                    let of_seat = told.entry(seat.job);
                    let of_seat =
                        of_seat.or_insert_with(|| self.explain(*seat, *ahead, starts, now));
                    Explained {
                        job,
                        ..of_seat.clone()
                    }
                }
                None => self.incomplete(job, turns.len() as u64, now),
            });
        }
        all
    }

    /// Why one waits whose gang is not whole.
    pub(super) fn incomplete(&self, job: JobId, ahead: u64, now: Time) -> Explained {
        let want = &self.waiting[&job].want;
        let gathering = key_of(want).and_then(|key| self.gangs.get(&key));
        let gang = gathering.and_then(|one| Some((one, one.gang.as_ref()?)));
        let reason = match gang {
            Some((gathering, gang)) => Reason::GangIncomplete {
                gang: gang.name.clone(),
                ready: u32::try_from(gathering.members.len()).unwrap_or(u32::MAX),
                size: gang.size,
            },
            None => Reason::New,
        };
        Explained {
            job,
            reason,
            ahead,
            start: None,
            priority: self.turns.breakdown(want, now),
            moved: None,
            sharing: Sharing::default(),
            advice: Vec::new(),
            lent: Vec::new(),
        }
    }
}
