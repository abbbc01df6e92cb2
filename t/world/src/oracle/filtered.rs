//! Whether every job went through the filters: none that one refused, each as they changed it, with a
//! record of that.
//!
//! Knows what each filter of the world does with a job, nothing of how it is asked.

use std::collections::BTreeMap;

use eddy_wire::event::Submit;
use eddy_wire::filter::{Changed, Filter, Filtered, OnFailure};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::{Takes, Work};
use serde_json::json;

use crate::filter::{Does, NOWHERE, RAISED, does};
use crate::workload::OWN_QUEUES;

/// The filters of an instance.
#[derive(Clone, Debug, Default)]
pub struct Screened {
    /// Those in force, and those that were: what they were asked about before is taken as they say.
    lists: Vec<Vec<Filter>>,
}

impl Screened {
    /// Of these filters.
    pub fn new(filters: &[Filter]) -> Screened {
        Screened {
            lists: vec![filters.to_vec()],
        }
    }

    /// These are in force from now on.
    pub fn configured(&mut self, filters: &[Filter]) {
        if !self.lists.iter().any(|list| list == filters) {
            self.lists.push(filters.to_vec());
        }
    }

    /// Whether there are filters, or were.
    pub fn has_any(&self) -> bool {
        self.lists.iter().any(|list| !list.is_empty())
    }

    /// One more job.
    ///
    /// # Errors
    /// It is not as the filters want it.
    pub fn apply(&self, id: JobId, submit: &Submit) -> Result<(), String> {
        // Declared instances are of the configuration; what was passed down was asked about above.
        let declared = matches!(submit.spec.request.work, Work::Instance { name: Some(_) });
        if self.lists.is_empty() || declared || submit.pass.is_some() {
            return Ok(());
        }
        let mut first = Ok(());
        for list in &self.lists {
            let mut filters = list.iter();
            let wanted = filters.try_for_each(|filter| is_as_wanted(filter, id, submit));
            if wanted.is_ok() {
                return is_as_noted(id, submit);
            }
            first = first.and(wanted);
        }
        first
    }
}

fn is_as_wanted(filter: &Filter, id: JobId, submit: &Submit) -> Result<(), String> {
    let name = &filter.name;
    let noted = |of: fn(&Filtered) -> bool| {
        let notes = submit.filtered.iter().flat_map(|notes| notes.iter());
        let mut notes = notes.filter(|note| note.filter == *name);
        notes.any(of)
    };
    let queue = submit.spec.jobspec.attributes.system.queue.as_deref();
    let is_right = match (does(filter, submit.spec.jobspec.name()), filter.on_failure) {
        (Does::Accepts, _) => !noted(|_| true),
        // What takes nothing is in no queue, whatever it says; and the next may put in another.
        (Does::Spoils, _)
            if submit.spec.request.takes == Takes::Nothing || queue != Some(NOWHERE) =>
        {
            // Where another has put in the same there is no change to note.
            submit.filtered.is_some()
        }
        (Does::Refuses | Does::Spoils, _) => {
            return Err(format!(
                "job {id} was taken, which filter `{name}` does not let in"
            ));
        }
        (Does::Raises, _) => submit.urgency == RAISED,
        (Does::Moves, _) if submit.spec.request.takes == Takes::Nothing => true,
        // What is put in last stands, and both put in the same.
        (Does::Moves, _) => queue == Some(OWN_QUEUES[1]),
        (Does::IsLate | Does::Dies, OnFailure::Accept) => noted(|note| note.failed.is_some()),
        (Does::IsLate | Does::Dies, OnFailure::Refuse) => {
            return Err(format!(
                "job {id} was taken, about which filter `{name}` said nothing"
            ));
        }
    };
    match is_right {
        true => Ok(()),
        false => Err(format!("job {id} is not as filter `{name}` wants it")),
    }
}

/// What is noted last of each field is what the job has.
fn is_as_noted(id: JobId, submit: &Submit) -> Result<(), String> {
    let notes = submit.filtered.iter().flat_map(|notes| notes.iter());
    let queue = &submit.spec.jobspec.attributes.system.queue;
    // A later filter may change again what an earlier one did.
    let last: BTreeMap<&String, &Changed> = notes.flat_map(|note| &note.changed).collect();
    for (field, changed) in last {
        let has = match field.as_str() {
            "urgency" => json!(submit.urgency),
            // What takes nothing is in no queue, whatever it says.
            "queue" if submit.spec.request.takes == Takes::Resources => json!(queue),
            _ => continue,
        };
        if has != changed.to || changed.from == changed.to {
            return Err(format!(
                "job {id} has {has} as {field}, a filter's change says {} to {}",
                changed.from, changed.to
            ));
        }
    }
    Ok(())
}
