//! Resource limits: the shell's own, raised, and those that jobs ask for.
//!
//! Called once at the shell's start and once for each jobspec. It sets limits
//! of this process only.

use rustix::process::{Resource, Rlimit as Own, getrlimit, setrlimit};
use serde_json::Value;

use super::program::Why;
use crate::shell::spawn::Rlimit;

/// Names as in `ulimit` and Flux's `-o rlimit`, with the kernel's numbers.
const NAMES: [(&str, Resource, u32); 16] = [
    ("cpu", Resource::Cpu, libc::RLIMIT_CPU),
    ("fsize", Resource::Fsize, libc::RLIMIT_FSIZE),
    ("data", Resource::Data, libc::RLIMIT_DATA),
    ("stack", Resource::Stack, libc::RLIMIT_STACK),
    ("core", Resource::Core, libc::RLIMIT_CORE),
    ("rss", Resource::Rss, libc::RLIMIT_RSS),
    ("nproc", Resource::Nproc, libc::RLIMIT_NPROC),
    ("nofile", Resource::Nofile, libc::RLIMIT_NOFILE),
    ("memlock", Resource::Memlock, libc::RLIMIT_MEMLOCK),
    ("as", Resource::As, libc::RLIMIT_AS),
    ("locks", Resource::Locks, libc::RLIMIT_LOCKS),
    ("sigpending", Resource::Sigpending, libc::RLIMIT_SIGPENDING),
    ("msgqueue", Resource::Msgqueue, libc::RLIMIT_MSGQUEUE),
    ("nice", Resource::Nice, libc::RLIMIT_NICE),
    ("rtprio", Resource::Rtprio, libc::RLIMIT_RTPRIO),
    ("rttime", Resource::Rttime, libc::RLIMIT_RTTIME),
];

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
pub fn of_options(option: Option<&Value>) -> Result<Vec<Rlimit>, Why> {
    let Some(option) = option else {
        return Ok(Vec::new());
    };
    let given = option
        .as_object()
        .ok_or("shell option rlimit: is not an object of names")?;
    given
        .iter()
        .map(|(name, value)| of_option(name, value))
        .collect()
}

fn of_option(name: &str, value: &Value) -> Result<Rlimit, Why> {
    let known = NAMES.iter().find(|(known, _, _)| *known == name);
    let (_, resource, number) =
        known.ok_or_else(|| format!("shell option rlimit.{name}: is unknown"))?;
    let soft = match value.as_i64() {
        Some(-1) => u64::MAX,
        Some(soft) if soft >= 0 => soft as u64,
        _ => {
            return Err(format!(
                "shell option rlimit.{name}: is {value}; allowed are -1 and more"
            ));
        }
    };
    let hard = getrlimit(*resource).maximum.unwrap_or(u64::MAX);
    Ok(Rlimit {
        resource: *number,
        soft: soft.min(hard),
        hard,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn limits_are_named_and_never_above_the_hard_one() {
        assert_eq!(of_options(None), Ok(vec![]));
        let limits = of_options(Some(&json!({"core": 0, "nofile": -1}))).expect("known");
        assert_eq!(limits[0].soft, 0);
        assert_eq!(limits[1].soft, limits[1].hard);
        assert!(of_options(Some(&json!({"colour": 1}))).is_err());
        assert!(of_options(Some(&json!({"core": -2}))).is_err());
    }
}
