//! Ends of jobs inside instances, told to the oracles of those around.
//!
//! Called with all that becomes durable: what is not is lost with a leader, and nobody may hear of it. It judges
//! nothing.

use std::sync::Arc;

use eddy_wire::event::{Kind, Record};

use crate::nature::{InstanceId, Nature};

impl Nature {
    /// These records of an instance are durable.
    pub fn tell_ends(&mut self, instance: InstanceId, records: &[Arc<Record>]) {
        records
            .iter()
            .for_each(|record| self.tell_end(instance, record));
    }

    /// A job that is over in an instance is told of where that is a job, and as far up as that has the same
    /// number: in the queue that it is in, and where that queue is.
    fn tell_end(&mut self, instance: InstanceId, record: &Record) {
        let kind = &record.event.kind;
        let is_over = *kind == Kind::Clean || kind.implied() == Some(Kind::Clean);
        let Some(job) = record.event.job.filter(|_| is_over) else {
            return;
        };
        let over = self.judge(instance).recorded().jobs[&job].clone();
        let mut around = self.tree.parent(instance);
        while let Some((parent, of)) = around {
            self.oracle(parent).ended_inside(of, &over);
            let own = self.judge(parent).recorded().jobs.get(&of.job);
            let is_passed = own.is_some_and(|job| job.submit.pass.is_some());
            let above = self.tree.parent(parent).filter(|_| is_passed);
            around = above.map(|(above, _)| (above, of));
        }
    }
}
