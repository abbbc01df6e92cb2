//! What may not be left behind: work for later, tests switched off, sleeping tests, and `unsafe`
//! without its reason. A thing that is missing is an issue, not a comment.

use crate::source::{Source, line_of, word_offsets};
use crate::tree::Tree;
use crate::{Finding, Rule};

/// Words of a comment that put work off.
const LATER: &[&str] = &["TODO", "FIXME", "XXX"];

/// Code that puts work off or switches a test off, and what to do instead.
const CODE: &[(&str, &str)] = &[
    ("todo!", "write it, or open an issue and leave the item out"),
    ("unimplemented!", "write it, or return a typed refusal"),
    ("dbg!", "remove it"),
    ("#[ignore", "assert what happens today and say why"),
];

/// Where tests live that are not known as such by their file: the drivers of real processes and the
/// simulated world.
const TESTING: &[&str] = &["t/cli/", "t/world/"];

/// Words and macros that put work off. In scripts and settings the words are looked for everywhere.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        for (word, instead) in CODE {
            findings.extend(at_words(
                source,
                &source.code,
                word,
                Rule::Unfinished,
                instead,
            ));
        }
        for word in LATER {
            let instead = "finish it, or open an issue and say what is absent";
            findings.extend(at_words(
                source,
                &source.notes,
                word,
                Rule::Unfinished,
                instead,
            ));
        }
    }
    for (path, text) in tree.texts.iter().filter(|(path, _)| is_script(path)) {
        for word in LATER {
            findings.extend(word_offsets(text, word).map(|offset| Finding {
                file: path.clone(),
                line: line_of(text, offset),
                rule: Rule::Unfinished,
                what: (*word).to_owned(),
                message: format!("`{word}`: finish it, or open an issue and say what is absent"),
            }));
        }
    }
    findings
}

fn is_script(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name == "run"
        || [".toml", ".sh", ".py", ".yml", ".yaml"]
            .iter()
            .any(|end| name.ends_with(end))
}

fn at_words(source: &Source, text: &str, word: &str, rule: Rule, instead: &str) -> Vec<Finding> {
    let at = |offset| Finding {
        file: source.path.clone(),
        line: line_of(text, offset),
        rule,
        what: word.to_owned(),
        message: format!("`{word}`: {instead}"),
    };
    word_offsets(text, word).map(at).collect()
}

/// Tests that wait by sleeping: slow on a fast machine, wrong on a slow one.
#[must_use]
pub fn sleep(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        let testing = TESTING.iter().any(|folder| source.path.starts_with(folder));
        for word in ["thread::sleep", "time::sleep"] {
            let found = at_words(
                source,
                &source.code,
                word,
                Rule::Sleep,
                "wait for the event itself",
            );
            findings.extend(
                found
                    .into_iter()
                    .filter(|f| testing || source.is_test_line(f.line)),
            );
        }
    }
    findings
}

/// Every `unsafe`: refused here, excused file by file in [`crate::allow`]; without its reason it is a
/// finding even there.
#[must_use]
pub fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        for offset in word_offsets(&source.code, "unsafe") {
            let line = line_of(&source.code, offset);
            let find = |what: &str, message: &str| Finding {
                file: source.path.clone(),
                line,
                rule: Rule::Unsafe,
                what: what.to_owned(),
                message: message.to_owned(),
            };
            findings.push(find(
                "unsafe",
                "`unsafe` here: use rustix, or move it to the shell",
            ));
            if !has_reason(source, line) {
                findings.push(find(
                    "reason",
                    "`unsafe` without a comment `SAFETY:` that says why it is sound",
                ));
            }
        }
    }
    findings
}

/// Looks at the line itself and at what stands above it as far as the comment reaches, past
/// attributes and the beginning of a statement that rustfmt has broken.
fn has_reason(source: &Source, line: usize) -> bool {
    const STATEMENT_LINES_MAX: usize = 4;
    let notes: Vec<&str> = source.notes.lines().take(line).collect();
    let code: Vec<&str> = source.code.lines().take(line).collect();
    let mut bare = 0;
    for (note, code) in notes.iter().zip(&code).rev() {
        if note.contains("SAFETY:") || note.contains("# Safety") {
            return true;
        }
        if note.trim().is_empty() && !code.trim().starts_with("#[") {
            bare += 1;
        }
        if bare > STATEMENT_LINES_MAX {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    type Check = fn(&Tree) -> Vec<Finding>;

    fn found(check: Check, path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
            .into_iter()
            .map(|f| format!("{}:{}", f.what, f.line))
            .collect()
    }

    #[test]
    fn work_for_later_is_found_in_comments_and_code() {
        let text = "// TODO later\nfn a() { todo!() }\n/* FIXME */\n#[ignore = \"slow\"]\nfn b() { dbg!(unimplemented!()) }\n";
        let mut all = found(check, "x.rs", text);
        all.sort();
        assert_eq!(
            all,
            [
                "#[ignore:4",
                "FIXME:3",
                "TODO:1",
                "dbg!:5",
                "todo!:2",
                "unimplemented!:5"
            ]
        );
        assert_eq!(
            found(
                check,
                "x.rs",
                "fn a() { f(\"TODO todo!() #[ignore]\"); mastodon!() }\n"
            ),
            [""; 0]
        );
    }

    #[test]
    fn scripts_and_settings_are_read_as_well() {
        assert_eq!(
            found(check, "t/run", "set -e\n# TODO: nextest\n"),
            ["TODO:2"]
        );
        assert_eq!(found(check, "a/Cargo.toml", "# FIXME\n"), ["FIXME:1"]);
        assert_eq!(found(check, "doc/style.md", "no TODO is left\n"), [""; 0]);
    }

    #[test]
    fn a_sleeping_test_is_found_and_a_sleeping_driver_is_not() {
        let text = "fn a() { std::thread::sleep(d) }\n#[cfg(test)]\nmod tests {\n  fn b() { tokio::time::sleep(d) }\n}\n";
        assert_eq!(
            found(sleep, "broker/brokerd/src/x.rs", text),
            ["time::sleep:4"]
        );
        assert_eq!(
            found(sleep, "t/cli/src/x.rs", text),
            ["thread::sleep:1", "time::sleep:4"]
        );
        assert_eq!(
            found(sleep, "broker/brokerd/tests/x.rs", text),
            ["thread::sleep:1", "time::sleep:4"]
        );
    }

    #[test]
    fn unsafe_needs_a_place_and_a_reason() {
        assert_eq!(
            found(unsafe_code, "x.rs", "fn a() { unsafe { f() } }\n"),
            ["unsafe:1", "reason:1"]
        );
        let good = "// SAFETY: f keeps nothing.\n#[inline]\nlet a =\n  unsafe { f() };\n";
        assert_eq!(found(unsafe_code, "x.rs", good), ["unsafe:4"]);
        let far = format!(
            "// SAFETY: long ago.\n{}unsafe {{ f() }}\n",
            "a();\n".repeat(9)
        );
        assert_eq!(found(unsafe_code, "x.rs", &far), ["unsafe:11", "reason:11"]);
        assert_eq!(
            found(
                unsafe_code,
                "x.rs",
                "// unsafe\nfn a() { f(\"unsafe\", unsafe_op()) }\n"
            ),
            [""; 0]
        );
    }
}
