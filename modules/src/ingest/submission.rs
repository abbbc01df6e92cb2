//! A submission on its way: what was sent, and what became of it before it is jobs.
//!
//! Made and taken by [`super::Ingest`]. Recorded nowhere: who sent it sends it again.

use std::sync::Arc;

use eddy_broker::{Caller, Request, Sender, TakenBy};
use eddy_wire::account::Party;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Sent;
use eddy_wire::filter::Filtered;
use eddy_wire::id::JobId;
use eddy_wire::services::child::TakenUp;
use eddy_wire::services::job::{SubmitRequest, URGENCY_MAX};
use eddy_wire::spec::Spec;
use uuid::Uuid;

use super::keys::Known;

/// A submission that passed every check but that of its key.
#[derive(Clone, Debug)]
pub(super) struct Submission {
    pub(super) caller: Caller,
    pub(super) user: u32,
    /// Who asked, if it is for another.
    pub(super) asked_by: Option<u32>,
    /// Who asks: he waits for no job of which he may not know. Of one that another instance let in it was asked there.
    pub(super) sender: Option<Sender>,
    /// The most urgent that whoever asked may have it.
    urgency_max: u8,
    /// Whom it is charged to, once it was found to be admissible.
    pub(super) party: Party,
    pub(super) spec: Arc<Spec>,
    /// What was sent, once that is not what is asked for: defaults were put in.
    pub(super) sent: Option<Arc<Sent>>,
    /// What filters did to it.
    pub(super) filtered: Option<Arc<Vec<Filtered>>>,
    pub(super) request: SubmitRequest,
    /// `None` for one plain job, else the values of `{cc}`.
    pub(super) copies: Option<Vec<u32>>,
    /// How many of the jobs that it is to wait for are known to be there.
    pub(super) found: usize,
    /// What a queue instance made of it, which took it itself.
    pub(super) taken: Option<Box<TakenUp>>,
    /// Which one.
    pub(super) taken_in: Option<Arc<str>>,
    /// First and last numbers of others that may have taken what it is to wait for.
    awaited: Vec<(JobId, JobId)>,
    /// What was found against it when it was handed up.
    pub(super) refused: Option<Refusal>,
}

impl Submission {
    /// As it was read.
    pub(super) fn new(
        of: &Request,
        request: SubmitRequest,
        spec: Arc<Spec>,
        copies: Option<Vec<u32>>,
    ) -> Submission {
        let user = request.on_behalf.unwrap_or(of.uid);
        Submission {
            caller: of.caller,
            user,
            asked_by: (user != of.uid).then_some(of.uid),
            sender: Some(of.sender()),
            urgency_max: of.sender().urgency_max(),
            party: Party::default(),
            spec,
            sent: None,
            filtered: None,
            request,
            copies,
            found: 0,
            taken: None,
            taken_in: None,
            awaited: Vec::new(),
            refused: None,
        }
    }

    /// That instance took it while nobody was here. Whether its user might have it so urgent was looked at there,
    /// by what the user is there.
    pub(super) fn was_let_in_by(&mut self, by: &TakenBy) {
        self.urgency_max = URGENCY_MAX;
        self.sender = None;
        self.taken_in = Some(Arc::clone(&by.instance));
        self.awaited.clone_from(&by.awaited);
    }

    /// Whether that job may be there and not be known yet.
    pub(super) fn awaits(&self, job: JobId) -> bool {
        let mut awaited = self.awaited.iter();
        awaited.any(|(first, last)| (*first..=*last).contains(&job))
    }

    /// Whether it may be as urgent as it is sent. A filter may make more of it.
    pub(super) fn may_be_so_urgent(&self) -> Result<(), Refusal> {
        let (given, most) = (self.request.urgency, self.urgency_max);
        if given <= most {
            return Ok(());
        }
        let text = format!(
            "urgency: {given} given, a user may ask for 0 to {most}; owner and admins for up to {URGENCY_MAX}"
        );
        Err(Refusal::new(Code::Denied, text))
    }

    pub(super) fn count(&self) -> u32 {
        self.copies.as_ref().map_or(1, |copies| copies.len() as u32)
    }

    /// Of its jobspec.
    pub(super) fn bytes(&self) -> usize {
        self.spec.text.len() + self.spec.environment_text.len()
    }

    /// Whose it is and under which key.
    pub(super) fn name(&self) -> (u32, Uuid) {
        (self.user, self.request.key)
    }

    /// As its key will find it, from this job on.
    pub(super) fn known_as(&self, first: JobId) -> Known {
        let copies = self.copies.as_ref();
        Known {
            first,
            count: self.count(),
            jobspec: self.sent().jobspec,
            copies: copies.map(|ids| ids.iter().copied().collect()),
            waitable: self.request.waitable,
            requeue: self.request.requeue,
        }
    }

    /// What was sent.
    pub(super) fn sent(&self) -> Sent {
        let as_is = Sent {
            jobspec: self.spec.hash,
            environment: self.spec.environment_hash,
        };
        self.sent.as_deref().copied().unwrap_or(as_is)
    }

    /// Asks for something else from now on than what was sent.
    pub(super) fn amend(&mut self, spec: Arc<Spec>) {
        self.sent = Some(Arc::new(self.sent()));
        self.spec = spec;
    }
}
