//! A jobspec as the instance keeps it: parsed once, hashed, its environment
//! apart, shared by every job that asks for the same.
//!
//! Made by ingest from a submission and by the driver from journal blobs, or from what is known
//! without them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::hash::Hash;
use crate::jobspec::{JOBSPEC_BYTES_MAX, Jobspec, JobspecError, Need, Request, System};
use crate::json;
use crate::remains::Shape;

/// What is said of a job of which a text is lost.
pub const LOST: &str = "the text of its jobspec was damaged in the journal and is lost";

/// Whether a spec is what was submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Texts {
    /// It is.
    #[default]
    Whole,
    /// A text of it is lost: no task is started by it.
    Lost,
}

/// One parsed jobspec and the environment its tasks start with.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Hash of `text`.
    pub hash: Hash,
    /// The jobspec without its environment, canonical JSON.
    pub text: Arc<[u8]>,
    /// Hash of `environment_text`.
    pub environment_hash: Hash,
    /// The environment, a JSON object of strings (null unsets).
    pub environment_text: Arc<[u8]>,
    /// The jobspec, parsed; its environment is empty.
    pub jobspec: Jobspec,
    /// What it asks of the scheduler.
    pub request: Request,
    /// What its jobs wait for before they are eligible.
    pub needs: Vec<Need>,
    /// The set of jobs they belong to.
    pub set: Option<Arc<str>>,
    /// Whether it is what was submitted.
    pub texts: Texts,
}

impl Spec {
    /// Splits a submitted jobspec into what is particular and the environment,
    /// which most jobs of a user share.
    ///
    /// # Errors
    /// It is not served, or both together are longer than [`JOBSPEC_BYTES_MAX`]: a journal keeps
    /// nothing longer, so this is where that must be said.
    pub fn from_jobspec(mut jobspec: Jobspec) -> Result<Spec, JobspecError> {
        let environment = jobspec.take_environment();
        let environment_text = json::to_vec(&environment);
        let text = jobspec.to_json().into_bytes();
        let given = text.len() + environment_text.len();
        if given > JOBSPEC_BYTES_MAX {
            return Err(JobspecError::TooLong { given });
        }
        let request = jobspec.request()?;
        let needs = jobspec.needs()?;
        let set = jobspec.job_set()?.map(Arc::from);
        Ok(Spec {
            hash: Hash::of(&text),
            text: text.into(),
            environment_hash: Hash::of(&environment_text),
            environment_text: environment_text.into(),
            jobspec,
            request,
            needs,
            set,
            texts: Texts::Whole,
        })
    }

    /// The same, in this queue and with this time limit in microseconds where they are given.
    pub fn with(&self, queue: Option<&str>, duration: Option<i64>) -> Spec {
        self.amended(|system| {
            if let Some(queue) = queue {
                system.queue = Some(queue.to_owned());
            }
            if let Some(micros) = duration {
                system.duration = micros;
            }
        })
    }

    /// The same, asking to be charged to that account and as that.
    pub fn charged_as(
        &self,
        account: Option<String>,
        qos: Option<String>,
        class: Option<String>,
    ) -> Spec {
        self.amended(|system| {
            (system.account, system.bank) = (account, None);
            (system.qos, system.class) = (qos, class);
        })
    }

    /// The same, of which this makes something else: queue, account, name, time limit and nothing that it
    /// takes of nodes.
    pub(crate) fn amended(&self, amend: impl FnOnce(&mut System)) -> Spec {
        let mut spec = self.clone();
        let system = &mut spec.jobspec.attributes.system;
        amend(system);
        spec.request.duration = Some(system.duration).filter(|&micros| micros > 0);
        spec.text = spec.jobspec.to_json().into_bytes().into();
        spec.hash = Hash::of(&spec.text);
        spec
    }

    /// The same on so many nodes, as if they were named, where what it asks for may lie anywhere.
    ///
    /// # Errors
    /// It would be longer than [`JOBSPEC_BYTES_MAX`], or of more slots than are served.
    pub fn on_nodes(&self, nodes: u32) -> Result<Spec, JobspecError> {
        let mut spec = self.clone();
        spec.jobspec = self.jobspec.on_nodes(nodes, self.request.ntasks);
        spec.request = spec.jobspec.request()?;
        spec.text = spec.jobspec.to_json().into_bytes().into();
        spec.hash = Hash::of(&spec.text);
        let given = spec.text.len() + spec.environment_text.len();
        match given > JOBSPEC_BYTES_MAX {
            true => Err(JobspecError::TooLong { given }),
            false => Ok(spec),
        }
    }

    /// The spec whose two blobs these are.
    pub fn from_blobs(text: Arc<[u8]>, environment: Arc<[u8]>) -> Result<Spec, JobspecError> {
        let jobspec = Jobspec::from_json(&text)?;
        let request = jobspec.request()?;
        let needs = jobspec.needs()?;
        let set = jobspec.job_set()?.map(Arc::from);
        Ok(Spec {
            hash: Hash::of(&text),
            environment_hash: Hash::of(&environment),
            text,
            environment_text: environment,
            jobspec,
            request,
            needs,
            set,
            texts: Texts::Whole,
        })
    }

    /// What stands for a spec of which one of its two texts is lost, or both, under the hashes that
    /// the record of its job names. Of a jobspec that is lost it asks for what is known of it.
    pub fn lost(
        shape: &Shape,
        (hash, environment_hash): (Hash, Hash),
        text: Option<Arc<[u8]>>,
        environment: Option<Arc<[u8]>>,
    ) -> Spec {
        let environment = environment.unwrap_or_else(|| b"{}"[..].into());
        let of = |text: Arc<[u8]>| Spec::from_blobs(text, Arc::clone(&environment)).ok();
        let known = |shape: &Shape| of(json::to_vec(&shape.jobspec()).into());
        // What records tell may be no jobspec that is served: it takes a core of any node then.
        let spec = text.and_then(of).or_else(|| known(shape));
        let spec = spec.or_else(|| known(&Shape::default()));
        Spec {
            hash,
            environment_hash,
            texts: Texts::Lost,
            ..spec.expect("a task on one core is served")
        }
    }

    /// Whether a text of it is lost.
    pub fn is_lost(&self) -> bool {
        self.texts == Texts::Lost
    }

    /// The environment as a map; `None` values are to be unset.
    pub fn environment(&self) -> BTreeMap<String, Option<String>> {
        serde_json::from_slice(&self.environment_text).unwrap_or_default()
    }
}
