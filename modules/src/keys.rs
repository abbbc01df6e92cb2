//! A configuration by its keys, and what differs between two.
//!
//! Made by the driver, which knows what is written; kept in the record of a change, so that the next start can say
//! what it has otherwise. It knows no key and no meaning of any.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// How much of a value is shown.
const SHOWN_MAX: usize = 80;

/// Keys with their values as they are written, entries of lists by name (`queue.debug.max_time`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// What each is.
    pub values: BTreeMap<String, String>,
    /// The entries of lists, as `queue.debug`.
    pub entries: BTreeSet<String>,
    /// A list whose order means something, and the names in it.
    #[serde(default)]
    pub ordered: Option<(String, Vec<String>)>,
}

impl Keys {
    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        *self == Keys::default()
    }

    /// What is different in another, a line each, by path.
    pub fn differences(&self, to: &Keys) -> Vec<String> {
        let gone = self.entries.difference(&to.entries);
        let mut lines: Vec<String> = gone.map(|name| format!("{name}: removed")).collect();
        let new = to.entries.difference(&self.entries);
        lines.extend(new.map(|name| format!("{name}: added")));
        // What is of an entry that comes or goes is told with that.
        let apart = self.entries.symmetric_difference(&to.entries);
        let apart: BTreeSet<&str> = apart.map(String::as_str).collect();
        let is_told = |path: &str| {
            let mut dots = path.match_indices('.');
            dots.any(|(at, _)| apart.contains(&path[..at]))
        };
        let paths = self.values.keys().chain(to.values.keys());
        for path in paths.collect::<BTreeSet<&String>>() {
            let (was, is) = (self.values.get(path), to.values.get(path));
            if was != is && !is_told(path) {
                lines.push(format!("{path}: {} -> {}", shown(was), shown(is)));
            }
        }
        lines.extend(self.moved(to));
        lines
    }

    /// That the same names stand in another order.
    fn moved(&self, to: &Keys) -> Option<String> {
        let ((list, was), (_, is)) = (self.ordered.as_ref()?, to.ordered.as_ref()?);
        let names = |of: &[String]| of.iter().cloned().collect::<BTreeSet<String>>();
        let is_moved = was != is && names(was) == names(is);
        is_moved.then(|| format!("{list}: {} -> {}", was.join(", "), is.join(", ")))
    }
}

fn shown(value: Option<&String>) -> String {
    match value {
        Some(value) => value.chars().take(SHOWN_MAX).collect(),
        None => "unset".to_owned(),
    }
}
