//! A cgroup of its own for each user whose tasks this process starts, where the kernel has them.
//!
//! `eddy/uid-1001` in the cgroup of this process, in the unified hierarchy (version 2). Asked for by the
//! threads that start processes ([`super::spawn`]), which have each born there. It limits nothing itself:
//! what a user's jobs take can be read there, and an administrator may limit or end them.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};

/// The directory of all in the cgroup of this process.
const OURS: &str = "eddy";
/// Before the number of the user.
const USER: &str = "uid-";

/// Those of the users seen so far. When it is dropped, those that are empty are removed, also what a
/// process left that was killed.
#[derive(Debug, Default)]
pub struct Cgroups {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
enum Known {
    /// Not looked at yet.
    #[default]
    Unknown,
    /// In this directory.
    At(PathBuf, Users),
    /// There are none.
    None,
}

/// By user, and whether it was said that one cannot be had. It is tried again at each start: what is in the
/// way may go, and what an administrator set there is to hold then.
#[derive(Debug, Default)]
struct Users {
    open: BTreeMap<u32, Arc<OwnedFd>>,
    lack: Lack,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lack {
    #[default]
    None,
    Told,
}

impl Users {
    fn lacks(&mut self, user: u32, error: &io::Error) {
        if self.lack == Lack::None {
            tracing::warn!(%error, user, "a user has no cgroup of his own");
        }
        self.lack = Lack::Told;
    }
}

impl Cgroups {
    /// Those in this directory instead.
    pub fn at(home: PathBuf) -> Cgroups {
        Cgroups {
            known: Mutex::new(Known::At(home, Users::default())),
        }
    }

    /// That of a user, made if need be; `None` where there is none.
    pub(super) fn of(&self, user: u32) -> Option<Arc<OwnedFd>> {
        let mut known = self.lock();
        if let Known::Unknown = &*known {
            *known = match home() {
                Some(home) => Known::At(home, Users::default()),
                None => Known::None,
            };
        }
        let Known::At(home, users) = &mut *known else {
            return None;
        };
        if let Some(fd) = users.open.get(&user) {
            return Some(Arc::clone(fd));
        }
        match made(&home.join(format!("{USER}{user}"))) {
            Ok(fd) => {
                let fd = Arc::new(fd);
                users.open.insert(user, Arc::clone(&fd));
                Some(fd)
            }
            Err(error) => {
                users.lacks(user, &error);
                None
            }
        }
    }

    /// A process was born in that of a user.
    pub(super) fn served(&self) {
        if let Known::At(_, users) = &mut *self.lock() {
            users.lack = Lack::None;
        }
    }

    /// A process could not be born in that of a user: another may have removed it, or the kernel has no way.
    pub(super) fn failed(&self, user: u32, errno: i32) {
        if let Known::At(_, users) = &mut *self.lock() {
            users.open.remove(&user);
            if !matches!(errno, libc::ENODEV | libc::ENOENT) {
                users.lacks(user, &io::Error::from_raw_os_error(errno));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        let Known::At(home, _) = &*self.lock() else {
            return;
        };
        let entries = fs::read_dir(home).into_iter().flatten().flatten();
        let users = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(USER));
        // The kernel refuses where a process is left.
        users.for_each(|user| drop(fs::remove_dir(user.path())));
        let _ = fs::remove_dir(home);
    }
}

fn made(path: &Path) -> io::Result<OwnedFd> {
    // With a mode of its own: the umask of this process may be a job's at the moment.
    let mut make = DirBuilder::new();
    make.recursive(true).mode(0o755).create(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Where those of this process go; `None` where the kernel has none of version 2.
pub fn home() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    Some(own_in(&own, &mounts)?.join(OURS))
}

/// The directory of a process's cgroup of version 2, by its `cgroup` and `mountinfo` (proc(5)).
fn own_in(cgroup: &str, mounts: &str) -> Option<PathBuf> {
    let own = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if kind.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        // A part of the tree may be mounted alone.
        let below = Path::new(own).strip_prefix(root).ok()?;
        Some(Path::new(place).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
24 30 0:22 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
25 24 0:23 / /sys/fs/cgroup/unified rw,nosuid shared:4 - cgroup2 cgroup2 rw
26 24 0:24 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu";

    #[test]
    fn it_is_found_beside_hierarchies_of_version_1() {
        let own = "3:cpu:/\n0::/system.slice/eddy.service\n";
        let found = "/sys/fs/cgroup/unified/system.slice/eddy.service";
        assert_eq!(own_in(own, MOUNTS), Some(found.into()));
        assert_eq!(
            own_in("0::/\n", MOUNTS),
            Some("/sys/fs/cgroup/unified".into())
        );
    }

    #[test]
    fn without_one_there_is_none() {
        assert_eq!(own_in("3:cpu:/\n", MOUNTS), None);
        assert_eq!(
            own_in("0::/\n", "26 24 0:24 / /x rw - cgroup cgroup rw,cpu"),
            None
        );
        assert_eq!(own_in("0::/\n", ""), None);
    }

    #[test]
    fn a_part_of_the_tree_may_be_mounted() {
        let mounts = "25 24 0:23 /pod /cg rw - cgroup2 cgroup2 rw";
        assert_eq!(own_in("0::/pod/a\n", mounts), Some("/cg/a".into()));
        assert_eq!(own_in("0::/other\n", mounts), None);
    }
}
