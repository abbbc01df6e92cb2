//! The jobs of the demo as they are asked for, and the groups that submit them.
//!
//! Decides; starts and asks nothing.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use eddy_wire::idset::Idset;
use eddy_wire::services::job::SubmitRequest;

use crate::request::nested::{InstanceOptions, Program};
use crate::request::{JobOptions, Stdin, Terms, urgency};

/// Nodes of the root, each with so many cores.
pub const NODES: u32 = 4;
/// See [`NODES`].
pub const CORES: u32 = 4;
/// Tasks of the wide job: nine tenths of all cores.
pub const WIDTH: u32 = NODES * CORES * 9 / 10;
/// The name of each narrow job.
pub const NAME: &str = "demo";
/// The name under which the jobs of the workflow sign.
const DEEP: &str = "deep";
/// And that of the wide job.
const WIDE: &str = "wide";
/// The QoS of both, which `flux` puts before every share.
const FIRST: &str = "expedite";
/// The limit of a job: far more than any needs, for a busy machine must not end one by it, and
/// it must be there, for without an end of what runs nobody can be promised a start.
const LIMIT: &str = "15s";

/// Who submits: an account with shares, and the queue that its jobs go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    pub account: &'static str,
    pub shares: u32,
    pub queue: &'static str,
}

pub const PHYSICS: Group = Group {
    account: "physics",
    shares: 3,
    queue: "batch",
};
pub const CHEMISTRY: Group = Group {
    account: "chemistry",
    shares: 1,
    queue: "debug",
};
pub const GROUPS: [Group; 2] = [PHYSICS, CHEMISTRY];

/// Two queues, each served by an instance of its own; no node is either's. Who waits first in turn
/// is promised a start, and keeps it against all who are due less.
pub fn configuration() -> String {
    let policy = "[policy]\npreset = \"flux\"\n\n";
    let queue = |group: &Group| {
        let name = group.queue;
        format!(
            "[[instance]]\nname = \"{name}\"\nelastic = \"all\"\n\n[[queue]]\nname = \"{name}\"\ninstance = \"{name}\"\n\n"
        )
    };
    policy.to_owned() + &GROUPS.iter().map(queue).collect::<String>()
}

/// What all jobs of a demo have in common.
pub struct Work {
    /// Jobs of each group and of the workflow.
    pub each: u32,
    /// Where they run, as text.
    pub cwd: String,
    /// How long the workflow may take.
    pub patience: Duration,
}

impl Work {
    /// In this directory.
    ///
    /// # Errors
    /// Its path is not UTF-8.
    pub fn new(each: u32, directory: &Path, patience: Duration) -> anyhow::Result<Work> {
        let cwd = directory.to_str();
        let cwd = cwd.context("the temporary directory is not UTF-8")?;
        Ok(Work {
            each,
            cwd: cwd.to_owned(),
            patience,
        })
    }

    fn terms(&self, group: Group, queue: &str) -> Terms {
        Terms {
            job_name: Some(NAME.to_owned()),
            cwd: Some(self.cwd.clone()),
            account: Some(group.account.to_owned()),
            queue: Some(queue.to_owned()),
            time_limit: Some(LIMIT.to_owned()),
            ..Terms::default()
        }
    }

    /// Jobs of one core, on hold. Each copy signs the file of all with its queue and number, in
    /// one write.
    pub fn narrow(&self, group: Group) -> anyhow::Result<SubmitRequest> {
        let options = JobOptions {
            terms: Terms {
                urgency: Some(urgency("hold").map_err(anyhow::Error::msg)?),
                ..self.terms(group, group.queue)
            },
            command: shell(task(group.queue)),
            ..JobOptions::default()
        };
        options.request(Some(Idset::range(1, self.each)), Stdin::Empty)
    }

    /// Nine tenths of all cores at once; its first task signs.
    pub fn wide(&self) -> anyhow::Result<SubmitRequest> {
        let signs = format!("test $EDDY_TASK_RANK -ne 0 || echo {WIDE} 1 >> signed; sleep 0.5");
        let options = JobOptions {
            ntasks: Some(WIDTH),
            terms: Terms {
                job_name: Some(WIDE.to_owned()),
                qos: Some(FIRST.to_owned()),
                ..self.terms(PHYSICS, PHYSICS.queue)
            },
            command: shell(signs),
            ..JobOptions::default()
        };
        options.request(None, Stdin::Empty)
    }

    /// An instance in an instance in an instance, which runs the jobs. It has a node of its own,
    /// by the queue of the other group: accounts and queues have nothing to do with each other.
    pub fn workflow(&self) -> anyhow::Result<SubmitRequest> {
        let eddy = std::env::current_exe().context("cannot find the program of this command")?;
        let eddy = eddy.to_str().context("the program's path is not UTF-8")?;
        let each = format!("--cc=1-{}", self.each);
        let task = task(DEEP);
        let words = [
            eddy,
            "alloc",
            "-n3",
            eddy,
            "alloc",
            "-n2",
            eddy,
            "submit",
            "--quiet",
            "--wait",
            each.as_str(),
            "/bin/sh",
            "-c",
            task.as_str(),
        ];
        let options = InstanceOptions {
            terms: Terms {
                job_name: Some("workflow".to_owned()),
                qos: Some(FIRST.to_owned()),
                nodes: Some("1".parse().context("nodes")?),
                exclusive: true,
                time_limit: Some(format!("{}s", self.patience.as_secs())),
                ..self.terms(PHYSICS, CHEMISTRY.queue)
            },
            ..InstanceOptions::default()
        };
        let program = Program::Command(words.map(str::to_owned).to_vec());
        options.request(&program, Stdin::Empty)
    }
}

fn shell(text: String) -> Vec<String> {
    vec!["/bin/sh".to_owned(), "-c".to_owned(), text]
}

/// A task of a fifth to half a second that signs with this name and its number.
fn task(name: &str) -> String {
    format!("sleep 0.$(( {{cc}} % 4 + 2 )); echo {name} {{cc}} >> signed")
}
