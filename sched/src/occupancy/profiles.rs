//! What each node is good for over time, kept from search to search: what is held comes back, what is
//! promised comes and goes.
//!
//! Made by [`super::Occupancy`] when a search looks at a node that changed since the last one did. It is of
//! no request and of no time: searches begin where they want to.

use eddy_wire::time::Time;

use super::promises::Promise;
use super::returns::Return;
use crate::rooms::Room as Amounts;

/// The profiles of all nodes, by place.
#[derive(Clone, Debug, Default)]
pub(super) struct Profiles(Vec<Profile>);

/// One node over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Profile {
    state: State,
    /// What is free of it from each of these moments on, the first being the beginning of time.
    pub shared: Vec<(Time, Amounts)>,
    /// How many have a part of it promised from each of these moments on, none before the first.
    pub promised: Vec<(Time, u64)>,
    /// When the first of those who hold a part of it is to end.
    pub first_end: Time,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// It changed since.
    #[default]
    Stale,
    True,
}

impl Profiles {
    /// None is known, of so many nodes.
    pub fn none(nodes: usize) -> Profiles {
        Profiles(vec![Profile::default(); nodes])
    }

    /// Something of a node is otherwise.
    pub fn forget(&mut self, node: usize) {
        if let Some(profile) = self.0.get_mut(node) {
            profile.state = State::Stale;
        }
    }

    /// Something of all nodes may be.
    pub fn forget_all(&mut self) {
        self.0.iter_mut().for_each(|one| one.state = State::Stale);
    }

    /// That of a node, if it did not change since a search made it.
    pub fn known(&self, node: usize) -> Option<&Profile> {
        self.0.get(node).filter(|one| one.state == State::True)
    }

    /// That of a node of which so much is free, and what comes back and is promised.
    pub fn of(
        &mut self,
        node: usize,
        free: Amounts,
        returns: &[Return],
        promises: &[Promise],
    ) -> &Profile {
        let profile = &mut self.0[node];
        if profile.state == State::Stale {
            profile.make(free, returns, promises);
        }
        profile
    }
}

impl Profile {
    /// The least that is free all the time from one moment to before another.
    pub fn least(&self, from: Time, until: Time) -> Amounts {
        let begun = at(&self.shared, from);
        let later = self.shared[begun + 1..].iter();
        let later = later.take_while(|(time, _)| *time < until);
        later.fold(self.shared[begun].1, |least, (_, free)| least.least(free))
    }

    fn make(&mut self, free: Amounts, returns: &[Return], promises: &[Promise]) {
        self.state = State::True;
        self.first_end = returns.first().map_or(Time(i64::MAX), |one| one.until);
        let mut ends: Vec<&Promise> = promises.iter().collect();
        ends.sort_by_key(|one| one.until);
        let (mut begins, mut ends) = (promises.iter().peekable(), ends.into_iter().peekable());
        let mut returns = returns.iter().peekable();
        let (mut back, mut taken, mut busy) = (free, Amounts::default(), 0_u64);
        self.shared.clear();
        self.promised.clear();
        self.shared.push((Time(i64::MIN), free));
        loop {
            let turn = [
                begins.peek().map(|one| one.from),
                ends.peek().map(|one| one.until),
            ];
            let turn = turn.into_iter().flatten().min();
            let next = turn.into_iter().chain(returns.peek().map(|one| one.until));
            let Some(now) = next.min() else {
                return;
            };
            while let Some(one) = begins.next_if(|one| one.from <= now) {
                taken = taken.with(&one.takes);
                busy += 1;
            }
            while let Some(one) = ends.next_if(|one| one.until <= now) {
                taken = taken.less(&one.takes);
                busy -= 1;
            }
            while let Some(one) = returns.next_if(|one| one.until <= now) {
                back = back.with(&one.back);
            }
            self.shared.push((now, back.without(&taken)));
            if turn == Some(now) {
                self.promised.push((now, busy));
            }
        }
    }
}

/// Where what holds from a moment on begins: the last that is not after it.
pub(super) fn at<T>(steps: &[(Time, T)], moment: Time) -> usize {
    steps
        .partition_point(|(time, _)| *time <= moment)
        .saturating_sub(1)
}
