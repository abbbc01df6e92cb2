//! Which policy is obeyed: that of the configuration, or one that was set since.
//!
//! What is set is a memo, so that it stands after a restart; it is over the policy
//! that was configured then, and over no other: whoever changes the
//! configuration is obeyed.

use std::sync::Arc;

use eddy_broker::Line;
use eddy_sched::policy::print::print;
use eddy_sched::policy::read::read;
use eddy_sched::policy::warn::warnings;
use eddy_sched::policy::{Policy, Source, Walk};
use eddy_wire::error::Refusal;
use eddy_wire::event::Kind;
use eddy_wire::id::Seq;
use eddy_wire::services::sched::PolicyReply;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The memo that says it.
const KEY: &str = "policy";
/// The most bytes of a policy's text.
const TEXT_MAX: usize = 64 << 10;

/// The policy that is obeyed.
#[derive(Debug, Default)]
pub(super) struct Obeyed {
    configured: Arc<Policy>,
    set: Option<(Seq, Memo)>,
    line: Line,
}

/// A policy that was set, and the one that was configured then.
#[derive(Debug, Serialize, Deserialize)]
struct Memo {
    text: String,
    over: String,
}

/// Whether a memo is about policies.
pub(super) fn is_one(memo: &Map<String, Value>) -> bool {
    memo.contains_key(KEY)
}

fn line(policy: &Policy) -> Line {
    match (policy.queue.walk, policy.queue.source) {
        (Walk::Stop, Source::Global | Source::ByQueue) => Line::Stands,
        // Those of other accounts pass.
        (Walk::Stop, Source::PerAccountCost | Source::PerAccountSlices { .. })
        | (Walk::Skip | Walk::Reserve { .. }, _) => Line::Passes,
    }
}

impl Obeyed {
    pub(super) fn new(configured: &Arc<Policy>) -> Obeyed {
        Obeyed {
            configured: Arc::clone(configured),
            set: None,
            line: line(configured),
        }
    }

    /// Takes a memo in, if it is about policies.
    pub(super) fn apply(&mut self, seq: Seq, memo: &Map<String, Value>) {
        if let Some(memo) = memo.get(KEY) {
            let memo = serde_json::from_value(memo.clone()).ok();
            self.set = memo.map(|memo| (seq, memo));
            self.line = line(&self.policy());
        }
    }

    /// What it does with those behind a job that does not fit.
    pub(super) fn line(&self) -> Line {
        self.line
    }

    pub(super) fn live(&self, seqs: &mut Vec<Seq>) {
        seqs.extend(self.set.iter().map(|(seq, _)| *seq));
    }

    /// What a planner is told, if it is not what planners begin with.
    pub(super) fn told(&self) -> Option<Arc<str>> {
        match self.text() {
            Some(text) => Some(text.into()),
            None if *self.configured == Policy::default() => None,
            None => Some(print(&self.configured).into()),
        }
    }

    /// What was set, while the configuration is as it was.
    fn text(&self) -> Option<&str> {
        let (_, memo) = self.set.as_ref()?;
        (memo.over == print(&self.configured)).then_some(memo.text.as_str())
    }

    pub(super) fn policy(&self) -> Policy {
        let set = self.text().and_then(|text| read(text).ok());
        set.unwrap_or_else(|| (*self.configured).clone())
    }

    pub(super) fn shown(&self) -> PolicyReply {
        let policy = self.policy();
        PolicyReply {
            text: print(&policy),
            warnings: warnings(&policy).iter().map(ToString::to_string).collect(),
            preset: policy.preset,
        }
    }

    /// The record that sets another.
    ///
    /// # Errors
    /// All that is wrong with it, in one line.
    pub(super) fn set(&self, text: &str) -> Result<Kind, Refusal> {
        let policy = readable(text)?;
        let memo = Memo {
            text: print(&policy),
            over: print(&self.configured),
        };
        let memo = serde_json::to_value(memo).expect("two texts are JSON");
        Ok(Kind::Memo(Map::from_iter([(KEY.to_owned(), memo)])))
    }
}

/// A policy of which all is served.
///
/// # Errors
/// All that is wrong with it, in one line.
pub(super) fn readable(text: &str) -> Result<Policy, Refusal> {
    if text.len() > TEXT_MAX {
        let given = text.len();
        let text = format!("text: {given} bytes are given; allowed are {TEXT_MAX}");
        return Err(Refusal::invalid(text));
    }
    let policy = read(text).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Refusal::invalid(errors.join("; "))
    })?;
    match policy.served() {
        Ok(()) => Ok(policy),
        Err(error) => Err(Refusal::invalid(format!("policy {error}"))),
    }
}
