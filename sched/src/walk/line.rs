//! Who waits, in order, so kept that the next one who may fit is found without
//! looking at each.
//!
//! An agenda keeps one by turn and, where gaps are filled in another order, one
//! more by that. Entries lie in chunks, chunks in groups; each knows, by size
//! class, the least need and the shortest span within. It decides nothing.

use eddy_wire::time::Span;

use super::ceiling::Ceiling;
use super::extent::Extent;

/// Entries in a chunk and chunks in a group: a million wait in a few hundred groups.
const FANOUT: usize = 64;

/// With more than one in so many out of place all are put in order anew.
const MOVED_MOST: usize = 4;

/// Entries in the order of their keys, each key once.
#[derive(Clone, Debug)]
pub struct Line<K, V> {
    groups: Vec<Group<K, V>>,
    len: usize,
}

/// One who waits.
#[derive(Clone, Debug)]
pub struct Entry<K, V> {
    /// Its turn.
    pub key: K,
    /// The least it takes ([`super::Room::least`]).
    pub least: u64,
    /// For how long.
    pub span: Span,
    /// What else belongs to it.
    pub value: V,
}

/// Never empty.
#[derive(Clone, Debug)]
struct Group<K, V> {
    chunks: Vec<Chunk<K, V>>,
    extent: Extent,
    len: usize,
}

/// Never empty.
#[derive(Clone, Debug)]
struct Chunk<K, V> {
    entries: Vec<Entry<K, V>>,
    extent: Extent,
}

impl<K: Ord + Clone, V> Default for Line<K, V> {
    fn default() -> Line<K, V> {
        Line {
            groups: Vec::new(),
            len: 0,
        }
    }
}

impl<K: Ord + Clone, V> Line<K, V> {
    /// All of these at once, in any order; of entries with the same key the first stays.
    pub fn new(mut entries: Vec<Entry<K, V>>) -> Line<K, V> {
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        entries.dedup_by(|later, first| later.key == first.key);
        let len = entries.len();
        // Three quarters full, so that the next to come need not split each of them.
        let most = FANOUT * 3 / 4;
        let mut rest = entries.into_iter().peekable();
        let mut groups = Vec::new();
        while rest.peek().is_some() {
            let mut chunks = Vec::new();
            while chunks.len() < most && rest.peek().is_some() {
                chunks.push(Chunk::new(rest.by_ref().take(most).collect()));
            }
            groups.push(Group::new(chunks));
        }
        Line { groups, len }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All in order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<K, V>> {
        let chunks = self.groups.iter().flat_map(|group| &group.chunks);
        chunks.flat_map(|chunk| &chunk.entries)
    }

    /// The first of all.
    pub fn first(&self) -> Option<&Entry<K, V>> {
        self.groups.first()?.chunks.first()?.entries.first()
    }

    /// The one with this key.
    pub fn get(&self, key: &K) -> Option<&Entry<K, V>> {
        let entries = &self.chunk_of(key)?.entries;
        let at = entries.binary_search_by(|entry| entry.key.cmp(key));
        at.ok().map(|at| &entries[at])
    }

    /// The one with so many ahead of it.
    pub fn nth(&self, mut ahead: usize) -> Option<&Entry<K, V>> {
        let group = self
            .groups
            .iter()
            .find(|group| skips(&mut ahead, group.len))?;
        let chunk = group
            .chunks
            .iter()
            .find(|chunk| skips(&mut ahead, chunk.entries.len()))?;
        chunk.entries.get(ahead)
    }

    /// The first after this key, or of all.
    pub fn after(&self, key: Option<&K>) -> Option<&Entry<K, V>> {
        self.find(key, |_| true, |_| true)
    }

    /// The first after this key, or of all, that may fit below the ceiling.
    pub fn next(&self, key: Option<&K>, ceiling: &Ceiling) -> Option<&Entry<K, V>> {
        self.find(
            key,
            |extent| extent.may(ceiling),
            |entry| ceiling.admits(entry.least, entry.span),
        )
    }

    /// Adds one; says `false` and changes nothing where the key is there already.
    pub fn insert(&mut self, entry: Entry<K, V>) -> bool {
        if self.groups.is_empty() {
            self.groups.push(Group::new(vec![Chunk::new(vec![entry])]));
            self.len = 1;
            return true;
        }
        let at = before(&self.groups, Group::first, &entry.key);
        let group = &mut self.groups[at];
        if !group.insert(entry) {
            return false;
        }
        self.len += 1;
        if group.chunks.len() > FANOUT {
            let back = Group::new(group.chunks.split_off(FANOUT / 2));
            group.sum();
            self.groups.insert(at + 1, back);
        }
        true
    }

    /// Takes the one with this key out.
    pub fn remove(&mut self, key: &K) -> Option<Entry<K, V>> {
        if self.groups.is_empty() {
            return None;
        }
        let at = before(&self.groups, Group::first, key);
        let entry = self.groups[at].remove(key)?;
        self.len -= 1;
        if self.groups[at].chunks.is_empty() {
            self.groups.remove(at);
        }
        Some(entry)
    }

    /// Gives everyone another key; who is given none is taken out. Most stay where they are.
    pub fn rekey(&mut self, mut anew: impl FnMut(&K) -> Option<K>) {
        let mut middles = Vec::new();
        for chunk in self.groups.iter_mut().flat_map(|group| &mut group.chunks) {
            chunk.rekey(&mut anew);
            middles.extend(chunk.middle());
        }
        let mut middles = middles.into_iter();
        middles.next();
        let (mut moved, mut last) = (Vec::new(), None);
        for group in &mut self.groups {
            for chunk in &mut group.chunks {
                // One that jumped far ahead or back must not move all the others.
                let next = match chunk.entries.is_empty() {
                    true => continue,
                    false => middles.next(),
                };
                chunk.part(last.as_ref(), next.as_ref(), &mut moved);
                last = chunk.entries.last().map(|entry| entry.key.clone()).or(last);
            }
            group.chunks.retain(|chunk| !chunk.entries.is_empty());
            group.sum();
        }
        self.groups.retain(|group| !group.chunks.is_empty());
        self.len = self.groups.iter().map(|group| group.len).sum();
        if moved.len() * MOVED_MOST > self.len {
            let groups = std::mem::take(&mut self.groups).into_iter();
            let chunks = groups.flat_map(|group| group.chunks);
            moved.extend(chunks.flat_map(|chunk| chunk.entries));
            *self = Line::new(moved);
        } else {
            for entry in moved {
                self.insert(entry);
            }
        }
    }

    fn chunk_of(&self, key: &K) -> Option<&Chunk<K, V>> {
        if self.groups.is_empty() {
            return None;
        }
        let chunks = &self.groups[before(&self.groups, Group::first, key)].chunks;
        Some(&chunks[before(chunks, Chunk::first, key)])
    }

    /// The first after a key that is `one`, in parts that `may` have such.
    fn find(
        &self,
        key: Option<&K>,
        may: impl Fn(&Extent) -> bool,
        one: impl Fn(&Entry<K, V>) -> bool,
    ) -> Option<&Entry<K, V>> {
        let (group, chunk, entry) = match key {
            None => (0, 0, 0),
            Some(_) if self.groups.is_empty() => return None,
            Some(key) => {
                let group = before(&self.groups, Group::first, key);
                let chunks = &self.groups[group].chunks;
                let chunk = before(chunks, Chunk::first, key);
                let entries = &chunks[chunk].entries;
                let entry = entries.partition_point(|entry| entry.key <= *key);
                (group, chunk, entry)
            }
        };
        let in_chunk = |chunk: &Chunk<K, V>, from: usize| {
            let rest = from..chunk.entries.len();
            rest.into_iter().find(|&at| one(&chunk.entries[at]))
        };
        for at in group..self.groups.len() {
            let here = &self.groups[at];
            if at > group && !may(&here.extent) {
                continue;
            }
            let from = if at == group { chunk } else { 0 };
            for inner in from..here.chunks.len() {
                let begins = (at, inner) == (group, chunk);
                let chunk = &here.chunks[inner];
                if !may(&chunk.extent) {
                    continue;
                }
                if let Some(found) = in_chunk(chunk, if begins { entry } else { 0 }) {
                    return Some(&chunk.entries[found]);
                }
            }
        }
        None
    }
}

impl<K: Ord + Clone, V> Group<K, V> {
    fn new(chunks: Vec<Chunk<K, V>>) -> Group<K, V> {
        let mut group = Group {
            chunks,
            extent: Extent::default(),
            len: 0,
        };
        group.sum();
        group
    }

    fn first(&self) -> &K {
        self.chunks[0].first()
    }

    fn sum(&mut self) {
        self.len = self.chunks.iter().map(|chunk| chunk.entries.len()).sum();
        self.extent = Extent::default();
        for chunk in &self.chunks {
            self.extent.cover(&chunk.extent);
        }
    }

    fn insert(&mut self, entry: Entry<K, V>) -> bool {
        let at = before(&self.chunks, Chunk::first, &entry.key);
        let chunk = &mut self.chunks[at];
        let Err(place) = chunk
            .entries
            .binary_search_by(|there| there.key.cmp(&entry.key))
        else {
            return false;
        };
        self.len += 1;
        self.extent.add(entry.least, entry.span);
        chunk.extent.add(entry.least, entry.span);
        chunk.entries.insert(place, entry);
        if chunk.entries.len() > FANOUT {
            // At the very end they come in order: what is full stays full.
            let keep = match place + 1 == chunk.entries.len() {
                true => FANOUT,
                false => FANOUT / 2,
            };
            let back = Chunk::new(chunk.entries.split_off(keep));
            chunk.sum();
            self.chunks.insert(at + 1, back);
        }
        true
    }

    fn remove(&mut self, key: &K) -> Option<Entry<K, V>> {
        let at = before(&self.chunks, Chunk::first, key);
        let chunk = &mut self.chunks[at];
        let place = chunk
            .entries
            .binary_search_by(|there| there.key.cmp(key))
            .ok()?;
        let entry = chunk.entries.remove(place);
        self.len -= 1;
        let rest = chunk.entries.iter();
        chunk.extent.remove(
            (entry.least, entry.span),
            rest.map(|entry| (entry.least, entry.span)),
        );
        if chunk.entries.is_empty() {
            self.chunks.remove(at);
        }
        let chunks = self.chunks.iter().map(|chunk| &chunk.extent);
        self.extent.uncover((entry.least, entry.span), chunks);
        Some(entry)
    }
}

impl<K: Ord + Clone, V> Chunk<K, V> {
    fn new(entries: Vec<Entry<K, V>>) -> Chunk<K, V> {
        let mut chunk = Chunk {
            entries,
            extent: Extent::default(),
        };
        chunk.sum();
        chunk
    }

    fn first(&self) -> &K {
        &self.entries[0].key
    }

    fn middle(&self) -> Option<K> {
        let entry = self.entries.get(self.entries.len() / 2);
        entry.map(|entry| entry.key.clone())
    }

    /// Other keys, in their order.
    fn rekey(&mut self, anew: &mut impl FnMut(&K) -> Option<K>) {
        let before = self.entries.len();
        self.entries.retain_mut(|entry| match anew(&entry.key) {
            Some(key) => {
                entry.key = key;
                true
            }
            None => false,
        });
        if self.entries.len() < before {
            self.sum();
        }
        if !self.entries.is_sorted_by(|a, b| a.key < b.key) {
            self.entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        }
    }

    /// Takes out those that are not behind one key, and those that are behind another.
    fn part(&mut self, last: Option<&K>, next: Option<&K>, moved: &mut Vec<Entry<K, V>>) {
        let behind = |key: &K| self.entries.partition_point(|entry| entry.key <= *key);
        let (from, to) = (last.map_or(0, behind), next.map(behind));
        let to = to.unwrap_or(self.entries.len()).max(from);
        if (from, to) == (0, self.entries.len()) {
            return;
        }
        moved.extend(self.entries.drain(to..));
        moved.extend(self.entries.drain(..from));
        self.sum();
    }

    fn sum(&mut self) {
        self.extent = Extent::default();
        for entry in &self.entries {
            self.extent.add(entry.least, entry.span);
        }
    }
}

/// The last part that begins at or before a key; the first where none does.
fn before<T, K: Ord>(parts: &[T], first: impl Fn(&T) -> &K, key: &K) -> usize {
    parts
        .partition_point(|part| first(part) <= key)
        .saturating_sub(1)
}

/// Whether fewer are ahead than a part has; else the part is passed.
fn skips(ahead: &mut usize, len: usize) -> bool {
    match *ahead < len {
        true => true,
        false => {
            *ahead -= len;
            false
        }
    }
}

#[cfg(test)]
mod tests;
