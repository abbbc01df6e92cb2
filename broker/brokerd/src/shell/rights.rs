//! Whose rights a process of a job is to have, and files opened with them.
//!
//! Decided by the shell's loop, looked up by the thread that starts the process, taken by the new
//! process itself between clone and exec ([`super::child`]). This process keeps the rights it has.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;

use super::stdio::{FileUse, NONE};
use crate::users::Account;

/// Names of the environment that say who somebody is. The first two are always those of the
/// user; the others may be set by whoever submits.
const ALWAYS: [&str; 2] = ["USER", "LOGNAME"];

/// New files of a user are others' to read, unless he says otherwise.
pub const UMASK: u32 = 0o022;

/// Whose rights a process is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rights {
    /// Those of this process.
    #[default]
    Kept,
    /// Those of this user and no other: this process is the administrator's.
    Of(u32),
}

impl Rights {
    /// What tasks of a user are to have in a shell of `own`.
    ///
    /// # Errors
    /// Only the administrator's shell can start tasks of others.
    pub fn of_task(own: u32, user: u32) -> Result<Rights, String> {
        match (own, user) {
            (own, user) if own == user => Ok(Rights::Kept),
            (0, user) => Ok(Rights::Of(user)),
            (own, user) => Err(format!(
                "the job is of user {user}; this instance starts tasks of user {own} only"
            )),
        }
    }
}

/// An environment with what says who its user is.
pub fn with_identity(env: &[CString], account: &Account) -> Vec<CString> {
    let has = |name: &str| env.iter().any(|entry| sets(entry, name));
    let is_his = |entry: &&CString| !ALWAYS.iter().any(|name| sets(entry, name));
    let name = account.name.as_bytes();
    let mut all: Vec<CString> = env.iter().filter(is_his).cloned().collect();
    let mut add = |variable: &str, value: &[u8]| {
        // What the host's databases hold has no NUL: it came as a C string.
        let entry = CString::new([variable.as_bytes(), b"=", value].concat());
        all.extend(entry.ok());
    };
    for variable in ALWAYS {
        add(variable, name);
    }
    for (variable, value) in [("HOME", &account.home), ("SHELL", &account.shell)] {
        if !has(variable) {
            add(variable, value.as_os_str().as_bytes());
        }
    }
    all
}

/// Whether an entry of an environment sets the variable of this name.
fn sets(entry: &CString, name: &str) -> bool {
    let rest = entry.to_bytes().strip_prefix(name.as_bytes());
    rest.is_some_and(|rest| rest.first() == Some(&b'='))
}

/// One of a task's standard streams.
#[derive(Clone, Debug)]
pub enum Stream {
    /// It is open.
    Open(Arc<OwnedFd>),
    /// A file to be opened with the rights of the task.
    Named(Arc<Named>),
}

impl From<Arc<OwnedFd>> for Stream {
    fn from(fd: Arc<OwnedFd>) -> Stream {
        Stream::Open(fd)
    }
}

/// A file that a user named, opened once for all tasks that share it, by the first that starts.
#[derive(Debug)]
pub struct Named {
    /// The whole path.
    pub path: CString,
    /// How it is opened.
    pub how: OFlags,
    /// What for.
    pub purpose: FileUse,
    /// Which rights it has not where it is made.
    pub umask: u32,
    opened: Mutex<Option<Arc<OwnedFd>>>,
}

impl Named {
    /// A file of this name, relative to the job's working directory.
    ///
    /// # Errors
    /// The name holds a NUL.
    pub fn new(
        cwd: &Path,
        name: &str,
        how: OFlags,
        purpose: FileUse,
        umask: u32,
    ) -> Result<Named, String> {
        let name = if name == NONE { "/dev/null" } else { name };
        let path = cwd.join(name);
        let path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| "a file's name holds a NUL character".to_owned())?;
        Ok(Named {
            path,
            how,
            purpose,
            umask,
            opened: Mutex::new(None),
        })
    }

    /// What is open, kept locked: the next task waits until this one has opened it.
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Arc<OwnedFd>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_administrators_shell_starts_tasks_of_others() {
        assert_eq!(Rights::of_task(1000, 1000), Ok(Rights::Kept));
        assert_eq!(Rights::of_task(0, 1000), Ok(Rights::Of(1000)));
        assert!(Rights::of_task(1000, 0).is_err());
    }

    #[test]
    fn a_task_is_told_who_it_is_and_keeps_what_it_may_choose() {
        let account = Account {
            uid: 7,
            gid: 7,
            groups: vec![7],
            name: "ann".to_owned(),
            home: "/h/ann".into(),
            shell: "/bin/sh".into(),
        };
        let env = ["USER=root", "USERS=2", "SHELL=/bin/zsh"];
        let env: Vec<CString> = env.map(|text| CString::new(text).expect("no NUL")).into();
        let all = with_identity(&env, &account);
        let all: Vec<&str> = all.iter().map(|e| e.to_str().expect("UTF-8")).collect();
        let expected = [
            "USERS=2",
            "SHELL=/bin/zsh",
            "USER=ann",
            "LOGNAME=ann",
            "HOME=/h/ann",
        ];
        assert_eq!(all, expected);
    }
}
