//! Whether what is passed down starts on arrival: the instance that it is passed to has nothing of its cores any more.
//!
//! So nothing is passed ahead: no job waits in an instance for what another has there, and none is overtaken there by
//! whoever the root lets go later. Knows the records of both, nothing of who chooses.

use eddy_wire::id::JobId;
use eddy_wire::resource_set::ResourceSet;

use crate::nature::{InstanceId, Nature};

impl Nature {
    /// A job that is granted something where it is passed down begins there without waiting for anybody.
    pub(crate) fn starts_on_arrival(
        &self,
        parent: InstanceId,
        job: JobId,
        set: &ResourceSet,
    ) -> Result<(), String> {
        let Some((child, name)) = self.passed_to(parent, job) else {
            return Ok(());
        };
        // What an instance began without its parent is recorded as it was, when it is over there perhaps.
        if self.judge(parent).recorded().has_begun_below(job) {
            return Ok(());
        }
        let below = self.judge(child).recorded();
        let others = below.held.iter().filter(|(other, _)| **other != job);
        for (other, grant) in others {
            let theirs = grant.set.nodes.values();
            let clashes = theirs.into_iter().any(|theirs| {
                let mut ours = set.nodes.values();
                ours.any(|ours| ours.host == theirs.host && ours.intersects(theirs))
            });
            if clashes {
                return Err(format!(
                    "job {job} was passed to {name} ahead: job {other} has cores of it there"
                ));
            }
        }
        Ok(())
    }

    /// The instance that a job was passed to, as that runs now.
    fn passed_to(&self, parent: InstanceId, job: JobId) -> Option<(InstanceId, &str)> {
        let above = self.judge(parent).recorded();
        let name = above.away.get(&job)?;
        let ground = above.ground(name)?;
        let attempt = above.jobs.get(&ground)?.attempt;
        let mut children = self.tree.children(parent);
        let child = children.find(|child| {
            let of = self.tree.parent(*child).map(|(_, of)| of);
            of.is_some_and(|of| (of.job, of.attempt) == (ground, attempt))
        })?;
        Some((child, name))
    }
}
