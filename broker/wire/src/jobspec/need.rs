//! What a job waits for before it is eligible: the dependencies of RFC 26 and
//! the throttle of an array, read from its jobspec.
//!
//! Ingest refuses by it, the manager decides by it. A [`Need`] has two texts:
//! its description, which is in the `dependency-add` and `dependency-remove`
//! records (as Flux spells them), and words for people. It decides nothing.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::{Dependency, Jobspec, JobspecError};
use crate::field::{self, FieldError, Object, Path};
use crate::fsd::NUMBER_MAX;
use crate::id::JobId;
use crate::time::Time;

/// The most dependencies of one job.
pub const DEPENDENCIES_MAX: usize = 1024;

const SCHEMES: &str = "after, afterstart, afterany, afterok, afternotok, afterexcept, begin-time \
                       and singleton";

/// Something a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Something of another job.
    After(After, JobId),
    /// The end of a job in an instance, which is a job here.
    Within(After, JobId, JobId),
    /// A time.
    Begin(Time),
    /// The end of all earlier jobs of the same user and name.
    Singleton,
    /// That fewer than so many of its array are under way.
    Throttle(u32),
}

/// What of another job is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum After {
    /// That its tasks have started.
    Start,
    /// That it is over, however it ended.
    Any,
    /// That it ended well.
    Ok,
    /// That it ran and did not end well.
    NotOk,
    /// That it ran and an exception ended it.
    Except,
}

impl After {
    const ALL: [(After, &'static str); 5] = [
        (After::Start, "after-start"),
        (After::Any, "after-finish"),
        (After::Ok, "after-success"),
        (After::NotOk, "after-failure"),
        (After::Except, "after-except"),
    ];

    fn of_scheme(scheme: &str) -> Option<After> {
        Some(match scheme {
            "after" | "afterstart" => After::Start,
            "afterany" => After::Any,
            "afterok" => After::Ok,
            "afternotok" => After::NotOk,
            "afterexcept" => After::Except,
            _ => return None,
        })
    }

    /// That of the job that a text names, of an instance here, too. Of the start of such a one nobody is told.
    fn of_job(self, text: &str) -> Option<Need> {
        match (text.split_once('/'), self) {
            (None, _) => Some(Need::After(self, text.parse().ok()?)),
            (Some(_), After::Start) => None,
            (Some((instance, job)), _) => Some(Need::Within(
                self,
                instance.parse().ok()?,
                job.parse().ok()?,
            )),
        }
    }

    /// What is waited for, in words for people.
    fn end(self) -> &'static str {
        match self {
            After::Start => "to start",
            After::Any => "to end",
            After::Ok => "to end well",
            After::NotOk => "to fail",
            After::Except => "to be ended by an exception",
        }
    }

    fn word(self) -> &'static str {
        let found = After::ALL.iter().find(|(after, _)| *after == self);
        found.map_or("", |(_, word)| word)
    }
}

impl Need {
    /// The text in records: `after-success=f2JL`, `after-success=f2JL/f3`, `begin-time=1763690000.000000`, `singleton`,
    /// `array-throttle=4`.
    pub fn description(&self) -> String {
        match self {
            Need::After(after, job) => format!("{}={}", after.word(), job.f58_ascii()),
            Need::Within(after, instance, job) => {
                let (instance, job) = (instance.f58_ascii(), job.f58_ascii());
                format!("{}={instance}/{job}", after.word())
            }
            Need::Begin(time) => format!("begin-time={time}"),
            Need::Singleton => "singleton".to_owned(),
            Need::Throttle(most) => format!("array-throttle={most}"),
        }
    }

    /// The need that a description tells of, if it is of one.
    pub fn of_description(text: &str) -> Option<Need> {
        if text == "singleton" {
            return Some(Need::Singleton);
        }
        let (word, value) = text.split_once('=')?;
        match word {
            "begin-time" => time(value).map(Need::Begin),
            "array-throttle" => value.parse().ok().map(Need::Throttle),
            _ => {
                let (after, _) = After::ALL.iter().find(|(_, known)| *known == word)?;
                after.of_job(value)
            }
        }
    }

    fn read(dependency: &Dependency, path: Path<'_>) -> Result<Need, JobspecError> {
        if let Some(key) = dependency.other.keys().next() {
            let allowed = "scheme and value, which say all that is served";
            return Err(choice(path, key, allowed));
        }
        let value = dependency.value.as_str();
        match (
            dependency.scheme.as_str(),
            After::of_scheme(&dependency.scheme),
        ) {
            (_, Some(after)) => after.of_job(value).ok_or_else(|| {
                let allowed =
                    "the id of a job of this instance, or 12/3 for the end of job 3 of job 12";
                choice(path.key("value"), value, allowed)
            }),
            ("begin-time", None) => time(value).map(Need::Begin).ok_or_else(|| {
                choice(
                    path.key("value"),
                    value,
                    "seconds since 1970, such as 1763690000.5",
                )
            }),
            ("singleton", None) if value.is_empty() => Ok(Need::Singleton),
            ("singleton", None) => Err(choice(path.key("value"), value, "an empty text")),
            (scheme, None) => Err(choice(path.key("scheme"), scheme, SCHEMES)),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::After(after, job) => write!(f, "job {} {}", job.f58_ascii(), after.end()),
            Need::Within(after, instance, job) => {
                let (instance, job) = (instance.f58_ascii(), job.f58_ascii());
                write!(f, "job {instance}/{job} {}", after.end())
            }
            Need::Begin(time) => write!(f, "its begin time {}", time.utc()),
            Need::Singleton => write!(f, "earlier jobs of the same name and user"),
            Need::Throttle(most) => write!(
                f,
                "its turn in its array, of which at most {most} are under way at a time (%{most})"
            ),
        }
    }
}

impl Jobspec {
    /// What a job of this jobspec waits for, in the order given, each once.
    ///
    /// # Errors
    /// A scheme or value that is not served, by its path; more than [`DEPENDENCIES_MAX`].
    pub fn needs(&self) -> Result<Vec<Need>, JobspecError> {
        let system = &self.attributes.system;
        if system.dependencies.is_empty() && !system.other.contains_key("array") {
            return Ok(Vec::new());
        }
        let attributes = Path::Key(&Path::Root, "attributes");
        let of_system = Path::Key(&attributes, "system");
        let path = of_system.key("dependencies");
        let given = system.dependencies.len();
        if given > DEPENDENCIES_MAX {
            return Err(JobspecError::Field(FieldError::Range {
                path: path.to_string(),
                given: given.to_string(),
                least: 0,
                most: DEPENDENCIES_MAX as u64,
            }));
        }
        let mut seen = BTreeSet::new();
        let mut needs = Vec::with_capacity(given);
        for (at, dependency) in system.dependencies.iter().enumerate() {
            let need = Need::read(dependency, path.index(at))?;
            if seen.insert(need) {
                needs.push(need);
            }
        }
        needs.extend(throttle(system.other.get("array"), of_system.key("array"))?);
        Ok(needs)
    }

    /// The name of the set of jobs that it belongs to (`attributes.system.job_set`).
    ///
    /// # Errors
    /// It is no word of at most 255 bytes.
    pub fn job_set(&self) -> Result<Option<&str>, JobspecError> {
        let attributes = Path::Key(&Path::Root, "attributes");
        let of_system = Path::Key(&attributes, "system");
        let path = of_system.key("job_set");
        match self.attributes.system.other.get("job_set") {
            None => Ok(None),
            Some(Value::String(name)) if is_word(name) => Ok(Some(name)),
            Some(Value::String(name)) => Err(choice(path, name, SET_ALLOWED)),
            Some(value) => Err(field::wrong(path, value, "a string").into()),
        }
    }
}

const SET_ALLOWED: &str = "a word of 1 to 255 bytes";

/// Whether a text can name a set of jobs.
pub fn is_word(name: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control();
    !name.is_empty() && name.len() <= 255 && !name.contains(odd)
}

/// The throttle of `array: {"throttle": N}`.
fn throttle(array: Option<&Value>, path: Path<'_>) -> Result<Option<Need>, JobspecError> {
    let Some(array) = array else { return Ok(None) };
    let mut array = Object::closed(array.clone(), path, &["throttle"])?;
    let Some(most) = array.take("throttle") else {
        return Ok(None);
    };
    let most = field::whole(&most, path.key("throttle"), 1, u64::from(u32::MAX))?;
    Ok(Some(Need::Throttle(most as u32)))
}

fn choice(path: Path<'_>, given: &str, allowed: &'static str) -> JobspecError {
    JobspecError::Choice {
        path: path.to_string(),
        given: given.chars().take(64).collect(),
        allowed,
    }
}

fn time(text: &str) -> Option<Time> {
    let plain = |c: char| c.is_ascii_digit() || c == '.';
    let seconds: f64 = text.chars().all(plain).then(|| text.parse().ok())??;
    // As far as a float tells each microsecond from the next: to the year 2106.
    Time::from_seconds(seconds).filter(|time| time.0 <= NUMBER_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn jobspec(system: Value) -> Result<Jobspec, JobspecError> {
        Jobspec::from_value(json!({
            "version": 1,
            "resources": [{"type": "slot", "count": 1, "label": "task",
                           "with": [{"type": "core", "count": 1}]}],
            "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": system},
        }))
    }

    fn needs(system: Value) -> Result<Vec<Need>, String> {
        let needs = jobspec(system).and_then(|jobspec| jobspec.needs());
        needs.map_err(|error| error.to_string())
    }

    fn one(scheme: &str, value: &str) -> Result<Vec<Need>, String> {
        needs(json!({"dependencies": [{"scheme": scheme, "value": value}]}))
    }

    #[test]
    fn every_scheme_has_a_description_that_is_read_back() {
        let given = [
            ("after", "f8", "after-start=f8", "job f8 to start"),
            ("afterstart", "7", "after-start=f8", "job f8 to start"),
            ("afterany", "7", "after-finish=f8", "job f8 to end"),
            ("afterok", "ƒ8", "after-success=f8", "job f8 to end well"),
            ("afternotok", "0x7", "after-failure=f8", "job f8 to fail"),
            (
                "afterexcept",
                "7",
                "after-except=f8",
                "job f8 to be ended by an exception",
            ),
            (
                "begin-time",
                "1763690000.5",
                "begin-time=1763690000.500000",
                "its begin time 2025-11-21T01:53:20Z",
            ),
            (
                "singleton",
                "",
                "singleton",
                "earlier jobs of the same name and user",
            ),
        ];
        for (scheme, value, description, words) in given {
            let needs = one(scheme, value).expect(scheme);
            assert_eq!(needs[0].description(), description);
            assert_eq!(needs[0].to_string(), words);
            assert_eq!(Need::of_description(description), Some(needs[0]));
        }
        assert_eq!(Need::of_description("max-jobs=3"), None);
    }

    #[test]
    fn a_job_in_an_instance_is_a_path_of_two() {
        let need = Need::Within(After::Ok, JobId(12), JobId(3));
        assert_eq!(one("afterok", "12/f4"), Ok(vec![need]));
        assert_eq!(need.description(), "after-success=fD/f4");
        assert_eq!(Need::of_description("after-success=fD/f4"), Some(need));
        assert_eq!(need.to_string(), "job fD/f4 to end well");
    }

    #[test]
    fn an_array_may_have_a_throttle() {
        assert_eq!(
            needs(json!({"array": {"throttle": 4}})),
            Ok(vec![Need::Throttle(4)])
        );
        assert_eq!(needs(json!({"array": {}})), Ok(Vec::new()));
        let error = needs(json!({"array": {"throttle": 0}})).expect_err("refused");
        assert!(
            error.starts_with("attributes.system.array.throttle: "),
            "{error}"
        );
    }

    #[test]
    fn what_is_not_served_is_refused_by_its_path() {
        let refused = |scheme, value| one(scheme, value).expect_err("refused");
        assert!(refused("string", "x").starts_with("attributes.system.dependencies[0].scheme: "));
        for (scheme, value) in [
            ("afterok", "12/3/4"),
            ("afterok", "12/"),
            ("after", "12/3"),
            ("begin-time", "soon"),
            ("begin-time", "inf"),
            ("begin-time", ""),
            ("singleton", "x"),
            ("afterok", ""),
        ] {
            let error = refused(scheme, value);
            assert!(
                error.starts_with("attributes.system.dependencies[0].value: "),
                "{error}"
            );
        }
        let many = vec![json!({"scheme": "singleton", "value": ""}); DEPENDENCIES_MAX + 1];
        assert!(needs(json!({ "dependencies": many })).is_err());
        let twice = vec![json!({"scheme": "singleton", "value": ""}); DEPENDENCIES_MAX];
        assert_eq!(
            needs(json!({ "dependencies": twice })),
            Ok(vec![Need::Singleton])
        );
        let more = json!({"dependencies": [{"scheme": "afterok", "value": "3", "type": "in"}]});
        assert!(needs(more).is_err());
    }

    #[test]
    fn a_job_set_is_a_word() {
        let set = |value: Value| {
            let jobspec = jobspec(json!({ "job_set": value })).expect("a jobspec");
            jobspec
                .job_set()
                .map(|set| set.map(str::to_owned))
                .map_err(|error| error.to_string())
        };
        assert_eq!(set(json!("night.1")), Ok(Some("night.1".to_owned())));
        assert!(set(json!("a b")).is_err() && set(json!("")).is_err() && set(json!(3)).is_err());
    }
}
