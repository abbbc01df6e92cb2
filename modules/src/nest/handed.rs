//! What children hand up: submissions made in a queue instance, whose jobs are this instance's, so
//! that they are taken here; nodes that a user's instance gives back; and nodes that were drained in a queue
//! instance, which are this instance's.

use std::collections::BTreeMap;

use eddy_broker::{Notice, Outbox, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Kind;
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::services::Service;
use eddy_wire::services::child::{DrainedRequest, HandUpRequest, ReleaseRequest};
use eddy_wire::services::job;
use eddy_wire::time::Time;
use serde_json::{Value, json};

use super::Nest;
use crate::resource::is_a_line;

impl Nest {
    /// Has a submission taken as if it had been made here, by the user who made it there; the
    /// answer goes to the child, which passes it on.
    pub(super) fn handed_up(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: HandUpRequest = request.parse()?;
        let child = self.speaker(request, body.child)?;
        let Some(name) = child.declared.clone() else {
            let text = "child.job: only queue instances hand submissions up";
            return Err(Refusal::new(Code::Denied, text));
        };
        let mut submission = body.submission;
        let of = child.id();
        let named = self.name_queue(&name, &mut submission.jobspec);
        let text = serde_json::to_vec(&submission).expect("a submission is JSON");
        let handed = Box::new(Request {
            caller: request.caller,
            topic: job::Submit::TOPIC.to_owned(),
            uid: body.user,
            roles: body.roles,
            body: text.into(),
            tail: request.tail.clone(),
        });
        match body.taken {
            // What was taken was in the queue that it names, whatever has become of that.
            Some(taken) => {
                let refused = named.err();
                self.take_up(now, (of, &name), (handed, &submission, taken), refused, out)
            }
            None => {
                named?;
                out.notice(Notice::HandedUp(handed));
                Ok(())
            }
        }
    }

    /// Has ground cleared where a user's instance says that nothing of it runs any more.
    pub(super) fn given_back(
        &mut self,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: ReleaseRequest = request.parse()?;
        let child = self.speaker(request, body.child)?;
        if child.declared.is_some() {
            let text = "child.job: a queue instance holds what its configuration says";
            return Err(Refusal::new(Code::Denied, text));
        }
        let numbers = child.numbers().into_iter();
        let given = numbers.filter(|(_, number)| body.ranks.contains(number.0));
        let ranks: Idset = given.map(|(rank, _)| rank.0).collect();
        let own = ranks.intersect(&self.hosts.kept(child));
        if !own.is_empty() {
            let text =
                "ranks: the leader's own node is among them, which goes back with the instance";
            return Err(Refusal::invalid(text));
        }
        let mut by_holder: BTreeMap<JobId, Idset> = BTreeMap::new();
        for rank in ranks.iter() {
            let holder = child.holder(Rank(rank));
            by_holder.entry(holder.job).or_default().insert(rank);
        }
        for (holder, ranks) in by_holder {
            out.notice(Notice::GivenBack(holder, ranks));
        }
        out.answer(request.caller, &());
        Ok(())
    }

    /// Drains nodes here that were drained in a queue instance: only so is nothing passed to them any more. Those
    /// that are drained already stay so for the reason that they are.
    pub(super) fn drained_inside(
        &self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: DrainedRequest = request.parse()?;
        let child = self.speaker(request, body.child)?;
        if child.declared.is_none() {
            let text = "child.job: a user's instance drains what it holds for itself";
            return Err(Refusal::new(Code::Denied, text));
        }
        for nodes in &body.nodes {
            is_a_line(&nodes.reason)?;
        }
        for (rank, number) in child.numbers() {
            let mut said = body.nodes.iter();
            let said = said.find(|nodes| nodes.ranks.contains(number.0));
            if let Some(nodes) = said.filter(|_| !self.closed.is_drained(rank)) {
                let kind = Kind::Drain(Idset::one(rank.0), nodes.reason.clone(), nodes.userid);
                out.append_own(now, kind);
            }
        }
        out.answer(request.caller, &());
        Ok(())
    }

    /// Gives a submission the queue that leads to that instance, if it names none.
    fn name_queue(&self, instance: &str, jobspec: &mut Value) -> Result<(), Refusal> {
        let leads = |name: &str| {
            let mut queues = self.queues.iter();
            queues.any(|queue| queue.name == name && queue.instance.as_deref() == Some(instance))
        };
        let given = jobspec.pointer("/attributes/system/queue");
        let given = given.and_then(Value::as_str);
        if let Some(given) = given {
            if leads(given) {
                return Ok(());
            }
            let text = format!(
                "attributes.system.queue: `{}` given, it does not lead to the instance `{instance}`",
                given.escape_debug()
            );
            return Err(Refusal::invalid(text));
        }
        let mut queues = self.queues.iter();
        let own = queues.find(|queue| queue.instance.as_deref() == Some(instance));
        let Some(own) = own else {
            let text = format!("attributes.system.queue: no queue leads to `{instance}`");
            return Err(Refusal::invalid(text));
        };
        let name = own.name.clone();
        // What is no map is refused by who reads it.
        if let Some(attributes) = jobspec.as_object_mut() {
            let system = attributes
                .entry("attributes")
                .or_insert_with(|| json!({}))
                .as_object_mut()
                .map(|attributes| attributes.entry("system").or_insert_with(|| json!({})));
            if let Some(system) = system.and_then(Value::as_object_mut) {
                system.insert("queue".to_owned(), Value::String(name));
            }
        }
        Ok(())
    }
}
