//! Real users of this host, made for one test and removed with it, and an instance of the
//! administrator that they use.
//!
//! Only user 0 can make users: whoever calls this as another is told so, and tests what a plain
//! user has. Users are made and removed one test at a time, since the host's files have one lock.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use rustix::fs::{FlockOperation, flock};

use crate::instance::Instance;
use crate::place::Place;
use crate::program;
use crate::running::{Ran, Running};

/// Held while the host's files of users are changed.
const LOCK: &str = "/tmp/eddy-test-users.lock";

/// A user made for a test.
#[derive(Clone, Debug)]
pub struct User {
    /// The name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// The home directory.
    pub home: PathBuf,
}

/// Whether this process may make users; says so where it may not.
#[must_use]
pub fn can_make_users() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("not user 0: no users can be made; what a plain user has is tested");
    }
    is_root
}

/// A place that several users can use, and the users.
#[derive(Debug)]
pub struct Site {
    /// They are removed when it goes.
    pub users: Vec<User>,
    eddy: PathBuf,
}

impl Site {
    /// Makes the place passable and so many users with homes in it.
    ///
    /// # Errors
    /// Users cannot be made.
    pub fn make(place: &Place, count: usize) -> anyhow::Result<Site> {
        open(place.path())?;
        open(&place.path().join("run"))?;
        fs::set_permissions(place.path().join("tmp"), Permissions::from_mode(0o1777))?;
        // Where the one under test is may be closed to others.
        let eddy = place.path().join("eddy");
        let own = program::eddy()?;
        if fs::hard_link(&own, &eddy).is_err() {
            fs::copy(&own, &eddy).context("copying eddy")?;
        }
        let mut site = Site {
            users: Vec::new(),
            eddy,
        };
        for number in 0..count {
            let user = add(place, number)?;
            site.users.push(user);
        }
        Ok(site)
    }

    /// An instance of user 0 with four users, with this configuration, in which `{0}` to `{3}` are
    /// their names, and these options of `eddy start`.
    ///
    /// # Errors
    /// Users cannot be made, or it does not start.
    pub fn configured(config: &str, options: &[&str]) -> anyhow::Result<(Site, Instance)> {
        let place = Place::new()?;
        let site = Site::make(&place, 4)?;
        let mut text = config.to_owned();
        for (number, user) in site.users.iter().enumerate() {
            text = text.replace(&format!("{{{number}}}"), &user.name);
        }
        let file = place.join("config.toml");
        fs::write(&file, text)?;
        let state = place.path().join("state");
        let options = [&["--config", file.as_str()], options].concat();
        let instance = Instance::start_in(place, state, &options)?;
        Ok((site, instance))
    }

    /// `eddy` with these arguments, as that user has it after a login.
    #[must_use]
    pub fn eddy(&self, of: &Instance, user: usize, arguments: &[&str]) -> Command {
        let mut command = self.command(&of.place, user, &self.eddy);
        command.args(arguments).env("EDDY_URI", of.uri());
        command
    }

    /// A program as that user has it.
    #[must_use]
    pub fn command(&self, place: &Place, user: usize, program: &Path) -> Command {
        let user = &self.users[user];
        let mut command = Command::new(program);
        let mark = place.mark();
        let (name, value) = mark.split_once('=').expect("a variable");
        command
            .env_clear()
            .env(name, value)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &user.home)
            .env("USER", &user.name)
            .env("LC_ALL", "C")
            .current_dir(&user.home)
            .uid(user.uid)
            .gid(user.gid)
            .stdin(Stdio::null());
        command
    }

    /// Runs `eddy` as that user to its end.
    ///
    /// # Errors
    /// It cannot be started or does not end.
    pub fn run(&self, of: &Instance, user: usize, arguments: &[&str]) -> anyhow::Result<Ran> {
        Running::start(self.eddy(of, user, arguments))?.wait()
    }

    /// The same; what it printed.
    ///
    /// # Errors
    /// It does not end with 0.
    pub fn ok(&self, of: &Instance, user: usize, arguments: &[&str]) -> anyhow::Result<String> {
        let ran = self.run(of, user, arguments)?;
        Ok(ran.ok()?.trim_end().to_owned())
    }

    /// The path of the `eddy` that users run.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.eddy
    }

    /// A script of that user in its home.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn script(&self, user: usize, name: &str, text: &str) -> anyhow::Result<String> {
        let user = &self.users[user];
        let path = user.home.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        chown(&path, Some(user.uid), Some(user.gid))?;
        Ok(path.display().to_string())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let Ok(_held) = hold() else { return };
        for user in &self.users {
            // What a task that was killed left of its instance.
            let _ = fs::remove_dir_all(format!("/tmp/eddy-{}", user.uid));
            let removed = Command::new("userdel").arg(&user.name).output();
            match removed {
                Ok(done) if done.status.success() => {}
                Ok(done) => eprintln!("userdel {}: {}", user.name, said(&done.stderr)),
                Err(error) => eprintln!("userdel {}: {error}", user.name),
            }
        }
    }
}

/// Whose a process is.
///
/// # Errors
/// It has ended.
pub fn owner_of(pid: i32) -> anyhow::Result<u32> {
    Ok(fs::metadata(format!("/proc/{pid}"))?.uid())
}

/// The cgroup of version 2 that a process is in; `None` where the kernel has none.
///
/// # Errors
/// It has ended.
pub fn cgroup_of(pid: i32) -> anyhow::Result<Option<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::"));
    Ok(own.map(str::to_owned))
}

/// Whether this process may make cgroups of version 2 below its own.
///
/// # Errors
/// It cannot be found out.
pub fn can_make_cgroups() -> anyhow::Result<bool> {
    let Some(own) = cgroup_of(rustix::process::getpid().as_raw_nonzero().get())? else {
        return Ok(false);
    };
    let mounts = fs::read_to_string("/proc/mounts")?;
    let mut mounts = mounts.lines().map(|line| line.split(' '));
    let mount = mounts.find_map(|mut fields| {
        let place = fields.nth(1)?;
        (fields.next() == Some("cgroup2")).then(|| place.to_owned())
    });
    let Some(mount) = mount else {
        return Ok(false);
    };
    let probe = format!("{mount}{own}/eddy-probe-{}", std::process::id());
    let made = fs::create_dir(&probe).is_ok();
    if made {
        fs::remove_dir(&probe)?;
    }
    Ok(made)
}

fn open(path: &Path) -> anyhow::Result<()> {
    Ok(fs::set_permissions(path, Permissions::from_mode(0o711))?)
}

fn hold() -> anyhow::Result<File> {
    let file = File::create(LOCK)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

fn add(place: &Place, number: usize) -> anyhow::Result<User> {
    let name = format!("eddyt{}-{number}", std::process::id());
    let home = place.path().join(format!("home-{number}"));
    let held = hold()?;
    let made = Command::new("useradd")
        // Far from the numbers that other tests name.
        .args(["-K", "UID_MIN=50000", "-K", "UID_MAX=59999"])
        .args(["--no-create-home", "--shell", "/bin/sh", "--home-dir"])
        .arg(&home)
        .arg(&name)
        .output()
        .context("useradd")?;
    ensure!(
        made.status.success(),
        "useradd {name}: {}",
        said(&made.stderr)
    );
    drop(held);
    let passwd = fs::read_to_string("/etc/passwd")?;
    let prefix = format!("{name}:");
    let Some(line) = passwd.lines().find(|line| line.starts_with(&prefix)) else {
        bail!("useradd made no {name}");
    };
    let fields: Vec<&str> = line.split(':').collect();
    let (uid, gid) = (fields[2].parse()?, fields[3].parse()?);
    fs::create_dir(&home)?;
    fs::set_permissions(&home, Permissions::from_mode(0o700))?;
    chown(&home, Some(uid), Some(gid))?;
    Ok(User {
        name,
        uid,
        gid,
        home,
    })
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}
