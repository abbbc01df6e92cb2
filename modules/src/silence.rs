//! Whether the parent has been silent for so long that nothing begins here any more.
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
    heard: Heard,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Heard {
    /// The channel stands, or there is no parent.
    #[default]
    There,
    /// Not since then.
    SilentSince(Time),
    /// Not for the lease.
    Lapsed,
}

/// Whether work begins is otherwise from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing begins any more.
    Lapses,
    /// It does again.
    Returns,
}

impl Silence {
    /// With a parent, if there is one, that is there.
    pub fn new(lease: Option<Span>) -> Silence {
        Silence {
            lease,
            heard: Heard::There,
        }
    }

    /// The channel is down, or does not stand yet: when the lease is over, unless that is known already.
    pub fn begins(&mut self, now: Time) -> Option<Time> {
        let lease = self.lease?;
        match self.heard {
            Heard::There => {
                self.heard = Heard::SilentSince(now);
                Some(now.after(lease))
            }
            Heard::SilentSince(_) | Heard::Lapsed => None,
        }
    }

    /// The parent said what this instance has.
    pub fn ends(&mut self) -> Option<Turn> {
        let before = std::mem::replace(&mut self.heard, Heard::There);
        (before == Heard::Lapsed).then_some(Turn::Returns)
    }

    /// It is now this time.
    pub fn at(&mut self, now: Time) -> Option<Turn> {
        match (self.heard, self.lease) {
            (Heard::SilentSince(since), Some(lease)) if since.after(lease) <= now => {
                self.heard = Heard::Lapsed;
                Some(Turn::Lapses)
            }
            (Heard::SilentSince(_) | Heard::There | Heard::Lapsed, _) => None,
        }
    }

    /// Whether nothing begins any more.
    pub fn has_lapsed(&self) -> bool {
        self.heard == Heard::Lapsed
    }

    /// Why nothing does.
    pub fn reason(&self) -> Option<Reason> {
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

    #[test]
    fn work_begins_until_the_lease_is_over() {
        let mut silence = Silence::new(Some(LEASE));
        assert_eq!(silence.at(after(1000)), None);
        assert_eq!(silence.begins(after(1000)), Some(after(1060)));
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
        let mut silence = Silence::new(Some(LEASE));
        assert_eq!(silence.begins(after(0)), Some(after(60)));
        assert_eq!(silence.begins(after(30)), None);
        assert_eq!(silence.at(after(60)), Some(Turn::Lapses));
        assert_eq!(silence.begins(after(70)), None);
        assert!(silence.has_lapsed());
    }

    #[test]
    fn a_word_in_time_ends_it() {
        let mut silence = Silence::new(Some(LEASE));
        silence.begins(after(0));
        assert_eq!(silence.ends(), None);
        assert_eq!(silence.at(after(61)), None);
    }

    #[test]
    fn who_has_no_parent_waits_for_none() {
        let mut silence = Silence::new(None);
        assert_eq!(silence.begins(after(0)), None);
        assert_eq!(silence.at(after(i64::MAX / 2_000_000)), None);
        assert!(!silence.has_lapsed());
    }
}
