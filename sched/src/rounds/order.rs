//! Who is first: among the jobs of an account, and among accounts.
//!
//! Both orders are total, with the id or the account last, and plain data, so
//! that a heap or a sort can hold them. Used by turns and by eviction.

use std::cmp::{Ordering, Reverse};

use eddy_wire::time::Time;

use crate::policy::Preference;

/// Whether a job has a node. Those that have come first, so that what was put back is looked at
/// before anything new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It runs.
    Running,
    /// It waits.
    Waiting,
}

/// The order of jobs within an account, first is least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobKey<Id> {
    /// Running jobs come first.
    pub stage: Stage,
    /// Higher class priority first.
    pub class: Reverse<i64>,
    /// Smaller number first.
    pub priority: i64,
    /// Start of a running job, submission of one that waits; earlier first.
    pub since: Time,
    /// Earlier first.
    pub submit: Time,
    /// Decides between those that are level.
    pub id: Id,
}

impl<Id: Ord> JobKey<Id> {
    /// The order of two jobs; a job is level with itself whatever else is said of it.
    pub fn compare(&self, other: &JobKey<Id>) -> Ordering {
        match self.id == other.id {
            true => Ordering::Equal,
            false => self.cmp(other),
        }
    }
}

/// What decides whether an account is next, with the gang it would start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// Lowest class priority in the gang.
    pub class: i64,
    /// Cost over weight with the gang.
    pub proposed: f64,
    /// Cost over weight without it.
    pub current: f64,
    /// Due share over weight: what the account may cost.
    pub budget: f64,
    /// Cost of the gang alone, times the weight.
    pub size: f64,
}

/// The order of turns, first is least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TurnKey {
    class: Reverse<i64>,
    band: Band,
    first: u64,
    second: u64,
}

/// Whether an account stays within its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Band {
    Within,
    Beyond,
}

impl Turn {
    /// Its key: higher class first, then least cost with the gang. Where large jobs are preferred,
    /// accounts that stay within their budget come first, among them the one that costs least
    /// without the gang and then the larger gang (Armada's order for large jobs).
    pub fn key(&self, large: Preference) -> TurnKey {
        let class = Reverse(self.class);
        let plain = |band| TurnKey {
            class,
            band,
            first: ascending(self.proposed),
            second: 0,
        };
        match large {
            Preference::Off => plain(Band::Within),
            Preference::On if self.proposed > self.budget => plain(Band::Beyond),
            Preference::On => TurnKey {
                class,
                band: Band::Within,
                first: ascending(self.current),
                second: !ascending(self.size),
            },
        }
    }
}

/// A number as bits that sort as the numbers do; not a number comes last.
fn ascending(number: f64) -> u64 {
    // A zero below and a zero above are level.
    let bits = (number + 0.0).to_bits();
    match bits >> 63 {
        0 => bits | 1 << 63,
        _ => !bits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_sort_as_numbers_do() {
        let numbers = [
            f64::NEG_INFINITY,
            -2.0,
            -0.5,
            0.0,
            0.25,
            7.0,
            f64::INFINITY,
            f64::NAN,
        ];
        assert!(
            numbers
                .windows(2)
                .all(|two| ascending(two[0]) < ascending(two[1]))
        );
        assert_eq!(ascending(-0.0), ascending(0.0));
    }

    fn turn(proposed: f64, current: f64, size: f64) -> Turn {
        Turn {
            class: 0,
            proposed,
            current,
            budget: 5.0,
            size,
        }
    }

    #[test]
    fn large_jobs_come_first_only_within_the_budget_and_where_level() {
        let key = |turn: Turn| turn.key(Preference::On);
        assert!(key(turn(3.0, 0.0, 3.0)) < key(turn(2.0, 0.0, 2.0)));
        assert!(key(turn(2.0, 1.0, 1.0)) < key(turn(5.0, 2.0, 3.0)));
        assert!(key(turn(5.0, 4.0, 1.0)) < key(turn(5.5, 0.0, 5.5)));
        assert!(key(turn(5.5, 5.0, 0.5)) < key(turn(6.0, 1.0, 5.0)));
        let off = |turn: Turn| turn.key(Preference::Off);
        assert!(off(turn(2.0, 0.0, 2.0)) < off(turn(3.0, 0.0, 3.0)));
    }

    #[test]
    fn a_higher_class_comes_before_any_cost() {
        let high = Turn {
            class: 1,
            ..turn(9.0, 9.0, 1.0)
        };
        assert!(high.key(Preference::Off) < turn(0.0, 0.0, 0.0).key(Preference::Off));
    }
}
