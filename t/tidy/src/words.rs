//! What is committed names nobody's machine: no path below a person's home or a place of work. An
//! example takes one of the names that belong to nobody. The patterns are put together from halves, so
//! that this file passes its own rule.

use crate::source::line_of;
use crate::tree::Tree;
use crate::{Finding, Rule};

/// Folders of one machine.
const PLACES: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/Use", "rs/"),
];
/// Where people live; what follows must be one of [`NOBODY`].
const HOMES: &str = concat!("/ho", "me/");
/// Names for examples, and those in the published values of the RFCs.
const NOBODY: &[&str] = &["alice", "bob", "flux", "fluxuser", "user", "NAME", "USER"];

/// Paths of somebody's machine in any text.
#[must_use]
pub fn workplace(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &tree.texts {
        let places = PLACES.iter().flat_map(|place| text.match_indices(place));
        let homes = text.match_indices(HOMES).filter(|(offset, home)| {
            let rest = &text[offset + home.len()..];
            let name = rest
                .split(|c: char| !c.is_alphanumeric())
                .next()
                .unwrap_or_default();
            !name.is_empty() && !NOBODY.contains(&name)
        });
        for (offset, place) in places.chain(homes) {
            if begins_here(text, offset) {
                findings.push(Finding {
                    file: path.clone(),
                    line: line_of(text, offset),
                    rule: Rule::Workplace,
                    what: place.to_owned(),
                    message: format!("a path below `{place}` is one machine's: write a relative one, or an example's name"),
                });
            }
        }
    }
    findings
}

/// True if an absolute path begins at the offset, and not the middle of a relative one.
fn begins_here(text: &str, offset: usize) -> bool {
    let before = text[..offset].chars().next_back();
    !before.is_some_and(|c| {
        c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '}' | ')' | '*')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        workplace(&Tree::of(&[("x.txt", text)]))
            .into_iter()
            .map(|f| format!("{}:{}", f.what, f.line))
            .collect()
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let (place, root) = (PLACES[0], PLACES[1]);
        assert_eq!(
            found(&format!("a\nsee {place}main")),
            [format!("{place}:2")]
        );
        assert_eq!(found(&format!("\"{root}x\"")), [format!("{root}:1")]);
        assert_eq!(
            found(&format!("cwd={HOMES}margaret/x")),
            [format!("{HOMES}:1")]
        );
    }

    #[test]
    fn names_of_nobody_and_relative_paths_are_free() {
        assert_eq!(
            found(&format!("{HOMES}alice/x {HOMES}flux {HOMES}")),
            [""; 0]
        );
        assert_eq!(
            found(&format!(
                "target{} ${{D}}{} frame{}",
                PLACES[0], PLACES[1], PLACES[0]
            )),
            [""; 0]
        );
    }
}
