//! A workload written as JSON.
//!
//! A job says how many processors it needs, or asks of nodes what a jobspec
//! (RFC 25) can ask. Bytes in, a workload out.

use eddy_wire::gang;
use eddy_wire::jobspec::{Jobspec, Request};
use eddy_wire::time::Span;
use serde::Deserialize;
use serde_json::Value;

use super::workload::{
    Owner, Places, Shares, SimJob, Terms, UNKNOWN, Workload, WorkloadError, instant, twice,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    procs: Option<u64>,
    jobs: Vec<TextJob>,
    #[serde(default)]
    shares: Shares,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextJob {
    id: u64,
    submit: f64,
    run: f64,
    procs: Option<u64>,
    nodes: Option<u64>,
    jobspec: Option<Value>,
    limit: Option<f64>,
    user: Option<String>,
    group: Option<String>,
    queue: Option<String>,
    qos: Option<String>,
    class: Option<String>,
    urgency: Option<u8>,
}

/// Reads `{"procs": N, "jobs": [{"id", "submit", "run", "procs", "nodes", "jobspec", "limit", "user",
/// "group", "queue", "qos", "class", "urgency"}], "shares": {ACCOUNT: N}}`; times are in seconds. Of a
/// job the first three and one of `procs` and `jobspec` are there; what else it does not say its jobspec
/// may.
///
/// # Errors
/// [`WorkloadError`] names the line, or the job and the field.
pub fn read_json(text: &[u8]) -> Result<Workload, WorkloadError> {
    let text: Text = serde_json::from_slice(text).map_err(|error| shape_error(text, &error))?;
    if text.procs == Some(0) {
        return Err(WorkloadError::Procs);
    }
    let (mut owners, mut terms) = (Places::default(), Places::default());
    let mut jobs = Vec::with_capacity(text.jobs.len());
    let mut requests = Vec::with_capacity(text.jobs.len());
    for given in text.jobs {
        let asked = given.asked()?;
        jobs.push(given.job(&asked, &mut owners, &mut terms)?);
        requests.push(asked.request);
    }
    if let Some(id) = twice(&jobs) {
        return Err(WorkloadError::Twice(id));
    }
    if requests.iter().all(Option::is_none) {
        requests.clear();
    }
    let mut workload = Workload {
        procs: text.procs,
        jobs,
        owners: owners.list(),
        terms: terms.list(),
        requests,
        ..Workload::default()
    };
    workload.share(text.shares)?;
    Ok(workload)
}

/// What the reader of JSON says of a text, with the line, and the field whose value it does not take.
pub(super) fn shape_error(text: &[u8], error: &serde_json::Error) -> WorkloadError {
    let line = error.line();
    let what = error.to_string();
    // A field that is missing or unknown it names itself.
    let of_value = ["invalid type", "invalid value"];
    let named = of_value.iter().any(|begin| what.starts_with(begin));
    match field_before(text, line, error.column()).filter(|_| named) {
        Some(field) => WorkloadError::Shape {
            line,
            what: format!("{field}: {what}"),
        },
        None => WorkloadError::Shape { line, what },
    }
}

/// The last name of a field that ends before a place of a text; lines and columns count from 1.
fn field_before(text: &[u8], line: usize, column: usize) -> Option<String> {
    let mut lines = text.split_inclusive(|&byte| byte == b'\n');
    let begins: usize = lines
        .by_ref()
        .take(line.checked_sub(1)?)
        .map(<[u8]>::len)
        .sum();
    let before = text.get(..begins.saturating_add(column).min(text.len()))?;
    let colon = before.iter().rposition(|&byte| byte == b':')?;
    let name = before[..colon].trim_ascii_end().strip_suffix(b"\"")?;
    let begin = name.iter().rposition(|&byte| byte == b'"')?;
    let name = String::from_utf8_lossy(&name[begin + 1..]);
    Some(name.chars().take(NAME_SHOWN).collect())
}

/// As much of a name as an error repeats, in characters.
const NAME_SHOWN: usize = 40;

/// What a job asks for: processors, or what its jobspec says.
#[derive(Default)]
struct Asked {
    procs: u64,
    nodes: Option<u64>,
    request: Option<Request>,
    /// What the jobspec says of whose the job is and where it goes.
    limit: Option<Span>,
    group: Option<String>,
    queue: Option<String>,
    qos: Option<String>,
    class: Option<String>,
}

impl TextJob {
    fn wrong(&self, field: &'static str, given: String, allowed: &'static str) -> WorkloadError {
        WorkloadError::Number {
            id: self.id,
            field,
            given,
            allowed,
        }
    }

    fn asked(&self) -> Result<Asked, WorkloadError> {
        let (procs, nodes) = match (self.procs, &self.jobspec) {
            (Some(procs), None) => (procs, self.nodes),
            (None, Some(jobspec)) if self.nodes.is_none() => return self.specified(jobspec),
            (Some(_), Some(_)) => {
                let allowed = "it, or what the jobspec says of them";
                return Err(self.wrong("procs", "given beside a jobspec".to_owned(), allowed));
            }
            (None, Some(_)) => {
                let allowed = "it, or what the jobspec says of them";
                return Err(self.wrong("nodes", "given beside a jobspec".to_owned(), allowed));
            }
            (None, None) => {
                let allowed = "1 or more, or a jobspec";
                return Err(self.wrong("procs", "missing".to_owned(), allowed));
            }
        };
        if procs == 0 {
            return Err(self.wrong("procs", procs.to_string(), "1 or more"));
        }
        if let Some(nodes) = nodes.filter(|nodes| !(1..=procs).contains(nodes)) {
            return Err(self.wrong("nodes", nodes.to_string(), "1 to the job's procs"));
        }
        Ok(Asked {
            procs,
            nodes,
            ..Asked::default()
        })
    }

    fn specified(&self, jobspec: &Value) -> Result<Asked, WorkloadError> {
        let refused = |why| WorkloadError::Jobspec { id: self.id, why };
        let jobspec = Jobspec::from_value(jobspec.clone()).map_err(refused)?;
        let request = jobspec.request().map_err(refused)?;
        let system = jobspec.attributes.system;
        let of_others = [
            ("a gang", system.other.contains_key(gang::ATTRIBUTE)),
            ("ground for an instance", request.grows().is_some()),
            ("dependencies", !system.dependencies.is_empty()),
        ];
        if let Some((given, _)) = of_others.iter().find(|(_, is_given)| *is_given) {
            let allowed = "what a job asks for by itself";
            return Err(self.wrong("jobspec", (*given).to_owned(), allowed));
        }
        Ok(Asked {
            procs: least_cores(&request),
            nodes: request.nodes.map(u64::from),
            limit: request.duration.map(Span),
            request: Some(request),
            group: system.account.or(system.bank).or(system.project),
            queue: system.queue,
            qos: system.qos,
            class: system.class,
        })
    }

    fn name(&self, field: &'static str, given: Option<String>) -> Result<String, WorkloadError> {
        match given {
            Some(given) if given.is_empty() || given.contains('/') => {
                Err(self.wrong(field, format!("{given:?}"), "a name without `/`"))
            }
            Some(given) => Ok(given),
            None => Ok(UNKNOWN.to_owned()),
        }
    }

    fn job(
        &self,
        asked: &Asked,
        owners: &mut Places<Owner>,
        terms: &mut Places<Terms>,
    ) -> Result<SimJob, WorkloadError> {
        let or = |own: &Option<String>, spec: &Option<String>| own.clone().or(spec.clone());
        let field = if self.group.is_some() {
            "group"
        } else {
            "account"
        };
        let group = self.name(field, or(&self.group, &asked.group))?;
        let user = self.name("user", self.user.clone())?;
        let urgency = self.urgency.unwrap_or(Terms::default().urgency);
        // One that is held would never run.
        if !(1..=URGENCY_MAX).contains(&urgency) {
            return Err(self.wrong("urgency", urgency.to_string(), "1 to 31"));
        }
        let seconds = |field, given: f64| {
            let wrong = || self.wrong(field, given.to_string(), "0 to 1e12 s");
            instant(given).ok_or_else(wrong)
        };
        let said = Terms {
            queue: or(&self.queue, &asked.queue).unwrap_or_default(),
            qos: or(&self.qos, &asked.qos),
            class: or(&self.class, &asked.class),
            urgency,
        };
        Ok(SimJob {
            id: self.id,
            submit: seconds("submit", self.submit)?,
            procs: asked.procs,
            nodes: asked.nodes,
            run: Span(seconds("run", self.run)?.0),
            limit: match self.limit {
                Some(limit) => Some(Span(seconds("limit", limit)?.0)),
                None => asked.limit,
            },
            owner: owners.owner(&group, &user),
            terms: terms.place(said),
        })
    }
}

/// The cores that a request takes wherever it goes; what it has of whole nodes and sockets a replay says.
fn least_cores(request: &Request) -> u64 {
    let cores = u64::from(request.slots) * u64::from(request.cores_per_slot);
    let nodes = request.nodes.map_or(1, u64::from);
    cores.max(nodes)
}

/// The highest urgency (RFC 14).
const URGENCY_MAX: u8 = 31;
