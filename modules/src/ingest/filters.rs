//! Submissions that filters of the administrator look at before they are jobs.
//!
//! A new submission is asked of each filter in order, as it is after the one before; what comes out is
//! checked as if it had been submitted so. Nothing of it is recorded until then: who sent it sends it
//! again after a restart, and it is asked anew. Runs no filter itself: the driver does, and says what
//! came of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_broker::{Caller, Outbox, Volatile};
use eddy_wire::account::Party;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::filter::{Asked, Changed, Filter, Filtered, OnFailure, Ruling};
use eddy_wire::fsd::seconds_of_micros;
use eddy_wire::jobspec::{Request, Work};
use eddy_wire::services::job::{URGENCY_DEFAULT, URGENCY_MAX};
use eddy_wire::spec::Spec;
use eddy_wire::time::Time;
use serde_json::{Map, Value, json};

use super::upkeep::has_room;
use super::{Ingest, Submission};

const URGENCY: &str = "urgency";
const TIME_LIMIT: &str = "time_limit";
const ACCOUNT: &str = "account";
const NAME: &str = "name";

/// The filters, and what is with them.
#[derive(Debug, Default)]
pub(super) struct Filters {
    all: Arc<[Arc<Filter>]>,
    waiting: BTreeMap<u64, Waiting>,
}

/// A submission that a filter looks at.
#[derive(Debug)]
struct Waiting {
    submission: Submission,
    /// Those that were configured when it came.
    filters: Arc<[Arc<Filter>]>,
    /// Which of them.
    at: usize,
}

impl Filters {
    pub(super) fn new(all: &[Filter]) -> Filters {
        Filters {
            all: all.iter().cloned().map(Arc::new).collect(),
            waiting: BTreeMap::new(),
        }
    }

    /// These are asked from now on; who is asked about a submission is asked on.
    pub(super) fn configured(&mut self, all: &[Filter]) {
        self.all = all.iter().cloned().map(Arc::new).collect();
    }

    pub(super) fn drop_where(&mut self, gone: impl Fn(Caller) -> bool) {
        self.waiting
            .retain(|_, waiting| !gone(waiting.submission.caller));
    }

    /// All submissions that are looked at.
    pub(super) fn looked_at(&self) -> impl Iterator<Item = &Submission> {
        self.waiting.values().map(|waiting| &waiting.submission)
    }

    /// The same, which are no more.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Submission> + use<> {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_values().map(|waiting| waiting.submission)
    }
}

impl Ingest {
    /// A submission whose key is new: asked of the filters, where there are some, and then taken.
    pub(super) fn screen(
        &mut self,
        now: Time,
        submission: Submission,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        submission.may_be_so_urgent()?;
        if self.filters.all.is_empty() {
            return self.take(now, submission, out);
        }
        self.is_open()?;
        let waiting = self.filters.waiting.values();
        let waiting =
            waiting.map(|Waiting { submission, .. }| (submission.user, submission.bytes()));
        has_room("filters", waiting, (submission.user, submission.bytes()))?;
        let filters = Arc::clone(&self.filters.all);
        self.ask_filter(
            now,
            Waiting {
                submission,
                filters,
                at: 0,
            },
            out,
        )
    }

    /// Asks the next filter; takes the submission where all were asked.
    fn ask_filter(&mut self, now: Time, waiting: Waiting, out: &mut Outbox) -> Result<(), Refusal> {
        let Some(filter) = waiting.filters.get(waiting.at) else {
            let submission = waiting.submission;
            let who = spelled(submission.filtered.as_deref());
            return self
                .take(now, submission, out)
                .map_err(|refusal| match who {
                    Some(who) => Refusal::new(refusal.code, format!("{} ({who})", refusal.text)),
                    None => refusal,
                });
        };
        let asked = self.asked_of(now, &waiting.submission);
        let tag = self.next_tag;
        self.next_tag += 1;
        out.volatile(Volatile::Filter(tag, Arc::clone(filter), Box::new(asked)));
        self.filters.waiting.insert(tag, waiting);
        Ok(())
    }

    /// What a filter is told of it.
    fn asked_of(&self, now: Time, submission: &Submission) -> Asked {
        let Submission { spec, request, .. } = submission;
        let asks = &spec.request;
        let slots = u64::from(asks.slots);
        Asked {
            version: Asked::VERSION,
            user: submission.user,
            user_name: None,
            asked_by: submission.asked_by,
            count: submission.count(),
            kind: kind(asks),
            fields: fields(spec, request.urgency, None),
            effective: self.filled(now, submission.user, spec).ok().map(|filled| {
                let (with_defaults, party) = filled;
                let spec = with_defaults.as_ref().unwrap_or(spec);
                fields(spec, request.urgency, Some(&party))
            }),
            nodes: asks.nodes.map(u64::from),
            cores: slots * u64::from(asks.cores_per_slot),
            gpus: slots * u64::from(asks.gpus_per_slot),
            jobspec: serde_json::from_slice(&spec.text).expect("it was written as JSON"),
        }
    }

    /// A filter's ruling, or that there is none. Its submission may be gone.
    pub(super) fn ruled(&mut self, now: Time, tag: u64, ruling: &Ruling, out: &mut Outbox) {
        let Some(waiting) = self.filters.waiting.remove(&tag) else {
            return;
        };
        let caller = waiting.submission.caller;
        if let Err(refusal) = self.obey(now, waiting, ruling, out) {
            self.turn_away(now, caller, &refusal, out);
        }
    }

    fn obey(
        &mut self,
        now: Time,
        mut waiting: Waiting,
        ruling: &Ruling,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let (user, key) = waiting.submission.name();
        // The same key may have come twice meanwhile.
        if let Some(known) = self.keys.recent(user, &key) {
            return self.repeated(&waiting.submission, known, out);
        }
        let filter = Arc::clone(&waiting.filters[waiting.at]);
        match ruling {
            Ruling::Accept => {}
            Ruling::Modify(set) => self.modify(&mut waiting.submission, &filter, set)?,
            Ruling::Refuse(reason) => {
                let text = format!("filter `{}`: {reason}", filter.name);
                return Err(Refusal::new(Code::Denied, text));
            }
            Ruling::Failed(why) => match filter.on_failure {
                OnFailure::Accept => waiting.submission.note(Filtered {
                    filter: filter.name.clone(),
                    changed: BTreeMap::new(),
                    failed: Some(why.clone()),
                }),
                OnFailure::Refuse => {
                    let text = format!("filter `{}` cannot be asked: {why}", filter.name);
                    return Err(Refusal::new(Code::Busy, text));
                }
            },
        }
        waiting.at += 1;
        self.ask_filter(now, waiting, out)
    }

    /// Puts in what a filter sets, checked as a submission is.
    fn modify(
        &mut self,
        submission: &mut Submission,
        filter: &Filter,
        set: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        let before = fields(&submission.spec, submission.request.urgency, None);
        let wrong = |text: String| {
            let text = format!("{text} (as filter `{}` has it)", filter.name);
            Refusal::new(Code::Invalid, text)
        };
        if let Some(given) = set.get(URGENCY) {
            let urgency = match given {
                Value::Null => Some(u64::from(URGENCY_DEFAULT)),
                given => given.as_u64().filter(|u| *u <= u64::from(URGENCY_MAX)),
            };
            let urgency = urgency
                .ok_or_else(|| wrong(format!("urgency: {given} given, allowed are 0 to 31")))?;
            submission.request.urgency = urgency as u8;
        }
        let jobspec = with_fields(&submission.spec, set);
        let spec = self.specs.intern(jobspec);
        let spec = spec.map_err(|refusal| wrong(refusal.text))?;
        if spec.hash != submission.spec.hash {
            submission.amend(spec);
        }
        let after = fields(&submission.spec, submission.request.urgency, None);
        let changed = before.into_iter().filter_map(|(name, from)| {
            let to = after.get(name).cloned().unwrap_or_default();
            (from != to).then(|| (name.to_owned(), Changed { from, to }))
        });
        let changed: BTreeMap<String, Changed> = changed.collect();
        if !changed.is_empty() {
            submission.note(Filtered {
                filter: filter.name.clone(),
                changed,
                failed: None,
            });
        }
        Ok(())
    }
}

impl Submission {
    fn note(&mut self, filtered: Filtered) {
        Arc::make_mut(self.filtered.get_or_insert_default()).push(filtered);
    }
}

/// Which filters changed what, for the user whose submission cannot be taken so.
fn spelled(filtered: Option<&Vec<Filtered>>) -> Option<String> {
    let changed = filtered?.iter().filter(|one| !one.changed.is_empty());
    let spelled = changed.map(|one| {
        let fields: Vec<&str> = one.changed.keys().map(String::as_str).collect();
        format!("filter `{}` changed {}", one.filter, fields.join(", "))
    });
    let spelled: Vec<String> = spelled.collect();
    (!spelled.is_empty()).then(|| spelled.join("; "))
}

fn kind(request: &Request) -> &'static str {
    match request.work {
        Work::Tasks => "tasks",
        Work::Instance { .. } | Work::Ground { .. } => "instance",
    }
}

/// What may be changed, as it is; as it is charged where that is settled.
fn fields(spec: &Spec, urgency: u8, party: Option<&Party>) -> BTreeMap<&'static str, Value> {
    let system = &spec.jobspec.attributes.system;
    let settled = |of: fn(&Party) -> Option<String>, asked: Option<&String>| {
        json!(party.and_then(of).or_else(|| asked.cloned()))
    };
    let account = system.account.as_ref().or(system.bank.as_ref());
    let limit = spec.request.duration.map(seconds_of_micros);
    BTreeMap::from([
        (
            ACCOUNT,
            settled(
                |party| party.account.as_ref().map(ToString::to_string),
                account,
            ),
        ),
        (
            "class",
            settled(
                |party| party.class.as_ref().map(ToString::to_string),
                system.class.as_ref(),
            ),
        ),
        (NAME, json!(spec.jobspec.name())),
        (
            "qos",
            settled(
                |party| party.qos.as_ref().map(ToString::to_string),
                system.qos.as_ref(),
            ),
        ),
        ("queue", json!(system.queue)),
        (TIME_LIMIT, json!(limit)),
        (URGENCY, json!(urgency)),
    ])
}

/// The jobspec as it would be sent with these fields in it.
fn with_fields(spec: &Spec, set: &Map<String, Value>) -> Value {
    let mut jobspec: Value = serde_json::from_slice(&spec.text).expect("it was written as JSON");
    let system = &mut jobspec["attributes"]["system"];
    system["environment"] =
        serde_json::from_slice(&spec.environment_text).expect("it was written as JSON");
    for (name, value) in set {
        let value = value.clone();
        match name.as_str() {
            URGENCY => {}
            NAME if value.is_null() => {
                let job = system.get_mut("job").and_then(Value::as_object_mut);
                job.map(|job| job.remove(NAME));
            }
            NAME => system["job"][NAME] = value,
            TIME_LIMIT => system["duration"] = if value.is_null() { json!(0) } else { value },
            field => {
                let system = system.as_object_mut().expect("attributes are an object");
                if field == ACCOUNT {
                    system.remove("bank");
                }
                match value {
                    Value::Null => drop(system.remove(field)),
                    value => drop(system.insert(field.to_owned(), value)),
                }
            }
        }
    }
    jobspec
}
