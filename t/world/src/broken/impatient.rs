//! The sched module, but who waits for an elastic instance that is not reached is planned for no more.

use std::collections::{BTreeMap, BTreeSet};

use eddy_broker::{Input, Module, Notice, Outbox, Volatile};
use eddy_modules::sched::Sched;
use eddy_modules::settings::Settings;
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::plan::Delta;
use eddy_wire::time::Time;

use super::around::{Around, Twist};

/// In place of that one.
pub struct Impatient {
    /// To which of them queues lead.
    leads: BTreeMap<String, String>,
    serving: BTreeSet<String>,
    /// Those who wait for one of them.
    waiting: BTreeMap<JobId, String>,
    /// Those who begin or go on there.
    gone: BTreeMap<JobId, String>,
}

impl Impatient {
    /// Around one with these settings, but for that.
    pub fn around(settings: &Settings) -> Around<Sched, Impatient> {
        let elastic: BTreeSet<String> = settings.elastic().map(|(name, _)| name).collect();
        let leads = settings.queues.iter().filter_map(|queue| {
            let instance = queue.instance.clone()?;
            let is_elastic = elastic.contains(&instance);
            is_elastic.then(|| (queue.name.clone(), instance))
        });
        let twist = Impatient {
            leads: leads.collect(),
            serving: BTreeSet::new(),
            waiting: BTreeMap::new(),
            gone: BTreeMap::new(),
        };
        Around::new(Sched::new(settings), twist)
    }
}

impl Twist<Sched> for Impatient {
    const NAME: &'static str = "sched that waits for no instance";

    fn apply(&mut self, real: &mut Sched, record: &Record) {
        real.apply(record);
        let Some(job) = record.event.job else { return };
        match &record.event.kind {
            Kind::Submit(submit) => {
                let queue = submit.spec.jobspec.attributes.system.queue.as_ref();
                let to = queue.and_then(|queue| self.leads.get(queue));
                self.waiting.extend(to.map(|to| (job, to.clone())));
            }
            Kind::Alloc(_) => self.gone.extend(self.waiting.remove_entry(&job)),
            Kind::Requeue(_) => self.waiting.extend(self.gone.remove_entry(&job)),
            Kind::Clean => {
                self.waiting.remove(&job);
                self.gone.remove(&job);
            }
            _ => {}
        }
    }

    fn handle(&mut self, real: &mut Sched, (now, input): (Time, Input<'_>), out: &mut Outbox) {
        if let Input::Notice(Notice::Serving(serving)) = &input {
            self.serving.clone_from(serving);
        }
        // Of what is planned only who would begin: else each plan would be followed by another.
        let named: Option<BTreeSet<JobId>> = match &input {
            Input::Planned(outcome) => Some(outcome.verdicts.iter().map(|(job, _)| *job).collect()),
            _ => None,
        };
        real.handle(now, input, out);
        let away = self.waiting.iter();
        let away = away.filter(|(job, to)| {
            let is_meant = named.as_ref().is_none_or(|named| named.contains(job));
            is_meant && !self.serving.contains(*to)
        });
        let away: Vec<Delta> = away.map(|(job, _)| Delta::Unwant(*job)).collect();
        if !away.is_empty() {
            out.volatile(Volatile::Plan(away));
        }
    }
}
