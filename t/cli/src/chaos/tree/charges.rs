//! Who had what, and for how long: the records of the root's journal against what it charged, and
//! against the limits of the accounts.
//!
//! Knows what a grant names on each node and when that was given back, nothing of the ledger. Asked
//! when every job is over, so that nothing is still being held.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use eddy_wire::grant::Grant;
use serde_json::Value;

use super::journals::{Book, Entry};
use super::terms::{ABOVE, FEW, Terms};

/// Core-microseconds.
type Used = u64;

/// What jobs had, by the records.
#[derive(Debug, Default)]
pub struct Charges {
    jobs: BTreeMap<u64, Job>,
    by_account: BTreeMap<String, Used>,
    uncharged: Used,
    /// How often a job was taken from.
    preempted: usize,
    /// How many were instances' ground, and came.
    grown: usize,
}

#[derive(Debug, Default)]
struct Job {
    account: String,
    /// Of each node that it has something of: since when, and how many cores.
    holds: BTreeMap<u32, (i64, u64)>,
    /// What it had of others in this attempt.
    had: Used,
    /// What ended the attempt: the first that does.
    ended_by: Option<String>,
}

impl Charges {
    /// Folds the journal of a root; the jobs that declared instances are, are nobody's.
    ///
    /// # Errors
    /// A record cannot be read, or more was held than a limit allows.
    pub fn of(book: &Book, declared: &[&str], terms: Terms) -> anyhow::Result<Charges> {
        let mut charges = Charges::default();
        let is_declared = |job: u64| book.name(job).is_some_and(|name| declared.contains(&name));
        for entry in book.entries()? {
            if !is_declared(entry.job) {
                charges.add(&entry, terms)?;
            }
        }
        let names = book.lives.iter().filter(|(_, life)| has(life, "alloc"));
        let mut names = names.filter_map(|(job, _)| book.name(*job));
        charges.grown = names.by_ref().filter(|name| name.starts_with("a-")).count();
        Ok(charges)
    }

    /// What came of accounts and QoS, for the line of the round.
    pub fn moves(&self) -> String {
        format!("{} preempted, {} grown", self.preempted, self.grown)
    }

    fn add(&mut self, entry: &Entry, terms: Terms) -> anyhow::Result<()> {
        let done = self.apply(entry).and_then(|()| self.within(terms));
        done.with_context(|| format!("{entry:?}"))
    }

    fn apply(&mut self, entry: &Entry) -> anyhow::Result<()> {
        let Entry {
            job, t, context, ..
        } = entry;
        let one = self.jobs.entry(*job).or_default();
        match entry.name.as_str() {
            "submit" => one.account = word(&context["party"]["account"]),
            "jobspec-update" => {
                if let Some(name) = context["attributes.system.account"].as_str() {
                    one.account = name.to_owned();
                }
            }
            "alloc" => one.holds(*t, &grant(context)?),
            "grant-changed" => one.holds(*t, &grant(context)?),
            "release" if context["free"] == true => return self.freed(*job, *t),
            "release" if context["final"] != true => one.gives(*t, &ranks(context)?),
            "free" => return self.freed(*job, *t),
            "requeue" => one.ended_by = None,
            "recalled" => drop(one.ended_by.get_or_insert("recalled".to_owned())),
            "exception" if context["severity"] == 0 => {
                one.ended_by.get_or_insert(word(&context["type"]));
            }
            "preempted" => self.preempted += 1,
            _ => {}
        }
        Ok(())
    }

    /// An attempt has given all back: somebody pays for it, unless its node failed or it never began
    /// where it was passed to.
    fn freed(&mut self, job: u64, t: i64) -> anyhow::Result<()> {
        let one = self.jobs.get_mut(&job).context("a job")?;
        one.gives(t, &one.holds.keys().copied().collect::<Vec<u32>>());
        let had = std::mem::take(&mut one.had);
        match one.ended_by.as_deref() {
            Some("node-failure" | "recalled") => self.uncharged += had,
            _ => *self.by_account.entry(one.account.clone()).or_default() += had,
        }
        Ok(())
    }

    /// No more is held now than the accounts may have.
    fn within(&self, terms: Terms) -> anyhow::Result<()> {
        let holding = self.jobs.values().filter(|job| !job.holds.is_empty());
        let cores = |job: &Job| job.holds.values().map(|(_, cores)| cores).sum::<u64>();
        let all: u64 = holding.clone().map(cores).sum();
        ensure!(
            all <= terms.cores_max,
            "jobs of {ABOVE} hold {all} cores, {} are allowed",
            terms.cores_max
        );
        let few = holding.filter(|job| job.account == FEW).count() as u64;
        ensure!(
            few <= terms.running_max,
            "{few} jobs of {FEW} hold something, {} are allowed",
            terms.running_max
        );
        Ok(())
    }

    /// Whether what the root told last is the same, and all parts of what there was are all there was.
    ///
    /// # Errors
    /// An account, or a sum, that is another.
    pub fn agree(&self, told: &Value) -> anyhow::Result<()> {
        let mut by_account: BTreeMap<String, Used> = BTreeMap::new();
        for row in told["usage"].as_array().context("rows of usage")? {
            let account = word(&row["account"]);
            *by_account.entry(account).or_default() += core(&row["charged"]);
            ensure!(core(&row["running"]) == 0, "nothing runs any more: {row}");
        }
        let some = |all: &BTreeMap<String, Used>| {
            let some = all.iter().filter(|(_, used)| **used > 0);
            some.map(|(name, used)| (name.clone(), *used))
                .collect::<BTreeMap<_, _>>()
        };
        let (told_of, right) = (some(&by_account), some(&self.by_account));
        ensure!(
            told_of == right,
            "charged is {told_of:?}, the records come to {right:?}"
        );
        let identity = &told["identity"];
        let of = |what: &str| core(&identity[what]);
        let sums = [
            ("charged", of("charged"), right.values().sum()),
            ("uncharged", of("uncharged"), self.uncharged),
            (
                "jobs and instances",
                of("jobs") + of("instances"),
                of("charged") + of("uncharged"),
            ),
        ];
        for (what, told, right) in sums {
            ensure!(told == right, "{what} is {told}, not {right}: {identity}");
        }
        parts_are_all(identity)
    }
}

impl Job {
    /// From now on it has this; what it had before and has no more, it gave back.
    fn holds(&mut self, t: i64, grant: &Grant) {
        let nodes = grant.set.nodes.iter();
        let now: BTreeMap<u32, u64> = nodes
            .map(|(rank, node)| (rank.0, node.cores.len()))
            .collect();
        let other = |(rank, (_, cores)): &(&u32, &(i64, u64))| now.get(rank) != Some(cores);
        let gone: Vec<u32> = self
            .holds
            .iter()
            .filter(other)
            .map(|(rank, _)| *rank)
            .collect();
        self.gives(t, &gone);
        for (rank, cores) in now {
            self.holds.entry(rank).or_insert((t, cores));
        }
    }

    fn gives(&mut self, t: i64, ranks: &[u32]) {
        for rank in ranks {
            if let Some((since, cores)) = self.holds.remove(rank) {
                self.had += (t - since).max(0) as u64 * cores;
            }
        }
    }
}

/// Each core-microsecond was for exactly one thing.
fn parts_are_all(identity: &Value) -> anyhow::Result<()> {
    const PARTS: [&str; 7] = [
        "jobs",
        "instances",
        "reserved",
        "maintenance",
        "idle",
        "drained",
        "down",
    ];
    let declared = identity["declared"].as_object();
    let declared = declared.into_iter().flat_map(|all| all.values()).map(core);
    let parts: Used = PARTS.iter().map(|part| core(&identity[*part])).sum();
    let parts = parts + declared.sum::<Used>();
    let capacity = core(&identity["capacity"]);
    ensure!(
        capacity > 0 && parts == capacity,
        "the parts are {parts}, the capacity is {capacity}: {identity}"
    );
    Ok(())
}

fn has(life: &[String], name: &str) -> bool {
    life.iter().any(|event| event == name)
}

fn core(amounts: &Value) -> Used {
    amounts["core_us"].as_u64().unwrap_or_default()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn grant(context: &Value) -> anyhow::Result<Grant> {
    Ok(serde_json::from_value(context.clone())?)
}

fn ranks(context: &Value) -> anyhow::Result<Vec<u32>> {
    let ranks: eddy_wire::idset::Idset = word(&context["ranks"]).parse()?;
    Ok(ranks.iter().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::chaos::dice::Dice;

    fn entry(job: u64, t: i64, name: &str, context: Value) -> Entry {
        let name = name.to_owned();
        Entry {
            job,
            t,
            name,
            context,
        }
    }

    /// So many jobs of an account begin at 0, and each has a whole node of two cores.
    fn begun(account: &str, jobs: u64, terms: Terms) -> anyhow::Result<Charges> {
        let mut charges = Charges::default();
        for job in 1..=jobs {
            let party = json!({ "party": { "account": account } });
            charges.add(&entry(job, 0, "submit", party), terms)?;
            let node = json!({ "rank": job.to_string(), "children": { "core": "0-1" } });
            let set = json!({
                "version": 1,
                "execution": { "R_lite": [node], "nodelist": [format!("n{job}")], "starttime": 0, "expiration": 0 },
            });
            let grant = json!({ "epoch": 1, "R": set, "shells": { job.to_string(): 1 } });
            charges.add(&entry(job, 0, "alloc", grant), terms)?;
        }
        Ok(charges)
    }

    fn terms() -> Terms {
        let mut terms = Terms::any(&mut Dice::of(0, 0), 8);
        (terms.cores_max, terms.running_max) = (6, 2);
        terms
    }

    fn told(account: &str, used: u64) -> Value {
        json!({
            "usage": [{ "account": account, "charged": { "core_us": used } }],
            "identity": {
                "capacity": { "core_us": 20 }, "idle": { "core_us": 20 - used },
                "charged": { "core_us": used }, "jobs": { "core_us": used },
            },
        })
    }

    #[test]
    fn more_than_an_account_may_have_is_seen() {
        assert!(begun(FEW, 2, terms()).is_ok());
        let error = begun(FEW, 3, terms()).expect_err("three of two");
        assert!(
            format!("{error:#}").contains("3 jobs of physics"),
            "{error:#}"
        );
        assert!(begun("chemistry", 3, terms()).is_ok());
        let error = begun("chemistry", 4, terms()).expect_err("eight of six");
        assert!(format!("{error:#}").contains("hold 8 cores"), "{error:#}");
    }

    #[test]
    fn a_charge_that_is_another_is_seen_and_so_is_what_nobody_had() -> anyhow::Result<()> {
        let mut charges = begun("chemistry", 1, terms())?;
        let gone = json!({ "ranks": "1", "final": true, "free": true });
        charges.add(&entry(1, 4, "release", gone), terms())?;
        charges.agree(&told("chemistry", 8))?;
        for wrong in [told("physics", 8), told("chemistry", 6)] {
            assert!(charges.agree(&wrong).is_err(), "{wrong}");
        }
        let mut lost = told("chemistry", 8);
        lost["identity"]["idle"]["core_us"] = json!(11);
        assert!(charges.agree(&lost).is_err(), "{lost}");
        Ok(())
    }
}
