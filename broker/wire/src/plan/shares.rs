//! What each account and user is due, as a planner tells it.

use serde::{Deserialize, Serialize};

use crate::account::{Name, Shares};

/// What each account and user is due, and who asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharesTold {
    /// Theirs.
    pub tags: Vec<u64>,
    /// Accounts before what is under them.
    pub rows: Vec<ShareRow>,
}

/// What an account, or a user in it, is due.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShareRow {
    /// The account; none is the root, or what is under it without an account.
    pub account: Option<Name>,
    /// The user, where it is one.
    pub user: Option<u32>,
    /// How many are above it; the root is 0.
    pub depth: u32,
    /// Among its siblings.
    pub shares: Shares,
    /// The part of the whole that it is due, 0 to 1.
    pub normalized: f64,
    /// What it used, faded, as the policy weighs it.
    pub usage: f64,
    /// What running and planned jobs may still come to cost, where the policy counts that.
    pub planned: f64,
    /// The part of the whole that both together are, 0 to 1.
    pub part: f64,
    /// The same with that of those above it blended in (classic fair share).
    pub effective: f64,
    /// What the policy makes of it: the factor `fair_share`.
    pub factor: f64,
}
