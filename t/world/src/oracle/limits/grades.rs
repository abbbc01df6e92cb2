//! What the policy that is obeyed says of QoS, class and queue: those who wait by the same limits are let through in
//! that order where they are as urgent.

use std::sync::Arc;

use eddy_modules::live::{By, Change, Live};
use eddy_sched::policy::Policy;
use eddy_sched::policy::print::print;
use eddy_sched::policy::read::read;
use eddy_sched::{Grade, Grades};
use eddy_wire::event::Submit;
use serde_json::{Map, Value};

use super::whose::queue;

/// Which policy is obeyed, as configurations and memos say.
#[derive(Clone, Debug, Default)]
pub(super) struct Obeyed {
    configured: Arc<Policy>,
    /// The one that was set last, and the one that was configured then.
    set: Option<(String, String)>,
    grades: Grades,
}

impl Obeyed {
    /// This is configured.
    pub fn configured(&mut self, live: &Live) {
        self.configured = live.policy();
        self.settle();
    }

    /// Whether a memo may change which policy that is; takes it in.
    pub fn remarked(&mut self, memo: &Map<String, Value>) -> bool {
        let text = |of: &Value| of.as_str().map(str::to_owned);
        if let Some(policy) = memo.get("policy") {
            self.set = text(&policy["text"]).zip(text(&policy["over"]));
        } else if let Some(change) = Change::told(memo) {
            let policy = change.live.policy();
            self.set = match change.by {
                By::Reload => None,
                By::Start => self.set.take(),
                By::Set(_) => self.set.take().and_then(|set| beside(&set, &policy)),
            };
            self.configured = policy;
        } else {
            return false;
        }
        self.settle();
        true
    }

    fn settle(&mut self) {
        let over = print(&self.configured);
        let set = self.set.as_ref().filter(|(_, of)| *of == over);
        let set = set.and_then(|(text, _)| read(text).ok());
        self.grades = Grades::new(set.as_ref().unwrap_or(&self.configured));
    }

    /// Where that puts a job.
    pub fn of(&self, submit: &Submit) -> Grade {
        self.grades.of(&submit.party, queue(submit))
    }

    /// With the same configuration, and nothing set.
    pub fn forgetful(&self) -> Obeyed {
        let mut obeyed = Obeyed {
            configured: Arc::clone(&self.configured),
            ..Obeyed::default()
        };
        obeyed.settle();
        obeyed
    }
}

/// A policy that was set, and the one it was set over, where of the latter other kinds of jobs are configured.
fn beside((text, over): &(String, String), configured: &Policy) -> Option<(String, String)> {
    let (set, over) = (of_kinds(text, configured)?, of_kinds(over, configured)?);
    let is_same = print(&over) == print(configured);
    is_same.then(|| (print(&set), print(configured)))
}

/// It, with the QoS, classes and queues of another.
fn of_kinds(text: &str, other: &Policy) -> Option<Policy> {
    let mut policy = read(text).ok()?;
    let (factors, of) = (&mut policy.priority.factors, &other.priority.factors);
    (factors.qos, factors.queues) = (of.qos.clone(), of.queues.clone());
    let (usage, of) = (&mut policy.usage, &other.usage);
    (usage.factors, usage.qos_factors) = (of.factors.clone(), of.qos_factors.clone());
    let (placement, of) = (&mut policy.placement, &other.placement);
    placement.classes = of.classes.clone();
    placement.default_class = of.default_class.clone();
    Some(policy)
}
