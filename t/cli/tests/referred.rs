//! Calls of who works in a queue instance about jobs that only its parent knows, with real processes.

use std::fs;

use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::place::Place;
use eddy_cli_tests::program;
use rustix::process::Signal;

type Tested = anyhow::Result<()>;

/// A queue instance of a node.
const DECLARED: &str = r#"
[[instance]]
name = "batch"
nodes = 1

[[queue]]
name = "batch"
instance = "batch"
"#;

/// Two nodes of two cores, one of which belongs to the queue instance.
fn declared() -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let config = place.join("declared.toml");
    fs::write(&config, DECLARED)?;
    let state = place.path().join("state");
    let options = ["--size=2", "--cores=2", "--config", &config];
    Instance::start_in(place, state, &options)
}

#[test]
fn who_works_in_a_queue_instance_follows_jobs_that_wait_at_the_root() -> Tested {
    let instance = declared()?;
    let at = |words: &[&str]| instance.run(&[&["--at", "batch"], words].concat());
    let said = |words: &[&str]| Ok::<_, anyhow::Error>(at(words)?.ok()?.trim_end().to_owned());
    let long = instance.submit_started(&["-q", "batch", "-n2", "sleep", "1000"])?;
    let [waits, goes] = [(); 2].map(|()| said(&["submit", "-q", "batch", "-n2", "echo", "hi"]));
    let (waits, goes) = (waits?, goes?);
    let why = said(&["why", &waits])?;
    assert!(why.contains("waits for 2 cores"), "{why}");
    let listed = said(&[
        "jobs",
        "--no-header",
        "-o",
        "{status_abbrev}",
        &waits,
        &goes,
    ])?;
    assert_eq!(listed, "S\nS");
    said(&["hold", &goes])?;
    let held = instance.ok(&["jobs", "--no-header", "-o", "{reason}", &goes])?;
    assert!(held.contains("is held"), "{held}");
    said(&["release", &goes])?;
    // One call is under way as the job goes from the root to the instance.
    let waiting = instance.begin(&["--at", "batch", "wait", &goes])?;
    let attached = instance.begin(&["--at", "batch", "job", "attach", &goes])?;
    said(&["cancel", &waits])?;
    let ended = at(&["wait", &waits])?;
    assert_eq!(ended.refusal()?, format!("eddy wait: job {waits}: cancel"));
    said(&["cancel", &long])?;
    waiting.wait()?.ok()?;
    assert_eq!(attached.wait()?.ok()?, "hi\nhi\n");
    // A task sees the instance that it is in.
    let inner = "id=$($0 submit -q batch -n2 true) && $0 why $id > /dev/null && $0 cancel $id";
    let eddy = program::eddy()?.display().to_string();
    said(&["run", "-q", "batch", "sh", "-c", inner, &eddy])?;
    let unknown = at(&["why", "f9999"])?;
    assert!(
        unknown.refusal()?.contains("no such job"),
        "{}",
        unknown.err
    );
    instance.shut_down()
}

#[test]
fn the_end_of_a_job_is_waited_for_in_an_instance_that_is_in_a_queue() -> Tested {
    let instance = declared()?;
    let mut gate = instance.place.fifo("gate")?;
    let outer = instance.ok(&["alloc", "-q", "batch", "-n2", "--bg"])?;
    let outer = outer.trim_end();
    let gated = ["submit", "-n1", "sh", "-c", "read line <gate; exit 0"];
    let inner = instance.run(&[&["--at", outer], &gated[..]].concat())?;
    let inner = format!("{outer}/{}", inner.ok()?.trim_end());
    let waits = |scheme: &str, of: &str| {
        let dependency = format!("--dependency={scheme}:{of}");
        instance.submit(&[&dependency, "true"])
    };
    let [any, well] = ["afterany", "afterok"].map(|scheme| waits(scheme, &inner));
    let (any, well) = (any?, well?);
    // A job that is not there is told by then: so the others were asked for, too.
    let unknown = waits("afterok", &format!("{outer}/999"))?;
    assert_eq!(instance.code(&unknown)?, 1);
    for job in [&any, &well] {
        assert_eq!(instance.row(job)?["state"], "DEPEND");
    }
    // Both leaders that were asked are others when it ends.
    leader_of(instance.state())?.kill()?;
    leader_of(&instance.state_of("batch")?)?.kill()?;
    instance.start_again()?;
    // Who asks through the second waits until it is back, and not for ever for one that is stopped.
    instance.ok(&["jobs", &inner])?;
    let asked = leader_of(&instance.state_of("batch")?)?;
    asked.signal(Signal::STOP)?;
    let silent = instance.run(&["--reconnect=1s", "jobs", &inner])?;
    asked.signal(Signal::CONT)?;
    assert_eq!(silent.code, 1);
    assert!(silent.err.contains("no answer for 1."), "{}", silent.err);
    gate.let_go(1)?;
    assert_eq!(instance.code(&any)?, 0);
    assert_eq!(instance.code(&well)?, 0);
    instance.ok(&["cancel", outer])?;
    instance.shut_down()
}

#[test]
fn who_works_in_a_queue_instance_waits_for_a_root_that_is_away() -> Tested {
    let instance = declared()?;
    let uri = instance.ok(&["uri", "batch"])?;
    let long = instance.submit_started(&["-q", "batch", "-n2", "sleep", "1000"])?;
    let waits = instance.submit(&["-q", "batch", "-n2", "echo", "hi"])?;
    let at = |words: &[&str]| instance.begin(&[&["--at", uri.trim_end()], words].concat());
    let waiting = at(&["wait", &waits])?;
    let attached = at(&["job", "attach", &waits])?;
    // They are under way once the root has heard of a later one.
    at(&["why", &waits])?.wait()?.ok()?;
    leader_of(instance.state())?.kill()?;
    // Nobody knows now: not that there is no such job.
    let asked = instance.run(&["--at", uri.trim_end(), "--reconnect=0s", "why", &waits])?;
    assert!(
        asked
            .refusal()?
            .contains("the parent instance is not reached"),
        "{}",
        asked.err
    );
    let own = at(&["--reconnect=0s", "exec", "echo", "here"])?.wait()?;
    assert_eq!(own.ok()?, "here\n", "what is its own needs no parent");
    let over = ["jobs", "-a", "--no-header", "-o", "{id}", "--name=exec"];
    let over = at(&over)?.wait()?.ok()?;
    let over = ["--reconnect=0s", "job", "attach", over.trim_end()];
    assert_eq!(at(&over)?.wait()?.ok()?, "here\n", "nor when it is over");
    let state = instance.state().to_string_lossy().into_owned();
    let again = ["start", "--background", "--statedir", &state];
    instance.place.run(&again)?.ok()?;
    instance.ok(&["cancel", &long])?;
    waiting.wait()?.ok()?;
    assert_eq!(attached.wait()?.ok()?, "hi\nhi\n");
    instance.shut_down()
}
