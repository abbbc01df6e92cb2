//! The journals of a tree, read when nothing runs any more: which instance was
//! which job of which other, and what became of every job.
//!
//! `oracle` holds them against what people and tasks remember.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use eddy_cli_tests::running::Running;
use serde_json::Value;

/// The instance that an attempt of a job was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The job.
    pub job: u64,
    /// The attempt, from 1.
    pub attempt: u64,
    /// The instance's id.
    pub instance: String,
}

/// One record of a job.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The job.
    pub job: u64,
    /// When, in microseconds.
    pub t: i64,
    /// What it is called.
    pub name: String,
    /// What it says; null if nothing.
    pub context: Value,
}

/// One journal.
#[derive(Debug)]
pub struct Book {
    /// Its state directory.
    pub state: PathBuf,
    /// The instance's id.
    pub id: String,
    /// Rows of jobs that are over.
    pub rows: BTreeMap<u64, Value>,
    /// Names of the events of each job, in order.
    pub lives: BTreeMap<u64, Vec<String>>,
    /// Which of its jobs were instances.
    pub adopted: Vec<Adopted>,
    /// The attempt in which each job is, from 1.
    pub attempts: BTreeMap<u64, u64>,
}

/// Every journal below a root's state directory, the root's first.
///
/// # Errors
/// One cannot be read, or is not whole.
pub fn read(root: &Path) -> anyhow::Result<Vec<Book>> {
    let mut states = vec![root.to_owned()];
    let mut books = Vec::new();
    while let Some(state) = states.pop() {
        let journal = state.join("journal.db");
        // One that was killed as it made its journal has none yet.
        let made = "SELECT count(*) FROM sqlite_master WHERE name = 'meta'";
        let own = "SELECT count(*) FROM meta WHERE key = 'instance'";
        if journal.is_file() && sqlite(&journal, made)? == "1" && sqlite(&journal, own)? == "1" {
            books.push(book(&state).with_context(|| state.display().to_string())?);
        }
        let ranks = folders(&state.join("ranks"));
        states.extend(folders(&state.join("children")));
        states.extend(
            ranks
                .iter()
                .flat_map(|rank| folders(&rank.join("children"))),
        );
    }
    ensure!(
        books.first().is_some_and(|book| book.state == root),
        "the root has no journal"
    );
    Ok(books)
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(of) else {
        return Vec::new();
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.is_dir()).collect()
}

fn book(state: &Path) -> anyhow::Result<Book> {
    let journal = state.join("journal.db");
    let said = sqlite(&journal, "PRAGMA integrity_check")?;
    ensure!(said == "ok", "journal: {said}");
    let gaps = sqlite(&journal, "SELECT max(seq) - count(*) FROM event")?;
    ensure!(
        gaps == "0" || gaps.is_empty(),
        "journal: {gaps} records are missing"
    );
    let id = sqlite(&journal, "SELECT value FROM meta WHERE key = 'instance'")?;
    let mut book = Book {
        state: state.to_owned(),
        id,
        rows: BTreeMap::new(),
        lives: BTreeMap::new(),
        adopted: Vec::new(),
        attempts: BTreeMap::new(),
    };
    for line in sqlite(&journal, "SELECT id, row FROM job")?.lines() {
        let (job, row) = line.split_once('|').context("a row")?;
        book.rows.insert(job.parse()?, serde_json::from_str(row)?);
    }
    let events = "SELECT job, name, CASE name WHEN 'adopt' THEN context \
        WHEN 'submit' THEN ifnull(json_extract(context, '$.pass.attempt'), 1) \
        WHEN 'release' THEN ifnull(json_extract(context, '$.free') + ifnull(json_extract(context, '$.over'), 0), '') \
        WHEN 'alloc' THEN ifnull(json_extract(context, '$.passed.instance'), '') ELSE '' END FROM event \
        WHERE job > 0 AND name != 'id-block' ORDER BY seq";
    for line in sqlite(&journal, events)?.lines() {
        book.event(line).with_context(|| line.to_owned())?;
    }
    Ok(book)
}

impl Book {
    fn event(&mut self, line: &str) -> anyhow::Result<()> {
        let mut fields = line.splitn(3, '|');
        let mut field = || fields.next().context("three fields");
        let (job, name, context) = (field()?.parse()?, field()?, field()?);
        let life = self.lives.entry(job).or_default();
        // What a record stands for beside what it is called.
        let (before, behind) = match (name, context) {
            ("release", "2") => (None, &["free", "clean"][..]),
            ("release", "1") => (None, &["free"][..]),
            ("alloc", "") | ("release", _) => (None, &[][..]),
            ("alloc", _) => (Some("passed"), &[][..]),
            _ => (None, &[][..]),
        };
        let names = before
            .into_iter()
            .chain([name])
            .chain(behind.iter().copied());
        life.extend(names.map(str::to_owned));
        let attempt = self.attempts.entry(job).or_default();
        match name {
            // One that is passed down begins with the attempt that its parent says.
            "submit" => *attempt = context.parse()?,
            "requeue" => *attempt += 1,
            _ => {}
        }
        if name != "adopt" {
            return Ok(());
        }
        let adoption: Value = serde_json::from_str(context)?;
        let one = Adopted {
            job,
            attempt: *attempt,
            instance: adoption["instance"].as_str().unwrap_or_default().to_owned(),
        };
        if !self.adopted.contains(&one) {
            self.adopted.push(one);
        }
        Ok(())
    }

    /// The records of all its jobs, in order.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn entries(&self) -> anyhow::Result<Vec<Entry>> {
        let all = "SELECT job, t, name, context FROM event WHERE job > 0 ORDER BY seq";
        let text = sqlite(&self.state.join("journal.db"), all)?;
        let entry = |line: &str| {
            let mut fields = line.splitn(4, '|');
            let mut field = || fields.next().context("four fields");
            let (job, t) = (field()?.parse()?, field()?.parse()?);
            let (name, context) = (field()?.to_owned(), field()?);
            let context = match context {
                "" => Value::Null,
                text => serde_json::from_str(text)?,
            };
            anyhow::Ok(Entry {
                job,
                t,
                name,
                context,
            })
        };
        let entry = |line: &str| entry(line).with_context(|| line.to_owned());
        text.lines().map(entry).collect()
    }

    /// The name of a job that is over.
    pub fn name(&self, job: u64) -> Option<&str> {
        self.rows.get(&job)?["name"].as_str()
    }

    /// Its jobs of which more than one instance was one attempt.
    pub fn doubled(&self) -> Option<&Adopted> {
        let mut seen = BTreeSet::new();
        self.adopted
            .iter()
            .find(|one| !seen.insert((one.job, one.attempt)))
    }
}

fn sqlite(journal: &Path, sql: &str) -> anyhow::Result<String> {
    let mut command = Command::new("sqlite3");
    command.arg(journal).arg(sql).stdin(Stdio::null());
    Ok(Running::start(command)?.wait()?.ok()?.trim().to_owned())
}
