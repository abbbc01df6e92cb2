//! Who is excused from a rule, and why. One row each; a row that excuses nothing any more is a finding,
//! so the list can only shrink by itself. Rules never look here: they report everything.

use crate::tree::Tree;
use crate::{Finding, Rule};

/// One excuse.
#[derive(Debug)]
pub struct Allow {
    /// From which rule.
    pub rule: Rule,
    /// A file, or a folder with `/` at its end.
    pub place: &'static str,
    /// What is excused, as the finding names it.
    pub what: &'static str,
    /// Why this is right here.
    pub reason: &'static str,
}

/// All excuses.
pub const ALLOWED: &[Allow] = &[
    Allow {
        rule: Rule::FunctionSize,
        place: "broker/wire/src/lifecycle.rs",
        what: "next",
        reason: "the whole life of a job is one match; split, it could not be seen to be total",
    },
    Allow {
        rule: Rule::Unsafe,
        place: "broker/brokerd/src/shell/",
        what: "unsafe",
        reason: "starts tasks by one audited clone and exec path, which no safe crate offers",
    },
    Allow {
        rule: Rule::Unsafe,
        place: "broker/brokerd/tests/",
        what: "unsafe",
        reason: "tests of that start path spoil signals and descriptors first, to see them mended",
    },
    Allow {
        rule: Rule::Unsafe,
        place: "broker/brokerd/src/journal/store.rs",
        what: "unsafe",
        reason: "asks SQLite for the errno of a failed write, which rusqlite does not offer",
    },
    Allow {
        rule: Rule::Unsafe,
        place: "t/bench/",
        what: "unsafe",
        reason: "measures bare posix_spawn and reads rusage, which rustix does not wrap",
    },
    Allow {
        rule: Rule::Sleep,
        place: "t/cli/src/chaos/fault.rs",
        what: "thread::sleep",
        reason: "when a fault strikes is what chaos tries out; nothing relies on what happened by then",
    },
    Allow {
        rule: Rule::Name,
        place: "bindings/cli/src/",
        what: "info",
        reason: "one file per verb, and `eddy job info` is a verb of Flux",
    },
];

/// Takes the excused findings out and adds one for each excuse that is not needed. A folder may be
/// excused before there is anything in it; a file may not.
#[must_use]
pub fn excuse(tree: &Tree, findings: Vec<Finding>, allowed: &[Allow]) -> Vec<Finding> {
    let covers = |allow: &Allow, finding: &Finding| {
        let place = match allow.place.ends_with('/') {
            true => finding.file.starts_with(allow.place),
            false => finding.file == allow.place,
        };
        place && allow.rule == finding.rule && allow.what == finding.what
    };
    let idle = allowed.iter().filter(|allow| {
        tree.paths.contains(allow.place) && !findings.iter().any(|finding| covers(allow, finding))
    });
    let mut kept: Vec<Finding> = idle
        .map(|allow| Finding {
            file: allow.place.to_owned(),
            line: 1,
            rule: allow.rule,
            what: allow.what.to_owned(),
            message: format!(
                "no longer needs its excuse for `{}`: take it out of t/tidy/src/allow.rs",
                allow.what
            ),
        })
        .collect();
    kept.extend(
        findings
            .into_iter()
            .filter(|finding| !allowed.iter().any(|allow| covers(allow, finding))),
    );
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(file: &str, what: &str) -> Finding {
        Finding {
            file: file.to_owned(),
            line: 3,
            rule: Rule::Sleep,
            what: what.to_owned(),
            message: String::new(),
        }
    }

    const ROWS: &[Allow] = &[
        Allow {
            rule: Rule::Sleep,
            place: "t/cli/a.rs",
            what: "thread::sleep",
            reason: "a test",
        },
        Allow {
            rule: Rule::Sleep,
            place: "t/world/",
            what: "thread::sleep",
            reason: "a test",
        },
    ];

    #[test]
    fn an_excuse_covers_its_place_and_its_word_only() {
        let tree = Tree::of(&[("t/cli/a.rs", "")]);
        let (file, folder) = (
            finding("t/cli/a.rs", "thread::sleep"),
            finding("t/world/b.rs", "thread::sleep"),
        );
        let (other, word) = (
            finding("t/cli/b.rs", "thread::sleep"),
            finding("t/cli/a.rs", "time::sleep"),
        );
        let all = vec![file, folder, other.clone(), word.clone()];
        assert_eq!(excuse(&tree, all, ROWS), [other, word]);
    }

    #[test]
    fn an_excuse_that_nobody_needs_is_a_finding() {
        let tree = Tree::of(&[("t/cli/a.rs", "")]);
        let kept = excuse(&tree, Vec::new(), ROWS);
        assert_eq!(kept.len(), 1);
        assert!(kept[0].message.contains("no longer needs"));
        assert!(excuse(&Tree::of(&[]), Vec::new(), ROWS).is_empty());
    }

    #[test]
    fn every_excuse_has_a_reason() {
        assert!(
            ALLOWED
                .iter()
                .all(|allow| allow.reason.split(' ').count() >= 5)
        );
    }
}
