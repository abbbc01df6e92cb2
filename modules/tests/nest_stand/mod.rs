//! A leader with all its modules and no world: what it records is durable at
//! once, and no shell, planner or agent answers.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use eddy_broker::broker::Identity;
use eddy_broker::effect::{Answer, Query};
use eddy_broker::{Arrival, Broker, Caller, ClientId, Effect};
use eddy_modules::settings::{Declared, Extent, Queue};
use eddy_modules::{Settings, leader};
use eddy_wire::Time;
use eddy_wire::event::{Event, Final, Kind, Record, Submit};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Attempt, Epoch, JobId, Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Jobspec;
use eddy_wire::message::{Message, Roles, Type};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::services::Service;
use eddy_wire::services::child::{
    Adopt, AdoptRequest, ChildOf, FromParent, Settled, SettledRequest,
};
use eddy_wire::spec::Spec;
use serde_json::{Value, json};
use uuid::{NoContext, Timestamp, Uuid};

/// The job that is a user's own instance: ranks 0 and 1, 100 s.
pub const OWN: JobId = JobId(1);
/// The job that is the declared instance `batch`: ranks 2 and 3.
pub const BATCH: JobId = JobId(2);
/// The user whose instance it is.
pub const USER: u32 = 1000;
/// When the leader resumes.
pub const START: Time = Time(1_800_000_000_000_000);

/// A leader and all that it recorded.
pub struct Stand {
    pub broker: Broker,
    pub records: Vec<Arc<Record>>,
    pub now: Time,
    /// What was said as it resumed.
    pub resumed: Vec<Effect>,
    matchtag: u64,
}

/// An answer: its type, its body, its tail.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    pub kind: Type,
    pub body: Value,
    pub tail: Bytes,
}

impl Told {
    /// The text of a refusal.
    pub fn refusal(&self) -> &str {
        assert_eq!(self.kind, Type::Refused, "{self:?}");
        self.body["text"].as_str().expect("refusals have a text")
    }

    /// A word over the channel.
    pub fn word(&self) -> FromParent {
        assert_eq!(self.kind, Type::Part, "{self:?}");
        serde_json::from_value(self.body.clone()).expect("a word of the parent")
    }
}

/// Four nodes of four cores, of which the first is the leader's own.
pub fn inventory() -> Arc<ResourceSet> {
    Arc::new(nodes(0..4))
}

fn nodes(ranks: impl IntoIterator<Item = u32>) -> ResourceSet {
    let node = |rank: u32| NodeSet {
        host: format!("n{rank}").into(),
        cores: Idset::range(0, 3),
        gpus: Idset::new(),
        memory: 0,
        ..NodeSet::default()
    };
    let nodes: BTreeMap<Rank, NodeSet> = ranks
        .into_iter()
        .map(|rank| (Rank(rank), node(rank)))
        .collect();
    ResourceSet {
        nodes,
        ..ResourceSet::default()
    }
}

pub fn settings() -> Settings {
    let mut settings = Settings::for_inventory(inventory());
    settings.local = Idset::one(0);
    settings.instance_command = vec!["eddy".to_owned(), "broker".to_owned(), "--child".to_owned()];
    settings
}

/// `batch` is declared, with a queue of its name, and `here` leads to this instance.
pub fn with_batch() -> Settings {
    let mut settings = settings();
    settings.declared = vec![Declared {
        name: "batch".to_owned(),
        extent: Extent::Fixed {
            nodes: 2,
            ranks: Some(Idset::range(2, 3)),
        },
        leader: eddy_wire::jobspec::Leader::Node,
        set: vec!["exec.kill_grace=\"1s\"".to_owned()],
    }];
    settings.queues = vec![
        Queue {
            name: "long".to_owned(),
            instance: Some("batch".to_owned()),
            ..Queue::default()
        },
        Queue {
            name: "here".to_owned(),
            instance: None,
            ..Queue::default()
        },
    ];
    settings
}

/// A jobspec of one core with these attributes under `system`.
pub fn jobspec(system: Value) -> Value {
    let mut all = json!({"duration": 0});
    for (key, value) in system.as_object().expect("attributes are an object") {
        all[key] = value.clone();
    }
    let command = match all["instance"].as_object() {
        Some(instance) if instance.is_empty() => vec!["true", "--", "true"],
        Some(_) | None => vec!["true"],
    };
    json!({
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "task",
                       "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": command, "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": all},
    })
}

/// A running job that is an instance on these ranks.
pub fn running(
    job: JobId,
    user: u32,
    system: Value,
    ranks: [u32; 2],
) -> Vec<(Option<JobId>, Kind)> {
    let jobspec = Jobspec::from_value(jobspec(system)).expect("a plain jobspec");
    let submit = Submit {
        key: Uuid::from_u128(u128::from(job.0)),
        ..Submit::plain(
            user,
            Arc::new(Spec::from_jobspec(jobspec).expect("a plain request")),
        )
    };
    let shells = ranks.map(|rank| (Rank(rank), Epoch(u64::from(rank) + 1)));
    let grant = Grant {
        epoch: Epoch(1),
        set: Arc::new(nodes(ranks)),
        shells: BTreeMap::from(shells),
        beside: Default::default(),
        passed: None,
    };
    let life = [
        Kind::Submit(Arc::new(submit)),
        Kind::Validate,
        Kind::Depend,
        Kind::Priority(16),
        Kind::Alloc(Arc::new(grant)),
        Kind::Start,
    ];
    life.into_iter().map(|kind| (Some(job), kind)).collect()
}

impl Stand {
    /// A new instance.
    pub fn new(settings: &Settings) -> Stand {
        Stand::replayed(settings, &[])
    }

    /// One in which the two instances run since ten seconds.
    pub fn with_children(settings: &Settings) -> Stand {
        Stand::with_children_since(Time(START.0 - 10_000_000), settings)
    }

    /// One in which nothing runs on the nodes.
    pub fn with_nodes(settings: &Settings) -> Stand {
        let shells =
            (0..4).map(|rank| Kind::ShellStart(Idset::one(rank), Epoch(u64::from(rank) + 1)));
        let nodes = Kind::ResourceDefine(inventory(), Default::default());
        let kinds = std::iter::once(nodes).chain(shells).enumerate();
        let t = Time(START.0 - 10_000_000);
        let record = |(at, kind): (usize, Kind)| {
            let seq = Seq(at as u64 + 1);
            let event = Event { t, job: None, kind };
            Arc::new(Record { seq, event })
        };
        let records: Vec<Arc<Record>> = kinds.map(record).collect();
        Stand::replayed(settings, &records)
    }

    /// The same, running since then.
    pub fn with_children_since(t: Time, settings: &Settings) -> Stand {
        let mut events = vec![(None, Kind::ResourceDefine(inventory(), Default::default()))];
        for rank in 0..4 {
            let shell = Kind::ShellStart(Idset::one(rank), Epoch(u64::from(rank) + 1));
            events.push((None, shell));
        }
        let own = json!({"instance": {}, "duration": 100});
        events.extend(running(OWN, USER, own, [0, 1]));
        events.extend(running(
            BATCH,
            0,
            json!({"instance": {"name": "batch"}}),
            [2, 3],
        ));
        Stand::of_events(t, events, settings)
    }

    /// One in which `debug` runs beside `batch`, on the second node. It has drawn the numbers 2000 to 3023, and `batch`
    /// the 1,024 before and the 1,024 behind them.
    pub fn with_two(settings: &Settings) -> Stand {
        let mut events = vec![(None, Kind::ResourceDefine(inventory(), Default::default()))];
        for rank in 0..4 {
            let shell = Kind::ShellStart(Idset::one(rank), Epoch(u64::from(rank) + 1));
            events.push((None, shell));
        }
        for (job, name, ranks) in [(BATCH, "batch", [2, 3]), (JobId(4), "debug", [0, 1])] {
            let system = json!({"instance": {"name": name}});
            events.extend(running(job, 0, system, ranks));
        }
        for (name, ranges) in [
            ("debug", json!([[2000, 3023]])),
            ("batch", json!([[976, 1999], [3024, 4047]])),
        ] {
            let numbers = json!({"instance": name, "ranges": ranges});
            let memo = [("job-numbers".to_owned(), numbers)];
            events.push((None, Kind::Memo(memo.into_iter().collect())));
        }
        Stand::of_events(Time(START.0 - 10_000_000), events, settings)
    }

    fn of_events(t: Time, events: Vec<(Option<JobId>, Kind)>, settings: &Settings) -> Stand {
        let record = |(at, (job, kind)): (usize, (Option<JobId>, Kind))| {
            let seq = Seq(at as u64 + 1);
            let event = Event { t, job, kind };
            Arc::new(Record { seq, event })
        };
        let records: Vec<Arc<Record>> = events.into_iter().enumerate().map(record).collect();
        Stand::replayed(settings, &records)
    }

    /// The next leader of what that one left.
    pub fn again(&self, settings: &Settings) -> Stand {
        Stand::replayed(settings, &self.records)
    }

    /// The next leader, which reads only what a mark kept.
    pub fn again_from_mark(&self, settings: &Settings) -> Stand {
        let live = self.broker.live();
        let kept = self
            .records
            .iter()
            .filter(|record| live.contains(&record.seq));
        let kept: Vec<Arc<Record>> = kept.cloned().collect();
        let mut settings = settings.clone();
        settings.last_job = self
            .records
            .iter()
            .filter_map(|r| r.event.job)
            .max()
            .unwrap_or_default();
        Stand::replayed(&settings, &kept)
    }

    /// The next leader, once that job's second attempt runs.
    pub fn in_attempt_two(&self, settings: &Settings, job: JobId) -> Stand {
        let alloc = |record: &Arc<Record>| match &record.event.kind {
            Kind::Alloc(grant) if record.event.job == Some(job) => Some(Arc::clone(grant)),
            _ => None,
        };
        let grant = self.records.iter().find_map(alloc).expect("it runs");
        let again = [
            Kind::Finish(0),
            Kind::Release(grant.set.ranks(), Final::Yes),
            Kind::Free,
            Kind::Requeue(Attempt(2)),
            Kind::Priority(16),
            Kind::Alloc(grant),
            Kind::Start,
        ];
        let mut records = self.records.clone();
        for kind in again {
            let seq = Seq(records.len() as u64 + 1);
            let (t, job) = (self.now, Some(job));
            let event = Event { t, job, kind };
            records.push(Arc::new(Record { seq, event }));
        }
        Stand::replayed(settings, &records)
    }

    fn replayed(settings: &Settings, records: &[Arc<Record>]) -> Stand {
        let identity = Identity {
            instance: "parent".to_owned(),
            version: "0".to_owned(),
            owner: 0,
            path: String::new(),
            depth: 0,
            parent: None,
            declared: None,
        };
        let mut broker = Broker::new(identity, leader(settings));
        records.iter().for_each(|record| broker.replay(record));
        let mut stand = Stand {
            broker,
            records: records.to_vec(),
            now: START,
            resumed: Vec::new(),
            matchtag: 0,
        };
        let output = stand.broker.resume(START, stand.broker.last(), None);
        stand.records.extend(output.records);
        stand.resumed = output.effects;
        let after = stand.tell(Arrival::Tick);
        stand.resumed.extend(after);
        stand
    }

    /// Tells it, makes all durable, and answers its questions about keys: none is known.
    pub fn tell(&mut self, arrival: Arrival) -> Vec<Effect> {
        let output = self.broker.handle(self.now, arrival);
        self.records.extend(output.records);
        let durable = Arrival::Durable(self.broker.last());
        let mut effects = output.effects;
        effects.extend(self.broker.handle(self.now, durable).effects);
        let keys = effects.iter().filter_map(|effect| match effect {
            Effect::Query(tag, Query::Key(..)) => Some(*tag),
            _ => None,
        });
        for tag in keys.collect::<Vec<_>>() {
            effects.extend(self.tell(Arrival::Answer(tag, Answer::Key(None))));
        }
        effects
    }

    /// Calls a service as this user, on a connection of that number.
    pub fn call<S: Service>(&mut self, client: u64, uid: u32, body: &S::Request) -> Vec<Effect> {
        self.call_with_tail::<S>(client, uid, body, Bytes::new())
    }

    pub fn call_with_tail<S: Service>(
        &mut self,
        client: u64,
        uid: u32,
        body: &S::Request,
        tail: Bytes,
    ) -> Vec<Effect> {
        self.matchtag += 1;
        let mut message = Message::request(S::TOPIC, self.matchtag, body).with_tail(tail);
        message.uid = uid;
        message.roles = if uid == 0 { Roles::OWNER } else { Roles::USER };
        self.tell(Arrival::Message(ClientId(client), message))
    }

    /// Takes the last call back.
    pub fn cancel(&mut self, client: u64) -> Vec<Effect> {
        let message = Message::answer(Type::Cancel, self.matchtag, &());
        self.tell(Arrival::Message(ClientId(client), message))
    }

    /// The one answer to a call.
    pub fn ask<S: Service>(&mut self, client: u64, uid: u32, body: &S::Request) -> Told {
        let effects = self.call::<S>(client, uid, body);
        let told = told(&effects, client);
        assert_eq!(told.len(), 1, "one answer: {effects:?}");
        told[0].clone()
    }

    /// Submits one job as the owner.
    pub fn submit(&mut self, client: u64, uid: u32, system: Value) -> Vec<Effect> {
        let request = submit_request(self.now, self.matchtag, system);
        self.call::<eddy_wire::services::job::Submit>(client, uid, &request)
    }

    /// The lines of a job's event log, by their names.
    pub fn names(&self, job: JobId) -> Vec<&'static str> {
        let of_it = self.records.iter().filter(|r| r.event.job == Some(job));
        let lines = of_it.flat_map(|record| eddy_wire::services::job::EventsLine::of(record));
        lines.map(|line| &*line.name.leak()).collect()
    }

    /// The jobs submitted under the name of a declared instance.
    pub fn declared(&self) -> Vec<JobId> {
        let is_instance = |record: &&Arc<Record>| match &record.event.kind {
            Kind::Submit(submit) => submit.spec.jobspec.name() == "batch",
            _ => false,
        };
        let found = self.records.iter().filter(is_instance);
        found.filter_map(|record| record.event.job).collect()
    }
}

pub fn submit_request(
    now: Time,
    number: u64,
    system: Value,
) -> eddy_wire::services::job::SubmitRequest {
    let seconds = (now.0 / 1_000_000) as u64;
    let stamp = Timestamp::from_unix(NoContext, seconds, 0);
    let key = Uuid::from_u128(Uuid::new_v7(stamp).as_u128() ^ u128::from(number));
    serde_json::from_value(json!({"key": key, "jobspec": jobspec(system)})).expect("a submission")
}

/// What a connection was told.
pub fn told(effects: &[Effect], client: u64) -> Vec<Told> {
    let reply = |effect: &Effect| match effect {
        Effect::Reply(reply) if reply.to.client == ClientId(client) => Some(Told {
            kind: reply.kind,
            body: serde_json::from_slice(&reply.body).expect("bodies are JSON"),
            tail: reply.tail.clone(),
        }),
        _ => None,
    };
    effects.iter().filter_map(reply).collect()
}

/// The hello of a child's leader.
pub fn hello(job: JobId) -> AdoptRequest {
    AdoptRequest {
        child: ChildOf {
            job,
            attempt: Attempt(1),
        },
        instance: format!("child-{job}"),
        uri: format!("local:///run/{job}"),
        door: format!("/run/{job}/door"),
        statedir: format!("/state/children/{job}"),
        leader: Epoch(1),
        beat: None,
        keeps: None,
    }
}

/// Hello on a connection of that number.
pub fn adopt(stand: &mut Stand, client: u64, job: JobId) -> Vec<Effect> {
    let uid = if job == OWN { USER } else { 0 };
    let mut effects = stand.call::<Adopt>(client, uid, &hello(job));
    if job == BATCH {
        // It has taken nothing by itself; calls are counted as if it had not said so.
        effects.extend(settle(stand, client));
        stand.matchtag -= 1;
    }
    effects
}

/// It has said all that it did without its parent; what comes over the channel then.
pub fn settle(stand: &mut Stand, client: u64) -> Vec<Effect> {
    let child = hello(BATCH).child;
    let mut effects = stand.call::<Settled>(client, 0, &SettledRequest { child, open: 0 });
    effects.retain(|effect| !matches!(effect, Effect::Reply(reply) if reply.kind == Type::Reply));
    effects
}

/// Orders to host, and to host no more.
pub fn hosting(effects: &[Effect]) -> Vec<String> {
    let order = |effect: &Effect| match effect {
        Effect::Host(Rank(at), order) => Some(format!(
            "{at} hosts {} of {} at {}",
            order.rank.0, order.instance, order.door
        )),
        Effect::Unhost(Rank(at), instance) => Some(format!("{at} leaves {instance}")),
        _ => None,
    };
    effects.iter().filter_map(order).collect()
}

/// Who made the last call.
pub fn caller(client: u64, matchtag: u64) -> Caller {
    let client = ClientId(client);
    Caller { client, matchtag }
}
