//! Accounts as a document: TOML and JSON in and out, and what other schedulers export in.
//!
//! Used by `eddy account`. A document is nothing but the changes that make it, with users by
//! name. It asks no instance.

pub mod csv;
mod fields;
pub mod flux;
pub mod slurm;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, anyhow};
use eddy_wire::account::{
    Account, Book, Change, Key, Limits, Member, Name, QosRules, Shares, User,
};
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
    /// What is wrong, a line each.
    pub errors: Vec<String>,
    /// Where changes stand, as far as their reader knows.
    pub lines: BTreeMap<Key, u32>,
    /// The same in words, with the name of the text.
    places: BTreeMap<Key, String>,
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

    /// A change that stands on this line.
    fn push(&mut self, line: u32, change: Change) {
        self.lines.insert(change.key(), line);
        self.changes.push(change);
    }

    /// Whether it names neither an account nor a user.
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.unknown.is_empty() && self.errors.is_empty()
    }

    /// What keeps it from being made over these accounts, where there are these QoS, if that is known: all of it,
    /// each with its place. An instance says the first, and not where it stands.
    pub fn wrong(&self, before: &Book, qos: Option<&BTreeSet<String>>) -> Vec<String> {
        let (mut book, mut errors) = (before.clone(), Vec::new());
        for change in &self.changes {
            if stands(&book, change) {
                continue;
            }
            let place = self.places.get(&change.key()).map_or("", String::as_str);
            errors.extend(
                book.check(change)
                    .err()
                    .map(|error| format!("{place}: {error}")),
            );
            let unknown = qos
                .into_iter()
                .flat_map(|known| new_qos(&book, change, known));
            errors.extend(unknown.map(|error| format!("{place}: {error}")));
            // What is wrong with this is not wrong with what is under it.
            book.apply(change);
        }
        errors
    }

    /// Takes in what the text of this name has.
    fn add(&mut self, name: &str, more: Found, users: &Users) {
        for key in more.changes.iter().map(Change::key) {
            let line = more
                .lines
                .get(&key)
                .map_or(String::new(), |line| format!("line {line}: "));
            let place = format!("{name}: {line}{}", told(&key, users));
            self.places.insert(key, place);
        }
        self.changes.extend(more.changes);
        let named = |text: String| format!("{name}: {text}");
        self.notes.extend(more.notes.into_iter().map(named));
        self.errors.extend(more.errors.into_iter().map(named));
        for user in more.unknown {
            if !self.unknown.contains(&user) {
                self.unknown.push(user);
            }
        }
    }
}

fn told(key: &Key, users: &Users) -> String {
    match key {
        Key::Account(name) => format!("account `{name}`"),
        Key::Member(account, user) => format!("user {} in account `{account}`", users.name(*user)),
        Key::User(user) => format!("user {}", users.name(*user)),
    }
}

/// Whether a change changes nothing.
fn stands(book: &Book, change: &Change) -> bool {
    match change {
        Change::Account { name, value } => book.account(name) == value.as_ref(),
        Change::Member {
            account,
            user,
            value,
        } => book.member(account, *user) == value.as_ref(),
        Change::User { user, value } => book.user(*user) == value.as_ref(),
    }
}

/// What is wrong with the QoS that a change is the first to name.
fn new_qos(book: &Book, change: &Change, known: &BTreeSet<String>) -> Vec<String> {
    let (before, after) = match change {
        Change::Account { name, value } => {
            let before = book.account(name).map(|account| &account.qos);
            (before, value.as_ref().map(|account| &account.qos))
        }
        Change::Member {
            account,
            user,
            value,
        } => {
            let before = book.member(account, *user).map(|member| &member.qos);
            (before, value.as_ref().map(|member| &member.qos))
        }
        Change::User { .. } => (None, None),
    };
    let names = |rules: Option<&QosRules>| -> Vec<(&'static str, Name)> {
        let allowed = rules
            .into_iter()
            .flat_map(|rules| rules.allowed.iter().flatten());
        let allowed = allowed.map(|name| ("qos.allowed", name.clone()));
        let default = rules.and_then(|rules| rules.default.clone());
        allowed
            .chain(default.map(|name| ("qos.default", name)))
            .collect()
    };
    let before: BTreeSet<Name> = names(before).into_iter().map(|(_, name)| name).collect();
    let is_new =
        |(_, name): &(&str, Name)| !before.contains(name) && !known.contains(name.as_str());
    let there = match known.is_empty() {
        true => "this instance has no QoS".to_owned(),
        false => format!(
            "there are {}",
            known.iter().cloned().collect::<Vec<_>>().join(", ")
        ),
    };
    let wrong = names(after).into_iter().filter(is_new);
    wrong
        .map(|(field, name)| format!("{field}: `{name}` given, {there}"))
        .collect()
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

    /// The accounts of texts, each with its name for errors. What is wrong in them is told all at once.
    ///
    /// # Errors
    /// A text that has nothing or is none of this format, or an account that is under itself.
    pub fn read(self, texts: &[(String, String)], users: &Users) -> anyhow::Result<Found> {
        let mut found = Found::default();
        match self {
            Format::Flux => {
                let more = flux::read(texts, users)?;
                let names: Vec<&str> = texts.iter().map(|(name, _)| name.as_str()).collect();
                found.add(&names.join(", "), more, users);
            }
            Format::Eddy | Format::Slurm => {
                for (name, text) in texts {
                    let more = self.one(text, users);
                    if more.is_empty() {
                        return Err(nothing_in(name));
                    }
                    found.add(name, more, users);
                }
            }
        }
        if !found.errors.is_empty() {
            return Ok(found);
        }
        let mut book = Book::default();
        found.changes.iter().for_each(|change| book.apply(change));
        let names = texts.iter().map(|(name, _)| name.as_str());
        let names = || names.collect::<Vec<&str>>().join(", ");
        book.check_rings().with_context(names)?;
        Ok(found)
    }

    /// What one text has, where each stands by itself.
    fn one(self, text: &str, users: &Users) -> Found {
        let mut found = Found::default();
        match self {
            Format::Slurm => slurm::read(text, users, &mut found),
            Format::Eddy | Format::Flux => match fields::read::<Document>(text) {
                Ok(document) => found = document.changes(users),
                Err(errors) => found.errors = errors,
            },
        }
        found
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

    #[test]
    fn all_that_is_wrong_is_told_with_its_file_and_line() {
        let texts = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            let texts = all
                .iter()
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            texts.collect()
        };
        let users = Users::default();
        let dump = "Parent - 'root'\nAccount - 'a':Fairshare=many:GrpWall=3\nAccount - 'b c'\nBank - 'd'\n";
        let doc = "[account.x]\nshares = -1\n[account.y]\nshares = -2\n";
        let found = Format::Slurm
            .read(&texts(&[("dump", dump)]), &users)
            .expect("read");
        assert_eq!(
            found.notes,
            ["dump: line 2: of account a is left out: GrpWall"]
        );
        let begins: Vec<String> = found
            .errors
            .iter()
            .map(|line| line.chars().take(36).collect())
            .collect();
        assert_eq!(
            begins,
            [
                "dump: line 2: account a: Fairshare: ",
                "dump: line 3: account b c: `b c` is ",
                "dump: line 4: bank d: `Bank` is none",
            ]
        );
        let found = Format::Eddy
            .read(&texts(&[("doc", doc)]), &users)
            .expect("read");
        let of: Vec<&str> = found
            .errors
            .iter()
            .filter_map(|line| line.split(": `").next())
            .collect();
        assert_eq!(of, ["doc: account.x.shares", "doc: account.y.shares"]);
        let banks =
            "bank_id,bank,active,parent_bank,shares\n1,root,1,,1\n2,a,1,root,x\n3,b,1,root,y\n";
        let found = Format::Flux
            .read(&texts(&[("banks", banks)]), &users)
            .expect("read");
        assert_eq!(
            found.errors,
            [
                "banks: bank a: shares: `x` is not a number",
                "banks: bank b: shares: `y` is not a number"
            ]
        );
    }

    #[test]
    fn what_an_instance_would_refuse_is_told_with_its_place() {
        let dump = "Parent - 'root'\nAccount - 'a':Fairshare=1:QOS='long'\nParent - 'zz'\n\
                    Account - 'b':Fairshare=1\nUser - '7':Fairshare=1:DefaultQOS='slow'\n";
        let texts = [("dump".to_owned(), dump.to_owned())];
        let found = Format::Slurm.read(&texts, &Users::default()).expect("read");
        let known = BTreeSet::from(["normal".to_owned()]);
        assert_eq!(
            found.wrong(&Book::default(), Some(&known)),
            [
                "dump: line 2: account `a`: qos.allowed: `long` given, there are normal",
                "dump: line 4: account `b`: parent: there is no account `zz`; there are a",
                "dump: line 5: user 7 in account `zz`: account: there is no account `zz`; there are a, b",
                "dump: line 5: user 7 in account `zz`: qos.default: `slow` given, there are normal",
            ]
        );
        let mut there = Book::default();
        found.changes.iter().for_each(|change| there.apply(change));
        assert_eq!(
            found.wrong(&there, Some(&known)),
            Vec::<String>::new(),
            "it stands already"
        );
        assert_eq!(found.wrong(&Book::default(), None).len(), 2);
    }
}
