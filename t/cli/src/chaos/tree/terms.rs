//! On what terms the jobs of a tree run: accounts of two levels with shares and limits, and QoS of
//! which one takes from others.
//!
//! `tree` sets them up, `people` name them, `charges` holds the journal against them.

use eddy_cli_tests::instance::Instance;

use crate::chaos::dice::Dice;

/// The account above the others: its limit counts for both.
pub const ABOVE: &str = "science";
/// The one in which few jobs may run, and which is charged where a job names none.
pub const FEW: &str = "physics";
/// The other one.
pub const OTHER: &str = "chemistry";

/// QoS; jobs of the first take from those of the others. Instances of the last give nodes, if those
/// are enough, and go on.
const QOS: &str = "\
    [[qos]]\nname = \"high\"\npriority = 1\npreempts = [\"low\", \"lent\"]\n\
    [[qos]]\nname = \"low\"\ngrace = \"0.5s\"\nmode = \"requeue\"\n\
    [[qos]]\nname = \"lent\"\ngrace = \"0.5s\"\nmode = \"requeue\"\nshrink = true\n";

/// No job has more cores.
const LARGEST: u64 = 4;

/// What is limited in a round, and by which policy jobs are ordered.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    preset: &'static str,
    /// How many cores jobs of [`ABOVE`] may hold.
    pub cores_max: u64,
    /// How many jobs of [`FEW`] may hold something.
    pub running_max: u64,
}

/// Whether what is submitted is a workflow that has to come to its end, whatever nodes it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is, or a job of tasks.
    Works,
    /// It is an instance whose jobs may end with a node.
    Lends,
}

impl Terms {
    /// Random ones for a machine of so many cores, that no job is over alone and in which there is mostly
    /// enough for the machine to be full.
    pub fn any(dice: &mut Dice, cores: u64) -> Terms {
        let less = dice.pick(&[0, 1, 1, 4]);
        Terms {
            preset: dice.pick(&["fcfs", "easy", "flux"]),
            cores_max: (cores - less.min(cores)).max(LARGEST),
            running_max: dice.pick(&[2, 3, 5]),
        }
    }

    /// What the configuration of the root has of them.
    pub fn configuration(self) -> String {
        format!("[policy]\npreset = \"{}\"\n{QOS}", self.preset)
    }

    /// Makes the accounts, and everybody a member of both.
    ///
    /// # Errors
    /// The instance refuses.
    pub fn establish(self, instance: &Instance, users: &[String]) -> anyhow::Result<()> {
        let (cores, running) = (self.cores_max.to_string(), self.running_max.to_string());
        let under = ["--under", ABOVE];
        let add = |words: &[&str]| instance.ok(&[&["account", "add"], words].concat());
        add(&[ABOVE, "--max-cores", &cores])?;
        add(&[
            &[FEW, "--shares=3", "--max-running-jobs", &running],
            &under[..],
        ]
        .concat())?;
        add(&[&[OTHER, "--shares=1"], &under[..]].concat())?;
        for user in users {
            let member = ["account", "add-user", user, "-A"];
            instance.ok(&[&member[..], &[FEW, "--default"]].concat())?;
            instance.ok(&[&member[..], &[OTHER]].concat())?;
        }
        Ok(())
    }
}

/// What a submission names of it.
pub fn words(dice: &mut Dice, kind: Kind) -> Vec<String> {
    let account = dice.pick(&[None, Some(FEW), Some(OTHER), Some(OTHER)]);
    let qos = match kind {
        Kind::Works => dice.pick(&[None, Some("high"), Some("low"), Some("low")]),
        Kind::Lends => dice.pick(&[None, Some("low"), Some("lent"), Some("lent")]),
    };
    let account = account.map(|name| format!("--account={name}"));
    let qos = qos.map(|name| format!("--qos={name}"));
    account.into_iter().chain(qos).collect()
}
