//! Which configuration a leader obeys, and what is kept of it for the next start.
//!
//! Called by the leader at its start. What is given comes first, then the file
//! `config.toml` of the state directory, then what was given last: whoever starts an
//! instance again that has crashed need not know how it was started. A child is
//! started again by its shell with what it was given, so nothing is kept of it.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use eddy_wire::resource_set::ResourceSet;

use super::BrokerArgs;
use super::access;
use super::child::Told;
use crate::config::{self, Config, ConfigError};
use crate::journal::DATABASE;
use crate::text::{self, CONFIG_MAX};

/// The configuration of a state directory, where none is given.
pub const CONFIG_FILE: &str = "config.toml";
/// What was given last.
pub const KEPT_FILE: &str = "config.kept.toml";
/// The mode of what is written here.
const PRIVATE: u32 = 0o600;
/// The configuration of a user's own instance, unless it is given another.
const CHILD_CONFIG: &str = "[journal]\nsync = \"normal\"\n";

/// Where a configuration is from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// `--config FILE`.
    Given(PathBuf),
    /// The file in the state directory.
    OfDirectory(PathBuf),
    /// Given at an earlier start.
    Kept(PathBuf),
    /// Every key has its default.
    Defaults,
}

/// A configuration and where it is from.
#[derive(Clone, Debug)]
pub struct Configured {
    /// What is obeyed, overrides included.
    pub config: Config,
    origin: Origin,
    text: String,
    statedir: PathBuf,
    /// What is not obeyed as it is said, a line each: it counts as far as bounds allow that earlier versions had not,
    /// and nobody is let in for users that are not there any more.
    pub remarks: Vec<String>,
}

/// Which of two files is obeyed: of one that a start was given, with the copy that is kept of it, and
/// of one in the state directory without. Nothing where there is no other.
pub fn which(path: &Path, kept: Option<&Path>) -> Option<String> {
    let read = path.display();
    match kept {
        Some(kept) => {
            let other = kept.with_file_name(CONFIG_FILE);
            let is_other = other != path && other.exists();
            is_other.then(|| {
                format!(
                    "{read} is read, which was given, and not {}",
                    other.display()
                )
            })
        }
        None => {
            let other = path.with_file_name(KEPT_FILE);
            let is_other = path.ends_with(CONFIG_FILE) && other.exists();
            is_other.then(|| {
                let other = other.display();
                format!("{read} is read, and not what was given to an earlier start ({other})")
            })
        }
    }
}

/// What a start does about a declared instance that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Somebody who reads the answer gave it just now.
    Refused,
    /// It was taken before: ranks may have been taken out since.
    Told,
}

impl Configured {
    /// Reads what is to be obeyed.
    ///
    /// # Errors
    /// Every line that is to be said: the file cannot be read, or what is wrong in it.
    pub fn read(args: &BrokerArgs, child: Option<&Told>) -> Result<Configured, Vec<String>> {
        let (origin, text) = match (&args.config, child) {
            (Some(path), _) => {
                let text = text::of_file(path, CONFIG_MAX);
                let text = text.map_err(|error| cannot("--config ", path, &error))?;
                (Origin::Given(path.clone()), text)
            }
            // What a user's own instance does is done again by its job after a power
            // cut; it is made by the thousand.
            (None, Some(child)) if child.declared().is_none() => {
                (Origin::Defaults, CHILD_CONFIG.to_owned())
            }
            (None, Some(_)) => (Origin::Defaults, String::new()),
            (None, None) => found(&super::start::statedir(args, None))?,
        };
        let (mut config, mut errors) = config::read(&text, &args.set);
        let statedir = super::start::statedir(args, child);
        let was_obeyed = origin.was_obeyed(&statedir, &text);
        // Whoever else starts an instance names nobody in it, and is told that.
        if child.is_none() && rustix::process::getuid().is_root() {
            errors.extend(access::unknown(&config.instance.access));
            if was_obeyed {
                access::leave_out(&mut config.instance.access);
            }
        }
        // What an earlier version took, or this one before, is to start again.
        let (remarks, errors): (Vec<_>, Vec<_>) = errors.into_iter().partition(|error| {
            error.is_of_a_later_bound() || was_obeyed && matches!(error, ConfigError::User { .. })
        });
        let (_, of_file) = config::read(&text, &[]);
        let told = |errors: Vec<ConfigError>| -> Vec<String> {
            let (in_file, others): (Vec<_>, Vec<_>) = errors.into_iter().partition(|error| {
                of_file.contains(error) || matches!(error, ConfigError::User { .. })
            });
            let in_file = config::told(&text, &in_file);
            let in_file = in_file.iter().map(|line| origin.named(line));
            in_file
                .chain(others.iter().map(ToString::to_string))
                .collect()
        };
        if !errors.is_empty() {
            return Err(told(errors));
        }
        config.origin = origin.to_string();
        Ok(Configured {
            config,
            remarks: told(remarks),
            origin,
            text,
            statedir,
        })
    }

    /// Keeps what was given for starts that are given nothing. Called when the lock of the
    /// state directory is held; safe to repeat.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, statedir: &Path) -> io::Result<()> {
        let kept = statedir.join(KEPT_FILE);
        match &self.origin {
            Origin::Given(path) if *path != kept => {
                if text::of_file(&kept, CONFIG_MAX).is_ok_and(|text| text == self.text) {
                    return Ok(());
                }
                // Whole or not at all: the next start must not read half of it.
                let fresh = statedir.join(format!("{KEPT_FILE}.new"));
                write_whole(&fresh, &self.text)?;
                fs::rename(&fresh, &kept)
            }
            Origin::Given(_) | Origin::OfDirectory(_) | Origin::Kept(_) | Origin::Defaults => {
                Ok(())
            }
        }
    }

    /// What was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The file that it is from, if it is from one, and the copy that is kept of it there, if one is.
    pub fn file(&self, statedir: &Path) -> Option<(PathBuf, Option<PathBuf>)> {
        match &self.origin {
            Origin::Given(path) => {
                let kept = statedir.join(KEPT_FILE);
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                let copied = (path != kept).then_some(kept);
                Some((path, copied))
            }
            Origin::OfDirectory(path) | Origin::Kept(path) => Some((path.clone(), None)),
            Origin::Defaults => None,
        }
    }

    /// Which of two files is obeyed, where there is another that could be.
    pub fn which(&self) -> Option<String> {
        let kept = self.statedir.join(KEPT_FILE);
        match &self.origin {
            Origin::Given(path) => which(path, Some(&kept)),
            Origin::OfDirectory(path) => which(path, None),
            Origin::Kept(_) | Origin::Defaults => None,
        }
    }

    /// What it says and hardly means over these nodes, a line each.
    pub fn doubts(&self, inventory: &ResourceSet) -> Vec<String> {
        let doubts = config::doubts(&self.config.instance, Some(inventory));
        let told = config::told(&self.text, &doubts);
        told.iter().map(|line| self.origin.named(line)).collect()
    }

    /// What becomes of a start that declares an instance which cannot be.
    pub fn unfit(&self) -> Unfit {
        match self.origin {
            Origin::Given(_) | Origin::OfDirectory(_) => Unfit::Refused,
            Origin::Kept(_) | Origin::Defaults => Unfit::Told,
        }
    }
}

impl Origin {
    /// Whether the instance had this text before. A user who was removed since, or whom a directory service does
    /// not tell of yet, does not keep it from starting again; one who is misspelled is to be found at once.
    fn was_obeyed(&self, statedir: &Path, text: &str) -> bool {
        match self {
            Origin::Kept(_) => true,
            Origin::OfDirectory(_) => statedir.join(DATABASE).is_file(),
            Origin::Given(_) => {
                let kept = text::of_file(&statedir.join(KEPT_FILE), CONFIG_MAX);
                kept.is_ok_and(|kept| kept == text)
            }
            Origin::Defaults => false,
        }
    }

    /// A line about a configuration, with its file.
    fn named(&self, line: &str) -> String {
        match self {
            Origin::Given(path) | Origin::OfDirectory(path) | Origin::Kept(path) => {
                format!("{}: {line}", path.display())
            }
            Origin::Defaults => line.to_owned(),
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Given(path) => write!(f, "given: {}", path.display()),
            Origin::OfDirectory(path) => write!(f, "{}", path.display()),
            Origin::Kept(path) => write!(f, "kept from an earlier start: {}", path.display()),
            Origin::Defaults => f.write_str("defaults"),
        }
    }
}

/// What a state directory has.
fn found(statedir: &Path) -> Result<(Origin, String), Vec<String>> {
    let read = |name: &str| {
        let path = statedir.join(name);
        match text::of_file(&path, CONFIG_MAX) {
            Ok(text) => Ok(Some((path, text))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot("", &path, &error)),
        }
    };
    if let Some((path, text)) = read(CONFIG_FILE)? {
        return Ok((Origin::OfDirectory(path), text));
    }
    if let Some((path, text)) = read(KEPT_FILE)? {
        return Ok((Origin::Kept(path), text));
    }
    Ok((Origin::Defaults, String::new()))
}

/// Writes a text to a file that is renamed when it is whole; what is not whole does not stay there. Others than
/// the owner can never read it, whatever the umask and whoever may pass through its directory.
///
/// # Errors
/// It cannot be written: the disk is full, say.
pub fn write_whole(fresh: &Path, text: &str) -> io::Result<()> {
    let write = || {
        let mut how = OpenOptions::new();
        let how = how.write(true).create(true).truncate(true);
        let mut file = how.mode(PRIVATE).open(fresh)?;
        // One that was left there keeps its mode when it is opened.
        if file.metadata()?.is_file() {
            file.set_permissions(Permissions::from_mode(PRIVATE))?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    // What it was for matters more than that it could not be removed.
    write().inspect_err(|_| drop(fs::remove_file(fresh)))
}

/// How much of what is wrong is told in the one line that whoever waits for a start is shown, in bytes.
const TOLD_MAX: usize = 3000;

/// What is wrong with a configuration in one line: where it is much, how much more there is, and what tells all.
pub fn in_short(lines: &[String], file: Option<&Path>) -> String {
    let mut room = TOLD_MAX;
    let fits = |line: &&String| {
        let rest = room.checked_sub(line.len());
        rest.map(|rest| room = rest).is_some()
    };
    // One is told however long it is.
    let told = lines.iter().take_while(fits).count().max(1);
    let (told, more) = lines.split_at(told.min(lines.len()));
    let line = told.join("; ");
    match (more.len(), file) {
        (0, _) => line,
        (more, Some(file)) => {
            let file = file.display();
            format!("{line}; and {more} more, which are told by: eddy config check {file}")
        }
        (more, None) => format!("{line}; and {more} more"),
    }
}

/// The file that a start reads, if it reads one.
pub fn file_of(args: &BrokerArgs) -> Option<PathBuf> {
    if args.config.is_some() || args.child {
        return args.config.clone();
    }
    let statedir = super::start::statedir(args, None);
    let files = [CONFIG_FILE, KEPT_FILE].map(|name| statedir.join(name));
    files.into_iter().find(|file| file.exists())
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Vec<String> {
    vec![format!("{what}{}: {error}", path.display())]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: BrokerArgs,
    }

    fn tried(statedir: &Path, more: &[&str]) -> Result<Configured, Vec<String>> {
        let statedir = statedir.to_str().expect("UTF-8");
        let line = [&["broker", "--statedir", statedir], more].concat();
        let args = Line::parse_from(line).args;
        Configured::read(&args, None)
    }

    fn read(statedir: &Path, more: &[&str]) -> Configured {
        tried(statedir, more).expect("a configuration")
    }

    #[test]
    fn what_is_wrong_is_told_with_the_file_it_is_in() {
        let place = tempfile::tempdir().expect("a directory");
        let given = place.path().join("given.toml");
        fs::write(&given, "[tree]\nfanout = 0\n").expect("written");
        let path = given.to_str().expect("UTF-8");
        let refused = tried(place.path(), &["--config", path, "-S", "journal.sync=no"]);
        let lines = refused.expect_err("two are wrong");
        assert!(
            lines[0].starts_with(&format!("{path}: line 2: tree.fanout: is 0")),
            "{lines:?}"
        );
        assert!(lines[1].starts_with("journal.sync: is \"no\""), "{lines:?}");
    }

    #[test]
    fn of_much_that_is_wrong_the_line_says_how_much_more_there_is() {
        let lines = |count| (0..count).map(|at| format!("f: line {at}: {}", "x".repeat(90)));
        let file = Some(Path::new("/etc/eddy.toml"));
        let few: Vec<String> = lines(3).collect();
        assert_eq!(in_short(&few, file), few.join("; "));
        let many: Vec<String> = lines(100).collect();
        let told = in_short(&many, file);
        assert!(told.len() < 4000, "{}", told.len());
        let end = "; and 71 more, which are told by: eddy config check /etc/eddy.toml";
        assert!(told.ends_with(end), "{told}");
        assert!(in_short(&many, None).ends_with("; and 71 more"));
        let long = ["y".repeat(5000), "z".to_owned()];
        assert!(in_short(&long, None).ends_with("y; and 1 more"));
    }

    #[test]
    fn who_is_not_there_any_more_keeps_no_instance_from_starting_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let state = directory.path();
        let given = state.join("given.toml");
        let text = "[[queue]]\nname = \"q\"\nusers = [\"eddy-nobody\", 7]\n";
        fs::write(&given, text).expect("written");
        let path = given.to_str().expect("UTF-8");
        let line = format!("{path}: line 3: queue[0].users: no user `eddy-nobody` on this host");
        let refused = tried(state, &["--config", path]).expect_err("nobody knows him");
        assert_eq!(refused, [line.as_str()]);
        // It was so before.
        fs::write(state.join(KEPT_FILE), text).expect("written");
        let again = read(state, &["--config", path]);
        assert_eq!(again.remarks, [line]);
        let rules = &again.config.instance.queues[0].rules;
        assert!(rules.users.as_ref().is_some_and(|users| users.contains(&7)));
    }

    #[test]
    fn what_could_not_be_written_whole_does_not_stay() {
        let place = tempfile::tempdir().expect("a directory");
        let fresh = place.path().join("fresh");
        std::os::unix::fs::symlink("/dev/full", &fresh).expect("made");
        let error = write_whole(&fresh, "[tree]\n").expect_err("the disk is full");
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert!(fresh.symlink_metadata().is_err());
    }

    #[test]
    fn what_is_written_is_its_owners_alone() {
        let place = tempfile::tempdir().expect("a directory");
        let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
        let (fresh, left) = (place.path().join("fresh"), place.path().join("left"));
        fs::write(&left, "").expect("written");
        fs::set_permissions(&left, Permissions::from_mode(0o644)).expect("open to all");
        for path in [fresh, left] {
            write_whole(&path, "[tree]\n").expect("written");
            assert_eq!(mode(&path), 0o600);
        }
    }

    #[test]
    fn what_an_earlier_version_took_starts_with_as_much_as_is_allowed() {
        let place = tempfile::tempdir().expect("a directory");
        let given = place.path().join("given.toml");
        fs::write(&given, "[exec]\nkill_grace = \"2d\"\n").expect("written");
        let path = given.to_str().expect("UTF-8");
        let started = read(place.path(), &["--config", path]);
        assert_eq!(started.config.instance.kill_grace.0, 86_400_000_000);
        assert_eq!(started.remarks.len(), 1, "{:?}", started.remarks);
        assert!(started.remarks[0].starts_with(&format!("{path}: line 2: exec.kill_grace")));
    }

    #[test]
    fn what_is_given_is_kept_and_what_stands_in_the_directory_goes_before_that() {
        let place = tempfile::tempdir().expect("a directory");
        let state = place.path();
        let fanout = |configured: &Configured| configured.config.instance.fanout;
        assert_eq!(read(state, &[]).origin, Origin::Defaults);
        let given = state.join("given.toml");
        fs::write(&given, "[tree]\nfanout = 3\n").expect("written");
        let path = given.to_str().expect("UTF-8");
        let first = read(state, &["--config", path, "-S", "tree.fanout=4"]);
        assert_eq!((fanout(&first), first.unfit()), (4, Unfit::Refused));
        first.keep(state).expect("kept");
        fs::remove_file(&given).expect("removed");
        let second = read(state, &[]);
        assert_eq!(
            (fanout(&second), second.unfit()),
            (3, Unfit::Told),
            "the file, not the overrides of one start"
        );
        assert!(second.config.origin.starts_with("kept from an earlier"));
        second.keep(state).expect("kept");
        assert_eq!(second.which(), None);
        fs::write(state.join(CONFIG_FILE), "[tree]\nfanout = 5\n").expect("written");
        let third = read(state, &[]);
        assert_eq!(fanout(&third), 5);
        let at = |name: &str| state.join(name).display().to_string();
        let (file, kept) = (at(CONFIG_FILE), at(KEPT_FILE));
        let said = format!("{file} is read, and not what was given to an earlier start ({kept})");
        assert_eq!(third.which(), Some(said));
        fs::write(&given, "[tree]\nfanout = 3\n").expect("written");
        let said = format!("{path} is read, which was given, and not {file}");
        assert_eq!(read(state, &["--config", path]).which(), Some(said));
    }
}
