//! The documentation holds together: a link leads to a file that is there, and every protocol page can
//! be reached from doc/architecture.md. Reads README.md and doc/ only; never fetches an address.

use crate::source::line_of;
use crate::tree::Tree;
use crate::{Finding, Rule};

/// Links that lead nowhere.
#[must_use]
pub fn link(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in pages(tree) {
        for (target, line) in links(text) {
            let resolved = resolve(path, &target);
            if !resolved
                .as_ref()
                .is_some_and(|resolved| resolved.is_empty() || tree.holds(resolved))
            {
                findings.push(Finding {
                    file: path.to_owned(),
                    line,
                    rule: Rule::Link,
                    message: format!("link to `{target}` leads nowhere: mend it or write the page"),
                    what: target,
                });
            }
        }
    }
    findings
}

/// Protocol pages that doc/architecture.md does not link to. Where it is not written yet, none.
#[must_use]
pub fn protocol(tree: &Tree) -> Vec<Finding> {
    const MAP: &str = "doc/architecture.md";
    let Some(map) = tree.texts.get(MAP) else {
        return Vec::new();
    };
    let linked: Vec<String> = links(map)
        .into_iter()
        .filter_map(|(target, _)| resolve(MAP, &target))
        .collect();
    let pages = tree
        .paths
        .iter()
        .filter(|path| path.starts_with("doc/protocol/") && path.ends_with(".md"));
    pages
        .filter(|page| !linked.contains(page))
        .map(|page| Finding {
            file: page.clone(),
            line: 1,
            rule: Rule::Protocol,
            what: page.clone(),
            message: format!("is not linked from {MAP}: add it to the list of protocol pages"),
        })
        .collect()
}

fn pages(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let is_page =
        |path: &str| path == "README.md" || (path.starts_with("doc/") && path.ends_with(".md"));
    tree.texts
        .iter()
        .filter(move |(path, _)| is_page(path))
        .map(|(path, text)| (path.as_str(), text.as_str()))
}

/// Targets of `[words](target)` that are files of ours, with their lines; what stands in code is not
/// a link.
fn links(text: &str) -> Vec<(String, usize)> {
    let text = without_code(text);
    let mut found = Vec::new();
    for (offset, _) in text.match_indices("](") {
        let rest = &text[offset + 2..];
        let inner = &rest[..rest.find([')', '\n']).unwrap_or(rest.len())];
        let target = inner.split_whitespace().next().unwrap_or_default();
        let elsewhere = target.contains("://") || target.starts_with("mailto:");
        if !elsewhere {
            found.push((target.to_owned(), line_of(&text, offset)));
        }
    }
    found
}

/// Blanks fenced blocks and `inline code`, keeping the lines.
fn without_code(text: &str) -> String {
    let mut out = String::new();
    let mut fenced = false;
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        if !fence && !fenced {
            for (index, part) in line.split('`').enumerate() {
                out.push_str(if index % 2 == 0 { part } else { " " });
            }
        }
        fenced ^= fence;
        out.push('\n');
    }
    out
}

/// Path of a target from the top of the repository; empty for a place on the same page, nothing if
/// it lies outside.
fn resolve(page: &str, target: &str) -> Option<String> {
    let path = target.split('#').next().unwrap_or_default();
    if path.is_empty() {
        return (!target.is_empty()).then(String::new);
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_file_or_folder_that_is_there() {
        let page = "[a](style.md) [b](../README.md#run) [c](protocol/) [d](#below) [e](https://x.example/y)\n\
                    [f](gone.md)\n```\n[g](in-code.md)\n```\n`[h](in-code.md)` [i](../../out.md) [j]()\n";
        let tree = Tree::of(&[
            ("doc/a.md", page),
            ("doc/style.md", ""),
            ("README.md", ""),
            ("doc/protocol/x.md", ""),
        ]);
        let found: Vec<_> = link(&tree)
            .into_iter()
            .map(|f| format!("{}:{}", f.what, f.line))
            .collect();
        assert_eq!(found, ["gone.md:2", "../../out.md:6", ":6"]);
    }

    #[test]
    fn pages_outside_the_documentation_are_left_alone() {
        assert!(link(&Tree::of(&[("t/cases/x.md", "[a](gone.md)")])).is_empty());
    }

    #[test]
    fn a_protocol_page_is_on_the_map_once_there_is_one() {
        let pages = [("doc/protocol/ids.md", ""), ("doc/protocol/journal.md", "")];
        assert!(protocol(&Tree::of(&pages)).is_empty());
        let map = (
            "doc/architecture.md",
            "[ids](protocol/ids.md#f58), journal.md",
        );
        let tree = Tree::of(&[pages[0], pages[1], map]);
        let found: Vec<_> = protocol(&tree).into_iter().map(|f| f.file).collect();
        assert_eq!(found, ["doc/protocol/journal.md"]);
    }
}
