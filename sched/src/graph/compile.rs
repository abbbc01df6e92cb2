//! A jobspec as goals over one graph.
//!
//! Called once for each request; what it makes is matched as often as one likes.
//! A type that the graph has nowhere is no error here: it is short, for ever.

use eddy_wire::constraint::Constraint;
use eddy_wire::jobspec::{
    Count, CountRange, Jobspec, MemoryNeed, Operator, Sharing, TaskCount, Vertex, parse_bytes,
};

use super::constraint::nodes;
use super::containment::{Class, Graph, Kind};
use super::matcher::{Refusal, When};
use super::search::EACH_MAX;
use super::want::{Arrange, Counts, Gang, Goal, Hold, Place, Share, Ties, Want, WantError, What};

/// What contains the vertex that is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    Slot,
}

/// Goals of one jobspec while it is read.
struct Compiler<'a> {
    graph: &'a Graph,
    jobspec: &'a Jobspec,
    place: &'a Place,
    /// Of pools of the whole: taken once, however deep they were asked for.
    pools: Vec<(Kind, u64)>,
    unknown: Option<Refusal>,
    slots: u64,
}

impl Want {
    /// What a jobspec asks of a graph; `Err` within is a type that the graph does not have.
    ///
    /// # Errors
    /// [`WantError`] with the path of what cannot be matched at all.
    pub fn of(
        graph: &Graph,
        jobspec: &Jobspec,
        place: &Place,
    ) -> Result<Result<Want, Refusal>, WantError> {
        let mut compiler = Compiler {
            graph,
            jobspec,
            place,
            pools: Vec::new(),
            unknown: None,
            slots: 0,
        };
        compiler.want()
    }
}

impl Compiler<'_> {
    fn want(&mut self) -> Result<Result<Want, Refusal>, WantError> {
        let constraints = &self.jobspec.attributes.system.constraints;
        let constraint = Constraint::from_map(constraints)?;
        let hosts = (!constraints.is_empty()).then(|| nodes(&constraint, self.graph));
        let mut goals = self.list(
            &self.jobspec.resources,
            "resources",
            Inside::Nothing,
            Some(1),
        )?;
        if let Some(Gang {
            cardinality,
            minimum,
        }) = self.place.gang
        {
            if minimum == 0 || minimum > cardinality {
                return Err(WantError::Gang {
                    minimum,
                    cardinality,
                });
            }
            let range = CountRange {
                min: minimum,
                max: Some(cardinality),
                operand: 1,
                operator: Operator::Add,
            };
            let counts = Counts {
                count: Count::Range(range),
                unit: 1,
            };
            goals = vec![self.goal(What::Bundle, counts, goals)];
        }
        let pools = std::mem::take(&mut self.pools);
        for (kind, amount) in pools {
            let count = u32::try_from(amount).map_err(|_| too_much("resources"))?;
            goals.push(self.goal(What::Some(kind), Counts::exactly(count), Vec::new()));
        }
        let per_host = self.memory_per_host();
        if let Some(refusal) = self.unknown.take() {
            return Ok(Err(refusal));
        }
        let mut least = Vec::new();
        for goal in &goals {
            add(&mut least, &goal.least());
        }
        Ok(Ok(Want {
            ties: ties(self.graph, &goals),
            goals,
            per_host,
            hosts,
            place: self.place.clone(),
            least,
        }))
    }

    fn list(
        &mut self,
        vertices: &[Vertex],
        path: &str,
        inside: Inside,
        times: Option<u64>,
    ) -> Result<Vec<Goal>, WantError> {
        let mut goals: Vec<Goal> = Vec::new();
        for (at, vertex) in vertices.iter().enumerate() {
            let path = format!("{path}[{at}]");
            goals.extend(self.vertex(vertex, &path, inside, times)?);
        }
        Ok(goals)
    }

    fn vertex(
        &mut self,
        vertex: &Vertex,
        path: &str,
        inside: Inside,
        times: Option<u64>,
    ) -> Result<Option<Goal>, WantError> {
        let path_owned = || path.to_owned();
        if vertex.id.is_some() {
            return Err(WantError::Id { path: path_owned() });
        }
        let times_within = times.zip(vertex.count.fixed());
        let times_within =
            times_within.and_then(|(times, count)| times.checked_mul(u64::from(count)));
        if vertex.kind == "slot" {
            if inside == Inside::Slot {
                return Err(WantError::SlotInSlot { path: path_owned() });
            }
            return self.slot(vertex, path, times_within).map(Some);
        }
        let Some(kind) = self.graph.kind(&vertex.kind) else {
            let counts = Counts {
                count: vertex.count.clone(),
                unit: 1,
            };
            let short = Refusal {
                when: When::Never,
                kind: vertex.kind.clone(),
                asked: counts.least().saturating_mul(times.unwrap_or(1)),
                there: 0,
            };
            self.unknown.get_or_insert(short);
            return Ok(None);
        };
        match self.graph.class(kind) {
            Class::Place => self
                .place_goal(vertex, kind, path, inside, times_within)
                .map(Some),
            Class::Units | Class::Amount => self.leaf(vertex, kind, path, inside, times),
        }
    }

    fn leaf(
        &mut self,
        vertex: &Vertex,
        kind: Kind,
        path: &str,
        inside: Inside,
        times: Option<u64>,
    ) -> Result<Option<Goal>, WantError> {
        let path = path.to_owned();
        if !vertex.with.is_empty() {
            return Err(WantError::Within {
                path,
                kind: vertex.kind.clone(),
            });
        }
        if vertex.exclusive == Some(Sharing::Shared) && inside == Inside::Slot {
            return Err(WantError::SharedUnits {
                path,
                kind: vertex.kind.clone(),
            });
        }
        let text = vertex.unit.as_deref().unwrap_or("");
        let unit = match (text, self.graph.class(kind)) {
            ("", _) => 1,
            (text, Class::Amount) => {
                parse_bytes(&format!("1{text}")).map_err(|_| WantError::Unit {
                    path: path.clone(),
                    count: Counts {
                        count: vertex.count.clone(),
                        unit: 1,
                    }
                    .least(),
                    unit: text.to_owned(),
                })?
            }
            // Units of what is counted in pieces are names of pieces.
            (_, Class::Units | Class::Place) => 1,
        };
        let counts = Counts {
            count: vertex.count.clone(),
            unit,
        };
        if counts.least() > i64::MAX as u64 {
            return Err(too_much(&path));
        }
        if !self.graph.is_pool(kind) {
            return Ok(Some(self.goal(What::Some(kind), counts, Vec::new())));
        }
        let Some(times) = times.filter(|_| !counts.has_choice()) else {
            return Err(WantError::PoolInChoice { path });
        };
        let amount = counts
            .least()
            .checked_mul(times)
            .ok_or_else(|| too_much(&path))?;
        match self.pools.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, sum)) => *sum = sum.checked_add(amount).ok_or_else(|| too_much(&path))?,
            None => self.pools.push((kind, amount)),
        }
        Ok(None)
    }

    fn place_goal(
        &mut self,
        vertex: &Vertex,
        kind: Kind,
        path: &str,
        inside: Inside,
        times: Option<u64>,
    ) -> Result<Goal, WantError> {
        let mut inner = self.list(&vertex.with, &format!("{path}.with"), inside, times)?;
        let hold = match (vertex.exclusive, inside) {
            (Some(Sharing::Exclusive), _) | (None, Inside::Slot) => Hold::Whole,
            (Some(Sharing::Shared), _) | (None, Inside::Nothing) => Hold::Through,
        };
        let is_node = vertex.kind == "node";
        let hold = match self.place.share {
            Share::Excl | Share::ExclHost if is_node => Hold::Whole,
            Share::Shared | Share::Excl | Share::ExclHost => hold,
        };
        if is_node && let MemoryNeed::PerNode(bytes) = self.jobspec.attributes.system.memory {
            inner.extend(self.memory(bytes));
        }
        let counts = Counts {
            count: vertex.count.clone(),
            unit: 1,
        };
        Ok(self.goal(What::Place(kind, hold), counts, inner))
    }

    fn slot(&mut self, vertex: &Vertex, path: &str, times: Option<u64>) -> Result<Goal, WantError> {
        self.slots = self.slots.saturating_add(times.unwrap_or(1));
        let counts = Counts {
            count: vertex.count.clone(),
            unit: 1,
        };
        if counts.least() > EACH_MAX {
            return Err(too_much(path));
        }
        let mut inner = self.list(&vertex.with, &format!("{path}.with"), Inside::Slot, times)?;
        let bytes = self.memory_per_slot(vertex);
        inner.extend(bytes.and_then(|bytes| self.memory(bytes)));
        let node = self.graph.kind("node");
        let wide = inner.iter().any(|goal| reaches_nodes(self.graph, goal));
        let Some(node) = node.filter(|_| !wide) else {
            return Ok(self.goal(What::Bundle, counts, inner));
        };
        let (arrange, share) = (self.place.arrange, self.place.share);
        let vnode = self
            .graph
            .kind("vnode")
            .filter(|&kind| self.graph.class(kind) == Class::Place);
        let alone = Counts::exactly(1);
        let host_hold = match share {
            Share::Shared => Hold::Through,
            Share::Excl if vnode.is_some() => Hold::Through,
            Share::Excl | Share::ExclHost => Hold::Whole,
        };
        let inner = match (share, vnode) {
            (Share::Excl, Some(vnode)) => {
                vec![self.goal(What::Place(vnode, Hold::Whole), alone.clone(), inner)]
            }
            (Share::Shared | Share::ExclHost, _) | (Share::Excl, None) => inner,
        };
        Ok(match (arrange, vnode) {
            (Arrange::Free, _) => self.goal(What::Slot, counts, inner),
            (Arrange::Pack, _) => {
                let slots = self.goal(What::Bundle, counts, inner);
                self.goal(What::Place(node, host_hold), alone, vec![slots])
            }
            (Arrange::VScatter, Some(vnode)) if share == Share::Shared => {
                self.goal(What::Place(vnode, Hold::Through), counts, inner)
            }
            (Arrange::VScatter, Some(_)) => self.goal(What::Slot, counts, inner),
            (Arrange::Scatter, _) | (Arrange::VScatter, None) => {
                self.goal(What::Place(node, host_hold), counts, inner)
            }
        })
    }

    /// Memory for a slot, where it is asked for by core or task.
    fn memory_per_slot(&self, slot: &Vertex) -> Option<u64> {
        let held = |kind: &str| {
            let found = slot.with.iter().filter(|vertex| vertex.kind == kind);
            found
                .map(|vertex| {
                    Counts {
                        count: vertex.count.clone(),
                        unit: 1,
                    }
                    .least()
                })
                .sum::<u64>()
        };
        match self.jobspec.attributes.system.memory {
            MemoryNeed::None | MemoryNeed::PerNode(_) => None,
            MemoryNeed::PerCore(bytes) => {
                bytes.checked_mul(held("core")).filter(|&bytes| bytes > 0)
            }
            MemoryNeed::PerTask(bytes) => {
                let tasks = self
                    .jobspec
                    .tasks
                    .iter()
                    .find(|task| Some(&task.slot) == slot.label.as_ref())?;
                let count = match &tasks.count {
                    TaskCount::PerSlot(count) => u64::from(*count),
                    TaskCount::PerResource { kind, count } => {
                        held(kind).saturating_mul(u64::from(*count))
                    }
                    TaskCount::Total(count) => u64::from(*count).div_ceil(self.slots.max(1)),
                };
                bytes.checked_mul(count).filter(|&bytes| bytes > 0)
            }
        }
    }

    /// Memory once on each node of slots that name no node.
    fn memory_per_host(&mut self) -> Vec<Goal> {
        let names_nodes = |vertex: &Vertex| {
            let mut open = vec![vertex];
            while let Some(at) = open.pop() {
                if at.kind == "node" {
                    return true;
                }
                open.extend(&at.with);
            }
            false
        };
        match self.jobspec.attributes.system.memory {
            MemoryNeed::PerNode(bytes) if !self.jobspec.resources.iter().any(names_nodes) => {
                self.memory(bytes).into_iter().collect()
            }
            MemoryNeed::None
            | MemoryNeed::PerNode(_)
            | MemoryNeed::PerCore(_)
            | MemoryNeed::PerTask(_) => Vec::new(),
        }
    }

    /// A goal of memory; none where the graph knows no memory, as for nodes without it.
    fn memory(&self, bytes: u64) -> Option<Goal> {
        let kind = self.graph.kind("memory")?;
        // A count is 32 bits wide: as many pages as are needed for it.
        let unit = bytes.div_ceil(u64::from(u32::MAX)).next_power_of_two();
        let count = u32::try_from(bytes.div_ceil(unit)).ok()?;
        let counts = Counts {
            count: Count::Exactly(count),
            unit,
        };
        Some(self.goal(What::Some(kind), counts, Vec::new()))
    }

    fn goal(&self, what: What, counts: Counts, inner: Vec<Goal>) -> Goal {
        // So many times one place, each its own, is so many places: placements see them together.
        if let (
            What::Bundle,
            [
                Goal {
                    what: What::Place(_, _),
                    counts: own,
                    ..
                },
            ],
        ) = (what, inner.as_slice())
            && own.count.fixed() == Some(1)
        {
            return inner
                .into_iter()
                .map(|place| Goal {
                    counts: counts.clone(),
                    ..place
                })
                .next()
                .expect("one was seen");
        }
        let mut need = Vec::new();
        let mut reach = 0;
        for goal in &inner {
            add(&mut need, &goal.least());
            reach |= goal.reach;
        }
        match what {
            What::Place(kind, Hold::Whole) => {
                reach |= kind.bit() | self.graph.under(kind);
                add(&mut need, &[(kind.at(), 1)]);
            }
            What::Place(kind, Hold::Through) => reach |= kind.bit(),
            What::Some(kind) => {
                reach |= kind.bit();
                add(&mut need, &[(kind.at(), 1)]);
            }
            What::Slot | What::Bundle => {}
        }
        let ties = ties(self.graph, &inner);
        Goal {
            what,
            counts,
            inner,
            ties,
            need,
            reach,
        }
    }
}

/// Whether goals beside each other may take what another needs.
fn ties(graph: &Graph, goals: &[Goal]) -> Ties {
    let mut taken = 0u64;
    for goal in goals {
        let nested = goal
            .kind()
            .is_some_and(|kind| graph.under(kind) & kind.bit() != 0);
        if taken & goal.reach != 0 || nested {
            return Ties::Tangled;
        }
        taken |= goal.reach;
    }
    Ties::Apart
}

/// Whether a goal is for nodes or for what contains them.
fn reaches_nodes(graph: &Graph, goal: &Goal) -> bool {
    let Some(node) = graph.kind("node") else {
        return true;
    };
    let own = goal
        .kind()
        .is_some_and(|kind| kind == node || graph.under(kind) & node.bit() != 0);
    own || goal.inner.iter().any(|inner| reaches_nodes(graph, inner))
}

fn add(sum: &mut Vec<(usize, i64)>, more: &[(usize, i64)]) {
    for &(kind, amount) in more {
        match sum.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, sum)) => *sum = sum.saturating_add(amount),
            None => sum.push((kind, amount)),
        }
    }
}

fn too_much(path: &str) -> WantError {
    WantError::TooMuch {
        path: path.to_owned(),
    }
}
