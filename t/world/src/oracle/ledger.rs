//! The oracle's own fold of records: jobs, who holds what, keys, values.
//!
//! Two of them are kept: one of all that was recorded, one of what is durable. It shares nothing
//! with the modules but the fold of one job.

mod forgetting;
mod ground;
mod submitted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_modules::live::{By, Change};
use eddy_wire::event::{Final, Kind, Record};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Epoch, JobId, Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::job::Job;
use eddy_wire::jobspec::{Leader, Takes, Work};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::suspension::Standing;
use eddy_wire::time::Time;
use eddy_wire::update;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::order::Order;
use super::waits;
pub use submitted::Below;

/// What the records say.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Every job there ever was.
    pub jobs: BTreeMap<JobId, Job>,
    order: BTreeMap<JobId, Order>,
    /// Who holds what now.
    pub held: BTreeMap<JobId, Arc<Grant>>,
    /// Which job a submission's copy became.
    pub keys: BTreeMap<(u32, Uuid, u32), JobId>,
    /// The inventory.
    pub inventory: Arc<ResourceSet>,
    /// Shells in service and their ranks.
    pub shells: BTreeMap<Epoch, Idset>,
    /// Ranks out of service by order.
    pub drained: Idset,
    /// Named values and the record that set each.
    pub values: BTreeMap<String, (Value, Seq)>,
    /// Every value ever put under a key.
    pub puts: BTreeSet<(String, String)>,
    /// Every fatal or other exception, by type.
    pub exceptions: BTreeSet<(JobId, String)>,
    /// Blocks of job numbers drawn from the parent.
    pub blocks: BTreeMap<u64, (JobId, u64)>,
    /// The policy that was set last, and the one that was configured then.
    pub policy: Option<(String, String)>,
    /// The configuration that was changed last.
    pub configuration: Option<Change>,
    /// Jobs whose tasks had started, in whatever attempt.
    pub started: BTreeSet<JobId>,
    /// Every urgency ever set.
    pub urgencies: BTreeSet<(JobId, u8)>,
    /// Jobs whose time limit was changed.
    pub limited: BTreeSet<JobId>,
    /// The keys of requests that were done once.
    pub done: BTreeSet<Uuid>,
    /// The leader's epoch.
    pub leader: Epoch,
    /// What instances in this one did with jobs of it while it was away.
    below: BTreeMap<JobId, Below>,
    /// Jobs that an instance in this one took, and said that they wait there.
    waits_below: BTreeSet<JobId>,
    /// Jobs that this instance took itself and its parent has taken since.
    ordered: BTreeSet<JobId>,
    /// Those of them that it began before.
    pub begun_alone: BTreeSet<JobId>,
    /// What was seen of that for which jobs wait.
    pub waits: waits::Seen,
    /// Jobs that are about to be granted something in an instance.
    passed: BTreeMap<JobId, String>,
    /// Jobs that were granted something in an instance, and which.
    pub away: BTreeMap<JobId, String>,
    /// What nodes are called in the instances that jobs are, or were called, by those names.
    names: BTreeMap<JobId, BTreeMap<Rank, Rank>>,
    /// The ranks whose shells were lost while jobs held something of them, in this attempt.
    fallen: BTreeMap<JobId, Idset>,
    last_t: Time,
    last: Seq,
    /// What the last record implies, which is folded next.
    implied: Option<Kind>,
    course: Course,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Course {
    #[default]
    Stopped,
    Serving,
}

impl Ledger {
    /// Folds a record; the sentence of the rule it breaks, if it does.
    pub fn apply(&mut self, record: &Record) -> Result<(), String> {
        let implied = self.implied.take();
        let is_implied = record.seq == self.last && implied.as_ref() == Some(&record.event.kind);
        let is_next = record.seq == self.last.next() && implied.is_none();
        if !is_implied && !is_next {
            return Err(format!(
                "record {} follows record {}",
                record.seq, self.last
            ));
        }
        if record.event.t < self.last_t && !self.is_of_below(record) {
            let (t, last) = (record.event.t, self.last_t);
            return Err(format!(
                "record {} is of {t}, before {last} of the last",
                record.seq
            ));
        }
        (self.last, self.last_t) = (record.seq, self.last_t.max(record.event.t));
        self.implied = record.event.kind.implied();
        match record.event.job {
            Some(job) => self.apply_job(job, record),
            None => self.apply_own(record),
        }
    }

    /// The last record folded.
    pub fn last(&self) -> Seq {
        self.last
    }

    fn apply_job(&mut self, id: JobId, record: &Record) -> Result<(), String> {
        let kind = &record.event.kind;
        let name = kind.name();
        if self.course == Course::Stopped {
            return Err(format!("`{name}` of job {id} after `leader-stop`"));
        }
        let order = self.order.entry(id).or_default();
        order
            .take(kind)
            .map_err(|rule| format!("job {id}: {rule} (record {} `{name}`)", record.seq))?;
        if let Kind::Submit(submit) = kind {
            return self.submit(id, submit, record);
        }
        let Some(job) = self.jobs.get_mut(&id) else {
            return Err(format!("`{name}` of job {id}, which nobody submitted"));
        };
        job.apply(record)
            .map_err(|illegal| format!("job {id}: {illegal}"))?;
        if let Some(to) = kind.passed_to() {
            self.passed.insert(id, to.instance.clone());
        }
        match kind {
            Kind::Alloc(grant) => {
                if self.is_unordered(id) {
                    self.begun_alone.insert(id);
                }
                self.alloc(id, grant)?;
                self.names.remove(&id);
                self.fallen.remove(&id);
                self.name(id, None, grant);
            }
            Kind::GrantChanged(grant) => self.changed(id, grant)?,
            Kind::Start => {
                self.started.insert(id);
            }
            Kind::DependencyRemove(what) if what == "singleton" => {
                waits::may_be_single(self, &self.jobs[&id], record.event.t)?;
                self.waits.single.insert(id);
            }
            Kind::Memo(memo) if memo.contains_key("ordered-above") => {
                self.ordered.insert(id);
            }
            Kind::Memo(memo) if memo.contains_key("waits-below") => {
                self.waits_below.insert(id);
            }
            Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)) => {
                self.held.remove(&id);
            }
            Kind::Exception(exception) => {
                self.exceptions.insert((id, exception.kind.clone()));
            }
            Kind::Urgency(urgency, _) => {
                self.urgencies.insert((id, *urgency));
            }
            Kind::JobspecUpdate(map) if update::duration(map).is_some() => {
                self.limited.insert(id);
            }
            _ => {}
        }
        self.waits(id, record)
    }

    /// Nobody starts before what it waits for.
    fn waits(&self, id: JobId, record: &Record) -> Result<(), String> {
        let job = &self.jobs[&id];
        match &record.event.kind {
            Kind::Depend => waits::may_go(self, job, record.event.t),
            Kind::Alloc(_) => waits::is_throttled(self, job),
            // Of what is the parent's it says so.
            Kind::Exception(exception)
                if exception.kind == "dependency" && job.submit.pass.is_none() =>
            {
                waits::may_fail(self, job, record.event.t)
            }
            _ => Ok(()),
        }
    }

    /// A resource has one holder, and only what there is can be held, where it can be asked for.
    fn alloc(&mut self, id: JobId, grant: &Arc<Grant>) -> Result<(), String> {
        let beside = self.jobs[&id].submit.spec.request.takes == Takes::Nothing;
        if beside && grant.set.nodes.values().any(|node| !node.is_empty()) {
            let taken = places(&grant.set);
            return Err(format!(
                "job {id} runs beside others and was granted {taken}"
            ));
        }
        if !self.inventory.contains(&grant.set) {
            return Err(format!(
                "job {id} was granted what the instance does not have"
            ));
        }
        self.is_like(id, &*self.without_seat(id, &grant.set)?)?;
        if let Work::Ground { of } = self.jobs[&id].submit.spec.request.work {
            self.apart(id, of, &grant.set)?;
        }
        let to = self.passed.remove(&id);
        let ground = to.as_ref().map(|name| self.ground(name));
        if let (Some(to), Some(ground)) = (&to, &ground) {
            let has = ground.and_then(|ground| self.held.get(&ground));
            let is_its = |has: &Arc<Grant>| {
                let elastic = has.set.nodes.values().all(|node| node.is_empty());
                match elastic {
                    true => has.set.ranks().contains_all(&grant.set.ranks()),
                    false => has.set.contains(&grant.set),
                }
            };
            if !has.is_some_and(is_its) {
                return Err(format!(
                    "job {id} was granted what instance {to} does not have"
                ));
            }
        }
        for (other, held) in &self.held {
            if ground != Some(Some(*other)) && held.set.intersects(&grant.set) {
                let (theirs, ours) = (places(&held.set), places(&grant.set));
                return Err(format!(
                    "granted twice: {theirs} to job {other}, {ours} to job {id}"
                ));
            }
        }
        for (rank, node) in &grant.set.nodes {
            self.memory_fits((id, ground.flatten()), *rank, node.memory)?;
            let serving = grant
                .shells
                .get(rank)
                .and_then(|shell| self.shells.get(shell));
            // What is passed down runs under the shells of its instance.
            if to.is_none() && serving.is_none_or(|ranks| !ranks.contains(rank.0)) {
                return Err(format!(
                    "job {id} was granted rank {rank} of a shell not in service"
                ));
            }
            // What runs beside others does so on drained ranks too.
            let is_taken = !beside && !node.is_empty();
            if self.drained.contains(rank.0) && is_taken && !self.has_begun_below(id) {
                return Err(format!(
                    "job {id} was granted rank {rank}, which is drained"
                ));
            }
        }
        self.held.insert(id, Arc::clone(grant));
        match to {
            Some(to) => self.away.insert(id, to),
            None => self.away.remove(&id),
        };
        Ok(())
    }

    /// What is granted without the seat of a leader that is to be beside the root's: it is the first of the ranks.
    fn without_seat(&self, id: JobId, set: &Arc<ResourceSet>) -> Result<Arc<ResourceSet>, String> {
        let spec = &self.jobs[&id].submit.spec;
        if spec.jobspec.leader() == Leader::Node {
            return Ok(Arc::clone(set));
        }
        match set.nodes.keys().next() {
            Some(Rank(0)) => Ok(set.of_something()),
            first => Err(format!(
                "the leader of job {id} is to be beside its parent's, and its first rank is {first:?}"
            )),
        }
    }

    /// The nodes that a job is granted are as it asks, and so many.
    fn is_like(&self, id: JobId, set: &ResourceSet) -> Result<(), String> {
        let submit = &self.jobs[&id].submit;
        let (request, given) = (&submit.spec.request, set.nodes.len() as u32);
        let wider = || request.wider(given).last() == Some(&given);
        if request.takes == Takes::Resources
            && request
                .nodes
                .is_some_and(|least| least != given && !wider())
        {
            return Err(format!(
                "job {id} was granted {given} nodes, which it does not ask for"
            ));
        }
        let Some(constraint) = &submit.spec.request.constraint else {
            return Ok(());
        };
        if submit.pass.is_some() {
            // The numbers that it names are those of its parent, which has a judge of its own.
            return Ok(());
        }
        let others = set.ranks().difference(&constraint.ranks(&self.inventory));
        match others.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "job {id} was granted ranks {others}, which are not as it asks: {constraint}"
            )),
        }
    }

    /// What an instance grows by is where it has nothing, and is given while it runs.
    fn apart(&self, id: JobId, of: JobId, set: &ResourceSet) -> Result<(), String> {
        let Some(its) = self.ground_of(of) else {
            return Err(format!(
                "job {id} is ground for job {of}, which does not run"
            ));
        };
        match !its.is_disjoint(&set.ranks()) {
            true => Err(format!(
                "job {id} is ground for job {of} on a node where that is already"
            )),
            false => Ok(()),
        }
    }

    /// A grant changes step by step: nodes of an instance come and go, and only those that it has
    /// nothing of may come.
    fn changed(&mut self, id: JobId, grant: &Arc<Grant>) -> Result<(), String> {
        let Some(held) = self.held.get(&id).cloned() else {
            return Err(format!("the grant of job {id} changes, and it holds none"));
        };
        if grant.epoch != held.epoch.next() {
            let (new, old) = (grant.epoch, held.epoch);
            return Err(format!("grant {new} of job {id} follows {old}"));
        }
        if self.jobs[&id].submit.spec.request.work == Work::Tasks {
            self.paced(id, &held, grant)?;
            self.held.insert(id, Arc::clone(grant));
            return Ok(());
        }
        let has = |(rank, node): (&Rank, &NodeSet)| held.set.nodes.get(rank) == Some(node);
        let taken = |(rank, node): &(&Rank, &NodeSet)| !node.is_empty() && !has((rank, node));
        if grant.set.nodes.iter().any(|one| taken(&one)) {
            let taken = places(&grant.set);
            return Err(format!("the grant of job {id} changes to {taken}"));
        }
        self.stays(id, &held, grant)?;
        for (rank, shell) in &grant.shells {
            let come = !held.shells.contains_key(rank);
            let serves = self.shells.get(shell);
            if come && serves.is_none_or(|ranks| !ranks.contains(rank.0)) {
                return Err(format!(
                    "rank {rank} came to job {id} with a shell not in service"
                ));
            }
        }
        self.beside(id, grant)?;
        self.name(id, Some(&held), grant);
        self.held.insert(id, Arc::clone(grant));
        Ok(())
    }

    /// What is suspended gives back its cores and nothing else, and goes on with as many on each node,
    /// that nobody else has. `self` has folded the record.
    fn paced(&self, id: JobId, held: &Grant, grant: &Grant) -> Result<(), String> {
        let standing = self.jobs[&id].suspension.standing();
        let counts = |set: &ResourceSet| -> Vec<(Rank, u64, Idset, u64)> {
            let nodes = set.nodes.iter();
            let count = |(rank, node): (&Rank, &NodeSet)| {
                (*rank, node.cores.len(), node.gpus.clone(), node.memory)
            };
            nodes.map(count).collect()
        };
        let (before, after) = (counts(&held.set), counts(&grant.set));
        let rest = |all: &[(Rank, u64, Idset, u64)]| {
            let all = all.iter();
            let rest = all.map(|(rank, _, gpus, memory)| (*rank, gpus.clone(), *memory));
            rest.collect::<Vec<_>>()
        };
        if rest(&before) != rest(&after) || held.shells != grant.shells {
            return Err(format!("job {id} is suspended and loses more than cores"));
        }
        let cores = |all: &[(Rank, u64, Idset, u64)]| all.iter().map(|one| one.1).sum::<u64>();
        match standing {
            Standing::Suspended if cores(&after) == 0 => Ok(()),
            Standing::Runs if cores(&before) == 0 && cores(&after) > 0 => self.alone(id, grant),
            Standing::Runs | Standing::Stopping | Standing::Suspended | Standing::Resuming => {
                let places = places(&grant.set);
                Err(format!("job {id}, {standing:?}, changes to {places}"))
            }
        }
    }

    /// Nobody else has any of these cores.
    fn alone(&self, id: JobId, grant: &Grant) -> Result<(), String> {
        let ground = self.away.get(&id).and_then(|name| self.ground(name));
        let mut others = self
            .held
            .iter()
            .filter(|(other, _)| **other != id && Some(**other) != ground);
        let clashes = |other: &Grant| {
            grant.set.nodes.iter().any(|(rank, node)| {
                let theirs = other.set.nodes.get(rank);
                theirs.is_some_and(|theirs| !theirs.cores.is_disjoint(&node.cores))
            })
        };
        match others.find(|(_, other)| clashes(other)) {
            Some((other, _)) => Err(format!("job {id} goes on with cores of job {other}")),
            None => Ok(()),
        }
    }

    /// The leader of an instance stays where it is, and so does what a declared one holds.
    fn stays(&self, id: JobId, held: &Grant, grant: &Grant) -> Result<(), String> {
        let request = &self.jobs[&id].submit.spec.request;
        let is_fixed = match &request.work {
            Work::Tasks => {
                return Err(format!(
                    "the grant of job {id} changes, which is no instance"
                ));
            }
            Work::Ground { .. } => return Ok(()),
            Work::Instance { name } => name.is_some() && request.takes == Takes::Resources,
        };
        let first = |grant: &Grant| grant.set.nodes.keys().next().copied();
        // Where it was passed to, other ranks may be the lowest.
        if first(grant) != first(held) && !held.shells.is_empty() {
            return Err(format!("the node of the leader of job {id} has left it"));
        }
        match is_fixed && grant.set.nodes != held.set.nodes {
            true => Err(format!("declared instance {id} lost what it holds")),
            false => Ok(()),
        }
    }

    /// Counts the nodes where an instance has ground and had none before.
    fn name(&mut self, id: JobId, before: Option<&Arc<Grant>>, grant: &Grant) {
        let names = self.names.entry(id).or_default();
        let all = |grant: &Grant| -> BTreeSet<Rank> {
            let ranks = grant.shells.keys().chain(grant.beside.keys());
            ranks.copied().collect()
        };
        let before = before.map_or_else(BTreeSet::new, |before| all(before));
        for rank in all(grant).difference(&before) {
            let number = names.len() as u32;
            names.insert(Rank(number), *rank);
        }
    }

    fn memory_fits(
        &self,
        (id, ground): (JobId, Option<JobId>),
        rank: Rank,
        asked: u64,
    ) -> Result<(), String> {
        let on_rank = |set: &ResourceSet| set.nodes.get(&rank).map_or(0, |node| node.memory);
        let others = self
            .held
            .iter()
            .filter(|(other, _)| Some(**other) != ground);
        let taken: u64 = others.map(|(_, grant)| on_rank(&grant.set)).sum();
        let total = on_rank(&self.inventory);
        match total > 0 && taken + asked > total {
            true => Err(format!(
                "job {id} was granted {asked} bytes on rank {rank}; {taken} of {total} are taken"
            )),
            false => Ok(()),
        }
    }

    fn apply_own(&mut self, record: &Record) -> Result<(), String> {
        match &record.event.kind {
            Kind::LeaderStart(epoch) => {
                if *epoch <= self.leader {
                    return Err(format!("leader epoch {epoch} after {}", self.leader));
                }
                (self.leader, self.course) = (*epoch, Course::Serving);
                return Ok(());
            }
            kind if self.course == Course::Stopped => {
                return Err(format!("`{}` after `leader-stop`", kind.name()));
            }
            Kind::LeaderStop => self.stop()?,
            Kind::ResourceDefine(set, _) => {
                self.inventory = Arc::clone(set);
                self.drained = self.drained.intersect(&set.ranks());
            }
            Kind::ShellStart(ranks, epoch) => {
                // A node has one shell; it may come to serve more ranks.
                let beside = |(other, served): &(&Epoch, &Idset)| {
                    *other != epoch && !served.is_disjoint(ranks)
                };
                if let Some((other, _)) = self.shells.iter().find(beside) {
                    return Err(format!("shell {epoch} was started beside {other}"));
                }
                let kept = self.shells.get(epoch);
                if kept.is_some_and(|served| !ranks.contains_all(served)) {
                    return Err(format!("shell {epoch} lost ranks: it serves {ranks}"));
                }
                self.shells.insert(*epoch, ranks.clone());
            }
            Kind::ShellLost(epoch, _) => {
                let ranks = self.shells.remove(epoch);
                self.fall(&ranks.ok_or(format!("shell {epoch} was lost and not in service"))?);
            }
            Kind::IdBlock(block) => {
                self.blocks.insert(block.number, (block.first, block.count));
            }
            Kind::Memo(memo) => {
                self.done_once(memo)?;
                self.configured(memo);
            }
            Kind::Drain(ranks, ..) => self.drained = self.drained.union(ranks),
            Kind::GiveBack(ranks) if !self.drained.contains_all(ranks) => {
                return Err(format!("ranks {ranks} go back and are in service"));
            }
            Kind::GiveBack(_) => {}
            Kind::Undrain(ranks, _) => self.drained = self.drained.difference(ranks),
            Kind::Put(key, value, _) => {
                self.puts.insert((key.clone(), value.to_string()));
                self.values.insert(key.clone(), (value.clone(), record.seq));
            }
            Kind::Delete(key, _) => {
                self.values.remove(key);
            }
            // Held against all records by what is asked of brokers, and by `limits`.
            Kind::Account(_) | Kind::Queue(_) | Kind::Reservation(_) => {}
            kind if kind.sums_up() => {}
            other => return Err(format!("`{}` belongs to a job", other.name())),
        }
        Ok(())
    }

    fn configured(&mut self, memo: &Map<String, Value>) {
        let text = |of: &Value| of.as_str().map(str::to_owned);
        if let Some(policy) = memo.get("policy") {
            self.policy = text(&policy["text"]).zip(text(&policy["over"]));
        }
        if let Some(change) = Change::told(memo) {
            if change.by == By::Reload {
                self.policy = None;
            }
            self.configuration = Some(change);
        }
    }

    /// What is done once is not done again.
    fn done_once(&mut self, memo: &Map<String, Value>) -> Result<(), String> {
        let Some(done) = memo.get("done") else {
            return Ok(());
        };
        let key = done["once"].as_str().and_then(|key| key.parse().ok());
        let key: Uuid = key.ok_or("a request was done once under no key")?;
        match self.done.insert(key) {
            true => Ok(()),
            false => Err(format!("request {key} was done twice")),
        }
    }

    fn stop(&mut self) -> Result<(), String> {
        self.course = Course::Stopped;
        match self.held.keys().next() {
            Some(job) => Err(format!("`leader-stop` while job {job} holds resources")),
            None => Ok(()),
        }
    }
}

/// Nodes with their cores and GPUs, for people.
pub fn places(set: &ResourceSet) -> String {
    let parts = set.nodes.values().map(|node| match node.gpus.is_empty() {
        true => format!("{}/{}", node.host, node.cores),
        false => format!("{}/{}+gpu{}", node.host, node.cores, node.gpus),
    });
    parts.collect::<Vec<_>>().join(" ")
}
