//! Which policy is obeyed: that of the configuration, or one that was set since.
//!
//! What is set is a memo, so that it stands after a restart; it is over the policy
//! that was configured then, and over no other: whoever changes the
//! configuration is obeyed.

use std::sync::Arc;

use eddy_broker::{Line, Notice, Outbox, Request, Volatile};
use eddy_sched::policy::print::print;
use eddy_sched::policy::read::read;
use eddy_sched::policy::warn::warnings;
use eddy_sched::policy::{Policy, Rung, Source, Walk};
use eddy_wire::error::Refusal;
use eddy_wire::event::Kind;
use eddy_wire::id::Seq;
use eddy_wire::plan::Delta;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::sched::PolicyReply;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::seen::Order;
use super::{DEFAULT_POLICY, Sched};
use crate::live::{By, Change};

/// The memo that says it.
const KEY: &str = "policy";
/// The most bytes of a policy's text.
const TEXT_MAX: usize = 64 << 10;

/// The policy that is obeyed.
#[derive(Debug, Default)]
pub(crate) struct Obeyed {
    configured: Arc<Policy>,
    set: Option<(Seq, Memo)>,
    line: Line,
    turns: Turns,
    /// Whether jobs of one class may take from those of another.
    by_class: bool,
    /// The QoS of jobs that name none.
    default_qos: String,
}

/// Who takes turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turns {
    #[default]
    OfJobs,
    OfAccounts,
}

/// A policy that was set, and the one that was configured then.
#[derive(Debug, Serialize, Deserialize)]
struct Memo {
    text: String,
    over: String,
    /// Who set it, where the record says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    userid: Option<u32>,
}

/// Whether a memo is about policies.
pub(crate) fn is_one(memo: &Map<String, Value>) -> bool {
    memo.contains_key(KEY)
}

/// The text of the policy that a memo says was set.
pub(crate) fn set(memo: &Map<String, Value>) -> Option<String> {
    let memo = Memo::deserialize(memo.get(KEY)?).ok()?;
    Some(memo.text)
}

/// Whether accounts take turns by a policy.
fn turns(policy: &Policy) -> Turns {
    match policy.queue.source {
        Source::Global | Source::ByQueue => Turns::OfJobs,
        Source::PerAccountCost | Source::PerAccountSlices { .. } => Turns::OfAccounts,
    }
}

/// Whether jobs of one class may take from those of another by a policy.
fn by_class(policy: &Policy) -> bool {
    turns(policy) == Turns::OfJobs && policy.placement.ladder.contains(&Rung::Urgency)
}

/// One that was set, over a configuration with other QoS, classes and queues. Over one with another policy it does
/// not stand.
fn moved((seq, memo): (Seq, Memo), policy: &Policy) -> Option<(Seq, Memo)> {
    let (mut set, mut over) = (read(&memo.text).ok()?, read(&memo.over).ok()?);
    for one in [&mut set, &mut over] {
        let (factors, of) = (&mut one.priority.factors, &policy.priority.factors);
        factors.queues.clone_from(&of.queues);
        factors.qos.clone_from(&of.qos);
        one.usage.factors.clone_from(&policy.usage.factors);
        one.usage.qos_factors.clone_from(&policy.usage.qos_factors);
        let (placement, of) = (&mut one.placement, &policy.placement);
        placement.classes.clone_from(&of.classes);
        placement.default_class.clone_from(&of.default_class);
    }
    let memo = Memo {
        text: print(&set),
        over: print(policy),
        userid: memo.userid,
    };
    (print(&over) == memo.over).then_some((seq, memo))
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
    pub(crate) fn new(configured: &Arc<Policy>) -> Obeyed {
        Obeyed {
            configured: Arc::clone(configured),
            set: None,
            line: line(configured),
            turns: turns(configured),
            by_class: by_class(configured),
            default_qos: configured.priority.factors.default_qos.clone(),
        }
    }

    /// Takes a memo in, if it is about policies. One that was set when more was allowed, and cannot be read any
    /// more, counts as none: the planner would not obey it either.
    pub(crate) fn apply(&mut self, seq: Seq, memo: &Map<String, Value>) {
        if let Some(memo) = memo.get(KEY) {
            let memo = serde_json::from_value(memo.clone()).ok();
            let memo = memo.filter(|memo: &Memo| read(&memo.text).is_ok());
            self.set = memo.map(|memo| (seq, memo));
            self.obeys(&self.policy());
        }
    }

    /// Another is configured. What was set is undone where the file was read anew; where keys were
    /// set it stands, with what the configuration says of QoS, classes and queues.
    pub(crate) fn configured(&mut self, by: &By, policy: Arc<Policy>) {
        match by {
            By::Reload => self.set = None,
            By::Start => {}
            By::Set(_) => self.set = self.set.take().and_then(|set| moved(set, &policy)),
        }
        self.configured = policy;
        self.obeys(&self.policy());
    }

    fn obeys(&mut self, policy: &Policy) {
        (self.line, self.turns) = (line(policy), turns(policy));
        self.by_class = by_class(policy);
        self.default_qos
            .clone_from(&policy.priority.factors.default_qos);
    }

    /// Whether jobs of one class may take from those of another.
    pub(super) fn takes_by_class(&self) -> bool {
        self.by_class
    }

    pub(super) fn default_qos(&self) -> &str {
        &self.default_qos
    }

    /// Whether accounts take turns.
    pub(super) fn takes_turns(&self) -> bool {
        self.turns == Turns::OfAccounts
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

    pub(crate) fn policy(&self) -> Policy {
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

    /// The record that sets another, by that user.
    ///
    /// # Errors
    /// All that is wrong with it, in one line.
    pub(super) fn set(&self, userid: u32, text: &str) -> Result<Kind, Refusal> {
        let policy = readable(text)?;
        let memo = Memo {
            text: print(&policy),
            over: print(&self.configured),
            userid: Some(userid),
        };
        let memo = serde_json::to_value(memo).expect("texts and a number are JSON");
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

impl Sched {
    /// Another configuration is in force.
    pub(super) fn configured(&mut self, change: &Change) {
        let live = &change.live;
        self.obeyed.configured(&change.by, live.policy());
        self.rules.configured(&live.qos);
        self.pools.configured(&live.pools);
        let nothing = ResourceSet::new();
        let all = self.inventory.as_deref().unwrap_or(&nothing);
        self.sets.configured(live, all);
        self.lead();
    }

    /// Who waits goes where his queue leads by now. A running instance refuses what would lead those elsewhere
    /// who wait; who starts one is obeyed.
    pub(super) fn lead(&mut self) {
        self.jobs.retain(|id, seen| {
            let to = self.sets.of(&seen.submit);
            if seen.order == Order::Here && seen.held.is_none() && seen.to != to {
                seen.to = to;
                self.led.push(*id);
            }
            true
        });
    }

    /// Of whose jobs a sender is told: of everybody's, or only of his own.
    pub(super) fn shown_to(&self, request: &Request) -> Option<u32> {
        self.access.only(request.uid, request.roles)
    }

    /// Tells the planner of it: with it those who wait have another order, or other ranks.
    pub(super) fn tell_configuration(&mut self, out: &mut Outbox) {
        let led = std::mem::take(&mut self.led);
        let policy = self.obeyed.told();
        let policy = policy.unwrap_or_else(|| DEFAULT_POLICY.into());
        let mut deltas = vec![
            Delta::Policy(policy),
            Delta::Preempts(self.rules.told()),
            // It is held against spans that depend on the grace.
            Delta::Stay(Arc::new(self.stay_told.clone())),
            Delta::Pools(self.pools.told()),
        ];
        // They leave the line that they were in.
        deltas.extend(led.into_iter().map(Delta::Unwant));
        let waiting = self.jobs.iter();
        let waiting =
            waiting.filter(|(id, seen)| self.wants(seen) && !self.resting.contains_key(id));
        deltas.extend(waiting.map(|(id, _)| self.want(*id)));
        deltas.extend(self.gifts());
        out.volatile(Volatile::Plan(deltas));
        out.notice(Notice::Reckon);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_and_is_not_allowed_any_more_yields_to_what_is_configured() {
        let configured = read("preset = \"easy\"").expect("a policy");
        let memo = |text: &str| {
            let memo = serde_json::json!({"text": text, "over": print(&configured)});
            Map::from_iter([(KEY.to_owned(), memo)])
        };
        let mut obeyed = Obeyed::new(&Arc::new(configured.clone()));
        let set = "preset = \"conservative\"\n";
        obeyed.apply(Seq(1), &memo(set));
        assert_eq!(obeyed.told().as_deref(), Some(set));
        obeyed.apply(
            Seq(2),
            &memo("preset = \"conservative\"\nqueue.displace_margin = 0.1\n"),
        );
        assert_eq!(obeyed.told().as_deref(), Some(print(&configured).as_str()));
        assert_eq!(obeyed.policy(), configured);
    }
}
