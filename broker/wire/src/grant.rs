//! A grant: resources held by one attempt of a job until given back.
//!
//! Made by the scheduler's verdict, recorded by `alloc`, ended by `free`. It
//! is not a request (that is the jobspec) and not a free-standing set of
//! resources (that is a [`ResourceSet`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{Epoch, Rank};
use crate::resource_set::ResourceSet;

/// Resources held by a job, which change only by records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Number of changes of this grant, from 1; made by the granting instance only.
    pub epoch: Epoch,
    /// What is held.
    #[serde(rename = "R")]
    pub set: Arc<ResourceSet>,
    /// The epoch of the shell on each rank at the time of the grant: a start
    /// is good for that life of the shell only.
    pub shells: BTreeMap<Rank, Epoch>,
}
