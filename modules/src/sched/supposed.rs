//! What jobs would ask for that somebody asks about: as is supposed of them, or were they let go.
//!
//! The planner knows of a job what it may be given as it is. Another limit may open other nodes to it, and who
//! is held, at a limit or waits for something else the planner does not know at all: what those would want is
//! found here, by what a submission would be.

use std::collections::BTreeMap;

use eddy_broker::{Outbox, Request};
use eddy_wire::error::Refusal;
use eddy_wire::event::Kind;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Takes;
use eddy_wire::plan::{Lent, Suppose, Want};
use eddy_wire::services::sched::{ExplainRequest, SUPPOSED_MAX};
use eddy_wire::spec::Spec;
use eddy_wire::time::{Span, Time};
use eddy_wire::update::{self, Change};

use super::Sched;
use super::asked::{Would, may_be_supposed};
use super::seen::{Order, Seen};
use crate::ingest::served;
use crate::named;

impl Sched {
    /// Passes a question on to the planner.
    ///
    /// # Errors
    /// What is wrong with it, or that there are too many.
    pub(super) fn explain(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: ExplainRequest = request.parse()?;
        may_be_supposed(&body)?;
        body.jobs.iter().try_for_each(named::ranges)?;
        let would = Would {
            wants: self.would_want(now, &body),
            withheld: self.withheld(now, &body),
        };
        let whose = (request, self.shown_to(request));
        self.asked.ask(whose, body, would, out)
    }

    /// The homes that are not lent to the first of those asked about who wait for resources, with what each would
    /// ask for that is as long as it may be there.
    fn withheld(
        &self,
        now: Time,
        body: &ExplainRequest,
    ) -> BTreeMap<JobId, Vec<(Lent, Option<Want>)>> {
        if !body.suppose.is_nothing() || !self.sets.lending.is_bound() {
            return BTreeMap::new();
        }
        let ranges = body.jobs.iter().flat_map(|jobs| &jobs.ranges);
        let asked = ranges.flat_map(|(first, last)| self.jobs.range(*first..=*last));
        let waits = asked.filter(|(_, seen)| self.wants(seen) && !seen.resumes());
        let told = waits.take(SUPPOSED_MAX).map(|(id, seen)| {
            let lent = self.withheld_from(seen).into_iter();
            let with = |lent: Lent| {
                let suppose = Suppose {
                    limit: Some(lent.most),
                    ..Suppose::default()
                };
                let is_some = lent.most > Span::ZERO;
                let want = is_some.then(|| self.want_as(now, *id, seen, &suppose));
                (lent, want)
            };
            (*id, lent.map(with).collect())
        });
        told.collect()
    }

    /// The first of those asked about of whom the planner does not know what they would ask for.
    fn would_want(&self, now: Time, body: &ExplainRequest) -> Vec<(JobId, Want)> {
        let ranges = body.jobs.iter().flat_map(|jobs| &jobs.ranges);
        let asked = ranges.flat_map(|(first, last)| self.jobs.range(*first..=*last));
        let is_known = |seen: &Seen| body.suppose.is_nothing() && self.wants(seen);
        let waits = |seen: &Seen| {
            let takes = seen.submit.spec.request.takes == Takes::Resources;
            seen.state.is_pending() && seen.order == Order::Here && takes && !is_known(seen)
        };
        let asked = asked.filter(|(_, seen)| waits(seen)).take(SUPPOSED_MAX);
        let wants = asked.map(|(id, seen)| (*id, self.want_as(now, *id, seen, &body.suppose)));
        let wants: BTreeMap<JobId, Want> = wants.collect();
        wants.into_iter().collect()
    }

    /// What one would ask for that waits for resources from now on, unless it does already.
    fn want_as(&self, now: Time, id: JobId, seen: &Seen, suppose: &Suppose) -> Want {
        let moved = self.moved(seen, suppose);
        let seen = moved.as_ref().unwrap_or(seen);
        let mut want = seen.want(&self.gates);
        want.request = suppose.request(&want.request);
        if suppose.limit.is_some() {
            let spec = Spec {
                request: want.request.clone(),
                ..Spec::clone(&seen.submit.spec)
            };
            let cut = served::cut(&spec, self.asked.left(now));
            want.request.duration = cut.map(|left| left.0).or(want.request.duration);
        }
        want.urgency = suppose.urgency.unwrap_or(match seen.urgency {
            0 => seen.urgency_before,
            urgency => urgency,
        });
        if !self.wants(seen) {
            want.eligible = now;
        }
        self.placed(id, seen, want)
    }

    /// One that would be with others. Whether it may ingest says.
    fn moved(&self, seen: &Seen, suppose: &Suppose) -> Option<Seen> {
        let set = suppose.terms();
        let name = |text: Option<String>| text.and_then(|text| text.parse().ok());
        let change = Change {
            account: name(set.account.clone()),
            qos: name(set.qos.clone()),
            queue: set.queue.clone(),
            ..Change::default()
        };
        let Kind::JobspecUpdate(map) = change.record(None, None) else {
            unreachable!("a change is no other record")
        };
        set.moves().then(|| {
            let mut moved = seen.clone();
            update::submit(&mut moved.submit, &map);
            moved.to = self.sets.of(&moved.submit);
            moved
        })
    }
}
