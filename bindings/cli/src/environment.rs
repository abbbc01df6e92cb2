//! The environment a job is submitted with: the submitter's, changed by rules.
//!
//! Rules are Flux's, applied in order to the whole environment: `NAME=VALUE`
//! sets (with `$NAME` replaced), `-PATTERN` removes, `PATTERN` takes from the
//! submitter's, `^FILE` reads rules from a file. Patterns are globs.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use eddy_wire::jobspec::{Environment, JOBSPEC_BYTES_MAX};

use crate::text;

/// How deep files of rules may name others.
const FILE_DEPTH_MAX: usize = 4;

/// A variable of this process, and those that JSON cannot hold.
pub fn own() -> (BTreeMap<String, String>, Vec<String>) {
    let mut variables = BTreeMap::new();
    let mut left_out = Vec::new();
    for (name, value) in std::env::vars_os() {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => drop(variables.insert(name, value)),
            (Ok(name), Err(_)) => left_out.push(name),
            (Err(name), _) => left_out.push(name.to_string_lossy().into_owned()),
        }
    }
    (variables, left_out)
}

/// The environment that `rules` make of `own`.
pub fn apply<T: AsRef<str>>(
    own: &BTreeMap<String, String>,
    rules: &[T],
) -> anyhow::Result<Environment> {
    let mut made = own.clone();
    for rule in rules {
        apply_one(own, rule.as_ref(), FILE_DEPTH_MAX, &mut made)?;
    }
    Ok(made
        .into_iter()
        .map(|(name, value)| (name, Some(value)))
        .collect())
}

fn apply_one(
    own: &BTreeMap<String, String>,
    rule: &str,
    depth: usize,
    made: &mut BTreeMap<String, String>,
) -> anyhow::Result<()> {
    if let Some(file) = rule.strip_prefix('^') {
        if depth == 0 {
            bail!("--env={rule}: files of rules name each other more than {FILE_DEPTH_MAX} deep");
        }
        let text = text::read(file, JOBSPEC_BYTES_MAX).context("--env")?;
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            apply_one(own, line, depth - 1, made)?;
        }
        return Ok(());
    }
    if let Some(pattern) = rule.strip_prefix('-') {
        let pattern = glob(pattern, rule)?;
        made.retain(|name, _| !matches(&pattern, name));
        return Ok(());
    }
    if let Some((name, value)) = rule.split_once('=') {
        if name.is_empty() {
            bail!("--env={rule}: has no name before `=`");
        }
        let value = expand(value, made).with_context(|| format!("--env={rule}"))?;
        made.insert(name.to_owned(), value);
        return Ok(());
    }
    let pattern = glob(rule, rule)?;
    let taken = own.iter().filter(|(name, _)| matches(&pattern, name));
    made.extend(taken.map(|(name, value)| (name.clone(), value.clone())));
    Ok(())
}

fn glob(pattern: &str, rule: &str) -> anyhow::Result<Vec<char>> {
    if pattern.is_empty() {
        bail!("--env={rule}: names no variable");
    }
    if pattern.starts_with('/') {
        bail!("--env={rule}: regular expressions are not understood; allowed are * and ?");
    }
    Ok(pattern.chars().collect())
}

/// Whether `name` is of the form `pattern`: `*` is anything, `?` one character.
pub fn matches(pattern: &[char], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    // The last `*` seen and where in the name it was tried from: on a mismatch
    // it takes one character more, so the work is bounded by the product.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, n) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// `$NAME` and `${NAME}` replaced from what is made so far; `$$` is `$`.
fn expand(value: &str, made: &BTreeMap<String, String>) -> anyhow::Result<String> {
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let (name, after) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}').context("has `${` without `}`")?,
            None => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len()))
            }
        };
        if name.is_empty() {
            bail!("has `$` without a name; `$$` is a `$`");
        }
        let found = made
            .get(name)
            .with_context(|| format!("variable {name} is not set"))?;
        out.push_str(found);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(rules: &[&str]) -> Vec<String> {
        let own = [
            ("HOME", "/h"),
            ("PATH", "/bin"),
            ("LD_A", "1"),
            ("LD_B", "2"),
        ];
        let own = own
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let made = apply(&own, rules).expect("rules");
        made.into_iter()
            .map(|(name, value)| format!("{name}={}", value.expect("set")))
            .collect()
    }

    #[test]
    fn rules_are_applied_in_order_to_the_whole_environment() {
        assert_eq!(made(&[]), ["HOME=/h", "LD_A=1", "LD_B=2", "PATH=/bin"]);
        assert_eq!(made(&["-*", "PATH"]), ["PATH=/bin"]);
        assert_eq!(made(&["-LD_?"]), ["HOME=/h", "PATH=/bin"]);
        assert_eq!(
            made(&["-*", "A=1", "A=${A}2", "B=$A/x$$"]),
            ["A=12", "B=12/x$"]
        );
        assert_eq!(made(&["-*", "L*_B"]), ["LD_B=2"]);
    }

    #[test]
    fn a_rule_that_cannot_be_meant_is_refused_with_its_text() {
        let refused = |rule: &str| {
            let error = apply(&BTreeMap::new(), &[rule]).expect_err("refused");
            format!("{error:#}")
        };
        assert_eq!(refused("=x"), "--env==x: has no name before `=`");
        assert_eq!(refused("A=$B"), "--env=A=$B: variable B is not set");
        assert_eq!(refused("A=${B"), "--env=A=${B: has `${` without `}`");
        assert!(refused("/re/").contains("regular expressions"));
        assert!(refused("^/nonexistent").contains("No such file"));
    }

    #[test]
    fn a_pattern_of_many_stars_ends_quickly() {
        let pattern: Vec<char> = "*a".repeat(64).chars().collect();
        assert!(!matches(&pattern, &"a".repeat(60)));
        assert!(matches(&pattern, &"a".repeat(64)));
    }
}
