//! Whose the use is: a user in an account, and the tree that they all are in.
//!
//! Folded from what the planner is told of accounts. Where there are none, everybody is under the
//! root with one share. Who has used something and is in no account that there is, is due nothing
//! before all others: under the account he was in, or under one of his like.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::account::{Book, Change, Name, Shares as Given};
use eddy_wire::plan::Owner;

use crate::share::{Account, Members, Shares, Tree};

/// A user in an account.
pub(super) type Holder = (Option<Name>, u32);

/// Where those are who are in no account. It is no name that an account can have.
const NOWHERE: &str = "-";

/// The accounts, and the tree of them and of whoever used something.
#[derive(Clone, Debug, Default)]
pub(super) struct Parties {
    book: Book,
    /// Made last, and for whom.
    made: Option<(BTreeSet<Holder>, Grown)>,
}

/// A tree, and who its users are in the order that it has them.
#[derive(Clone, Debug)]
pub(super) struct Grown {
    pub tree: Tree,
    pub holders: Vec<Holder>,
}

impl Parties {
    pub fn apply(&mut self, change: &Change) {
        self.book.apply(change);
        self.made = None;
    }

    pub fn holder(owner: &Owner) -> Holder {
        (owner.account.clone(), owner.user)
    }

    /// The tree with all members and these.
    pub fn grown(&mut self, others: BTreeSet<Holder>) -> &Grown {
        if self.made.as_ref().is_none_or(|(made, _)| *made != others) {
            let grown = self.grow(&others);
            self.made = Some((others, grown));
        }
        let (_, grown) = self.made.as_ref().expect("it was just made");
        grown
    }

    /// What each account weighs against the others: its shares, of an account under another its part of
    /// what that weighs.
    pub fn weights(&self) -> BTreeMap<String, f64> {
        let mut weights = BTreeMap::new();
        self.weigh(None, &mut weights);
        weights
    }

    /// Recursion, no deeper than accounts may be.
    fn weigh(&self, above: Option<&Name>, weights: &mut BTreeMap<String, f64>) {
        let names: Vec<&Name> = self.book.under(above).collect();
        let own = |name: &Name| match self.book.account(name).map(|account| account.shares) {
            Some(Given::Of(shares)) => Some(f64::from(shares)),
            Some(Given::Parent) | None => None,
        };
        let all: f64 = names.iter().filter_map(|name| own(name)).sum();
        let weight = above.and_then(|above| weights.get(above.as_str()).copied());
        for name in names {
            let weighs = match (weight, own(name)) {
                (None, own) => own.unwrap_or(1.0),
                (Some(weight), None) => weight,
                (Some(weight), Some(own)) => weight * own / all.max(1.0),
            };
            weights.insert(name.to_string(), weighs);
            self.weigh(Some(name), weights);
        }
    }

    /// What was made last.
    pub fn last(&self) -> Option<&Grown> {
        self.made.as_ref().map(|(_, grown)| grown)
    }

    fn grow(&self, others: &BTreeSet<Holder>) -> Grown {
        let mut holders = Vec::new();
        let accounts = match self.book.is_empty() {
            true => {
                holders.extend(others.iter().cloned());
                let users = others.iter().map(|holder| leaf(holder, Shares::Of(1)));
                users.collect()
            }
            false => {
                let mut accounts = self.branch(None, others, &mut holders);
                let strangers = others.iter().filter(|(account, _)| {
                    let known = account.as_ref().and_then(|name| self.book.account(name));
                    known.is_none()
                });
                let strangers: Vec<&Holder> = strangers.collect();
                if !strangers.is_empty() {
                    let users = strangers.iter().map(|holder| leaf(holder, Shares::Of(1)));
                    accounts.push(Account {
                        name: NOWHERE.to_owned(),
                        shares: Shares::Of(0),
                        members: Members::Under(users.collect()),
                    });
                    holders.extend(strangers.into_iter().cloned());
                }
                accounts
            }
        };
        let tree = Tree::new(&accounts).expect("accounts were checked when they were made");
        Grown { tree, holders }
    }

    /// Recursion, no deeper than accounts may be.
    fn branch(
        &self,
        above: Option<&Name>,
        others: &BTreeSet<Holder>,
        holders: &mut Vec<Holder>,
    ) -> Vec<Account> {
        let mut accounts = Vec::new();
        for name in self.book.under(above) {
            let Some(account) = self.book.account(name) else {
                continue;
            };
            let mut members = Vec::new();
            for (user, member) in self.book.members_of(name) {
                let holder = (Some(name.clone()), user);
                members.push(leaf(&holder, shares(member.shares)));
                holders.push(holder);
            }
            let range = (Some(name.clone()), 0)..=(Some(name.clone()), u32::MAX);
            for left in others.range(range) {
                if self.book.member(name, left.1).is_none() {
                    members.push(leaf(left, Shares::Of(0)));
                    holders.push(left.clone());
                }
            }
            members.extend(self.branch(Some(name), others, holders));
            accounts.push(Account {
                name: name.to_string(),
                shares: shares(account.shares),
                members: Members::Under(members),
            });
        }
        accounts
    }
}

fn shares(given: Given) -> Shares {
    match given {
        Given::Of(count) => Shares::Of(i64::from(count)),
        Given::Parent => Shares::Parent,
    }
}

/// A user in the tree, by a name that no account can have.
fn leaf((account, user): &Holder, shares: Shares) -> Account {
    let name = match account {
        None => format!("@{user}"),
        // Two accounts that are gone may have had the same user.
        Some(account) => format!("{account}@{user}"),
    };
    Account {
        name,
        shares,
        members: Members::User,
    }
}

/// What a ledger calls a holder.
pub(super) fn path((account, user): &Holder) -> String {
    match account {
        None => user.to_string(),
        Some(account) => format!("{account}/{user}"),
    }
}

/// The holder that a ledger calls so.
pub(super) fn of_path(path: &str) -> Option<Holder> {
    match path.split_once('/') {
        None => Some((None, path.parse().ok()?)),
        Some((account, user)) => Some((Some(account.parse().ok()?), user.parse().ok()?)),
    }
}
