//! Requests about accounts and who is in them.

use serde::{Deserialize, Serialize};

use super::service;
use crate::account::{Book, Change};
use crate::message::Roles;

service!(
    /// Change accounts and who is in them: all of it or nothing.
    Set, "account.set", Roles::OWNER.or(Roles::ADMIN), SetRequest => SetReply
);
service!(
    /// All accounts, the users in them, and what is said of users.
    List, "account.list", Roles::OWNER.or(Roles::USER).or(Roles::ADMIN), () => Accounts
);

/// Most changes of one request: a message has room for them.
pub const CHANGES_MAX: usize = 100_000;

/// What [`Set`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRequest {
    /// In this order; each is checked as if those before it were made.
    pub changes: Vec<Asked>,
}

/// A change, and what it is to find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// What.
    pub change: Change,
    /// What there is to be before.
    #[serde(default)]
    pub before: Before,
}

/// What there is before a change. A request that is repeated finds what it made, which is no error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Before {
    /// It does not matter.
    #[default]
    Any,
    /// Nothing: it is added.
    None,
    /// Something: it is edited or removed.
    Some,
}

/// What became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetReply {
    /// How many changes there were that changed something.
    pub changed: u64,
}

/// Accounts as they stand: the changes that would make them, parents first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounts {
    /// Each sets one thing.
    pub changes: Vec<Change>,
}

impl Accounts {
    /// The fold of them.
    pub fn book(&self) -> Book {
        let mut book = Book::default();
        self.changes.iter().for_each(|change| book.apply(change));
        book
    }
}
