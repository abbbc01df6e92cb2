//! The people of a round: each a thread that submits, waits, disturbs and is
//! killed, and remembers what it was promised.

use std::sync::Mutex;

use anyhow::{Context, ensure};
use eddy_cli_tests::instance::{Instance, on_this_thread};
use eddy_cli_tests::running::{Ran, Running};
use eddy_client::{Client, Options};
use eddy_wire::event::{Requeue, Waitable};
use eddy_wire::id::JobId;
use eddy_wire::services::job::{Submit, SubmitRequest};
use rustix::process::Signal;
use uuid::Uuid;

use super::dice::Dice;
use super::fault::moment;
use super::task::Task;

/// One submission and what is known of it.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The name of its jobs; no other submission has it.
    pub name: String,
    /// How many jobs it is.
    pub count: u64,
    /// How many tasks each has.
    pub ntasks: u64,
    /// Exit code of each task.
    pub code: i32,
    /// The jobs it was told it has; empty if its client died before.
    pub ids: Vec<u64>,
}

/// A command that waits for a job and must end as the job does.
#[derive(Debug)]
pub struct Waiter {
    /// Whose job.
    pub name: String,
    /// The command.
    pub running: Running,
}

/// What all clients of a round did.
#[derive(Debug, Default)]
pub struct Memory {
    /// Submissions, acknowledged or not.
    pub submissions: Mutex<Vec<Submission>>,
    /// Those who still wait.
    pub waiters: Mutex<Vec<Waiter>>,
    /// Names of jobs that somebody ended, signalled or requeued.
    pub disturbed: Mutex<Vec<u64>>,
}

/// One of them.
pub struct Person<'a> {
    /// The instance.
    pub instance: &'a Instance,
    /// Path of the script that tasks run.
    pub script: &'a str,
    /// What is remembered of all.
    pub memory: &'a Memory,
    /// Which one this is.
    pub number: u64,
    /// Its draws.
    pub dice: Dice,
}

/// What a client does next.
#[derive(Clone, Copy, Debug)]
enum Act {
    Submit,
    SubmitByKey,
    Run,
    SubmitAndWait,
    DieSubmitting,
    Disturb,
}

const ACTS: &[Act] = &[
    Act::Submit,
    Act::Submit,
    Act::Submit,
    Act::Submit,
    Act::SubmitByKey,
    Act::SubmitByKey,
    Act::Run,
    Act::SubmitAndWait,
    Act::DieSubmitting,
    Act::Disturb,
    Act::Disturb,
];

impl Person<'_> {
    /// Submits until this many jobs are its own.
    ///
    /// # Errors
    /// A promise was broken, or a command did not end.
    pub fn live(mut self, jobs: u64) -> anyhow::Result<()> {
        let mut made = 0;
        let mut turn = 0;
        while made < jobs {
            let name = format!("p{}-{turn}", self.number);
            turn += 1;
            made += match self.dice.pick(ACTS) {
                Act::Submit => self.submit(name)?,
                Act::SubmitByKey => self.submit_by_key(name)?,
                Act::Run => self.wait_by("run", name)?,
                Act::SubmitAndWait => self.wait_by("submit", name)?,
                Act::DieSubmitting => self.die_submitting(name)?,
                Act::Disturb => self.disturb()?,
            };
        }
        Ok(())
    }

    /// A new submission: what it is and the words that make it.
    fn draw(&mut self, name: String, copies: u64) -> (Submission, Vec<String>) {
        let task = Task::any(self.script, &mut self.dice);
        let ntasks = self.dice.pick(&[1, 1, 1, 2, 3]);
        let mut words = vec![format!("--job-name={name}"), format!("-n{ntasks}")];
        if copies > 1 {
            words.push(format!("--cc=1-{copies}"));
        }
        if self.dice.percent(30) {
            words.push("--requeue".to_owned());
        }
        if self.dice.percent(10) {
            words.push("--urgency=hold".to_owned());
        }
        words.extend(task.words().into_iter().map(str::to_owned));
        let submission = Submission {
            name,
            count: copies,
            ntasks,
            code: task.code,
            ids: Vec::new(),
        };
        (submission, words)
    }

    fn command(&self, verb: &[&str], words: &[String]) -> anyhow::Result<Running> {
        let words: Vec<&str> = verb
            .iter()
            .copied()
            .chain(words.iter().map(String::as_str))
            .collect();
        self.instance.begin(&words)
    }

    fn remember(&self, submission: Submission) {
        self.memory
            .submissions
            .lock()
            .expect("nobody panics")
            .push(submission);
    }

    fn submit(&mut self, name: String) -> anyhow::Result<u64> {
        let copies = self.dice.pick(&[1, 1, 1, 4, 10]);
        let (mut submission, words) = self.draw(name, copies);
        let printed = self.command(&["submit"], &words)?.wait()?.ok()?;
        submission.ids = ids(&printed)?;
        let told = submission.ids.len() as u64;
        ensure!(
            told == copies,
            "{}: {told} ids for {copies} jobs",
            submission.name
        );
        self.remember(submission);
        Ok(copies)
    }

    /// Sends the same key again and again, as who loses answers would.
    fn submit_by_key(&mut self, name: String) -> anyhow::Result<u64> {
        let (mut submission, words) = self.draw(name, 1);
        let dry = self
            .command(&["submit", "--dry-run"], &words)?
            .wait()?
            .ok()?;
        let request = SubmitRequest {
            key: Uuid::now_v7(),
            jobspec: serde_json::from_str(&dry)?,
            cc: None,
            urgency: 16,
            waitable: Waitable::No,
            requeue: Requeue::OnNodeFailure,
            on_behalf: None,
        };
        let first = self.ask(&request)?;
        submission.ids = vec![first.0];
        let name = submission.name.clone();
        self.remember(submission);
        for _ in 0..self.dice.below(3) {
            moment(&mut self.dice, 100);
            let again = self.ask(&request)?;
            ensure!(
                again == first,
                "{name}: job {first} became {again} when its key came again"
            );
        }
        Ok(1)
    }

    /// On a connection of its own, so that it may meet another leader.
    fn ask(&self, request: &SubmitRequest) -> anyhow::Result<JobId> {
        let uri = self.instance.uri().parse()?;
        let submitted = on_this_thread(async {
            let client = Client::connect(&uri, Options::default()).await?;
            client.call::<Submit>(request).await
        })?;
        Ok(submitted.first)
    }

    fn wait_by(&mut self, verb: &str, name: String) -> anyhow::Result<u64> {
        let (submission, mut words) = self.draw(name, 1);
        // Nobody is there to let it go.
        words.retain(|word| word != "--urgency=hold");
        let verb: &[&str] = if verb == "run" {
            &["run"]
        } else {
            &["submit", "--quiet", "--watch"]
        };
        let running = self.command(verb, &words)?;
        let name = submission.name.clone();
        self.remember(submission);
        self.memory
            .waiters
            .lock()
            .expect("nobody panics")
            .push(Waiter { name, running });
        Ok(1)
    }

    /// A client that is killed at any moment; what it printed before is a promise.
    fn die_submitting(&mut self, name: String) -> anyhow::Result<u64> {
        let copies = self.dice.pick(&[1, 5]);
        let (mut submission, words) = self.draw(name, copies);
        let dying = self.command(&["submit"], &words)?;
        moment(&mut self.dice, 40);
        dying.signal(Signal::KILL)?;
        let Ran { out, .. } = dying.wait()?;
        let whole = out.rsplit_once('\n').map_or("", |(whole, _)| whole);
        submission.ids = ids(whole)?;
        self.remember(submission);
        Ok(copies)
    }

    fn disturb(&mut self) -> anyhow::Result<u64> {
        let jobs: Vec<u64> = {
            let submissions = self.memory.submissions.lock().expect("nobody panics");
            submissions
                .iter()
                .flat_map(|submission| submission.ids.iter().copied())
                .collect()
        };
        if jobs.is_empty() {
            return Ok(0);
        }
        let job = self.dice.pick(&jobs);
        // Before it is asked for: the answer may be lost, or the round end.
        self.memory
            .disturbed
            .lock()
            .expect("nobody panics")
            .push(job);
        let id = job.to_string();
        let words: &[&str] = match self.dice.below(6) {
            0 | 1 => &["cancel", &id],
            2 => &["job", "kill", "-s", "TERM", &id],
            3 => &["job", "kill", "-s", "KILL", &id],
            4 => &["job", "requeue", &id],
            _ => &["job", "urgency", &id, "0"],
        };
        // A job that is over, or not running, refuses; that is no failure.
        self.instance.run(words).map(|_| 0)
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
