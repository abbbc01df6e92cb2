//! For whom promises move that were told of.
//!
//! Looked at by the planner after each pass, while who came before whom is known. It changes nothing of the
//! plan; what is kept of it is with what was told (`hindsight`).

use eddy_wire::id::JobId;
use eddy_wire::plan::{Explained, Mover, Outcome, Verdict};
use eddy_wire::time::Time;

use super::Planner;
use crate::turns::Turn;

impl Planner {
    /// Notes who came before those whose promised start is later than what was told.
    pub(super) fn note_moves(&mut self, outcome: &Outcome) {
        let missed = self.hindsight.watched().filter_map(|(job, told)| {
            let turn = self.turn_of(job)?;
            match self.promised_start(&turn) {
                Some(at) => self
                    .hindsight
                    .is_missed(job, at)
                    .then_some((turn, [told; 2])),
                // Who is promised nothing any more is later than he was told. If nobody came since, it is one who was
                // there and had no time then, as while nodes were away that he needs.
                None => Some((turn, [told, Time(i64::MIN)])),
            }
        });
        let missed: Vec<(Turn, [Time; 2])> = missed.collect();
        for (turn, since) in missed {
            let mut since = since.into_iter();
            if let Some(by) = since.find_map(|since| self.came_before(&turn, since, outcome)) {
                self.hindsight.moves(turn.job, Mover::Job { job: by });
            }
        }
        let again = self.hindsight.watched().filter_map(|(job, _)| {
            let at = self.promised_start(&self.turn_of(job)?)?;
            Some((job, at))
        });
        let again: Vec<(JobId, Time)> = again.collect();
        for (job, at) in again {
            self.hindsight.stands_again(job, at);
        }
    }

    /// The first in turn of those who came since then and are before one: they start, or have something promised.
    fn came_before(&self, turn: &Turn, since: Time, outcome: &Outcome) -> Option<JobId> {
        let starts = outcome.verdicts.iter();
        let starts = starts.filter_map(|(job, verdict)| match verdict {
            Verdict::Start(_) => {
                let want = &self.waiting.get(job)?.want;
                self.turns.turn(*job, want, self.occupancy.now())
            }
            Verdict::Never(_) | Verdict::Preempt { .. } => None,
        });
        let promised = self.promises().map(|(other, ..)| other);
        let came = |other: &Turn| {
            let waiting = self.waiting.get(&other.job);
            waiting.is_some_and(|one| one.want.eligible >= since)
        };
        let before = starts.chain(promised).filter(|other| other < turn);
        before.filter(came).min().map(|other| other.job)
    }

    /// What is told of one says so if it was promised an earlier start.
    pub(super) fn tell_moved(&self, one: &mut Explained) {
        let latest = one.start.and_then(|start| start.latest);
        one.moved = self.hindsight.moved(one.job, latest);
    }
}
