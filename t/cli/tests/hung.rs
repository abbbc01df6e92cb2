//! Leaders of instances that hang, with real processes: they are begun anew, and what they owe their jobs is
//! done.

use std::fs;

use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::place::Place;
use eddy_cli_tests::process::Process;
use eddy_cli_tests::running::LIMIT;
use rustix::process::Signal;

type Tested = anyhow::Result<()>;

/// A queue instance of one node that beats each second.
const DECLARED: &str = "[exec]\nhung_after = \"1s\"\n\
                        [[instance]]\nname = \"a\"\nnodes = 1\nset = { \"grant.lease\" = \"4s\" }\n\
                        [[queue]]\nname = \"a\"\ninstance = \"a\"\n";

fn declared(options: &[&str]) -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let config = place.join("hung.toml");
    fs::write(&config, DECLARED)?;
    let state = place.path().join("state");
    Instance::start_in(place, state, &[options, &["--config", &config]].concat())
}

/// The process that leads the queue instance now.
fn leader(instance: &Instance) -> anyhow::Result<Process> {
    leader_of(&instance.state_of("a")?)
}

#[test]
fn a_leader_that_hangs_is_begun_anew_and_keeps_the_limits_of_its_jobs() -> Tested {
    let instance = declared(&["--cores=2"])?;
    let limited = ["-q", "a", "-n2", "-t", "2s", "sleep", "1000"];
    let limited = instance.submit_started(&limited)?;
    let hung = leader(&instance)?;
    hung.signal(Signal::STOP)?;
    let waits = instance.submit(&["-q", "a", "-n2", "echo", "after"])?;
    assert_eq!(instance.ok(&["job", "attach", &waits])?, "after\nafter");
    instance.ok(&["job", "wait-event", "--quiet", &limited, "clean"])?;
    assert_eq!(instance.row(&limited)?["result"], "TIMEOUT");
    assert!(hung.ends_within(LIMIT));
    let log = instance.ok(&["job", "eventlog", "1"])?;
    let told = "its leader hung, silent for 1 s, and was started again";
    assert!(log.contains("type=\"hung\"") && log.contains(told), "{log}");
    instance.shut_down()
}

#[test]
fn what_runs_in_an_instance_outlives_the_hang_of_its_leader() -> Tested {
    let instance = declared(&["--size=2", "--cores=2"])?;
    let (mut tells, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let script = "echo $$ >told; read line <gate; echo ended";
    let runs = instance.submit(&["-q", "a", "sh", "-c", script])?;
    tells.line()?;
    let hung = leader(&instance)?;
    hung.signal(Signal::STOP)?;
    // Whoever leads the root meanwhile has heard of it before, or not.
    leader_of(instance.state())?.kill()?;
    instance.start_again()?;
    assert!(hung.ends_within(LIMIT));
    gate.let_go(1)?;
    assert_eq!(instance.ok(&["job", "attach", &runs])?, "ended");
    assert_eq!(instance.ok(&["run", "-q", "a", "echo", "next"])?, "next");
    instance.shut_down()
}
