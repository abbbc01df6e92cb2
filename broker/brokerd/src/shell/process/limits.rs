//! Resource limits and the umask: those of this process, and limits that jobs ask for.
//!
//! Called once at the start of a leader, an agent or a shell, and once for each jobspec. It sets limits
//! of this process only.

use std::collections::BTreeMap;

use eddy_wire::jobspec::Jobspec;
use eddy_wire::shell_options::{RLIMITS, rlimits};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit as Own, getrlimit, setrlimit, umask};

use super::program::Why;
use crate::shell::spawn::Rlimit;

/// The kernel's limits, by the place of their names in [`RLIMITS`].
const LIMITS: [(Resource, u32); RLIMITS.len()] = [
    (Resource::Cpu, libc::RLIMIT_CPU),
    (Resource::Fsize, libc::RLIMIT_FSIZE),
    (Resource::Data, libc::RLIMIT_DATA),
    (Resource::Stack, libc::RLIMIT_STACK),
    (Resource::Core, libc::RLIMIT_CORE),
    (Resource::Rss, libc::RLIMIT_RSS),
    (Resource::Nproc, libc::RLIMIT_NPROC),
    (Resource::Nofile, libc::RLIMIT_NOFILE),
    (Resource::Memlock, libc::RLIMIT_MEMLOCK),
    (Resource::As, libc::RLIMIT_AS),
    (Resource::Locks, libc::RLIMIT_LOCKS),
    (Resource::Sigpending, libc::RLIMIT_SIGPENDING),
    (Resource::Msgqueue, libc::RLIMIT_MSGQUEUE),
    (Resource::Nice, libc::RLIMIT_NICE),
    (Resource::Rtprio, libc::RLIMIT_RTPRIO),
    (Resource::Rttime, libc::RLIMIT_RTTIME),
];

/// The limits that end a process for what it has done or grown to. A leader is not to end by what is meant for
/// the tasks of its instance.
const ENDING: [&str; 4] = ["as", "cpu", "data", "fsize"];

/// Raises those limits of this process that would end it, as far as it may. Returns what they were, by name and as
/// `-o rlimit` has them; those that were there already are left out.
pub fn spare_this_process() -> BTreeMap<&'static str, u64> {
    let mut before = BTreeMap::new();
    for (name, (resource, _)) in RLIMITS.into_iter().zip(LIMITS) {
        let own = getrlimit(resource);
        let Some(soft) = own.current.filter(|_| own.current != own.maximum) else {
            continue;
        };
        let raised = Own {
            current: own.maximum,
            maximum: own.maximum,
        };
        if ENDING.contains(&name) && setrlimit(resource, raised).is_ok() {
            before.insert(name, soft);
        }
    }
    before
}

/// The soft limits of this process by name, as `-o rlimit` has them: -1 is none.
pub fn own_limits() -> BTreeMap<String, i64> {
    let soft = |resource| match getrlimit(resource).current {
        // What no i64 holds is no limit that anything reaches.
        Some(soft) => i64::try_from(soft).unwrap_or(-1),
        None => -1,
    };
    let own = RLIMITS.into_iter().zip(LIMITS);
    own.map(|(name, (resource, _))| (name.to_owned(), soft(resource)))
        .collect()
}

/// The umask of this process. There is no way to ask for it but to set another; the one meanwhile lets nobody else in.
pub fn own_umask() -> u32 {
    let own = umask(Mode::RWXG | Mode::RWXO);
    umask(own);
    own.bits()
}

/// Lets this process open as many files as it may, and returns the limit that
/// tasks are to have: `given`, or what it was. A task with a higher one would
/// break programs that use select(2).
pub fn raise_open_files(given: Option<u64>) -> Option<Rlimit> {
    let before = getrlimit(Resource::Nofile);
    let raised = Own {
        current: before.maximum,
        maximum: before.maximum,
    };
    if before.current != before.maximum && setrlimit(Resource::Nofile, raised).is_err() {
        return None;
    }
    let hard = before.maximum.unwrap_or(u64::MAX);
    let soft = given.or(before.current).unwrap_or(u64::MAX).min(hard);
    (soft < hard).then_some(Rlimit {
        resource: libc::RLIMIT_NOFILE,
        soft,
        hard,
    })
}

/// The limits of `-o rlimit`: soft limits by name, -1 for none, never above
/// what this process may give.
pub fn of_options(jobspec: &Jobspec) -> Result<Vec<Rlimit>, Why> {
    let given = rlimits(jobspec).map_err(|error| error.to_string())?;
    let limit = |(at, soft): (usize, Option<u64>)| {
        let (resource, number) = LIMITS[at];
        let hard = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        Rlimit {
            resource: number,
            soft: soft.unwrap_or(u64::MAX).min(hard),
            hard,
        }
    };
    Ok(given.into_iter().map(limit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_would_end_a_leader_is_raised_and_told_as_it_was() {
        let hard = getrlimit(Resource::Cpu).maximum;
        let lowered = Own {
            current: Some(1000),
            maximum: hard,
        };
        setrlimit(Resource::Cpu, lowered).expect("it is lower");
        assert_eq!(spare_this_process().get("cpu"), Some(&1000));
        assert_eq!(getrlimit(Resource::Cpu).current, hard);
        assert_eq!(spare_this_process().get("cpu"), None);
    }

    #[test]
    fn limits_are_by_their_names_and_never_above_the_hard_one() {
        let jobspec = json!({
            "version": 1,
            "resources": [{"type": "slot", "count": 1, "label": "task",
                           "with": [{"type": "core", "count": 1}]}],
            "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": {
                "duration": 0,
                "shell": {"options": {"rlimit": {"core": 0, "nofile": -1}}},
            }},
        });
        let jobspec = Jobspec::from_value(jobspec).expect("a jobspec");
        let limits = of_options(&jobspec).expect("known");
        assert_eq!((limits[0].resource, limits[0].soft), (libc::RLIMIT_CORE, 0));
        assert_eq!(limits[1].resource, libc::RLIMIT_NOFILE);
        assert_eq!(limits[1].soft, limits[1].hard);
    }
}
