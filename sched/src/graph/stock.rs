//! What of a graph is free and in service, with a summary for each vertex.
//!
//! Taken from and given back to by the search, by plans and by whoever says what
//! is up. A summary of a vertex counts by type what is free within it: units,
//! amounts, and places of which nothing is held. It knows no jobs and no times;
//! to take what is not free is a bug and panics.

use eddy_wire::idset::Idset;
use fixedbitset::FixedBitSet;

use super::containment::{Body, Class, Graph, Kind, NONE};
use super::draft::State;
use super::found::{Pick, Share};
use super::index::{Index, Need};
use super::usage::Usage;

/// What is free of one graph. Every method must be given that graph.
#[derive(Clone, Debug)]
pub struct Stock {
    kinds: usize,
    /// By bit of the graph: held by nobody.
    free: FixedBitSet,
    /// By vertex: how much of itself is held by nobody.
    left: Vec<i64>,
    /// By vertex: how many of its children have anything held, and one if it is held itself.
    busy: Vec<u32>,
    /// By vertex: what was said of it.
    state: Vec<State>,
    /// By vertex: how many of itself and what contains it are not up.
    out: Vec<u32>,
    /// By vertex and type: free and in service within.
    sums: Vec<i64>,
    index: Index,
    usage: Option<Usage>,
}

impl Stock {
    /// All free, in the states that were read.
    pub fn new(graph: &Graph) -> Stock {
        let mut stock = Stock::all_up(graph);
        for at in 0..graph.len() as u32 {
            stock.set_state(graph, at, graph.vertex(at).state);
        }
        stock
    }

    /// All free and in service.
    pub fn all_up(graph: &Graph) -> Stock {
        let kinds = graph.kind_count();
        let mut free = FixedBitSet::with_capacity(graph.bits);
        free.insert_range(..);
        let mut stock = Stock {
            kinds,
            free,
            left: (0..graph.len() as u32)
                .map(|at| graph.vertex(at).size())
                .collect(),
            busy: vec![0; graph.len()],
            state: vec![State::Up; graph.len()],
            out: vec![0; graph.len()],
            sums: (0..graph.len() as u32)
                .flat_map(|at| graph.totals_of(at).to_vec())
                .collect(),
            index: Index::new(graph.host_count(), kinds),
            usage: None,
        };
        for host in 0..graph.host_count() {
            let row = graph.totals_of(graph.host(host));
            for (kind, &amount) in row.iter().enumerate() {
                stock.index.set(host, kind, amount);
            }
        }
        stock
    }

    /// How much of a type is free and in service within a vertex; of places those wholly free.
    pub fn free(&self, at: u32, kind: Kind) -> i64 {
        self.sums[at as usize * self.kinds + kind.at()]
    }

    /// What was last said of a vertex.
    pub fn state(&self, at: u32) -> State {
        self.state[at as usize]
    }

    /// Whether a vertex and all that contains it are up.
    pub fn in_service(&self, at: u32) -> bool {
        self.out[at as usize] == 0
    }

    /// Whether nothing in a vertex is held.
    pub fn is_idle(&self, at: u32) -> bool {
        self.busy[at as usize] == 0
    }

    pub(super) fn holds(&self, at: u32, need: &Need) -> bool {
        let row = &self.sums[at as usize * self.kinds..][..self.kinds];
        need.iter().all(|&(kind, amount)| row[kind] >= amount)
    }

    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    /// Nodes by use, counted in cores, or where there are none in whole nodes.
    pub(super) fn usage(&mut self, graph: &Graph) -> &Usage {
        if self.usage.is_none() {
            let main = main_kind(graph).map_or(0, Kind::at);
            let total = |host: usize| graph.totals_of(graph.host(host))[main];
            let hosts =
                (0..graph.host_count()).map(|host| (total(host), self.index.row(host)[main]));
            self.usage = Some(Usage::new(hosts));
        }
        self.usage.as_ref().expect("it was made just now")
    }

    /// Nodes by use, once [`Stock::usage`] has made it.
    pub(super) fn made_usage(&self) -> Option<&Usage> {
        self.usage.as_ref()
    }

    /// Says whether a vertex is in service; what is in it follows. Who holds anything keeps it.
    pub fn set_state(&mut self, graph: &Graph, at: u32, state: State) {
        let before = std::mem::replace(&mut self.state[at as usize], state);
        let goes = match (before, state) {
            (State::Up, State::Down | State::Drained) => true,
            (State::Down | State::Drained, State::Up) => false,
            (State::Up, State::Up)
            | (State::Down | State::Drained, State::Down | State::Drained) => return,
        };
        for inner in at..graph.end[at as usize] {
            let out = &mut self.out[inner as usize];
            let was = *out;
            *out = if goes { was + 1 } else { was - 1 };
            let delta = match (was, *out) {
                (0, _) => -self.given(graph, inner),
                (_, 0) => self.given(graph, inner),
                (_, _) => 0,
            };
            self.change(graph, inner, graph.vertex(inner).kind, delta);
        }
    }

    /// What a vertex itself adds to summaries while it is in service.
    fn given(&self, graph: &Graph, at: u32) -> i64 {
        match graph.vertex(at).body {
            Body::Place => i64::from(self.busy[at as usize] == 0),
            Body::Units(_) | Body::Amount(_) => self.left[at as usize],
        }
    }

    /// Changes the summaries of a vertex and of all that contains it.
    fn change(&mut self, graph: &Graph, at: u32, kind: Kind, delta: i64) {
        if delta == 0 {
            return;
        }
        let mut up = at;
        while up != NONE {
            self.sums[up as usize * self.kinds + kind.at()] += delta;
            up = graph.parent[up as usize];
        }
        self.tell(graph, at, kind);
    }

    /// Tells the indexes over nodes of a change at or below one.
    fn tell(&mut self, graph: &Graph, at: u32, kind: Kind) {
        let host = graph.host_of[at as usize];
        if host == NONE {
            return;
        }
        let amount = self.free(graph.host(host as usize), kind);
        self.index.set(host as usize, kind.at(), amount);
        if let Some(usage) = &mut self.usage
            && main_kind(graph) == Some(kind)
        {
            usage.set(host as usize, amount);
        }
    }

    /// One more thing in a vertex is held.
    fn occupy(&mut self, graph: &Graph, at: u32) {
        let mut up = at;
        while up != NONE {
            let busy = &mut self.busy[up as usize];
            *busy += 1;
            if *busy > 1 {
                return;
            }
            self.idle_changed(graph, up, -1);
            up = graph.parent[up as usize];
        }
    }

    /// One thing less in a vertex is held.
    fn vacate(&mut self, graph: &Graph, at: u32) {
        let mut up = at;
        while up != NONE {
            let busy = &mut self.busy[up as usize];
            *busy -= 1;
            if *busy > 0 {
                return;
            }
            self.idle_changed(graph, up, 1);
            up = graph.parent[up as usize];
        }
    }

    fn idle_changed(&mut self, graph: &Graph, at: u32, delta: i64) {
        let kind = graph.vertex(at).kind;
        if graph.class(kind) == Class::Place && self.in_service(at) {
            self.change(graph, at, kind, delta);
        }
    }

    /// Holds what was picked.
    ///
    /// # Panics
    /// If any of it is held.
    pub fn take(&mut self, graph: &Graph, pick: &Pick) {
        match &pick.share {
            Share::Through => {}
            Share::Whole => self.take_whole(graph, pick.vertex),
            Share::Units(positions) => self.take_units(graph, pick.vertex, positions),
            Share::Amount(amount) => self.take_amount(graph, pick.vertex, *amount),
        }
    }

    /// Gives back what was picked.
    ///
    /// # Panics
    /// If any of it is not held.
    pub fn give(&mut self, graph: &Graph, pick: &Pick) {
        match &pick.share {
            Share::Through => {}
            Share::Whole => self.give_whole(graph, pick.vertex),
            Share::Units(positions) => self.give_units(graph, pick.vertex, positions),
            Share::Amount(amount) => self.give_amount(graph, pick.vertex, *amount),
        }
    }

    pub(super) fn take_units(&mut self, graph: &Graph, run: u32, positions: &Idset) {
        let first = graph.first_bit[run as usize] as usize;
        for at in positions.iter() {
            assert!(
                self.free[first + at as usize],
                "unit {at} of vertex {run} must be free"
            );
            self.free.set(first + at as usize, false);
        }
        self.lower(graph, run, positions.len() as i64);
    }

    pub(super) fn give_units(&mut self, graph: &Graph, run: u32, positions: &Idset) {
        let first = graph.first_bit[run as usize] as usize;
        for at in positions.iter() {
            assert!(
                !self.free[first + at as usize],
                "unit {at} of vertex {run} must be held"
            );
            self.free.set(first + at as usize, true);
        }
        self.raise(graph, run, positions.len() as i64);
    }

    pub(super) fn take_amount(&mut self, graph: &Graph, vertex: u32, amount: i64) {
        let left = self.left[vertex as usize];
        assert!(
            left >= amount,
            "vertex {vertex} must have {amount}, has {left}"
        );
        self.lower(graph, vertex, amount);
    }

    pub(super) fn give_amount(&mut self, graph: &Graph, vertex: u32, amount: i64) {
        self.raise(graph, vertex, amount);
    }

    /// Holds a place itself, not what is in it.
    pub(super) fn take_place(&mut self, graph: &Graph, place: u32) {
        assert!(
            self.left[place as usize] == 1,
            "vertex {place} must be free"
        );
        self.left[place as usize] = 0;
        self.free
            .set(graph.first_bit[place as usize] as usize, false);
        self.occupy(graph, place);
    }

    /// Gives a place itself back.
    pub(super) fn give_place(&mut self, graph: &Graph, place: u32) {
        assert!(
            self.left[place as usize] == 0,
            "vertex {place} must be held"
        );
        self.left[place as usize] = 1;
        self.free
            .set(graph.first_bit[place as usize] as usize, true);
        self.vacate(graph, place);
    }

    fn lower(&mut self, graph: &Graph, at: u32, amount: i64) {
        if amount == 0 {
            return;
        }
        let whole = self.left[at as usize] == graph.vertex(at).size();
        self.left[at as usize] -= amount;
        if self.in_service(at) {
            self.change(graph, at, graph.vertex(at).kind, -amount);
        }
        if whole {
            self.occupy(graph, at);
        }
    }

    fn raise(&mut self, graph: &Graph, at: u32, amount: i64) {
        if amount == 0 {
            return;
        }
        let size = graph.vertex(at).size();
        self.left[at as usize] += amount;
        let left = self.left[at as usize];
        assert!(
            left <= size,
            "vertex {at} must have at most {size}, has {left}"
        );
        if self.in_service(at) {
            self.change(graph, at, graph.vertex(at).kind, amount);
        }
        if left == size {
            self.vacate(graph, at);
        }
    }

    /// Holds a vertex and all in it, of which nothing may be held.
    fn take_whole(&mut self, graph: &Graph, at: u32) {
        assert!(self.is_idle(at), "vertex {at} must be free");
        let (from, to) = (at as usize, graph.end[at as usize] as usize);
        let bits = bits_of(graph, at);
        self.free.remove_range(bits);
        for inner in (from..to).rev() {
            self.left[inner] = 0;
            // A place is held itself; each of its children adds one as it is come to.
            self.busy[inner] += 1;
            if inner > from {
                self.busy[graph.parent[inner] as usize] += 1;
            }
        }
        self.clear_sums(graph, at);
        let up = graph.parent[from];
        if up != NONE {
            self.occupy(graph, up);
        }
    }

    /// Takes what a vertex has in its summary off all that contains it, and clears those within.
    fn clear_sums(&mut self, graph: &Graph, at: u32) {
        let kinds = self.kinds;
        let (from, to) = (at as usize, graph.end[at as usize] as usize);
        for kind in 0..kinds {
            let had = self.sums[from * kinds + kind];
            if had == 0 {
                continue;
            }
            let mut up = graph.parent[from];
            while up != NONE {
                self.sums[up as usize * kinds + kind] -= had;
                up = graph.parent[up as usize];
            }
        }
        let had: Vec<bool> = self.sums[from * kinds..][..kinds]
            .iter()
            .map(|&had| had != 0)
            .collect();
        self.sums[from * kinds..to * kinds].fill(0);
        self.tell_all(graph, at, &had);
    }

    /// Tells the indexes over nodes that a vertex changed, and all in it.
    fn tell_all(&mut self, graph: &Graph, at: u32, changed: &[bool]) {
        let (first, last) = graph.hosts_within(at);
        let changed = changed.iter().enumerate().filter(|(_, changed)| **changed);
        for (kind, _) in changed {
            let kind = Kind(kind as u8);
            self.tell(graph, at, kind);
            for host in first..last {
                self.tell(graph, graph.host(host), kind);
            }
        }
    }

    fn give_whole(&mut self, graph: &Graph, at: u32) {
        let kinds = self.kinds;
        let (from, to) = (at as usize, graph.end[at as usize] as usize);
        self.free.insert_range(bits_of(graph, at));
        for inner in from..to {
            let left = self.left[inner];
            assert!(left == 0, "vertex {inner} must be held, has {left} free");
            self.left[inner] = graph.vertex(inner as u32).size();
            self.busy[inner] = 0;
        }
        for inner in (from..to).rev() {
            if self.out[inner] == 0 {
                let vertex = graph.vertex(inner as u32);
                self.sums[inner * kinds + vertex.kind.at()] += vertex.size();
            }
            if inner > from {
                let up = graph.parent[inner] as usize;
                for kind in 0..kinds {
                    self.sums[up * kinds + kind] += self.sums[inner * kinds + kind];
                }
            }
        }
        let mut up = graph.parent[from];
        while up != NONE {
            for kind in 0..kinds {
                self.sums[up as usize * kinds + kind] += self.sums[from * kinds + kind];
            }
            up = graph.parent[up as usize];
        }
        let has: Vec<bool> = self.sums[from * kinds..][..kinds]
            .iter()
            .map(|&has| has != 0)
            .collect();
        self.tell_all(graph, at, &has);
        let up = graph.parent[from];
        if up != NONE {
            self.vacate(graph, up);
        }
    }

    /// How much of a vertex itself is held by nobody, in service or not.
    pub(super) fn left(&self, at: u32) -> i64 {
        self.left[at as usize]
    }

    /// The lowest free positions of a run, at most so many.
    pub(super) fn lowest(&self, graph: &Graph, run: u32, count: i64) -> Idset {
        let positions = 0..graph.vertex(run).size() as u32;
        self.gather(graph, run, count, positions)
    }

    /// The highest free positions of a run, at most so many.
    pub(super) fn highest(&self, graph: &Graph, run: u32, count: i64) -> Idset {
        let positions = (0..graph.vertex(run).size() as u32).rev();
        self.gather(graph, run, count, positions)
    }

    fn gather(
        &self,
        graph: &Graph,
        run: u32,
        count: i64,
        positions: impl Iterator<Item = u32>,
    ) -> Idset {
        let first = graph.first_bit[run as usize] as usize;
        let mut found = Idset::new();
        let free = positions.filter(|&at| self.free[first + at as usize]);
        for at in free.take(count.max(0) as usize) {
            found.insert(at);
        }
        found
    }

    /// Whether all it keeps is what a count of its bits and amounts comes to.
    #[cfg(test)]
    pub(super) fn recount(&self, graph: &Graph) -> Result<(), String> {
        let kinds = self.kinds;
        let mut busy = vec![0u32; graph.len()];
        let mut sums = vec![0i64; graph.len() * kinds];
        for at in (0..graph.len()).rev() {
            let vertex = graph.vertex(at as u32);
            let first = graph.first_bit[at] as usize;
            let left = match &vertex.body {
                Body::Place => i64::from(self.free[first]),
                Body::Units(ids) => (first..first + ids.len() as usize)
                    .filter(|&bit| self.free[bit])
                    .count() as i64,
                Body::Amount(_) => self.left[at],
            };
            if left != self.left[at] {
                return Err(format!("left of {at} is {}, counted {left}", self.left[at]));
            }
            busy[at] += u32::from(left < vertex.size());
            if self.out[at] == 0 {
                sums[at * kinds + vertex.kind.at()] += match vertex.body {
                    Body::Place => i64::from(busy[at] == 0),
                    Body::Units(_) | Body::Amount(_) => left,
                };
            }
            if at > 0 {
                let up = graph.parent[at] as usize;
                busy[up] += u32::from(busy[at] > 0);
                for kind in 0..kinds {
                    sums[up * kinds + kind] += sums[at * kinds + kind];
                }
            }
        }
        if busy != self.busy {
            return Err(format!("busy is {:?}, counted {busy:?}", self.busy));
        }
        if sums != self.sums {
            return Err(format!("sums are {:?}, counted {sums:?}", self.sums));
        }
        let rows = (0..graph.host_count()).all(|host| {
            let at = graph.host(host) as usize;
            self.index.row(host) == &self.sums[at * kinds..][..kinds]
        });
        rows.then_some(())
            .ok_or_else(|| "the index differs".to_owned())
    }
}

fn bits_of(graph: &Graph, at: u32) -> std::ops::Range<usize> {
    let end = graph.first_bit.get(graph.end[at as usize] as usize);
    graph.first_bit[at as usize] as usize..end.map_or(graph.bits, |&bit| bit as usize)
}

/// The type by which nodes are told more used from less: cores, else nodes themselves.
pub(super) fn main_kind(graph: &Graph) -> Option<Kind> {
    graph.main
}
