//! An instance whose parent is gone, with real processes.

use std::time::{Duration, Instant};

use anyhow::ensure;
use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::running::Running;

type Tested = anyhow::Result<()>;

/// How long until an instance says that it waits for its parent.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn it_begins_nothing_after_its_lease_and_goes_on_when_the_parent_is_back() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let job = instance.ok(&["alloc", "--bg", "-n2", "--conf", "grant.lease=0.2s"])?;
    let uri = instance.ok(&["uri", &job])?;
    let inside = |arguments: &[&str]| {
        let mut command = instance.eddy(arguments);
        command.env("EDDY_URI", &uri);
        Running::start(command)?.wait()?.ok()
    };
    let runs = inside(&["submit", "--wait-event=start", "sleep", "1000"])?;
    leader_of(instance.state())?.kill()?;
    let killed = Instant::now();
    // By then one may still begin: the lease is from the end of the channel on.
    let waits = loop {
        let last = inside(&["submit", "true"])?;
        let why = inside(&["why", &last])?;
        if why.contains("waits for the parent instance, which has been silent for more than 0.2 s")
        {
            break last;
        }
        ensure!(killed.elapsed() < SOON, "it does not wait: {why}");
    };
    let goes_on = inside(&["why", &runs])?;
    ensure!(goes_on.contains("RUN"), "{goes_on}");
    instance.start_again()?;
    inside(&["job", "wait-event", &waits, "clean"])?;
    instance.ok(&["cancel", &job])?;
    instance.event(&job, "clean")?;
    instance.shut_down()
}
