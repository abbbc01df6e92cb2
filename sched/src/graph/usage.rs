//! Nodes by how much of them is used: for placements that want the most or the
//! least used, or the one on which least is left.
//!
//! Kept by a stock once such a placement was asked for. Nodes alike in size form
//! a class, so that within one the order by use and the order by what is left are
//! the same. It decides nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Which node is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The most used.
    MostUsed,
    /// The least used.
    LeastUsed,
    /// The one with the least free.
    LeastFree,
    /// Of those that are not used at all the smallest.
    Smallest,
}

/// Nodes by use.
#[derive(Clone, Debug)]
pub(super) struct Usage {
    classes: Vec<Sized>,
    /// By node: its class and how much of it is used.
    of_host: Vec<(u32, i64)>,
}

#[derive(Clone, Debug)]
struct Sized {
    total: i64,
    /// By how much is used: the nodes.
    hosts: BTreeMap<i64, BTreeSet<u32>>,
}

/// Where a look over the nodes has got to; of this and what comes before nothing is given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cursor {
    key: i64,
    host: u32,
}

impl Usage {
    /// Of nodes given as (total, free) in their order.
    pub fn new(hosts: impl Iterator<Item = (i64, i64)>) -> Usage {
        let mut usage = Usage {
            classes: Vec::new(),
            of_host: Vec::new(),
        };
        let mut known: BTreeMap<i64, u32> = BTreeMap::new();
        for (host, (total, free)) in (0u32..).zip(hosts) {
            let class = *known.entry(total).or_insert_with(|| {
                usage.classes.push(Sized {
                    total,
                    hosts: BTreeMap::new(),
                });
                usage.classes.len() as u32 - 1
            });
            let used = total - free;
            let by_use = &mut usage.classes[class as usize].hosts;
            by_use.entry(used).or_default().insert(host);
            usage.of_host.push((class, used));
        }
        usage
    }

    /// Says how much of a node is free.
    pub fn set(&mut self, host: usize, free: i64) {
        let (class, before) = self.of_host[host];
        let class = &mut self.classes[class as usize];
        let used = class.total - free;
        if used == before {
            return;
        }
        let host_id = host as u32;
        if let Some(hosts) = class.hosts.get_mut(&before) {
            hosts.remove(&host_id);
            if hosts.is_empty() {
                class.hosts.remove(&before);
            }
        }
        class.hosts.entry(used).or_default().insert(host_id);
        self.of_host[host].1 = used;
    }

    /// The next node in an order, behind a cursor, with at least so much free, that `fits`.
    pub fn next(
        &self,
        by: By,
        free: i64,
        behind: Option<Cursor>,
        fits: impl Fn(usize) -> bool,
    ) -> Option<(usize, Cursor)> {
        let firsts = self
            .classes
            .iter()
            .filter_map(|class| class.next(by, free, behind, &fits));
        let cursor = firsts.min()?;
        Some((cursor.host as usize, cursor))
    }
}

impl Sized {
    fn next(
        &self,
        by: By,
        free: i64,
        behind: Option<Cursor>,
        fits: &impl Fn(usize) -> bool,
    ) -> Option<Cursor> {
        // Keys rise in the order wanted: less the use, the use, or what is free.
        let key = |used: i64| match by {
            By::MostUsed => -used,
            By::LeastUsed => used,
            By::LeastFree | By::Smallest => self.total - used,
        };
        let most_used = self.total.checked_sub(free)?;
        let look = |(used, hosts): (&i64, &BTreeSet<u32>)| {
            let key = key(*used);
            let from = match behind {
                Some(cursor) if cursor.key == key => cursor.host + 1,
                Some(cursor) if cursor.key > key => return None,
                Some(_) | None => 0,
            };
            let found = hosts.range(from..).find(|&&host| fits(host as usize));
            found.map(|&host| Cursor { key, host })
        };
        let at = behind.map(|cursor| cursor.key);
        match by {
            By::MostUsed => {
                let top = at.map_or(most_used, |key| most_used.min(-key));
                self.hosts.range(..=top).rev().find_map(look)
            }
            By::LeastFree => {
                let top = at.map_or(most_used, |key| most_used.min(self.total - key));
                self.hosts.range(..=top).rev().find_map(look)
            }
            By::LeastUsed => {
                let low = at.unwrap_or(i64::MIN);
                let inside = (low <= most_used).then(|| self.hosts.range(low..=most_used));
                inside?.find_map(look)
            }
            By::Smallest => self.hosts.get_key_value(&0).and_then(look),
        }
    }
}

/// Orders places by an amount, the larger first, then as they come.
pub(super) fn larger_first(amounts: &mut [(i64, u32)]) {
    amounts.sort_by_key(|&(amount, at)| (Reverse(amount), at));
}
