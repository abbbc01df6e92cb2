//! Usage against share over time: who was due what while somebody wanted more.
//!
//! Max-min fairness over those who want something at an instant (what waits and
//! what runs is what they want), as in progressive filling, by shares: first among
//! groups and users without one, then within each group. Demand caps it, so nobody
//! is due what they do not ask for. Sampled at instants that are evenly spread,
//! which a long trace needs.

use eddy_wire::time::{MICROS, Time};
use serde::Serialize;

use super::machine::Machine;
use super::replay::Course;
use super::workload::{UNKNOWN, Workload};

/// Instants that are looked at.
const SAMPLES: i64 = 2000;

/// What each owner used and was due.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fairness {
    /// Of what owners were due, the part that they had while it was due, 0 to 1; `None` where the
    /// trace names fewer than two.
    pub index: Option<f64>,
    /// By the place of the owner in the workload.
    pub owners: Vec<Standing>,
}

/// One owner, in processor seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Standing {
    /// Used.
    pub used: f64,
    /// Due, over time.
    pub due: f64,
    /// Due and not had, while it was due.
    pub short: f64,
}

/// What one owner wants and has at an instant, in processors.
#[derive(Clone, Copy, Debug, Default)]
struct Present {
    wants: i128,
    has: i128,
}

/// A change at a time: of what an owner wants, and has.
type Change = (Time, u32, i128, i128);

impl Fairness {
    /// Of a course that is over.
    pub fn new(workload: &Workload, machine: &Machine, course: &Course) -> Fairness {
        let mut owners = vec![Standing::default(); workload.owners.len()];
        let changes = changes(workload, course, &mut owners);
        let ends = changes.first().zip(changes.last());
        if let Some(((first, ..), (last, ..))) = ends {
            let step = (*last - *first).0 / SAMPLES;
            let levels = Levels::new(workload);
            sample(
                &changes,
                (*first, step),
                (machine.procs(), &levels),
                &mut owners,
            );
        }
        let sum = |of: fn(&Standing) -> f64| owners.iter().map(of).sum::<f64>();
        let (due, short) = (sum(|owner| owner.due), sum(|owner| owner.short));
        Fairness {
            index: (owners.len() > 1 && due > 0.0).then(|| 1.0 - short / due),
            owners,
        }
    }
}

/// In the order of time; adds up what was used.
fn changes(workload: &Workload, course: &Course, owners: &mut [Standing]) -> Vec<Change> {
    let mut changes = Vec::with_capacity(workload.jobs.len() * 3);
    for (place, (job, start)) in workload.jobs.iter().zip(&course.starts).enumerate() {
        let Some(start) = *start else { continue };
        let had = course.procs(place, job);
        let procs = i128::from(had);
        let end = start.after(job.runs());
        changes.push((job.submit, job.owner, procs, 0));
        changes.push((start, job.owner, 0, procs));
        changes.push((end, job.owner, -procs, -procs));
        let used = job.runs().0 as f64 / MICROS as f64 * had as f64;
        owners[job.owner as usize].used += used;
    }
    changes.sort_unstable();
    changes
}

fn sample(
    changes: &[Change],
    (first, step): (Time, i64),
    (procs, levels): (u64, &Levels),
    owners: &mut [Standing],
) {
    let mut present = vec![Present::default(); owners.len()];
    let mut changes = changes.iter().peekable();
    let weight = step as f64 / MICROS as f64;
    for sample in 0..SAMPLES {
        // The middle of each step, so that the ends of the trace count like the rest.
        let at = Time(first.0 + sample * step + step / 2);
        while let Some((_, owner, wants, has)) = changes.next_if(|change| change.0 <= at) {
            let present = &mut present[*owner as usize];
            present.wants += wants;
            present.has += has;
        }
        for (owner, due) in levels.due(&present, procs as f64) {
            let owner_has = present[owner].has as f64;
            owners[owner].due += due * weight;
            owners[owner].short += (due - owner_has).max(0.0) * weight;
        }
    }
}

/// Who shares with whom: groups, and users without one, each with its shares.
struct Levels(Vec<(f64, Vec<(f64, usize)>)>);

impl Levels {
    fn new(workload: &Workload) -> Levels {
        let mut places: Vec<usize> = (0..workload.owners.len()).collect();
        places.sort_by_key(|&place| &workload.owners[place]);
        let shares = |name: &str| workload.shares_of(name) as f64;
        let own = |&place: &usize| (shares(&workload.owners[place].name()), place);
        let groups = places.chunk_by(|a, b| workload.owners[*a].group == workload.owners[*b].group);
        let mut levels = Vec::new();
        for group in groups {
            let users: Vec<(f64, usize)> = group.iter().map(own).collect();
            match workload.owners[group[0]].group.as_str() {
                UNKNOWN => levels.extend(users.into_iter().map(|user| (user.0, vec![user]))),
                name => levels.push((shares(name), users)),
            }
        }
        Levels(levels)
    }

    /// What each owner who wants something is due of all.
    fn due(&self, present: &[Present], all: f64) -> Vec<(usize, f64)> {
        let wants = |owner: usize| present[owner].wants as f64;
        let groups = self.0.iter().enumerate();
        let groups = groups.map(|(at, (shares, users))| Wanting {
            wants: users.iter().map(|&(_, owner)| wants(owner)).sum(),
            shares: *shares,
            at,
        });
        let mut due = Vec::new();
        for (group, all) in filled(groups.collect(), all) {
            let users = self.0[group].1.iter();
            let users = users.map(|&(shares, at)| Wanting {
                wants: wants(at),
                shares,
                at,
            });
            due.extend(filled(users.collect(), all));
        }
        due
    }
}

/// One of those among whom something is shared.
struct Wanting {
    wants: f64,
    shares: f64,
    at: usize,
}

/// What each that wants something is due of all: first those who want least for their shares, who
/// may want less than their part of what is left.
fn filled(mut wanting: Vec<Wanting>, all: f64) -> Vec<(usize, f64)> {
    wanting.retain(|one| one.wants > 0.0);
    wanting.sort_by(|a, b| {
        let (first, second) = (a.wants / a.shares, b.wants / b.shares);
        first.total_cmp(&second).then(a.at.cmp(&b.at))
    });
    let (mut left, mut shares) = (all, wanting.iter().map(|one| one.shares).sum::<f64>());
    let due = wanting.iter().map(|one| {
        let due = one.wants.min(left * one.shares / shares);
        left -= due;
        shares -= one.shares;
        (one.at, due)
    });
    due.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::read_json;

    fn due(shares: &[f64], wants: &[f64], all: f64) -> Vec<f64> {
        let wanting = shares.iter().zip(wants).enumerate();
        let wanting = wanting.map(|(at, (&shares, &wants))| Wanting { wants, shares, at });
        let mut due = vec![0.0; wants.len()];
        for (at, part) in filled(wanting.collect(), all) {
            due[at] = part;
        }
        due
    }

    #[test]
    fn who_wants_less_leaves_the_rest_to_the_others_by_their_shares() {
        assert_eq!(due(&[1.0, 1.0, 1.0], &[9.0, 9.0, 9.0], 9.0), [3.0; 3]);
        assert_eq!(
            due(&[1.0, 1.0, 1.0], &[1.0, 9.0, 9.0], 9.0),
            [1.0, 4.0, 4.0]
        );
        assert_eq!(due(&[3.0, 1.0], &[9.0, 9.0], 8.0), [6.0, 2.0]);
        // The first wants less than its three of four parts.
        assert_eq!(due(&[3.0, 1.0], &[2.0, 9.0], 8.0), [2.0, 6.0]);
        assert_eq!(due(&[1.0, 1.0], &[0.0, 9.0], 8.0), [0.0, 8.0]);
        assert_eq!(due(&[], &[], 8.0), [0.0; 0]);
    }

    /// Two users of a group and one without, all wanting more than there is.
    fn workload(shares: &str) -> Workload {
        let job = |id, user: &str| {
            format!(r#"{{"id": {id}, "submit": 0, "run": 10, "procs": 12, {user}}}"#)
        };
        let jobs = [
            job(1, r#""user": "a", "group": "g""#),
            job(2, r#""user": "b", "group": "g""#),
            job(3, r#""user": "c""#),
        ];
        let text = format!(
            r#"{{"procs": 12, "jobs": [{}], "shares": {shares}}}"#,
            jobs.join(",")
        );
        read_json(text.as_bytes()).expect("a workload")
    }

    #[test]
    fn groups_share_first_and_then_their_users() {
        let due = |shares: &str| {
            let workload = workload(shares);
            let present = vec![Present { wants: 12, has: 0 }; 3];
            let mut due = Levels::new(&workload).due(&present, 12.0);
            due.sort_unstable_by_key(|(owner, _)| *owner);
            due.into_iter().map(|(_, due)| due).collect::<Vec<f64>>()
        };
        assert_eq!(due("{}"), [3.0, 3.0, 6.0]);
        assert_eq!(due(r#"{"g": 3, "g/a": 2}"#), [6.0, 3.0, 3.0]);
    }

    #[test]
    fn the_index_is_the_part_of_what_was_due_that_was_had() {
        // One after the other on all: at each instant one has 12 and the others lack their parts.
        let workload = workload("{}");
        let at = |seconds: i64| Some(Time(seconds * MICROS));
        let course = Course {
            starts: vec![at(0), at(10), at(20)],
            ..Course::default()
        };
        let fair = Fairness::new(&workload, &Machine::count(12), &course);
        // Due: 3, 3, 6 for 10 s, then 6, 6, then 12. Short: 9, then 6, then 0, of 12 each.
        let index = fair.index.expect("three users");
        assert!((index - (1.0 - 15.0 / 36.0)).abs() < 1e-3, "{index}");
        assert!((fair.owners[0].due - 30.0).abs() < 0.1);
        assert!((fair.owners[2].short - 120.0).abs() < 0.5);
        assert_eq!(fair.owners[2].used, 120.0);
    }

    #[test]
    fn one_user_has_no_index() {
        let text = r#"{"procs": 2, "jobs": [{"id": 1, "submit": 0, "run": 1, "procs": 1}]}"#;
        let workload = read_json(text.as_bytes()).expect("a workload");
        let course = Course {
            starts: vec![Some(Time(0))],
            ..Course::default()
        };
        let fair = Fairness::new(&workload, &Machine::count(2), &course);
        assert_eq!(fair.index, None);
    }
}
