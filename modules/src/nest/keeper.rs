//! Whether a queue that an instance serves lets a submission in, before it is handed on there.
//!
//! The instance knows its queues by name only: who may submit what to one, and whether it takes
//! anything, is known here. Keeps nothing but what records say.

use eddy_broker::Request;
use eddy_wire::error::Refusal;
use eddy_wire::event::Record;
use eddy_wire::fsd::seconds_of_micros;
use eddy_wire::jobspec::Jobspec;
use eddy_wire::services::job::SubmitRequest;
use eddy_wire::spec::Spec;

use crate::ingest::parties::Charter;
use crate::ingest::queues::Queues;
use crate::settings::Settings;

/// Rules of queues, and who is who.
pub(super) struct Keeper {
    queues: Queues,
    charter: Charter,
}

impl Keeper {
    /// Of the queues that the configuration has.
    pub fn new(settings: &Settings) -> Keeper {
        Keeper {
            queues: Queues::new(settings),
            charter: Charter::new(settings),
        }
    }

    pub fn apply(&mut self, record: &Record) {
        self.queues.apply(record);
        self.charter.apply(record);
    }

    /// The submission as it is handed on: with the time limit of its queue if it has none.
    ///
    /// # Errors
    /// Its queue does not let it in; what is no jobspec its instance refuses.
    pub fn admit(&self, request: &Request) -> Result<Option<Request>, Refusal> {
        let Ok(mut body) = request.parse::<SubmitRequest>() else {
            return Ok(None);
        };
        let jobspec = Jobspec::from_value(body.jobspec.clone()).ok();
        let Some(spec) = jobspec.and_then(|jobspec| Spec::from_jobspec(jobspec).ok()) else {
            return Ok(None);
        };
        self.queues.takes(&spec)?;
        let Some(rules) = self.queues.rules(&spec).filter(|rules| !rules.is_empty()) else {
            return Ok(None);
        };
        let party = self.charter.party(request.uid, &spec, Some(rules))?;
        // What is left of the instance that serves it is known there.
        let time = self.queues.time(&party, &spec, None);
        let timed = time.map(|time| spec.with(None, Some(time.0)));
        let asked = timed.as_ref().unwrap_or(&spec);
        let book = &self.charter.book;
        self.queues.lets(request.uid, &party, book, asked)?;
        let Some(time) = time else { return Ok(None) };
        body.jobspec["attributes"]["system"]["duration"] = seconds_of_micros(time.0).into();
        let text = serde_json::to_vec(&body).expect("a request is JSON");
        Ok(Some(Request {
            body: text.into(),
            ..request.clone()
        }))
    }
}
