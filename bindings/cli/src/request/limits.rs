//! The soft limits that a job's tasks are to have: the submitter's, changed by rules.
//!
//! Rules are Flux's (`--rlimit`), applied in order: `NAME=VALUE` sets, `-GLOB` removes, `GLOB` takes from the
//! submitter's. It sets no limit.

use std::collections::BTreeMap;

use anyhow::bail;
use eddy_brokerd::shell::process::limits::own_limits;
use eddy_wire::shell_options::RLIMITS;

use crate::environment::matches;
use crate::table::escaped;

/// Those that are taken without a rule, as in Flux: what people set for their programs. The others are what a host
/// grants its own users (memory to lock, queues, priorities), which on another host is another matter.
const USUAL: [&str; 9] = [
    "as", "core", "cpu", "data", "fsize", "nofile", "nproc", "rss", "stack",
];
/// The words for no limit.
const NONE: [&str; 3] = ["unlimited", "infinity", "inf"];

/// Limits by name; -1 is none.
pub type Limits = BTreeMap<String, i64>;

/// Those of this process that are taken without a rule.
pub fn usual() -> Limits {
    let mut own = own_limits();
    own.retain(|name, _| USUAL.contains(&name.as_str()));
    own
}

/// What `rules` make of `limits`.
///
/// # Errors
/// A rule that names no limit, or gives one what none can be.
pub fn apply(mut limits: Limits, rules: &[String]) -> anyhow::Result<Limits> {
    for rule in rules {
        if let Some(glob) = rule.strip_prefix('-') {
            let names = named(rule, glob)?;
            limits.retain(|name, _| !names.contains(&name.as_str()));
        } else if let Some((name, value)) = rule.split_once('=') {
            let value = value_of(rule, value)?;
            match named(rule, name)?.as_slice() {
                [name] => limits.insert((*name).to_owned(), value),
                names => bail!(
                    "--rlimit={}: sets {} limits; allowed is one",
                    escaped(rule),
                    names.len()
                ),
            };
        } else {
            let names = named(rule, rule)?;
            let mut own = own_limits();
            own.retain(|name, _| names.contains(&name.as_str()));
            limits.append(&mut own);
        }
    }
    Ok(limits)
}

/// The limits that a glob is of, in large letters or small.
fn named(rule: &str, glob: &str) -> anyhow::Result<Vec<&'static str>> {
    let pattern: Vec<char> = glob.to_ascii_lowercase().chars().collect();
    let mut names = RLIMITS.to_vec();
    names.retain(|name| matches(&pattern, name));
    if names.is_empty() {
        bail!(
            "--rlimit={}: there is no such limit; known are {}",
            escaped(rule),
            RLIMITS.join(", ")
        );
    }
    Ok(names)
}

fn value_of(rule: &str, value: &str) -> anyhow::Result<i64> {
    if NONE.contains(&value) {
        return Ok(-1);
    }
    match value.parse() {
        Ok(value @ 0..) => Ok(value),
        _ => bail!(
            "--rlimit={}: `{}` given; allowed are whole numbers from 0, and unlimited, infinity or inf",
            escaped(rule),
            escaped(value)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(rules: &[&str]) -> Limits {
        let own = [("core", 0), ("nofile", 1024)].map(|(name, soft)| (name.to_owned(), soft));
        let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
        apply(own.into(), &rules).expect("rules")
    }

    #[test]
    fn rules_apply_in_their_order() {
        assert_eq!(applied(&[]).len(), 2);
        assert!(applied(&["-*"]).is_empty());
        let set = applied(&["-*", "CORE=7", "nofile=inf"]);
        assert_eq!((set.len(), set["core"], set["nofile"]), (2, 7, -1));
        assert!(!applied(&["core=7", "-c*"]).contains_key("core"));
        // What is taken is this process's own.
        let own = own_limits();
        assert_eq!(applied(&["memlock"]).get("memlock"), own.get("memlock"));
        assert_eq!(applied(&["*"]).len(), RLIMITS.len());
    }

    #[test]
    fn a_rule_that_means_nothing_is_refused() {
        let refused = |rule: &str| {
            let error = apply(Limits::new(), &[rule.to_owned()]);
            error.expect_err("refused").to_string()
        };
        assert!(refused("foo").starts_with("--rlimit=foo: there is no such limit; known are cpu"));
        assert!(refused("-foo*").contains("no such limit"));
        assert!(refused("").contains("no such limit"));
        assert!(refused("core=-1").contains("`-1` given; allowed are whole numbers from 0"));
        assert!(refused("core=4G").contains("`4G` given"));
        assert!(refused("c*=4").ends_with("sets 2 limits; allowed is one"));
    }

    #[test]
    fn only_what_people_set_for_their_programs_is_taken_without_a_rule() {
        let usual = usual();
        assert!(usual.contains_key("core") && !usual.contains_key("memlock"));
    }
}
