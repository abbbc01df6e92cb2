//! A queue instance that works on while its root is gone, with real processes.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::place::Place;
use eddy_cli_tests::running::Running;
use rustix::process::Signal;
use serde_json::Value;

type Tested = anyhow::Result<()>;

/// A queue instance on a node of its own, which begins work after a second without the root.
const DECLARED: &str = r#"
[[instance]]
name = "batch"
nodes = 1
set = { "grant.autonomous_after" = "1s" }

[[queue]]
name = "batch"
instance = "batch"
"#;

/// How long anything may take.
const SOON: Duration = Duration::from_secs(60);
/// How long a submission takes at most that is taken at once.
const AT_ONCE: Duration = Duration::from_secs(15);

struct Site {
    root: Instance,
    uri: String,
}

impl Site {
    /// The instance serves, and has numbers.
    fn start() -> anyhow::Result<Site> {
        let place = Place::new()?;
        let config = place.join("declared.toml");
        fs::write(&config, DECLARED)?;
        let state = place.path().join("state");
        let options = ["--size=2", "--cores=2", "--config", &config];
        let root = Instance::start_in(place, state, &options)?;
        root.ok(&["run", "-q", "batch", "true"])?;
        let uri = root.ok(&["uri", "batch"])?;
        Ok(Site { root, uri })
    }

    fn state(&self) -> anyhow::Result<PathBuf> {
        self.root.state_of("batch")
    }

    /// In the queue instance.
    fn begin(&self, arguments: &[&str]) -> anyhow::Result<Running> {
        let mut command = self.root.eddy(arguments);
        command.env("EDDY_URI", &self.uri);
        Running::start(command)
    }

    fn ok(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.begin(arguments)?.wait()?.ok()
    }

    /// Submits until one is taken without the root: those that were on their way to it wait for it.
    fn taken(&self, command: &[&str]) -> anyhow::Result<(String, Vec<Running>)> {
        let (begun, mut waiting) = (Instant::now(), Vec::new());
        while begun.elapsed() < SOON {
            let submits = self.begin(&[&["submit"], command].concat())?;
            if submits.ends_within(AT_ONCE) {
                return Ok((submits.wait()?.ok()?, waiting));
            }
            waiting.push(submits);
        }
        anyhow::bail!("nothing is taken without the root")
    }

    /// Waits until the instance says this of why a job waits.
    fn waits(&self, job: &str, text: &str) -> Tested {
        let begun = Instant::now();
        loop {
            let why = self.ok(&["why", job])?;
            if why.contains(text) {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < SOON,
                "job {job} does not wait for `{text}`: {why}"
            );
        }
    }

    fn ran(&self) -> anyhow::Result<Vec<String>> {
        let ran = fs::read_to_string(self.root.place.path().join("ran"))?;
        Ok(ran.lines().map(str::to_owned).collect())
    }
}

fn time(row: &Value, field: &str) -> anyhow::Result<f64> {
    row[field]
        .as_f64()
        .with_context(|| format!("no {field} in {row}"))
}

#[test]
fn who_submits_while_the_root_does_not_answer_is_told_what_is_waited_for() -> Tested {
    let site = Site::start()?;
    let root = leader_of(site.root.state())?;
    root.signal(Signal::STOP)?;
    let program = site.root.place.program();
    let mut told = site.root.place.command("/bin/sh");
    told.args(["-c", "exec \"$@\" 2>&1", "sh", &program, "submit", "true"]);
    told.env("EDDY_URI", &site.uri);
    let told = Running::start(told)?;
    told.prints("eddy: waiting for the instance to take the submission")?;
    root.signal(Signal::CONT)?;
    let said = told.wait()?.ok()?;
    let job = said.lines().last().context("an id")?;
    assert_eq!(site.root.code(job)?, 0);
    site.root.shut_down()
}

#[test]
fn what_it_takes_without_the_root_runs_and_is_the_roots_when_that_is_back() -> Tested {
    let site = Site::start()?;
    leader_of(site.root.state())?.kill()?;
    let (first, sent) = site.taken(&["sh", "-c", "echo first >>ran"])?;
    site.ok(&["job", "wait-event", &first, "clean"])?;
    // What is heard within a second is as of then: one that lasts longer comes between.
    let second = site.ok(&["submit", "sleep", "1.1"])?;
    site.ok(&["job", "wait-event", &second, "clean"])?;
    let runs = site.ok(&["submit", "-n2", "sleep", "1000"])?;
    let waits = site.ok(&["submit", "sh", "-c", "echo waits >>ran"])?;
    let held = site.ok(&["submit", "--begin-time=+1s", "sh", "-c", "echo held >>ran"])?;
    site.ok(&["job", "wait-event", &runs, "start"])?;
    site.waits(&waits, "waits")?;
    site.waits(&held, "waits for the parent instance, not heard since ")?;
    let back = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    site.root.start_again()?;
    // What was on its way when the root died is one job each, too.
    let count = 3 + sent.len();
    let sent: Vec<String> = sent
        .into_iter()
        .map(|submits| submits.wait()?.ok())
        .collect::<anyhow::Result<_>>()?;
    assert_eq!(site.root.code(&first)?, 0);
    let row = site.root.row(&first)?;
    assert!(time(&row, "t_run")? < back.as_secs_f64(), "{row}");
    assert!(time(&row, "t_finish")? < back.as_secs_f64(), "{row}");
    site.root.event(&runs, "start")?;
    let row = site.root.row(&runs)?;
    assert!(time(&row, "t_alloc")? < back.as_secs_f64(), "{row}");
    site.root.ok(&["cancel", &runs])?;
    assert_eq!(site.root.code(&waits)?, 0);
    for job in [held].iter().chain(&sent) {
        assert_eq!(site.root.code(job)?, 0);
    }
    site.root.shut_down()?;
    assert_eq!(site.ran()?.len(), count);
    Ok(())
}

#[test]
fn so_it_is_where_its_own_leader_dies_meanwhile() -> Tested {
    let site = Site::start()?;
    leader_of(site.root.state())?.kill()?;
    let (runs, sent) = site.taken(&["-n2", "sleep", "1000"])?;
    site.ok(&["job", "wait-event", &runs, "start"])?;
    let waits = site.ok(&["submit", "-c2", "sh", "-c", "echo waits >>ran"])?;
    leader_of(&site.state()?)?.kill()?;
    let later = site.ok(&["submit", "-c2", "sh", "-c", "echo later >>ran"])?;
    site.waits(&later, "waits")?;
    site.ok(&["cancel", &runs])?;
    site.ok(&["job", "wait-event", &waits, "clean"])?;
    site.ok(&["job", "wait-event", &later, "clean"])?;
    leader_of(&site.state()?)?.kill()?;
    site.root.start_again()?;
    assert_eq!(site.root.code(&waits)?, 0);
    assert_eq!(site.root.code(&later)?, 0);
    assert_ne!(site.root.code(&runs)?, 0);
    for submits in sent {
        let job = submits.wait()?.ok()?;
        site.root.ok(&["cancel", &job])?;
    }
    site.root.shut_down()?;
    assert_eq!(site.ran()?, ["waits", "later"]);
    Ok(())
}

#[test]
fn what_was_on_its_way_when_the_root_died_gives_way_to_what_began_without_it() -> Tested {
    let site = Site::start()?;
    let inside = leader_of(&site.state()?)?;
    inside.signal(Signal::STOP)?;
    let sent = site
        .root
        .submit(&["-q", "batch", "-c2", "sh", "-c", "echo sent >>ran"])?;
    site.root.event(&sent, "alloc")?;
    leader_of(site.root.state())?.kill()?;
    inside.kill()?;
    let (over, others) = site.taken(&["-c2", "sh", "-c", "echo over >>ran; sleep 2"])?;
    let runs = site.ok(&["submit", "sleep", "1000"])?;
    site.ok(&["job", "wait-event", &over, "clean"])?;
    site.ok(&["job", "wait-event", &runs, "start"])?;
    site.root.start_again()?;
    assert_eq!(site.root.code(&over)?, 0);
    site.root.event(&runs, "start")?;
    assert!(
        site.root
            .events(&sent)?
            .iter()
            .any(|event| event == "recalled")
    );
    site.root.ok(&["cancel", &runs])?;
    assert_eq!(site.root.code(&sent)?, 0);
    let mut ran = vec!["over"; 1 + others.len()];
    ran.push("sent");
    for submits in others {
        assert_eq!(site.root.code(&submits.wait()?.ok()?)?, 0);
    }
    let mut found = site.ran()?;
    found.sort();
    assert_eq!(found, ran);
    let (over, sent) = (site.root.row(&over)?, site.root.row(&sent)?);
    let free = time(&over, "t_finish")?;
    assert!(
        free <= time(&sent, "t_alloc")?,
        "the same cores: {over} {sent}"
    );
    let books = site.root.json(&["usage", "--identity", "--json"])?;
    let cores = |path: &str| -> anyhow::Result<u64> {
        let found = books.pointer(path).and_then(Value::as_u64);
        found.with_context(|| format!("no {path} in {books}"))
    };
    assert_eq!(
        cores("/identity/jobs/core_us")?,
        cores("/identity/charged/core_us")? + cores("/identity/uncharged/core_us")?
    );
    site.root.shut_down()?;
    Ok(())
}
