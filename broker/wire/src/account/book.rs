//! All accounts as they stand: the fold of changes, and what can be asked of it.
//!
//! [`Book::apply`] takes any change as it is, in any order, since a restart shows only the last
//! change of each key; [`Book::check`] says beforehand whether one may be made.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ACCOUNTS_MAX, Account, AccountError, Change, DEPTH_MAX, DESCRIPTION_BYTES_MAX, MEMBERS_MAX,
    Member, NOBODY, Name, QOS_MAX, QosRules, SHARES_MAX, Shares, User,
};

/// How many names an error tells.
const TOLD_MAX: usize = 16;

/// Accounts, users in them, and users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    accounts: BTreeMap<Name, Account>,
    members: BTreeMap<(Name, u32), Member>,
    users: BTreeMap<u32, User>,
    /// Which accounts each user is in.
    of: BTreeMap<u32, BTreeSet<Name>>,
    /// Which accounts are under each.
    under: BTreeMap<Option<Name>, BTreeSet<Name>>,
}

impl Book {
    /// Takes a change in. The same again changes nothing.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Account { name, value } => {
                if let Some(before) = self.accounts.remove(name)
                    && let Some(siblings) = self.under.get_mut(&before.parent)
                {
                    siblings.remove(name);
                    if siblings.is_empty() {
                        self.under.remove(&before.parent);
                    }
                }
                if let Some(account) = value {
                    let siblings = self.under.entry(account.parent.clone()).or_default();
                    siblings.insert(name.clone());
                    self.accounts.insert(name.clone(), account.clone());
                }
            }
            Change::Member {
                account,
                user,
                value,
            } => {
                let of = self.of.entry(*user).or_default();
                match value {
                    Some(member) => {
                        of.insert(account.clone());
                        let key = (account.clone(), *user);
                        self.members.insert(key, member.clone());
                    }
                    None => {
                        of.remove(account);
                        if of.is_empty() {
                            self.of.remove(user);
                        }
                        self.members.remove(&(account.clone(), *user));
                    }
                }
            }
            Change::User { user, value } => match value {
                Some(value) => {
                    self.users.insert(*user, value.clone());
                }
                None => {
                    self.users.remove(user);
                }
            },
        }
    }

    /// Whether there are no accounts: then nobody needs one.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// All accounts, by name.
    pub fn accounts(&self) -> impl Iterator<Item = (&Name, &Account)> {
        self.accounts.iter()
    }

    /// All members, by account and user.
    pub fn members(&self) -> impl Iterator<Item = (&Name, u32, &Member)> {
        let members = self.members.iter();
        members.map(|((account, user), member)| (account, *user, member))
    }

    /// All users of whom something is said.
    pub fn users(&self) -> impl Iterator<Item = (u32, &User)> {
        self.users.iter().map(|(user, value)| (*user, value))
    }

    /// An account.
    pub fn account(&self, name: &Name) -> Option<&Account> {
        self.accounts.get(name)
    }

    /// The account that somebody names by this field.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn named(
        &self,
        field: &'static str,
        name: &str,
    ) -> Result<(&Name, &Account), AccountError> {
        let unknown = || AccountError::NoAccount {
            field,
            name: name.to_owned(),
            there: listed(self.accounts.keys()),
        };
        self.accounts.get_key_value(name).ok_or_else(unknown)
    }

    /// A user in an account.
    pub fn member(&self, account: &Name, user: u32) -> Option<&Member> {
        self.members.get(&(account.clone(), user))
    }

    /// A user over all accounts.
    pub fn user(&self, user: u32) -> Option<&User> {
        self.users.get(&user)
    }

    /// The accounts under one, or under the root, by name.
    pub fn under(&self, parent: Option<&Name>) -> impl Iterator<Item = &Name> {
        self.under.get(&parent.cloned()).into_iter().flatten()
    }

    /// The users in an account, in order.
    pub fn members_of(&self, account: &Name) -> impl Iterator<Item = (u32, &Member)> {
        let range = (account.clone(), 0)..=(account.clone(), u32::MAX);
        let members = self.members.range(range);
        members.map(|((_, user), member)| (*user, member))
    }

    /// The accounts that a user is in, by name.
    pub fn accounts_of(&self, user: u32) -> impl Iterator<Item = &Name> {
        self.of.get(&user).into_iter().flatten()
    }

    /// An account and those above it, the topmost last. Bounded, whatever was recorded.
    pub fn line<'b>(&'b self, account: &'b Name) -> impl Iterator<Item = (&'b Name, &'b Account)> {
        let named = |name: &'b Name| self.accounts.get_key_value(name);
        let above =
            move |(_, account): &(&'b Name, &'b Account)| account.parent.as_ref().and_then(named);
        std::iter::successors(named(account), above).take(DEPTH_MAX + 1)
    }

    /// Everything as changes that make it, parents before what is under them.
    pub fn to_changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut names: Vec<&Name> = self.accounts.keys().collect();
        names.sort_by_key(|name| (self.line(name).count(), *name));
        for name in names {
            changes.push(Change::Account {
                name: name.clone(),
                value: self.accounts.get(name).cloned(),
            });
        }
        changes.extend(
            self.members()
                .map(|(account, user, member)| Change::Member {
                    account: account.clone(),
                    user,
                    value: Some(member.clone()),
                }),
        );
        changes.extend(self.users().map(|(user, value)| Change::User {
            user,
            value: Some(value.clone()),
        }));
        changes
    }

    /// Whether a change may be made now.
    ///
    /// # Errors
    /// The first thing that is wrong with it, by its field.
    pub fn check(&self, change: &Change) -> Result<(), AccountError> {
        match change {
            Change::Account {
                name,
                value: Some(account),
            } => self.check_account(name, account),
            Change::Account { name, value: None } => self.check_removal(name),
            Change::Member {
                account,
                user,
                value: Some(member),
            } => self.check_member(account, *user, member),
            Change::Member {
                account,
                user,
                value: None,
            } => self.is_member("user", account, *user),
            Change::User { value: None, .. } => Ok(()),
            Change::User {
                user,
                value: Some(value),
            } => {
                is_somebody(*user)?;
                value.limits.check()?;
                match &value.account {
                    Some(account) => self.is_member("default", account, *user),
                    None => Ok(()),
                }
            }
        }
    }

    /// What has to be changed, too, when this is: a default that a user is in no longer.
    pub fn follow(&self, change: &Change) -> Option<Change> {
        let Change::Member {
            account,
            user,
            value: None,
        } = change
        else {
            return None;
        };
        let before = self.users.get(user)?;
        (before.account.as_ref() == Some(account)).then(|| {
            let left = User {
                account: None,
                ..before.clone()
            };
            Change::User {
                user: *user,
                value: (left != User::default()).then_some(left),
            }
        })
    }

    fn check_account(&self, name: &Name, account: &Account) -> Result<(), AccountError> {
        shares(account.shares)?;
        qos(&account.qos)?;
        account.limits.check()?;
        if account.description.len() > DESCRIPTION_BYTES_MAX
            || account.description.contains(char::is_control)
        {
            return Err(AccountError::Description);
        }
        if !self.accounts.contains_key(name) && self.accounts.len() >= ACCOUNTS_MAX {
            return Err(AccountError::TooMany {
                limit: "accounts",
                most: ACCOUNTS_MAX,
            });
        }
        let before = self.account(name);
        let is_new = before.is_none_or(|before| before.qos != account.qos);
        let Some(parent) = &account.parent else {
            return self.check_depth(name, 1);
        };
        self.named("parent", parent.as_str())?;
        self.check_ring(name, parent)?;
        if is_new {
            self.agrees(&account.qos, parent)?;
        }
        self.check_depth(name, self.line(parent).count() + 1)
    }

    /// Whether no account is under itself. Changes that were checked make none that is; those of a
    /// document are looked at together, since of such accounts none can be made first.
    ///
    /// # Errors
    /// The first that is, and the way.
    pub fn check_rings(&self) -> Result<(), AccountError> {
        let under = |(name, account): (&'_ Name, &'_ Account)| match &account.parent {
            Some(parent) => self.check_ring(name, parent),
            None => Ok(()),
        };
        self.accounts().try_for_each(under)
    }

    /// Whether an account may be under this one, which is not under it itself.
    fn check_ring(&self, name: &Name, parent: &Name) -> Result<(), AccountError> {
        let above = self.line(parent).map(|(above, _)| above);
        let above: Vec<&Name> = above.take_while(|above| *above != name).collect();
        let top = above.last().and_then(|top| self.account(top));
        let is_ring = match top {
            None => parent == name,
            Some(top) => top.parent.as_ref() == Some(name),
        };
        if !is_ring {
            return Ok(());
        }
        let steps = above.into_iter().chain([name]);
        let ring = steps.fold(name.to_string(), |way, step| format!("{way} under {step}"));
        let (name, parent) = (name.clone(), parent.clone());
        Err(AccountError::Cycle { name, parent, ring })
    }

    /// Whether what is under an account fits in the tree if that one is so deep.
    fn check_depth(&self, name: &Name, depth: usize) -> Result<(), AccountError> {
        let mut level: Vec<&Name> = vec![name];
        for given in depth.. {
            let Some(first) = level.first() else {
                break;
            };
            if given > DEPTH_MAX {
                let name = (*first).clone();
                return Err(AccountError::Deep { name, given });
            }
            level = level
                .iter()
                .flat_map(|name| self.under(Some(name)))
                .collect();
        }
        Ok(())
    }

    fn check_removal(&self, name: &Name) -> Result<(), AccountError> {
        self.named("account", name.as_str())?;
        let accounts = self.under(Some(name)).count();
        let members = self.members_of(name).count();
        match (accounts, members) {
            (0, 0) => Ok(()),
            _ => Err(AccountError::NotEmpty {
                name: name.clone(),
                accounts,
                members,
            }),
        }
    }

    fn check_member(&self, account: &Name, user: u32, member: &Member) -> Result<(), AccountError> {
        is_somebody(user)?;
        shares(member.shares)?;
        qos(&member.qos)?;
        member.limits.check()?;
        self.named("account", account.as_str())?;
        let before = self.member(account, user);
        if before.is_none_or(|before| before.qos != member.qos) {
            self.agrees(&member.qos, account)?;
        }
        let is_new = before.is_none();
        if is_new && self.members.len() >= MEMBERS_MAX {
            return Err(AccountError::TooMany {
                limit: "members",
                most: MEMBERS_MAX,
            });
        }
        Ok(())
    }

    /// Whether jobs that name no QoS are given one that is allowed, where either is inherited from this account.
    fn agrees(&self, own: &QosRules, above: &Name) -> Result<(), AccountError> {
        match (&own.allowed, &own.default) {
            (Some(allowed), None) => {
                let default = |(of, account): (&Name, &Account)| {
                    let default = account.qos.default.clone()?;
                    Some((of.clone(), default))
                };
                match self.line(above).find_map(default) {
                    Some((of, given)) if !allowed.contains(&given) => {
                        let there = listed(allowed);
                        Err(AccountError::InheritedQos { given, of, there })
                    }
                    Some(_) | None => Ok(()),
                }
            }
            (None, Some(given)) => {
                let mut all = self.line(above);
                let allowed =
                    all.find_map(|(of, account)| Some((of, account.qos.allowed.as_ref()?)));
                match allowed {
                    Some((of, allowed)) if !allowed.contains(given) => Err(AccountError::Qos {
                        field: "qos.default",
                        given: given.clone(),
                        whose: format!("account `{of}`"),
                        there: listed(allowed),
                    }),
                    Some(_) | None => Ok(()),
                }
            }
            // What says both is right in itself.
            (Some(_), Some(_)) | (None, None) => Ok(()),
        }
    }

    /// Whether a user is in the account that somebody names by this field.
    ///
    /// # Errors
    /// There is none of that name, or the user is not in it.
    pub fn is_member(
        &self,
        field: &'static str,
        name: &Name,
        user: u32,
    ) -> Result<(), AccountError> {
        self.named(field, name.as_str())?;
        match self.member(name, user) {
            Some(_) => Ok(()),
            None => Err(AccountError::NoMember {
                field,
                user,
                account: name.clone(),
                there: match self.of.contains_key(&user) {
                    true => format!("; allowed are {}", listed(self.accounts_of(user))),
                    false => ", nor in any other".to_owned(),
                },
            }),
        }
    }

    /// The account that a job of this user is charged to, if it asks for this one; none where
    /// there are no accounts.
    ///
    /// # Errors
    /// There is no such account, or it is not the user's, or none is asked for and the user has
    /// no default.
    pub fn charged(
        &self,
        field: &'static str,
        user: u32,
        asked: Option<&str>,
    ) -> Result<Option<Name>, AccountError> {
        if let Some(asked) = asked {
            let (name, _) = self.named(field, asked)?;
            self.is_member(field, name, user)?;
            return Ok(Some(name.clone()));
        }
        if self.is_empty() {
            return Ok(None);
        }
        let default = self.users.get(&user).and_then(|user| user.account.as_ref());
        if let Some(name) = default.filter(|name| self.member(name, user).is_some()) {
            return Ok(Some(name.clone()));
        }
        let mut all = self.accounts_of(user);
        match (all.next(), all.next()) {
            (Some(one), None) => Ok(Some(one.clone())),
            (None, _) => Err(AccountError::Nowhere { field, user }),
            (Some(_), Some(_)) => Err(AccountError::Several {
                field,
                user,
                there: listed(self.accounts_of(user)),
            }),
        }
    }

    /// The QoS of a job of this user in this account, if it asks for this one; none where nothing
    /// is asked for and nothing is the default.
    ///
    /// # Errors
    /// It may not be asked for there.
    pub fn qos(
        &self,
        field: &'static str,
        account: &Name,
        user: u32,
        asked: Option<Name>,
    ) -> Result<Option<Name>, AccountError> {
        let own = self.member(account, user).map(|member| (None, &member.qos));
        let rules = || {
            let line = self.line(account);
            let line = line.map(|(name, account)| (Some(name), &account.qos));
            own.into_iter().chain(line)
        };
        let default = || rules().find_map(|(_, rules)| rules.default.clone());
        let (Some(qos), is_asked) = (match asked {
            Some(asked) => (Some(asked), true),
            None => (default(), false),
        }) else {
            return Ok(None);
        };
        let allowed = rules().find_map(|(of, rules)| Some((of, rules.allowed.as_ref()?)));
        match allowed {
            Some((of, allowed)) if is_asked && !allowed.contains(&qos) => Err(AccountError::Qos {
                field,
                given: qos,
                whose: match of {
                    Some(of) => format!("account `{of}`"),
                    None => format!("user {user} in account `{account}`"),
                },
                there: listed(allowed),
            }),
            Some(_) | None => Ok(Some(qos)),
        }
    }
}

fn shares(shares: Shares) -> Result<(), AccountError> {
    match shares {
        Shares::Of(given) if given > SHARES_MAX => Err(AccountError::Shares { given }),
        Shares::Of(_) | Shares::Parent => Ok(()),
    }
}

/// Whether a number is one that a user can have. Who has another is still removed.
fn is_somebody(given: u32) -> Result<(), AccountError> {
    match given {
        NOBODY => Err(AccountError::Nobody { given }),
        _ => Ok(()),
    }
}

fn qos(rules: &QosRules) -> Result<(), AccountError> {
    let Some(allowed) = &rules.allowed else {
        return Ok(());
    };
    if allowed.len() > QOS_MAX {
        let given = allowed.len();
        return Err(AccountError::ManyQos { given });
    }
    match &rules.default {
        Some(given) if !allowed.contains(given) => Err(AccountError::DefaultQos {
            given: given.clone(),
            there: listed(allowed),
        }),
        Some(_) | None => Ok(()),
    }
}

/// Names with commas between, the first of many.
fn listed<'n>(names: impl IntoIterator<Item = &'n Name>) -> String {
    let mut names = names.into_iter();
    let mut told: Vec<&str> = names.by_ref().take(TOLD_MAX).map(Name::as_str).collect();
    if told.is_empty() {
        return "none".to_owned();
    }
    if names.next().is_some() {
        told.push("...");
    }
    told.join(", ")
}

#[cfg(test)]
mod tests;
