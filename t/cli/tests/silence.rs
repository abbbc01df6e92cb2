//! An instance whose parent is gone, with real processes.

use std::time::{Duration, Instant};

use anyhow::ensure;
use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::running::Running;

type Tested = anyhow::Result<()>;

/// How long until an instance says that it waits for its parent.
const SOON: Duration = Duration::from_secs(20);

/// An instance within another.
struct Inside<'i> {
    parent: &'i Instance,
    job: String,
    uri: String,
}

impl Inside<'_> {
    /// With a lease of 0.4 s, on what these options ask for.
    fn of<'i>(parent: &'i Instance, options: &[&str]) -> anyhow::Result<Inside<'i>> {
        let alloc = ["alloc", "--bg", "--conf", "grant.lease=0.4s"];
        let job = parent.ok(&[&alloc[..], options].concat())?;
        let uri = parent.ok(&["uri", &job])?;
        Ok(Inside { parent, job, uri })
    }

    fn ok(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = self.parent.eddy(arguments);
        command.env("EDDY_URI", &self.uri);
        Running::start(command)?.wait()?.ok()
    }

    /// The first job that waits for the parent. Those before it may begin: the lease is from the
    /// moment on when the channel is found broken.
    fn waits(&self) -> anyhow::Result<String> {
        let begun = Instant::now();
        loop {
            let last = self.ok(&["submit", "true"])?;
            let why = self.ok(&["why", &last])?;
            if why.contains("the parent instance, which has been silent for more than 0.4 s") {
                return Ok(last);
            }
            ensure!(begun.elapsed() < SOON, "it does not wait: {why}");
        }
    }

    /// Its parent is back: that job begins, and the instance ends in order.
    fn goes_on(&self, waits: &str) -> Tested {
        self.parent.start_again()?;
        self.ok(&["job", "wait-event", waits, "clean"])?;
        self.parent.ok(&["cancel", &self.job])?;
        self.parent.event(&self.job, "clean")?;
        self.parent.shut_down()
    }
}

#[test]
fn it_begins_nothing_after_its_lease_and_goes_on_when_the_parent_is_back() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let inside = Inside::of(&instance, &["-n2"])?;
    let runs = inside.ok(&["submit", "--wait-event=start", "sleep", "1000"])?;
    leader_of(instance.state())?.kill()?;
    let waits = inside.waits()?;
    let goes_on = inside.ok(&["why", &runs])?;
    ensure!(goes_on.contains("RUN"), "{goes_on}");
    inside.goes_on(&waits)
}

#[test]
fn so_it_does_on_another_node_and_after_its_own_leader_died() -> Tested {
    let instance = Instance::start(&["--size=2", "--cores=1"])?;
    let inside = Inside::of(&instance, &["-N1", "--requires", "rank:1"])?;
    leader_of(instance.state())?.kill()?;
    inside.waits()?;
    leader_of(&instance.state().join("ranks/1/children/1.1"))?.kill()?;
    let waits = inside.waits()?;
    inside.goes_on(&waits)
}
