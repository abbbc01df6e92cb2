//! The calls clients make: what goes over the wire, and what it is about for those who judge.

mod jobspec;
mod once;
mod site;

use bytes::Bytes;
use eddy_modules::live::{By, Live};
use eddy_wire::event::{Requeue, Waitable};
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::message::{Message, Type};
use eddy_wire::queue::Turn;
use eddy_wire::services::Service;
use eddy_wire::services::account;
use eddy_wire::services::child;
use eddy_wire::services::instance::{
    Ping, PingRequest, SetConfig, SetConfigRequest, Shutdown, ShutdownRequest, Stream,
    StreamRequest,
};
use eddy_wire::services::job::{self, JobSet};
use eddy_wire::services::kvs;
use eddy_wire::services::pool;
use eddy_wire::services::queue;
use eddy_wire::services::resource::{self, Targets};
use eddy_wire::services::sched;
use eddy_wire::services::usage;
use eddy_wire::time::{Span, Time};
use eddy_wire::warning::Warning;
use serde_json::Value;
use uuid::{Builder, Uuid};

use crate::random::Random;

/// Names of queues that an instance serves itself begin so.
pub const OWN: &str = "own";

/// What a call is about, as far as its answer can be judged.
#[derive(Clone, Debug, PartialEq)]
pub enum About {
    /// New jobs.
    Submit {
        /// Of this user.
        user: u32,
        /// Under this key.
        key: Uuid,
        /// So many.
        count: u32,
    },
    /// The ends of jobs.
    Wait(JobSet),
    /// A result, once.
    Collect,
    /// The log of a job.
    Events(JobId),
    /// An exception of a job, by type.
    Exception {
        /// The job.
        job: JobId,
        /// `cancel`, `requeue`, or a word.
        kind: String,
    },
    /// Another urgency.
    Urgency {
        /// The job.
        job: JobId,
        /// The urgency.
        urgency: u8,
    },
    /// Another time limit of a job.
    Limit(JobId),
    /// Set a value.
    Put {
        /// Its name.
        key: String,
        /// The value.
        value: Value,
    },
    /// Ask for a value.
    Get(String),
    /// Follow a value.
    Watch(String),
    /// Rows of jobs.
    List,
    /// All records from the first on.
    Stream,
    /// Where the capacity went.
    Usage,
    /// Why a job waits, or what an instance came to; whoever asked keeps the answer.
    Why,
    /// A node that is dead, as long as nothing lives on it that nobody hears.
    Dead(Rank),
    /// A change that is done once under this key, however often it is asked for.
    Once(Uuid),
    /// Something whose answer tells of no record.
    Other,
}

/// Whether a call whose answer was lost is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It is: it is safe to repeat.
    Again,
    /// It is not: what it gave is gone.
    Never,
}

/// Whether a call has an end of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// It is answered sooner or later.
    Ends,
    /// It goes on as long as its client.
    Endless,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// What it is about.
    pub about: About,
    /// The service.
    pub topic: &'static str,
    /// JSON text.
    pub body: Bytes,
    /// Whether it is repeated.
    pub repeat: Repeat,
    /// Whether it ends.
    pub extent: Extent,
}

impl Call {
    fn new<S: Service>(about: About, request: &S::Request) -> Call {
        let message = Message::answer(Type::Request, 0, request);
        Call {
            about,
            topic: S::TOPIC,
            body: message.body,
            repeat: Repeat::Again,
            extent: Extent::Ends,
        }
    }

    /// Submit this, as `user`.
    pub fn submit(user: u32, ask: &Ask, key: Uuid) -> Call {
        let count = ask.cc.as_ref().map_or(1, |ids| ids.len() as u32);
        let request = job::SubmitRequest {
            key,
            jobspec: ask.jobspec(),
            cc: ask.cc.clone(),
            urgency: ask.urgency,
            waitable: ask.waitable,
            requeue: ask.requeue,
            on_behalf: None,
        };
        let about = About::Submit { user, key, count };
        Call::new::<job::Submit>(about, &request)
    }

    /// Wait for the ends of these jobs.
    pub fn wait(jobs: JobSet) -> Call {
        Call::new::<job::Wait>(About::Wait(jobs.clone()), &jobs.into())
    }

    /// Collect a result.
    pub fn collect(id: Option<JobId>) -> Call {
        Call {
            repeat: Repeat::Never,
            ..Call::new::<job::Collect>(About::Collect, &job::CollectRequest { id })
        }
    }

    /// Follow the log of a job to its end.
    pub fn events(id: JobId) -> Call {
        let request = job::EventsRequest { id, follow: true };
        Call::new::<job::Events>(About::Events(id), &request)
    }

    /// Raise an exception; `cancel` is one.
    pub fn raise(id: JobId, kind: &str, severity: u8) -> Call {
        Call::raise_of(id, (kind, severity), None)
    }

    /// The same of one that may be a declared instance, by its name.
    pub fn raise_of(id: JobId, (kind, severity): (&str, u8), declared: Option<String>) -> Call {
        let request = job::RaiseRequest {
            declared,
            job_set: None,
            scope: job::Scope::Named,
            jobs: JobSet::one(id),
            states: Vec::new(),
            kind: kind.to_owned(),
            severity,
            note: String::new(),
        };
        let kind = kind.to_owned();
        Call::new::<job::Raise>(About::Exception { job: id, kind }, &request)
    }

    /// Send a signal.
    pub fn kill(id: JobId, signal: i32) -> Call {
        let jobs = JobSet::one(id);
        Call::new::<job::Kill>(About::Other, &job::KillRequest { jobs, signal })
    }

    /// Change the urgency.
    pub fn urgency(id: JobId, urgency: u8) -> Call {
        let jobs = JobSet::one(id);
        let request = job::UrgencyRequest {
            jobs,
            job_set: None,
            scope: job::Scope::Named,
            urgency,
        };
        Call::new::<job::Urgency>(About::Urgency { job: id, urgency }, &request)
    }

    /// Change the time limit.
    pub fn update(id: JobId, duration: Span) -> Call {
        let request = job::UpdateRequest {
            jobs: JobSet::one(id),
            job_set: None,
            duration: Some(duration),
            unlimited: false,
            reckoned: None,
            set: Default::default(),
            force: false,
        };
        Call::new::<job::Update>(About::Limit(id), &request)
    }

    /// Declare a rank dead.
    pub fn dead(rank: Rank) -> Call {
        let request = resource::DeadRequest {
            targets: Targets::Ranks(Idset::one(rank.0)),
            reason: "burnt".to_owned(),
            force: false,
        };
        Call::new::<resource::Dead>(About::Other, &request)
    }

    /// Declare a rank dead whose shell may hang.
    pub fn dead_by_force(rank: Rank) -> Call {
        let request = resource::DeadRequest {
            targets: Targets::Ranks(Idset::one(rank.0)),
            reason: "stuck".to_owned(),
            force: true,
        };
        Call::new::<resource::Dead>(About::Other, &request)
    }

    /// Stop a job for a while.
    pub fn suspend(id: JobId) -> Call {
        Call::new::<job::Suspend>(About::Other, &paced(id))
    }

    /// Let it go on.
    pub fn resume(id: JobId) -> Call {
        Call::new::<job::Resume>(About::Other, &paced(id))
    }

    /// Put jobs in this order.
    pub fn order(jobs: Vec<JobId>) -> Call {
        let places = job::Places::AsNamed;
        Call::new::<job::Order>(About::Other, &job::OrderRequest { jobs, places })
    }

    /// End this attempt, begin another.
    pub fn requeue(id: JobId) -> Call {
        Call::requeue_of(id, None)
    }

    /// The same of one that may be a declared instance, by its name.
    pub fn requeue_of(id: JobId, declared: Option<String>) -> Call {
        let request = job::RequeueRequest {
            declared,
            jobs: JobSet::one(id),
            attempt: None,
            note: String::new(),
        };
        let kind = "requeue".to_owned();
        Call::new::<job::RequeueJob>(About::Exception { job: id, kind }, &request)
    }

    /// Rows of jobs that are not over, or of all these.
    pub fn list(jobs: JobSet) -> Call {
        let request = job::ListRequest {
            jobs,
            detail: job::Detail::All,
            ..job::ListRequest::default()
        };
        Call::new::<job::List>(About::List, &request)
    }

    /// A document of a job.
    pub fn info(id: JobId, key: job::InfoKey) -> Call {
        Call::new::<job::Info>(About::Other, &job::InfoRequest { id, key })
    }

    /// What is in service.
    pub fn status() -> Call {
        Call::new::<resource::Status>(About::Other, &())
    }

    /// Change accounts.
    pub fn accounts(request: &Value) -> Call {
        let request: account::SetRequest =
            serde_json::from_value(request.clone()).expect("changes of accounts");
        Call::new::<account::Set>(About::Other, &request)
    }

    /// Let a queue take submissions or start jobs, or not; all of them where none is named.
    pub fn turn(queue: Option<&str>, turn: Turn, reason: &str) -> Call {
        let request = queue::TurnRequest {
            queues: queue.into_iter().map(str::to_owned).collect(),
            turn,
            reason: reason.to_owned(),
        };
        Call::new::<queue::TurnQueue>(About::Other, &request)
    }

    /// Set a value.
    pub fn put(key: &str, value: Value) -> Call {
        let request = kvs::PutRequest {
            key: key.to_owned(),
            value: value.clone(),
            also: Vec::new(),
        };
        let key = key.to_owned();
        Call::new::<kvs::Put>(About::Put { key, value }, &request)
    }

    /// Ask for a value.
    pub fn get(key: &str) -> Call {
        let request = kvs::KeyRequest {
            key: key.to_owned(),
        };
        Call::new::<kvs::Get>(About::Get(key.to_owned()), &request)
    }

    /// Follow a value.
    pub fn watch(key: &str) -> Call {
        let request = kvs::KeyRequest {
            key: key.to_owned(),
        };
        Call {
            extent: Extent::Endless,
            ..Call::new::<kvs::Watch>(About::Watch(key.to_owned()), &request)
        }
    }

    /// Follow all records.
    pub fn stream() -> Call {
        let request = StreamRequest {
            follow: true,
            ..StreamRequest::default()
        };
        Call {
            extent: Extent::Endless,
            ..Call::new::<Stream>(About::Stream, &request)
        }
    }

    /// Who is there.
    pub fn ping() -> Call {
        Call::new::<Ping>(About::Other, &PingRequest::default())
    }

    /// Obey another policy.
    pub fn set_policy(text: &str) -> Call {
        let text = text.to_owned();
        Call::new::<sched::SetPolicy>(About::Other, &sched::SetPolicyRequest { text })
    }

    /// Obey this configuration from now on: as the file says, or set over it.
    pub fn configure(live: &Live, by: &By) -> Call {
        let text = serde_json::to_string(live).expect("texts and numbers are JSON");
        let set = match by {
            By::Reload | By::Start => vec![text],
            By::Set(_) => vec!["over the file".to_owned(), text],
        };
        let request = SetConfigRequest {
            set,
            dry_run: false,
        };
        Call::new::<SetConfig>(About::Other, &request)
    }

    /// How much of pools is in use.
    pub fn pools() -> Call {
        Call::new::<pool::List>(About::Other, &())
    }

    /// Where the capacity went.
    pub fn usage() -> Call {
        Call::new::<usage::Report>(About::Usage, &usage::ReportRequest::default())
    }

    /// What the instance that this job is or was has come to.
    pub fn child(job: JobId) -> Call {
        let request = child::ChildrenRequest {
            job: Some(job),
            ..child::ChildrenRequest::default()
        };
        Call::new::<child::Children>(About::Why, &request)
    }

    /// Why jobs wait.
    pub fn explain() -> Call {
        Call::new::<sched::Explain>(About::Why, &sched::ExplainRequest::default())
    }

    /// Why these wait, and when they would start.
    pub fn why(jobs: JobSet) -> Call {
        let request = sched::ExplainRequest {
            jobs: Some(jobs),
            ..sched::ExplainRequest::default()
        };
        Call::new::<sched::Explain>(About::Why, &request)
    }

    /// End the instance.
    pub fn shutdown() -> Call {
        Call::new::<Shutdown>(About::Other, &ShutdownRequest::default())
    }
}

/// What a submission asks for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// On how many nodes; none is anywhere.
    pub nodes: Option<u32>,
    /// On so many at most, if there are as many; then there is a task on each.
    pub most: Option<u32>,
    /// Whole nodes: `node` has `exclusive`, or where it has none `place` says it.
    pub sharing: eddy_wire::jobspec::Sharing,
    /// Tasks.
    pub ntasks: u32,
    /// Cores of each task.
    pub cores: u32,
    /// GPUs of each task.
    pub gpus: u32,
    /// Bytes of memory of each task; 0 asks for none.
    pub memory: u64,
    /// Time limit in seconds; 0 is none.
    pub limit: f64,
    /// What its tasks do.
    pub command: Vec<String>,
    /// Its name.
    pub name: String,
    /// Copies.
    pub cc: Option<Idset>,
    /// 0 to 31.
    pub urgency: u8,
    /// Whether it is to be collected.
    pub waitable: Waitable,
    /// Whether it runs again after a lost node.
    pub requeue: Requeue,
    /// The sockets that its tasks lie in: of each node, where nodes are given.
    pub sockets: Option<InSockets>,
    /// What it is to the instance it runs in.
    pub nests: Nests,
    /// Only these ranks.
    pub ranks: Option<Idset>,
    /// Only nodes that are like this (RFC 35).
    pub requires: Option<String>,
    /// The queue.
    pub queue: Option<String>,
    /// What it waits for: schemes and values.
    pub dependencies: Vec<(String, String)>,
    /// How many of its copies may be under way at a time.
    pub throttle: Option<u32>,
    /// From TERM to KILL.
    pub grace: Option<Span>,
    /// By which signal its tasks are warned, so long before the end.
    pub warning: Option<Warning>,
    /// The set of jobs it belongs to.
    pub set: Option<String>,
    /// How much of which pools it takes.
    pub pools: Vec<(String, u64)>,
    /// The gang that it is in: its name, how many it has, with how few it begins.
    pub gang: Option<(String, u32, u32)>,
    /// The reservation that it is to run in.
    pub reservation: Option<String>,
    /// The QoS.
    pub qos: Option<String>,
    /// The class.
    pub class: Option<String>,
    /// The account; none is the user's default.
    pub account: Option<String>,
}

/// Sockets that a submission asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InSockets {
    /// So many, with as many tasks in each.
    Of(u32),
    /// The same, and nobody else's.
    Alone(u32),
    /// So many whole ones for each task.
    Each(u32),
}

/// What a job is to the instance it runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nests {
    /// Work like any other.
    #[default]
    No,
    /// An instance.
    Instance,
    /// It takes nothing and runs beside others.
    Beside,
    /// Ground for the instance that this job is.
    Grows(JobId),
}

impl Default for Ask {
    fn default() -> Ask {
        Ask {
            nodes: None,
            most: None,
            sharing: eddy_wire::jobspec::Sharing::Shared,
            ntasks: 1,
            cores: 1,
            gpus: 0,
            memory: 0,
            limit: 0.0,
            command: crate::task::Behaviour::default().command(),
            name: "job".to_owned(),
            cc: None,
            urgency: job::URGENCY_DEFAULT,
            waitable: Waitable::No,
            requeue: Requeue::No,
            sockets: None,
            nests: Nests::No,
            ranks: None,
            requires: None,
            queue: None,
            dependencies: Vec::new(),
            throttle: None,
            grace: None,
            warning: None,
            set: None,
            pools: Vec::new(),
            gang: None,
            reservation: None,
            qos: None,
            class: None,
            account: None,
        }
    }
}

/// A key made by a sender whose wall clock says `now`.
pub fn key(now: Time, random: &mut Random) -> Uuid {
    let millis = now.0.max(0) as u64 / 1000;
    let drawn = u128::from(random.bits()) << 64 | u128::from(random.bits());
    let mut bytes = [0; 10];
    bytes.copy_from_slice(&drawn.to_be_bytes()[..10]);
    Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
}

fn paced(id: JobId) -> job::SuspendRequest {
    job::SuspendRequest {
        jobs: JobSet::one(id),
        job_set: None,
        scope: job::Scope::Named,
    }
}
