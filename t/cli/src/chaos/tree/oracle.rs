//! What was promised of a tree, checked when all is over: by the journals of
//! all its instances, by what people remember and by what tasks signed.
//!
//! An instance is *cut* if it, or one around it, was ended on purpose or lost
//! its node: then its jobs may be anything, but not doubled and not forgotten.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::journals::Book;
use super::people::Promise;
use super::scripts::{Ledger, Run};

/// All that is known of a round.
pub struct Known<'a> {
    /// All journals, the root's first.
    pub books: &'a [Book],
    /// What tasks wrote.
    pub ledger: &'a Ledger,
    /// What was accepted.
    pub promises: &'a [Promise],
    /// Jobs of the root and of queue instances that somebody disturbed.
    pub disturbed: &'a BTreeSet<u64>,
    /// Names of declared instances.
    pub declared: &'a [&'static str],
    /// Whether no shell was killed, so that no node can have failed.
    pub calm: bool,
}

impl Known<'_> {
    /// Everything.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn check(&self) -> anyhow::Result<()> {
        let cut = self.cut();
        for promise in self.promises {
            self.is_there(promise)?;
        }
        for (instance, job, name) in &self.ledger.accepted {
            let book = self.book(instance)?;
            holds(book, *job, name)?;
        }
        self.ran_at_most_once()?;
        self.ran_as_their_users()?;
        for book in self.books {
            let place = book.state.display();
            if let Some(twice) = book.doubled() {
                bail!("two instances were the same attempt: {twice:?} in {place}");
            }
            if cut.contains(&book.id) {
                continue;
            }
            self.all_ended(book).with_context(|| place.to_string())?;
        }
        for (run, what) in &self.ledger.trouble {
            let allowed = !self.calm || cut.contains(&run.instance);
            ensure!(allowed, "the workflow of {run:?} met: {what}");
        }
        Ok(())
    }

    fn book(&self, instance: &str) -> anyhow::Result<&Book> {
        let mut books = self.books.iter();
        books
            .find(|book| book.id == instance)
            .with_context(|| format!("instance {instance} has no journal"))
    }

    fn is_declared(&self, book: &Book) -> bool {
        let name = book.state.file_name().unwrap_or_default();
        self.declared.iter().any(|declared| name == *declared)
    }

    /// Whether somebody disturbed this job; they know only those of the root and of queues.
    fn is_disturbed(&self, book: &Book, job: u64) -> bool {
        let top = book.id == self.books[0].id || self.is_declared(book);
        top && self.disturbed.contains(&job)
    }

    /// Whether a declared instance lost a node: that ends its job of the time, and what ran in it.
    fn lost_a_node(&self, book: &Book) -> bool {
        let root = &self.books[0];
        let jobs = root.adopted.iter().filter(|one| one.instance == book.id);
        let mut rows = jobs.filter_map(|one| root.rows.get(&one.job));
        let lost = |row: &Value| {
            row["reason"]
                .as_str()
                .unwrap_or_default()
                .contains("node-failure")
        };
        self.is_declared(book) && rows.any(lost)
    }

    /// Ids of instances that are cut.
    fn cut(&self) -> BTreeSet<String> {
        let mut cut = BTreeSet::new();
        // Parents are looked at again and again: the depth is small.
        for _ in 0..=self.books.len() {
            let before = cut.len();
            for book in self.books {
                for adopted in &book.adopted {
                    if self.is_cut(book, adopted.job, adopted.attempt, &cut) {
                        cut.insert(adopted.instance.clone());
                    }
                }
            }
            if cut.len() == before {
                break;
            }
        }
        // A declared instance goes on in its next job.
        let declared = self.books.iter().filter(|book| self.is_declared(book));
        for book in declared {
            cut.remove(&book.id);
        }
        cut
    }

    fn is_cut(&self, book: &Book, job: u64, attempt: u64, cut: &BTreeSet<String>) -> bool {
        let Some(row) = book.rows.get(&job) else {
            return true;
        };
        let name = row["name"].as_str().unwrap_or_default();
        if self.declared.contains(&name) {
            return false;
        }
        let reason = row["reason"].as_str().unwrap_or_default();
        // A script that dies with its node leaves what waits in its instance.
        let script_died = !self.calm && row["returncode"] != number(name, "-c").unwrap_or_default();
        cut.contains(&book.id)
            || script_died
            || self.is_disturbed(book, job)
            || row["attempt"].as_u64() != Some(attempt)
            || reason.contains("node-failure")
    }

    fn is_there(&self, promise: &Promise) -> anyhow::Result<()> {
        let Promise {
            id, name, inside, ..
        } = promise;
        let root = &self.books[0];
        let Some(inside) = inside else {
            // All are the root's, also those that it passed down.
            let lost = || format!("job {id} of {name} was accepted and is lost");
            let life = root.lives.get(id).with_context(lost)?;
            let declared = self.books.iter().filter(|book| self.is_declared(book));
            let elsewhere = declared.filter(|book| book.lives.contains_key(id)).count();
            ensure!(
                elsewhere == 0 || life.iter().any(|event| event == "passed"),
                "job {id} of {name} is in two instances"
            );
            return holds(root, *id, name);
        };
        let declared = self.books.iter().filter(|book| self.is_declared(book));
        let children: BTreeSet<&str> = [root]
            .into_iter()
            .chain(declared)
            .flat_map(|book| &book.adopted)
            .filter(|adopted| adopted.job == *inside)
            .map(|adopted| adopted.instance.as_str())
            .collect();
        let mut there = self
            .books
            .iter()
            .filter(|book| children.contains(book.id.as_str()));
        ensure!(
            there.any(|book| holds(book, *id, name).is_ok()),
            "job {inside}/{id} of {name} was accepted and is lost"
        );
        Ok(())
    }

    /// Every task ran as the user whose job it was, at any depth.
    fn ran_as_their_users(&self) -> anyhow::Result<()> {
        for (run, user) in &self.ledger.users {
            let row = self.book(&run.instance)?.rows.get(&run.job);
            let owner = row.and_then(|row| row["userid"].as_u64());
            ensure!(
                owner.is_none_or(|owner| owner == u64::from(*user)),
                "{run:?} ran as user {user}, its job is {row:?}"
            );
        }
        Ok(())
    }

    fn ran_at_most_once(&self) -> anyhow::Result<()> {
        for (run, times) in &self.ledger.begun {
            ensure!(*times == 1, "{run:?} began {times} times");
            let own = self.book(&run.instance)?;
            // Attempts of what was passed down are counted by the root.
            let book = match self.was_passed(own, run.job) {
                true => &self.books[0],
                false => own,
            };
            let life = book.lives.get(&run.job);
            let life = life.with_context(|| format!("{run:?} ran and its job is not there"))?;
            let requeues = life.iter().filter(|name| *name == "requeue").count() as u64;
            ensure!(run.attempt <= requeues + 1, "{run:?} ran: {life:?}");
            let allocs = life.iter().filter(|name| *name == "alloc").count() as u64;
            ensure!(
                run.attempt <= allocs,
                "{run:?} ran without a grant: {life:?}"
            );
        }
        Ok(())
    }

    /// The instances in which tasks of a job may have run: those it was passed to, or its own.
    fn places(&self, book: &Book, job: u64) -> Vec<String> {
        let life = book.lives.get(&job);
        if life.is_none_or(|life| life.iter().all(|event| event != "passed")) {
            return vec![book.id.clone()];
        }
        let declared = self.books.iter().filter(|book| self.is_declared(book));
        let there = declared.filter(|book| book.lives.contains_key(&job));
        there.map(|book| book.id.clone()).collect()
    }

    /// Whether a job of a declared instance is one that the root passed to it.
    fn was_passed(&self, book: &Book, job: u64) -> bool {
        self.is_declared(book) && self.books[0].lives.contains_key(&job)
    }

    /// What was passed is over, each time; how it must have ended is asked of the root's row.
    fn passed_ended(life: &[String]) -> anyhow::Result<()> {
        let count = |name: &str| life.iter().filter(|event| *event == name).count();
        let last = life.last().map(String::as_str);
        ensure!(
            count("submit") == count("clean") && matches!(last, Some("clean" | "waited")),
            "{life:?}"
        );
        ensure!(count("alloc") == count("free"), "{life:?}");
        Ok(())
    }

    /// Every job of an instance that was not cut.
    fn all_ended(&self, book: &Book) -> anyhow::Result<()> {
        for (job, life) in &book.lives {
            if self.was_passed(book, *job) {
                Self::passed_ended(life).with_context(|| format!("job {job}"))?;
                continue;
            }
            let row = book.rows.get(job);
            let row = row.with_context(|| format!("job {job} is not over: {life:?}"))?;
            let count = |name: &str| life.iter().filter(|event| *event == name).count();
            let once = ["submit", "clean"];
            ensure!(
                once.iter().all(|name| count(name) == 1)
                    && life.last().is_some_and(|l| l == "clean"),
                "job {job}: {life:?}"
            );
            ensure!(count("alloc") == count("free"), "job {job}: {life:?}");
            let attempt = book.attempts.get(job).copied();
            ensure!(
                row["attempt"].as_u64() == attempt,
                "attempt {attempt:?}: {row}"
            );
            self.ended_as_it_must(book, *job, row)
                .with_context(|| format!("job {job}: {life:?}: {row}"))?;
        }
        Ok(())
    }

    fn ended_as_it_must(&self, book: &Book, job: u64, row: &Value) -> anyhow::Result<()> {
        let name = row["name"].as_str().unwrap_or_default();
        let result = row["result"].as_str().unwrap_or_default();
        let reason = row["reason"].as_str().unwrap_or_default();
        ensure!(
            ["COMPLETED", "FAILED", "CANCELED", "TIMEOUT"].contains(&result),
            "no named result"
        );
        if reason.contains("node-failure") {
            ensure!(!self.calm, "no node failed");
            return Ok(());
        }
        if self.is_disturbed(book, job) || self.declared.contains(&name) {
            return Ok(());
        }
        if reason.contains("the instance is shutting down") && self.lost_a_node(book) {
            return Ok(());
        }
        let (Some(code), kind) = (number(name, "-c"), name.split('-').next()) else {
            // The script of a workflow: its job outside is what is looked at.
            return Ok(());
        };
        let seen = row["returncode"].as_i64();
        match kind {
            Some("t") => {
                let ntasks = number(name, "-n").context("a name with -n")?;
                let attempt = row["attempt"].as_u64().unwrap_or_default();
                let places = self.places(book, job);
                let run = |(instance, task): (&String, u64)| Run {
                    instance: instance.clone(),
                    job,
                    attempt,
                    task,
                };
                let tasks = places
                    .iter()
                    .flat_map(|place| (0..ntasks as u64).map(move |task| (place, task)));
                let ended: BTreeMap<Run, i32> = tasks
                    .map(run)
                    .filter_map(|run| Some((run.clone(), *self.ledger.ended.get(&run)?)))
                    .collect();
                ensure!(
                    ended.len() as i64 == ntasks,
                    "{} of {ntasks} tasks came to their end",
                    ended.len()
                );
                ensure!(
                    ended.keys().all(|run| self.ledger.begun.contains_key(run)),
                    "a task ended that never began"
                );
                let truth = ended.values().max().copied().map(i64::from);
                ensure!(truth == Some(code), "its tasks ended with {truth:?}");
                ensure!(seen == truth, "recorded is {seen:?}, true is {truth:?}");
            }
            // Its script met what a node did, or was itself on it.
            Some("f") if !self.calm => return Ok(()),
            _ => ensure!(seen == Some(code), "its code was to be {code}"),
        }
        let wanted = if seen == Some(0) {
            "COMPLETED"
        } else {
            "FAILED"
        };
        ensure!(result == wanted, "its result was to be {wanted}");
        Ok(())
    }
}

/// Whether a journal has a job of that number and, if it is over, that name.
fn holds(book: &Book, job: u64, name: &str) -> anyhow::Result<()> {
    let place = book.state.display();
    ensure!(
        book.lives.contains_key(&job),
        "job {job} of {name} was accepted and is not in {place}"
    );
    let known = book.name(job);
    ensure!(
        known.is_none_or(|known| known == name),
        "job {job} was told to be {name} and is {known:?} in {place}"
    );
    Ok(())
}

/// The number behind the last `mark` of a name.
fn number(name: &str, mark: &str) -> Option<i64> {
    let (_, rest) = name.rsplit_once(mark)?;
    let digits = rest.split('-').next()?;
    digits.parse().ok()
}
