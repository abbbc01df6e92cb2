//! What a child has of its parent, as its journal keeps it: asked for once, so
//! that a leader that is started again goes on without its parent.
//!
//! Called by the start, before there is a loop.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use eddy_modules::settings::{KEEPS, Place};
use eddy_wire::id::Epoch;
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::{AdoptRequest, ChildOf, Granted};
use eddy_wire::time::{Span, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use super::channel::{self, Address, first_grant};
use super::child::{Child, Told};
use super::program::Program;
use super::start::StartError;
use crate::clients::ARRIVALS_MAX;
use crate::clock::Clock;
use crate::config::InstanceConfig;
use crate::journal::Journal;

/// Its key in the journal.
const KEY: &str = "granted";
/// Where the script of a job is, in the files of its jobspec.
const SCRIPT: &str = "/attributes/system/files/script/data";
/// Where it says by what it is warned of its end.
const SIGNAL: &str = "/attributes/system/shell/options/signal";
/// Its name in the state directory.
const SCRIPT_FILE: &str = "script";

/// What an instance has and which shells serve it.
pub struct Possession {
    /// What it has.
    pub inventory: Arc<ResourceSet>,
    /// Ranks that the leader's own shell serves.
    pub local: Idset,
    /// How long tasks last that are none; `None` starts processes.
    pub mock: Option<Span>,
    /// What the next start is to know of it where it says nothing, by key.
    pub kept: Vec<(&'static str, String)>,
}

/// What a child's leader knows before it leads.
pub struct Nested {
    /// Where its parent is.
    pub address: Address,
    hello: AdoptRequest,
    /// What it has of it.
    pub kept: Kept,
}

impl Nested {
    /// Finds what is kept, or asks the parent.
    pub fn find(
        told: Told,
        hello: AdoptRequest,
        command: &[String],
        journal: &mut Journal,
        clock: Clock,
    ) -> Result<Nested, StartError> {
        let address = told.parent();
        let kept = Kept::find(journal, &address, &hello, command, clock)?;
        Ok(Nested {
            address,
            hello,
            kept,
        })
    }

    /// What it has.
    pub fn possession(&self) -> Possession {
        Possession {
            inventory: self.kept.inventory(),
            local: self.kept.local(),
            mock: self.kept.granted.mock,
            kept: Vec::new(),
        }
    }

    /// Where it is among instances.
    pub fn place(&self) -> Place {
        let granted = &self.kept.granted;
        Place {
            path: granted.path.clone(),
            depth: granted.depth,
            child: Some(self.kept.of),
            parent: Some(self.address.uri.as_str().into()),
            name: granted.name.clone(),
            until: self.kept.until,
            told: granted.grant.set.expiration,
            reserve: granted.reserve,
        }
    }

    /// Begins to keep the channel, as the leader of this epoch, and to ask whether the parent is there
    /// often enough for what is to be done without it. `limits` are those that this leader was started with and that
    /// its program is to have.
    pub fn open(
        mut self,
        epoch: Epoch,
        config: &InstanceConfig,
        limits: BTreeMap<&'static str, u64>,
    ) -> Child {
        self.hello.leader = epoch;
        let place = self.place();
        let Kept {
            command,
            signal,
            begun,
            ..
        } = self.kept;
        let program = Program::new(command, signal, &self.hello.instance, begun).limited(limits);
        let (heard, hears) = mpsc::channel(ARRIVALS_MAX);
        let of = self.kept.of;
        let alone = config.autonomous_after.filter(|_| place.name.is_some());
        let beat = channel::beat(config.lease.min(alone.unwrap_or(config.lease)));
        self.hello.beat = Some(Span(beat.as_micros() as i64));
        self.hello.keeps = Some(KEEPS);
        spawn_local(channel::keep(self.address, self.hello, heard, beat));
        Child::new(of, place, hears, program)
    }
}

/// What was granted, when, and what for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// Which job of the parent it is.
    pub of: ChildOf,
    /// What the parent said.
    pub granted: Granted,
    /// When.
    pub begun: Time,
    /// When it must have ended, by its job's limit.
    pub until: Option<Time>,
    /// The program that it is started for; none if empty.
    pub command: Vec<String>,
    /// By what that is warned of its end, as the job's shell option says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Value>,
}

impl Kept {
    /// What is kept of this attempt; else the parent is asked, and that kept.
    pub fn find(
        journal: &mut Journal,
        address: &Address,
        hello: &AdoptRequest,
        command: &[String],
        mut clock: Clock,
    ) -> Result<Kept, StartError> {
        let kept: Option<Kept> = journal
            .meta(KEY)?
            .and_then(|text| serde_json::from_str(&text).ok());
        if let Some(kept) = kept.filter(|kept| kept.of == hello.child) {
            return Ok(kept);
        }
        let (granted, jobspec) = first_grant(address, hello).map_err(StartError::Parent)?;
        let begun = clock.now();
        let kept = Kept {
            of: hello.child,
            until: granted.remaining.map(|left| begun + left),
            granted: *granted,
            begun,
            signal: jobspec.pointer(SIGNAL).cloned(),
            command: program(&jobspec, command, Path::new(&hello.statedir))?,
        };
        let text = serde_json::to_string(&kept).expect("what was said is JSON");
        journal.set_meta(KEY, &text)?;
        Ok(kept)
    }

    /// What it has, in its own ranks.
    pub fn inventory(&self) -> Arc<ResourceSet> {
        Arc::new(self.granted.inventory())
    }

    /// The ranks that the leader's own shell serves.
    pub fn local(&self) -> Idset {
        let own = self.granted.own(&self.granted.local);
        own.union(&Idset::one(0))
    }
}

/// The command, or the script of the job with the command as its arguments.
fn program(
    jobspec: &Value,
    command: &[String],
    statedir: &Path,
) -> Result<Vec<String>, StartError> {
    let Some(script) = jobspec.pointer(SCRIPT).and_then(Value::as_str) else {
        return Ok(command.to_vec());
    };
    let path = statedir.join(SCRIPT_FILE);
    write(&path, script).map_err(|source| StartError::Io {
        attempt: "write the job's script",
        source,
    })?;
    let path = path.to_string_lossy().into_owned();
    Ok([path].into_iter().chain(command.iter().cloned()).collect())
}

/// In one step, so that a script that is there is whole.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let next = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o700)
        .open(&next)?;
    file.write_all(text.as_bytes())?;
    drop(file);
    fs::rename(next, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eddy_wire::grant::Grant;
    use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
    use eddy_wire::resource_set::NodeSet;
    use eddy_wire::time::Span;
    use serde_json::json;

    fn kept(ranks: &[u32], local: &[u32]) -> Kept {
        let node = |rank: &u32| NodeSet {
            host: format!("n{rank}").into(),
            cores: Idset::one(rank + 2),
            gpus: Idset::new(),
            memory: 7,
            ..NodeSet::default()
        };
        let nodes = ranks.iter().map(|rank| (Rank(*rank), node(rank)));
        let grant = Grant {
            epoch: Epoch(1),
            set: Arc::new(ResourceSet {
                nodes: nodes.collect(),
                ..ResourceSet::default()
            }),
            shells: ranks.iter().map(|rank| (Rank(*rank), Epoch(1))).collect(),
            beside: Default::default(),
            passed: None,
        };
        Kept {
            of: ChildOf {
                job: JobId(905),
                attempt: Attempt(1),
            },
            granted: Granted {
                grant,
                ranks: (0..)
                    .map(Rank)
                    .zip(ranks.iter())
                    .map(|(at, of)| (Rank(*of), at))
                    .collect(),
                room: None,
                leaving: Idset::new(),
                within: BTreeMap::new(),
                beside: Default::default(),
                local: local.iter().copied().collect(),
                path: "905".to_owned(),
                depth: 1,
                remaining: None,
                reserve: Span::seconds(5),
                kill_grace: Span::seconds(4),
                name: None,
                mock: None,
                access: Default::default(),
                queues: Vec::new(),
                closed: Vec::new(),
            },
            begun: Time(1),
            until: None,
            command: Vec::new(),
            signal: None,
        }
    }

    #[test]
    fn ranks_are_counted_anew_and_ids_of_cores_are_kept() {
        let kept = kept(&[2, 5, 9], &[2, 9]);
        let inventory = kept.inventory();
        assert_eq!(inventory.ranks(), Idset::first_ids(3));
        let second = &inventory.nodes[&Rank(1)];
        assert_eq!((&*second.host, &second.cores), ("n5", &Idset::one(7)));
        assert_eq!(kept.local(), [0, 2].into_iter().collect());
        let text = serde_json::to_string(&kept).expect("JSON");
        assert_eq!(serde_json::from_str::<Kept>(&text).expect("its own"), kept);
    }

    #[test]
    fn a_script_is_run_with_the_arguments() {
        let dir = tempfile::tempdir().expect("a directory");
        let words = ["a".to_owned(), "b".to_owned()];
        let none = program(&json!({}), &words, dir.path()).expect("nothing to write");
        assert_eq!(none, words);
        let files = json!({"attributes": {"system": {"files": {"script":
            {"data": "#!/bin/sh\n", "mode": 448}}}}});
        let run = program(&files, &words, dir.path()).expect("written");
        let path = dir.path().join("script");
        assert_eq!(run, [path.to_str().expect("UTF-8"), "a", "b"]);
        assert_eq!(fs::read_to_string(path).expect("there"), "#!/bin/sh\n");
    }
}
