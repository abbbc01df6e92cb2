//! What is recorded of a job that is passed to a queue instance: where to, with whom, and there what
//! its parent decided.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{Attempt, JobId};
use crate::resource_set::ResourceSet;

/// What a parent decided of a job before it passed it to a queue instance: there the job has the
/// number that it has in the parent, is kept until the parent has recorded its end (`waited`), and
/// starts on these resources as soon as they are there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// Which attempt of the job it is, counted by the parent.
    pub attempt: Attempt,
    /// Where it runs, in the ranks of the instance it was passed to.
    #[serde(rename = "R")]
    pub set: Arc<ResourceSet>,
    /// With whom it starts, or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<Together>,
    /// Who took the job.
    #[serde(default, skip_serializing_if = "Taken::is_above")]
    pub taken: Taken,
}

/// Where a job was passed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedTo {
    /// The queue instance.
    pub instance: String,
    /// With whom it is to start there, if it is of a gang of which more were passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<Together>,
}

/// Jobs of a gang that were passed at once, and that start in one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Together {
    /// The lowest of their numbers.
    pub first: JobId,
    /// How many they are, this one included; at least 2.
    pub count: u32,
}

/// Who took a job that is of a parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Taken {
    /// The parent, which said where it runs.
    #[default]
    Above,
    /// The instance itself, since its parent was not heard: it was given none of its resources yet, and
    /// is handed up once the parent is there.
    Here,
}

impl Taken {
    fn is_above(&self) -> bool {
        *self == Taken::Above
    }
}
