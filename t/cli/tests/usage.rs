//! `eddy usage` where an instance does not answer.

use eddy_cli_tests::instance::{Instance, leader_of};
use rustix::process::Signal;

type Tested = anyhow::Result<()>;

#[test]
fn an_instance_that_hangs_is_named_and_the_others_are_shown() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let mut inside = Vec::new();
    for _ in 0..3 {
        let job = instance.ok(&["alloc", "--bg", "-n1"])?;
        inside.push(job.trim_end().to_owned());
    }
    let mut hung = Vec::new();
    for job in 1..=2 {
        let leader = leader_of(&instance.state_of(&format!("{job}.1"))?)?;
        leader.signal(Signal::STOP)?;
        hung.push(leader);
    }
    // Less than it takes to give up one of them after the other, or to wait for a leader that restarts.
    let ran = instance.run(&["--reconnect=4m", "usage", "--instances"])?;
    let one = instance.run(&["--reconnect=4m", "usage", &inside[0]])?;
    hung.iter()
        .try_for_each(|leader| leader.signal(Signal::CONT))?;
    // That a leader is waited for is said, too.
    let named = |err: &str| -> Vec<String> {
        let lines = err.lines().filter(|line| line.starts_with("eddy usage:"));
        lines.map(str::to_owned).collect()
    };
    let line = |job: &str| {
        format!("eddy usage: what was used in alloc (job {job}) is not shown: no answer within 5 s")
    };
    assert_eq!(named(&ran.err), [line(&inside[0]), line(&inside[1])]);
    assert_eq!(ran.code, 1);
    let used = |job: &str| {
        let row = ran
            .out
            .lines()
            .find(|row| row.trim_start().starts_with(job));
        row.and_then(|row| row.split_whitespace().nth(7).map(str::to_owned))
    };
    assert_eq!(used(&inside[0]).as_deref(), Some("-"), "{}", ran.out);
    assert_eq!(used(&inside[2]).as_deref(), Some("0.0"), "{}", ran.out);
    assert_eq!((one.code, named(&one.err)), (1, vec![line(&inside[0])]));
    instance.shut_down()
}
