//! Whether the leaders of children are there: each says so again and again over its channel.
//!
//! A process that is stopped, or a machine that hangs, keeps its connections and says nothing. Its channel is
//! ended here after a while, as if it had been cut: nothing more is passed there, calls under way are refused,
//! and it begins anew when it goes on (doc/protocol/nesting.md).

use eddy_broker::{Outbox, Request, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::JobId;
use eddy_wire::services::child::ChildOf;
use eddy_wire::time::{Span, Time};

use super::Nest;
use super::adopt::end_stream;

/// After so many beats that did not come a leader is not there.
const BEATS: i64 = 3;
/// And not before that: who beats often may be late once.
const SILENCE_MIN: Span = Span::seconds(5);
/// How often one may say that it beats.
const EVERY_MIN: Span = Span::millis(10);
const EVERY_MAX: Span = Span::seconds(3600);

/// When a leader was heard last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pulse {
    last: Time,
    every: Span,
}

impl Pulse {
    /// Of one that says hello now and beats so often, if it does.
    pub(super) fn begins(now: Time, every: Option<Span>) -> Result<Option<Pulse>, Refusal> {
        match every {
            Some(every) if !(EVERY_MIN..=EVERY_MAX).contains(&every) => {
                let (given, least, most) = (every.0, EVERY_MIN.0, EVERY_MAX.0);
                let text = format!("beat: {given} given, allowed are {least} to {most} us");
                Err(Refusal::invalid(text))
            }
            every => Ok(every.map(|every| Pulse { last: now, every })),
        }
    }

    /// When it is not there, if nothing is heard of it until then.
    fn stops(self) -> Time {
        let silence = Span(self.every.0 * BEATS).max(SILENCE_MIN);
        self.last.after(silence)
    }
}

impl Nest {
    /// `child.beat`
    pub(super) fn beat(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let of: ChildOf = request.parse()?;
        let job = self.speaker(request, of)?.id();
        let told = &mut self.child(job).told;
        let is_current = told
            .channel
            .is_some_and(|c| c.client == request.caller.client);
        if let Some(pulse) = told.pulse.as_mut().filter(|_| is_current) {
            pulse.last = now;
        }
        out.answer(request.caller, &());
        Ok(())
    }

    /// Looks again when the first of those that beat may be gone.
    pub(super) fn watch_pulses(&mut self, now: Time, out: &mut Outbox) {
        let stops = self.children.values().filter_map(|child| {
            let pulse = child.told.pulse?;
            child.told.channel.map(|_| pulse.stops())
        });
        let next = stops.min();
        let is_watched = self.pulses.is_some_and(|watched| watched > now);
        if let Some(at) = next.filter(|at| !is_watched || Some(*at) < self.pulses) {
            out.volatile(Volatile::Wake(at));
            self.pulses = Some(at);
        }
    }

    /// Ends the channels of those that are not there.
    pub(super) fn end_silent(&mut self, now: Time, out: &mut Outbox) {
        if self.pulses.is_none_or(|at| at > now) {
            return;
        }
        self.pulses = None;
        let silent = self.children.values().filter_map(|child| {
            let pulse = child.told.pulse.filter(|pulse| pulse.stops() <= now)?;
            Some((child.id(), child.told.channel?, now - pulse.last))
        });
        let silent: Vec<(JobId, _, Span)> = silent.collect();
        for (job, channel, span) in silent {
            let text = format!(
                "nothing was heard of job {job} for {} s",
                span.0 / 1_000_000
            );
            end_stream(channel, &Refusal::new(Code::Unreachable, text), out);
            self.channels_gone(now, |caller| caller == channel, out);
        }
        self.watch_pulses(now, out);
    }
}
