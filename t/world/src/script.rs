//! Scripts of commands and the transcripts they lead to (t/cases/*.txt).
//!
//! Everything takes no time unless a command says otherwise, so that a transcript shows causes in
//! their order and times a person can check. Commands, one a line, `#` begins a comment:
//!
//! ```text
//! nodes 2x4 gpus=1 memory=1G sockets=2   grace 5         before anything else
//! submit a cores=2 run=10 …    again a …       the same key, perhaps other words
//!   qos=high class=x   and   qos high preempts=low,mid exempt=5 grace=2 mode=cancel  before anything
//!   afterok=a …  begin=SECONDS  singleton  throttle=N  set=NAME  name=NAME      among those words
//!   nodes=2-4 among the words of a job: as many of them as are free, a task on each
//! cancel a  raise a oops  kill a 15  urgency a 0  update a 60  requeue a  suspend a  resume a
//! order b a  wait a b  collect [a]  list
//! queue q running=2 nodes=4 time=60 default=30 users=7 requires=odd,rack=r0   before anything else
//! among the words of a job gang=g:3 or gang=g:3:2 (members, and with how few it begins)
//! warn=10@5   among those words: its tasks are sent signal 10 so many seconds before their limit
//! sockets=2, sockets-alone=2 (nobody else's) or sockets-each=2 (of each task)   among those words
//! requires=odd|rank:0   among those words: nodes of odd rank are `odd`, each two are in one `rack=rN`
//! pool lic 2   before anything else; among the words of a job pool=lic:1; pools lists them
//! filter first refuse   before anything else; name=a~first:no is refused by it (see `filter.rs`)
//! disable q WHY  enable q  stop q WHY  start q           root is the queue of those that name none
//! reload running=q:3 requires=q:odd pool=lic:1 filters=2 drop=q    the file says so; set ...  it is set over the file
//! drain 0  undrain 0  dead 0 [force]  give back 1  put k 1  get k  policy PRESET [KEY=VALUE...]  shutdown
//! lose submit a …              the answer is lost on its way
//! hold disk|planner  release disk|planner      disk full|room
//! crash leader|shells|both     start           cut S (shells from leader)
//! 2> COMMAND                   another client (3> one of another user)
//! pass S                       time passes     run     until nothing happens any more
//! break RULE                   from now on, on purpose
//! ```
//!
//! Those of machines and instances in instances are in `script/trees.rs`, those of reservations in
//! `script/reservations.rs`.

mod ask;
mod reservations;
mod trees;

use std::collections::{BTreeMap, BTreeSet};

use eddy_modules::live::{By, Live};
use eddy_modules::settings::{Class, Qos, Queue};
use eddy_wire::filter::{Filter, OnFailure};
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::pool::Pool;
use eddy_wire::preempt::Mode;
use eddy_wire::queue::Turn;
use eddy_wire::services::job::JobSet;
use eddy_wire::time::{Span, Time};
use uuid::Uuid;

use crate::broken::Rule;
use crate::call::{Ask, Call, key};
use crate::client::OWNER;
use crate::fault::Fault;
use crate::filter;
use crate::instance::{Hold, Nodes};
use crate::journal::Room;
use crate::nature::{BEGIN, Happening, InstanceId, Nature, Pace, ROOT};
use crate::shell::Course;
use crate::task::span;
use crate::world::World;
use ask::ask;
use trees::Machines;

/// A script that does not come to rest within so many steps is wrong.
const STEPS_MAX: u64 = 20_000;

/// Plays a script and gives its transcript; a line that is no command is an error.
pub fn play(script: &str) -> Result<String, String> {
    let mut player = Player::new();
    for (number, line) in script.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        if !words.is_empty() {
            player
                .command(&words)
                .map_err(|why| format!("line {}: {why}", number + 1))?;
        }
    }
    let mut lines = match &mut player.world {
        Some(world) => world.nature.take_notes(),
        None => Vec::new(),
    };
    let finding = player.world.as_ref().and_then(World::finding);
    lines.extend(finding.map(|sentence| format!("BROKEN: {sentence}")));
    lines.push(String::new());
    Ok(lines.join("\n"))
}

struct Player {
    world: Option<World>,
    nodes: Nodes,
    grace: Span,
    /// What was submitted under which name: by whom, and the key.
    submitted: BTreeMap<String, (Ask, u32, Uuid)>,
    /// In which instance each name was submitted.
    places: BTreeMap<String, InstanceId>,
    machines: Machines,
    /// Queues that the instance serves itself.
    queues: Vec<Queue>,
    /// What jobs may ask for.
    qos: Vec<Qos>,
    pools: Vec<Pool>,
    filters: Vec<Filter>,
    reply: Answer,
}

/// What becomes of the answer to a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Arrives,
    IsLost,
}

impl Player {
    fn new() -> Player {
        Player {
            world: None,
            nodes: Nodes {
                count: 1,
                cores: 4,
                gpus: 0,
                memory: 0,
                sockets: 1,
            },
            grace: Span::seconds(5),
            submitted: BTreeMap::new(),
            places: BTreeMap::new(),
            machines: Machines::default(),
            queues: Vec::new(),
            qos: Vec::new(),
            pools: Vec::new(),
            filters: Vec::new(),
            reply: Answer::Arrives,
        }
    }

    /// The world, begun with the first command that needs it; what its beginning shows is left out.
    fn world(&mut self) -> &mut World {
        if self.world.is_none() && self.machines.are_apart() {
            self.world = Some(self.apart());
        }
        let (nodes, grace) = (self.nodes, self.grace);
        self.world.get_or_insert_with(|| {
            let nature = Nature::new(0, Pace::Exact, grace);
            let mut world = World::new(nature, nodes, grace);
            world.root().settings.queues.clone_from(&self.queues);
            rank(&mut world, &self.qos);
            world.root().settings.pools.clone_from(&self.pools);
            world.nature.oracle(ROOT).set_pools(&self.pools);
            world.root().settings.filters.clone_from(&self.filters);
            world.nature.oracle(ROOT).set_filters(&self.filters);
            world
                .nature
                .queue
                .push(BEGIN, Happening::LeaderStarts(ROOT));
            world.add_client(OWNER);
            world.add_client(OWNER);
            world.add_client(OWNER + 1);
            settle(&mut world);
            world.nature.write_down();
            world
        })
    }

    fn command(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["nodes", shape, rest @ ..] => self.shape(shape, rest),
            ["machines", shape, rest @ ..] => self.machines(shape, rest),
            ["queue", name, rest @ ..] => self.queue(name, rest),
            ["qos", name, rest @ ..] => self.qos(name, rest),
            ["pool", name, count] => self.pool(name, count),
            ["filter", name, on_failure] => {
                let on_failure = match *on_failure {
                    "accept" => OnFailure::Accept,
                    "refuse" => OnFailure::Refuse,
                    other => return Err(format!("`{other}` is not accept or refuse")),
                };
                self.filters.push(filter::filter(name, on_failure));
                Ok(())
            }
            ["idle", seconds, keep] => self.release_idle(seconds, keep),
            ["file", name, extent] => self.file(name, extent),
            ["lease", seconds] => {
                self.machines.lease = Some(span(seconds));
                Ok(())
            }
            ["alone", seconds] => {
                self.machines.alone = Some(span(seconds));
                Ok(())
            }
            ["in", path, rest @ ..] => self.inside(path, rest),
            ["crash", rest @ ..] if rest.len() > 1 => self.crash_of(rest),
            ["freeze", "leader", "of", path, seconds] => self.freeze(path, seconds),
            ["freeze", "shell", machine, seconds] => self.freeze_shell(machine, seconds),
            ["part", a, b, seconds] => self.part(a, b, seconds),
            ["grace", seconds] => {
                self.grace = span(seconds);
                Ok(())
            }
            ["lose", rest @ ..] => {
                self.reply = Answer::IsLost;
                self.spoken(1, rest)
            }
            [client, rest @ ..] if client.ends_with('>') => {
                let number = client.trim_end_matches('>').parse();
                self.spoken(
                    number.map_err(|_| format!("`{client}` is no client"))?,
                    rest,
                )
            }
            ["hold", what] | ["release", what] => self.hold(words[0], what),
            ["disk", _] | ["crash", _] | ["start"] | ["cut", _] | ["break", _] => self.fault(words),
            ["pass", seconds] => {
                let until = self.world().nature.now.after(span(seconds));
                pass(self.world(), until);
                Ok(())
            }
            ["run"] => {
                let world = self.world();
                if world.is_tree() {
                    trees::run(world);
                    return Ok(());
                }
                let most = world.steps() + STEPS_MAX;
                while world.steps() < most && world.step() == Course::On {}
                Ok(())
            }
            _ => self.spoken(1, words),
        }
    }

    fn pool(&mut self, name: &str, count: &str) -> Result<(), String> {
        let name = name.parse().map_err(|wrong| format!("{wrong}"))?;
        let count = u64::from(number(count)?);
        self.pools.push(Pool { name, count });
        Ok(())
    }

    fn shape(&mut self, shape: &str, rest: &[&str]) -> Result<(), String> {
        let wrong = || format!("`{shape}` is not NODESxCORES");
        let (count, cores) = shape.split_once('x').ok_or_else(wrong)?;
        self.nodes.count = count.parse().map_err(|_| wrong())?;
        self.nodes.cores = cores.parse().map_err(|_| wrong())?;
        for word in rest {
            match word.split_once('=') {
                Some(("gpus", n)) => self.nodes.gpus = number(n)?,
                Some(("memory", n)) => self.nodes.memory = u64::from(number(n)?),
                Some(("sockets", n)) => self.nodes.sockets = number(n)?,
                _ => return Err(format!("`{word}` is not gpus=N, memory=BYTES or sockets=N")),
            }
        }
        Ok(())
    }

    /// A queue: served by an instance where ranks are apart and it has nodes, else by this one.
    fn queue(&mut self, name: &str, words: &[&str]) -> Result<(), String> {
        if let ([nodes], true) = (words, self.machines.are_apart()) {
            return self.queue_instance(name, nodes);
        }
        let mut queue = Queue {
            name: name.to_owned(),
            ..Queue::default()
        };
        let rules = &mut queue.rules;
        for word in words {
            match word.split_once('=') {
                Some(("running", n)) => rules.limits.running_jobs = Some(number(n)?),
                Some(("nodes", n)) => rules.max_nodes = Some(number(n)?),
                Some(("time", n)) => rules.max_time = Some(span(n)),
                Some(("default", n)) => rules.default_time = Some(span(n)),
                Some(("requires", names)) => rules.requires = properties(names),
                Some(("users", n)) => rules.users = Some([number(n)?].into()),
                _ => return Err(format!("`{word}` says nothing of a queue")),
            }
        }
        self.queues.push(queue);
        Ok(())
    }

    fn qos(&mut self, name: &str, words: &[&str]) -> Result<(), String> {
        let named = |text: &str| text.parse().map_err(|_| format!("`{text}` is no name"));
        let mut qos = Qos::named(named(name)?);
        for word in words {
            match word.split_once('=') {
                Some(("preempts", names)) => {
                    qos.preempts = names.split(',').map(named).collect::<Result<_, _>>()?;
                }
                Some(("exempt", n)) => qos.exempt = span(n),
                Some(("grace", n)) => qos.grace = Some(span(n)),
                Some(("mode", "cancel")) => qos.mode = Mode::Cancel,
                Some(("mode", "suspend")) => qos.mode = Mode::Suspend,
                Some(("mode", "requeue")) => qos.mode = Mode::Requeue,
                None if *word == "shrink" => qos.shrink = true,
                _ => return Err(format!("`{word}` says nothing of a QoS")),
            }
        }
        self.qos.push(qos);
        Ok(())
    }

    fn hold(&mut self, verb: &str, what: &str) -> Result<(), String> {
        let hold = match what {
            "disk" => Hold::Disk,
            "planner" => Hold::Planner,
            other => return Err(format!("`{other}` cannot be held")),
        };
        let world = self.world();
        match verb {
            "hold" => drop(world.root().held.insert(hold)),
            _ => {
                world.root().held.remove(&hold);
                world.instances[0].commit_soon(&mut world.nature);
                // A held planner is looked at again in a moment.
                let until = world.nature.now.after(Span::millis(1));
                pass(world, until);
            }
        }
        settle(world);
        Ok(())
    }

    fn fault(&mut self, words: &[&str]) -> Result<(), String> {
        let world = self.world();
        match words {
            ["disk", "full"] => world.instances[0].set_room(&mut world.nature, Room::None),
            ["disk", "room"] => world.instances[0].set_room(&mut world.nature, Room::Enough),
            ["crash", "leader"] => world.instances[0].crash_leader(&mut world.nature),
            ["crash", "shells"] => world.strike(Fault::CrashShells),
            ["crash", "both"] => {
                world.instances[0].crash_leader(&mut world.nature);
                world.strike(Fault::CrashShells);
            }
            ["cut", seconds] => world.strike(Fault::Partition(span(seconds))),
            ["start"] => world.instances[0].start_leader(&mut world.nature),
            ["break", name] => {
                let rule = Rule::named(name).ok_or_else(|| format!("`{name}` is no rule"))?;
                world.nature.broken = Some(rule);
            }
            _ => return Err(format!("`{}` is no command", words.join(" "))),
        }
        settle(world);
        Ok(())
    }

    /// A client says something.
    fn spoken(&mut self, client: usize, words: &[&str]) -> Result<(), String> {
        let user = if client == 3 { OWNER + 1 } else { OWNER };
        let place = self.world().clients[client].instance;
        if let ["submit", name, ..] = words {
            self.places.insert((*name).to_owned(), place);
        }
        let call = self.call(user, words)?;
        let reply = std::mem::replace(&mut self.reply, Answer::Arrives);
        let world = self.world();
        world.call(client, call);
        if reply == Answer::IsLost {
            let before = world.nature.judge(ROOT).recorded().last();
            while world.nature.judge(ROOT).recorded().last() == before && world.step() == Course::On
            {
            }
            world
                .nature
                .note(|| format!("client {client} loses its connection"));
            world.cut_client_of(client);
        }
        settle(world);
        Ok(())
    }

    fn call(&mut self, user: u32, words: &[&str]) -> Result<Call, String> {
        Ok(match words {
            ["submit", name, rest @ ..] => {
                let now = self.world().nature.now;
                let key = key(now, &mut self.world().nature.random);
                let ask = self.named(ask(Ask::default(), name, rest)?)?;
                self.submitted
                    .insert((*name).to_owned(), (ask.clone(), user, key));
                Call::submit(user, &ask, key)
            }
            ["again", name, rest @ ..] => {
                let found = self.submitted.get(*name);
                let (before, user, key) = found.ok_or(format!("nobody submitted `{name}`"))?;
                let again = self.named(ask(before.clone(), name, rest)?)?;
                Call::submit(*user, &again, *key)
            }
            ["cancel", name] => Call::raise(self.job(name)?, "cancel", 0),
            ["raise", name, kind] => Call::raise(self.job(name)?, kind, 0),
            ["kill", name, signal] => {
                let job = self.job(name)?;
                self.world().nature.oracle(ROOT).signalled(job);
                Call::kill(job, number(signal)? as i32)
            }
            ["urgency", name, urgency] => Call::urgency(self.job(name)?, number(urgency)? as u8),
            ["update", name, limit] => Call::update(self.job(name)?, span(limit)),
            ["order", names @ ..] => {
                let jobs: Result<Vec<JobId>, String> =
                    names.iter().map(|name| self.job(name)).collect();
                Call::order(jobs?)
            }
            ["requeue", name] => Call::requeue(self.job(name)?),
            ["suspend", name] => Call::suspend(self.job(name)?),
            ["resume", name] => Call::resume(self.job(name)?),
            ["wait", names @ ..] => {
                let jobs: Result<Vec<JobId>, String> =
                    names.iter().map(|name| self.job(name)).collect();
                Call::wait(JobSet::of(jobs?))
            }
            ["collect"] => Call::collect(None),
            ["collect", name] => Call::collect(Some(self.job(name)?)),
            ["list"] => Call::list(JobSet::default()),
            [
                verb @ ("enable" | "disable" | "start" | "stop"),
                queue,
                reason @ ..,
            ] => Call::turn(Some(queue), turn(verb), &reason.join(" ")),
            ["reserve", name, rest @ ..] => reservations::reserve(name, rest)?,
            ["unreserve", name] => Call::unreserve(name),
            ["usage"] => Call::usage(),
            ["pools"] => Call::pools(),
            ["explain"] => Call::explain(),
            ["give", "back", rank] => Call::give_back(Rank(number(rank)?)),
            ["drain", rank] => Call::drain(Rank(number(rank)?)),
            ["dead", rank] => Call::dead(Rank(number(rank)?)),
            ["dead", rank, "force"] => Call::dead_by_force(Rank(number(rank)?)),
            ["undrain", rank] => Call::undrain(Idset::one(number(rank)?)),
            ["put", name, value] => Call::put(name, number(value)?.into()),
            ["get", name] => Call::get(name),
            [verb @ ("reload" | "set"), rest @ ..] => self.configure(verb, rest)?,
            ["policy", preset, keys @ ..] => {
                let preset = format!("preset = \"{preset}\"");
                let lines: Vec<&str> = [&*preset].into_iter().chain(keys.iter().copied()).collect();
                Call::set_policy(&lines.join("\n"))
            }
            ["shutdown"] => Call::shutdown(),
            _ => return Err(format!("`{}` is no command", words.join(" "))),
        })
    }

    /// Another configuration: what is in force, with words put in.
    fn configure(&mut self, verb: &str, words: &[&str]) -> Result<Call, String> {
        let world = self.world();
        let ledger = world.nature.judge(ROOT).recorded();
        let mut settings = world.instances[0].in_force(ledger);
        for word in words {
            let named = |rest: &str| {
                let (name, n) = rest
                    .split_once(':')
                    .ok_or(format!("`{rest}` is not NAME:N"))?;
                Ok::<_, String>((name.to_owned(), number(n)?))
            };
            match word.split_once('=') {
                Some(("pool", rest)) => {
                    let (name, count) = named(rest)?;
                    let mut pools = settings.pools.iter_mut();
                    let pool = pools.find(|pool| pool.name.as_str() == name);
                    pool.ok_or("no such pool")?.count = u64::from(count);
                }
                Some(("running", rest)) => {
                    // Without a number there is none any more.
                    let (name, most) = match rest.contains(':') {
                        true => named(rest).map(|(name, most)| (name, Some(most)))?,
                        false => (rest.to_owned(), None),
                    };
                    let mut queues = settings.queues.iter_mut();
                    let queue = queues.find(|queue| queue.name == name);
                    let rules = &mut queue.ok_or("no such queue")?.rules;
                    rules.limits.running_jobs = most;
                }
                Some(("requires", rest)) => {
                    let (name, names) = rest.split_once(':').unwrap_or((rest, ""));
                    let mut queues = settings.queues.iter_mut();
                    let queue = queues.find(|queue| queue.name == name);
                    queue.ok_or("no such queue")?.rules.requires = properties(names);
                }
                Some(("drop", name)) => settings.queues.retain(|queue| queue.name != name),
                Some(("filters", n)) => {
                    settings.filters = filter::two();
                    settings.filters.truncate(number(n)? as usize);
                }
                _ => return Err(format!("`{word}` says nothing of a configuration")),
            }
        }
        let by = match verb {
            "reload" => By::Reload,
            _ => By::Set(Vec::new()),
        };
        Ok(Call::configure(&Live::of(&settings), &by))
    }

    /// With numbers in place of the names of the jobs that it waits for.
    fn named(&self, mut ask: Ask) -> Result<Ask, String> {
        for (scheme, value) in &mut ask.dependencies {
            let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
            if scheme.starts_with("after") && !is_number {
                // A name, or those of an instance and of a job in it.
                let parts = value.split('/').map(|name| self.job(name));
                let parts: Vec<JobId> = parts.collect::<Result<_, _>>()?;
                let parts: Vec<String> = parts.iter().map(JobId::to_string).collect();
                *value = parts.join("/");
            }
        }
        Ok(ask)
    }

    /// The job of that name: `a`, or `a.2` for a copy.
    fn job(&self, name: &str) -> Result<JobId, String> {
        let (base, index) = match name.split_once('.') {
            Some((base, index)) => (base, number(index)?),
            None => (name, 0),
        };
        let found = self.submitted.get(base).zip(self.world.as_ref());
        let job = found.and_then(|((_, user, key), world)| {
            let place = self.places.get(base).copied().unwrap_or(ROOT);
            let known = |place| {
                let keys = &world.nature.judge(place).recorded().keys;
                keys.get(&(*user, *key, index)).copied()
            };
            // What was submitted in a queue instance may be at its parent still.
            known(place).or_else(|| known(ROOT))
        });
        job.ok_or(format!("no job is called `{name}`"))
    }
}

/// These QoS, and the classes of `armada`, by whatever policy the instance begins.
fn rank(world: &mut World, qos: &[Qos]) {
    world.nature.oracle(ROOT).set_qos(qos);
    let settings = &mut world.root().settings;
    settings.qos = qos.to_vec();
    settings.classes = ["default", "preemptible"]
        .map(|name| Class {
            name: name.parse().expect("a name"),
            priority: 0,
        })
        .to_vec();
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn turn(verb: &str) -> Turn {
    match verb {
        "enable" => Turn::Enable,
        "disable" => Turn::Disable,
        "start" => Turn::Start,
        _ => Turn::Stop,
    }
}

/// Properties of nodes with commas between.
fn properties(names: &str) -> BTreeSet<String> {
    let names = names.split(',').filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Lets everything happen that follows now.
fn settle(world: &mut World) {
    let now = world.nature.now;
    pass(world, now);
}

fn pass(world: &mut World, until: Time) {
    let most = world.steps() + STEPS_MAX;
    while world.steps() < most && world.nature.queue.next_at().is_some_and(|at| at <= until) {
        world.step();
    }
    world.nature.now = world.nature.now.max(until);
}
