//! What clients have in mind, drawn from the seed: submissions of all kinds, changes, questions.

mod change;
pub mod limits;
mod nodes;
mod plain;
mod reservations;

use eddy_modules::settings::ReleaseIdle;
use eddy_wire::event::{Requeue, Waitable};
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::job::Job;
use eddy_wire::jobspec::{Sharing, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::queue::{Turn, UNNAMED};
use eddy_wire::services::job::JobSet;
use eddy_wire::time::Span;
use serde_json::json;
use uuid::Uuid;

use crate::call::{About, Ask, Call, Nests, key};
use crate::client::Client;
use crate::filter;
use crate::instance::Nodes;
use crate::nature::{InstanceId, Nature, ROOT};
use crate::random::Random;
use crate::task::{Behaviour, OnTerm, Start};
use change::change;
pub use limits::Limited;
use nodes::{constrain, sockets};
pub use plain::Inside;
use plain::{crowd, is_plain, line, plain};

/// How likely each thing is that a client may do.
const WEIGHTS: [(u64, Act); 33] = [
    (40, Act::Submit),
    (6, Act::SubmitAgain),
    (2, Act::SubmitOther),
    (8, Act::Wait),
    (7, Act::Collect),
    (5, Act::Events),
    (8, Act::Cancel),
    (2, Act::Raise),
    (3, Act::Kill),
    (5, Act::Urgency),
    (4, Act::Requeue),
    (5, Act::List),
    (2, Act::Info),
    (2, Act::Drain),
    (3, Act::Undrain),
    (3, Act::Put),
    (1, Act::Delete),
    (3, Act::Get),
    (1, Act::Watch),
    (1, Act::Stream),
    (2, Act::TakeBack),
    (1, Act::Ping),
    (1, Act::Status),
    (2, Act::Explain),
    (1, Act::Account),
    (3, Act::Turn),
    (2, Act::Reserve),
    (1, Act::Usage),
    (2, Act::Order),
    (2, Act::GiveBack),
    (4, Act::Suspend),
    (4, Act::Resume),
    (4, Act::Update),
];

/// How many of them there were when the seeds were found that notice broken rules.
const KNOWN: usize = 32;

#[derive(Clone, Copy, Debug)]
enum Act {
    Submit,
    SubmitAgain,
    SubmitOther,
    Wait,
    Collect,
    Events,
    Cancel,
    Raise,
    Kill,
    Urgency,
    Update,
    Requeue,
    List,
    Info,
    Drain,
    Undrain,
    Put,
    Delete,
    Get,
    Watch,
    Stream,
    TakeBack,
    Ping,
    Status,
    Explain,
    Account,
    Turn,
    Reserve,
    Usage,
    Order,
    GiveBack,
    Suspend,
    Resume,
}

/// How long work lasts at most and how deep instances are made.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// No task is to run longer.
    pub longest: Span,
    /// No instance is to be deeper in others.
    pub depth: u32,
    /// The queues of the root that instances serve.
    pub queues: &'static [&'static str],
    /// Whether the root has queues that it serves itself.
    pub own: Own,
    /// Whether jobs of the root may take from each other.
    pub ranks: Standings,
    /// Whether submissions to the root go through filters.
    pub screens: Screens,
    /// When sub-instances of users give nodes back by themselves.
    pub release_idle: Option<ReleaseIdle>,
    /// How long instances begin jobs though their parents are silent.
    pub lease: Span,
    /// When instances of queues begin what their silent parent has not ordered.
    pub autonomous_after: Option<Span>,
    /// When leaders of instances that are not heard are begun anew.
    pub hung_after: Option<Span>,
    /// What is submitted in them.
    pub inside: Inside,
    /// Of 100 jobs beside an instance so many are for it to grow by.
    pub growth: u64,
    /// What is limited.
    pub limits: Limited,
}

/// Filters of submissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screens {
    /// There are none.
    None,
    /// [`filter::two`].
    Two,
}

/// Whether jobs stand above each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standings {
    /// All are alike.
    Equal,
    /// There are [`QOS`], and classes.
    Many,
    /// The same, and too little for all.
    Scarce,
}

/// What jobs of the root may ask for, if they may; each may take from those after it.
pub const QOS: [&str; 3] = ["high", "mid", "low"];

/// Queues that an instance serves itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// It has none.
    None,
    /// [`OWN_QUEUES`].
    Two,
}

/// The queues that an instance has of its own, if it has any.
pub const OWN_QUEUES: [&str; 2] = ["own-free", "own-two"];

/// The pool of instances with queues of their own, and how much of it there is.
pub const POOL: &str = "lic";

impl Habits {
    /// Those of a root whose clients make no instances.
    pub const FLAT: Habits = Habits {
        longest: Span(i64::MAX),
        depth: 0,
        queues: &[],
        own: Own::None,
        ranks: Standings::Equal,
        screens: Screens::None,
        release_idle: None,
        lease: Span::seconds(3600),
        autonomous_after: Some(Span::seconds(30)),
        hung_after: None,
        inside: Inside::All,
        growth: 0,
        limits: Limited::Accounts,
    };

    /// Makes an instance of a submission now and then, and shorter what lasts too long.
    fn change(self, nature: &mut Nature, instance: InstanceId, ask: &mut Ask, nodes: Nodes) {
        if self.own == Own::Two && nature.random.chance(60) {
            ask.queue = Some((*nature.random.pick(&OWN_QUEUES)).to_owned());
        }
        if self.ranks != Standings::Equal && instance == ROOT {
            let random = &mut nature.random;
            if random.chance(80) {
                ask.qos = Some((*random.pick(&QOS)).to_owned());
            }
            if random.chance(50) {
                ask.class = Some((*random.pick(&["default", "preemptible"])).to_owned());
            }
        }
        if self.screens == Screens::Two {
            for filter in ["first", "second"] {
                if nature.random.chance(20) {
                    let word = *nature.random.pick(&filter::WORDS);
                    ask.name = format!("{}~{filter}:{word}", ask.name);
                }
            }
        }
        if self.depth == 0 {
            return;
        }
        let text = json!({ "tasks": [{ "command": ask.command }] }).to_string();
        let mut behaviour = Behaviour::of_jobspec(&text);
        behaviour.run = behaviour.run.min(self.longest);
        let random = &mut nature.random;
        if nature.tree.depth(instance) < self.depth && random.chance(35) {
            ask.nests = Nests::Instance;
            let count = random.between(1, i64::from(nodes.count)) as u32;
            (ask.nodes, ask.ntasks) = (Some(count), count);
            ask.most = random.chance(30).then_some(count + 1);
            ask.cores = random.between(1, i64::from(nodes.cores)) as u32;
            (ask.cc, ask.memory, ask.gpus) = (None, 0, 0);
            ask.waitable = Waitable::No;
            ask.limit = *random.pick(&[0.0, 0.0, 20.0, 60.0]);
            // Some are made for a program, the others live until they are told to end.
            behaviour.run = match random.below(3) {
                0 => Span::ZERO,
                _ => Span(random.between(1, self.longest.0)),
            };
        } else if random.chance(self.growth)
            && let Some((of, queue)) = some_instance(nature, instance)
        {
            let random = &mut nature.random;
            ask.nests = Nests::Grows(of);
            let count = random.between(1, 2) as u32;
            (ask.nodes, ask.ntasks) = (Some(count), count);
            ask.most = random.chance(30).then_some(count + 1);
            ask.cores = random.between(1, i64::from(nodes.cores)) as u32;
            (ask.cc, ask.memory, ask.gpus) = (None, 0, 0);
            ask.waitable = Waitable::No;
            ask.queue = queue;
            ask.limit = *random.pick(&[0.0, 0.0, 5.0, 30.0]);
            ask.command = behaviour.command();
            return;
        } else if nature.random.chance(10) {
            ask.nests = Nests::Beside;
            (ask.nodes, ask.sharing) = (None, Sharing::Shared);
        }
        if instance == ROOT && ask.nests == Nests::No && nature.random.chance(40) {
            ask.queue = match self.queues {
                [] => None,
                [one] => Some((*one).to_owned()),
                several => Some((*nature.random.pick(several)).to_owned()),
            };
        }
        ask.command = behaviour.command();
    }
}

/// An instance that may grow.
fn some_instance(nature: &mut Nature, instance: InstanceId) -> Option<(JobId, Option<String>)> {
    let own = Work::Instance { name: None };
    let jobs = nature.judge(instance).recorded().jobs.iter();
    let live = jobs
        .filter(|(_, job)| job.submit.spec.request.work == own && job.state != JobState::Inactive);
    let queue = |job: &Job| job.submit.spec.jobspec.attributes.system.queue.clone();
    let live: Vec<(JobId, Option<String>)> = live.map(|(id, job)| (*id, queue(job))).collect();
    (!live.is_empty()).then(|| nature.random.pick(&live).clone())
}

/// One client does one thing.
pub fn act(nature: &mut Nature, client: &mut Client, nodes: Nodes, habits: Habits) {
    // A broken rule that few seeds notice is looked for among those in which it was found.
    let known = match nature.broken {
        Some(_) => &WEIGHTS[..KNOWN],
        None => &WEIGHTS[..],
    };
    let weights: Vec<u64> = known.iter().map(|(weight, _)| *weight).collect();
    let act = match WEIGHTS[nature.random.weighted(&weights)].1 {
        Act::Account if habits.inside == Inside::Plain => Act::Ping,
        _ if is_plain(nature, client.instance, habits) && nature.random.chance(50) => Act::Submit,
        _ if habits.limits == Limited::All && nature.random.chance(5) => Act::Account,
        act => act,
    };
    let call = match act {
        Act::TakeBack => return client.cancel(nature),
        Act::Submit => Some(submit(nature, client, nodes, habits)),
        Act::SubmitAgain => repeat(nature, client).map(|(call, _)| call),
        Act::SubmitOther => submit_other(nature, client, nodes, habits),
        Act::Collect => {
            let id = one_of(nature, client).filter(|_| nature.random.chance(50));
            Some(Call::collect(id))
        }
        Act::Wait | Act::List => {
            let jobs = some_of(nature, client);
            match act {
                Act::Wait => Some(jobs).filter(|jobs| !jobs.is_empty()).map(Call::wait),
                _ => Some(Call::list(jobs)),
            }
        }
        Act::Drain => Some(Call::drain(rank(nature, nodes))),
        Act::Undrain => Some(Call::undrain(Idset::one(rank(nature, nodes).0))),
        Act::Put | Act::Delete | Act::Get | Act::Watch => Some(value(nature, act)),
        Act::Stream => Some(Call::stream()),
        Act::Ping => Some(Call::ping()),
        Act::Status => Some(Call::status()),
        Act::Explain => Some(Call::explain()),
        Act::Account => Some(match habits.limits {
            Limited::Accounts => limits::accounts(&mut nature.random),
            Limited::All => limits::binding(&mut nature.random, nodes, &Default::default()),
        }),
        Act::Reserve => Some(reservations::reserve(nature, client, nodes)),
        Act::Order => {
            let most = nature.random.between(1, 4);
            let jobs = (0..most).filter_map(|_| one_of(nature, client));
            Some(Call::order(jobs.collect()))
        }
        Act::GiveBack => Some(Call::give_back(rank(nature, nodes))),
        Act::Usage => Some(Call::usage()),
        Act::Update => change::update(nature, client),
        Act::Turn => Some(turn(&mut nature.random, habits)),
        Act::Events
        | Act::Cancel
        | Act::Raise
        | Act::Kill
        | Act::Urgency
        | Act::Requeue
        | Act::Suspend
        | Act::Resume
        | Act::Info => one_of(nature, client).map(|job| change(nature, client, job, act)),
    };
    if let Some(call) = call {
        client.call_once(nature, call);
    }
}

/// A queue is turned on or off. Where there are none it is those that name none.
fn turn(random: &mut Random, habits: Habits) -> Call {
    let turns = [
        Turn::Stop,
        Turn::Start,
        Turn::Start,
        Turn::Disable,
        Turn::Enable,
    ];
    let names: &[&str] = match habits.own {
        // Of one alone others wait for what was stopped of it.
        Own::None if habits.queues.len() > 1 => habits.queues,
        Own::None => &[UNNAMED],
        Own::Two => &[UNNAMED, OWN_QUEUES[0], OWN_QUEUES[1], OWN_QUEUES[1]],
    };
    let queue = Some(*random.pick(names)).filter(|_| random.chance(90));
    Call::turn(queue, *random.pick(&turns), "because")
}

fn value(nature: &mut Nature, act: Act) -> Call {
    let name = *nature.random.pick(&["a.b", "a.c", "d"]);
    match act {
        Act::Put => Call::put(name, json!({ "n": nature.random.below(1 << 32) })),
        Act::Delete => Call::delete(name),
        Act::Watch => Call::watch(name),
        _ => Call::get(name),
    }
}

fn rank(nature: &mut Nature, nodes: Nodes) -> Rank {
    Rank(nature.random.below(u64::from(nodes.count)) as u32)
}

/// A job the client knows, mostly; sometimes any number.
fn one_of(nature: &mut Nature, client: &Client) -> Option<JobId> {
    match nature.random.chance(10) || client.jobs.is_empty() {
        true => Some(JobId(nature.random.below(20))),
        false => Some(*nature.random.pick(&client.jobs)),
    }
}

fn some_of(nature: &mut Nature, client: &Client) -> JobSet {
    let most = nature.random.below(5);
    JobSet::of((0..most).filter_map(|_| one_of(nature, client)))
}

fn submit(nature: &mut Nature, client: &mut Client, nodes: Nodes, habits: Habits) -> Call {
    let mut ask = ask(&mut nature.random, nodes);
    habits.change(nature, client.instance, &mut ask, nodes);
    wait_for(nature, client, &mut ask);
    reservations::name(nature, &mut ask);
    if habits.own == Own::Two && nature.random.chance(15) {
        let count = nature.random.between(1, 3) as u64;
        ask.pools.push((POOL.to_owned(), count));
    }
    gang(&mut nature.random, &mut ask);
    constrain(&mut nature.random, &mut ask);
    sockets(&mut nature.random, &mut ask, nodes);
    if is_plain(nature, client.instance, habits) && nature.random.chance(70) {
        plain(&mut nature.random, &mut ask);
    }
    if habits.inside == Inside::Line && client.instance == ROOT {
        line(&mut nature.random, &mut ask, nodes, habits.queues);
    }
    if habits.ranks == Standings::Scarce && client.instance == ROOT {
        crowd(&mut nature.random, &mut ask, nodes);
    }
    if habits.limits == Limited::All {
        limits::shorten(&mut nature.random, &mut ask);
    }
    let wall = nature.clock(0).wall;
    let key = key(wall, &mut nature.random);
    let call = Call::submit(client.user, &ask, key);
    client.submissions.push(call.clone());
    call
}

/// Now and then a submission is of a gang, mostly of one that others are in.
fn gang(random: &mut Random, ask: &mut Ask) {
    if !random.chance(12) {
        return;
    }
    let (name, size, min) = *random.pick(&[("duo", 2, 2), ("trio", 3, 3), ("some", 3, 2)]);
    ask.gang = Some((name.to_owned(), size, min));
    ask.most = None;
    // Whole gangs at once, too; and such as fit.
    ask.cc = random.chance(40).then(|| Idset::first_ids(size));
    ask.throttle = None;
    // Somebody may come to have said that there is less than all of them take.
    ask.pools.clear();
    ask.ntasks = ask.ntasks.min(2);
}

/// Lets a submission wait for something now and then.
fn wait_for(nature: &mut Nature, client: &Client, ask: &mut Ask) {
    const SCHEMES: [&str; 8] = [
        "after",
        "afterstart",
        "afterany",
        "afterany",
        "afterok",
        "afterok",
        "afternotok",
        "afterexcept",
    ];
    for _ in 0..*nature.random.pick(&[0, 0, 0, 0, 0, 1, 1, 2, 3]) {
        if let Some(job) = one_of(nature, client) {
            let scheme = *nature.random.pick(&SCHEMES);
            let spelled = match nature.random.chance(50) {
                true => job.to_string(),
                false => job.f58(),
            };
            ask.dependencies.push((scheme.to_owned(), spelled));
        }
    }
    if !client.inside.is_empty() && nature.random.chance(20) {
        let (instance, job) = *nature.random.pick(&client.inside);
        let scheme = *nature.random.pick(&SCHEMES[2..]);
        ask.dependencies
            .push((scheme.to_owned(), format!("{instance}/{job}")));
    }
    if nature.random.chance(5) {
        let later = Span(nature.random.between(-1_000_000, 20_000_000));
        let at = nature.clock(0).wall.after(later);
        ask.dependencies
            .push(("begin-time".to_owned(), at.to_string()));
    }
    if nature.random.chance(3) {
        ask.dependencies
            .push(("singleton".to_owned(), String::new()));
    }
    if ask.cc.is_some() && nature.random.chance(50) {
        ask.throttle = Some(nature.random.between(1, 3) as u32);
    }
}

/// A submission made before, and the key it was made under.
fn repeat(nature: &mut Nature, client: &Client) -> Option<(Call, Uuid)> {
    if client.submissions.is_empty() {
        return None;
    }
    let before = nature.random.pick(&client.submissions).clone();
    match before.about {
        About::Submit { key, .. } => Some((before, key)),
        _ => None,
    }
}

/// Another submission under the key of one made before.
fn submit_other(
    nature: &mut Nature,
    client: &Client,
    nodes: Nodes,
    habits: Habits,
) -> Option<Call> {
    let (_, key) = repeat(nature, client)?;
    let mut other = ask(&mut nature.random, nodes);
    habits.change(nature, client.instance, &mut other, nodes);
    other.name = "other".to_owned();
    Some(Call::submit(client.user, &other, key))
}

/// What a submission asks for.
fn ask(random: &mut Random, nodes: Nodes) -> Ask {
    let mut ask = Ask {
        command: behaviour(random).command(),
        ..Ask::default()
    };
    ask.cores = random.between(1, i64::from(nodes.cores.min(4))) as u32;
    match random.below(10) {
        0..4 => {}
        4..6 => {
            ask.ntasks = random.between(1, 6) as u32;
            if random.chance(20) {
                ask.sharing = Sharing::Exclusive;
            }
        }
        6..8 => {
            let count = random.between(1, i64::from(nodes.count)) as u32;
            ask.nodes = Some(count);
            ask.ntasks = count + random.below(3) as u32;
            ask.cores = 1;
            if random.chance(30) {
                (ask.ntasks, ask.most) = (count, Some(count + random.below(3) as u32));
            }
        }
        8 => {
            ask.nodes = Some(random.between(1, i64::from(nodes.count)) as u32);
            ask.ntasks = ask.nodes.unwrap_or(1);
            ask.sharing = Sharing::Exclusive;
        }
        // More than there is, or about as much.
        _ => ask.ntasks = random.between(1, 2 * i64::from(nodes.count * nodes.cores)) as u32,
    }
    if nodes.gpus > 0 && random.chance(20) {
        ask.gpus = 1;
    }
    if nodes.memory > 0 && random.chance(30) {
        ask.memory = random.between(1, nodes.memory as i64) as u64;
    }
    if random.chance(25) {
        ask.limit = *random.pick(&[0.001, 0.5, 2.0, 30.0]);
    }
    ask.urgency = *random.pick(&[16, 16, 16, 16, 16, 16, 16, 16, 20, 31, 0, 1]);
    // Not drawn for itself: seeds stay what they are.
    ask.grace = (ask.urgency == 20).then_some(Span::millis(300));
    if random.chance(25) {
        ask.waitable = Waitable::Yes;
    }
    if random.chance(25) {
        ask.requeue = Requeue::OnNodeFailure;
    }
    if random.chance(12) {
        ask.cc = Some(Idset::range(3, 3 + random.below(8) as u32));
        ask.name = "copy {cc}".to_owned();
    }
    ask
}

fn behaviour(random: &mut Random) -> Behaviour {
    let run = match random.below(10) {
        0..3 => Span::ZERO,
        3..6 => Span(random.between(1, 1_000_000)),
        6..9 => Span(random.between(1_000_000, 30_000_000)),
        _ => Span(random.between(30_000_000, 3_000_000_000)),
    };
    let term = match random.below(10) {
        0..7 => OnTerm::Die,
        7..9 => OnTerm::Ignore,
        _ => OnTerm::Exit(Span(random.between(1, 20_000_000))),
    };
    Behaviour {
        run,
        exit: *random.pick(&[0, 0, 0, 0, 0, 0, 1, 3, 200]),
        term,
        start: if random.chance(4) {
            Start::Fails
        } else {
            Start::Works
        },
    }
}
