//! Users of this host: names to numbers, and what a process of one is to have.
//!
//! Called by the leader at its start (names in its configuration) and by the threads that start
//! tasks, before the fork: the host's databases may ask a directory service and so wait. What was
//! found is kept for a minute. It changes nothing of this process.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use uzers::os::unix::{GroupExt, UserExt};
use uzers::{get_group_by_name, get_user_by_name, get_user_by_uid};

use crate::passwd;

/// How long an answer of the host's databases is good.
const KEPT: Duration = Duration::from_secs(60);
/// How many users are remembered.
const KEPT_MAX: usize = 4096;

/// What a process of a user is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// User id.
    pub uid: u32,
    /// The user's own group.
    pub gid: u32,
    /// All groups, that one among them.
    pub groups: Vec<u32>,
    /// The name.
    pub name: String,
    /// The home directory.
    pub home: PathBuf,
    /// The login shell.
    pub shell: PathBuf,
}

/// Why nothing is known of a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// There is none.
    #[error("no user {0} on this host")]
    NoNumber(u32),
    /// There is none of that name.
    #[error("no user `{0}` on this host")]
    NoName(String),
}

/// The number of a user given by name, or by number.
///
/// # Errors
/// There is no such user.
pub fn number(given: &str) -> Result<u32, UserError> {
    let found = match given.parse() {
        Ok(uid) => get_user_by_uid(uid),
        Err(_) => get_user_by_name(given),
    };
    let user = found.ok_or_else(|| UserError::NoName(given.to_owned()))?;
    Ok(user.uid())
}

/// The numbers of users given by name.
///
/// # Errors
/// The first that is not there.
pub fn numbers(given: &[String]) -> Result<BTreeSet<u32>, UserError> {
    given.iter().map(|name| number(name)).collect()
}

/// A user as `users` of a `[[queue]]` may name him, which asks no directory service: by a name in quotes, or by
/// number where only such a service knows the name. None if there is no such user.
pub fn in_a_queue(given: &str) -> Option<String> {
    match passwd::number(given) {
        Some(_) => Some(Value::from(given).to_string()),
        None => number(given).ok().map(|uid| uid.to_string()),
    }
}

/// The users of a group, by name: those that its entry has, and those of this host's own file whose group it is.
/// None if there is no such group.
pub fn members(group: &str) -> Option<BTreeSet<String>> {
    let group = get_group_by_name(group)?;
    let named = group.members().iter();
    let named = named.filter_map(|name| name.to_str().map(str::to_owned));
    Some(named.chain(passwd::of_group(group.gid())).collect())
}

/// Looks a user up.
fn look_up(uid: u32) -> Result<Account, UserError> {
    let user = get_user_by_uid(uid).ok_or(UserError::NoNumber(uid))?;
    let groups = user.groups().unwrap_or_default();
    let mut groups: Vec<u32> = groups.iter().map(uzers::Group::gid).collect();
    if !groups.contains(&user.primary_group_id()) {
        groups.push(user.primary_group_id());
    }
    let name = user.name().to_str().ok_or(UserError::NoNumber(uid))?;
    Ok(Account {
        uid,
        gid: user.primary_group_id(),
        groups,
        name: name.to_owned(),
        home: user.home_dir().to_owned(),
        shell: user.shell().to_owned(),
    })
}

/// Accounts that were looked up, for all threads that start tasks.
#[derive(Debug, Default)]
pub struct Accounts {
    kept: Mutex<HashMap<u32, (Instant, Arc<Account>)>>,
}

impl Accounts {
    /// The account of that user.
    ///
    /// # Errors
    /// There is no such user.
    pub fn get(&self, uid: u32) -> Result<Arc<Account>, UserError> {
        let now = Instant::now();
        let fresh = |(at, _): &&(Instant, Arc<Account>)| now.duration_since(*at) < KEPT;
        let known = self.lock().get(&uid).filter(fresh).cloned();
        if let Some((_, account)) = known {
            return Ok(account);
        }
        // Not under the lock: a slow answer about one user is not waited for by others.
        let account = Arc::new(look_up(uid)?);
        let mut kept = self.lock();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(uid, (now, Arc::clone(&account)));
        Ok(account)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u32, (Instant, Arc<Account>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number_and_nobody_is_made_up() {
        assert_eq!(number("root"), Ok(0));
        assert_eq!(number("0"), Ok(0));
        let nobody = "no-such-user-of-eddy".to_owned();
        assert_eq!(
            numbers(&["root".to_owned(), nobody.clone()]),
            Err(UserError::NoName(nobody))
        );
        let accounts = Accounts::default();
        let root = accounts.get(0).expect("there");
        assert_eq!((root.uid, root.name.as_str()), (0, "root"));
        assert!(root.groups.contains(&root.gid));
        assert_eq!(
            accounts.get(4_000_000_001),
            Err(UserError::NoNumber(4_000_000_001))
        );
    }
}
