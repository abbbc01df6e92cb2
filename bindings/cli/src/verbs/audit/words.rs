//! What somebody did, as `eddy audit` says it: in words, from the record of it.
//!
//! Some records say how it is from then on and not what was done: what the instance had before is kept for those.

use std::collections::BTreeMap;

use eddy_sched::policy::print::overrides;
use eddy_sched::policy::read::read;
use eddy_wire::event::Basis;
use eddy_wire::fsd::micros_of_seconds;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::services::instance::SHUTDOWN;
use eddy_wire::services::job::{SIGNALLED, URGENCY_MAX};
use eddy_wire::time::{Span, Time};
use eddy_wire::update::{DURATION, NAME, UNLIMITED};
use serde_json::Value;

use crate::names::Users;
use crate::signals;
use crate::when;

/// The memo of a configuration that was changed.
pub(super) const CONFIGURATION: &str = "configuration";
/// The memo of a policy that was set.
pub(super) const POLICY: &str = "policy";

/// What the instance had, as far as records were read.
#[derive(Default)]
pub(super) struct Before {
    basis: Option<Basis>,
    /// Which ranks each shell serves.
    shells: BTreeMap<u64, Idset>,
    /// How urgent each job is.
    urgencies: BTreeMap<JobId, u8>,
    begun: Begun,
}

/// With which record reading began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Begun {
    /// The first there is.
    #[default]
    First,
    /// A later one, and nothing was asked for that was before it.
    Later,
    /// A later one, and something was.
    TooLate,
}

impl Before {
    /// Nothing is known; reading begins there.
    pub(super) fn from(begun: Begun) -> Before {
        Before {
            begun,
            ..Before::default()
        }
    }

    /// Whether all that was told was told by what there was before.
    pub(super) fn begun(&self) -> Begun {
        self.begun
    }

    fn lacks(&mut self) {
        if self.begun == Begun::Later {
            self.begun = Begun::TooLate;
        }
    }

    /// Says in words what a record did, where somebody did it or not; then it is so.
    pub(super) fn words(
        &mut self,
        job: Option<JobId>,
        (event, context): (&str, &Value),
        users: &Users,
    ) -> String {
        match event {
            "submit" => {
                self.urged(job, context);
                words(event, context, users)
            }
            "urgency" => self.urgency(job, context),
            "resource-define" => self.defined(context),
            "shell-start" => {
                if let (Some(epoch), Some(ranks)) = (context["epoch"].as_u64(), ranks(context)) {
                    self.shells.insert(epoch, ranks);
                }
                String::new()
            }
            "shell-lost" => {
                let shell = context["epoch"].as_u64();
                let ranks = shell.and_then(|shell| self.shells.get(&shell));
                let known = ranks.is_some();
                let ranks = ranks.map(Idset::to_string).unwrap_or_default();
                if !known {
                    self.lacks();
                }
                because(format!("ranks {ranks} declared dead"), &context["reason"])
            }
            _ => words(event, context, users),
        }
    }

    /// Notes how urgent a job is from then on; how urgent it was and is, as far as that is known.
    fn urged(&mut self, job: Option<JobId>, context: &Value) -> (Option<u8>, Option<u8>) {
        let urgency = context["urgency"].as_u64();
        let urgency = urgency.and_then(|urgency| u8::try_from(urgency).ok());
        let before = job
            .zip(urgency)
            .and_then(|(job, urgency)| self.urgencies.insert(job, urgency));
        (before, urgency)
    }

    /// A release is recorded as the urgency that it gives back: it is told by what there was before.
    fn urgency(&mut self, job: Option<JobId>, context: &Value) -> String {
        match self.urged(job, context) {
            (_, Some(0)) => "held (urgency 0)".to_owned(),
            (_, Some(most)) if most == URGENCY_MAX => format!("expedited (urgency {most})"),
            (Some(0), Some(urgency)) => format!("released (urgency {urgency})"),
            (before, _) => {
                if before.is_none() {
                    self.lacks();
                }
                format!("urgency {}", context["urgency"])
            }
        }
    }

    fn defined(&mut self, context: &Value) -> String {
        let basis = &context["basis"];
        let Ok(basis) = serde_json::from_value::<Basis>(basis.clone()) else {
            return "the nodes that there are".to_owned();
        };
        let before = self.basis.replace(basis.clone());
        if before.is_none() {
            self.lacks();
        }
        let before = before.unwrap_or_default();
        let gone = basis.removed.difference(&before.removed);
        let known = |key| before.added.iter().any(|one| one.key == key);
        let added = basis.added.iter().filter(|one| !known(one.key));
        let mut new = Idset::new();
        for one in added.filter(|one| one.count > 0) {
            new.insert_range(one.first, one.first.saturating_add(one.count - 1));
        }
        let parts = [("added", new), ("removed", gone)];
        let parts = parts.into_iter().filter(|(_, ranks)| !ranks.is_empty());
        let parts: Vec<String> = parts
            .map(|(done, ranks)| format!("ranks {ranks} {done}"))
            .collect();
        match parts.is_empty() {
            true => "the nodes that there are".to_owned(),
            false => parts.join(", "),
        }
    }
}

/// The ranks that a record is about.
fn ranks(context: &Value) -> Option<Idset> {
    context["ranks"].as_str()?.parse().ok()
}

/// The same, with the reason if there is one.
fn because(what: String, why: &Value) -> String {
    match why.as_str().unwrap_or_default() {
        "" => what,
        why => format!("{what}: {why}"),
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn words(event: &str, context: &Value, users: &Users) -> String {
    let on = |what: &str| format!("ranks {} {what}", text(context, "ranks"));
    match event {
        "account" => account(context, users),
        "queue" => queue(context),
        "reservation" => reservation(context),
        "drain" => because(on("out of service"), &context["reason"]),
        "undrain" => on("back in service"),
        "put" => format!("{} = {}", text(context, "key"), context["value"]),
        "delete" => format!("{} deleted", text(context, "key")),
        "leader-start" => format!("leader {} began", context["epoch"]),
        "leader-stop" => "the instance ended in order".to_owned(),
        "memo" => memo(context),
        "submit" => {
            let user = context["userid"].as_u64();
            let user = user.and_then(|uid| u32::try_from(uid).ok());
            format!(
                "submitted as {}",
                user.map_or_else(String::new, |uid| users.name(uid))
            )
        }
        "order" => format!("put behind {} of {}", context["at"], context["of"]),
        "suspend" => "suspended".to_owned(),
        "resume" => "resumed".to_owned(),
        "exception" => {
            let kind = text(context, "type");
            let severity = match context["severity"].as_u64() {
                Some(0) | None => String::new(),
                Some(severity) => format!(" (severity {severity})"),
            };
            because(format!("{kind}{severity}"), &context["note"])
        }
        "jobspec-update" => update(context),
        _ => plain(context),
    }
}

/// One of an account, of a user in one, or of a user.
fn account(context: &Value, users: &Users) -> String {
    let user = |of: &Value| {
        let uid = of["user"].as_u64().and_then(|uid| u32::try_from(uid).ok());
        uid.map_or_else(String::new, |uid| users.name(uid))
    };
    let (one, what) = if let Some(one) = context.get("account") {
        (one, format!("account {}", text(one, "name")))
    } else if let Some(one) = context.get("member") {
        let account = text(one, "account");
        (one, format!("user {} in account {account}", user(one)))
    } else {
        let one = &context["user"];
        (one, format!("user {}", user(one)))
    };
    match &one["value"] {
        Value::Null => format!("{what} removed"),
        value => format!("{what}: {}", plain(value)),
    }
}

fn queue(context: &Value) -> String {
    let name = match text(context, "queue") {
        "" => "jobs without a queue".to_owned(),
        name => format!("queue {name}"),
    };
    let turn = match text(context, "turn") {
        "enable" => "takes submissions",
        "disable" => "takes no submissions",
        "start" => "starts jobs",
        "stop" => "starts no jobs",
        other => other,
    };
    because(format!("{name} {turn}"), &context["reason"])
}

fn reservation(context: &Value) -> String {
    if let Some(made) = context.get("made") {
        let at = |key: &str| when_of(&made[key]);
        return format!(
            "reservation {} of ranks {} from {} until {}",
            text(made, "name"),
            text(made, "ranks"),
            at("from"),
            at("until")
        );
    }
    match context.get("deleted") {
        Some(deleted) => format!("reservation {} deleted", text(deleted, "name")),
        None => format!("reservation {} is over", text(&context["over"], "name")),
    }
}

fn when_of(seconds: &Value) -> String {
    let micros = seconds.as_f64().and_then(|at| micros_of_seconds(at).ok());
    micros.map_or_else(|| plain(seconds), |micros| when::local(Time(micros)))
}

fn memo(context: &Value) -> String {
    if let Some(asked) = context.get(SHUTDOWN) {
        return because("shut down".to_owned(), &asked["note"]);
    }
    if let Some(sent) = context.get(SIGNALLED) {
        let number = sent["signum"].as_i64().and_then(|n| i32::try_from(n).ok());
        return match number.and_then(signals::named) {
            Some(name) => format!("signal {name} sent"),
            None => format!("signal {} sent", sent["signum"]),
        };
    }
    if let Some(change) = context.get(CONFIGURATION) {
        let lines = ["changed", "restart"].into_iter();
        let lines = lines.flat_map(|key| change[key].as_array().into_iter().flatten());
        let lines: Vec<&str> = lines.filter_map(Value::as_str).collect();
        return match lines.is_empty() {
            true => "configuration of the start".to_owned(),
            false => format!("configuration: {}", lines.join("; ")),
        };
    }
    if let Some(set) = context.get(POLICY) {
        // What one has that its preset has not is enough.
        let policy = set["text"].as_str().and_then(|text| read(text).ok());
        let Some(policy) = policy else {
            return "policy".to_owned();
        };
        let keys = overrides(&policy).into_iter();
        let keys: Vec<String> = keys
            .map(|(path, value)| format!("{path} = {value}"))
            .collect();
        return format!("policy: {}", keys.join(", "));
    }
    plain(context)
}

/// What else is asked of a job from then on.
fn update(context: &Value) -> String {
    let is_unlimited = context[UNLIMITED] == true;
    let fields = context.as_object().into_iter().flatten();
    let fields = fields.filter(|(key, _)| !["userid", "key", UNLIMITED].contains(&key.as_str()));
    let said = fields.map(|(key, value)| match (key.as_str(), value.as_f64()) {
        (DURATION, Some(seconds)) if seconds > 0.0 => match micros_of_seconds(seconds) {
            Ok(micros) => format!("time limit {}", when::short(Span(micros))),
            Err(_) => format!("time limit {value}"),
        },
        (DURATION, _) if is_unlimited => "no time limit".to_owned(),
        (DURATION, _) => "no time limit of its own".to_owned(),
        (NAME, _) => format!("name {}", plain(value)),
        (key, _) => {
            let key = key.strip_prefix("attributes.system.").unwrap_or(key);
            format!("{key} {}", plain(value))
        }
    });
    said.collect::<Vec<String>>().join(", ")
}

/// What is in it but who did it, without the marks of JSON.
fn plain(value: &Value) -> String {
    let field = |(key, value): (&String, &Value)| {
        let is_said = key != "userid" && !value.is_null();
        is_said.then(|| match value {
            Value::Object(_) => format!("{key} ({})", plain(value)),
            _ => format!("{key} {}", plain(value)),
        })
    };
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let said = fields.iter().filter_map(field);
            said.collect::<Vec<String>>().join(", ")
        }
        Value::Array(values) => values.iter().map(plain).collect::<Vec<String>>().join(" "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(before: &mut Before, event: &str, context: Value) -> String {
        before.words(None, (event, &context), &Users::default())
    }

    #[test]
    fn a_release_is_told_by_the_hold_before_it() {
        let of_job = |before: &mut Before, job, event, urgency| {
            let context = json!({"urgency": urgency, "userid": 1});
            before.words(Some(JobId(job)), (event, &context), &Users::default())
        };
        let before = &mut Before::from(Begun::Later);
        of_job(before, 1, "submit", 16);
        of_job(before, 2, "submit", 0);
        let said = [(1, 20), (1, 0), (1, 20), (2, 16), (2, 31), (1, 18)]
            .map(|(job, urgency)| of_job(before, job, "urgency", urgency));
        assert_eq!(
            said,
            [
                "urgency 20",
                "held (urgency 0)",
                "released (urgency 20)",
                "released (urgency 16)",
                "expedited (urgency 31)",
                "urgency 18",
            ]
        );
        assert_eq!(before.begun(), Begun::Later);
        // Of one that was submitted before reading began nobody knows it.
        assert_eq!(of_job(before, 3, "urgency", 16), "urgency 16");
        assert_eq!(before.begun(), Begun::TooLate);
    }

    #[test]
    fn what_was_done_is_said_in_words() {
        let before = &mut Before::default();
        let cases = [
            (
                "put",
                json!({"key": "a.b", "value": [1], "userid": 0}),
                "a.b = [1]",
            ),
            ("delete", json!({"key": "a.b", "userid": 0}), "a.b deleted"),
            (
                "memo",
                json!({"shutdown": {"userid": 0, "note": "fire"}}),
                "shut down: fire",
            ),
            (
                "memo",
                json!({"signal": {"userid": 0, "signum": 10}}),
                "signal USR1 sent",
            ),
            (
                "memo",
                json!({"signal": {"userid": 0, "signum": 40}}),
                "signal 40 sent",
            ),
            (
                "submit",
                json!({"userid": 70_000, "asked_by": 0}),
                "submitted as 70000",
            ),
            (
                "urgency",
                json!({"urgency": 0, "userid": 1}),
                "held (urgency 0)",
            ),
            (
                "jobspec-update",
                json!({"attributes.system.duration": 420, "attributes.system.queue": "q", "userid": 1}),
                "time limit 7m, queue q",
            ),
            (
                "account",
                json!({"userid": 0, "account": {"name": "a", "value": {"shares": 2, "limits": {"nodes": 3}}}}),
                "account a: shares 2, limits (nodes 3)",
            ),
            (
                "account",
                json!({"userid": 0, "account": {"name": "a", "value": null}}),
                "account a removed",
            ),
            (
                "queue",
                json!({"queue": "q", "turn": "stop", "reason": "repair", "userid": 0}),
                "queue q starts no jobs: repair",
            ),
        ];
        for (event, context, expected) in cases {
            assert_eq!(said(before, event, context), expected);
        }
    }

    #[test]
    fn nodes_that_came_went_and_died_are_told_by_what_there_was() {
        let before = &mut Before::default();
        let basis = |removed: &str, first: u32| {
            let key = "0190f3a5-0000-7000-8000-000000000001";
            let added = json!([{"key": key, "first": first, "count": 2}]);
            json!({"basis": {"ranks": 6, "removed": removed, "added": added, "userid": 0}})
        };
        assert_eq!(
            said(before, "resource-define", json!({"basis": {"ranks": 4}})),
            "the nodes that there are"
        );
        let added = said(before, "resource-define", basis("", 4));
        assert_eq!(added, "ranks 4-5 added");
        let removed = said(before, "resource-define", basis("2", 4));
        assert_eq!(removed, "ranks 2 removed");
        said(before, "shell-start", json!({"ranks": "3", "epoch": 7}));
        let dead = said(
            before,
            "shell-lost",
            json!({"epoch": 7, "userid": 0, "reason": "burnt"}),
        );
        assert_eq!(dead, "ranks 3 declared dead: burnt");
    }
}
