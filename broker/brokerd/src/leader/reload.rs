//! Another configuration while the leader leads: its file read again, or keys set over it.
//!
//! A thread reads and checks all of it, so the loop waits for no disk, and one that hangs keeps others from their
//! turn only for a while; then the modules judge it and record it, and what the driver obeys itself follows the
//! record. One at a time.
//! What counts from a start on stays as it was, and is told.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use eddy_broker::Caller;
use eddy_modules::Settings;
use eddy_modules::live::{By, Change, Live};
use eddy_wire::access::{Access, HOST_ADMIN};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record};
use eddy_wire::idset::Idset;
use eddy_wire::message::{Message, Type};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::Service;
use eddy_wire::services::instance::{Reload, ReloadRequest, Reloaded, SetConfig, SetConfigRequest};
use serde_json::{Map, Value};
use toml::Table;

use super::access::{self, Admits, admitted};
use super::configured::{self, Configured};
use super::look::{Looks, NoLook};
use super::settings::settings;
use super::{Inner, Inside};
use crate::config::declared::{FitError, homes_apart, misfits};
use crate::config::{self, Config, ConfigError, tables};
use crate::text::{self, CONFIG_MAX};

/// The most keys that stand over a file.
const SET_MAX: usize = 1024;

/// How long the file and the databases of users have to answer. Directory services take seconds for many names;
/// `eddy config` waits longer than that for its turn.
const LOOK_MAX: Duration = Duration::from_secs(20);

/// What is in force and where it is from.
#[derive(Debug)]
pub struct Configuring {
    basis: Basis,
    /// The inventory that a start would find now, and the ranks that were taken out of it.
    there: (Arc<ResourceSet>, Idset),
    inside: Inside,
    course: Course,
    /// Of the file.
    reads: Looks,
    /// Of whom keys name that are set: a file that hangs is not in their way.
    sets: Looks,
}

/// What a change begins with.
#[derive(Clone, Debug)]
pub struct Basis {
    /// The file, where there is one, and whether a copy of it is kept there.
    pub file: Option<(PathBuf, Option<PathBuf>)>,
    /// Where that is from, for people.
    pub origin: String,
    /// `-S` of this start.
    pub given: Vec<String>,
    /// Keys that were set since.
    pub set: Vec<String>,
    /// Whose word it is who may connect.
    pub(super) admits: Admits,
    /// By which declared instances know their nodes.
    pub inventory: Arc<ResourceSet>,
    /// What is in force.
    pub table: Table,
    /// What a start with the same file would have.
    pub over: Live,
}

#[derive(Debug)]
enum Course {
    Idle,
    /// A thread reads and checks.
    Checking,
    /// The modules judge it.
    Judged(Box<Candidate>),
}

/// A configuration that was checked.
#[derive(Debug)]
pub struct Candidate {
    config: Config,
    basis: Basis,
    change: Change,
    trial: Trial,
    /// What is to be kept of the file, and where.
    keeps: Option<(PathBuf, String)>,
}

/// Whether it is only to be said what would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    Only,
    /// It is to be in force.
    No,
}

/// What is asked.
pub(super) enum Asked {
    /// Read the file again.
    Reload,
    /// Put these keys over what is in force.
    Set(Vec<String>),
}

impl Basis {
    /// What a start obeys, and was told of it.
    pub(super) fn of(
        configured: &Configured,
        (inventory, statedir): (&Arc<ResourceSet>, &Path),
        given: &[String],
        admits: Admits,
        settings: &Settings,
    ) -> Basis {
        let table = tables::over(configured.text(), given);
        Basis {
            admits,
            file: configured.file(statedir),
            origin: configured.config.origin.clone(),
            given: given.to_vec(),
            set: Vec::new(),
            table: table.unwrap_or_default(),
            over: Live::of(settings),
            inventory: Arc::clone(inventory),
        }
    }

    /// What is wrong with a key that is set, and where it is to be written instead: what is in the state
    /// directory is not read by a start that is given a file.
    fn says(&self, error: &ConfigError) -> String {
        match (error, &self.file) {
            (ConfigError::NotLive { path }, Some((file, Some(_)))) => {
                let file = file.display();
                format!(
                    "{path}: counts from a start on; write it in {file}, which this start was given"
                )
            }
            _ => error.to_string(),
        }
    }
}

/// What of a configuration modules may be told while they run.
pub(super) fn live(config: &Config, admits: &Admits) -> Result<Live, Vec<String>> {
    let access = admitted(&config.instance.access, admits);
    let access = access.map_err(|error| vec![error.to_string()])?;
    let mut live = Live::of(&settings(config, Arc::default(), None));
    live.access = match admits {
        Admits::Configured(_) => Some(access),
        Admits::Parent(_) | Admits::Owner => None,
    };
    Ok(live)
}

impl Configuring {
    /// Nothing is changing.
    pub fn new(basis: Basis, there: (Arc<ResourceSet>, Idset), inside: Inside) -> Configuring {
        Configuring {
            basis,
            there,
            inside,
            course: Course::Idle,
            reads: Looks::new(LOOK_MAX),
            sets: Looks::new(LOOK_MAX),
        }
    }
}

/// What a request asks of the loop; none where it is another's.
pub(super) fn asked(message: &Message) -> Option<Result<(Asked, Trial), Refusal>> {
    let roles = match message.topic.as_str() {
        Reload::TOPIC => Reload::ROLES,
        SetConfig::TOPIC => SetConfig::ROLES,
        _ => return None,
    };
    if message.kind != Type::Request {
        return None;
    }
    if !message.roles.any_of(roles) {
        let text = "the configuration: only the owner and admins may change it";
        return Some(Err(Refusal::new(Code::Denied, text)));
    }
    let trial = |dry_run| match dry_run {
        true => Trial::Only,
        false => Trial::No,
    };
    Some(match message.topic.as_str() {
        Reload::TOPIC => message
            .parse()
            .map(|request: ReloadRequest| (Asked::Reload, trial(request.dry_run))),
        _ => message
            .parse()
            .map(|request: SetConfigRequest| (Asked::Set(request.set), trial(request.dry_run))),
    })
}

impl Configuring {
    /// Has a thread look at what is asked; what it comes to is an [`Inner::Candidate`].
    ///
    /// # Errors
    /// It cannot be now.
    pub(super) fn look(
        &mut self,
        asked: Asked,
        trial: Trial,
        (to, user): (Caller, u32),
    ) -> Result<(), Refusal> {
        if !matches!(self.course, Course::Idle) {
            let text = "another change of the configuration is under way; ask again in a moment";
            return Err(Refusal::new(Code::Busy, text));
        }
        if let (Asked::Reload, None) = (&asked, &self.basis.file) {
            let text = "there is no configuration file: the instance was started without one";
            return Err(Refusal::not_found(text));
        }
        let (basis, inside) = (self.basis.clone(), self.inside.clone());
        let there = self.there.clone();
        let (looks, late) = match (&asked, &self.basis.file) {
            (Asked::Reload, Some((path, _))) => (&self.reads, format!("{}: ", path.display())),
            _ => (&self.sets, "looking up who is named: ".to_owned()),
        };
        let work = move || match asked {
            Asked::Reload => reloaded(basis, &there, trial, user),
            Asked::Set(set) => set_over(basis, &there, &set, (trial, user)),
        };
        let begun = looks.begin(work, {
            let late = late.clone();
            move |found| {
                let found = found.unwrap_or_else(|error| Err(vec![format!("{late}{error}")]));
                let found = found.and_then(Candidate::put_beside).map(Box::new);
                // The loop is gone only when the process ends.
                let _ = inside.send(Inner::Candidate(to, found));
            }
        });
        begun.map_err(|error| {
            let code = match error {
                NoLook::Left => Code::TooLarge,
                NoLook::Thread(_) => Code::Busy,
            };
            Refusal::new(code, format!("{late}{}", super::chain(&error)))
        })?;
        self.course = Course::Checking;
        Ok(())
    }

    /// The thread is done: the memo that modules are to judge, or what is wrong.
    pub(super) fn looked(
        &mut self,
        found: Result<Box<Candidate>, Vec<String>>,
    ) -> Result<Map<String, Value>, Reloaded> {
        match found {
            Ok(candidate) => {
                let memo = match candidate.trial {
                    Trial::Only => candidate.change.trial(),
                    Trial::No => candidate.change.memo(),
                };
                self.course = Course::Judged(candidate);
                Ok(memo)
            }
            Err(errors) => {
                self.course = Course::Idle;
                Err(Reloaded {
                    errors,
                    ..Reloaded::default()
                })
            }
        }
    }

    /// The modules have judged it: whatever they said, another may be asked for.
    pub(super) fn judged(&mut self) {
        let course = std::mem::replace(&mut self.course, Course::Idle);
        // What is in force by now was renamed.
        if let Course::Judged(candidate) = course
            && let (Some((_, Some(kept))), Trial::No) = (&candidate.basis.file, candidate.trial)
        {
            let _ = fs::remove_file(beside(kept));
        }
    }

    /// A record: the configuration that is in force from now on, where it is the one that was judged,
    /// and who may connect then.
    pub(super) fn recorded(&mut self, record: &Record) -> Option<(Config, Option<Access>)> {
        if let Kind::ResourceDefine(inventory, basis) = &record.event.kind {
            self.there = (Arc::clone(inventory), basis.removed.clone());
        }
        let Kind::Memo(memo) = &record.event.kind else {
            return None;
        };
        Change::told(memo)?;
        match std::mem::replace(&mut self.course, Course::Idle) {
            Course::Judged(candidate) => {
                for line in &candidate.change.changed {
                    tracing::info!("the configuration changes: {line}");
                }
                if let (Some((_, Some(kept))), By::Reload) =
                    (&candidate.basis.file, &candidate.change.by)
                {
                    // Whole or not at all: the next start must not read half of it.
                    let renamed = fs::rename(beside(kept), kept);
                    renamed.unwrap_or_else(|error| tracing::error!(%error, "the file is not kept"));
                }
                self.basis = candidate.basis;
                Some((candidate.config, candidate.change.live.access))
            }
            other => {
                self.course = other;
                None
            }
        }
    }
}

impl Candidate {
    /// Writes what is to be kept for starts that are given nothing, once it is in force.
    fn put_beside(self) -> Result<Candidate, Vec<String>> {
        if let Some((kept, text)) = &self.keeps {
            configured::write_whole(&beside(kept), text)
                .map_err(|error| vec![format!("{}: {error}", kept.display())])?;
        }
        Ok(self)
    }
}

/// Reads the file again, checks it and compares.
fn reloaded(
    mut basis: Basis,
    (there, removed): &(Arc<ResourceSet>, Idset),
    trial: Trial,
    userid: u32,
) -> Result<Candidate, Vec<String>> {
    let Some((path, kept)) = &basis.file else {
        return Err(vec!["there is no configuration file".to_owned()]);
    };
    let named = |lines: Vec<String>| -> Vec<String> {
        let named = lines.into_iter();
        named
            .map(|line| format!("{}: {line}", path.display()))
            .collect()
    };
    let text = text::of_file(path, CONFIG_MAX).map_err(|error| named(vec![error.to_string()]))?;
    let told = |errors: Vec<_>| named(config::told(&text, &errors));
    let (config, mut errors) = config::read(&text, &basis.given);
    errors.extend(unknown(&config, &basis.admits));
    if !errors.is_empty() {
        return Err(told(errors));
    }
    let table = tables::over(&text, &basis.given).map_err(told)?;
    // What a start would refuse. Those that are there already may lack nodes that were taken out since.
    let is_told = |error: &FitError| {
        table.get("instance") == basis.table.get("instance") || error.is_of_removed(removed)
    };
    let misfits = misfits(&config.instance.declared, there).into_iter();
    let (told, errors): (Vec<FitError>, Vec<FitError>) = misfits.partition(is_told);
    if !errors.is_empty() {
        return Err(named(errors.iter().map(ToString::to_string).collect()));
    }
    let mut warned = named(told.iter().map(ToString::to_string).collect());
    let doubts = config::new_doubts((&config.instance, &table), &basis.table, there);
    warned.extend(named(config::told(&text, &doubts)));
    warned.extend(configured::which(path, kept.as_deref()));
    let merged = tables::merged(&basis.table, &table);
    let config = loaded(&merged, &basis.inventory).map_err(|lines| -> Vec<String> {
        let later = "(what is new of [[instance]] counts from the next start on)";
        lines.iter().map(|line| format!("{line} {later}")).collect()
    })?;
    let origin = basis.origin.clone();
    let config = Config { origin, ..config };
    let keeps = match (kept, trial) {
        (Some(kept), Trial::No) => Some((kept.clone(), text.clone())),
        (None, _) | (_, Trial::Only) => None,
    };
    let live = live(&config, &basis.admits).map_err(named)?;
    basis.over = live.clone();
    let change = Change {
        over: live.hash(),
        userid,
        by: By::Reload,
        changed: tables::differences(&basis.table, &merged),
        restart: tables::differences(&merged, &table),
        warned,
        live,
        keys: tables::keys(&merged),
        given: Vec::new(),
    };
    basis.set.clear();
    basis.table = merged;
    Ok(Candidate {
        config,
        basis,
        change,
        trial,
        keeps,
    })
}

/// Puts keys over what is in force, checks that and compares.
fn set_over(
    mut basis: Basis,
    (there, removed): &(Arc<ResourceSet>, Idset),
    set: &[String],
    (trial, userid): (Trial, u32),
) -> Result<Candidate, Vec<String>> {
    let (mut errors, mut live_keys) = (Vec::new(), Vec::new());
    for given in set {
        match not_live(given) {
            Some(error) => errors.push(error),
            None => live_keys.push(given.clone()),
        }
    }
    let mut table = basis.table.clone();
    // What can be put there is, so that all that is wrong with it is told, too.
    errors.extend(
        tables::over_table(&mut table, &live_keys)
            .err()
            .unwrap_or_default(),
    );
    let (config, wrong, left) = read_over(&basis, &table);
    errors.extend(wrong);
    if !errors.is_empty() {
        let errors = errors.into_iter().map(|error| error.by_name(&table));
        return Err(errors.map(|error| basis.says(&error)).collect());
    }
    // Nodes that were taken out since are named by what stood already.
    if table.get("instance") != basis.table.get("instance") {
        let misfits = misfits(&config.instance.declared, there).into_iter();
        let misfits = misfits.filter(|error| !error.is_of_removed(removed));
        let lines: Vec<String> = misfits.map(|error| error.to_string()).collect();
        if !lines.is_empty() {
            return Err(lines);
        }
    }
    let doubts = config::new_doubts((&config.instance, &table), &basis.table, there).into_iter();
    let doubts = doubts.map(|doubt| doubt.by_name(&table));
    let warned = left.into_iter().chain(doubts);
    let warned = warned.map(|one| one.to_string()).collect();
    let mut config = of_nodes(config, &basis.inventory)?;
    config.origin.clone_from(&basis.origin);
    access::leave_out(&mut config.instance.access);
    stand_over(&mut basis, set)?;
    let change = Change {
        over: basis.over.hash(),
        userid,
        by: By::Set(basis.set.clone()),
        changed: tables::differences(&basis.table, &table),
        restart: Vec::new(),
        warned,
        live: live(&config, &basis.admits)?,
        keys: tables::keys(&table),
        given: basis.given.clone(),
    };
    basis.table = table;
    Ok(Candidate {
        config,
        basis,
        change,
        trial,
        keeps: None,
    })
}

/// Notes that these keys stand over the file, each as it was set last.
///
/// # Errors
/// They are too many.
fn stand_over(basis: &mut Basis, set: &[String]) -> Result<(), Vec<String>> {
    let key = |given: &String| given.split('=').next().map(|key| key.trim().to_owned());
    basis
        .set
        .retain(|old| set.iter().all(|new| key(new) != key(old)));
    basis.set.extend(set.iter().cloned());
    if basis.set.len() <= SET_MAX {
        return Ok(());
    }
    let text = format!(
        "{} keys stand over the file; the limit is {SET_MAX}: write them there and reload",
        basis.set.len()
    );
    Err(vec![text])
}

/// What this says in place of what is in force, what is wrong with it, and who is named already and has left the
/// host since, which is in nobody's way.
fn read_over(basis: &Basis, table: &Table) -> (Config, Vec<ConfigError>, Vec<ConfigError>) {
    let read = |table: &Table| -> (Config, Vec<ConfigError>) {
        let (config, mut wrong) = config::read(&table.to_string(), &[]);
        wrong.extend(unknown(&config, &basis.admits));
        (config, wrong)
    };
    let ((config, wrong), (_, before)) = (read(table), read(&basis.table));
    let has_left =
        |error: &ConfigError| matches!(error, ConfigError::User { .. }) && before.contains(error);
    let (left, wrong) = wrong.into_iter().partition(has_left);
    (config, wrong, left)
}

/// Who is named and is not on this host, where names are looked up.
fn unknown(config: &Config, admits: &Admits) -> Vec<ConfigError> {
    match admits {
        Admits::Configured(HOST_ADMIN) => access::unknown(&config.instance.access),
        Admits::Configured(_) | Admits::Parent(_) | Admits::Owner => Vec::new(),
    }
}

/// That a key is none, or counts from a start on.
fn not_live(given: &str) -> Option<ConfigError> {
    let path = given.split('=').next()?.trim().to_owned();
    if tables::is_live(&path) {
        return None;
    }
    let errors = config::load("", &[given.to_owned()])
        .err()
        .unwrap_or_default();
    let mut errors = errors.into_iter();
    let unknown = errors.find(|error| matches!(error, ConfigError::Unknown { .. }));
    Some(unknown.unwrap_or(ConfigError::NotLive { path }))
}

/// What a table says, as any text, of the nodes there are.
fn loaded(table: &Table, inventory: &ResourceSet) -> Result<Config, Vec<String>> {
    let told = |errors: Vec<ConfigError>| -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    };
    of_nodes(
        config::load(&table.to_string(), &[]).map_err(told)?,
        inventory,
    )
}

/// The same of what was read.
fn of_nodes(mut config: Config, inventory: &ResourceSet) -> Result<Config, Vec<String>> {
    let declared = &config.instance.declared;
    homes_apart(declared, inventory).map_err(|error| vec![error.to_string()])?;
    config.instance.resolve(inventory);
    Ok(config)
}

/// Where a text is until it is kept.
fn beside(path: &Path) -> PathBuf {
    path.with_extension("toml.new")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_force(text: &str) -> Basis {
        let settings = Settings::for_inventory(Arc::default());
        Basis {
            file: None,
            origin: "defaults".to_owned(),
            given: Vec::new(),
            set: Vec::new(),
            admits: Admits::Configured(HOST_ADMIN),
            inventory: Arc::default(),
            table: text.parse().expect("TOML"),
            over: Live::of(&settings),
        }
    }

    fn set(basis: Basis, key: &str) -> Result<Candidate, Vec<String>> {
        let there = (Arc::default(), Idset::new());
        set_over(basis, &there, &[key.to_owned()], (Trial::No, 0))
    }

    #[test]
    fn who_has_left_the_host_since_keeps_nothing_from_being_set() {
        let text = "[access]\nusers = [\"root\", \"eddy-nobody\"]\n\
            [[queue]]\nname = \"q\"\nusers = [\"eddy-nobody\", 7]\n";
        let candidate = set(in_force(text), "limits.user_rate=5").expect("it may be");
        assert_eq!(candidate.change.changed, ["limits.user_rate: unset -> 5"]);
        let warned = &candidate.change.warned;
        assert_eq!(warned.len(), 2, "{warned:?}");
        assert!(warned.iter().all(|line| line.contains("eddy-nobody")));
        // Who is named anew is looked up.
        let wrong = set(in_force(text), "access.admins=[\"eddy-else\"]");
        assert_eq!(
            wrong.expect_err("nobody knows him"),
            ["access.admins: no user `eddy-else` on this host"]
        );
    }
}
