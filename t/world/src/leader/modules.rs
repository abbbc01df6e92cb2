//! The modules of a leader, of which some break a rule on purpose.
//!
//! Asked by whoever begins a leader. The product knows nothing of it.

use std::sync::Arc;

use eddy_broker::Module;
use eddy_modules::manager::Manager;
use eddy_modules::sched::Sched;
use eddy_modules::settings::Settings;

use crate::broken::{
    self, Around, Careless, Credulous, Deaf, Deafening, Endless, Hasty, Impatient, Loose, Rule,
    Unclaimed, Wordy,
};
use crate::instance::Instance;
use crate::nature::Nature;

/// Place of ingest among the leader's modules.
const INGEST: usize = 0;
/// That of the sched module.
const SCHED: usize = 2;
/// That of exec.
const EXEC: usize = 3;
/// That of the ledger.
const LEDGER: usize = 6;
/// That of requests that were done.
const ONCE: usize = 7;
/// That of the resources.
const RESOURCE: usize = 12;
/// And that of the manager.
const MANAGER: usize = 1;

impl Instance {
    /// In the places of modules those that break a rule on purpose.
    pub(super) fn break_modules(&self, nature: &Nature, modules: &mut Vec<Box<dyn Module + Send>>) {
        let sched = || Sched::new(&self.settings);
        let manager = || Manager::new(&self.settings);
        if nature.breaks(Rule::VerdictUnchecked) {
            modules[SCHED] = Box::new(Around::new(sched(), Credulous::default()));
        }
        let misled = broken::MISLED.iter();
        for (_, mislead) in misled.filter(|(rule, _)| nature.breaks(*rule)) {
            let mut settings = self.settings.clone();
            mislead(&mut settings);
            modules[SCHED] = Box::new(Sched::new(&settings));
        }
        if nature.breaks(Rule::GradeUnheard) {
            let settings = Settings {
                policy: Arc::default(),
                ..self.settings.clone()
            };
            modules[MANAGER] = Box::new(Manager::new(&settings));
        }
        if nature.breaks(Rule::NeedsDropped) {
            modules[MANAGER] = Box::new(Around::new(manager(), Hasty::default()));
        }
        if nature.breaks(Rule::AllSpelledOut) {
            modules[MANAGER] = Box::new(Around::new(manager(), Wordy));
        }
        if nature.breaks(Rule::GangScattered) {
            modules[SCHED] = Box::new(Around::new(sched(), Loose));
        }
        if nature.breaks(Rule::ConstraintUnheard) {
            modules[SCHED] = Box::new(Around::new(sched(), Careless::of_nodes()));
        }
        if nature.breaks(Rule::SocketsUnheard) {
            modules[SCHED] = Box::new(Around::new(sched(), Careless::of_sockets()));
        }
        if nature.breaks(Rule::EndUnheard) {
            modules[SCHED] = Box::new(Endless::around(&self.settings));
        }
        if nature.breaks(Rule::TurnsDropped) {
            modules[SCHED] = Box::new(Impatient::around(&self.settings));
        }
        if nature.breaks(Rule::DoneUnheard) {
            let real = modules.remove(ONCE);
            modules.insert(ONCE, Box::new(Unclaimed::around(real)));
        }
        let deaf: [(Rule, usize, Deafening); 10] = [
            (Rule::StopUnheard, SCHED, Deaf::to_queues),
            (Rule::DisableUnheard, INGEST, Deaf::to_queues),
            (Rule::SubmittedUnheard, INGEST, Deaf::to_submitted),
            (Rule::ConfigurationUnheard, SCHED, Deaf::to_configurations),
            (Rule::GivenWhileUsed, RESOURCE, Deaf::to_grants),
            (Rule::ReservationUnheard, SCHED, Deaf::to_reservations),
            (Rule::GiftsKept, EXEC, Deaf::to_shrinking),
            (Rule::FailureCharged, LEDGER, Deaf::to_failures),
            (Rule::CoresUnheard, MANAGER, Deaf::to_sizes),
            (Rule::PeriodUnheard, MANAGER, Deaf::to_periods),
        ];
        for (rule, at, deaf) in deaf {
            if nature.breaks(rule) {
                let real = modules.remove(at);
                modules.insert(at, Box::new(deaf(real)));
            }
        }
    }
}
