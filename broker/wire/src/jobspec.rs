//! What is asked for: a jobspec (RFC 14, RFC 25), JSON or YAML in, JSON out.
//!
//! Ingest reads it, the scheduler takes its [`Request`], the shell its tasks and
//! attributes; the command line makes one from an [`Ask`]. It never says what
//! was given (that is a grant).

mod ask;
mod choice;
mod count;
mod memory;
mod need;
mod place;
mod read;
mod request;
mod sockets;
mod unread;
mod unsupported;

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value};
use thiserror::Error;

pub use ask::{Ask, AskError};
pub use choice::{Choice, Tasks};
pub use count::{Count, CountError, CountRange, Operator};
pub use memory::{BytesError, MemoryNeed, format_bytes, parse_bytes};
pub use need::{After, DEPENDENCIES_MAX, Need, is_word};
pub use place::{Arrange, Place, PlaceError};
pub use request::{Leader, Request, Sharing, Takes, Work};
pub use sockets::SocketGroup;
pub use unsupported::Unsupported;

use crate::constraint::ConstraintError;
use crate::field::FieldError;
use crate::fsd::{FsdError, seconds_of_micros};
use crate::json;

/// The longest text of a jobspec, in bytes.
pub const JOBSPEC_BYTES_MAX: usize = 4 << 20;

/// The most tasks of a job.
pub const TASKS_MAX: u32 = 65_536;

/// How deep resource vertices may nest.
pub const VERTEX_DEPTH_MAX: usize = 16;

/// How deep objects and arrays of a jobspec may nest, attributes included. Less than half of
/// what readers of JSON take, so that a jobspec can ride in messages and records.
pub const NESTING_MAX: usize = 48;

/// Environment variables by name; `None` unsets one.
pub type Environment = BTreeMap<String, Option<String>>;

/// A request to run one program. Serialized it is canonical JSON; unset parts are absent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Jobspec {
    /// The resources, as trees; at least one.
    pub resources: Vec<Vertex>,
    /// What runs in the slots; at least one.
    pub tasks: Vec<Task>,
    /// All else.
    pub attributes: Attributes,
    /// The version of the format: 1.
    pub version: u32,
}

/// A vertex of the resource tree: so many things of one type, and what is in each.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Vertex {
    /// `node`, `slot`, `core`, `gpu`, or a type of a larger graph.
    #[serde(rename = "type")]
    pub kind: String,
    /// How many.
    pub count: Count,
    /// What `count` counts in, where that is not pieces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Whether others may use it; unset is exclusive in a slot and shared outside (RFC 14).
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "write_sharing"
    )]
    pub exclusive: Option<Sharing>,
    /// What is in each of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<Vertex>,
    /// The name that tasks know a slot by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Which ones, by number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// A command and where it runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Task {
    /// Program and arguments; at least the program.
    pub command: Vec<String>,
    /// The label of its slots.
    pub slot: String,
    /// How many tasks.
    pub count: TaskCount,
    /// Hints on the order of tasks over slots, unread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<String>,
    /// Extensions, unread.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}

/// How many tasks run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskCount {
    /// So many in each slot.
    PerSlot(u32),
    /// So many for each resource of a type in the slots.
    PerResource {
        /// The type.
        #[serde(rename = "type")]
        kind: String,
        /// How many tasks for each.
        count: u32,
    },
    /// So many over all slots.
    Total(u32),
}

/// Attributes of a jobspec.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Attributes {
    /// What the instance and the shell read.
    pub system: System,
    /// What only the user reads.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub user: Map<String, Value>,
}

/// The attributes under `system`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct System {
    /// Time limit in microseconds (seconds in JSON); 0 is unset.
    #[serde(serialize_with = "write_duration")]
    pub duration: i64,
    /// Working directory of the tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment of the tasks.
    #[serde(skip_serializing_if = "Environment::is_empty")]
    pub environment: Environment,
    /// The queue it was submitted to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The account that is charged, in Flux's word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bank: Option<String>,
    /// The account that is charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The QoS that it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// The class that it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The project it is done for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// What it waits for (RFC 26).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
    /// Which nodes it can use (RFC 31); read with the request.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub constraints: Map<String, Value>,
    /// Texts about the job, `name` among them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub job: BTreeMap<String, String>,
    /// What the shell reads.
    #[serde(skip_serializing_if = "Shell::is_empty")]
    pub shell: Shell,
    /// Files that come with the job (RFC 37), unread here.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub files: Map<String, Value>,
    /// Memory: one of `memory_per_node`, `memory_per_core`, `memory_per_task`.
    #[serde(flatten)]
    pub memory: MemoryNeed,
    /// Attributes that are not known here; kept as they are.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Something a job waits for (RFC 26).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dependency {
    /// The kind: `afterok`, `begin-time`, ...
    pub scheme: String,
    /// What of it: a job id, a time, ...
    pub value: String,
    /// Parameters of the scheme.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The attributes under `system.shell`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Shell {
    /// The options given by `-o`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
    /// Keys that are not known here; kept as they are.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Why a document is not a jobspec, or not one that can be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum JobspecError {
    /// A part of it is not what belongs there.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// Longer than [`JOBSPEC_BYTES_MAX`].
    #[error("jobspec has {given} bytes; allowed are at most {JOBSPEC_BYTES_MAX}")]
    TooLong {
        /// Its length.
        given: usize,
    },
    /// Not text.
    #[error("jobspec is not UTF-8 from position {at}")]
    NotUtf8 {
        /// Where the first wrong byte is, from 0.
        at: usize,
    },
    /// Neither JSON nor YAML; what it looked like could not be read.
    #[error("jobspec is not {format}: {what}")]
    Syntax {
        /// `JSON` or `YAML`.
        format: &'static str,
        /// What the reader says, with line and column.
        what: String,
    },
    /// Objects and arrays nest deeper than [`NESTING_MAX`].
    #[error("jobspec nests deeper than {NESTING_MAX} objects and arrays")]
    TooDeep,
    /// Vertices nest deeper than [`VERTEX_DEPTH_MAX`].
    #[error("{path}: vertices nest deeper than {VERTEX_DEPTH_MAX}")]
    VertexTooDeep {
        /// Where the first one too deep is.
        path: String,
    },
    /// A count cannot be read.
    #[error("{path}: is not a count")]
    Count {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: CountError,
    },
    /// A duration cannot be used.
    #[error("{path}: is not a duration")]
    Duration {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: FsdError,
    },
    /// An amount of memory cannot be read.
    #[error("{path}: is not an amount of memory")]
    Memory {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: BytesError,
    },
    /// Memory is asked for in two ways.
    #[error("{path}: is given beside another of memory_per_node, memory_per_core, memory_per_task")]
    MemoryTwice {
        /// The second.
        path: String,
    },
    /// A text that must be one of a few is another.
    #[error("{path}: is {given:?}; allowed is {allowed}")]
    Choice {
        /// Where.
        path: String,
        /// What is there.
        given: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// Two slots have one label.
    #[error("{path}: label {label:?} is given twice")]
    LabelTwice {
        /// Where the second is.
        path: String,
        /// The label.
        label: String,
    },
    /// A task names a slot that is not there.
    #[error("{path}: no slot has the label {label:?}")]
    NoSlot {
        /// Where.
        path: String,
        /// The label.
        label: String,
    },
    /// More tasks than [`TASKS_MAX`].
    #[error("job has {given} tasks; allowed are at most {TASKS_MAX}")]
    TooManyTasks {
        /// How many.
        given: u64,
    },
    /// What its nodes must be like cannot be read (RFC 31).
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// A jobspec that is right, and whose shape this scheduler does not serve.
    #[error("{path}: {what}")]
    Unsupported {
        /// Where.
        path: String,
        /// What it is.
        what: Unsupported,
    },
}

impl Jobspec {
    /// Canonical JSON text.
    pub fn to_json(&self) -> String {
        json::to_string(self)
    }

    /// Whether an instance has an initial program: what is behind `--` in the command of its leader, or, where nothing
    /// is, the script that comes along.
    pub fn has_program(&self) -> bool {
        let command = self.tasks.first().map(|task| &task.command);
        command.is_some_and(|command| command.iter().any(|word| word == "--"))
    }

    /// The job's name: `system.job.name`, or the last part of the program's path.
    pub fn name(&self) -> &str {
        let command = || {
            let program = self.tasks.first().and_then(|task| task.command.first());
            program.map_or("", |path| {
                path.rsplit('/')
                    .find(|part| !part.is_empty())
                    .unwrap_or(path)
            })
        };
        self.attributes
            .system
            .job
            .get("name")
            .map_or_else(command, String::as_str)
    }

    /// The shell option of a dotted key, `output.stdout.path`.
    pub fn shell_option(&self, key: &str) -> Option<&Value> {
        let (first, rest) = key
            .split_once('.')
            .map_or((key, None), |(f, rest)| (f, Some(rest)));
        let start = self.attributes.system.shell.options.get(first)?;
        rest.map_or(Some(start), |rest| {
            rest.split('.')
                .try_fold(start, |value, part| value.as_object()?.get(part))
        })
    }

    /// Takes the environment out, leaving none, so that it can be kept apart by its hash.
    pub fn take_environment(&mut self) -> Environment {
        std::mem::take(&mut self.attributes.system.environment)
    }

    /// Puts an environment in, in place of what is there.
    pub fn put_environment(&mut self, environment: Environment) {
        self.attributes.system.environment = environment;
    }
}

impl Shell {
    /// Whether nothing is said to the shell.
    pub fn is_empty(&self) -> bool {
        self.options.is_empty() && self.other.is_empty()
    }
}

// serde gives serializers of a field a reference to it.
fn write_sharing<S: Serializer>(
    sharing: &Option<Sharing>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match sharing {
        None => serializer.serialize_none(),
        Some(Sharing::Exclusive) => serializer.serialize_bool(true),
        Some(Sharing::Shared) => serializer.serialize_bool(false),
    }
}

fn write_duration<S: Serializer>(micros: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    let seconds: Number = seconds_of_micros(*micros);
    seconds.serialize(serializer)
}
