//! Where files lie and what they are called: the top level is the design's, and a file is named after
//! what it holds. Reads paths only, never texts.

use std::collections::BTreeMap;

use crate::tree::Tree;
use crate::{Finding, Rule};

/// All that stands at the top.
const TOP: &[&str] = &[
    ".ci",
    ".gitignore",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "bindings",
    "broker",
    "clippy.toml",
    "doc",
    "modules",
    "rustfmt.toml",
    "sched",
    "t",
];

/// Names that could hold anything, and so soon do.
const SAYS_NOTHING: &[&str] = &[
    "common", "data", "helper", "helpers", "info", "manager2", "misc", "util", "utils",
];

/// What stands at the top and should not.
#[must_use]
pub fn top_level(tree: &Tree) -> Vec<Finding> {
    let mut strangers: BTreeMap<&str, &str> = BTreeMap::new();
    for path in &tree.paths {
        let top = path.split('/').next().unwrap_or_default();
        if !TOP.contains(&top) {
            strangers.entry(top).or_insert(path);
        }
    }
    strangers
        .into_iter()
        .map(|(top, path)| Finding {
            file: path.to_owned(),
            line: 1,
            rule: Rule::TopLevel,
            what: top.to_owned(),
            message: format!("`{top}` stands at the top level: move it into one of broker, sched, modules, bindings, t, doc"),
        })
        .collect()
}

/// Files and folders whose name says nothing.
#[must_use]
pub fn name(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in &tree.paths {
        for part in path.split('/') {
            let stem = part.split('.').next().unwrap_or_default();
            if SAYS_NOTHING.contains(&stem) {
                findings.push(Finding {
                    file: path.clone(),
                    line: 1,
                    rule: Rule::Name,
                    what: stem.to_owned(),
                    message: format!("`{part}` says nothing: name it after its main noun or verb"),
                });
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_level_holds_what_the_design_says() {
        let tree = Tree::of(&[
            ("sched/src/lib.rs", ""),
            ("scripts/a.sh", ""),
            ("scripts/b.sh", ""),
            ("notes.md", ""),
        ]);
        let found: Vec<_> = top_level(&tree).into_iter().map(|f| f.what).collect();
        assert_eq!(found, ["notes.md", "scripts"]);
    }

    #[test]
    fn a_name_that_says_nothing_is_found_in_files_and_folders() {
        let tree = Tree::of(&[
            ("a/utils.rs", ""),
            ("common/b.rs", ""),
            ("a/database.rs", ""),
            ("a/info_line.rs", ""),
        ]);
        let found: Vec<_> = name(&tree).into_iter().map(|f| f.what).collect();
        assert_eq!(found, ["utils", "common"]);
    }
}
