//! Requests about what was used.

use serde::{Deserialize, Serialize};

use super::service;
use crate::ending::Ends;
use crate::message::Roles;
use crate::time::Time;
use crate::usage::{Amounts, Payer, Spent};

service!(
    /// What was charged to whom, and where the capacity went.
    Report, "usage.report", Roles::OWNER.or(Roles::USER).or(Roles::ADMIN), ReportRequest => UsageReport
);
service!(
    /// How jobs ended that are over, also those that are forgotten; nothing where it was not counted from the
    /// beginning, and where the sender is told of his own jobs alone.
    Ended, "usage.ended", Roles::OWNER.or(Roles::USER).or(Roles::ADMIN), () => Option<Ends>
);

/// What [`Report`] asks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportRequest {
    /// Only of this account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Only of this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// Only what was used since then; stretches of time that have begun before are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// What was used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageReport {
    /// When counting began; none where there was no inventory yet.
    pub from: Option<Time>,
    /// Until when.
    pub to: Time,
    /// By who pays.
    pub rows: Vec<UsageRow>,
    /// Where the capacity went since counting began.
    pub identity: Identity,
}

/// What one payer used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageRow {
    /// Who.
    pub payer: Payer,
    /// Charged: amounts times microseconds of jobs that gave back what they held.
    pub charged: Amounts,
    /// Of jobs that hold something, so far.
    pub running: Amounts,
}

/// Where the capacity went: amounts times microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// All there was.
    pub capacity: Amounts,
    /// By what it was for; the sum is the capacity.
    pub spent: Spent,
    /// Charged to somebody, running jobs so far included.
    pub charged: Amounts,
    /// Held by jobs or users' instances and not charged, since a node failed.
    pub uncharged: Amounts,
}
