//! Accounts as a document: TOML and JSON in and out, and what other schedulers export in.
//!
//! Used by `eddy account`. A document is nothing but the changes that make it, with users by
//! name. It asks no instance.

pub mod csv;
mod fields;
pub mod flux;
pub mod slurm;

use std::collections::BTreeMap;

use anyhow::{Context, anyhow};
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

    /// Whether it names neither an account nor a user.
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.unknown.is_empty()
    }

    /// Takes in what another text has.
    fn add(&mut self, more: Found) {
        self.changes.extend(more.changes);
        self.notes.extend(more.notes);
        for user in more.unknown {
            if !self.unknown.contains(&user) {
                self.unknown.push(user);
            }
        }
    }
}

/// That a text has nothing in it. It is refused: nobody asks for that, and what failed to write the text would
/// otherwise remove all that it should have had.
fn nothing_in(name: &str) -> anyhow::Error {
    anyhow!(
        "{name}: has no account and no user in it; what is to be removed is named by eddy account del"
    )
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
            Format::Flux => found = flux::read(texts, users)?,
            Format::Eddy | Format::Slurm => {
                for (name, text) in texts {
                    let more = self.one(text, users).with_context(|| name.clone())?;
                    if more.is_empty() {
                        return Err(nothing_in(name));
                    }
                    found.add(more);
                }
            }
        }
        let mut book = Book::default();
        found.changes.iter().for_each(|change| book.apply(change));
        book.check_rings()?;
        Ok(found)
    }

    /// What one text has, where each stands by itself.
    fn one(self, text: &str, users: &Users) -> anyhow::Result<Found> {
        let mut found = Found::default();
        match self {
            Format::Eddy => found = fields::read::<Document>(text)?.changes(users),
            Format::Slurm => slurm::read(text, users, &mut found)?,
            Format::Flux => found = flux::read(&[(String::new(), text.to_owned())], users)?,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What wrote it may have failed; with `--replace` every account went.
    #[test]
    fn a_text_in_which_nothing_is_is_refused_by_its_name() {
        let full = "Parent - 'root'\nAccount - 'a':Fairshare=1\n";
        for (format, text) in [
            (Format::of(""), ""),
            (Format::of("# a\n\n"), "# a\n\n"),
            (Format::Eddy, "{}"),
            (Format::Eddy, "[account]\n"),
            (Format::Slurm, ""),
            (
                Format::Slurm,
                "# To edit\nCluster - 'tux':Fairshare=1:QOS='normal'\nParent - 'root'\n",
            ),
            (
                Format::Slurm,
                "Cluster - 'tux'\nParent - 'root'\nUser - 'root':Fairshare=1\n",
            ),
            (Format::Flux, ""),
            (Format::Flux, "bank_id,bank,active,parent_bank,shares\n"),
            (
                Format::Flux,
                "bank_id,bank,active,parent_bank,shares\n1,root,1,,1\n",
            ),
            (Format::Flux, "username,userid,bank\n"),
            (Format::Flux, r#"{"banks":[],"associations":[]}"#),
        ] {
            let texts = [("e".to_owned(), text.to_owned())];
            let refused = format
                .read(&texts, &Users::default())
                .expect_err(text)
                .to_string();
            assert!(
                refused.starts_with("e: has no account and no user"),
                "{text}: {refused}"
            );
        }
        let texts = [("f", full), ("e", "")].map(|(name, text)| (name.to_owned(), text.to_owned()));
        let refused = Format::Slurm
            .read(&texts, &Users::default())
            .expect_err("one is empty");
        assert!(refused.to_string().starts_with("e: has no"), "{refused}");
        Format::Slurm
            .read(&texts[..1], &Users::default())
            .expect("an account");
    }
}
