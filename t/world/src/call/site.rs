//! What an administrator asks for who changes the nodes of a site, or what jobs asked for.

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::services::job::{self, JobSet};
use eddy_wire::services::overlay;
use eddy_wire::update::Terms;
use uuid::Uuid;

use super::{About, Call};

impl Call {
    /// Take ranks out of the inventory for good.
    pub fn remove(ranks: Idset) -> Call {
        Call::new::<overlay::Remove>(About::Other, &overlay::RemoveRequest { ranks })
    }

    /// Add so many nodes, once under this key.
    pub fn add(count: u32, key: Uuid) -> Call {
        Call::new::<overlay::Add>(About::Other, &overlay::AddRequest { count, key })
    }

    /// Change what else may be changed of who waits.
    pub fn terms(id: JobId, set: Terms) -> Call {
        let request = job::UpdateRequest {
            jobs: JobSet::one(id),
            job_set: None,
            duration: None,
            unlimited: false,
            reckoned: None,
            set,
            force: false,
        };
        Call::new::<job::Update>(About::Other, &request)
    }
}
