//! The search where goals beside each other may take from each other: all ways
//! are looked at, within a number of tries.
//!
//! Part of `search`. First every place is chosen, then what lies in runs and
//! amounts is taken, the smallest scope first, which is exact because scopes lie
//! within each other or apart. A count that leaves a choice is served at its
//! least. It gives up after the tries, and then takes nothing.

use super::containment::NONE;
use super::found::Share;
use super::search::{Choice, Search};
use super::want::{Goal, Hold, What};

/// What is still to be chosen.
#[derive(Clone, Copy)]
struct Open<'g> {
    goal: &'g Goal,
    scope: u32,
    left: u64,
    /// Candidates before this were looked at: copies of a goal are alike.
    from: usize,
}

/// Amounts to be taken at the end: goal and scope.
type Later<'g> = Vec<(&'g Goal, u32)>;

impl Search<'_> {
    /// Serves goals beside each other in a scope, or takes nothing.
    pub fn tangled(&mut self, goals: &[Goal], scope: u32) -> bool {
        let mut open: Vec<Open<'_>> = goals.iter().rev().map(|goal| opened(goal, scope)).collect();
        let mut later = Vec::new();
        self.choose(&mut open, &mut later)
    }

    /// Chooses for what is open, last first. Leaves `open` and `later` as they were if it fails.
    fn choose<'g>(&mut self, open: &mut Vec<Open<'g>>, later: &mut Later<'g>) -> bool {
        let Some(now) = open.pop() else {
            return self.settle(later);
        };
        if self.tries == 0 {
            open.push(now);
            return false;
        }
        self.tries -= 1;
        let served = match now.goal.what {
            What::Some(_) => {
                later.push((now.goal, now.scope));
                let served = self.choose(open, later);
                if !served {
                    later.pop();
                }
                served
            }
            _ if now.left == 0 => self.choose(open, later),
            What::Place(_, _) => self.choose_place(now, open, later),
            What::Slot if self.graph.host_of[now.scope as usize] == NONE => {
                self.choose_host(now, open, later)
            }
            What::Slot | What::Bundle => {
                let next = Open {
                    left: now.left - 1,
                    ..now
                };
                self.choose_within(next, now.scope, open, later)
            }
        };
        if !served {
            open.push(now);
        }
        served
    }

    fn choose_place<'g>(
        &mut self,
        now: Open<'g>,
        open: &mut Vec<Open<'g>>,
        later: &mut Later<'g>,
    ) -> bool {
        let What::Place(kind, hold) = now.goal.what else {
            return false;
        };
        let places = self.places(kind, now.scope);
        for (at, &place) in places.iter().enumerate().skip(now.from) {
            let next = Open {
                left: now.left - 1,
                from: at + 1,
                ..now
            };
            let mark = self.picks.len();
            let served = match hold {
                Hold::Whole => {
                    self.one(now.goal, place, Choice::Least) && {
                        open.push(next);
                        let served = self.choose(open, later);
                        if !served {
                            open.pop();
                        }
                        served
                    }
                }
                Hold::Through => {
                    let free = self.stock.left(place) == 1 && self.stock.in_service(place);
                    let room = self.allowed(place) && self.stock.holds(place, &now.goal.need);
                    free && room && !self.used.contains(&place) && {
                        self.pick(place, Share::Through);
                        self.choose_within(next, place, open, later)
                    }
                }
            };
            if served {
                return true;
            }
            self.undo(mark);
        }
        false
    }

    fn choose_host<'g>(
        &mut self,
        now: Open<'g>,
        open: &mut Vec<Open<'g>>,
        later: &mut Later<'g>,
    ) -> bool {
        let (first, last) = self.graph.hosts_within(now.scope);
        for host in first.max(now.from)..last {
            let at = self.graph.host(host);
            if !self.allowed(at) || !self.stock.holds(at, &now.goal.need) {
                continue;
            }
            // The next slot may be on the same node.
            let next = Open {
                left: now.left - 1,
                from: host,
                ..now
            };
            if self.choose_within(next, at, open, later) {
                return true;
            }
        }
        false
    }

    /// Goes on with what is within, and then with the rest of the goal itself.
    fn choose_within<'g>(
        &mut self,
        rest: Open<'g>,
        scope: u32,
        open: &mut Vec<Open<'g>>,
        later: &mut Later<'g>,
    ) -> bool {
        let before = open.len();
        open.push(rest);
        open.extend(rest.goal.inner.iter().rev().map(|goal| opened(goal, scope)));
        let served = self.choose(open, later);
        if !served {
            open.truncate(before);
        }
        served
    }

    /// Takes the amounts, the smallest scope first.
    fn settle(&mut self, later: &Later<'_>) -> bool {
        let mark = self.picks.len();
        let mut order = later.clone();
        order.sort_by_key(|(_, scope)| (self.graph.end[*scope as usize] - scope, *scope));
        for (goal, scope) in order {
            let What::Some(kind) = goal.what else {
                continue;
            };
            let count = i64::try_from(goal.counts.least()).unwrap_or(i64::MAX);
            if self.there(kind, scope) < count {
                self.undo(mark);
                return false;
            }
            self.some(kind, scope, count);
        }
        true
    }
}

fn opened(goal: &Goal, scope: u32) -> Open<'_> {
    Open {
        goal,
        scope,
        left: goal.counts.least(),
        from: 0,
    }
}
