//! Which nodes those can have whom a reservation is for: by the queues that are open to them.
//!
//! Asked when the nodes of a reservation are chosen, and when it is listed. Of what is free, out of service or
//! stopped for a time it knows nothing.

use eddy_wire::account::{Book, Name};
use eddy_wire::idset::Idset;
use eddy_wire::queue::Rules;
use eddy_wire::reservation::Purpose;

use super::Sched;

/// What jobs of each queue can have that is open to somebody a reservation is for, in the order of the
/// configuration, what is in no queue first.
#[derive(Debug, Default)]
pub(super) struct Reach {
    grounds: Vec<Idset>,
}

impl Reach {
    /// The nodes that somebody can have.
    pub(super) fn all(&self) -> Idset {
        let grounds = self.grounds.iter();
        grounds.fold(Idset::new(), |all, ground| all.union(ground))
    }

    /// So many nodes of the `free` ones, and of the others where these do not suffice: as many as can be had of
    /// those that one queue leads to, since no job has nodes of two, then of those that any does, then of all.
    pub(super) fn choose(&self, count: u64, free: &Idset, others: &Idset) -> Idset {
        let room = |ground: &Idset| {
            let free = free.intersect(ground).len();
            let all = free + others.intersect(ground).len();
            (all.min(count), free.min(count))
        };
        // Of equals the first.
        let best = self.grounds.iter().rev().max_by_key(|ground| room(ground));
        let (best, reached) = (best.cloned().unwrap_or_default(), self.all());
        let tiers = [
            free.intersect(&best),
            others.intersect(&best),
            free.intersect(&reached),
            others.intersect(&reached),
            free.clone(),
            others.clone(),
        ];
        tiers.iter().fold(Idset::new(), |chosen, tier| {
            let left = count - chosen.len();
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            let more: Idset = tier.difference(&chosen).iter().take(left).collect();
            chosen.union(&more)
        })
    }
}

impl Sched {
    /// What those can have whom that is for; everything where it is for nobody.
    pub(super) fn reach(&self, purpose: &Purpose) -> Reach {
        let Purpose::Jobs { accounts, users } = purpose else {
            return Reach {
                grounds: vec![self.ranks.clone()],
            };
        };
        let queues = self.asked.queues();
        // Who names none is in the default one, where there is one.
        let has_default = queues.iter().any(|queue| queue.default);
        let unnamed = (!has_default).then(|| self.sets.reach(None, &self.ranks));
        let entitled = Entitled {
            accounts,
            users,
            book: &self.book,
        };
        let open = queues.iter().filter(|queue| entitled.may_use(&queue.rules));
        let open = open.map(|queue| self.sets.reach(Some(queue), &self.ranks));
        Reach {
            grounds: unnamed.into_iter().chain(open).collect(),
        }
    }

    /// Nodes of these that nobody can have whom that is for.
    pub(super) fn unreached(&self, purpose: &Purpose, ranks: &Idset) -> Idset {
        match purpose {
            Purpose::Maintenance => Idset::new(),
            Purpose::Jobs { .. } => ranks.difference(&self.reach(purpose).all()),
        }
    }
}

/// Whom a reservation is for.
struct Entitled<'r> {
    accounts: &'r [Name],
    users: &'r [u32],
    book: &'r Book,
}

impl Entitled<'_> {
    /// Whether a queue is open to some of them. Members of an account are not gone through: there may be very many.
    fn may_use(&self, rules: &Rules) -> bool {
        let (users, accounts) = (&rules.users, &rules.accounts);
        if users.is_none() && accounts.is_none() {
            return true;
        }
        let has_user = |user: &u32| {
            let mut own = self.book.accounts_of(*user);
            self.users.contains(user) || own.any(|own| self.is_under(own, |one| self.names(one)))
        };
        let has_account = |account: &Name| {
            let is_it = |one: &Name| one == account;
            let mut users = self.users.iter();
            self.is_under(account, |one| self.names(one))
                || self.accounts.iter().any(|own| self.is_under(own, is_it))
                || users.any(|user| {
                    let mut own = self.book.accounts_of(*user);
                    own.any(|own| self.is_under(own, is_it))
                })
        };
        users.iter().flatten().any(has_user) || accounts.iter().flatten().any(has_account)
    }

    /// Whether the reservation names that account.
    fn names(&self, account: &Name) -> bool {
        self.accounts.contains(account)
    }

    /// Whether an account, or one above it, is such a one.
    fn is_under(&self, account: &Name, is_such: impl Fn(&Name) -> bool) -> bool {
        is_such(account) || self.book.line(account).any(|(above, _)| is_such(above))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(text: &str) -> Idset {
        text.parse().expect("ranks")
    }

    fn reach(grounds: &[&str]) -> Reach {
        Reach {
            grounds: grounds.iter().map(|text| ranks(text)).collect(),
        }
    }

    #[test]
    fn nodes_are_of_one_queue_as_far_as_it_has_them_and_then_of_others_that_lead_somewhere() {
        let chosen = |count, free: &str, others: &str| {
            let reach = reach(&["1-2", "4-6"]);
            let chosen = reach.choose(count, &ranks(free), &ranks(others));
            chosen.to_string()
        };
        assert_eq!(chosen(2, "0-7", ""), "1-2", "the first of equals");
        assert_eq!(chosen(3, "0-7", ""), "4-6", "who has more");
        assert_eq!(chosen(4, "0-7", ""), "1,4-6");
        assert_eq!(chosen(6, "0-7", ""), "0-2,4-6");
        assert_eq!(chosen(2, "0-3,5-6", "4"), "1-2");
        assert_eq!(chosen(2, "0,2-3,5-6", "1,4"), "5-6", "what is free");
        assert_eq!(chosen(3, "0,2-3,5-6", "1,4"), "4-6", "though it is busy");
    }
}
