//! Reading a jobspec from JSON or YAML: typed, bounded, with the path of what
//! is wrong.
//!
//! Keys of the format must be known; keys under `attributes.system` and
//! `attributes.user` may be any and are kept (RFC 14: they must not fail).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{
    Attributes, Count, Dependency, Environment, JOBSPEC_BYTES_MAX, Jobspec, JobspecError,
    MemoryNeed, NESTING_MAX, Sharing, Shell, System, TASKS_MAX, Task, TaskCount, VERTEX_DEPTH_MAX,
    Vertex,
};
use crate::field::{self, FieldError, Object, Path};
use crate::fsd::micros_of_seconds;

const DOCUMENT: &[&str] = &["version", "resources", "tasks", "attributes"];
const VERTEX: &[&str] = &["type", "count", "unit", "exclusive", "with", "label", "id"];
const TASK: &[&str] = &["command", "slot", "count", "distribution", "attributes"];
const TASK_COUNT: &[&str] = &["per_slot", "per_resource", "total"];
const PER_RESOURCE: &[&str] = &["type", "count"];
const ATTRIBUTES: &[&str] = &["system", "user"];

impl Jobspec {
    /// Reads JSON, and if it is none, YAML.
    pub fn parse(bytes: &[u8]) -> Result<Jobspec, JobspecError> {
        let text = bounded_text(bytes)?;
        let value = match serde_json::from_str(text) {
            Ok(value) => value,
            // A document that begins like JSON is told what is wrong with it as JSON.
            Err(error) if text.trim_start().starts_with('{') => return Err(not_json(&error)),
            Err(_) => read_yaml(text)?,
        };
        Jobspec::from_value(value)
    }

    /// Reads JSON.
    pub fn from_json(bytes: &[u8]) -> Result<Jobspec, JobspecError> {
        let text = bounded_text(bytes)?;
        Jobspec::from_value(serde_json::from_str(text).map_err(|error| not_json(&error))?)
    }

    /// Reads a document that is already taken apart.
    pub fn from_value(value: Value) -> Result<Jobspec, JobspecError> {
        if nests_deeper(&value, NESTING_MAX) {
            return Err(JobspecError::TooDeep);
        }
        let root = Path::Root;
        let mut document = Object::closed(value, root, DOCUMENT)?;
        let version = document.need("version", "1")?;
        let version = field::whole(&version, root.key("version"), 1, 1)? as u32;
        let resources = document.need("resources", "an array of vertices")?;
        let resources = read_vertices(resources, root.key("resources"), 1)?;
        let tasks = document.need("tasks", "an array of tasks")?;
        let tasks = read_tasks(tasks, root.key("tasks"))?;
        let attributes = match document.need("attributes", "an object")? {
            Value::Null => Attributes::default(),
            value => read_attributes(value, root.key("attributes"))?,
        };
        let jobspec = Jobspec {
            resources,
            tasks,
            attributes,
            version,
        };
        jobspec.check_labels()?;
        Ok(jobspec)
    }

    fn check_labels(&self) -> Result<(), JobspecError> {
        let mut labels = BTreeSet::new();
        let path = Path::Root;
        gather_labels(&self.resources, path.key("resources"), &mut labels)?;
        for (at, task) in self.tasks.iter().enumerate() {
            if !labels.contains(task.slot.as_str()) {
                let path = path.key("tasks").index(at).key("slot").to_string();
                return Err(JobspecError::NoSlot {
                    path,
                    label: task.slot.clone(),
                });
            }
        }
        Ok(())
    }
}

fn bounded_text(bytes: &[u8]) -> Result<&str, JobspecError> {
    if bytes.len() > JOBSPEC_BYTES_MAX {
        return Err(JobspecError::TooLong { given: bytes.len() });
    }
    str::from_utf8(bytes).map_err(|error| JobspecError::NotUtf8 {
        at: error.valid_up_to(),
    })
}

fn not_json(error: &serde_json::Error) -> JobspecError {
    JobspecError::Syntax {
        format: "JSON",
        what: error.to_string(),
    }
}

fn read_yaml(text: &str) -> Result<Value, JobspecError> {
    // Anchors are a convenience for people; a few suffice, and no small text may grow large.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: NESTING_MAX + 1,
            max_aliases: 1_000,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let what = error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        JobspecError::Syntax {
            format: "YAML",
            what,
        }
    })
}

fn nests_deeper(value: &Value, than: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if than == 0 => true,
        Value::Array(elements) => elements
            .iter()
            .any(|element| nests_deeper(element, than - 1)),
        Value::Object(members) => members
            .values()
            .any(|member| nests_deeper(member, than - 1)),
        _ => false,
    }
}

fn gather_labels<'j>(
    vertices: &'j [Vertex],
    path: Path<'_>,
    labels: &mut BTreeSet<&'j str>,
) -> Result<(), JobspecError> {
    for (at, vertex) in vertices.iter().enumerate() {
        let path = path.index(at);
        if let Some(label) = vertex.label.as_deref()
            && vertex.kind == "slot"
            && !labels.insert(label)
        {
            let path = path.key("label").to_string();
            return Err(JobspecError::LabelTwice {
                path,
                label: label.to_owned(),
            });
        }
        gather_labels(&vertex.with, path.key("with"), labels)?;
    }
    Ok(())
}

fn read_vertices(value: Value, path: Path<'_>, depth: usize) -> Result<Vec<Vertex>, JobspecError> {
    if depth > VERTEX_DEPTH_MAX {
        return Err(JobspecError::VertexTooDeep {
            path: path.to_string(),
        });
    }
    let elements = field::some_of(value, path, "at least one vertex")?;
    let read = |(at, element)| read_vertex(element, path.index(at), depth);
    elements.into_iter().enumerate().map(read).collect()
}

fn read_vertex(value: Value, path: Path<'_>, depth: usize) -> Result<Vertex, JobspecError> {
    let mut vertex = Object::closed(value, path, VERTEX)?;
    let kind = field::text(vertex.need("type", "a string")?, path.key("type"))?;
    if kind.is_empty() {
        let path = path.key("type").to_string();
        return Err(FieldError::Empty {
            path,
            allowed: "the name of a type",
        }
        .into());
    }
    let count = vertex.need("count", "a whole number, a string or an object")?;
    let count = Count::read(count, path.key("count"))?;
    let exclusive = match vertex.take("exclusive") {
        None => None,
        Some(Value::Bool(true)) => Some(Sharing::Exclusive),
        Some(Value::Bool(false)) => Some(Sharing::Shared),
        Some(other) => return Err(field::wrong(path.key("exclusive"), &other, "a boolean").into()),
    };
    let label = vertex.text("label")?;
    let with = vertex.take("with");
    let missing = |key: &str, allowed| FieldError::Missing {
        path: path.key(key).to_string(),
        allowed,
    };
    if kind == "slot" && label.is_none() {
        return Err(missing("label", "a string, that tasks name the slot by").into());
    }
    if kind == "slot" && with.is_none() {
        return Err(missing("with", "an array of vertices").into());
    }
    let with = with
        .map(|value| read_vertices(value, path.key("with"), depth + 1))
        .transpose()?;
    Ok(Vertex {
        kind,
        count,
        unit: vertex.text("unit")?,
        exclusive,
        with: with.unwrap_or_default(),
        label,
        id: vertex.text("id")?,
    })
}

fn read_tasks(value: Value, path: Path<'_>) -> Result<Vec<Task>, JobspecError> {
    let elements = field::some_of(value, path, "at least one task")?;
    elements
        .into_iter()
        .enumerate()
        .map(|(at, task)| read_task(task, path.index(at)))
        .collect()
}

fn read_task(value: Value, path: Path<'_>) -> Result<Task, JobspecError> {
    let mut task = Object::closed(value, path, TASK)?;
    let command = task.need("command", "an array of strings")?;
    let allowed = "at least the program";
    let command = field::some_of(command, path.key("command"), allowed)?;
    let word = |(at, word)| field::program_text(word, path.key("command").index(at));
    let command = command
        .into_iter()
        .enumerate()
        .map(word)
        .collect::<Result<Vec<_>, _>>()?;
    if command[0].is_empty() {
        let path = path.key("command").index(0).to_string();
        return Err(FieldError::Empty {
            path,
            allowed: "a program",
        }
        .into());
    }
    let slot = field::text(task.need("slot", "the label of a slot")?, path.key("slot"))?;
    let count = read_task_count(task.need("count", "an object")?, path.key("count"))?;
    let distribution = task.text("distribution")?;
    Ok(Task {
        command,
        slot,
        count,
        distribution,
        attributes: task.map("attributes")?,
    })
}

fn read_task_count(value: Value, path: Path<'_>) -> Result<TaskCount, JobspecError> {
    let mut count = Object::closed(value, path, TASK_COUNT)?;
    let taken = (
        count.take("per_slot"),
        count.take("per_resource"),
        count.take("total"),
    );
    let number = |value: &Value, path: Path<'_>| {
        field::whole(value, path, 1, u64::from(TASKS_MAX)).map(|number| number as u32)
    };
    match taken {
        (Some(value), None, None) => Ok(TaskCount::PerSlot(number(&value, path.key("per_slot"))?)),
        (None, None, Some(value)) => Ok(TaskCount::Total(number(&value, path.key("total"))?)),
        (None, Some(value), None) => {
            let path = path.key("per_resource");
            let mut per = Object::closed(value, path, PER_RESOURCE)?;
            let kind = field::text(per.need("type", "a string")?, path.key("type"))?;
            let count = number(&per.need("count", "a whole number")?, path.key("count"))?;
            Ok(TaskCount::PerResource { kind, count })
        }
        _ => Err(JobspecError::Choice {
            path: path.to_string(),
            given: "none or several".to_owned(),
            allowed: "exactly one of per_slot, per_resource and total",
        }),
    }
}

fn read_attributes(value: Value, path: Path<'_>) -> Result<Attributes, JobspecError> {
    let mut attributes = Object::closed(value, path, ATTRIBUTES)?;
    let user = attributes.map("user")?;
    let system = match attributes.take("system") {
        None => System::default(),
        Some(value) => read_system(Object::open(value, path.key("system"))?)?,
    };
    Ok(Attributes { system, user })
}

fn read_system(mut system: Object<'_>) -> Result<System, JobspecError> {
    let path = system.path;
    let duration = system
        .take("duration")
        .map(|value| read_duration(&value, path.key("duration")));
    let cwd = system
        .take("cwd")
        .map(|value| field::program_text(value, path.key("cwd")));
    let environment = read_environment(&mut system)?;
    let dependencies = match system.take("dependencies") {
        None => Vec::new(),
        Some(value) => read_dependencies(value, path.key("dependencies"))?,
    };
    let job = read_job(&mut system)?;
    let shell = match system.take("shell") {
        None => Shell::default(),
        Some(value) => {
            let path = path.key("shell");
            let mut shell = Object::open(value, path)?;
            Shell {
                options: shell.map("options")?,
                other: shell.rest,
            }
        }
    };
    Ok(System {
        duration: duration.transpose()?.unwrap_or(0),
        cwd: cwd.transpose()?,
        environment,
        queue: system.text("queue")?,
        bank: system.text("bank")?,
        account: system.text("account")?,
        qos: system.text("qos")?,
        class: system.text("class")?,
        project: system.text("project")?,
        dependencies,
        constraints: system.map("constraints")?,
        job,
        shell,
        files: system.map("files")?,
        memory: MemoryNeed::take(&mut system)?,
        other: system.rest,
    })
}

fn read_duration(value: &Value, path: Path<'_>) -> Result<i64, JobspecError> {
    let seconds = value
        .as_f64()
        .ok_or_else(|| field::wrong(path, value, "a number of seconds"))?;
    micros_of_seconds(seconds).map_err(|source| JobspecError::Duration {
        path: path.to_string(),
        source,
    })
}

fn read_environment(system: &mut Object<'_>) -> Result<Environment, JobspecError> {
    let parent = system.path;
    let path = parent.key("environment");
    let mut environment = Environment::new();
    for (name, value) in system.map("environment")? {
        // What execve cannot carry is refused here, not when the task starts.
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(JobspecError::Choice {
                path: path.to_string(),
                given: name.chars().take(64).collect(),
                allowed: "a name without = and NUL",
            });
        }
        let value = match value {
            Value::Null => None,
            value => Some(field::program_text(value, path.key(&name))?),
        };
        environment.insert(name, value);
    }
    Ok(environment)
}

fn read_dependencies(value: Value, path: Path<'_>) -> Result<Vec<Dependency>, JobspecError> {
    let mut dependencies = Vec::new();
    for (at, value) in field::array(value, path)?.into_iter().enumerate() {
        let path = path.index(at);
        let mut dependency = Object::open(value, path)?;
        let scheme = field::text(dependency.need("scheme", "a string")?, path.key("scheme"))?;
        let value = field::text(dependency.need("value", "a string")?, path.key("value"))?;
        dependencies.push(Dependency {
            scheme,
            value,
            other: dependency.rest,
        });
    }
    Ok(dependencies)
}

fn read_job(system: &mut Object<'_>) -> Result<BTreeMap<String, String>, JobspecError> {
    let parent = system.path;
    let path = parent.key("job");
    let mut job = BTreeMap::new();
    for (key, value) in system.map("job")? {
        let value = field::text(value, path.key(&key))?;
        job.insert(key, value);
    }
    Ok(job)
}

impl<'de> Deserialize<'de> for Jobspec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Jobspec, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Jobspec::from_value(value).map_err(|e| serde::de::Error::custom(field::chain(&e)))
    }
}
