//! `job.info`: a document kept with a job, in memory or in the journal.

use std::collections::BTreeMap;

use eddy_broker::{Answer, Caller, Outbox, Query, Request, Sender, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::hash::Hash;
use eddy_wire::id::JobId;
use eddy_wire::services::job::{EventsLine, InfoKey, InfoReply, InfoRequest};
use eddy_wire::spec::LOST;
use serde_json::Value;

use crate::sight::no_job;

use super::veil::Veil;
use super::{Asked, View};

/// Documents being put together.
#[derive(Default)]
pub(super) struct Documents {
    calls: BTreeMap<u64, Pending>,
}

struct Pending {
    caller: Caller,
    sender: Sender,
    reach: Reach,
    body: InfoRequest,
    stage: Stage,
}

/// Whose jobs a document is told of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Everybody's.
    All,
    /// Those that the sender may act on; others are told whose it is.
    Own,
    /// Those, and of others nobody knows that they are there.
    OwnUnseen,
}

impl Reach {
    fn check(self, sender: Sender, (id, user): (JobId, u32)) -> Result<(), Refusal> {
        match self {
            Reach::Own | Reach::OwnUnseen if sender.may_act_for(user) => Ok(()),
            Reach::All => Ok(()),
            Reach::Own => Err(sender.refused(id, user)),
            Reach::OwnUnseen => Err(no_job(id)),
        }
    }
}

/// What the journal was asked for.
enum Stage {
    Finished,
    Records,
    /// The jobspec; the hash is its environment's.
    Jobspec(Hash),
    /// The environment of this jobspec.
    Environment(Value),
}

impl Documents {
    pub(super) fn request(
        &mut self,
        view: &View,
        tag: u64,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<Option<Asked>, Refusal> {
        let body: InfoRequest = request.parse()?;
        let sender = request.sender();
        let reach = match (body.key, view.shown_to(sender)) {
            (_, Some(_)) => Reach::OwnUnseen,
            // It holds what the submitter's environment holds.
            (InfoKey::Jobspec, None) => Reach::Own,
            (InfoKey::Eventlog | InfoKey::Resources, None) => Reach::All,
        };
        if let Some(job) = view.jobs.get(&body.id) {
            reach.check(sender, (body.id, job.submit.user))?;
        }
        if let (InfoKey::Jobspec, Some(job)) = (body.key, view.jobs.get(&body.id)) {
            // Nothing of it need be read. Each leader of an instance asks for its own job's.
            let spec = &job.submit.spec;
            if spec.is_lost() {
                return Err(Refusal::not_found(format!(
                    "id: job {}: {LOST}",
                    body.id.f58_ascii()
                )));
            }
            let jobspec = serde_json::from_slice(&spec.text).map_err(Refusal::invalid)?;
            let document = with_environment(jobspec, &spec.environment_text)?;
            out.answer(request.caller, &InfoReply { document });
            return Ok(None);
        }
        let (stage, query) = match view.jobs.get(&body.id) {
            Some(job) => (Stage::Records, Query::Records(job.seqs.clone())),
            None => (Stage::Finished, Query::Finished(body.id)),
        };
        self.calls.insert(
            tag,
            Pending {
                caller: request.caller,
                sender,
                reach,
                body,
                stage,
            },
        );
        out.volatile(Volatile::Query(tag, query));
        Ok(Some(Asked::Document))
    }

    pub(super) fn answered(
        &mut self,
        view: &View,
        tag: u64,
        answer: &Answer,
        out: &mut Outbox,
    ) -> Option<Asked> {
        let mut pending = self.calls.remove(&tag)?;
        let veil = Veil::new(view, view.shown_to(pending.sender));
        match pending.step(answer, &veil) {
            Ok(Step::Ask(query)) => {
                out.volatile(Volatile::Query(tag, query));
                self.calls.insert(tag, pending);
                Some(Asked::Document)
            }
            Ok(Step::Done(document)) => {
                out.answer(pending.caller, &InfoReply { document });
                None
            }
            Err(refusal) => {
                out.refuse(pending.caller, &refusal);
                None
            }
        }
    }
}

enum Step {
    Ask(Query),
    Done(Value),
}

impl Pending {
    fn step(&mut self, answer: &Answer, veil: &Veil<'_>) -> Result<Step, Refusal> {
        let id = self.body.id;
        if let Answer::Failed(why) = answer {
            return Err(Refusal::new(Code::Busy, why.clone()));
        }
        match (std::mem::replace(&mut self.stage, Stage::Finished), answer) {
            (Stage::Finished, Answer::Finished(Some(found))) => {
                self.reach.check(self.sender, (id, found.0.userid))?;
                self.stage = Stage::Records;
                Ok(Step::Ask(Query::Records(found.1.clone())))
            }
            (Stage::Finished, Answer::Finished(None)) => Err(no_job(id)),
            (Stage::Records, Answer::Records(records)) => {
                let lines: Vec<&EventsLine> = records.iter().map(|(_, line)| line).collect();
                self.records(&lines, veil)
            }
            (Stage::Jobspec(environment), Answer::Blob(Some(text))) => {
                let jobspec = serde_json::from_slice(text).map_err(Refusal::invalid)?;
                self.stage = Stage::Environment(jobspec);
                Ok(Step::Ask(Query::Blob(environment)))
            }
            (Stage::Environment(jobspec), Answer::Blob(Some(text))) => {
                Ok(Step::Done(with_environment(jobspec, text)?))
            }
            (_, Answer::Blob(None)) => Err(Refusal::not_found(format!(
                "id: the jobspec of job {} is not stored",
                id.f58_ascii()
            ))),
            (_, other) => panic!("a document of job {id} was asked for, the answer is {other:?}"),
        }
    }

    fn records(&mut self, lines: &[&EventsLine], veil: &Veil<'_>) -> Result<Step, Refusal> {
        let id = self.body.id;
        match self.body.key {
            InfoKey::Eventlog => {
                let lines = lines.iter().map(|line| (*line).clone()).collect();
                let lines = serde_json::to_value(veil.lines(lines)).map_err(Refusal::invalid)?;
                Ok(Step::Done(lines))
            }
            InfoKey::Resources => {
                let alloc = lines.iter().rev().find(|line| line.name == "alloc");
                let set = alloc
                    .and_then(|line| context(line))
                    .and_then(|c| c.get("R").cloned());
                set.map(Step::Done).ok_or_else(|| {
                    Refusal::not_found(format!(
                        "key: job {} was given no resources",
                        id.f58_ascii()
                    ))
                })
            }
            InfoKey::Jobspec => {
                let submit = lines.first().and_then(|line| context(line));
                let hash = |key: &str| submit.as_ref()?.get(key)?.as_str()?.parse::<Hash>().ok();
                match (hash("jobspec"), hash("environment")) {
                    (Some(jobspec), Some(environment)) => {
                        self.stage = Stage::Jobspec(environment);
                        Ok(Step::Ask(Query::Blob(jobspec)))
                    }
                    _ => Err(Refusal::not_found(format!(
                        "id: job {} has no submit record",
                        id.f58_ascii()
                    ))),
                }
            }
        }
    }
}

/// A jobspec as it was submitted.
fn with_environment(mut jobspec: Value, text: &[u8]) -> Result<Value, Refusal> {
    let environment: Value = serde_json::from_slice(text).map_err(Refusal::invalid)?;
    if environment.as_object().is_some_and(|map| !map.is_empty()) {
        jobspec["attributes"]["system"]["environment"] = environment;
    }
    Ok(jobspec)
}

fn context(line: &EventsLine) -> Option<Value> {
    serde_json::from_str(line.context.as_ref()?.get()).ok()
}
