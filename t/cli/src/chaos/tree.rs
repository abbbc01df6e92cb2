//! A round on a tree: a root of several nodes with queue instances, workflows
//! in instances of their own, faults everywhere; then quiet, then checks.

mod charges;

mod fault;

mod journals;

mod oracle;

mod people;

mod scripts;

mod terms;

mod victim;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::users::{Site, can_make_users};
use serde_json::Value;

use super::dice::Dice;
use super::fault::moment;
use super::round::{Played, all_rows};
use charges::Charges;
use fault::{Nodes, Storm};
use oracle::Known;
use people::{Memory, Person};
use scripts::{Ledger, Scripts};
use terms::Terms;
use victim::Part;

/// How many submit at the same time.
const PEOPLE: u64 = 3;
/// Of how many of them the jobs are a user's of their own, where users can be made.
const USERS: usize = 2;
/// How long everything may take to end once faults have stopped.
const QUIET_WITHIN: Duration = Duration::from_secs(150);

/// Cores of each node.
const CORES: u64 = 2;

/// The nodes of an elastic instance: it has none of its own.
const ELASTIC: u64 = 0;

/// What the tree of a round is.
struct Shape {
    size: u64,
    queues: Vec<(&'static str, u64)>,
    options: Vec<String>,
    terms: Terms,
}

impl Shape {
    /// Two nodes are always left to the root itself.
    fn any(dice: &mut Dice) -> Shape {
        let queues = dice.pick(&[0, 1, 2, 3, 4]);
        let queues: Vec<(&str, u64)> = match queues {
            0 => vec![("qa", 1)],
            1 => vec![("qa", 1), ("qb", 1)],
            2 => vec![("qa", 2)],
            3 => vec![("qa", 1), ("qe", ELASTIC)],
            _ => vec![("qe", ELASTIC), ("qf", ELASTIC)],
        };
        let size = 2 + queues.iter().map(|(_, nodes)| nodes).sum::<u64>();
        let grace = dice.pick(&["0.3s", "1s", "3s"]);
        let transport = dice.pick(&["zeromq", "zeromq", "stream"]);
        let fanout = dice.pick(&[1, 2, 16]);
        let options = [
            format!("--size={size}"),
            format!("--cores={CORES}"),
            format!("-Sexec.kill_grace={grace}"),
            format!("-Srank.transport={transport}"),
            format!("-Stree.fanout={fanout}"),
        ];
        Shape {
            size,
            queues,
            options: options.to_vec(),
            terms: Terms::any(dice, size * CORES),
        }
    }

    fn configuration(&self) -> String {
        let one = |(name, nodes): &(&str, u64)| {
            let nodes = match *nodes {
                ELASTIC => "elastic = \"all\"".to_owned(),
                nodes => format!("nodes = {nodes}"),
            };
            format!(
                "[[instance]]\nname = \"{name}\"\n{nodes}\nset = {{ \"exec.kill_grace\" = \"0.5s\" }}\n\
                 [[queue]]\nname = \"{name}\"\ninstance = \"{name}\"\n"
            )
        };
        let queues: String = self.queues.iter().map(one).collect();
        self.terms.configuration() + &queues
    }

    fn names(&self) -> Vec<&'static str> {
        self.queues.iter().map(|(name, _)| *name).collect()
    }
}

/// Plays the round of this seed; what it leaves is kept if it fails.
///
/// # Errors
/// The promise that was broken.
pub fn play(seed: u64, jobs: u32) -> anyhow::Result<Played> {
    let mut dice = Dice::of(seed, 0);
    let shape = Shape::any(&mut dice);
    let place = Place::new()?;
    let site = can_make_users().then(|| Site::make(&place, USERS));
    let site = site.transpose()?;
    let config = place.join("tree.toml");
    fs::write(&config, shape.configuration())?;
    let config = format!("--config={config}");
    let options: Vec<&str> = shape
        .options
        .iter()
        .map(String::as_str)
        .chain([config.as_str()])
        .collect();
    let state = place.path().join("state");
    let mut instance = Instance::start_in(place, state, &options)?;
    let played = in_tree(&instance, site.as_ref(), &shape, dice, seed, jobs);
    if let Err(broken) = &played {
        autopsy(&instance, &format!("seed {seed}: {broken:#}\n"));
        instance.place.end_all()?;
        without_ballast(instance.state());
        instance.place.keep();
    }
    played
}

fn in_tree(
    instance: &Instance,
    site: Option<&Site>,
    shape: &Shape,
    mut dice: Dice,
    seed: u64,
    jobs: u32,
) -> anyhow::Result<Played> {
    let eddy = site.map(|site| site.program().display().to_string());
    let scripts = Scripts::install(
        &instance.place,
        &eddy.unwrap_or_else(|| instance.place.program()),
    )?;
    let memory = Memory::default();
    shape.terms.establish(instance, &everybody(site))?;
    let root = instance.json(&["ping", "--json"])?;
    let root = root["instance"].as_str().context("an id")?.to_owned();
    let nodes = dice.pick(&[Nodes::Fail, Nodes::Hold]);
    let mut storm = Storm::new(nodes);
    std::thread::scope(|scope| {
        let people: Vec<_> = (0..PEOPLE)
            .map(|number| {
                let person = Person {
                    instance,
                    scripts: &scripts,
                    queues: &shape.queues,
                    root: &root,
                    memory: &memory,
                    number,
                    user: user(site, number),
                    dice: Dice::of(seed, number + 1),
                };
                scope.spawn(move || person.live(u64::from(jobs).div_ceil(PEOPLE)))
            })
            .collect();
        let mut left = 3 + dice.below(8);
        let mut struck = Ok(());
        while left > 0 && struck.is_ok() {
            moment(&mut dice, 600);
            struck = storm.strike(instance, &mut dice);
            if people.iter().all(|person| person.is_finished()) {
                left = left.min(3);
            }
            left -= 1;
        }
        for person in people {
            person.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        struck.with_context(|| format!("fault {}: {:?}", storm.names.len(), storm.names.last()))
    })?;
    let faults = storm.names.clone();
    let checked = settle(instance, shape, &memory, &storm);
    let (jobs, charges) = checked.with_context(|| format!("after {}", faults.join(", ")))?;
    Ok(Played {
        jobs,
        faults,
        moves: Some(charges.moves()),
    })
}

/// For whom one of the people makes jobs: the first for the administrator.
fn user(site: Option<&Site>, number: u64) -> Option<String> {
    let at = usize::try_from(number.checked_sub(1)?).ok()?;
    Some(site?.users.get(at)?.name.clone())
}

/// All who submit: whoever runs this, and the users there are.
fn everybody(site: Option<&Site>) -> Vec<String> {
    let own = rustix::process::getuid().as_raw().to_string();
    let users = site.into_iter().flat_map(|site| &site.users);
    let users = users.map(|user| user.name.clone());
    [own].into_iter().chain(users).collect()
}

/// Waits until all is quiet, and checks; how many jobs there were, and what they had.
fn settle(
    instance: &Instance,
    shape: &Shape,
    memory: &Memory,
    storm: &Storm,
) -> anyhow::Result<(usize, Charges)> {
    let names = shape.names();
    let until = Instant::now() + QUIET_WITHIN;
    let waiters = std::mem::take(&mut *memory.waiters.lock().expect("nobody panics"));
    let mut told = Vec::new();
    for (name, running) in waiters {
        let ran = running.wait();
        told.push((ran.with_context(|| format!("who waits for {name}"))?, name));
    }
    let rows = all_over(instance, &names, until)?;
    for (ran, name) in told {
        let row = rows.iter().find(|row| row["name"] == name.as_str());
        let row = row.with_context(|| format!("{name}: {ran:?} of a job that is not there"))?;
        let code = row["returncode"].as_i64();
        let code = code.map(|code| if code < 0 { 1 } else { code });
        ensure!(
            code == Some(ran.code.into()),
            "{name}: ended with {}, its job is {row}: {}",
            ran.code,
            ran.err
        );
    }
    only_the_tree_runs(instance, &names)?;
    let usage = instance.json(&["usage", "--json"])?;
    instance.shut_down().context("the shutdown")?;
    let books = journals::read(instance.state())?;
    let ledger = Ledger::read(&instance.place)?;
    let known = Known {
        books: &books,
        ledger: &ledger,
        promises: &memory.promises.lock().expect("nobody panics"),
        disturbed: &memory.disturbed.lock().expect("nobody panics"),
        declared: &names,
        calm: storm.shells.is_empty(),
    };
    known.check()?;
    let charges = Charges::of(&books[0], &names, shape.terms)?;
    charges.agree(&usage)?;
    starts_as_it_was(instance, shape, &rows)?;
    nothing_lies_about(instance, &books)?;
    let jobs = books.iter().map(|book| book.lives.len()).sum();
    Ok((jobs, charges))
}

/// Waits until every job of the root and of its queue instances is over, but for those that are
/// the queue instances; all their rows, those of the root last: what is left of a job that was passed on
/// its queue instance tells, which has to be there.
fn all_over(instance: &Instance, names: &[&str], until: Instant) -> anyhow::Result<Vec<Value>> {
    let mut all = Vec::new();
    for place in names.iter().map(Some).chain([None]) {
        loop {
            let rows = listed(instance, place.copied());
            let open: Vec<Value> = rows.as_ref().map_or_else(
                |_| Vec::new(),
                |rows| {
                    let declared = |row: &Value| names.iter().any(|name| row["name"] == *name);
                    let open = |row: &&Value| row["state"] != "INACTIVE" && !declared(row);
                    rows.iter().filter(open).cloned().collect()
                },
            );
            match rows {
                Ok(rows) if open.is_empty() => {
                    all.extend(rows);
                    break;
                }
                Ok(_) if Instant::now() > until => {
                    bail!("{} jobs of {place:?} are stuck: {open:?}", open.len())
                }
                Ok(_) => waits_for(instance, place.copied(), &open[0]),
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => {}
            }
        }
    }
    Ok(all)
}

/// Waits for one of them; that it is not over in time is seen by who asks next.
fn waits_for(instance: &Instance, place: Option<&str>, row: &Value) {
    let id = row["id"].to_string();
    let at = place.map(|name| format!("--at={name}"));
    let words: Vec<&str> = at
        .as_deref()
        .into_iter()
        .chain(["job", "status", id.as_str()])
        .collect();
    let _not_over_in_time = instance.run(&words);
}

fn listed(instance: &Instance, place: Option<&str>) -> anyhow::Result<Vec<Value>> {
    let Some(name) = place else {
        return all_rows(instance);
    };
    let at = format!("--at={name}");
    match instance.json(&[&at, "jobs", "-a", "-A", "-c", "0", "--json"])? {
        Value::Array(rows) => Ok(rows),
        other => Err(anyhow!("not a list of jobs: {other}")),
    }
}

/// With every job over, nothing runs but the root and its queue instances.
fn only_the_tree_runs(instance: &Instance, names: &[&str]) -> anyhow::Result<()> {
    let tree = victim::all(instance);
    let known: Vec<i32> = tree.iter().map(|one| one.process.pid).collect();
    let strays: Vec<String> = instance
        .place
        .processes()
        .iter()
        .filter(|one| !known.contains(&one.pid) && !known.contains(&one.parent))
        .map(ToString::to_string)
        .collect();
    ensure!(strays.is_empty(), "left running: {}", strays.join(", "));
    let children: Vec<String> = tree
        .iter()
        .filter(|one| one.part == Part::Child)
        .map(|one| one.state.clone())
        .collect();
    ensure!(children.is_empty(), "led without a job: {children:?}");
    let count = |part| tree.iter().filter(|one| one.part == part).count();
    ensure!(count(Part::Root) == 1, "{} leaders", count(Part::Root));
    let queues = count(Part::Queue);
    ensure!(queues == names.len(), "{queues} queue instances: {tree:?}");
    let rows = all_rows(instance)?;
    let mut allowed: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let open = rows.iter().filter(|row| row["state"] != "INACTIVE");
    allowed.extend(open.map(|row| format!("{}.{}", row["id"], row["attempt"])));
    for one in tree.iter().filter(|one| one.part == Part::ChildShell) {
        let whose = one.state.rsplit('/').next().unwrap_or_default();
        ensure!(
            allowed.iter().any(|name| name == whose),
            "a shell without a job: {one:?}"
        );
    }
    Ok(())
}

/// No directory of sockets is left of any instance, nothing is mounted.
fn nothing_lies_about(instance: &Instance, books: &[journals::Book]) -> anyhow::Result<()> {
    let shared = PathBuf::from(format!("/tmp/eddy-{}", rustix::process::getuid().as_raw()));
    let own = instance.place.path().join("run/eddy");
    for folder in [shared.as_path(), own.as_path()] {
        for name in entries(folder) {
            let whose = books.iter().find(|book| name.starts_with(&book.id[..8]));
            if let Some(book) = whose {
                bail!(
                    "{}/{name} is left of {}",
                    folder.display(),
                    book.state.display()
                );
            }
            ensure!(folder != own, "{}/{name} is left", folder.display());
        }
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let place = instance.place.path().display().to_string();
    ensure!(!mounts.contains(&place), "something is mounted in {place}");
    Ok(())
}

fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}

/// A start after an orderly end finds what was there.
fn starts_as_it_was(instance: &Instance, shape: &Shape, rows: &[Value]) -> anyhow::Result<()> {
    instance
        .start_again()
        .context("the start after the shutdown")?;
    let names = shape.names();
    let until = Instant::now() + QUIET_WITHIN;
    all_over(instance, &names, until).context("after a start")?;
    let now = all_rows(instance)?;
    let over = rows.iter().filter(|row| row["state"] == "INACTIVE");
    for row in over {
        let id = &row["id"];
        // A queue instance tells of what was passed to it by its own clock.
        let mut before = rows.iter().filter(|before| before["id"] == *id);
        let Some(same) = now.iter().find(|now| now["id"] == *id) else {
            continue;
        };
        ensure!(
            before.any(|row| same == row),
            "after a start {same}, before {row}"
        );
    }
    ensure!(
        now.len() > shape.size as usize || !names.is_empty(),
        "nothing is listed"
    );
    instance.shut_down().context("the last shutdown")
}

/// Removes what only takes room: 16 MiB for each instance there was.
fn without_ballast(state: &Path) {
    let mut folders = vec![state.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder).iter().map(|name| folder.join(name)) {
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.ends_with("ballast") {
                let _there_is_more_room_or_not = fs::remove_file(&path);
            }
        }
    }
}

/// What can be seen of a tree that broke a promise, in the file `autopsy`.
fn autopsy(instance: &Instance, why: &str) {
    let mut text = why.to_owned();
    for process in instance.place.processes() {
        text += &format!("{process}, parent {}\n", process.parent);
    }
    let questions: &[&[&str]] = &[
        &["--reconnect=1s", "tree"],
        &["--reconnect=1s", "jobs", "-a", "-A", "-c", "0"],
        &["--reconnect=1s", "overlay", "status"],
        &["--reconnect=1s", "resource", "list"],
    ];
    for question in questions {
        text += &format!("\n$ eddy {}\n", question.join(" "));
        let Ok(running) = instance.begin(question) else {
            continue;
        };
        match running.ends_within(Duration::from_secs(5)) {
            true => match running.wait() {
                Ok(ran) => text += &format!("{}{}", ran.out, ran.err),
                Err(error) => text += &format!("{error:#}\n"),
            },
            false => text += "no answer\n",
        }
    }
    let path = instance.place.path().join("autopsy");
    if let Err(error) = fs::write(&path, text) {
        eprintln!("{}: {error}", path.display());
    }
}
