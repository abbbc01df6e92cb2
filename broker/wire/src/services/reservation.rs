//! Requests about advance reservations and maintenance.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::resource::Targets;
use super::service;
use crate::account::Name;
use crate::id::JobId;
use crate::idset::Idset;
use crate::message::Roles;
use crate::reservation::{Purpose, Reservation};
use crate::time::{Span, Time};

service!(
    /// Keep nodes from a time to a time.
    Create, "reservation.create", Roles::OWNER.or(Roles::ADMIN), CreateRequest => Arc<Reservation>
);
service!(
    /// End a reservation before its time: what runs in it goes on, what waits for it is ended.
    Delete, "reservation.delete", Roles::OWNER.or(Roles::ADMIN), DeleteRequest => Vec<Deleted>
);
service!(
    /// The reservations that stand.
    List, "reservation.list", Roles::OWNER.or(Roles::USER).or(Roles::ADMIN), () => Vec<ReservationRow>
);

/// What [`Create`] asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateRequest {
    /// What jobs are to name.
    pub name: Name,
    /// From when; a time that is over is now.
    pub from: Time,
    /// For how long.
    pub span: Span,
    /// Which nodes.
    pub nodes: Which,
    /// What for.
    pub purpose: Purpose,
    /// What of jobs that would still run at its beginning.
    #[serde(default)]
    pub running: Running,
    /// Of the sender's making: the same key is the same request, so that whoever lost the answer may ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<Uuid>,
}

/// Which nodes are to be kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Which {
    /// These.
    Named(Targets),
    /// So many, chosen now.
    Count(u32),
}

/// What of jobs that run longer than until a reservation begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Running {
    /// There may be none on its nodes.
    #[default]
    Refuse,
    /// They go on.
    Ignore,
}

/// What [`Delete`] asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest {
    /// Which.
    pub name: Name,
    /// And which with it: all of them or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Name>,
    /// Of the sender's making: the same key is the same request, so that whoever lost the answer may ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<Uuid>,
}

/// The most jobs of a reservation that are named when it is deleted.
pub const DELETED_JOBS_MAX: usize = 16;

/// A reservation that is no more, and who waited for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deleted {
    /// Its name.
    pub name: Name,
    /// How many jobs name it and hold nothing: they end, those that wait for something else once that is over.
    pub pending: u64,
    /// The first of them, no more than [`DELETED_JOBS_MAX`].
    pub jobs: Vec<JobId>,
}

/// One reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationRow {
    /// What it is.
    pub reservation: Arc<Reservation>,
    /// Its hosts, RFC 29.
    pub hosts: String,
    /// Those of its ranks that nobody can have whom it is for: no queue leads there that is open to them.
    #[serde(default, skip_serializing_if = "Idset::is_empty")]
    pub unreached: Idset,
    /// Whether it is on now.
    pub on: bool,
    /// Jobs that wait for it.
    pub pending: u64,
    /// Jobs of it that hold something.
    pub running: u64,
}
