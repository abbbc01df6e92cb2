//! Who the owners of a workload are to the planner of an instance: users in accounts.
//!
//! Groups are accounts, and so are users without one where there are groups or shares.
//! Names are numbers in the order of names, so that every name of a trace will do.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::account::{Account, Change, Member, Name, Shares};
use eddy_wire::plan::Owner as Party;

use super::workload::{Owner, UNKNOWN, Workload};

/// The parties of a workload.
pub(super) struct Parties {
    /// By the place of the owner; of each its user and its account.
    pub(super) parties: Vec<Party>,
    /// What the planner is told of them before the first job comes.
    pub(super) changes: Vec<Change>,
}

impl Parties {
    pub(super) fn of(workload: &Workload) -> Parties {
        let tops: BTreeSet<(&str, &str)> = workload.owners.iter().map(top).collect();
        let numbers: BTreeMap<(&str, &str), usize> = tops.into_iter().zip(0..).collect();
        let known = |owner: &Owner| owner.group != UNKNOWN;
        let flat = workload.shares.is_empty() && !workload.owners.iter().any(known);
        let parties = (0..).zip(&workload.owners).map(|(user, owner)| Party {
            user,
            account: match flat {
                true => None,
                false => name(numbers[&top(owner)]),
            },
            ..Party::default()
        });
        let parties: Vec<Party> = parties.collect();
        let changes = match flat {
            true => Vec::new(),
            false => changes(workload, &parties),
        };
        Parties { parties, changes }
    }
}

/// What is right under the root: the group of an owner, or the owner.
fn top(owner: &Owner) -> (&str, &str) {
    match owner.group.as_str() {
        UNKNOWN => (UNKNOWN, &owner.user),
        group => (group, ""),
    }
}

/// The account of a number; `None` if there were more than a name can count.
fn name(number: usize) -> Option<Name> {
    format!("a{number:08}").parse().ok()
}

fn changes(workload: &Workload, parties: &[Party]) -> Vec<Change> {
    let shares = |name: &str| {
        let shares = workload.shares_of(name);
        Shares::Of(u32::try_from(shares).unwrap_or(u32::MAX))
    };
    let mut accounts = Vec::new();
    let mut members = Vec::new();
    let mut made = BTreeSet::new();
    for (owner, party) in workload.owners.iter().zip(parties) {
        let Some(account) = &party.account else {
            continue;
        };
        let own = shares(&owner.name());
        let (of_account, of_member) = match owner.group.as_str() {
            UNKNOWN => (own, Shares::default()),
            group => (shares(group), own),
        };
        if made.insert(account) {
            accounts.push(Change::Account {
                name: account.clone(),
                value: Some(Account {
                    shares: of_account,
                    ..Account::default()
                }),
            });
        }
        members.push(Change::Member {
            account: account.clone(),
            user: party.user,
            value: Some(Member {
                shares: of_member,
                ..Member::default()
            }),
        });
    }
    accounts.extend(members);
    accounts
}
