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
const SLICE: Duration = Duration::from_micros(250);
/// Where nobody had an answer for so long, listings have a turn although there is other work. Not when one
/// waited for so long: with a crowd one always has, and each turn of the loop would begin with listings.
const LATE: Duration = Duration::from_millis(20);
/// How long that turn is: with the above, their share of a loop that is never idle.
const LATE_SLICE: Duration = Duration::from_millis(1);
/// So long after the journal or a shell was given work nobody is answered: it is woken on the processor that
/// this loop is on, more often than not, and would wait there for listings.
const REST: Duration = Duration::from_millis(1);

/// Who waits for a listing, the longest first. Bounded by what clients may have unanswered.
#[derive(Default)]
pub(super) struct Listings {
    waiting: VecDeque<(Instant, ClientId, Message)>,
    /// When the last one was answered.
    answered: Option<Instant>,
    /// When the journal or a shell was given work last.
    given: Option<Instant>,
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

    /// Work is given to somebody else.
    pub(super) fn given(&mut self, now: Instant) {
        self.given = Some(now);
    }

    /// Who waits has a turn.
    pub(super) fn turn(&self) -> impl Future<Output = ()> + use<> {
        let rest = self.rests_until(Instant::now());
        async move {
            match rest {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => tokio::task::yield_now().await,
            }
        }
    }

    fn rests_until(&self, now: Instant) -> Option<Instant> {
        let until = self.given? + REST;
        (until > now).then_some(until)
    }

    fn is_late(&self, now: Instant) -> bool {
        let first = self.waiting.front();
        let since = first.map(|(since, ..)| self.answered.unwrap_or(*since).max(*since));
        since.is_some_and(|since| now.saturating_duration_since(since) >= LATE)
    }
}

impl Leader {
    /// Answers where there is no other work.
    pub(super) fn list(&mut self) {
        self.list_for(SLICE);
    }

    /// Answers for so long, one at least. Each is sent at once: for what a listing is, that takes longer than
    /// to make it, and at the end of the turn no slice would count it.
    fn list_for(&mut self, slice: Duration) {
        let until = Instant::now() + slice;
        while let Some((_, id, message)) = self.listings.waiting.pop_front() {
            self.serve(id, message);
            self.settle();
            self.peers.flush();
            let now = Instant::now();
            self.listings.answered = Some(now);
            if now >= until {
                break;
            }
        }
    }

    /// Answers where other work never ends, and nobody was for long.
    pub(super) fn list_late(&mut self) {
        if self.listings.is_late(Instant::now()) {
            self.list_for(LATE_SLICE);
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

    #[test]
    fn who_was_given_work_has_the_processor_first() {
        let mut listings = Listings::default();
        let now = Instant::now();
        assert_eq!(listings.rests_until(now), None);
        listings.given(now);
        assert_eq!(listings.rests_until(now), Some(now + REST));
        assert_eq!(listings.rests_until(now + REST), None);
    }

    /// With a crowd there is always one that waits for long: each turn of the loop would begin with listings.
    #[test]
    fn however_many_wait_listings_have_a_turn_of_their_own_once_in_a_while() {
        let mut listings = Listings::default();
        let begun = Instant::now();
        for matchtag in 1..=500 {
            assert!(listings.put(FIRST, listing(matchtag)).is_none());
        }
        let until = begun + LATE + Duration::from_secs(1);
        assert!(!listings.is_late(begun), "there is other work");
        assert!(listings.is_late(until), "nobody had an answer");
        listings.answered = Some(until);
        assert!(!listings.is_late(until + LATE / 2), "one had one");
        assert!(listings.is_late(until + LATE));
    }

    /// It goes over all payers, running jobs and nodes.
    #[test]
    fn a_report_of_what_was_used_waits_as_a_listing() {
        let mut listings = Listings::default();
        let report = Message::request(usage::Report::TOPIC, 3, &usage::ReportRequest::default());
        assert!(listings.put(FIRST, report).is_none());
    }
}
