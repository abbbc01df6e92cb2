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

/// Three quarters full, so that the next to come need not split each of them.
const FILLED: usize = FANOUT * 3 / 4;

/// With more than one in so many out of place all are put in order anew.
const MOVED_MOST: usize = 2;

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
        let mut rest = entries.into_iter().peekable();
        let mut chunks = Vec::new();
        while rest.peek().is_some() {
            chunks.push(Chunk::new(rest.by_ref().take(FILLED).collect()));
        }
        Line::of(chunks)
    }

    /// All chunks, in order.
    fn of(chunks: Vec<Chunk<K, V>>) -> Line<K, V> {
        let mut rest = chunks.into_iter().peekable();
        let mut groups = Vec::new();
        while rest.peek().is_some() {
            groups.push(Group::new(rest.by_ref().take(FILLED).collect()));
        }
        let len = groups.iter().map(|group: &Group<K, V>| group.len).sum();
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

    /// Gives everyone another key; who is given none is taken out. Most stay where they are. What is
    /// needed for that is fetched of many before it is used of any, so that one need not wait for the
    /// other where it is far away.
    pub fn rekey<T: Copy + Default>(
        &mut self,
        fetch: impl Fn(&K) -> T,
        mut anew: impl FnMut(&K, T) -> Option<K>,
    ) {
        let groups = std::mem::take(&mut self.groups).into_iter();
        let mut chunks: Vec<Chunk<K, V>> = groups.flat_map(|group| group.chunks).collect();
        let mut parts = Parts::default();
        // Each is parted as soon as it is known where the next begins, while it is near.
        let mut held: Option<usize> = None;
        for at in 0..chunks.len() {
            chunks[at].rekey(&fetch, &mut anew);
            if chunks[at].entries.is_empty() {
                continue;
            }
            let middle = chunks[at].middle();
            if let Some(before) = held.replace(at) {
                parts.part(&mut chunks[before], Some(&middle));
            }
        }
        if let Some(before) = held {
            parts.part(&mut chunks[before], None);
        }
        let mut moved = parts.moved;
        chunks.retain(|chunk| !chunk.entries.is_empty());
        let stayed: usize = chunks.iter().map(|chunk| chunk.entries.len()).sum();
        if moved.len() * MOVED_MOST > stayed {
            moved.extend(chunks.into_iter().flat_map(|chunk| chunk.entries));
            *self = Line::new(moved);
        } else {
            *self = Line::of(merged(chunks, moved));
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

    fn middle(&self) -> K {
        self.entries[self.entries.len() / 2].key.clone()
    }

    /// As it is, or in several that are not full.
    fn parts(self) -> impl Iterator<Item = Chunk<K, V>> {
        let fits = self.entries.len() <= FANOUT;
        let (whole, entries) = match fits {
            true => (Some(self), Vec::new()),
            false => (None, self.entries),
        };
        let mut rest = entries.into_iter().peekable();
        let parts = std::iter::from_fn(move || {
            rest.peek()?;
            Some(Chunk::new(rest.by_ref().take(FILLED).collect()))
        });
        whole.into_iter().chain(parts)
    }

    /// Other keys, in their order.
    fn rekey<T: Copy + Default>(
        &mut self,
        fetch: impl Fn(&K) -> T,
        anew: &mut impl FnMut(&K, T) -> Option<K>,
    ) {
        let before = self.entries.len();
        let mut fetched = [T::default(); FANOUT];
        for (fetched, entry) in fetched.iter_mut().zip(&self.entries) {
            *fetched = fetch(&entry.key);
        }
        let mut fetched = fetched.into_iter();
        self.entries.retain_mut(|entry| {
            let of = fetched.next().unwrap_or_else(|| fetch(&entry.key));
            match anew(&entry.key, of) {
                Some(key) => {
                    entry.key = key;
                    true
                }
                None => false,
            }
        });
        if self.entries.len() < before {
            self.sum();
        }
        if !self.entries.is_sorted_by(|a, b| a.key < b.key) {
            self.entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        }
    }

    fn sum(&mut self) {
        self.extent = Extent::default();
        for entry in &self.entries {
            self.extent.add(entry.least, entry.span);
        }
    }
}

/// What is left of chunks in order, and who is to go elsewhere.
struct Parts<K, V> {
    /// The last that stays.
    last: Option<K>,
    moved: Vec<Entry<K, V>>,
}

impl<K, V> Default for Parts<K, V> {
    fn default() -> Parts<K, V> {
        let (last, moved) = (None, Vec::new());
        Parts { last, moved }
    }
}

impl<K: Ord + Clone, V> Parts<K, V> {
    /// Takes out of the next chunk those that are not behind the last that stays, and those that are
    /// behind the middle of the chunk that follows: one that jumped far ahead or back must not move all
    /// the others.
    fn part(&mut self, chunk: &mut Chunk<K, V>, next: Option<&K>) {
        let entries = &mut chunk.entries;
        let behind = |key: &K| entries.partition_point(|entry| entry.key <= *key);
        let (from, to) = (self.last.as_ref().map_or(0, behind), next.map(behind));
        let to = to.unwrap_or(entries.len()).max(from);
        if (from, to) != (0, entries.len()) {
            self.moved.extend(entries.drain(to..));
            self.moved.extend(entries.drain(..from));
            chunk.sum();
        }
        if let Some(entry) = chunk.entries.last() {
            self.last = Some(entry.key.clone());
        }
    }
}

/// Chunks in order with more entries, none of whose keys is there: each takes at once what belongs into
/// it.
fn merged<K: Ord + Clone, V>(
    chunks: Vec<Chunk<K, V>>,
    mut more: Vec<Entry<K, V>>,
) -> Vec<Chunk<K, V>> {
    more.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    let mut more = more.into_iter().peekable();
    let mut merged = Vec::with_capacity(chunks.len() + more.len() / FILLED);
    let mut rest = chunks.into_iter().peekable();
    while let Some(mut chunk) = rest.next() {
        let next = rest.peek().map(Chunk::first);
        let held = chunk.entries.len();
        while let Some(entry) = more.next_if(|one| next.is_none_or(|next| one.key < *next)) {
            chunk.entries.push(entry);
        }
        if chunk.entries.len() > held {
            // Two runs, each in order.
            chunk.entries.sort_by(|a, b| a.key.cmp(&b.key));
            chunk.sum();
        }
        merged.extend(chunk.parts());
    }
    merged
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
