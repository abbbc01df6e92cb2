//! Requests about who starts next and why.

use serde::{Deserialize, Serialize};

use super::job::JobSet;
use super::service;
use crate::id::JobId;
use crate::message::Roles;
use crate::plan::{Explained, ShareRow, Suppose};

service!(
    /// Why jobs wait and what their turn comes from, those that do wait of those asked for.
    Explain, "sched.explain", Roles::OWNER.or(Roles::USER).or(Roles::ADMIN), ExplainRequest => ExplainReply
);
service!(
    /// The policy that is obeyed, in full.
    Policy, "sched.policy", Roles::OWNER.or(Roles::USER).or(Roles::ADMIN), () => PolicyReply
);
service!(
    /// Obey another policy from now on, while jobs wait.
    SetPolicy, "sched.set-policy", Roles::OWNER.or(Roles::ADMIN), SetPolicyRequest => ()
);

service!(
    /// What each account and user is due, as the policy reckons now.
    Shares, "sched.shares", Roles::OWNER.or(Roles::USER).or(Roles::ADMIN), () => SharesReply
);

service!(
    /// What would be in the way of jobs that wait, were they to ask for something else now: what refuses them, and
    /// the limits that would keep them back.
    Bounds, "sched.bounds", Roles::OWNER.or(Roles::USER).or(Roles::ADMIN), BoundsRequest => Vec<Bounded>
);

/// The most jobs of one answer.
pub const EXPLAINED_MAX: usize = 1000;
/// The most jobs about which something may be supposed.
pub const SUPPOSED_MAX: usize = 16;

/// Which jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainRequest {
    /// These; none is all that wait, the first in turn up to [`EXPLAINED_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<JobSet>,
    /// As if this were so; only with jobs given, each of them as if it alone were changed.
    #[serde(default, skip_serializing_if = "Suppose::is_nothing")]
    pub suppose: Suppose,
}

/// Why they wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainReply {
    /// In the order of their turn.
    pub jobs: Vec<Explained>,
    /// How many more wait than are told of.
    #[serde(default)]
    pub more: u64,
    /// Of jobs named that wait for something else than resources: as if they waited for these now, limits aside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub let_go: Vec<Explained>,
}

/// What [`Bounds`] asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundsRequest {
    /// These, up to [`SUPPOSED_MAX`] of those that wait.
    pub jobs: JobSet,
    /// As if each of them alone were changed so.
    pub suppose: Suppose,
}

/// What is in the way of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounded {
    /// The job.
    pub job: JobId,
    /// What would become of it.
    pub becomes: Becomes,
    /// Why, in words and numbers.
    pub why: String,
}

/// What would become of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Becomes {
    /// It would not be taken.
    Refused,
    /// A limit would keep it back.
    Held,
    /// It would go on as QoS `standby`, beyond its budget.
    Standby,
}

/// A policy as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyReply {
    /// The preset it starts from.
    pub preset: String,
    /// TOML, in full with comments.
    pub text: String,
    /// What is worth a thought, a line each.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Another policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetPolicyRequest {
    /// TOML: a preset and what it overrides.
    pub text: String,
}

/// What each account and user is due.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SharesReply {
    /// The preset that the policy starts from.
    pub preset: String,
    /// Accounts before what is under them; the root first.
    pub rows: Vec<ShareRow>,
}
