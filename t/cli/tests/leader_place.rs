//! Where the leader of a queue instance is: on a node of its own, or beside its parent's. With real processes.

use std::fs;
use std::time::Duration;

use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::place::Place;
use eddy_cli_tests::running::Running;

type Tested = anyhow::Result<()>;

/// How long a submission takes at most that is taken at once.
const AT_ONCE: Duration = Duration::from_secs(15);

/// A queue instance on nodes of its own whose leader is there.
fn start(leader: &str) -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let config = place.join("declared.toml");
    let text = format!(
        "[[instance]]\nname = \"batch\"\nranks = \"1-2\"\nleader = \"{leader}\"\n\
         set = {{ \"grant.autonomous_after\" = \"1s\" }}\n\
         [[queue]]\nname = \"batch\"\ninstance = \"batch\"\n"
    );
    fs::write(&config, text)?;
    let state = place.path().join("state");
    let options = ["--size=3", "--cores=1", "--config", &config];
    let root = Instance::start_in(place, state, &options)?;
    root.ok(&["run", "-q", "batch", "-N2", "true"])?;
    Ok(root)
}

/// The number of the job that the instance is.
fn job(root: &Instance) -> anyhow::Result<String> {
    root.ok(&["jobs", "--no-header", "-o", "{id}", "--name=batch"])
}

#[test]
fn a_leader_beside_the_roots_goes_on_when_its_first_node_is_lost() -> Tested {
    let root = start("parent")?;
    let batch = job(&root)?;
    let tree = root.json(&["tree", "--json"])?;
    let nodes = &tree["children"][0]["nodes"];
    assert_eq!(nodes, 2, "the root's node is not its own: {tree}");
    let leads = leader_of(&root.state_of("batch")?)?;
    root.shell_on(1)?.kill()?;
    // Another shell serves there soon, and so the instance has its ground again. The job may begin before the
    // loss is heard.
    root.ok(&["run", "-q", "batch", "--requeue", "-N2", "true"])?;
    assert_eq!(job(&root)?, batch);
    assert_eq!(root.row(&batch)?["attempt"], 1);
    assert_eq!(leader_of(&root.state_of("batch")?)?.pid, leads.pid);
    root.shut_down()
}

#[test]
fn a_leader_on_a_node_of_its_own_begins_anew_when_that_is_lost() -> Tested {
    let root = start("node")?;
    let batch = job(&root)?;
    root.shell_on(1)?.kill()?;
    root.event(&batch, "clean")?;
    root.ok(&["run", "-q", "batch", "-N2", "true"])?;
    assert_ne!(job(&root)?, batch);
    root.shut_down()
}

#[test]
fn a_leader_beside_the_roots_that_dies_is_begun_again_and_works_on_without_the_root() -> Tested {
    let root = start("parent")?;
    let batch = job(&root)?;
    let runs = root.submit_started(&["-q", "batch", "-N1", "sleep", "1000"])?;
    leader_of(&root.state_of("batch")?)?.kill()?;
    root.ok(&["run", "-q", "batch", "-N1", "true"])?;
    assert_eq!(
        (root.row(&batch)?["attempt"].clone(), job(&root)?),
        (1.into(), batch)
    );
    let uri = root.ok(&["uri", "batch"])?;
    leader_of(root.state())?.kill()?;
    // What was on its way to the root waits for it; what comes later is taken and begins.
    let inside = |arguments: &[&str]| -> anyhow::Result<Running> {
        let mut command = root.eddy(arguments);
        command.env("EDDY_URI", &uri);
        Running::start(command)
    };
    let ran = root.place.join("ran");
    let line = format!("echo ran >>{ran}");
    let sent = inside(&["submit", "sh", "-c", &line])?;
    while !sent.ends_within(AT_ONCE) {
        let more = inside(&["submit", "sh", "-c", &line])?;
        if more.ends_within(AT_ONCE) {
            let job = more.wait()?.ok()?;
            inside(&["job", "wait-event", &job, "clean"])?
                .wait()?
                .ok()?;
            break;
        }
    }
    root.start_again()?;
    root.code(&sent.wait()?.ok()?)?;
    root.event(&runs, "start")?;
    root.ok(&["cancel", &runs])?;
    root.shut_down()
}
