//! From what a person types (`-N 2 -n 8 -c 4`) to a jobspec of version 1
//! (RFC 25), with Flux's arithmetic.
//!
//! The command line and the Slurm and PBS fronts fill an [`Ask`]. It reads no
//! environment and no directory: those are given.

use serde_json::{Map, Value, json};
use thiserror::Error;

use super::{
    Arrange, Count, Environment, Jobspec, JobspecError, MemoryNeed, Place, Sharing, Takes, Work,
};
use crate::constraint::Constraint;
use crate::fsd::seconds_of_micros;
use crate::idset::Idset;

/// How many parts a dotted key may have.
const KEY_PARTS_MAX: usize = 16;

/// What is asked on a command line. Start from `Ask::default()`.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Program and arguments.
    pub command: Vec<String>,
    /// `-n`: how many tasks; 1 if nothing is said.
    pub ntasks: Option<u32>,
    /// `-N`: on how many nodes, or a choice of numbers. Without `-n`: whole nodes, one task on each.
    pub nodes: Option<Count>,
    /// `-c`
    pub cores_per_task: u32,
    /// `-g`
    pub gpus_per_task: u32,
    /// `--tasks-per-socket`: tasks lie in sockets, at most so many in each.
    pub tasks_per_socket: Option<u32>,
    /// `--whole-sockets`: whether others may have the rest of those.
    pub sockets: Sharing,
    /// `-x`: needs `-N`.
    pub sharing: Sharing,
    /// `--place`: how tasks lie on nodes; what it says of sharing holds beside `-x`.
    pub place: Place,
    /// `-r`: only these ranks will do.
    pub ranks: Option<Idset>,
    /// `--requires`: only nodes that are like this, beside what `ranks` says.
    pub constraint: Option<Constraint>,
    /// Nothing: the tasks run beside what is granted on the ranks named.
    pub takes: Takes,
    /// What the command is; that of an instance is its leader's, one task.
    pub work: Work,
    /// `-t`, in microseconds; 0 is unset.
    pub duration: i64,
    /// `--mem` and its like.
    pub memory: MemoryNeed,
    /// `--job-name`
    pub name: Option<String>,
    /// `--cwd`
    pub cwd: Option<String>,
    /// The environment tasks get.
    pub environment: Environment,
    /// `-q`
    pub queue: Option<String>,
    /// `-B`
    pub bank: Option<String>,
    /// `--account`
    pub account: Option<String>,
    /// `--qos`
    pub qos: Option<String>,
    /// `--class`
    pub class: Option<String>,
    /// `-o`: dotted keys under `system.shell.options`, later ones win.
    pub shell_options: Vec<(String, Value)>,
    /// `-S`: dotted keys, under `system` unless they begin with `system.`, `user.` or a dot.
    pub attributes: Vec<(String, Value)>,
}

impl Default for Ask {
    fn default() -> Ask {
        Ask {
            command: Vec::new(),
            ntasks: None,
            nodes: None,
            cores_per_task: 1,
            gpus_per_task: 0,
            tasks_per_socket: None,
            sockets: Sharing::Shared,
            sharing: Sharing::Shared,
            place: Place::default(),
            ranks: None,
            constraint: None,
            takes: Takes::Resources,
            work: Work::Tasks,
            duration: 0,
            memory: MemoryNeed::None,
            name: None,
            cwd: None,
            environment: Environment::new(),
            queue: None,
            bank: None,
            account: None,
            qos: None,
            class: None,
            shell_options: Vec::new(),
            attributes: Vec::new(),
        }
    }
}

/// Why an ask makes no jobspec.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum AskError {
    /// Fewer tasks than nodes.
    #[error(
        "{nodes} nodes are asked for {tasks} tasks; allowed are at most as many nodes as tasks"
    )]
    MoreNodesThanTasks {
        /// Nodes.
        nodes: u32,
        /// Tasks.
        tasks: u32,
    },
    /// So many tasks, on a number of nodes that is left open.
    #[error(
        "{tasks} tasks are asked for on {nodes} nodes; on a choice of nodes allowed is one task on each, and no number"
    )]
    TasksOnChoice {
        /// Nodes.
        nodes: Count,
        /// Tasks.
        tasks: u32,
    },
    /// Whole nodes, but not how many.
    #[error(
        "exclusive needs a number of nodes; a place of excl takes those whole that tasks lie on"
    )]
    ExclusiveWithoutNodes,
    /// Whole nodes, and not.
    #[error("exclusive and a place of shared are asked for; allowed is one of them")]
    ExclusiveAndShared,
    /// All on one node, but more are asked for.
    #[error("a place of pack is asked for on {nodes} nodes; allowed is 1 node")]
    PackedOnNodes {
        /// Nodes.
        nodes: Count,
    },
    /// Each on a node of its own, but there are not as many nodes as tasks.
    #[error(
        "a place of scatter is asked for {tasks} tasks on {nodes} nodes; allowed are as many nodes as tasks"
    )]
    ScatteredOnNodes {
        /// Nodes.
        nodes: u32,
        /// Tasks.
        tasks: u32,
    },
    /// A key that is empty, has an empty part, or too many parts.
    #[error("key `{key}` is not 1 to {KEY_PARTS_MAX} names with dots between")]
    Key {
        /// As given.
        key: String,
    },
    /// A key leads through a value that holds no others.
    #[error("key `{key}` leads through `{through}`, which is a value and not a table")]
    Through {
        /// As given.
        key: String,
        /// The part of it that is a value.
        through: String,
    },
    /// The jobspec that comes out is refused.
    #[error(transparent)]
    Jobspec(#[from] JobspecError),
}

impl Ask {
    /// The jobspec this asks for.
    pub fn jobspec(&self) -> Result<Jobspec, AskError> {
        let (resource, count) = self.resource()?;
        let count = match self.work {
            Work::Tasks | Work::Ground { .. } => count,
            Work::Instance { .. } => json!({ "total": 1 }),
        };
        let mut attributes = json!({ "system": self.system() });
        for (key, value) in &self.shell_options {
            set(
                &mut attributes,
                key,
                &format!("system.shell.options.{key}"),
                value,
            )?;
        }
        for (key, value) in &self.attributes {
            set(&mut attributes, key, &attribute_path(key), value)?;
        }
        let document = json!({
            "resources": [resource],
            "tasks": [{ "command": self.command, "slot": "task", "count": count }],
            "attributes": attributes,
            "version": 1,
        });
        Ok(Jobspec::from_value(document)?)
    }

    /// The resource tree and the count of tasks.
    fn resource(&self) -> Result<(Value, Value), AskError> {
        let mut with = vec![json!({ "type": "core", "count": self.cores_per_task })];
        if self.gpus_per_task > 0 {
            with.push(json!({ "type": "gpu", "count": self.gpus_per_task }));
        }
        let slot =
            |count: u32| json!({ "type": "slot", "count": count, "with": with, "label": "task" });
        let per_slot = json!({ "per_slot": 1 });
        let choice = self.choice()?;
        let (sharing, arranged) = (self.sharing()?, self.arranged()?);
        let Some(nodes) = arranged else {
            return match (self.sharing, self.place.sharing) {
                (Sharing::Exclusive, None) => Err(AskError::ExclusiveWithoutNodes),
                // What its place says stands with its attributes.
                _ => {
                    let tasks = self.ntasks.unwrap_or(1);
                    let (within, slots) = self.in_sockets(tasks, slot);
                    match slots == tasks {
                        true => Ok((within, per_slot)),
                        false => Ok((within, json!({ "total": tasks }))),
                    }
                }
            };
        };
        let (tasks, sharing) = match (self.ntasks, &self.nodes) {
            (Some(tasks), _) => (tasks, sharing.unwrap_or_default()),
            // Nodes alone are whole ones, if nothing else is said.
            (None, Some(_)) => (nodes, sharing.unwrap_or(Sharing::Exclusive)),
            (None, None) => (nodes, sharing.unwrap_or_default()),
        };
        if nodes > tasks {
            return Err(AskError::MoreNodesThanTasks { nodes, tasks });
        }
        // Zero nodes is refused with the rest, when the document is read.
        let (within, slots) = self.in_sockets(tasks.div_ceil(nodes.max(1)), slot);
        let even = nodes == 0 || slots.checked_mul(nodes) == Some(tasks);
        let of_nodes = choice.map_or_else(|| json!(nodes), |choice| json!(choice));
        let mut node = json!({ "type": "node", "count": of_nodes, "with": [within] });
        if sharing == Sharing::Exclusive {
            node["exclusive"] = Value::Bool(true);
        }
        let count = if even {
            per_slot
        } else {
            json!({ "total": tasks })
        };
        Ok((node, count))
    }

    /// So many slots or some more, in sockets where that is asked for: as many in each.
    fn in_sockets(&self, slots: u32, slot: impl Fn(u32) -> Value) -> (Value, u32) {
        let Some(most) = self.tasks_per_socket else {
            return (slot(slots), slots);
        };
        let sockets = slots.div_ceil(most.max(1)).max(1);
        let each = slots.div_ceil(sockets);
        let mut socket = json!({ "type": "socket", "count": sockets, "with": [slot(each)] });
        if self.sockets == Sharing::Exclusive {
            socket["exclusive"] = Value::Bool(true);
        }
        (socket, sockets.saturating_mul(each))
    }

    /// What of its nodes is left open.
    fn choice(&self) -> Result<Option<&Count>, AskError> {
        let choice = self.nodes.as_ref().filter(|nodes| nodes.fixed().is_none());
        let Some(nodes) = choice else {
            return Ok(None);
        };
        match (self.ntasks, self.place.arrange) {
            (Some(tasks), _) => Err(AskError::TasksOnChoice {
                nodes: nodes.clone(),
                tasks,
            }),
            (None, Arrange::Pack) => Err(AskError::PackedOnNodes {
                nodes: nodes.clone(),
            }),
            (None, Arrange::Free | Arrange::Scatter) => Ok(Some(nodes)),
        }
    }

    /// Whether nodes are nobody else's, where that is said.
    fn sharing(&self) -> Result<Option<Sharing>, AskError> {
        match (self.sharing, self.place.sharing) {
            (Sharing::Exclusive, Some(Sharing::Shared)) => Err(AskError::ExclusiveAndShared),
            (Sharing::Exclusive, _) => Ok(Some(Sharing::Exclusive)),
            (Sharing::Shared, said) => Ok(said),
        }
    }

    /// On how many nodes its tasks lie, if not anywhere.
    fn arranged(&self) -> Result<Option<u32>, AskError> {
        let nodes = self.nodes.as_ref().map(Count::least);
        let tasks = self.ntasks.or(nodes).unwrap_or(1);
        match (self.place.arrange, nodes) {
            (Arrange::Free, nodes) => Ok(nodes),
            (Arrange::Pack, None | Some(1)) => Ok(Some(1)),
            (Arrange::Pack, Some(nodes)) => Err(AskError::PackedOnNodes {
                nodes: nodes.into(),
            }),
            (Arrange::Scatter, Some(nodes)) if nodes != tasks => {
                Err(AskError::ScatteredOnNodes { nodes, tasks })
            }
            (Arrange::Scatter, _) => Ok(Some(tasks)),
        }
    }

    /// What its resources cannot say of its place.
    fn place(&self) -> Option<Value> {
        match (self.place, &self.nodes) {
            (
                Place {
                    arrange: Arrange::Free,
                    sharing: Some(Sharing::Exclusive),
                },
                None,
            ) => Some(json!("excl")),
            _ => None,
        }
    }

    fn constraints(&self) -> Option<Value> {
        let ranks = self.ranks.clone().map(Constraint::Ranks);
        let given = ranks.into_iter().chain(self.constraint.clone());
        let mut given: Vec<Constraint> = given.collect();
        match given.len() {
            0 | 1 => given.pop().map(|one| one.to_value()),
            _ => Some(Constraint::And(given).to_value()),
        }
    }

    fn system(&self) -> Value {
        let mut system = json!({ "duration": seconds_of_micros(self.duration) });
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                system[key] = value;
            }
        };
        let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
        put("cwd", text(&self.cwd));
        put("environment", Some(json!(self.environment)));
        put("constraints", self.constraints());
        put("place", self.place());
        put(
            "beside",
            (self.takes == Takes::Nothing).then(|| true.into()),
        );
        put(
            "instance",
            match &self.work {
                Work::Tasks | Work::Ground { .. } => None,
                Work::Instance { name: None } => Some(json!({})),
                Work::Instance { name } => Some(json!({ "name": name })),
            },
        );
        put(
            "grows",
            match self.work {
                Work::Ground { of } => Some(of.0.into()),
                Work::Tasks | Work::Instance { .. } => None,
            },
        );
        put("queue", text(&self.queue));
        put("bank", text(&self.bank));
        put("account", text(&self.account));
        put("qos", text(&self.qos));
        put("class", text(&self.class));
        put(
            "job",
            self.name.as_ref().map(|name| json!({ "name": name })),
        );
        match self.memory {
            MemoryNeed::None => {}
            MemoryNeed::PerNode(bytes) => put("memory_per_node", Some(bytes.into())),
            MemoryNeed::PerCore(bytes) => put("memory_per_core", Some(bytes.into())),
            MemoryNeed::PerTask(bytes) => put("memory_per_task", Some(bytes.into())),
        }
        system
    }
}

/// Where `-S` puts a key.
fn attribute_path(key: &str) -> String {
    if let Some(absolute) = key.strip_prefix('.') {
        return absolute.to_owned();
    }
    if key.starts_with("system.") || key.starts_with("user.") {
        return key.to_owned();
    }
    format!("system.{key}")
}

/// Puts `value` at the dotted `path` of `tree`, making the tables on the way.
fn set(tree: &mut Value, key: &str, path: &str, value: &Value) -> Result<(), AskError> {
    let parts: Vec<&str> = path.split('.').collect();
    if parts.len() > KEY_PARTS_MAX || parts.contains(&"") {
        return Err(AskError::Key {
            key: key.to_owned(),
        });
    }
    let (last, tables) = parts.split_last().expect("a split has at least one part");
    let mut table = tree;
    for (at, part) in tables.iter().enumerate() {
        let through = || AskError::Through {
            key: key.to_owned(),
            through: parts[..at].join("."),
        };
        let members = table.as_object_mut().ok_or_else(through)?;
        table = members
            .entry(*part)
            .or_insert_with(|| Value::Object(Map::new()));
    }
    let through = || AskError::Through {
        key: key.to_owned(),
        through: tables.join("."),
    };
    let members = table.as_object_mut().ok_or_else(through)?;
    members.insert((*last).to_owned(), value.clone());
    Ok(())
}
