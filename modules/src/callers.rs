//! Calls that are open, by who made them: those of one who is gone are found without a look at all others.
//!
//! Used where there may be tens of thousands.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use eddy_broker::{Caller, ClientId};

/// Open calls by caller, each with the number that its module has for it.
#[derive(Debug, Default)]
pub(crate) struct Callers(BTreeSet<(Caller, u64)>);

impl Callers {
    pub fn insert(&mut self, caller: Caller, tag: u64) {
        self.0.insert((caller, tag));
    }

    pub fn remove(&mut self, caller: Caller, tag: u64) {
        self.0.remove(&(caller, tag));
    }

    /// The calls of these.
    pub fn of(&self, callers: &RangeInclusive<Caller>) -> Vec<u64> {
        let calls = (*callers.start(), 0)..=(*callers.end(), u64::MAX);
        self.0.range(calls).map(|(_, tag)| *tag).collect()
    }
}

/// This caller alone.
pub(crate) fn only(caller: Caller) -> RangeInclusive<Caller> {
    caller..=caller
}

/// All calls of a client.
pub(crate) fn all_of(client: ClientId) -> RangeInclusive<Caller> {
    let caller = |matchtag| Caller { client, matchtag };
    caller(0)..=caller(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_client_are_all_of_its_and_no_others() {
        let caller = |client, matchtag| Caller {
            client: ClientId(client),
            matchtag,
        };
        let mut callers = Callers::default();
        let made = [(1, u64::MAX), (2, 0), (2, 7), (2, u64::MAX), (3, 0)];
        for (tag, (client, matchtag)) in (10..).zip(made) {
            callers.insert(caller(client, matchtag), tag);
        }
        assert_eq!(callers.of(&all_of(ClientId(2))), [11, 12, 13]);
        assert_eq!(callers.of(&only(caller(2, 7))), [12]);
        callers.remove(caller(2, 7), 12);
        assert_eq!(callers.of(&all_of(ClientId(2))), [11, 13]);
        assert!(callers.of(&all_of(ClientId(4))).is_empty());
    }
}
