//! Attributes of the system that nothing here reads.
//!
//! RFC 14 and RFC 25 leave `attributes.system` open: whoever has a use for a key puts it there, and Flux takes
//! those that it does not know. So are they taken here; clients say which they are, since one that is misspelt
//! looks the same.

use super::Jobspec;
use crate::{gang, grace, pool, reservation};

/// The attributes that are read beside those that a [`System`](super::System) names, in order.
pub const READ: [&str; 13] = [
    "array",
    "beside",
    "exec",
    "fit_remaining",
    gang::ATTRIBUTE,
    grace::ATTRIBUTE,
    "grows",
    "instance",
    "job_set",
    "place",
    pool::ATTRIBUTE,
    reservation::ATTRIBUTE,
    "unlimited",
];

impl Jobspec {
    /// The keys under `attributes.system` that are kept and do nothing.
    pub fn unread(&self) -> impl Iterator<Item = &str> {
        let keys = self.attributes.system.other.keys().map(String::as_str);
        keys.filter(|key| !READ.contains(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_nothing_reads_is_named() {
        assert!(READ.is_sorted());
        let jobspec = |system: serde_json::Value| {
            let resources = json!([{"type": "slot", "count": 1, "label": "t", "with": [{"type": "core", "count": 1}]}]);
            let tasks = json!([{"command": ["true"], "slot": "t", "count": {"per_slot": 1}}]);
            let text = json!({"version": 1, "resources": resources, "tasks": tasks, "attributes": {"system": system}});
            Jobspec::parse(text.to_string().as_bytes()).expect("a jobspec")
        };
        let own = jobspec(
            json!({"duration": 1.0, "cwd": "/", "qos": "low", "memory_per_node": "1G", "gang": {}}),
        );
        assert_eq!(own.unread().next(), None);
        let more = jobspec(json!({"duratoin": 1.0, "array": {}, "site": {"x": 1}}));
        assert_eq!(more.unread().collect::<Vec<_>>(), ["duratoin", "site"]);
    }
}
