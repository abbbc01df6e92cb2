//! Output of the jobs of an instance that is over, from the spools that its
//! ranks left.
//!
//! Used by the reader of a history, one question at a time. All ranks of an
//! instance that was here have their state directories beside each other; what
//! is not there any more is no output. It writes nothing.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use eddy_broker::{Caller, Reply};
use eddy_wire::id::Attempt;
use eddy_wire::message::Type;
use eddy_wire::services::job::{OutputReply, OutputRequest};

use crate::shell::frame;
use crate::shell::spool::{Next, Reader, SpoolId};

/// Frames sent in one message, in bytes; one larger frame goes alone.
const MESSAGE_BYTES: usize = 256 << 10;
/// The directory with the state directories of the instances inside one.
const CHILDREN: &str = "children";
/// The directory with those of the other ranks of a root.
const RANKS: &str = "ranks";
const SPOOL: &str = "spool";

/// Where the ranks of an instance kept output.
#[derive(Debug)]
pub struct Spools {
    directories: Vec<PathBuf>,
}

impl Spools {
    /// Those of the instance whose leader had this state directory.
    pub fn of(statedir: &Path) -> Spools {
        let (node, below) = node_of(statedir);
        let mut nodes = vec![node.clone()];
        let named = |path: &Path, name: &str| path.file_name() == Some(OsStr::new(name));
        let root = match node.parent() {
            Some(ranks) if named(ranks, RANKS) => ranks.parent().unwrap_or(&node).to_owned(),
            Some(_) | None => node,
        };
        nodes.push(root.clone());
        let entries = fs::read_dir(root.join(RANKS)).into_iter().flatten();
        nodes.extend(entries.flatten().map(|entry| entry.path()));
        let mut directories: Vec<PathBuf> = nodes
            .into_iter()
            .map(|node| node.join(&below).join(SPOOL))
            .filter(|spool| spool.is_dir())
            .collect();
        directories.sort();
        directories.dedup();
        Spools { directories }
    }

    /// All output of the attempt that is asked for, the latest if none is.
    pub fn output(&self, caller: Caller, request: &OutputRequest) -> Output {
        let mut attempts: BTreeMap<u32, BTreeMap<u32, &Path>> = BTreeMap::new();
        for directory in &self.directories {
            let entries = fs::read_dir(directory).into_iter().flatten();
            for id in entries
                .flatten()
                .filter_map(|entry| spool_of(&entry.file_name()))
            {
                if id.job == request.id.0 {
                    let ranks = attempts.entry(id.attempt).or_default();
                    ranks.insert(id.rank, directory);
                }
            }
        }
        let found = match request.attempt {
            Some(Attempt(attempt)) => attempts.remove_entry(&attempt),
            None => attempts.pop_last(),
        };
        let (attempt, ranks) = found.unwrap_or_default();
        let job = request.id.0;
        let mut spools = VecDeque::new();
        for (index, (rank, directory)) in ranks.into_iter().enumerate() {
            let offset = request.offsets.get(index).copied().unwrap_or(0);
            let id = SpoolId { job, attempt, rank };
            if let Ok(reader) = Reader::open_at(directory, id, offset) {
                spools.push_back((index as u32, reader));
            }
        }
        Output {
            caller,
            attempt: Attempt(attempt),
            left: Left::Of(spools),
        }
    }
}

/// The state directory of the root's rank that this one is within, and the way
/// down from it: `children/5.1/children/2.1`.
fn node_of(statedir: &Path) -> (PathBuf, PathBuf) {
    let mut node = statedir;
    while let Some(children) = node.parent()
        && children.file_name() == Some(OsStr::new(CHILDREN))
        && let Some(outer) = children.parent()
    {
        node = outer;
    }
    let below = statedir.strip_prefix(node).unwrap_or(Path::new(""));
    (node.to_owned(), below.to_owned())
}

/// The spool that a file of this name is.
fn spool_of(name: &OsStr) -> Option<SpoolId> {
    let mut parts = name.to_str()?.split('.');
    let id = SpoolId {
        job: parts.next()?.parse().ok()?,
        attempt: parts.next()?.parse().ok()?,
        rank: parts.next()?.parse().ok()?,
    };
    parts.next().is_none().then_some(id)
}

/// Output on its way to who asked for it.
#[derive(Debug)]
pub struct Output {
    caller: Caller,
    attempt: Attempt,
    left: Left,
}

#[derive(Debug)]
enum Left {
    /// These spools, by their place among the nodes of the attempt.
    Of(VecDeque<(u32, Reader)>),
    /// Its end was told.
    Nothing,
}

impl Iterator for Output {
    type Item = Reply;

    /// The next part; the last answer says that it was all. What is damaged in a
    /// spool ends that spool.
    fn next(&mut self) -> Option<Reply> {
        let Left::Of(spools) = &mut self.left else {
            return None;
        };
        while let Some((node_index, reader)) = spools.front_mut() {
            let mut frames = Vec::new();
            let more = fill(reader, &mut frames);
            let (node_index, next) = (*node_index, reader.offset());
            if more == More::No {
                spools.pop_front();
            }
            if frames.is_empty() {
                continue;
            }
            let body = OutputReply {
                attempt: self.attempt,
                node_index,
                next,
                missing: String::new(),
            };
            return Some(Reply {
                tail: Bytes::from(frames),
                ..Reply::new(self.caller, Type::Part, &body)
            });
        }
        self.left = Left::Nothing;
        let end = OutputReply {
            attempt: Attempt(0),
            node_index: 0,
            next: 0,
            missing: String::new(),
        };
        Some(Reply::new(self.caller, Type::Reply, &end))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Maybe,
    No,
}

fn fill(reader: &mut Reader, frames: &mut Vec<u8>) -> More {
    while frames.len() < MESSAGE_BYTES {
        match reader.next() {
            Ok(Next::Frame(one)) => frame::encode(&one, frames),
            Ok(Next::NotYet) | Err(_) => return More::No,
        }
    }
    More::Maybe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::frame::{Frame, Stream};
    use crate::shell::spool::Writer;
    use eddy_broker::ClientId;
    use eddy_wire::id::JobId;

    fn write(directory: &Path, attempt: u32, rank: u32, text: &str) {
        fs::create_dir_all(directory).expect("a directory");
        let id = SpoolId {
            job: 7,
            attempt,
            rank,
        };
        let frame = Frame {
            time: 1,
            task: rank,
            stream: Stream::Stdout,
            bytes: text.as_bytes(),
        };
        let mut writer = Writer::new(directory, id, 1 << 20);
        writer.write(&frame).expect("written");
    }

    fn texts(spools: &Spools, attempt: Option<Attempt>) -> Vec<String> {
        let caller = Caller {
            client: ClientId(1),
            matchtag: 2,
        };
        let request = OutputRequest {
            id: JobId(7),
            attempt,
            offsets: Vec::new(),
            follow: true,
        };
        let replies: Vec<Reply> = spools.output(caller, &request).collect();
        let last = replies.last().expect("an end");
        assert_eq!((last.kind, last.tail.len()), (Type::Reply, 0));
        let parts = replies.iter().filter(|reply| reply.kind == Type::Part);
        parts
            .map(|part| String::from_utf8_lossy(&part.tail[frame::FRAME_HEAD_BYTES..]).into())
            .collect()
    }

    #[test]
    fn output_of_all_ranks_is_found_beside_the_leader() {
        let root = tempfile::tempdir().expect("a directory");
        let below = "children/5.1/children/2.1";
        let own = root.path().join("ranks/1").join(below);
        write(&own.join("spool"), 1, 0, "first");
        write(&own.join("spool"), 2, 0, "second");
        let other = root.path().join("ranks/2").join(below).join("spool");
        write(&other, 2, 1, "other");
        write(&root.path().join("spool"), 3, 0, "a job of the root");
        let spools = Spools::of(&own);
        assert_eq!(texts(&spools, None), ["second", "other"]);
        assert_eq!(texts(&spools, Some(Attempt(1))), ["first"]);
        assert_eq!(texts(&spools, Some(Attempt(9))), [""; 0]);
    }
}
