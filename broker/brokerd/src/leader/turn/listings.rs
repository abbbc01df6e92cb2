//! Listings, which are long work for the leader and urgent to nobody: whoever asks for one waits until
//! nothing else is there, so that a crowd that looks at its jobs holds up no submission and no start.
//!
//! Part of the loop. It knows which requests are listings, not what is in them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use eddy_broker::ClientId;
use eddy_wire::message::{Message, Target, Type};
use eddy_wire::services::{Service, child, job, resource, usage};

use super::Leader;

/// The requests that wait for all others.
const LISTINGS: &[&str] = &[
    job::List::TOPIC,
    resource::List::TOPIC,
    child::Children::TOPIC,
    usage::Report::TOPIC,
];
/// How long listings are worked at before the loop looks for anything else.
const SLICE: Duration = Duration::from_millis(1);
/// One that waits longer has its turn although there is other work.
const LATE: Duration = Duration::from_millis(20);

/// Who waits for a listing, the longest first. Bounded by what clients may have unanswered.
#[derive(Default)]
pub(super) struct Listings {
    waiting: VecDeque<(Instant, ClientId, Message)>,
}

impl Listings {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps a listing; gives back what else it is.
    pub(super) fn put(&mut self, id: ClientId, message: Message) -> Option<Message> {
        let is_here = message.target == Target::Service;
        match message.kind {
            Type::Request if is_here && LISTINGS.contains(&message.topic.as_str()) => {
                self.waiting.push_back((Instant::now(), id, message));
                return None;
            }
            Type::Cancel => {
                let is_other = |of: ClientId, tag| of != id || tag != message.matchtag;
                self.waiting
                    .retain(|(_, of, asked)| is_other(*of, asked.matchtag));
            }
            Type::Request | Type::Reply | Type::Part | Type::Refused => {}
        }
        Some(message)
    }

    fn is_late(&self) -> bool {
        let first = self.waiting.front();
        first.is_some_and(|(since, ..)| since.elapsed() >= LATE)
    }
}

impl Leader {
    /// Answers for a moment, one at least.
    pub(super) fn list(&mut self) {
        let until = Instant::now() + SLICE;
        while let Some((_, id, message)) = self.listings.waiting.pop_front() {
            self.serve(id, message);
            self.settle();
            if Instant::now() >= until {
                break;
            }
        }
    }

    /// The same where other work never ends.
    pub(super) fn list_late(&mut self) {
        if self.listings.is_late() {
            self.list();
        }
    }
}

#[cfg(test)]
mod tests {
    use eddy_wire::services::job::ListRequest;

    use super::*;

    const FIRST: ClientId = ClientId(1);

    fn listing(matchtag: u64) -> Message {
        Message::request(job::List::TOPIC, matchtag, &ListRequest::default())
    }

    fn cancel(matchtag: u64) -> Message {
        Message {
            kind: Type::Cancel,
            ..listing(matchtag)
        }
    }

    #[test]
    fn only_listings_wait_and_one_that_is_taken_back_no_more() {
        let mut listings = Listings::default();
        let submission = Message::request(job::Submit::TOPIC, 3, &());
        assert!(listings.put(FIRST, submission).is_some());
        assert!(listings.is_empty());
        assert!(listings.put(FIRST, listing(4)).is_none());
        assert!(listings.put(FIRST, cancel(5)).is_some(), "it is another's");
        assert!(listings.put(ClientId(2), cancel(4)).is_some());
        assert!(!listings.is_empty());
        assert!(listings.put(FIRST, cancel(4)).is_some());
        assert!(listings.is_empty());
    }

    /// It goes over all payers, running jobs and nodes.
    #[test]
    fn a_report_of_what_was_used_waits_as_a_listing() {
        let mut listings = Listings::default();
        let report = Message::request(usage::Report::TOPIC, 3, &usage::ReportRequest::default());
        assert!(listings.put(FIRST, report).is_none());
    }
}
