//! The people of a tree: each a thread that submits jobs and workflows to the
//! root, to queues and into instances of its own, ends some of them on purpose,
//! and remembers what it was promised.

use std::collections::BTreeSet;
use std::sync::Mutex;

use anyhow::{Context, ensure};
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::running::{Ran, Running};
use eddy_wire::id::JobId;
use rustix::process::Signal;

use super::ELASTIC;
use super::scripts::Scripts;
use super::terms::{self, Kind};
use super::victim::within;
use crate::chaos::dice::Dice;
use crate::chaos::fault::moment;

/// A job that was accepted.
#[derive(Clone, Debug)]
pub struct Promise {
    /// Number of the job; the same in the root and in its queue instances.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// The job of the root or of a queue instance in which it is; none if it is such a job itself.
    pub inside: Option<u64>,
}

/// What all of them did.
#[derive(Debug, Default)]
pub struct Memory {
    /// What was accepted.
    pub promises: Mutex<Vec<Promise>>,
    /// Jobs that somebody ended, signalled or requeued, before it was asked for.
    pub disturbed: Mutex<BTreeSet<u64>>,
    /// Commands that wait for a job of this name.
    pub waiters: Mutex<Vec<(String, Running)>>,
}

/// One of them.
pub struct Person<'a> {
    /// The root.
    pub instance: &'a Instance,
    /// What jobs run.
    pub scripts: &'a Scripts,
    /// Names of queues, and how many nodes each has.
    pub queues: &'a [(&'static str, u64)],
    /// The root's id, as markers have it.
    pub root: &'a str,
    /// What is remembered of all.
    pub memory: &'a Memory,
    /// Which one this is.
    pub number: u64,
    /// Whose the jobs are that it makes, if they are another's than the administrator's.
    pub user: Option<String>,
    /// Its draws.
    pub dice: Dice,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Submit,
    Span,
    Watch,
    DieSubmitting,
    Disturb,
    Flow,
    Hang,
    Stay,
    Grow,
    Recharge,
}

const ACTS: &[Act] = &[
    Act::Submit,
    Act::Submit,
    Act::Submit,
    Act::Span,
    Act::Span,
    Act::Watch,
    Act::DieSubmitting,
    Act::Disturb,
    Act::Flow,
    Act::Flow,
    Act::Flow,
    Act::Hang,
    Act::Stay,
    Act::Grow,
    Act::Grow,
    Act::Recharge,
];

impl Person<'_> {
    /// Lives until it has made about so many jobs.
    ///
    /// # Errors
    /// A promise was broken.
    pub fn live(mut self, jobs: u64) -> anyhow::Result<()> {
        let mut made = 0;
        let mut turn = 0;
        while made < jobs {
            let name = format!("p{}-{turn}", self.number);
            turn += 1;
            let act = self.dice.pick(ACTS);
            made += match act {
                Act::Submit => self.submit(&name, 1),
                Act::Span => self.submit(&name, 2),
                Act::Watch => self.watch(&name),
                Act::DieSubmitting => self.die_submitting(&name),
                Act::Disturb => self.disturb(),
                Act::Flow => self.flow(&name),
                Act::Hang => self.hang(&name),
                Act::Stay => self.stay(&name),
                Act::Grow => self.grow(&name),
                Act::Recharge => self.recharge(),
            }
            .with_context(|| format!("{name}, {act:?}"))?;
        }
        Ok(())
    }

    /// Where the next goes: the root or a queue, with as many nodes as it must have.
    fn queue(&mut self, nodes: u64) -> Option<&'static str> {
        let mut places: Vec<Option<&'static str>> = vec![None];
        let fits = |size: u64| size == ELASTIC || size >= nodes;
        let fitting = self.queues.iter().filter(|(_, size)| fits(*size));
        places.extend(fitting.map(|(name, _)| Some(*name)));
        self.dice.pick(&places)
    }

    /// Options and command of tasks; their name tells how many there are and how they end.
    fn tasks(
        &mut self,
        name: &str,
        nodes: u64,
        queue: Option<&'static str>,
    ) -> (String, Vec<String>) {
        let (command, code) = self.scripts.any_task(&mut self.dice);
        let ntasks = nodes * self.dice.pick(&[1, 1, 2]);
        let name = format!("t-{name}-n{ntasks}-c{code}");
        let mut words = vec![format!("--job-name={name}"), format!("-n{ntasks}")];
        if nodes > 1 {
            words.push(format!("-N{nodes}"));
        }
        words.extend(queue.map(|queue| format!("-q{queue}")));
        if self.dice.percent(30) {
            words.push("--requeue".to_owned());
        }
        words.extend(command);
        (name, words)
    }

    fn begin(&mut self, verb: &[&str], words: &[String]) -> anyhow::Result<Running> {
        let user = self.user.as_ref().map(|user| format!("--as={user}"));
        // What is said inside an instance is that one's user's anyway, and it has no accounts.
        let is_inside = verb.iter().any(|word| word.starts_with("--at"));
        let mut named: Vec<String> = user.filter(|_| !is_inside).into_iter().collect();
        if !is_inside {
            named.extend(terms::words(&mut self.dice, Kind::Works));
        }
        let words = named.iter().chain(words).map(String::as_str);
        let words: Vec<&str> = verb.iter().copied().chain(words).collect();
        self.instance.begin(&words)
    }

    fn remember(&self, printed: &str, name: &str) -> anyhow::Result<Vec<u64>> {
        let ids = ids(printed)?;
        let promises = ids.iter().map(|id| Promise {
            id: *id,
            name: name.to_owned(),
            inside: None,
        });
        let mut all = self.memory.promises.lock().expect("nobody panics");
        all.extend(promises);
        Ok(ids)
    }

    fn submit(&mut self, name: &str, nodes: u64) -> anyhow::Result<u64> {
        let queue = self.queue(nodes);
        let (name, words) = self.tasks(name, nodes, queue);
        let copies = self.dice.pick(&[1, 1, 3, 8]);
        let copied = format!("--cc=1-{copies}");
        let verb: &[&str] = match copies {
            1 => &["submit"],
            _ => &["submit", &copied],
        };
        let printed = self.begin(verb, &words)?.wait()?.ok()?;
        let told = self.remember(&printed, &name)?.len() as u64;
        ensure!(told == copies, "{name}: {told} ids for {copies} jobs");
        Ok(copies)
    }

    fn watch(&mut self, name: &str) -> anyhow::Result<u64> {
        let queue = self.queue(1);
        let (name, words) = self.tasks(name, 1, queue);
        let running = self.begin(&["run"], &words)?;
        let mut waiters = self.memory.waiters.lock().expect("nobody panics");
        waiters.push((name, running));
        Ok(1)
    }

    fn die_submitting(&mut self, name: &str) -> anyhow::Result<u64> {
        let queue = self.queue(1);
        let (name, words) = self.tasks(name, 1, queue);
        let dying = self.begin(&["submit", "--cc=1-4"], &words)?;
        moment(&mut self.dice, 40);
        dying.signal(Signal::KILL)?;
        let Ran { out, .. } = dying.wait()?;
        let whole = out.rsplit_once('\n').map_or("", |(whole, _)| whole);
        self.remember(whole, &name)?;
        Ok(4)
    }

    fn disturb(&mut self) -> anyhow::Result<u64> {
        let promises = self.memory.promises.lock().expect("nobody panics").clone();
        let known: Vec<u64> = promises
            .iter()
            .filter(|promise| promise.inside.is_none())
            .map(|promise| promise.id)
            .collect();
        if known.is_empty() {
            return Ok(0);
        }
        let job = self.dice.pick(&known);
        self.about_to_disturb(job);
        let id = job.to_string();
        let words: &[&str] = match self.dice.below(5) {
            0 | 1 => &["cancel", &id],
            2 => &["job", "kill", "-s", "TERM", &id],
            3 => &["job", "kill", "-s", "KILL", &id],
            _ => &["job", "requeue", &id],
        };
        // A job that is over, or not running, refuses; that is no failure.
        self.instance.run(words).map(|_| 0)
    }

    fn about_to_disturb(&self, job: u64) {
        let mut disturbed = self.memory.disturbed.lock().expect("nobody panics");
        disturbed.insert(job);
    }

    /// `eddy batch` of a workflow that submits jobs, some levels deep.
    fn flow(&mut self, name: &str) -> anyhow::Result<u64> {
        let queue = self.queue(1);
        let depth = self.dice.pick(&[0, 0, 1, 2]);
        let code = self.dice.pick(&[0, 0, 3]);
        let jobs = self.dice.pick(&[1, 3, 6]);
        let wide = queue.is_none() && self.dice.percent(30);
        let job = format!("f-{name}-c{code}");
        let mut words = vec![format!("--job-name={job}"), "--output=none".to_owned()];
        words.push(match (wide, self.dice.below(2)) {
            (true, _) => "-N2".to_owned(),
            (false, width) => format!("-n{}", 1 + width),
        });
        words.extend(queue.map(|queue| format!("-q{queue}")));
        let levels = [
            name,
            &jobs.to_string(),
            &depth.to_string(),
            &code.to_string(),
        ];
        words.push(self.scripts.flow.clone());
        words.extend(levels.map(str::to_owned));
        let printed = self.begin(&["batch"], &words)?.wait()?.ok()?;
        self.remember(&printed, &job)?;
        Ok(1 + jobs)
    }

    /// A workflow that would go on for ever: its limit or a cancel ends it, and all in it.
    fn hang(&mut self, name: &str) -> anyhow::Result<u64> {
        let limited = self.dice.percent(50);
        let job = format!("h-{name}");
        let inner = format!(
            "{eddy} submit --quiet --cc=1-3 sleep 1000; {eddy} alloc --bg -n1; setsid sleep 1000 & sleep 1000",
            eddy = self.scripts.eddy
        );
        let mut words = vec![format!("--job-name={job}"), "--output=none".to_owned()];
        words.push(self.dice.pick(&["-n2", "-N2"]).to_owned());
        if limited {
            words.push("-t1.5s".to_owned());
        }
        words.extend(["--wrap".to_owned(), inner]);
        let printed = self.begin(&["batch"], &words)?.wait()?.ok()?;
        let ids = self.remember(&printed, &job)?;
        let [id] = ids.as_slice() else {
            anyhow::bail!("{job}: {ids:?} for one job");
        };
        self.about_to_disturb(*id);
        if !limited {
            // Somebody else may end it before it is granted anything; then there is no such event.
            let granted = ["job", "wait-event", "--quiet", &id.to_string(), "alloc"];
            self.instance.run(&granted)?;
            moment(&mut self.dice, 800);
            self.instance.run(&["cancel", &id.to_string()])?;
        }
        self.ended_with_all_in_it(*id)?;
        Ok(2)
    }

    /// An instance that stays, used from outside, and ended on purpose.
    fn stay(&mut self, name: &str) -> anyhow::Result<u64> {
        let width = self.dice.pick(&["-n1", "-n2", "-N2"]);
        let Some(id) = self.instance_that_stays(&format!("s-{name}"), width)? else {
            return Ok(1);
        };
        for turn in 0..self.dice.below(4) {
            self.submit_inside(id, &format!("{name}.{turn}"))?;
        }
        self.end(id)?;
        Ok(2)
    }

    /// One that asks for nodes and gives some back.
    fn grow(&mut self, name: &str) -> anyhow::Result<u64> {
        let Some(id) = self.instance_that_stays(&format!("g-{name}"), "-N1")? else {
            return Ok(1);
        };
        // Whatever becomes of what it grows by: its jobs may end with a node.
        self.about_to_disturb(id);
        for turn in 0..2 + self.dice.below(4) {
            match self.dice.below(5) {
                0 | 1 => self.ask(id, &format!("a-{name}.{turn}"))?,
                // It may have none that it could give, or be over.
                2 | 3 => drop(self.inside(id, &["grant", "release", "--count=1"])?),
                _ => self.submit_inside(id, &format!("{name}.{turn}"))?,
            }
            moment(&mut self.dice, 400);
        }
        self.end(id)?;
        Ok(2)
    }

    fn instance_that_stays(&mut self, job: &str, width: &str) -> anyhow::Result<Option<u64>> {
        let given = format!("--job-name={job}");
        let words = terms::words(&mut self.dice, Kind::Lends);
        let words = words.iter().map(String::as_str);
        let words: Vec<&str> = ["alloc", "--bg", width, &given]
            .into_iter()
            .chain(words)
            .collect();
        let begun = self.instance.run(&words)?;
        let Ok(ids) = self.remember(&begun.out, job) else {
            anyhow::bail!("{job}: {begun:?}");
        };
        // It may have ended before it took work, if its node failed.
        let [id] = ids.as_slice() else {
            ensure!(begun.code != 0, "{job}: {begun:?}");
            return Ok(None);
        };
        Ok(Some(*id))
    }

    fn inside(&self, id: u64, words: &[&str]) -> anyhow::Result<Ran> {
        let path = format!("--at={id}");
        self.instance.run(&[&[path.as_str()], words].concat())
    }

    fn submit_inside(&mut self, id: u64, name: &str) -> anyhow::Result<()> {
        let (name, words) = self.tasks(name, 1, None);
        let path = format!("--at={id}");
        let ran = self.begin(&[&path, "submit"], &words)?.wait()?;
        let mut promises = self.memory.promises.lock().expect("nobody panics");
        promises.extend(ids_of(&ran.out).map(|inner| Promise {
            id: inner,
            name: name.clone(),
            inside: Some(id),
        }));
        Ok(())
    }

    /// A node more for an instance: that is a job beside it, which goes with it.
    fn ask(&mut self, id: u64, name: &str) -> anyhow::Result<()> {
        let given = format!("--job-name={name}");
        let limit = self.dice.pick(&[None, Some("-t1s"), Some("-t5s")]);
        let mut words = vec!["grant", "ask", "-N1", &given];
        words.extend(limit);
        let asked = self.inside(id, &words)?;
        let more: Vec<u64> = ids_of(&asked.out).collect();
        let mut promises = self.memory.promises.lock().expect("nobody panics");
        for id in more {
            self.about_to_disturb(id);
            promises.push(Promise {
                id,
                name: name.to_owned(),
                inside: None,
            });
        }
        Ok(())
    }

    /// Ends an instance, in one way or another.
    fn end(&mut self, id: u64) -> anyhow::Result<()> {
        self.about_to_disturb(id);
        let ending = id.to_string();
        match self.dice.below(3) {
            0 => self.instance.run(&["shutdown", &ending])?,
            1 => self.instance.run(&["job", "kill", "-s", "TERM", &ending])?,
            _ => self.instance.run(&["cancel", &ending])?,
        };
        // What was asked of a leader that was just killed may have been lost with it.
        self.instance.run(&["cancel", &ending])?;
        self.ended_with_all_in_it(id)
    }

    /// A job that waits is charged to the other account.
    fn recharge(&mut self) -> anyhow::Result<u64> {
        let waiting = ["jobs", "-A", "-n", "-f", "pending", "-o", "{id.dec}"];
        let waiting = self.instance.run(&waiting)?.out;
        let waiting: Vec<&str> = waiting.lines().collect();
        if waiting.is_empty() {
            return Ok(0);
        }
        let job = self.dice.pick(&waiting);
        let account = format!("account={}", self.dice.pick(&[terms::FEW, terms::OTHER]));
        // One that has begun meanwhile keeps its account, as one does of which too much would be asked.
        self.instance.run(&["update", job, &account]).map(|_| 0)
    }

    /// Waits for the job's end; then nothing of it may run, at once.
    fn ended_with_all_in_it(&self, id: u64) -> anyhow::Result<()> {
        self.instance
            .event(&id.to_string(), "clean")
            .with_context(|| format!("job {id} was to end"))?;
        let left = within(self.instance, &format!("{}/{id}.", self.root));
        let left: Vec<String> = left.iter().map(ToString::to_string).collect();
        ensure!(
            left.is_empty(),
            "job {id} is over and runs: {}",
            left.join(", ")
        );
        Ok(())
    }
}

/// The numbers of the ids that were printed.
fn ids(printed: &str) -> anyhow::Result<Vec<u64>> {
    let number = |line: &str| {
        line.parse::<JobId>()
            .map(|id| id.0)
            .with_context(|| format!("`{line}`"))
    };
    printed.lines().map(number).collect()
}

fn ids_of(printed: &str) -> impl Iterator<Item = u64> {
    printed
        .lines()
        .filter_map(|line| line.parse::<JobId>().ok())
        .map(|id| id.0)
}
