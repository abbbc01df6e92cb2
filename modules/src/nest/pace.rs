//! Jobs in queue instances that stop for a while: their instances are told, and say when they have.
//!
//! A job's standing is this instance's, by its own records. Its instance is told what follows from it,
//! and again whenever the channel stands anew; it stops the tasks and says so, and only then the
//! cores are given back here. They are free there by then, and go on only where this says so
//! (`modules/src/passed/pace.rs`).

use std::sync::Arc;

use bytes::Bytes;
use eddy_broker::Outbox;
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::FromParent;
use eddy_wire::suspension::Standing;
use eddy_wire::time::Time;

use super::Nest;
use super::child::Child;
use super::pass::{say, within};
use super::run::Run;

impl Nest {
    /// A record of a job that was passed says how it is to stand.
    pub(super) fn pace_on(&self, to: &Child, job: JobId, record: &Record, out: &mut Outbox) {
        let goes_on = self.passes.jobs[&job].suspension.standing() == Standing::Runs;
        match record.event.kind {
            Kind::Suspend(_) => self.pace_down(to, job, out),
            Kind::Resume(_) | Kind::GrantChanged(_) if goes_on => self.pace_down(to, job, out),
            _ => {}
        }
    }

    /// Says how a job is to stand that was ever to stop.
    pub(super) fn pace_down(&self, to: &Child, job: JobId, out: &mut Outbox) {
        let run = &self.passes.jobs[&job];
        let channel = to.told.channel.filter(|_| run.is_paced());
        let Some((channel, grant)) = channel.zip(run.grant.as_ref()) else {
            return;
        };
        let attempt = run.attempt;
        let word = match run.suspension.standing() {
            Standing::Runs => FromParent::Proceed {
                job,
                attempt,
                cores: Arc::new(cores(within(to, &grant.set))),
            },
            // Where it has given them back already this says no more than that it stays so.
            Standing::Stopping | Standing::Suspended | Standing::Resuming => FromParent::Pause {
                job,
                attempt,
                stop: run.suspension.stops(),
                userid: run.suspension.by(),
            },
        };
        say(channel, &word, Bytes::new(), out);
    }
}

impl Run {
    /// Whether its instance runs it while it is to stop: what it was told came before there was
    /// anything to be stopped.
    pub(super) fn is_unheard(&self) -> bool {
        self.suspension.standing() == Standing::Stopping
    }

    /// Whether its instance is to be told how it stands: it was ever to stop, and is not to end.
    fn is_paced(&self) -> bool {
        self.is_under_way() && self.end.is_none() && self.suspension.is_touched()
    }

    /// Its instance has stopped it for the time of that number: where it is the last one and it is still
    /// to stop, its cores are free.
    pub(super) fn stopped(&self, now: Time, (job, stop): (JobId, u32), out: &mut Outbox) {
        let is_it = self.suspension.standing() == Standing::Stopping
            && self.suspension.stops() == stop
            && self.is_paced();
        if let Some(grant) = self.suspension.without_cores(now).filter(|_| is_it) {
            out.append(now, job, Kind::GrantChanged(Arc::new(grant)));
        }
    }
}

/// What of a set is cores.
fn cores(mut set: ResourceSet) -> ResourceSet {
    for node in set.nodes.values_mut() {
        (node.gpus, node.memory) = (Idset::new(), 0);
    }
    set
}
