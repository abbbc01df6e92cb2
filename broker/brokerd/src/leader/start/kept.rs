//! What an instance keeps of its first start and is not told again: who it is, where it is,
//! where its inventory came from, how many nodes it had, and what was set over its configuration.
//!
//! Called once, while a leader begins. It opens no journal and decides nothing.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eddy_modules::keys::Keys;
use eddy_wire::access::Access;
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Span;

use thiserror::Error;

use super::set::{Given, Standing, standing};
use super::{Possession, StartError, io as failed};
use crate::config::declared::DeclaredInstance;
use crate::config::{Config, tables};
use crate::inventory::Source;
use crate::journal::{DATABASE, Journal};
use crate::leader::BrokerArgs;
use crate::leader::configured::Configured;
use crate::leader::granted::Nested;
use crate::leader::reload::Basis;
use crate::leader::replay::recorded_inventory;
use crate::leader::store::Known;

/// The key of the instance's id in the journal.
const INSTANCE_KEY: &str = "instance";
/// The key of where its state directory was when it was started last.
const PLACE_KEY: &str = "place";
/// The key of where the inventory came from.
const SOURCE_KEY: &str = "inventory";
/// The key of how many nodes it was said to have.
const SIZE_KEY: &str = "size";
/// The configuration of the last start by its keys.
const KEYS_KEY: &str = "configuration";

/// A state directory that says of itself that it is another.
#[derive(Debug, Error)]
#[error("state directory {} is a copy of {}, whose tasks and sockets it would take for its own; if that one is not used any more, start this one with --moved", .statedir.display(), .of.display())]
pub struct CopyError {
    /// The one that was to be used.
    statedir: PathBuf,
    /// Where it was when it was used last.
    of: PathBuf,
}

/// A state directory of which another instance begins the leader.
#[derive(Debug, Error)]
#[error("state directory {} is of an instance inside that of {}, which begins it itself; start that one, with --recover if a journal is damaged, or try a queue instance that is down again by `eddy queue start`", .statedir.display(), .of.display())]
pub struct InsideError {
    /// The one that was to be used.
    statedir: PathBuf,
    /// That of the outermost instance around it.
    of: PathBuf,
}

/// Refuses the state directory of an instance that is inside another: begun alone it would go by its own inventory and
/// run what it was passed a second time.
pub(super) fn outermost(statedir: &Path) -> Result<(), InsideError> {
    let Ok(path) = fs::canonicalize(statedir) else {
        // It is not there yet.
        return Ok(());
    };
    let around = std::iter::successors(around(&path), |outer| around(outer));
    match around.last() {
        Some(of) => Err(InsideError { statedir: path, of }),
        None => Ok(()),
    }
}

/// That of the instance around one, which has those inside it below itself or below its ranks (directories.md).
fn around(statedir: &Path) -> Option<PathBuf> {
    let above = |path: &Path, name: &str| {
        let within = path.parent().filter(|within| within.ends_with(name))?;
        within.parent().map(Path::to_owned)
    };
    let of = above(statedir, "children")?;
    let of = above(&of, "ranks").unwrap_or(of);
    of.join(DATABASE).exists().then_some(of)
}

/// Where a state directory is.
struct Place {
    device: u64,
    inode: u64,
    path: PathBuf,
}

impl Place {
    fn of(statedir: &Path) -> io::Result<Place> {
        let path = fs::canonicalize(statedir)?;
        let meta = fs::metadata(&path)?;
        let (device, inode) = (meta.dev(), meta.ino());
        Ok(Place {
            device,
            inode,
            path,
        })
    }

    fn from_line(line: &str) -> Option<Place> {
        let mut words = line.splitn(3, ' ');
        let (device, inode) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let path = PathBuf::from(words.next()?);
        Some(Place {
            device,
            inode,
            path,
        })
    }

    fn to_line(&self) -> String {
        let path = self.path.to_string_lossy();
        format!("{} {} {path}", self.device, self.inode)
    }

    /// What was put back from a backup has another inode, what was moved another path, and a
    /// directory of a disk that was taken elsewhere may have another device. A copy has neither.
    fn is(&self, other: &Place) -> bool {
        let is_there = self.path.to_string_lossy() == other.path.to_string_lossy();
        is_there || (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Refuses the state directory of an instance that is elsewhere: all that marks tasks and sockets as
/// one's own is in it. Of an instance that is nobody's child; where those are is their parent's word.
pub(super) fn own_place(
    journal: &mut Journal,
    statedir: &Path,
    args: &BrokerArgs,
) -> Result<(), StartError> {
    let place = Place::of(statedir).map_err(failed("find the state directory"))?;
    let kept = journal.meta(PLACE_KEY)?;
    let before = kept.as_deref().and_then(Place::from_line);
    if let Some(before) = before.filter(|before| !args.moved && !place.is(before)) {
        let (statedir, of) = (place.path, before.path);
        return Err(CopyError { statedir, of }.into());
    }
    let line = place.to_line();
    if kept.as_ref() != Some(&line) {
        journal.set_meta(PLACE_KEY, &line)?;
    }
    Ok(())
}

/// What an instance has that is nobody's child.
pub(super) fn possession(
    journal: &Journal,
    source: &Source,
    size: Option<u32>,
) -> Result<Possession, StartError> {
    let (source, of_source) = kept_source(journal, source)?;
    let (size, of_size) = kept_size(journal, size)?;
    let inventory = Arc::new(match size {
        Some(size) => source.sized(size)?,
        None => source.inventory()?,
    });
    let local = match size {
        Some(2..) => Idset::one(0),
        Some(_) | None => inventory.ranks(),
    };
    Ok(Possession {
        inventory,
        local,
        mock: source.is_fake().then_some(Span::ZERO),
        kept: of_source.into_iter().chain(of_size).collect(),
    })
}

/// The id of the instance: made at its first start. Random from the first
/// character on, which names its run directory.
pub(super) fn identity(journal: &mut Journal) -> Result<String, StartError> {
    if let Some(id) = journal.meta(INSTANCE_KEY)? {
        return Ok(id);
    }
    let mut random = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
    read.map_err(failed("read /dev/urandom"))?;
    let id = uuid::Builder::from_random_bytes(random)
        .into_uuid()
        .to_string();
    journal.set_meta(INSTANCE_KEY, &id)?;
    Ok(id)
}

/// Where the inventory comes from: what is said now, else what was said when the
/// state directory was last used. Its jobs were taken for that inventory, and a
/// pretended task must never become a real one.
fn kept_source(journal: &Journal, said: &Source) -> Result<(Source, News), StartError> {
    let kept = journal.meta(SOURCE_KEY)?;
    if *said == Source::Found {
        let kept = kept.as_deref().and_then(Source::from_line);
        return Ok((kept.unwrap_or(Source::Found), None));
    }
    let line = said.to_line();
    let news = (kept.as_ref() != Some(&line)).then_some((SOURCE_KEY, line));
    Ok((said.clone(), news))
}

/// The configuration of this start by its keys, and that of the one before.
pub(super) fn keys(
    journal: &Journal,
    configured: &Configured,
    given: &[String],
) -> Result<(Keys, Keys), StartError> {
    // What is no TOML was refused.
    let table = tables::over(configured.text(), given).unwrap_or_default();
    let before = journal.meta(KEYS_KEY)?;
    let before = before.and_then(|text| serde_json::from_str(&text).ok());
    Ok((tables::keys(&table), before.unwrap_or_default()))
}

/// Keeps them for the next, and the file that was given.
pub(super) fn keep(
    configured: &Configured,
    statedir: &Path,
    (journal, (keys, before)): (&mut Journal, &(Keys, Keys)),
) -> Result<(), StartError> {
    let kept = configured.keep(statedir);
    kept.map_err(failed("keep the configuration"))?;
    if keys != before {
        let text = serde_json::to_string(keys).expect("texts are JSON");
        journal.set_meta(KEYS_KEY, &text)?;
    }
    Ok(())
}

/// Keeps what this start says of what it has, by key, for the next.
pub(super) fn keep_said(
    journal: &mut Journal,
    said: &[(&'static str, String)],
) -> Result<(), StartError> {
    for (key, line) in said {
        journal.set_meta(key, line)?;
    }
    Ok(())
}

/// What is to be kept that was not, by its key.
type News = Option<(&'static str, String)>;

/// How many nodes, likewise.
fn kept_size(journal: &Journal, said: Option<u32>) -> Result<(Option<u32>, News), StartError> {
    let kept = journal.meta(SIZE_KEY)?.and_then(|text| text.parse().ok());
    let news = said.filter(|_| said != kept);
    let news = news.map(|size| (SIZE_KEY, size.to_string()));
    Ok((said.or(kept), news))
}

/// What stands of what was set over the file before; who may connect, where that or the parent says it.
pub(super) fn in_force(
    config: &mut Config,
    basis: &mut Basis,
    (configured, nested): (&Configured, Option<&Nested>),
    known: &Known,
) -> (Standing, Option<Access>) {
    // The shell of its parent begins a child again with the same words.
    let given = nested.map_or(Given::Now, |_| Given::Again);
    let change = known.change.as_ref();
    let standing = change.map(|change| standing(basis, configured.text(), change, given));
    let mut standing = standing.unwrap_or_default();
    let set = standing.config.take().and_then(|(stands, access)| {
        config.instance = stands.instance;
        access
    });
    (standing, set.or_else(|| known.admitted.clone()))
}

/// The inventory by which declared instances know their nodes: the one recorded last, where some are by
/// what they are, else what the start is told. The configuration is told.
pub(super) fn there(
    journal: &Journal,
    config: &mut Config,
    told: &Arc<ResourceSet>,
) -> Result<Arc<ResourceSet>, StartError> {
    let declared = &config.instance.declared;
    let recorded = match declared.iter().any(DeclaredInstance::is_picked) {
        true => recorded_inventory(journal)?,
        false => None,
    };
    let there = recorded.unwrap_or_else(|| Arc::clone(told));
    config.instance.resolve(&there);
    Ok(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_moved_or_put_back_is_itself_and_a_copy_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let [first, second] = ["a b", "c"].map(|name| dir.path().join(name));
        let at = |path: &Path| Place::of(path).expect("there");
        fs::create_dir(&first).expect("made");
        let before = Place::from_line(&at(&first).to_line()).expect("a line");
        fs::create_dir(&second).expect("made");
        assert!(at(&first).is(&before) && !at(&second).is(&before));
        fs::remove_dir(&second).expect("empty");
        fs::rename(&first, &second).expect("moved");
        assert!(at(&second).is(&before), "it was moved");
        fs::create_dir(&first).expect("made");
        assert!(at(&first).is(&before), "it was put back");
    }

    #[test]
    fn what_is_inside_another_instance_is_known_by_where_it_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(dir.path()).expect("it is there");
        let inner = root.join("children/batch");
        let deep = inner.join("ranks/3/children/7.1");
        fs::create_dir_all(&deep).expect("made");
        let of = |statedir: &Path| outermost(statedir).err().map(|error| error.of);
        assert_eq!(of(&inner), None, "there is no instance around it");
        fs::write(inner.join(DATABASE), "").expect("written");
        assert_eq!(of(&deep), Some(inner.clone()));
        fs::write(root.join(DATABASE), "").expect("written");
        assert_eq!(of(&deep), Some(root.clone()));
        assert_eq!(of(&inner), Some(root.clone()));
        assert_eq!(of(&root), None);
        assert_eq!(
            of(&root.join("children/none")),
            None,
            "it is made by a start"
        );
    }
}
