//! Whether the parent has been silent for so long that jobs begin which it has not ordered, and for so
//! long that nothing begins here any more; or the instance ends so soon that nothing does.
//!
//! Kept by the mailbox of the planner, which decides what begins. It outlives no leader: one that begins
//! counts from its beginning, since it may begin without its parent.

use eddy_wire::plan::Reason;
use eddy_wire::time::{Span, Time};

/// What was last heard of the parent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence {
    /// How long work begins all the same; none where there is no parent.
    lease: Option<Span>,
    /// When what this instance took itself begins; never where it takes nothing.
    alone: Option<Span>,
    heard: Heard,
    /// When the last of its jobs end by the limit of the instance.
    end: Option<Time>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Open,
    /// Its jobs are being ended: what began now would be ended as it begins.
    Ending,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Heard {
    /// The channel stands, or there is no parent.
    #[default]
    There,
    /// Not since then.
    SilentSince(Time),
    /// Not since then, and long enough that work begins which it has not ordered.
    Alone(Time),
    /// Not for the lease.
    Lapsed,
}

/// Whether a job may begin that the parent has not ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayBegin {
    /// When it was silent for long enough.
    Alone,
    /// Only where the parent says.
    Ordered,
}

/// Whether work begins is otherwise from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// What the parent has not ordered begins, too.
    Alone,
    /// Nothing begins any more.
    Lapses,
    /// It does again.
    Returns,
}

impl Silence {
    /// With a parent, if there is one, that is there.
    /// `alone` is when work begins that it has not ordered, if ever.
    pub fn new(lease: Option<Span>, alone: Option<Span>) -> Silence {
        Silence {
            lease,
            alone,
            heard: Heard::There,
            end: None,
            stage: Stage::Open,
        }
    }

    /// The last of the jobs end then, by what is known now.
    pub fn ends_at(&mut self, end: Option<Time>) {
        self.end = end;
    }

    /// The channel is down, or does not stand yet: when that has consequences, unless it is known already.
    pub fn begins(&mut self, now: Time) -> impl Iterator<Item = Time> + use<> {
        let is_news = self.heard == Heard::There && self.lease.is_some();
        if is_news {
            self.heard = Heard::SilentSince(now);
        }
        let after = [self.alone, self.lease].into_iter().flatten();
        after
            .filter(move |_| is_news)
            .map(move |span| now.after(span))
    }

    /// The parent said what this instance has.
    pub fn ends(&mut self) -> Option<Turn> {
        let before = std::mem::replace(&mut self.heard, Heard::There);
        match before {
            Heard::Lapsed | Heard::Alone(_) => Some(Turn::Returns),
            Heard::There | Heard::SilentSince(_) => None,
        }
    }

    /// It is now this time.
    pub fn at(&mut self, now: Time) -> Option<Turn> {
        let stage = match self.end.is_some_and(|end| end <= now) {
            true => Stage::Ending,
            false => Stage::Open,
        };
        if std::mem::replace(&mut self.stage, stage) != stage {
            return Some(match stage {
                Stage::Ending => Turn::Lapses,
                Stage::Open => Turn::Returns,
            });
        }
        let over =
            |since: Time, span: Option<Span>| span.is_some_and(|span| since.after(span) <= now);
        match self.heard {
            Heard::SilentSince(since) | Heard::Alone(since) if over(since, self.lease) => {
                self.heard = Heard::Lapsed;
                Some(Turn::Lapses)
            }
            Heard::SilentSince(since) if over(since, self.alone) => {
                self.heard = Heard::Alone(since);
                Some(Turn::Alone)
            }
            Heard::SilentSince(_) | Heard::Alone(_) | Heard::There | Heard::Lapsed => None,
        }
    }

    /// While what the parent has not ordered begins: since when, and until when at most.
    pub fn alone(&self) -> Option<(Time, Time)> {
        match (self.heard, self.lease) {
            (Heard::Alone(since), Some(lease)) => Some((since, since.after(lease))),
            _ => None,
        }
    }

    /// Whether what the parent has not ordered begins.
    pub fn is_alone(&self) -> bool {
        matches!(self.heard, Heard::Alone(_))
    }

    /// Why a job waits that the parent has not ordered and is to; whether it may `begin` without it.
    pub fn unordered(&self, may_begin: MayBegin) -> Option<Reason> {
        match self.heard {
            Heard::SilentSince(since) | Heard::Alone(since) => {
                let lease = self.lease.unwrap_or(Span::ZERO);
                let alone = self.alone.filter(|alone| *alone < lease);
                let alone = alone.filter(|_| may_begin == MayBegin::Alone);
                let until = alone.map(|alone| since.after(alone));
                Some(Reason::ParentAway { since, until })
            }
            Heard::Lapsed => self.reason(),
            Heard::There => None,
        }
    }

    /// Whether nothing begins any more.
    pub fn has_lapsed(&self) -> bool {
        self.heard == Heard::Lapsed || self.stage == Stage::Ending
    }

    /// Why nothing does.
    pub fn reason(&self) -> Option<Reason> {
        if self.stage == Stage::Ending {
            return Some(Reason::InstanceEnds);
        }
        let lease = self.lease.filter(|_| self.has_lapsed())?;
        Some(Reason::ParentSilent { lease })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Span = Span::seconds(60);

    fn after(seconds: i64) -> Time {
        Time(0).after(Span::seconds(seconds))
    }

    fn begins(silence: &mut Silence, seconds: i64) -> Vec<Time> {
        silence.begins(after(seconds)).collect()
    }

    #[test]
    fn what_the_parent_has_not_ordered_begins_between_two_times() {
        let mut silence = Silence::new(Some(LEASE), Some(Span::seconds(30)));
        assert_eq!(silence.unordered(MayBegin::Alone), None);
        assert_eq!(begins(&mut silence, 100), [after(130), after(160)]);
        assert_eq!(silence.at(after(129)), None);
        assert!(!silence.is_alone());
        let (since, until) = (after(100), Some(after(130)));
        let away = |until| Some(Reason::ParentAway { since, until });
        assert_eq!(silence.unordered(MayBegin::Alone), away(until));
        assert_eq!(silence.unordered(MayBegin::Ordered), away(None));
        assert_eq!(silence.at(after(130)), Some(Turn::Alone));
        assert!(silence.is_alone());
        assert_eq!(silence.at(after(131)), None);
        assert_eq!(silence.at(after(160)), Some(Turn::Lapses));
        assert!(!silence.is_alone());
        assert_eq!(silence.ends(), Some(Turn::Returns));
    }

    #[test]
    fn a_lease_that_is_over_first_lets_nothing_begin_without_the_parent() {
        let mut silence = Silence::new(Some(LEASE), Some(LEASE));
        begins(&mut silence, 0);
        let never = Reason::ParentAway {
            since: after(0),
            until: None,
        };
        assert_eq!(silence.unordered(MayBegin::Alone), Some(never));
        assert_eq!(silence.at(after(60)), Some(Turn::Lapses));
    }

    #[test]
    fn nothing_begins_while_the_jobs_of_an_instance_are_ended_unless_it_is_given_more_time() {
        let mut silence = Silence::new(Some(LEASE), None);
        silence.ends_at(Some(after(50)));
        assert_eq!(silence.at(after(49)), None);
        assert_eq!(silence.at(after(50)), Some(Turn::Lapses));
        assert!(silence.has_lapsed());
        assert_eq!(silence.reason(), Some(Reason::InstanceEnds));
        assert_eq!(silence.at(after(51)), None);
        silence.ends_at(Some(after(90)));
        assert_eq!(silence.at(after(52)), Some(Turn::Returns));
        assert_eq!(silence.reason(), None);
        // A parent that is silent as well is another matter.
        begins(&mut silence, 52);
        silence.ends_at(None);
        assert_eq!(silence.at(after(112)), Some(Turn::Lapses));
        assert_ne!(silence.reason(), Some(Reason::InstanceEnds));
    }

    #[test]
    fn work_begins_until_the_lease_is_over() {
        let mut silence = Silence::new(Some(LEASE), None);
        assert_eq!(silence.at(after(1000)), None);
        assert_eq!(begins(&mut silence, 1000), [after(1060)]);
        assert_eq!(silence.at(after(1059)), None);
        assert_eq!(silence.reason(), None);
        assert_eq!(silence.at(after(1060)), Some(Turn::Lapses));
        let said = silence.reason().map(|reason| reason.to_string());
        let said = said.expect("a reason");
        assert!(said.contains("silent for more than 60 s"), "{said}");
        assert_eq!(silence.ends(), Some(Turn::Returns));
        assert!(!silence.has_lapsed());
    }

    #[test]
    fn only_the_first_of_many_lost_channels_begins_a_silence() {
        let mut silence = Silence::new(Some(LEASE), None);
        assert_eq!(begins(&mut silence, 0), [after(60)]);
        assert_eq!(begins(&mut silence, 30), []);
        assert_eq!(silence.at(after(60)), Some(Turn::Lapses));
        assert_eq!(begins(&mut silence, 70), []);
        assert!(silence.has_lapsed());
    }

    #[test]
    fn a_word_in_time_ends_it() {
        let mut silence = Silence::new(Some(LEASE), None);
        begins(&mut silence, 0);
        assert_eq!(silence.ends(), None);
        assert_eq!(silence.at(after(61)), None);
    }

    #[test]
    fn who_has_no_parent_waits_for_none() {
        let mut silence = Silence::new(None, None);
        assert_eq!(begins(&mut silence, 0), []);
        assert_eq!(silence.at(after(i64::MAX / 2_000_000)), None);
        assert!(!silence.has_lapsed());
    }
}
