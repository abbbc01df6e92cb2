//! Two accounts that always have jobs waiting, through two queue instances of one root: what each has of
//! the cores by its shares, and by other shares that are set while they run.
//!
//! Played by a test and, for longer, by `eddy-cli-tests shares`. It measures what was charged and never
//! the time: a busy machine runs fewer jobs and shares them alike.

use std::fs;

use anyhow::Context;
use rustix::process::getuid;

use crate::instance::Instance;
use crate::place::Place;

/// Cores of the root, on pretended nodes.
const CORES: u64 = 64;
/// How many jobs end in each second where nothing is in the way: each has a core for four fifths of it.
const A_SECOND: usize = 80;
/// How many go in one submission, so that those to both instances take turns.
const BATCH: usize = 50;
/// One of them submits to the root, by this queue; the other in its own.
const QUEUES: [&str; 2] = ["qa", "qb"];
/// The least half-life of what was used, in seconds: what all cores do meanwhile is many times what is decided
/// at a time.
const HALF_MIN: usize = 2;
/// After so many half-lives an account has what it lacked by the new shares: two thirds of what was used before
/// are forgotten after 1.6, and what runs is counted as planned.
const MADE_GOOD: f64 = 2.5;

const DECLARED: &str = "
[policy]
preset = 'flux'

[policy.usage.decay]
half = 'HALF'

[policy.priority.weights]
wait = 0

[[instance]]
name = 'qa'
elastic = 'all'

[[instance]]
name = 'qb'
elastic = 'all'

[[queue]]
name = 'qa'
instance = 'qa'

[[queue]]
name = 'qb'
instance = 'qb'
";

/// What two accounts had of each other's cores.
#[derive(Clone, Copy, Debug)]
pub struct Had {
    /// Core-microseconds of the one that is due three quarters.
    pub three: u64,
    /// And of the one that is due one.
    pub one: u64,
}

impl Had {
    /// How far each is from what it is due, at worst, as a part of that.
    #[must_use]
    pub fn off(self) -> f64 {
        let all = (self.three + self.one) as f64;
        let parts = [(self.three, 0.75), (self.one, 0.25)];
        let off = parts.map(|(had, due)| (had as f64 / all / due - 1.0).abs());
        off[0].max(off[1])
    }
}

/// How it went.
#[derive(Clone, Copy, Debug)]
pub struct Played {
    /// By three shares to one.
    pub before: Had,
    /// By one share to three, once what was lacked by these was made good.
    pub after: Had,
}

/// Jobs of an account, as they will run.
struct Jobs {
    /// Ids of those that wait in the first of the queues, as that instance knows them.
    ids: Vec<String>,
}

/// Plays it: about so many seconds by the first shares and as many by the others.
///
/// # Errors
/// Something is refused, or does not end.
pub fn play(seconds: usize) -> anyhow::Result<Played> {
    let half = HALF_MIN.max(seconds / 6);
    let instance = start(half)?;
    let most = seconds * A_SECOND * 3 / 4;
    let least = most / 3;
    let good = (MADE_GOOD * (half * A_SECOND) as f64) as usize;
    // Nobody begins before all are there. One has three quarters first and a quarter of what follows, the
    // other has all of it between.
    instance.ok(&["resource", "drain", "0-3"])?;
    let jobs = submitted(&instance, most + good + least * 2)?;
    instance.ok(&["resource", "undrain", "0-3"])?;
    reached(&instance, &jobs[0], most)?;
    let first = charged(&instance)?;
    for (account, shares) in [("a", "1"), ("b", "3")] {
        instance.ok(&["account", "edit", account, "--shares", shares])?;
    }
    reached(&instance, &jobs[1], least + good)?;
    let changed = charged(&instance)?;
    reached(&instance, &jobs[1], least + good + most)?;
    let last = charged(&instance)?;
    Ok(Played {
        before: Had {
            three: first[0],
            one: first[1],
        },
        after: Had {
            three: last[1] - changed[1],
            one: last[0] - changed[0],
        },
    })
}

/// A root of four pretended nodes, two elastic queue instances, and accounts of three shares and of one.
fn start(half: usize) -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let config = place.join("contest.toml");
    fs::write(&config, DECLARED.replace("HALF", &format!("{half}s")))?;
    let state = place.path().join("state");
    let nodes = format!("nodes=4,cores={}", CORES / 4);
    let lasts = "exec.test.run_duration=800ms";
    let options = ["--fake", &nodes, "-S", lasts, "--config", &config];
    let instance = Instance::start_in(place, state, &options)?;
    let user = getuid().as_raw().to_string();
    for (account, shares) in [("a", "3"), ("b", "1")] {
        instance.ok(&["account", "add", account, "--shares", shares])?;
        instance.ok(&["account", "add-user", &user, "-A", account])?;
    }
    Ok(instance)
}

/// So many jobs of each account: half of them directly to the one instance, half by the root to the other.
fn submitted(instance: &Instance, count: usize) -> anyhow::Result<[Jobs; 2]> {
    let mut jobs = [Jobs { ids: Vec::new() }, Jobs { ids: Vec::new() }];
    let copies = format!("--cc=1-{BATCH}");
    for _ in 0..count.div_ceil(BATCH * QUEUES.len()) {
        for (jobs, account) in jobs.iter_mut().zip(["a", "b"]) {
            let what = ["submit", &copies, "-n1", "-t", "1s", "-A", account];
            let direct = [&["--at", QUEUES[0]], &what[..], &["true"]].concat();
            let printed = instance.ok(&direct)?;
            jobs.ids.extend(printed.lines().map(str::to_owned));
            instance.ok(&[&what[..], &["-q", QUEUES[1], "true"]].concat())?;
        }
    }
    Ok(jobs)
}

/// Waits until so many jobs of an account have begun; they do so in their order.
fn reached(instance: &Instance, jobs: &Jobs, count: usize) -> anyhow::Result<()> {
    let last = count / QUEUES.len();
    // One command is not waited for as long as many of them may take.
    for at in (BATCH..last).step_by(BATCH).chain([last]) {
        let job = jobs.ids.get(at).context("as many were submitted")?;
        instance.ok(&[
            "--at",
            QUEUES[0],
            "job",
            "wait-event",
            "--quiet",
            job,
            "start",
        ])?;
    }
    Ok(())
}

/// Core-microseconds charged to both accounts, with those of what runs.
fn charged(instance: &Instance) -> anyhow::Result<[u64; 2]> {
    let report = instance.json(&["usage", "--json"])?;
    let rows = report["usage"].as_array().context("rows")?;
    let of = |account: &str| {
        let rows = rows.iter().filter(|row| row["account"] == account);
        let parts = rows.flat_map(|row| ["charged", "running"].map(|what| &row[what]["core_us"]));
        parts.filter_map(serde_json::Value::as_u64).sum()
    };
    Ok([of("a"), of("b")])
}
