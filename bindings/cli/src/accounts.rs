//! Accounts as a document: TOML and JSON in and out, and what other schedulers export in.
//!
//! Used by `eddy account`. A document is nothing but the changes that make it, with users by
//! name. It asks no instance.

pub mod csv;
mod fields;
pub mod flux;
pub mod slurm;

use std::collections::BTreeMap;

use anyhow::Context;
use eddy_wire::account::{Account, Book, Change, Limits, Member, Name, QosRules, Shares, User};
use serde::{Deserialize, Serialize};

use crate::names::Users;

/// What an import found.
#[derive(Debug, Default)]
pub struct Found {
    /// Parents before what is under them.
    pub changes: Vec<Change>,
    /// What was there and is not taken, a line each.
    pub notes: Vec<String>,
    /// Users that this host does not know.
    pub unknown: Vec<String>,
}

impl Found {
    /// The number of a user; one that is not known is noted.
    pub fn user(&mut self, users: &Users, name: &str) -> Option<u32> {
        let found = users.number(name).ok();
        if found.is_none() && !self.unknown.iter().any(|known| known == name) {
            self.unknown.push(name.to_owned());
        }
        found
    }
}

/// A document.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// By name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    account: BTreeMap<Name, Entry>,
    /// Users over all accounts, by name or number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    user: BTreeMap<String, User>,
}

/// An account and who is in it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Entry {
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Name>,
    shares: Shares,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(skip_serializing_if = "QosRules::is_empty")]
    qos: QosRules,
    #[serde(skip_serializing_if = "Limits::is_empty")]
    limits: Limits,
    /// By name or number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    user: BTreeMap<String, Member>,
}

impl Document {
    /// The document of a book.
    pub fn of(book: &Book, users: &Users) -> Document {
        let mut document = Document::default();
        for (name, account) in book.accounts() {
            let members = book.members_of(name);
            let members = members.map(|(user, member)| (users.name(user), member.clone()));
            let Account {
                parent,
                shares,
                description,
                qos,
                limits,
            } = account.clone();
            let entry = Entry {
                parent,
                shares,
                description,
                qos,
                limits,
                user: members.collect(),
            };
            document.account.insert(name.clone(), entry);
        }
        for (user, value) in book.users() {
            document.user.insert(users.name(user), value.clone());
        }
        document
    }

    /// The changes that make it.
    pub fn changes(self, users: &Users) -> Found {
        let mut found = Found::default();
        let (mut book, mut members) = (Book::default(), Vec::new());
        for (name, entry) in self.account {
            let account = Account {
                parent: entry.parent,
                shares: entry.shares,
                description: entry.description,
                qos: entry.qos,
                limits: entry.limits,
            };
            book.apply(&Change::Account {
                name: name.clone(),
                value: Some(account),
            });
            let of = entry.user.into_iter();
            members.extend(of.map(|(user, member)| (name.clone(), user, member)));
        }
        found.changes = book.to_changes();
        for (account, user, member) in members {
            if let Some(user) = found.user(users, &user) {
                found.changes.push(Change::Member {
                    account,
                    user,
                    value: Some(member),
                });
            }
        }
        for (user, value) in self.user {
            if let Some(user) = found.user(users, &user) {
                let value = Some(value);
                found.changes.push(Change::User { user, value });
            }
        }
        found
    }
}

/// The formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// TOML or JSON as `eddy account export` writes it.
    Eddy,
    /// The text of `sacctmgr dump`.
    Slurm,
    /// A table of flux-accounting's `export-db`, or its `export-json`.
    Flux,
}

impl Format {
    /// What a text looks like.
    pub fn of(text: &str) -> Format {
        let lines = text.lines().map(str::trim_start);
        let first = lines
            .clone()
            .find(|line| !line.is_empty() && !line.starts_with('#'))
            .unwrap_or_default();
        let entry = ["Cluster -", "Parent -", "Account -", "User -"];
        if entry.iter().any(|word| first.starts_with(word)) {
            Format::Slurm
        } else if first.starts_with('{') && text.contains("\"associations\"")
            || csv::heading(first).iter().any(|name| name == "bank")
        {
            Format::Flux
        } else {
            Format::Eddy
        }
    }

    /// The accounts of texts, each with its name for errors.
    ///
    /// # Errors
    /// The first text that is not of this format, or an account that is under itself.
    pub fn read(self, texts: &[(String, String)], users: &Users) -> anyhow::Result<Found> {
        let mut found = Found::default();
        match self {
            Format::Eddy => {
                for (name, text) in texts {
                    let document: Document = fields::read(text).with_context(|| name.clone())?;
                    let more = document.changes(users);
                    found.changes.extend(more.changes);
                    found.unknown.extend(more.unknown);
                }
            }
            Format::Slurm => {
                for (name, text) in texts {
                    slurm::read(text, users, &mut found).with_context(|| name.clone())?;
                }
            }
            Format::Flux => found = flux::read(texts, users)?,
        }
        let mut book = Book::default();
        found.changes.iter().for_each(|change| book.apply(change));
        book.check_rings()?;
        Ok(found)
    }
}

/// An account under the root with one share.
pub fn plain(name: Name, account: Account) -> Change {
    Change::Account {
        name,
        value: Some(account),
    }
}
