//! What can be done with every key of a policy, one after the other.
//!
//! `keys` walks a policy and calls these; `read` and `print` are the two that
//! listen. So a key is named once, with its meaning and what it takes.

use std::collections::BTreeMap;

use super::kind::Kind;

/// A listener to the walk over a policy.
pub(super) trait Visit {
    /// A table and what is in it.
    fn table(&mut self, name: &str, meaning: &str, body: impl FnOnce(&mut Self));

    /// A key that takes one value.
    fn key<K: Kind>(&mut self, name: &str, meaning: &str, kind: &K, value: &mut K::Value);

    /// Every key of the table, by names that the site chooses.
    fn entries<K: Kind>(&mut self, kind: &K, map: &mut BTreeMap<String, K::Value>);

    /// The names of the tables in this table, by names that the site chooses.
    fn names(&mut self) -> Vec<String>;

    /// Keys that stand in this table under another variant: key and variant.
    fn foreign(&mut self, others: &[(&str, &str)], here: &str);

    /// A table of values by names that the site chooses; what is given is added.
    fn map<K: Kind>(
        &mut self,
        name: &str,
        meaning: &str,
        kind: &K,
        map: &mut BTreeMap<String, K::Value>,
    ) {
        self.table(name, meaning, |visit| visit.entries(kind, map));
    }

    /// A table of tables by names that the site chooses; those given are added.
    fn tables<T>(
        &mut self,
        (name, meaning): (&str, &str),
        (inner, fresh): (&str, &T),
        map: &mut BTreeMap<String, T>,
        body: impl Fn(&mut Self, &mut T),
    ) where
        T: Clone,
    {
        self.table(name, meaning, |visit| {
            for name in visit.names() {
                map.entry(name).or_insert_with(|| fresh.clone());
            }
            for (name, value) in map.iter_mut() {
                visit.table(name, inner, |visit| body(visit, value));
            }
        });
    }
}
