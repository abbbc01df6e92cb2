//! What a broker and the shell on a node say to each other.
//!
//! The shell parents the tasks of one broker and user on a node and outlives
//! the broker. Both sides treat every message as repeatable: a start names the
//! shell's epoch and the leader's, an end is repeated until it is forgotten,
//! and on each connect the shell lists what it holds (doc/protocol/shell.md).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::hash::Hash;
use crate::id::{Attempt, Epoch, JobId, Rank};
use crate::idset::Idset;
use crate::input::{Portion, Taken};
use crate::time::{Span, Time};

/// One rank's part of one attempt of a job: what starts and ends as a whole on
/// a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Part {
    /// The job.
    pub job: JobId,
    /// Which run of it.
    pub attempt: Attempt,
    /// On which rank.
    pub rank: Rank,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.job, self.attempt, self.rank)
    }
}

/// What a part is to its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Its tasks run; when they have ended the part is over.
    #[default]
    Tasks,
    /// Its one task leads an instance: when a signal that was not asked for ends
    /// it, it is started again, at most [`RESTARTS_MAX`] times in [`RESTART_WINDOW`].
    /// Its exit code is that of what the instance was for, whatever it is: a
    /// leader that cannot go on ends itself by a signal.
    Leader,
    /// It has no task of its own: what an instance starts on this node, by the
    /// rank hosted there, is within it. It is over when it is killed, and
    /// everything in it with it; other signals do not reach it.
    Ground,
}

impl Role {
    fn is_tasks(&self) -> bool {
        *self == Role::Tasks
    }
}

/// The words that shells know by now. One of version 0 does not say what became of input.
pub const VERSION: u32 = 1;
/// How often a leader that died is started again.
pub const RESTARTS_MAX: usize = 3;
/// Within how long.
pub const RESTART_WINDOW: Span = Span::seconds(60);

/// What a shell needs to start the tasks of one part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The part.
    pub part: Part,
    /// The life of the shell this start is for; another life answers `NotMine`.
    pub shell: Epoch,
    /// What this part is to the job.
    #[serde(default, skip_serializing_if = "Role::is_tasks")]
    pub role: Role,
    /// User id the tasks run as.
    pub user: u32,
    /// Jobspec, by hash; its text was sent in this message or an earlier one.
    pub jobspec: Hash,
    /// Environment, likewise.
    pub environment: Hash,
    /// The value of `{cc}` in command and environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc: Option<u32>,
    /// The first job of its array, if it is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<JobId>,
    /// The instance that the tasks know (`EDDY_URI`), where it is not the shell's own: the parent,
    /// of a job that was passed down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<Arc<str>>,
    /// First task rank on this part and how many tasks it has.
    pub first_task: u32,
    /// Number of tasks on this part.
    pub ntasks: u32,
    /// Tasks of the whole job.
    pub job_ntasks: u32,
    /// Place of this rank among the job's ranks, from 0.
    pub node_index: u32,
    /// Ranks of the whole job.
    pub job_nnodes: u32,
    /// Host name of this rank.
    pub host: String,
    /// The job's hosts, RFC 29.
    pub nodelist: String,
    /// Cores of this part.
    pub cores: Idset,
    /// GPUs of this part.
    pub gpus: Idset,
    /// Bytes of memory granted here; 0 when none were asked for.
    pub memory: u64,
}

/// On what occasion a signal is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Occasion {
    /// Somebody asked for it, or it is due: it is sent whenever it comes.
    #[default]
    Asked,
    /// The attempt ends. Whoever leads may not know whether the leader before said it: another of it but KILL is none.
    End,
}

impl Occasion {
    fn is_asked(&self) -> bool {
        *self == Occasion::Asked
    }
}

impl ToShell {
    /// A signal to everything of a part, whenever it comes.
    pub fn signal(part: Part, signal: i32) -> ToShell {
        ToShell::Signal {
            part,
            signal,
            occasion: Occasion::Asked,
        }
    }
}

/// From a broker to a shell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToShell {
    /// First word on a connection: who leads now. Older leaders are refused from then on.
    Welcome {
        /// The leader's epoch.
        leader: Epoch,
    },
    /// The text of a jobspec or environment that starts will name.
    Payload {
        /// Its hash.
        hash: Hash,
        /// Its text.
        text: Arc<str>,
    },
    /// Start these tasks, once.
    Start(Box<Start>),
    /// Send a signal to every process of the part.
    Signal {
        /// The part.
        part: Part,
        /// Signal number.
        signal: i32,
        /// On what occasion.
        #[serde(default, skip_serializing_if = "Occasion::is_asked")]
        occasion: Occasion,
    },
    /// Stop every process of the part, and say when nothing of it runs; said again it is answered again.
    Pause {
        /// The part.
        part: Part,
        /// For which time it is to stop, counted in the attempt from 1.
        stop: u32,
    },
    /// Let them go on, on these cores.
    Proceed {
        /// The part.
        part: Part,
        /// The cores its tasks are bound to from now on; empty is no change.
        cores: Idset,
    },
    /// Its leader hangs: have it started again as one that died, by ending its process and nothing else of the part.
    Restart {
        /// The part.
        part: Part,
        /// For how long nothing was heard of it: whoever has run for less is another life of it, which goes on.
        silent: Span,
    },
    /// The end of the part is recorded: its memory may go.
    Forget {
        /// The part.
        part: Part,
    },
    /// Bytes for standard input (the tail of the message), or its end.
    Input {
        /// The part.
        part: Part,
        /// The bytes, and where they stand.
        #[serde(flatten)]
        portion: Portion,
    },
    /// Send output of the part from this offset of its spool.
    Read {
        /// The part.
        part: Part,
        /// Names the read in its answers.
        read: u64,
        /// Byte offset in the spool file.
        offset: u64,
        /// Go on with what is written later, until the part has ended.
        follow: bool,
    },
    /// Stop sending for this read.
    StopRead {
        /// The read.
        read: u64,
    },
    /// End in order: nothing runs any more.
    Exit,
}

/// From a shell to a broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromShell {
    /// First word on a connection: who this is and what it holds.
    Hello {
        /// The instance it serves.
        instance: String,
        /// Its epoch, given by the broker that started it.
        epoch: Epoch,
        /// Its process id, for people.
        pid: u32,
        /// Which words it knows, [`VERSION`] of the program that it is.
        #[serde(default)]
        version: u32,
        /// Every part it holds.
        parts: Vec<(Part, PartState)>,
    },
    /// All tasks of the part run.
    Started {
        /// The part.
        part: Part,
        /// When the last of them had been started, in the shell's time.
        t: Time,
    },
    /// Every process of the part is stopped, since it was to be.
    Paused {
        /// The part.
        part: Part,
        /// For which time it was to.
        stop: u32,
    },
    /// The leader that the part is was ended since it hangs, and is started again.
    Restarted {
        /// The part.
        part: Part,
        /// For how long nothing was heard of it, as that was said.
        silent: Span,
    },
    /// All tasks of the part have ended and nothing of it runs.
    Ended {
        /// The part.
        part: Part,
        /// How.
        ended: Ended,
    },
    /// The part cannot be this shell's: another epoch, an older leader, or no memory of it.
    NotMine {
        /// The part.
        part: Part,
        /// Why, in words.
        why: String,
    },
    /// What became of a portion of input; said once the tasks have room for more.
    Took {
        /// The part.
        part: Part,
        /// Which portion.
        portion: u64,
        /// Up to where all bytes of its sender were taken.
        next: u64,
        /// What became of it.
        taken: Taken,
    },
    /// Output of a read: frames of the spool file from `offset` on.
    Output {
        /// The read.
        read: u64,
        /// Where the next read would go on.
        next: u64,
        /// Frames as they stand in the spool (doc/protocol/spool.md): the tail of
        /// the message, not its body.
        #[serde(skip)]
        frames: Vec<u8>,
        /// Whether nothing will follow.
        end: bool,
    },
}

/// What a shell knows of a part it holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartState {
    /// Its tasks are being started.
    Starting,
    /// They run.
    Running {
        /// Since when.
        t: Time,
    },
    /// They have ended; kept until forgotten.
    Ended(Ended),
}

/// How a part ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// When.
    pub t: Time,
    /// The largest wait status of its tasks.
    pub status: i32,
    /// What prevented the start or was noticed at the end, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Wait status by task rank, where they are not all alike.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<u32, i32>,
}
