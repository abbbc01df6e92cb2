//! Reasons that say how long something takes yet, as they are some time after they were said.

use super::Reason;
use crate::time::Span;

impl Reason {
    /// As it is so much later, nothing else having changed.
    pub fn later(mut self, by: Span) -> Reason {
        if let Some(within) = self.within() {
            within.0 = within.0.saturating_sub(by.0).max(0);
        }
        self
    }

    /// Whether it is another a second later.
    pub fn is_timed(&self) -> bool {
        self.clone().within().is_some()
    }

    fn within(&mut self) -> Option<&mut Span> {
        match self {
            Reason::WouldDelay { within, .. }
            | Reason::Reservation { within, .. }
            | Reason::Reserved { within, .. }
            | Reason::Preempting { within, .. }
            | Reason::Exempt { within, .. } => Some(within),
            Reason::Limit { within, .. } => within.as_mut(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::JobId;

    #[test]
    fn what_is_left_of_a_time_gets_less_down_to_nothing() {
        let said = Reason::WouldDelay {
            job: JobId(1),
            within: Span::seconds(10),
        };
        let left = |by| said.clone().later(Span::seconds(by)).to_string();
        assert!(left(4).contains("by 6 s from now"), "{}", left(4));
        assert!(left(11).contains("by 0 s from now"), "{}", left(11));
        assert!(said.is_timed());
        assert!(!Reason::New.is_timed());
        assert_eq!(Reason::New.later(Span::seconds(4)), Reason::New);
    }
}
