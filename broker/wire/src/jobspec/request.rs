//! What a jobspec asks of the scheduler, in numbers.
//!
//! The scheduler and the executor read this and not the tree. Shapes that do
//! not reduce to it (racks, several tasks, counts left open) are refused by
//! name, never served in part.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::constraint::Constraint;
use crate::field::Path;
use crate::gang;
use crate::id::JobId;
use crate::idset::Idset;
use crate::shell_options;

use super::choice::{Choice, Tasks, choice as choice_of};
use super::memory::{times_unit, unit_shift};
use super::sockets::{InSockets, SocketGroup, slots_in_socket, sockets_in_slot};
use super::unsupported::{Unsupported, unsupported};
use super::{Count, Jobspec, JobspecError, MemoryNeed, TASKS_MAX, TaskCount, Vertex};

/// Whether others may use what is left of a node.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// They may.
    #[default]
    Shared,
    /// They may not: whole nodes.
    Exclusive,
}

/// Whether a job takes what it runs on from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Takes {
    /// Its cores, GPUs and memory are its own while it runs.
    #[default]
    Resources,
    /// Nothing: its tasks run beside what is granted on those ranks
    /// (`attributes.system.beside`), at once and never waiting for room.
    Nothing,
}

/// What a job's command is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Tasks.
    #[default]
    Tasks,
    /// An instance (`attributes.system.instance`): one leader on the first
    /// rank of the grant, ground for it on the others.
    Instance {
        /// The name it was declared under; none for a user's own.
        name: Option<String>,
    },
    /// Nothing of its own: ground for an instance that is a job (`attributes.system.grows`), which so
    /// has more nodes.
    Ground {
        /// That job.
        of: JobId,
    },
}

/// Where the leader of an instance is, and its journal (`attributes.system.instance.leader`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Leader {
    /// On the first of its nodes.
    #[default]
    Node,
    /// Beside what runs on the node of its parent's leader, which need not be one of its own.
    Parent,
}

/// The numbers of a jobspec. All are at least 1 where not said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// How many nodes, the least of them where there is a choice; `None` places slots anywhere.
    pub nodes: Option<u32>,
    /// Other numbers of nodes that will do; never without `nodes`.
    pub choice: Option<Arc<Choice>>,
    /// How many slots on all nodes.
    pub slots: u32,
    /// How many slots on each node, where nodes are given; else all of them, on any.
    pub slots_per_node: u32,
    /// Cores of each slot; 0 only with whole nodes or sockets, which then have what they have.
    pub cores_per_slot: u32,
    /// GPUs of each slot; may be 0.
    pub gpus_per_slot: u32,
    /// In which sockets of their nodes slots lie, where that is said.
    pub sockets: Option<SocketGroup>,
    /// Memory asked for.
    pub memory: MemoryNeed,
    /// Whole nodes, or what is left of them.
    pub sharing: Sharing,
    /// Whether it takes anything at all.
    pub takes: Takes,
    /// Only these ranks will do (RFC 31 `ranks`); `None` is any. Of what a constraint says they are
    /// made where the inventory is known.
    pub ranks: Option<Idset>,
    /// What its nodes must be like, where that is more than to be of some ranks.
    pub constraint: Option<Arc<Constraint>>,
    /// What its command is.
    pub work: Work,
    /// How many tasks run.
    pub ntasks: u32,
    /// Time limit in microseconds; `None` has no limit of its own.
    pub duration: Option<i64>,
}

impl Request {
    /// The job that is the instance that this is ground for, if it is nothing else.
    pub fn grows(&self) -> Option<JobId> {
        match self.work {
            Work::Ground { of } => Some(of),
            Work::Tasks | Work::Instance { .. } => None,
        }
    }

    /// The ranks that must all be there: those it names itself. Of those that a constraint comes to
    /// none need be.
    pub fn named_ranks(&self) -> Option<&Idset> {
        let named = self.ranks.as_ref();
        named.filter(|_| self.constraint.is_none())
    }

    /// The ranks it runs on if it takes nothing: those it names, else the leader's.
    pub fn beside(&self) -> Option<Idset> {
        match self.takes {
            Takes::Resources => None,
            Takes::Nothing => Some(self.ranks.clone().unwrap_or_else(|| Idset::one(0))),
        }
    }
}

/// What one slot has.
#[derive(Default)]
pub(super) struct Slot {
    pub cores: u32,
    pub gpus: u32,
    pub memory: u64,
}

/// Nodes and the slots on each.
struct Shape {
    nodes: Option<Count>,
    slots: u32,
    slot: Slot,
    sockets: Option<SocketGroup>,
    node_memory: u64,
    sharing: Sharing,
}

impl Shape {
    /// Slots that lie in sockets, of so many nodes or of any.
    fn in_sockets(nodes: Option<Count>, within: InSockets) -> Shape {
        Shape {
            nodes,
            slots: within.slots(),
            slot: within.slot,
            sockets: Some(within.group),
            node_memory: 0,
            sharing: Sharing::Shared,
        }
    }
}

impl Jobspec {
    /// The numbers this jobspec comes down to.
    ///
    /// # Errors
    /// [`JobspecError::Unsupported`] with the path of what is not served yet, and
    /// [`JobspecError::TooManyTasks`].
    pub fn request(&self) -> Result<Request, JobspecError> {
        let root = Path::Root;
        let path = root.key("resources");
        let [top] = self.resources.as_slice() else {
            return Err(unsupported(path, Unsupported::Roots(self.resources.len())));
        };
        let path = path.index(0);
        let shape = match top.kind.as_str() {
            "node" => nodes_of_slots(top, path)?,
            "slot" => slots(top, path)?,
            "socket" => Shape::in_sockets(None, slots_in_socket(top, path)?),
            other => return Err(unsupported(path, Unsupported::Kind(other.to_owned()))),
        };
        let nodes = shape.nodes.as_ref().map(Count::least);
        let slots = nodes.unwrap_or(1).checked_mul(shape.slots);
        let slots = slots.filter(|&slots| slots <= TASKS_MAX).ok_or_else(|| {
            let nodes = nodes.unwrap_or(1);
            unsupported(
                path,
                Unsupported::TooManySlots {
                    nodes,
                    slots: shape.slots,
                },
            )
        })?;
        let sharing = match (shape.sharing, self.place()?) {
            (Sharing::Shared, Sharing::Shared) => Sharing::Shared,
            (Sharing::Exclusive, _) | (_, Sharing::Exclusive) => Sharing::Exclusive,
        };
        if shape.slot.cores == 0 && shape.sharing == Sharing::Shared && shape.sockets.is_none() {
            return Err(unsupported(path, Unsupported::NoCores));
        }
        let ntasks = self.ntasks(slots, &shape.slot)?;
        let request = Request {
            nodes,
            choice: self.choice(&shape, path)?,
            slots,
            slots_per_node: shape.slots,
            cores_per_slot: shape.slot.cores,
            gpus_per_slot: shape.slot.gpus,
            sockets: self.sockets(&shape, path)?,
            memory: self.memory(&shape, slots, ntasks)?,
            sharing,
            takes: self.takes()?,
            ranks: self.ranks()?,
            constraint: self.constraint()?,
            work: self.work()?,
            ntasks,
            duration: Some(self.attributes.system.duration).filter(|&micros| micros > 0),
        };
        match (request.nodes, request.beside().map(|ranks| ranks.len())) {
            (Some(nodes), Some(ranks)) if u64::from(nodes) != ranks => {
                Err(unsupported(path, Unsupported::Beside { nodes, ranks }))
            }
            _ => Ok(request),
        }
    }

    /// What of its nodes is left to the scheduler.
    fn choice(&self, shape: &Shape, path: Path<'_>) -> Result<Option<Arc<Choice>>, JobspecError> {
        let tasks = match self.tasks.first().map(|task| &task.count) {
            Some(TaskCount::Total(_)) => Tasks::AsMany,
            Some(TaskCount::PerSlot(_) | TaskCount::PerResource { .. }) | None => Tasks::OnEach,
        };
        let Some(choice) = shape
            .nodes
            .as_ref()
            .and_then(|count| choice_of(count, tasks))
        else {
            return Ok(None);
        };
        let system = &self.attributes.system.other;
        let of_tasks = self.work()? == Work::Tasks && tasks == Tasks::AsMany;
        let is_each = |need: MemoryNeed| matches!(need, MemoryNeed::PerTask(_));
        let with = match (shape.slot.memory, self.takes()?) {
            (_, Takes::Nothing) => "`beside`",
            // More nodes would have fewer tasks on each, and less memory.
            (1.., _) if of_tasks => "a total of tasks and memory in slots",
            _ if of_tasks && is_each(self.attributes.system.memory) => {
                "a total of tasks and memory for each"
            }
            _ if system.contains_key(gang::ATTRIBUTE) => "a gang",
            _ => return Ok(Some(choice)),
        };
        let count = choice.nodes.to_string();
        Err(unsupported(
            path.key("count"),
            Unsupported::ChoiceWith { count, with },
        ))
    }

    /// In which sockets its slots lie.
    fn sockets(&self, shape: &Shape, path: Path<'_>) -> Result<Option<SocketGroup>, JobspecError> {
        let Some(group) = shape.sockets else {
            return Ok(None);
        };
        let with = match self.takes()? {
            Takes::Nothing => "`beside`",
            Takes::Resources if self.attributes.system.other.contains_key(gang::ATTRIBUTE) => {
                "a gang"
            }
            Takes::Resources => return Ok(Some(group)),
        };
        Err(unsupported(path, Unsupported::SocketsWith(with)))
    }

    fn ntasks(&self, slots: u32, slot: &Slot) -> Result<u32, JobspecError> {
        let root = Path::Root;
        let path = root.key("tasks");
        let [task] = self.tasks.as_slice() else {
            return Err(unsupported(path, Unsupported::Tasks(self.tasks.len())));
        };
        if let Some(per) = self.shell_option(shell_options::PER_RESOURCE) {
            let kind = per
                .get("type")
                .and_then(|kind| kind.as_str())
                .unwrap_or("resource");
            let path = "attributes.system.shell.options.per-resource".to_owned();
            let what = Unsupported::PerResource(kind.to_owned());
            return Err(JobspecError::Unsupported { path, what });
        }
        let slots = u64::from(slots);
        let given = match &task.count {
            TaskCount::Total(total) => u64::from(*total),
            TaskCount::PerSlot(count) => slots * u64::from(*count),
            TaskCount::PerResource { kind, count } => {
                let each = match kind.as_str() {
                    "core" if slot.cores > 0 => slot.cores,
                    "gpu" if slot.gpus > 0 => slot.gpus,
                    _ => {
                        let path = path.index(0);
                        let what = Unsupported::PerResource(kind.clone());
                        return Err(unsupported(path.key("count"), what));
                    }
                };
                slots
                    .saturating_mul(u64::from(each))
                    .saturating_mul(u64::from(*count))
            }
        };
        if given > u64::from(TASKS_MAX) {
            return Err(JobspecError::TooManyTasks { given });
        }
        Ok(given as u32)
    }

    fn takes(&self) -> Result<Takes, JobspecError> {
        match self.attributes.system.other.get("beside") {
            None | Some(Value::Bool(false)) => Ok(Takes::Resources),
            Some(Value::Bool(true)) => Ok(Takes::Nothing),
            Some(other) => Err(choice("beside", other, "true or false")),
        }
    }

    /// RFC 31: `{"ranks": ["0-3,7"]}` and nothing else; those all have to be there.
    fn ranks(&self) -> Result<Option<Idset>, JobspecError> {
        let constraints = &self.attributes.system.constraints;
        let Some(value) = constraints.get("ranks").filter(|_| constraints.len() == 1) else {
            return Ok(None);
        };
        let wrong = || choice("constraints.ranks", value, "an array of idsets");
        let mut all = Idset::new();
        for text in value.as_array().ok_or_else(wrong)? {
            let ranks: Idset = text
                .as_str()
                .and_then(|text| text.parse().ok())
                .ok_or_else(wrong)?;
            all = all.union(&ranks);
        }
        match all.is_empty() {
            true => Err(wrong()),
            false => Ok(Some(all)),
        }
    }

    /// RFC 31: anything else.
    fn constraint(&self) -> Result<Option<Arc<Constraint>>, JobspecError> {
        let constraints = &self.attributes.system.constraints;
        let constraint = Constraint::from_map(constraints)?;
        if constraint.allows_all() || self.ranks()?.is_some() {
            return Ok(None);
        }
        match self.takes()? {
            Takes::Resources => Ok(Some(Arc::new(constraint))),
            Takes::Nothing => {
                let given = Value::Object(constraints.clone());
                Err(choice(
                    "constraints",
                    &given,
                    "only `ranks`, where `beside` is true",
                ))
            }
        }
    }

    /// Where its leader is, if it is an instance.
    pub fn leader(&self) -> Leader {
        let instance = self.attributes.system.other.get("instance");
        let leader = instance.and_then(|instance| instance.get("leader"));
        let leader = leader.and_then(|leader| Leader::deserialize(leader).ok());
        leader.unwrap_or_default()
    }

    fn work(&self) -> Result<Work, JobspecError> {
        let other = &self.attributes.system.other;
        let Some(value) = other.get("instance") else {
            return match other.get("grows") {
                None => Ok(Work::Tasks),
                Some(value) => match value.as_u64() {
                    Some(of) => Ok(Work::Ground { of: JobId(of) }),
                    None => Err(choice("grows", value, "the number of a job")),
                },
            };
        };
        if let Some(grows) = other.get("grows") {
            return Err(choice("grows", grows, "nothing, where `instance` is given"));
        }
        let wrong = || choice("instance", value, "an object with at most a `name`");
        if let Some(leader) = value.get("leader")
            && Leader::deserialize(leader).is_err()
        {
            return Err(choice("instance.leader", leader, "parent or node"));
        }
        let name = match value.as_object().ok_or_else(wrong)?.get("name") {
            None => None,
            Some(Value::String(name)) if !name.is_empty() => Some(name.clone()),
            Some(_) => return Err(wrong()),
        };
        Ok(Work::Instance { name })
    }

    fn memory(&self, shape: &Shape, slots: u32, ntasks: u32) -> Result<MemoryNeed, JobspecError> {
        let attribute = self.attributes.system.memory;
        let whole = shape
            .sockets
            .filter(|group| group.sharing == Sharing::Exclusive);
        if let (MemoryNeed::PerCore(_), Some(_)) = (attribute, whole) {
            let path = Path::Root.key("attributes");
            let path = path.key("system");
            let why = Unsupported::SocketsWith("memory for each core, where they are whole,");
            return Err(unsupported(path.key("memory_per_core"), why));
        }
        match (attribute, shape.node_memory, shape.slot.memory) {
            (attribute, 0, 0) => Ok(attribute),
            (MemoryNeed::None, bytes, 0) => Ok(MemoryNeed::PerNode(bytes)),
            (MemoryNeed::None, 0, bytes) => {
                // A slot's memory is shared by its tasks; rounded up, none gets less.
                let tasks_per_slot = u64::from(ntasks.div_ceil(slots).max(1));
                Ok(MemoryNeed::PerTask(bytes.div_ceil(tasks_per_slot)))
            }
            _ => {
                let root = Path::Root;
                Err(unsupported(
                    root.key("resources").index(0),
                    Unsupported::MemoryTwice,
                ))
            }
        }
    }
}

fn choice(key: &str, given: &Value, allowed: &'static str) -> JobspecError {
    JobspecError::Choice {
        path: format!("attributes.system.{key}"),
        given: given.to_string().chars().take(64).collect(),
        allowed,
    }
}

/// `slot>core`, `slot>socket>core`, or `slot>node>core`, whose slots are whole nodes.
fn slots(slot: &Vertex, path: Path<'_>) -> Result<Shape, JobspecError> {
    let (sharing, node_memory) = (Sharing::Shared, 0);
    if let Some(within) = sockets_in_slot(slot, path)? {
        return Ok(Shape::in_sockets(None, within));
    }
    let node = slot.with.first().filter(|only| only.kind == "node");
    let Some(only) = node.filter(|_| slot.with.len() == 1) else {
        return Ok(Shape {
            nodes: None,
            slots: fixed(slot, path)?,
            slot: slot_contents(slot, path)?,
            sockets: None,
            node_memory,
            sharing,
        });
    };
    let count = counted(slot, path)?;
    let with = path.key("with");
    let path = with.index(0);
    match fixed(only, path)? {
        1 => {
            let slot = slot_contents(only, path)?;
            let sharing = Sharing::Exclusive;
            Ok(Shape {
                nodes: Some(count),
                slots: 1,
                slot,
                sockets: None,
                node_memory,
                sharing,
            })
        }
        more => Err(unsupported(path, Unsupported::WideSlot(more))),
    }
}

/// `node>slot>core`, with sockets above or within the slot, perhaps with memory beside them.
fn nodes_of_slots(node: &Vertex, path: Path<'_>) -> Result<Shape, JobspecError> {
    let nodes = counted(node, path)?;
    let with = path.key("with");
    let mut shape: Option<Shape> = None;
    let mut node_memory = 0;
    for (at, vertex) in node.with.iter().enumerate() {
        let path = with.index(at);
        match vertex.kind.as_str() {
            "slot" | "socket" if shape.is_none() => {
                shape = Some(on_node(nodes.clone(), vertex, path)?);
            }
            "memory" if node_memory == 0 => node_memory = memory_of(vertex, path)?,
            "slot" | "socket" | "memory" => {
                return Err(unsupported(
                    path,
                    Unsupported::KindTwice(vertex.kind.clone()),
                ));
            }
            other => return Err(unsupported(path, Unsupported::Kind(other.to_owned()))),
        }
    }
    // A jobspec has a slot; if it is not here, it is not in this tree at all.
    let shape = shape.ok_or_else(|| unsupported(path, Unsupported::NoCores))?;
    let sharing = node.exclusive.unwrap_or_default();
    Ok(Shape {
        node_memory,
        sharing,
        ..shape
    })
}

/// What lies on each node.
fn on_node(nodes: Count, vertex: &Vertex, path: Path<'_>) -> Result<Shape, JobspecError> {
    let within = match vertex.kind.as_str() {
        "socket" => Some(slots_in_socket(vertex, path)?),
        _ => sockets_in_slot(vertex, path)?,
    };
    if let Some(within) = within {
        return Ok(Shape::in_sockets(Some(nodes), within.on_one_node()));
    }
    Ok(Shape {
        nodes: Some(nodes),
        slots: fixed(vertex, path)?,
        slot: slot_contents(vertex, path)?,
        sockets: None,
        node_memory: 0,
        sharing: Sharing::Shared,
    })
}

/// What a slot, or the one node in it, has: cores, GPUs, memory, each once.
pub(super) fn slot_contents(vertex: &Vertex, path: Path<'_>) -> Result<Slot, JobspecError> {
    let mut slot = Slot::default();
    let with = path.key("with");
    if vertex.exclusive == Some(Sharing::Shared) {
        return Err(unsupported(path.key("exclusive"), Unsupported::SharedSlot));
    }
    for (at, vertex) in vertex.with.iter().enumerate() {
        let path = with.index(at);
        let twice = || unsupported(path, Unsupported::KindTwice(vertex.kind.clone()));
        match vertex.kind.as_str() {
            "core" if slot.cores == 0 => slot.cores = leaf(vertex, path)?,
            "gpu" if slot.gpus == 0 => slot.gpus = leaf(vertex, path)?,
            "memory" if slot.memory == 0 => slot.memory = memory_of(vertex, path)?,
            "core" | "gpu" | "memory" => return Err(twice()),
            other => return Err(unsupported(path, Unsupported::Kind(other.to_owned()))),
        }
    }
    Ok(slot)
}

pub(super) fn leaf(vertex: &Vertex, path: Path<'_>) -> Result<u32, JobspecError> {
    if !vertex.with.is_empty() {
        return Err(unsupported(
            path.key("with"),
            Unsupported::Within(vertex.kind.clone()),
        ));
    }
    if vertex.exclusive == Some(Sharing::Shared) {
        return Err(unsupported(path.key("exclusive"), Unsupported::SharedSlot));
    }
    fixed(vertex, path)
}

fn memory_of(vertex: &Vertex, path: Path<'_>) -> Result<u64, JobspecError> {
    let count = leaf(vertex, path)?;
    let unit = vertex.unit.as_deref().unwrap_or_default();
    let bytes = unit_shift(unit).and_then(|shift| times_unit(u64::from(count), shift));
    bytes.ok_or_else(|| {
        unsupported(
            path,
            Unsupported::Memory {
                count,
                unit: unit.to_owned(),
            },
        )
    })
}

pub(super) fn counted(vertex: &Vertex, path: Path<'_>) -> Result<Count, JobspecError> {
    match vertex.id {
        Some(_) => Err(unsupported(path.key("id"), Unsupported::Id)),
        None => Ok(vertex.count.clone()),
    }
}

pub(super) fn fixed(vertex: &Vertex, path: Path<'_>) -> Result<u32, JobspecError> {
    counted(vertex, path)?;
    vertex.count.fixed().ok_or_else(|| {
        unsupported(
            path.key("count"),
            Unsupported::Choice(vertex.count.to_string()),
        )
    })
}
