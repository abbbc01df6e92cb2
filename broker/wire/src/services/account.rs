//! Requests about accounts and who is in them.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

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
    /// Whether they are to be made.
    #[serde(default, skip_serializing_if = "Aim::is_made")]
    pub aim: Aim,
    /// Of the sender's making: the same key is the same request, so that whoever lost the answer may ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<Uuid>,
}

/// What changes are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aim {
    /// To be made.
    #[default]
    Make,
    /// To be told what would be made, or why it would be refused.
    Try,
}

impl Aim {
    fn is_made(&self) -> bool {
        *self == Aim::Make
    }
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetReply {
    /// How many changes there were that changed something.
    pub changed: u64,
    /// They, and what followed from them, where they were only tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
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
