//! Who may submit to a queue, as other schedulers say it.
//!
//! There all that is said has to hold at once. Here a queue is open to users and to accounts, to either of which one
//! has to belong. What cannot be said so closes the queue to all but root, since a queue that is open by mistake is
//! found by those who should not be in it.

use std::collections::BTreeSet;

use super::{Host, list, quoted};

/// Whom a queue is open to when nobody else can be named.
const ROOT: &str = "root";

/// What is said of one queue.
#[derive(Debug, Default)]
pub(super) struct Access {
    /// These and no others, by name.
    users: Option<BTreeSet<String>>,
    accounts: Option<Vec<String>>,
    /// What cannot be said here, each with its line.
    closed: Vec<(usize, String)>,
}

/// What becomes of it.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// Keys of the queue.
    pub keys: Vec<(&'static str, String)>,
    /// Users that are left out, since this host does not know them.
    pub unknown: Vec<String>,
    /// Why it is open to root only, if it is so for want of words.
    pub closed: Vec<(usize, String)>,
}

impl Access {
    /// Only these users, of those that something else leaves.
    pub(super) fn only(&mut self, users: BTreeSet<String>) {
        self.users = Some(match self.users.take() {
            Some(before) => before.intersection(&users).cloned().collect(),
            None => users,
        });
    }

    /// Only root.
    pub(super) fn root(&mut self) {
        self.only(BTreeSet::from([ROOT.to_owned()]));
    }

    /// Only members of these groups; answers with those that this host does not know, unless it knows none.
    pub(super) fn groups(
        &mut self,
        line: usize,
        said: &str,
        groups: &[&str],
        host: &dyn Host,
    ) -> Option<Vec<String>> {
        let known: Vec<(&str, Option<BTreeSet<String>>)> = groups
            .iter()
            .map(|group| (*group, host.members(group)))
            .collect();
        let unknown = known.iter().filter(|(_, members)| members.is_none());
        let unknown: Vec<String> = unknown.map(|(group, _)| (*group).to_owned()).collect();
        if unknown.len() == known.len() {
            self.close(line, format!("{said}: no such group is known on this host"));
            return None;
        }
        self.only(
            known
                .into_iter()
                .filter_map(|(_, members)| members)
                .flatten()
                .collect(),
        );
        Some(unknown)
    }

    /// Only these accounts and what is under them.
    pub(super) fn accounts(&mut self, accounts: Vec<String>) {
        self.accounts = Some(accounts);
    }

    /// Something holds that has no counterpart.
    pub(super) fn close(&mut self, line: usize, why: String) {
        self.closed.push((line, why));
    }

    /// Whether anything is said.
    pub(super) fn is_open(&self) -> bool {
        self.users.is_none() && self.accounts.is_none() && self.closed.is_empty()
    }

    /// As keys of a queue that begins on this line.
    pub(super) fn settle(self, line: usize, host: &dyn Host) -> Settled {
        let mut settled = Settled {
            closed: self.closed,
            ..Settled::default()
        };
        let is_root = |users: &BTreeSet<String>| users.iter().eq([ROOT]);
        match (self.users, self.accounts) {
            (Some(users), _) if is_root(&users) => {
                settled.keys.push(("users", list([ROOT])));
            }
            (Some(_), Some(_)) => {
                let why = "users and accounts are both restricted, and here either would do";
                settled.closed.push((line, why.to_owned()));
            }
            (Some(users), None) => {
                let mut known = Vec::new();
                for user in users {
                    match host.user(&user) {
                        Some(text) => known.push(text),
                        None => settled.unknown.push(user),
                    }
                }
                match known.is_empty() {
                    true => settled
                        .closed
                        .push((line, "nobody of its users is known on this host".to_owned())),
                    false => settled
                        .keys
                        .push(("users", format!("[{}]", known.join(", ")))),
                }
            }
            (None, Some(accounts)) => {
                let names = accounts.iter().map(|name| quoted(name));
                let names: Vec<String> = names.collect();
                settled
                    .keys
                    .push(("accounts", format!("[{}]", names.join(", "))));
            }
            (None, None) => {}
        }
        if !settled.closed.is_empty() {
            settled.keys = vec![("users", list([ROOT]))];
        }
        settled
    }
}

/// That groups stand for those who are in them now, but for groups that this host does not know.
pub(super) fn members(said: &str, unknown: &[String]) -> String {
    let said = format!(
        "{said}: those who are in these groups now are its users; who joins them later is not"
    );
    match unknown.is_empty() {
        true => said,
        false => format!("{said}; this host does not know {}", unknown.join(", ")),
    }
}
