//! What a pure crate may not name: clocks, randomness, threads, disks, sockets, logs, and maps whose
//! order differs from run to run. The same input must give the same bytes, or no failing seed could
//! ever be run again. Tests of pure crates are held to it too.
//!
//! Clippy bans calls; this bans the words, so that an import or a type in a signature is seen as well.

use crate::depend::PURE;
use crate::source::{Source, line_of, word_offsets};
use crate::tree::Tree;
use crate::{Finding, Rule};

/// What may not be named, and what to do instead.
const BANNED: &[(&str, &str)] = &[
    ("std::fs", "emit an Effect; the driver writes disks"),
    ("std::net", "emit an Effect; the driver owns sockets"),
    ("std::os", "emit an Effect; the driver knows the system"),
    ("std::process", "emit an Effect; the shell starts processes"),
    (
        "std::thread",
        "return what is to be done; drivers have threads",
    ),
    ("std::env", "take configuration as an argument"),
    ("std::io::stdin", "take input as an argument"),
    ("std::io::stdout", "return what is to be said"),
    ("std::io::stderr", "return what is to be said"),
    ("tokio", "return what is to be done; drivers wait"),
    (
        "tracing",
        "return facts; the driver logs every input and output",
    ),
    ("rand", "take a seeded generator or the number itself"),
    ("SystemTime", "take `now: Time`"),
    ("Instant", "take `now: Time`"),
    (
        "HashMap",
        "use BTreeMap: its order is the same in every run",
    ),
    (
        "HashSet",
        "use BTreeSet: its order is the same in every run",
    ),
    ("RandomState", "use an ordered map"),
    ("now_v7", "take the key as an argument"),
    ("new_v4", "take the id as an argument"),
    ("thread_local!", "pass the state in: nothing here is global"),
    ("static mut", "pass the state in: nothing here is global"),
    ("println!", "return what is to be said"),
    ("eprintln!", "return what is to be said"),
    ("print!", "return what is to be said"),
    ("eprint!", "return what is to be said"),
];

/// Every banned name in a pure crate, and in the simulated world but for its `main.rs`.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources
        .iter()
        .filter(|source| is_pure(&source.path))
        .flat_map(in_source)
        .collect()
}

/// True for a file that the ban covers.
#[must_use]
pub fn is_pure(path: &str) -> bool {
    let world = path.starts_with("t/world/src/") && path != "t/world/src/main.rs";
    world || PURE.iter().any(|folder| path.starts_with(folder))
}

fn in_source(source: &Source) -> Vec<Finding> {
    let imports = imports(&source.code);
    let mut findings = Vec::new();
    for (banned, instead) in BANNED {
        let named = match is_crate(banned) {
            true => format!("{banned}::"),
            false => (*banned).to_owned(),
        };
        let offsets = word_offsets(&source.code, &named);
        let mut lines: Vec<usize> = offsets
            .map(|offset| line_of(&source.code, offset))
            .collect();
        let imported = imports.iter().filter(|(path, _)| is_under(path, banned));
        lines.extend(imported.map(|(_, line)| *line));
        lines.sort_unstable();
        lines.dedup();
        findings.extend(lines.into_iter().map(|line| Finding {
            file: source.path.clone(),
            line,
            rule: Rule::Purity,
            what: (*banned).to_owned(),
            message: format!("`{banned}` in pure code: {instead}"),
        }));
    }
    findings
}

/// A bare lower-case word is a crate. It counts only as the head of a path, since a field may well be
/// called `tracing`.
fn is_crate(banned: &str) -> bool {
    banned.chars().all(|c| c.is_ascii_lowercase())
}

fn is_under(path: &str, banned: &str) -> bool {
    path == banned
        || path
            .strip_prefix(banned)
            .is_some_and(|rest| rest.starts_with("::"))
}

/// Every path that a `use` brings in, written out: `use std::{fs, io::{self}}` gives `std::fs`,
/// `std::io::self`. With the line of its `use`.
fn imports(code: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for offset in word_offsets(code, "use ") {
        let rest = &code[offset + 4..];
        let statement = &rest[..rest.find(';').unwrap_or(rest.len())];
        let compact: String = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut paths = Vec::new();
        expand("", &compact, &mut paths);
        found.extend(paths.into_iter().map(|path| (path, line_of(code, offset))));
    }
    found
}

/// Writes out one tree of imports below `prefix`. The depth is that of the braces in the text.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim().trim_start_matches("::");
    let Some((head, rest)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or_default().trim();
        if !name.is_empty() {
            paths.push(format!("{prefix}{name}"));
        }
        return;
    };
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    let prefix = format!("{prefix}{}", head.trim());
    for part in top_level_parts(inner) {
        expand(&prefix, part, paths);
    }
}

fn top_level_parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0_usize);
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&text[start..offset]);
                start = offset + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
            .into_iter()
            .map(|f| format!("{}:{}", f.what, f.line))
            .collect()
    }

    #[test]
    fn each_banned_name_is_found_where_it_is_used() {
        for (banned, _) in BANNED {
            let call = match *banned {
                crate_name @ ("tokio" | "tracing" | "rand") => format!("{crate_name}::go()"),
                name => name.to_owned(),
            };
            let text = format!("//! X.\nfn f() {{ {call} }}\n");
            assert_eq!(found("sched/src/x.rs", &text), [format!("{banned}:2")]);
        }
    }

    #[test]
    fn grouped_imports_are_written_out() {
        let text = "use std::{\n  collections::{BTreeMap, HashMap},\n  fs as disk,\n  io::{self, stdout},\n};\nuse tokio;\n";
        assert_eq!(
            found("modules/src/x.rs", text),
            ["std::fs:1", "std::io::stdout:1", "tokio:6", "HashMap:2"]
        );
    }

    #[test]
    fn words_in_comments_strings_and_longer_names_are_free() {
        let text = "// HashMap, std::fs\nfn f(tracing: u8, operand: u8) { g(\"tokio::spawn\"); InstantSet::rand(tracing) }\n";
        assert_eq!(found("broker/wire/src/x.rs", text), [""; 0]);
    }

    #[test]
    fn drivers_and_the_main_of_the_world_are_free() {
        let text = "use std::fs;\n";
        assert_eq!(found("broker/brokerd/src/x.rs", text), [""; 0]);
        assert_eq!(found("t/world/src/main.rs", text), [""; 0]);
        assert_eq!(found("t/world/src/disk.rs", text), ["std::fs:1"]);
        assert_eq!(found("broker/broker/src/x/tests.rs", text), ["std::fs:1"]);
    }
}
