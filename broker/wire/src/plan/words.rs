//! Parts of the lines that reasons print as: jobs, properties, what somebody said.

use crate::id::JobId;
use crate::idset::Idset;
use crate::time::{MICROS, Span};

/// How many jobs are named.
const LISTED_MAX: usize = 8;

/// Jobs as in listings, and so many whose numbers are not told.
pub(super) fn listed(jobs: &[JobId], others: u64) -> String {
    match (jobs, others) {
        (jobs, 0) => named(jobs),
        ([], 1) => "a job of another user".to_owned(),
        ([], others) => format!("{others} jobs of others"),
        (jobs, others) => format!("{} and {others} of others", named(jobs)),
    }
}

fn named(jobs: &[JobId]) -> String {
    let names = jobs.iter().take(LISTED_MAX).map(|job| job.f58_ascii());
    let names: Vec<String> = names.collect();
    let noun = if jobs.len() == 1 { "job" } else { "jobs" };
    match jobs.len().saturating_sub(LISTED_MAX) {
        0 => format!("{noun} {}", names.join(", ")),
        more => format!("{noun} {} and {more} more", names.join(", ")),
    }
}

/// How many nodes there are on which an instance has nothing, too few or too small for what asks for some.
pub(super) fn apart(left: u64) -> String {
    match left {
        0 => "it has a part of every node".to_owned(),
        1 => "the one that is left does not do".to_owned(),
        left => format!("the {left} that are left do not do"),
    }
}

/// How much there is of a pool.
pub(super) fn of_pool(count: u64) -> String {
    match count {
        0 => "the instance has none of it".to_owned(),
        count => format!("there are {count}"),
    }
}

/// How many properties are named.
const PROPERTIES_MAX: usize = 16;

/// What properties there are.
pub(super) fn properties(known: &Option<Vec<String>>) -> String {
    let Some(known) = known else {
        return String::new();
    };
    let named = known.iter().take(PROPERTIES_MAX);
    let named: Vec<&str> = named.map(String::as_str).collect();
    match (named.as_slice(), known.len().saturating_sub(PROPERTIES_MAX)) {
        ([], _) => ", and none has any property".to_owned(),
        (named, 0) => format!("; there are {}", named.join(", ")),
        (named, more) => format!("; there are {} and {more} more", named.join(", ")),
    }
}

/// What is counted of resources, in the plural as it is named.
const NOUNS: [&str; 7] = [
    "bytes", "cores", "gpus", "nodes", "places", "slots", "sockets",
];

/// So many of something that is named in the plural, which may count other things within it: `1 slot of 1 core`,
/// `2 whole nodes`.
pub(super) fn counted(count: u64, what: &str) -> String {
    let text = format!("{count} {what}");
    let mut is_one = false;
    let word = |word| match (is_one, NOUNS.contains(&word)) {
        (true, true) => {
            is_one = false;
            word.trim_end_matches('s')
        }
        (_, false) if word.bytes().all(|byte| byte.is_ascii_digit()) => {
            is_one = word == "1";
            word
        }
        _ => word,
    };
    text.split(' ').map(word).collect::<Vec<&str>>().join(" ")
}

/// What so many of something do.
pub(super) fn are(count: u64) -> &'static str {
    match count {
        1 => "is",
        _ => "are",
    }
}

/// How often something was so, in words.
pub(super) fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

/// Which nodes are not in service for a job, and why, as far as there are such.
pub(super) fn not_up(away: &Idset, apart: &Idset) -> String {
    let away = (!away.is_empty()).then(|| format!("down or drained: ranks {away}"));
    let apart = (!apart.is_empty()).then(|| format!("of instances of a fixed size: ranks {apart}"));
    let all: Vec<String> = away.into_iter().chain(apart).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!(" ({})", all.join("; ")),
    }
}

/// A reason behind what it is the reason of, if there is one.
pub(super) fn said(why: &str) -> String {
    match why.is_empty() {
        true => String::new(),
        false => format!(": {why}"),
    }
}

/// What is waited for besides, if anything is.
pub(super) fn also(what: &str) -> String {
    match what.is_empty() {
        true => String::new(),
        false => format!(", and waits for {what}"),
    }
}

/// In how long the next may, if that is known.
pub(super) fn next(within: Option<Span>) -> String {
    match within {
        Some(within) => format!("; the next may in {:.1} s", within.0 as f64 / MICROS as f64),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_thing_the_singular_is_told() {
        for (count, what, told) in [
            (1, "cores", "1 core"),
            (0, "cores", "0 cores"),
            (
                11,
                "nodes of ranks 1,3 (odd)",
                "11 nodes of ranks 1,3 (odd)",
            ),
            (
                1,
                "slots of 1 cores and 2 gpus",
                "1 slot of 1 core and 2 gpus",
            ),
            (
                1,
                "whole nodes with 1 whole sockets",
                "1 whole node with 1 whole socket",
            ),
            (
                2,
                "slots on whole nodes of 1 gpus",
                "2 slots on whole nodes of 1 gpu",
            ),
            (1, "slots on whole nodes", "1 slot on whole nodes"),
            (1, "bytes of memory", "1 byte of memory"),
        ] {
            assert_eq!(counted(count, what), told);
        }
    }
}
