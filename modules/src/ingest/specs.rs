//! Jobspecs shared: jobs that ask for the same hold one copy.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use eddy_wire::error::Refusal;
use eddy_wire::hash::Hash;
use eddy_wire::jobspec::Jobspec;
use eddy_wire::shell_options;
use eddy_wire::spec::Spec;
use serde_json::Value;

/// How many entries are looked through for dead ones at the least.
const SWEEP_MIN: usize = 1024;

/// Jobspecs that some job still holds, by content.
#[derive(Debug, Default)]
pub struct Specs {
    held: BTreeMap<(Hash, Hash), Weak<Spec>>,
    /// Environments on their own: they are shared by jobs that differ in all else.
    environments: BTreeMap<Hash, Weak<[u8]>>,
    /// The one that was asked for last by its texts.
    last: Weak<Spec>,
    sweep_at: usize,
}

impl Specs {
    /// The spec of a submitted jobspec: an equal one that is held, or a new one.
    pub fn intern(&mut self, jobspec: Value) -> Result<Arc<Spec>, Refusal> {
        let jobspec = Jobspec::from_value(jobspec);
        let jobspec = jobspec.map_err(|error| Refusal::unreadable(&error))?;
        // Who submits is told now, not when the job's turn comes.
        shell_options::check(&jobspec).map_err(Refusal::invalid)?;
        let spec = Spec::from_jobspec(jobspec).map_err(|error| Refusal::unreadable(&error))?;
        Ok(self.share(spec))
    }

    /// The spec of these two texts. Jobs that come one after the other are mostly of the same, and to
    /// compare texts costs little against reading one.
    pub fn of_blobs(&mut self, text: &[u8], environment: &[u8]) -> Result<Arc<Spec>, Refusal> {
        let last = self.last.upgrade();
        let is_it =
            |spec: &Arc<Spec>| *spec.text == *text && *spec.environment_text == *environment;
        if let Some(last) = last.filter(is_it) {
            return Ok(last);
        }
        let spec = Spec::from_blobs(text.into(), environment.into());
        let spec = spec.map_err(|error| Refusal::unreadable(&error))?;
        let spec = self.share(spec);
        self.last = Arc::downgrade(&spec);
        Ok(spec)
    }

    /// An equal one that is held, or this one.
    pub fn share(&mut self, mut spec: Spec) -> Arc<Spec> {
        let key = (spec.hash, spec.environment_hash);
        if let Some(held) = self.held.get(&key).and_then(Weak::upgrade) {
            return held;
        }
        match self
            .environments
            .get(&spec.environment_hash)
            .and_then(Weak::upgrade)
        {
            Some(text) => spec.environment_text = text,
            None => {
                let text = Arc::downgrade(&spec.environment_text);
                self.environments.insert(spec.environment_hash, text);
            }
        }
        let spec = Arc::new(spec);
        self.held.insert(key, Arc::downgrade(&spec));
        self.sweep();
        spec
    }

    /// Forgets entries nobody holds, each time the table has doubled: constant
    /// cost per submission.
    fn sweep(&mut self) {
        if self.held.len() < self.sweep_at.max(SWEEP_MIN) {
            return;
        }
        self.held.retain(|_, spec| spec.strong_count() > 0);
        self.environments.retain(|_, text| text.strong_count() > 0);
        self.sweep_at = self.held.len() * 2;
    }
}
