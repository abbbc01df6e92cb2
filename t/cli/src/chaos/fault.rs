//! What is done to an instance: its leader and its shell are killed and
//! stopped, alone and together, and while they start.

use std::time::Duration;

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::running::Running;
use rustix::process::Signal;

use super::dice::Dice;

/// One kind of fault.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The leader is killed and started again, at once or after a while.
    KillLeader,
    /// The shell is killed; the leader starts another.
    KillShell,
    /// Both are killed, in either order.
    KillBoth,
    /// The leader is killed, and the next one while it starts.
    KillTwice,
    /// The leader is stopped for a while.
    StopLeader,
    /// The shell is stopped for a while.
    StopShell,
    /// The shell is stopped, the leader killed, and the next one finds the shell so.
    StopShellKillLeader,
}

const ALL: &[Fault] = &[
    Fault::KillLeader,
    Fault::KillLeader,
    Fault::KillLeader,
    Fault::KillShell,
    Fault::KillBoth,
    Fault::KillTwice,
    Fault::StopLeader,
    Fault::StopShell,
    Fault::StopShellKillLeader,
];

impl Fault {
    /// A random one.
    pub fn any(dice: &mut Dice) -> Fault {
        dice.pick(ALL)
    }

    /// Its name, for the line of the round.
    pub fn name(self) -> &'static str {
        match self {
            Fault::KillLeader => "kill leader",
            Fault::KillShell => "kill shell",
            Fault::KillBoth => "kill both",
            Fault::KillTwice => "kill leader twice",
            Fault::StopLeader => "stop leader",
            Fault::StopShell => "stop shell",
            Fault::StopShellKillLeader => "stop shell, kill leader",
        }
    }

    /// Does it; the instance runs again afterwards.
    ///
    /// # Errors
    /// It does not start again.
    pub fn strike(self, instance: &Instance, dice: &mut Dice) -> anyhow::Result<()> {
        match self {
            Fault::KillLeader => instance.kill_leader()?,
            Fault::KillShell => return kill_shell(instance),
            Fault::KillBoth => {
                if dice.percent(50) {
                    kill_shell(instance)?;
                    instance.kill_leader()?;
                } else {
                    instance.kill_leader()?;
                    kill_shell(instance)?;
                }
            }
            Fault::KillTwice => {
                instance.kill_leader()?;
                let starting = Running::start(instance.starting())?;
                moment(dice, 60);
                // It may not be there yet, or be there for good.
                if let Ok(leader) = instance.leader() {
                    leader.kill()?;
                }
                starting.wait()?;
                if instance.leader().is_ok() {
                    return Ok(());
                }
            }
            Fault::StopLeader => return stop(instance, "broker", dice),
            Fault::StopShell => return stop(instance, "shell", dice),
            Fault::StopShellKillLeader => {
                let shell = instance.shell().ok();
                if let Some(shell) = &shell {
                    shell.signal(Signal::STOP)?;
                }
                instance.kill_leader()?;
                let started = instance.start_again();
                moment(dice, 200);
                if let Some(shell) = &shell {
                    shell.signal(Signal::CONT)?;
                }
                return started;
            }
        }
        if dice.percent(50) {
            moment(dice, 300);
        }
        instance.start_again()
    }
}

/// There may be none: the last one was killed a moment ago.
fn kill_shell(instance: &Instance) -> anyhow::Result<()> {
    match instance.shell() {
        Ok(shell) => shell.kill(),
        Err(_) => Ok(()),
    }
}

fn stop(instance: &Instance, verb: &str, dice: &mut Dice) -> anyhow::Result<()> {
    let Ok(process) = instance.place.only(verb) else {
        return Ok(());
    };
    process.signal(Signal::STOP)?;
    moment(dice, 300);
    process.signal(Signal::CONT)
}

/// Lets a random time pass, up to so many milliseconds. When a fault strikes is what chaos tries
/// out; nothing relies on anything having happened by then.
pub fn moment(dice: &mut Dice, millis_max: u64) {
    std::thread::sleep(Duration::from_micros(dice.below(millis_max * 1000)));
}
