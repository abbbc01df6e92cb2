//! An instance of several ranks for tests: the pure broker with all modules and
//! a planner, everything durable at once. Shells are what the test says.

use std::sync::Arc;

use eddy_broker::broker::Identity;
use eddy_broker::effect::{Query, QueryTag};
use eddy_broker::{Arrival, Broker, ClientId, Effect, Output};
use eddy_modules::{Settings, leader};
use eddy_sched::Lines;
use eddy_wire::Time;
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::message::{Message, Roles};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::shell::{Ended, FromShell, Part, PartState, Start, ToShell};
use serde_json::{Value, json};

/// When everything begins, in microseconds.
const BEGIN: i64 = 1_700_000_000_000_000;

pub struct Instance {
    pub settings: Settings,
    pub broker: Broker,
    planner: Lines,
    pub now: Time,
    pub records: Vec<Arc<Record>>,
    /// What shells were told since it was last looked at.
    pub told: Vec<(Epoch, ToShell)>,
    pub launched: Vec<(String, Epoch)>,
    pub checked: Vec<Epoch>,
    /// The shells that agents are to end.
    pub ended: Vec<(Rank, Epoch)>,
    /// Bodies of answers since they were last looked at.
    pub answers: Vec<String>,
    /// What the journal was asked and has not answered.
    pub queries: Vec<(QueryTag, Query)>,
    keys: u128,
    /// Who asks.
    pub sender: (u32, Roles),
}

fn broker(settings: &Settings) -> Broker {
    let identity = Identity {
        instance: "test".to_owned(),
        version: "0".to_owned(),
        owner: 0,
        path: String::new(),
        depth: 0,
        parent: None,
        declared: None,
    };
    Broker::new(identity, leader(settings))
}

pub fn part(job: u64, rank: u32) -> Part {
    Part {
        job: JobId(job),
        attempt: Attempt(1),
        rank: Rank(rank),
    }
}

pub fn ended(status: i32, note: Option<&str>) -> Ended {
    Ended {
        t: Time(BEGIN),
        status,
        note: note.map(str::to_owned),
        tasks: Default::default(),
    }
}

impl Instance {
    /// So many ranks of 4 cores, rank 0 local, none reached; not yet resumed.
    pub fn asleep(ranks: u32) -> Instance {
        let node = |rank: u32| NodeSet {
            host: format!("n{rank}").into(),
            cores: Idset::range(0, 3),
            gpus: Idset::new(),
            memory: 0,
            ..NodeSet::default()
        };
        let set = ResourceSet {
            nodes: (0..ranks).map(|rank| (Rank(rank), node(rank))).collect(),
            ..ResourceSet::default()
        };
        let settings = Settings {
            local: Idset::one(0),
            ..Settings::for_inventory(Arc::new(set))
        };
        Instance {
            broker: broker(&settings),
            settings,
            planner: Lines::new(),
            now: Time(BEGIN),
            records: Vec::new(),
            told: Vec::new(),
            launched: Vec::new(),
            checked: Vec::new(),
            ended: Vec::new(),
            answers: Vec::new(),
            queries: Vec::new(),
            keys: 0,
            sender: (u32::MAX, Roles::OWNER),
        }
    }

    /// The same, serving, all ranks reached and their shells there: the shell of
    /// rank r has epoch r + 1.
    pub fn with(ranks: u32) -> Instance {
        let mut instance = Instance::asleep(ranks);
        instance.resume();
        instance.reach(&Idset::range(0, ranks - 1).to_string());
        (1..=u64::from(ranks)).for_each(|epoch| instance.hello(epoch, &[]));
        instance.clear();
        instance
    }

    pub fn clear(&mut self) {
        self.told.clear();
        self.launched.clear();
        self.checked.clear();
        self.ended.clear();
        self.answers.clear();
        self.queries.clear();
    }

    pub fn resume(&mut self) {
        let output = self.broker.resume(self.now, self.broker.last(), None);
        self.take(output);
    }

    /// The leader dies and another one reads all records.
    pub fn restart(&mut self) {
        self.broker = broker(&self.settings);
        self.planner = Lines::new();
        for record in &self.records {
            self.broker.replay(record);
        }
        self.clear();
        self.resume();
    }

    pub fn act(&mut self, arrival: Arrival) {
        let output = self.broker.handle(self.now, arrival);
        self.take(output);
    }

    fn take(&mut self, output: Output) {
        let mut outputs = vec![output];
        while let Some(output) = outputs.pop() {
            let is_news = !output.records.is_empty();
            self.records.extend(output.records);
            let mut deltas = None;
            for effect in output.effects {
                match effect {
                    Effect::Shell(epoch, message) => self.told.push((epoch, message)),
                    Effect::LaunchShell(ranks, epoch) => {
                        self.launched.push((ranks.to_string(), epoch));
                    }
                    Effect::CheckShell(_, epoch) => self.checked.push(epoch),
                    Effect::EndShell(rank, epoch) => self.ended.push((rank, epoch)),
                    Effect::Reply(reply) => {
                        let body = String::from_utf8_lossy(&reply.body).into_owned();
                        self.answers.push(body);
                    }
                    Effect::Query(tag, query) => self.queries.push((tag, query)),
                    Effect::Plan(more) => deltas.get_or_insert_with(Vec::new).extend(more),
                    _ => {}
                }
            }
            if is_news {
                let durable = Arrival::Durable(self.broker.last());
                outputs.push(self.broker.handle(self.now, durable));
            }
            if let Some(deltas) = deltas {
                deltas
                    .into_iter()
                    .for_each(|delta| self.planner.apply(delta));
                let outcome = self.planner.plan(self.now, 1000);
                outputs.push(self.broker.handle(self.now, Arrival::Planned(outcome)));
            }
        }
    }

    pub fn reach(&mut self, ranks: &str) {
        self.act(Arrival::Ranks(ranks.parse().expect("ranks are an idset")));
    }

    pub fn hello(&mut self, epoch: u64, parts: &[(Part, PartState)]) {
        let hello = FromShell::Hello {
            instance: "test".to_owned(),
            epoch: Epoch(epoch),
            pid: 1,
            version: 1,
            parts: parts.to_vec(),
        };
        self.act(Arrival::Shell(Epoch(epoch), hello));
    }

    pub fn started(&mut self, job: u64, rank: u32) {
        let (part, t) = (part(job, rank), self.now);
        let epoch = Epoch(u64::from(rank) + 1);
        self.act(Arrival::Shell(epoch, FromShell::Started { part, t }));
    }

    pub fn ended(&mut self, job: u64, rank: u32, ended: Ended) {
        let part = part(job, rank);
        let epoch = Epoch(u64::from(rank) + 1);
        self.act(Arrival::Shell(epoch, FromShell::Ended { part, ended }));
    }

    pub fn tick_after(&mut self, seconds: i64) {
        self.now = Time(self.now.0 + seconds * 1_000_000);
        self.act(Arrival::Tick);
    }

    pub fn call(&mut self, topic: &str, body: &Value) -> String {
        let (uid, roles) = self.sender;
        self.answers.clear();
        let mut message = Message::request(topic, 1, body);
        (message.uid, message.roles) = (uid, roles);
        self.act(Arrival::Message(ClientId(1), message));
        self.answers.first().cloned().unwrap_or_default()
    }

    /// Submits `tasks` tasks of one core over `nodes` nodes (any if 0).
    pub fn submit(&mut self, nodes: u32, tasks: u32, system: &Value) -> String {
        let key = self.key();
        self.submit_as(key, (nodes, tasks), system)
    }

    /// A key that was made now, and by nobody else.
    pub fn key(&mut self) -> uuid::Uuid {
        self.keys += 1;
        let ms = (self.now.0 / 1000) as u128;
        uuid::Uuid::from_u128(ms << 80 | 7 << 76 | 2 << 62 | self.keys)
    }

    /// The same as [`Instance::submit`] under this key.
    pub fn submit_as(
        &mut self,
        key: uuid::Uuid,
        (nodes, tasks): (u32, u32),
        system: &Value,
    ) -> String {
        let each = if nodes == 0 {
            tasks
        } else {
            tasks.div_ceil(nodes)
        };
        let slot = json!({"type": "slot", "count": each, "label": "task",
                          "with": [{"type": "core", "count": 1}]});
        let resource = match nodes {
            0 => slot,
            _ => json!({"type": "node", "count": nodes, "with": [slot]}),
        };
        let mut all = json!({"duration": 0});
        let given = system
            .as_object()
            .expect("attributes are an object")
            .clone();
        all.as_object_mut().expect("just made").extend(given);
        let jobspec = json!({
            "version": 1,
            "resources": [resource],
            "tasks": [{"command": ["true"], "slot": "task", "count": {"total": tasks}}],
            "attributes": {"system": all},
        });
        self.call("job.submit", &json!({"key": key, "jobspec": jobspec}))
    }

    /// The names of a job's records from this one on.
    pub fn life(&self, job: u64, from: &str) -> Vec<&'static str> {
        let of = |record: &&Arc<Record>| record.event.job == Some(JobId(job));
        let names = self
            .records
            .iter()
            .filter(of)
            .flat_map(|record| eddy_wire::services::job::EventsLine::of(record))
            .map(|line| &*line.name.leak());
        names.skip_while(|name| *name != from).collect()
    }

    /// The type and note of each exception of a job.
    pub fn exceptions(&self, job: u64) -> Vec<(String, String)> {
        let of = self
            .records
            .iter()
            .filter(|record| record.event.job == Some(JobId(job)));
        let exception = |record: &Arc<Record>| match &record.event.kind {
            Kind::Exception(e) => Some((e.kind.clone(), e.note.clone())),
            _ => None,
        };
        of.filter_map(exception).collect()
    }

    /// The starts sent, in order; taken.
    pub fn starts(&mut self) -> Vec<Start> {
        let start = |(_, message): (Epoch, ToShell)| match message {
            ToShell::Start(start) => Some(*start),
            _ => None,
        };
        std::mem::take(&mut self.told)
            .into_iter()
            .filter_map(start)
            .collect()
    }

    /// Signals sent, as (rank, signal); all that was told is taken.
    pub fn signals(&mut self) -> Vec<(u32, i32)> {
        let signal = |(_, message): (Epoch, ToShell)| match message {
            ToShell::Signal { part, signal, .. } => Some((part.rank.0, signal)),
            _ => None,
        };
        std::mem::take(&mut self.told)
            .into_iter()
            .filter_map(signal)
            .collect()
    }
}
