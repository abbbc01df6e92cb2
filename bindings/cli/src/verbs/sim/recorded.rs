//! The recorded history of an instance as what `eddy sim` replays.
//!
//! Read from a state directory, whose leader may live meanwhile, or asked of an
//! instance. Only reads. What becomes of it the library knows.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use eddy_brokerd::history::records;
use eddy_sched::sim::{Machine, Owner, Past, PastRun, Terms, read_rows};
use eddy_wire::account::Name;
use eddy_wire::event::{Final, Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::resource::List;
use eddy_wire::time::{Span, Time};

use crate::listing::{Filter, Question, to_json};
use crate::names::Users;
use crate::session::Global;

/// What was recorded, and the nodes that there were.
pub struct Recorded {
    /// The jobs.
    pub past: Past,
    /// The nodes that the instance had last; `None` where they are not recorded.
    pub machine: Option<Machine>,
}

/// What the instance that is meant has in its listings: all of its jobs that it remembers.
pub fn of_instance(global: &Global) -> anyhow::Result<Recorded> {
    let users = Users::read();
    global.session(async |client| {
        let question = Question {
            filter: Filter::all(),
            ..Question::default()
        };
        let rows = question.rows(&client).await?;
        let rows: Vec<serde_json::Value> = rows.iter().map(|row| to_json(row, &users)).collect();
        let resources = client.call::<List>(&()).await?;
        Ok(Recorded {
            past: read_rows(&serde_json::to_vec(&rows)?)?,
            machine: machine(&resources.all),
        })
    })
}

/// What the journal of a state directory holds.
pub fn of_directory(statedir: &Path) -> anyhow::Result<Recorded> {
    let mut fold = Fold {
        jobs: BTreeMap::new(),
        nodes: None,
        last: Time(0),
        users: Users::read(),
    };
    records(statedir, |record| fold.take(record))?;
    Ok(fold.recorded())
}

fn machine(set: &ResourceSet) -> Option<Machine> {
    let machine = Machine::of(set);
    (machine.procs() > 0).then_some(machine)
}

/// Jobs as far as their records were read.
struct Fold {
    jobs: BTreeMap<JobId, Told>,
    nodes: Option<Arc<ResourceSet>>,
    last: Time,
    users: Users,
}

/// A job with what its fold forgets.
struct Told {
    job: Job,
    /// From when on it could have started, as this run.
    since: Time,
    freed: Option<Time>,
}

impl Fold {
    fn take(&mut self, record: &Record) {
        let t = record.event.t;
        self.last = self.last.max(t);
        if let Kind::ResourceDefine(nodes, _) = &record.event.kind {
            self.nodes = Some(Arc::clone(nodes));
        }
        let Some(id) = record.event.job else {
            return;
        };
        if let Some(job) = Job::from_record(record) {
            let (since, freed) = (t, None);
            let mut told = Told { job, since, freed };
            told.imply(record);
            self.jobs.insert(id, told);
            return;
        }
        if let Some(told) = self.jobs.get_mut(&id) {
            told.take(record);
        }
    }

    fn recorded(self) -> Recorded {
        let all = self.jobs.len() as u64;
        let users = &self.users;
        let runs = self.jobs.into_values();
        let runs: Vec<PastRun> = runs.filter_map(|told| told.run(users)).collect();
        Recorded {
            past: Past {
                left_out: all - runs.len() as u64,
                runs,
                last: self.last,
            },
            machine: self.nodes.and_then(|nodes| machine(&nodes)),
        }
    }
}

impl Told {
    fn take(&mut self, record: &Record) {
        let t = record.event.t;
        match &record.event.kind {
            Kind::Depend => self.since = t,
            Kind::Urgency(urgency, _) if self.job.urgency == 0 && *urgency > 0 => self.since = t,
            Kind::Requeue(_) => (self.since, self.freed) = (t, None),
            // Of what ended elsewhere `free` is of when that was heard.
            Kind::Release(_, Final::Yes | Final::Free(_) | Final::Over(_)) | Kind::Free => {
                self.freed = self.freed.or(Some(t))
            }
            // What else happens to a job does not say from when on it could start, or had its cores.
            _ => {}
        }
        // A record that is out of turn was refused when it was made: there is none.
        let _ = self.job.apply(record);
        self.imply(record);
    }

    fn imply(&mut self, record: &Record) {
        if let Some(implied) = record.implied() {
            let _ = self.job.apply(&implied);
        }
    }

    /// Its last run; `None` if it was not started or takes nothing.
    fn run(self, users: &Users) -> Option<PastRun> {
        let Told { job, since, freed } = self;
        let grant = job.placed()?;
        let procs = grant.set.ncores();
        let start = job.t_alloc.filter(|_| procs > 0)?;
        let party = &job.submit.party;
        let system = &job.submit.spec.jobspec.attributes.system;
        let account = party.account.as_ref().map(Name::as_str);
        let asked = [&system.account, &system.bank, &system.project];
        let asked = asked.into_iter().find_map(|name| name.as_deref());
        let named = |name: &Option<Name>| name.as_ref().map(|name| name.as_str().to_owned());
        let request = &job.submit.spec.request;
        Some(PastRun {
            id: job.id.0,
            since,
            start,
            end: freed,
            limit: request.duration.map(Span),
            procs,
            nodes: request.granted(&grant.set).nodes.map(u64::from),
            ranks: grant
                .set
                .nodes
                .iter()
                .map(|(rank, node)| (rank.0, node.cores.len()))
                .collect(),
            request: Some(request.clone()),
            owner: Owner::new(account.or(asked), &users.name(job.submit.user)),
            terms: Terms {
                queue: system.queue.clone().unwrap_or_default(),
                qos: named(&party.qos),
                class: named(&party.class),
                urgency: job.urgency,
            },
        })
    }
}
