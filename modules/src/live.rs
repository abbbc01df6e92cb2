//! What of the configuration may change while an instance runs, and the record that says so.
//!
//! A configuration that was changed is a memo of no job, so that it stands after a restart: each module
//! folds it and obeys it from then on, as it obeyed what it was told at its start. Made by the driver
//! from a file that was checked as a whole; judged by [`crate::configuration`], which proposes the
//! memo. What is not here is of a start.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_sched::policy::Policy;
use eddy_sched::policy::print::print;
use eddy_sched::policy::read::read;
use eddy_wire::access::Access;
use eddy_wire::filter::Filter;
use eddy_wire::hash::Hash;
use eddy_wire::pool::Pool;
use eddy_wire::time::Span;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::keys::Keys;
use crate::queues_above;
use crate::settings::{Class, Elastic, Extent, Qos, Queue, Settings, UserMax};

/// The memo that says it.
const KEY: &str = "configuration";
/// What is in one that is only to be judged, and never in a record.
const TRIAL: &str = "trial";

/// What may change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Live {
    policy: Text,
    /// As [`Settings::queues`].
    pub queues: Vec<Queue>,
    /// As [`Settings::qos`].
    pub qos: Vec<Qos>,
    /// As [`Settings::classes`].
    pub classes: Vec<Class>,
    /// As [`Settings::pools`].
    pub pools: Vec<Pool>,
    /// As [`Settings::filters`].
    pub filters: Vec<Filter>,
    /// As [`Settings::jobs_max`].
    pub jobs_max: u64,
    /// As [`Settings::user_max`].
    #[serde(default)]
    pub user_max: UserMax,
    /// As [`Settings::default_time`].
    pub default_time: Option<Span>,
    /// What the elastic instances lend, by name.
    pub lending: BTreeMap<String, Elastic>,
    /// As [`Settings::access`], of a root: who connects to another its parent says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
}

/// A policy as a record says it: printed, without what is said about it.
#[derive(Clone, Debug)]
enum Text {
    /// Of a start. Printing it takes longer than all else of a start, and few starts are asked.
    Of(Arc<Policy>),
    /// Of a record.
    Recorded(String),
}

impl Text {
    fn get(&self) -> Cow<'_, str> {
        match self {
            Text::Of(policy) => Cow::Owned(keys(&print(policy))),
            Text::Recorded(text) => Cow::Borrowed(text),
        }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.get() == other.get()
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.get())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        String::deserialize(deserializer).map(Text::Recorded)
    }
}

/// A configuration that came to be in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Of the configuration that a start with the same file would have: over no other does it stand.
    pub over: Hash,
    /// Who made it.
    pub userid: u32,
    /// Whether it is what the file says.
    pub by: By,
    /// What is different from what was in force, a line each.
    pub changed: Vec<String>,
    /// What differs in the file and counts from the next start on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart: Vec<String>,
    /// What is to be known of the file all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warned: Vec<String>,
    /// What is in force.
    pub live: Live,
    /// The same as it was written, and what counts from a start on.
    #[serde(default, skip_serializing_if = "Keys::is_empty")]
    pub keys: Keys,
    /// What the start over which keys were set was given for itself alone, `KEY=VALUE`: the file is what is in
    /// `over` without that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<String>,
}

/// Where a change is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The file was read again: nothing that was set since stands.
    Reload,
    /// These keys, `KEY=VALUE`, were set over the file, all that stand.
    Set(Vec<String>),
    /// An instance was started with another file.
    Start,
}

/// A printed policy without comments.
fn keys(text: &str) -> String {
    let is_key = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let lines: Vec<&str> = text.lines().filter(is_key).collect();
    lines.join("\n")
}

impl Live {
    /// As a start is told.
    pub fn of(settings: &Settings) -> Live {
        let lending = settings
            .declared
            .iter()
            .filter_map(|one| match &one.extent {
                Extent::Elastic(elastic) => Some((one.name.clone(), elastic.clone())),
                Extent::Fixed { .. } => None,
            });
        Live {
            policy: Text::Of(Arc::clone(&settings.policy)),
            queues: settings.queues.clone(),
            qos: settings.qos.clone(),
            classes: settings.classes.clone(),
            pools: settings.pools.clone(),
            filters: settings.filters.clone(),
            jobs_max: settings.jobs_max,
            user_max: settings.user_max,
            default_time: settings.default_time,
            lending: lending.collect(),
            access: (settings.place.depth == 0).then(|| settings.access.clone()),
        }
    }

    /// Puts it into what a start is told.
    pub fn put(&self, settings: &mut Settings) {
        settings.policy = self.policy();
        settings.queues.clone_from(&self.queues);
        settings.qos.clone_from(&self.qos);
        settings.classes.clone_from(&self.classes);
        settings.pools.clone_from(&self.pools);
        settings.filters.clone_from(&self.filters);
        (settings.jobs_max, settings.user_max) = (self.jobs_max, self.user_max);
        settings.default_time = self.default_time;
        if let Some(access) = &self.access {
            settings.access.clone_from(access);
        }
        for one in &mut settings.declared {
            if let (Extent::Elastic(elastic), Some(lends)) =
                (&mut one.extent, self.lending.get(&one.name))
            {
                elastic.clone_from(lends);
            }
        }
    }

    /// The policy.
    pub fn policy(&self) -> Arc<Policy> {
        match &self.policy {
            Text::Of(policy) => Arc::clone(policy),
            Text::Recorded(text) => Arc::new(read(text).unwrap_or_default()),
        }
    }

    /// What names it: equal ones have equal ones.
    pub fn hash(&self) -> Hash {
        Hash::of(&serde_json::to_vec(self).expect("texts and numbers are JSON"))
    }
}

impl Change {
    /// As a record.
    pub fn memo(&self) -> Map<String, Value> {
        let change = serde_json::to_value(self).expect("texts and numbers are JSON");
        Map::from_iter([(KEY.to_owned(), change)])
    }

    /// The same, only to be judged.
    pub fn trial(&self) -> Map<String, Value> {
        let mut memo = self.memo();
        memo.insert(TRIAL.to_owned(), Value::Null);
        memo
    }

    /// Whether a memo is only to be judged.
    pub fn is_trial(memo: &Map<String, Value>) -> bool {
        memo.contains_key(TRIAL)
    }

    /// What a memo says, if it is about this.
    pub fn told(memo: &Map<String, Value>) -> Option<Change> {
        Change::deserialize(memo.get(KEY)?).ok()
    }
}

/// Who may connect from then on and is shown what, if a memo tells it: what the parent said, or another
/// configuration.
pub fn admitted(memo: &Map<String, Value>) -> Option<Access> {
    queues_above::admitted(memo).or_else(|| Change::told(memo)?.live.access)
}

#[cfg(test)]
mod tests {
    use eddy_sched::policy::preset;

    use super::*;

    #[test]
    fn a_policy_is_the_same_without_what_is_said_about_it() {
        for name in ["fcfs", "flux", "armada", "pbs-it4i"] {
            let policy = preset(name).expect("it is a preset");
            let mut settings = Settings::for_inventory(Arc::default());
            settings.policy = Arc::new(policy.clone());
            let live = Live::of(&settings);
            let again = serde_json::to_value(&live).map(Live::deserialize);
            let again = again.expect("JSON").expect("the same");
            assert_eq!((&*live.policy(), &*again.policy()), (&policy, &policy));
            assert_eq!((again.hash(), &again), (live.hash(), &live));
        }
    }
}
