//! What is done to a tree: any of its leaders, agents and shells killed or
//! stopped, alone and several at once. The root's leader is started again by
//! us; all others must come back by themselves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use eddy_cli_tests::instance::Instance;
use rustix::process::Signal;

use super::victim::{Part, Victim, all};
use crate::chaos::dice::Dice;
use crate::chaos::fault::moment;

/// A part's leader is started again three times within this; the next death is its end, and so is
/// a fifth shell in this time made to wait.
const FORGIVEN_AFTER: Duration = Duration::from_secs(65);
/// How often one state directory's process is killed within that time.
const DEATHS_MAX: usize = 3;

/// Whether shells may be killed, which is how a node fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// They may.
    Fail,
    /// They stay.
    Hold,
}

/// What strikes a tree.
#[derive(Debug)]
pub struct Storm {
    nodes: Nodes,
    deaths: BTreeMap<(Part, String), Vec<Instant>>,
    /// What was done, in order.
    pub names: Vec<&'static str>,
    /// State directories whose shells were killed.
    pub shells: Vec<String>,
}

impl Storm {
    /// None so far.
    pub fn new(nodes: Nodes) -> Storm {
        Storm {
            nodes,
            deaths: BTreeMap::new(),
            names: Vec::new(),
            shells: Vec::new(),
        }
    }

    /// One to three processes at once; when it is back the root's leader runs, and nothing is
    /// stopped.
    ///
    /// # Errors
    /// The root's leader does not start again.
    pub fn strike(&mut self, instance: &Instance, dice: &mut Dice) -> anyhow::Result<()> {
        let there = all(instance);
        let mut stopped = Vec::new();
        let mut restart = false;
        for _ in 0..dice.pick(&[1, 1, 1, 2, 3]) {
            let wanted = self.part(dice);
            let fitting: Vec<&Victim> = there.iter().filter(|one| one.part == wanted).collect();
            if fitting.is_empty() {
                continue;
            }
            let victim = fitting[dice.below(fitting.len() as u64) as usize];
            if dice.percent(70) && self.may_die(victim) {
                self.names.push(killed(victim.part));
                victim.process.kill()?;
                restart |= victim.part == Part::Root;
            } else {
                self.names.push(halted(victim.part));
                victim.process.signal(Signal::STOP)?;
                stopped.push(victim.process.clone());
            }
        }
        let patient = dice.percent(50);
        if patient {
            moment(dice, 400);
        }
        let started = match restart {
            true => restart_root(instance, dice),
            false => Ok(()),
        };
        let longest = dice.pick(&[50, 300, 300, 1500]);
        if !stopped.is_empty() {
            moment(dice, longest);
        }
        for process in stopped {
            process.signal(Signal::CONT)?;
        }
        started
    }

    fn part(&self, dice: &mut Dice) -> Part {
        let steady = [
            Part::Root,
            Part::Root,
            Part::Queue,
            Part::Queue,
            Part::Child,
            Part::Child,
            Part::Agent,
            Part::Agent,
        ];
        match self.nodes {
            Nodes::Fail if dice.percent(30) => dice.pick(&[Part::Shell, Part::ChildShell]),
            Nodes::Fail | Nodes::Hold => dice.pick(&steady),
        }
    }

    /// Whether it may be killed without it being the end of its part; counted if so.
    fn may_die(&mut self, victim: &Victim) -> bool {
        if victim.part == Part::Root {
            return true;
        }
        let now = Instant::now();
        let key = (victim.part, victim.state.clone());
        let deaths = self.deaths.entry(key).or_default();
        deaths.retain(|death| now.duration_since(*death) < FORGIVEN_AFTER);
        if deaths.len() >= DEATHS_MAX {
            return false;
        }
        deaths.push(now);
        if matches!(victim.part, Part::Shell | Part::ChildShell) {
            self.shells.push(victim.state.clone());
        }
        true
    }
}

fn restart_root(instance: &Instance, dice: &mut Dice) -> anyhow::Result<()> {
    if dice.percent(20) {
        // The next one dies while it starts.
        let starting = eddy_cli_tests::running::Running::start(instance.starting())?;
        moment(dice, 100);
        for victim in all(instance) {
            if victim.part == Part::Root {
                victim.process.kill()?;
            }
        }
        starting.wait()?;
        if all(instance).iter().any(|one| one.part == Part::Root) {
            return Ok(());
        }
    }
    instance.start_again()
}

fn killed(part: Part) -> &'static str {
    match part {
        Part::Root => "kill root",
        Part::Queue => "kill queue",
        Part::Child => "kill child",
        Part::Agent => "kill agent",
        Part::Shell => "kill shell",
        Part::ChildShell => "kill child's shell",
    }
}

fn halted(part: Part) -> &'static str {
    match part {
        Part::Root => "stop root",
        Part::Queue => "stop queue",
        Part::Child => "stop child",
        Part::Agent => "stop agent",
        Part::Shell => "stop shell",
        Part::ChildShell => "stop child's shell",
    }
}
