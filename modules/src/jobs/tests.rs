//! Whether a table of jobs is a map, and keeps no more places than it says.

use std::collections::BTreeMap;

use super::*;

/// Draws the same numbers each time (an LCG; its low bits are poor).
struct Draws(u64);

impl Draws {
    fn below(&mut self, most: u64) -> u64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    /// Neighbours, as most are, and numbers that were drawn far away.
    fn job(&mut self) -> JobId {
        JobId(match self.below(10) {
            0 => 90_000 + self.below(40),
            1 => u64::MAX - self.below(3),
            _ => 1_000 + self.below(600),
        })
    }
}

fn check(draws: &mut Draws) {
    let (mut jobs, mut map) = (Jobs::default(), BTreeMap::new());
    for at in 0..draws.below(600) {
        let job = draws.job();
        match draws.below(12) {
            0..=6 => assert_eq!(jobs.insert(job, at), map.insert(job, at)),
            7..=10 => assert_eq!(jobs.remove(&job), map.remove(&job)),
            _ => {
                jobs.retain(|of, _| *of >= job);
                map.retain(|of, _| *of >= job);
            }
        }
        let places = jobs.pages.len() * PAGE;
        assert!(places <= PLACES_MAX * jobs.paged + SPARE, "{places} places");
        let job = draws.job();
        assert_eq!(jobs.get(&job), map.get(&job));
        assert_eq!(jobs.get_mut(&job), map.get_mut(&job));
        let range = job.min(JobId(1_100))..=job;
        assert!(jobs.range(range.clone()).eq(map.range(range)));
    }
    assert!(jobs.iter().eq(map.iter()));
}

#[test]
fn it_is_a_map() {
    let mut draws = Draws(1);
    for _ in 0..500 {
        check(&mut draws);
    }
}

#[test]
fn who_lasts_keeps_no_places_of_those_who_are_over() {
    let mut jobs = Jobs::default();
    jobs.insert(JobId(1), ());
    for job in 2..100_000 {
        jobs.insert(JobId(job), ());
        jobs.remove(&JobId(job));
    }
    assert!(jobs.contains_key(&JobId(1)));
    assert!(jobs.pages.len() * PAGE <= PLACES_MAX + SPARE);
}
