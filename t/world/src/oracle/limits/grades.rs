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
            if change.by == By::Reload {
                self.set = None;
            }
            self.configured = change.live.policy();
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
