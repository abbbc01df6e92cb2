//! What must be true when nothing is under way: in a lull, and at the end.

mod expected;
mod lasting;
pub mod passed;

use std::collections::BTreeSet;
use std::sync::Arc;

use eddy_modules::lending::Lending;
use eddy_modules::requires::Requires;
use eddy_sched::Lines;
use eddy_sched::policy::print::print;
use eddy_sched::policy::read::read;
use eddy_sched::policy::{NodeRank, Policy, Reservations, Walk};
use eddy_wire::account::Name;
use eddy_wire::gang::Gang;
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::job::Job;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::{Delta, Owner, Unavailable, Verdict, Want};
use eddy_wire::pool;
use eddy_wire::preempt::Preempts;
use eddy_wire::queue::UNNAMED;
use eddy_wire::services::job::URGENCY_MAX;
use eddy_wire::shell::Part;
use eddy_wire::suspension::Standing;
use eddy_wire::time::Span;

use crate::call::Call;
use crate::instance::Instance;
use crate::journal::Room;
use crate::leader::Leader;
use crate::nature::{InstanceId, ROOT};
use crate::oracle::{Ledger, is_left_behind};
use crate::replay;
use crate::task::SIGKILL;
use crate::world::World;
pub use expected::expected;
use lasting::{lasts, waits_for_what_lasts};

/// Longer than anything takes that is not a wait.
const LULL: Span = Span::seconds(3);

/// How late a leader may be whose clock gains: as long as it takes to compare it.
const LATE: Span = Span::seconds(1);

/// No run of the world starts more at a time.
const BURST_MIN: u32 = 500;

/// Whether everything that was begun is done, so that only timers are left.
pub fn is_lull(world: &World) -> bool {
    let now = world.nature.now;
    let quiet = world
        .nature
        .queue
        .next_at()
        .is_none_or(|at| at > now.after(LULL));
    let instance = &world.instances[ROOT.place()];
    let serving = instance.leader.as_ref().is_some_and(|leader| {
        leader.is_planned() && leader.broker().phase() == eddy_broker::Phase::Run
    });
    let linked = instance.shells.values().all(|shell| shell.pipe().is_some());
    let held = !instance.held.is_empty();
    quiet
        && serving
        && linked
        && !held
        && instance.journal.is_idle()
        && instance.journal.room == Room::Enough
}

/// A plan made from scratch over what is recorded starts nothing. Where the order rests on what was
/// used, or what was promised is kept, that holds only while everything is free, also of reservations.
pub fn nothing_waits_that_could_start(world: &World, id: InstanceId) -> Result<(), String> {
    let instance = &world.instances[id.place()];
    let ledger = world.nature.judge(id).durable();
    let text = policy(instance, ledger);
    let policy = read(&text).unwrap_or_default();
    let is_reserved = world.nature.judge(id).reservations().next().is_some();
    let all_free = ledger.held.is_empty() && !is_reserved;
    // What is kept for whom others end another planner may keep elsewhere.
    let ending = |job: &JobId| ledger.jobs[job].preemption().is_some();
    if is_slow(&policy) || !(all_free || is_from_scratch(&policy)) || ledger.held.keys().any(ending)
    {
        return Ok(());
    }
    let stopped = world.nature.judge(id).queued().stopped();
    let mut planner = fresh(instance, ledger);
    planner.apply(Delta::Pools(
        instance.in_force(ledger).pools.as_slice().into(),
    ));
    for (job, grant) in &ledger.held {
        let takes = pool::of(&ledger.jobs[job].submit.spec).unwrap_or_default();
        planner.apply(Delta::Uses(*job, takes, grant.set.clone()));
    }
    for one in world.nature.judge(id).reservations() {
        planner.apply(Delta::Reserved(one.clone()));
    }
    let ganged = world.nature.judge(id).ganged();
    let goes_on = |job| ledger.held.contains_key(&job) && ledger.jobs[&job].end.is_none();
    let gang = |job| ganged.starts_with(job, goes_on);
    for (job, want) in waiting(instance, ledger, stopped, gang) {
        planner.apply(Delta::Want(job, want));
    }
    planner.apply(Delta::Policy(text.into()));
    // What starts later because time passes is planned when something happens.
    let planned = instance.leader.as_ref().map(Leader::planned);
    let now = planned.unwrap_or(world.nature.now);
    let verdicts = planner.plan(now, 1).verdicts;
    // What an instance is to grow by waits until it has room beside that, and who has none by what a
    // queue requires until it requires something else.
    let requires = Requires::new(&instance.in_force(ledger).queues, &ledger.inventory);
    let waits = |job: &JobId| {
        let spec = &ledger.jobs[job].submit.spec;
        let queue = spec.jobspec.attributes.system.queue.as_deref();
        spec.request.grows().is_some() || requires.ranks(queue).is_some()
    };
    let mut verdicts = verdicts.iter();
    let first =
        verdicts.find(|(job, verdict)| !matches!(verdict, Verdict::Never(_)) || !waits(job));
    match first {
        // Who is exempt, or was taken from often enough, it was not told.
        None | Some((_, Verdict::Preempt { .. })) => Ok(()),
        Some((job, Verdict::Start(_))) => {
            let policy = &policy.preset;
            Err(format!(
                "job {job} waits, though a plan by {policy} could start it"
            ))
        }
        Some((job, Verdict::Never(reason))) => Err(format!("job {job} waits, though it {reason}")),
    }
}

/// Whether a plan is a function of what is recorded alone. Where a promise goes to nodes by their
/// use, what started beside it since would send it elsewhere.
fn is_from_scratch(policy: &Policy) -> bool {
    if policy.queue.reserve_after.is_some() {
        // What was promised to one who waited too long is kept.
        return false;
    }
    if policy.queue.walk == Walk::Skip {
        // Nothing is kept for anybody: whoever fits starts, whatever the order.
        return true;
    }
    let same_nodes = match (policy.queue.walk, policy.placement.rank) {
        (Walk::Stop | Walk::Skip, _) => true,
        (Walk::Reserve { .. }, NodeRank::LowId | NodeRank::FirstFit | NodeRank::HighId) => true,
        (
            Walk::Reserve { .. },
            NodeRank::Pack | NodeRank::Spread | NodeRank::BestFit | NodeRank::Locality,
        ) => false,
    };
    same_nodes
        && policy.queue.reservations == Reservations::Replanned
        // Between two plans what is planned is not what would be.
        && policy.queue.replan_every.is_none()
        && policy.priority.order == ["urgency"]
}

/// Whoever is in DEPEND waits for something.
pub fn nothing_waits_for_what_is_met(world: &World, id: InstanceId) -> Result<(), String> {
    let instance = &world.instances[id.place()];
    // A clock that gains on a wall clock that was set ahead is at most this late.
    let now = instance.would_say(&world.nature).after(Span(-LATE.0));
    let ledger = world.nature.judge(id).durable();
    let waiting = ledger
        .jobs
        .values()
        .filter(|job| job.state == JobState::Depend);
    match waiting
        .into_iter()
        .find(|job| is_left_behind(ledger, job, now))
    {
        Some(job) => Err(format!(
            "job {} is in DEPEND, and all it waits for is met",
            job.id
        )),
        None => Ok(()),
    }
}

/// Whoever is kept back by limits is kept back by one that binds.
pub fn nobody_is_forgotten_at_a_limit(world: &World, id: InstanceId) -> Result<(), String> {
    match world.nature.judge(id).limited().forgotten() {
        Some(job) => Err(format!(
            "job {job} waits to be let through, and nobody has anything of its limits"
        )),
        None => Ok(()),
    }
}

/// Whether so few may be started at a time that some wait for no other reason.
pub fn is_slow(policy: &Policy) -> bool {
    let limits = &policy.queue.limits;
    let rates = [limits.rate, limits.account_rate].into_iter().flatten();
    rates.into_iter().any(|rate| rate.burst < BURST_MIN)
        || !limits.pass_fraction.is_empty()
        || !limits.account_fraction.is_empty()
}

/// The policy that an instance obeys: one that was set counts over what was configured then.
fn policy(instance: &Instance, ledger: &Ledger) -> String {
    let configured = print(&instance.in_force(ledger).policy);
    match &ledger.policy {
        Some((text, over)) if *over == configured => text.clone(),
        _ => configured,
    }
}

/// A planner that was told what is recorded of nodes and who holds them.
fn fresh(instance: &Instance, ledger: &Ledger) -> Lines {
    let shells = instance.shells.keys();
    let online = shells
        .filter_map(|epoch| ledger.shells.get(epoch))
        .fold(Idset::new(), |all, ranks| all.union(ranks));
    let up = online.difference(&ledger.drained);
    let mut planner = Lines::new();
    planner.apply(Delta::Preempts(Arc::new(Preempts {
        grace: instance.settings.kill_grace,
        ..Preempts::default()
    })));
    planner.apply(Delta::Inventory(ledger.inventory.clone()));
    planner.apply(Delta::Down(ledger.inventory.ranks(), Unavailable::Offline));
    planner.apply(Delta::Up(up));
    for (job, grant) in &ledger.held {
        let request = &ledger.jobs[job].submit.spec.request;
        if let (Work::Instance { name: Some(name) }, None) = (&request.work, request.beside()) {
            planner.apply(Delta::Ground(*job, grant.set.clone()));
            let set = Some(grant.set.clone());
            planner.apply(Delta::Line(name.as_str().into(), set));
        }
    }
    for (id, grant) in &ledger.held {
        let job = &ledger.jobs[id];
        if !matches!(
            &job.submit.spec.request.work,
            Work::Instance { name: Some(_) }
        ) {
            let owner = owner(instance, job);
            let set = ledger.lasting(job, grant);
            planner.apply(match job.suspension.standing().is_without_cores() {
                true => Delta::Rests(*id, owner.line, set),
                false => Delta::Held(*id, owner, set),
            });
        }
    }
    planner
}

/// Who waits, and for what.
fn waiting(
    instance: &Instance,
    ledger: &Ledger,
    stopped: &BTreeSet<String>,
    gang: impl Fn(JobId) -> Option<Gang>,
) -> Vec<(JobId, Want)> {
    let mut waiting = Vec::new();
    let lending = Lending::new(&instance.settings);
    let requires = Requires::new(&instance.in_force(ledger).queues, &ledger.inventory);
    for (id, job) in &ledger.jobs {
        // What was passed down starts where its parent said; what came back rests for a while.
        if job.submit.pass.is_some() || job.recalls > 0 {
            continue;
        }
        let resumes = job.state == JobState::Run && job.suspension.standing() == Standing::Resuming;
        let is_ending = job.end.is_some() || job.preemption().is_some();
        let priority = job
            .priority
            .filter(|_| job.state == JobState::Sched)
            .unwrap_or(i64::from(resumes && !is_ending));
        let queue = job.submit.spec.jobspec.attributes.system.queue.as_deref();
        let is_stopped = stopped.contains(queue.unwrap_or(UNNAMED));
        if priority > 0 && !is_stopped {
            if resumes {
                waiting.push((*id, comes_back(instance, job)));
                continue;
            }
            let request = job.submit.spec.request.clone();
            let to = leads(instance, job);
            let mut ranks = lending.ranks(to, &request, &ledger.inventory);
            if let Work::Ground { of } = request.work {
                // On nodes where its instance has nothing, while that runs.
                let Some(has) = ledger.ground_of(of) else {
                    continue;
                };
                let all = ranks.unwrap_or_else(|| ledger.inventory.ranks());
                ranks = Some(all.difference(&has));
            }
            let request = requires.within(queue, request, ranks);
            let gang = gang(*id);
            let mut owner = owner(instance, job);
            if gang.is_some() {
                owner.user = job.submit.user;
            }
            let want = Want {
                owner,
                gang: gang.map(Arc::new),
                reservation: named(job),
                pools: pool::of(&job.submit.spec).unwrap_or_default(),
                ..Want::of(u8::try_from(priority).unwrap_or(31), request)
            };
            waiting.push((*id, want));
        }
    }
    waiting
}

/// What a suspended job waits for that is to go on.
fn comes_back(instance: &Instance, job: &Job) -> Want {
    let cores = job.suspension.lacks().unwrap_or_default();
    let slots = cores.values().sum();
    let request = Request {
        nodes: None,
        choice: None,
        slots,
        slots_per_node: slots,
        cores_per_slot: 1,
        gpus_per_slot: 0,
        sockets: None,
        memory: MemoryNeed::None,
        sharing: Sharing::Shared,
        ranks: Some(cores.keys().map(|rank| rank.0).collect()),
        ..job.submit.spec.request.clone()
    };
    Want {
        owner: owner(instance, job),
        reservation: named(job),
        back: Some(Arc::new(cores)),
        ..Want::of(URGENCY_MAX, request)
    }
}

/// The reservation that a job names.
fn named(job: &Job) -> Option<Name> {
    eddy_wire::reservation::of(&job.submit.spec)?.parse().ok()
}

/// Whose a job is, as far as the line goes that it waits in.
fn owner(instance: &Instance, job: &Job) -> Owner {
    let lending = Lending::new(&instance.settings);
    let apart = leads(instance, job).filter(|name| lending.elastic(name).is_none());
    Owner {
        line: apart.map(Into::into),
        ..Owner::default()
    }
}

/// The instance that the queue of a job leads to.
fn leads<'i>(instance: &'i Instance, job: &Job) -> Option<&'i str> {
    let queue = job.submit.spec.jobspec.attributes.system.queue.as_ref()?;
    let mut queues = instance.settings.queues.iter();
    let led = queues.find(|one| one.name == *queue)?;
    led.instance.as_deref()
}

/// In a lull every shell is connected: what is to be killed is, and nothing runs over its limit.
pub fn nothing_runs_that_should_end(world: &World, id: InstanceId) -> Result<(), String> {
    let (instance, judge) = (&world.instances[id.place()], world.nature.judge(id));
    if instance.leader.is_none() {
        return Ok(());
    }
    let now = instance.would_say(&world.nature);
    let ledger = judge.durable();
    for (part, task) in judge.running() {
        let (id, attempt) = (part.job, part.attempt);
        let Some(job) = ledger.jobs.get(&id).filter(|job| job.attempt == attempt) else {
            return Err(format!(
                "task {task} of job {id} runs on after its attempt {attempt}"
            ));
        };
        let grace = instance.settings.kill_grace;
        let due = crate::oracle::due(job, grace);
        if due.is_some_and(|due| due < now) {
            return Err(format!(
                "task {task} of job {id} runs on though its KILL was due"
            ));
        }
        if job.end.is_some() && !judge.was_asked_to_end(&part) {
            return Err(format!(
                "task {task} of job {id} is to end, and nobody told it"
            ));
        }
        let limit = job.submit.spec.request.duration.map(Span);
        let counts = !job.suspension.standing().is_without_cores();
        // While it is suspended its time does not run.
        let started = job.started.filter(|_| counts);
        let until = started
            .zip(limit)
            .map(|(started, limit)| started.after(limit).after(job.suspension.lasted()));
        if job.end.is_none() && until.is_some_and(|until| until < now) {
            return Err(format!("job {id} runs over its time limit"));
        }
    }
    Ok(())
}

/// The faults are over and nothing happens any more: every promise is kept.
pub fn is_at_rest(world: &mut World) -> Result<(), String> {
    leads_nothing(world, ROOT)?;
    all_answered(world)?;
    let now = world.nature.now;
    let judge = world.nature.judge(ROOT);
    replay::agrees_with_life(&mut world.instances[ROOT.place()], judge, now)
}

/// The same for a world of machines; which instance it is about, if it is not so.
pub fn is_tree_at_rest(world: &World) -> Result<(), (InstanceId, String)> {
    if let Some(client) = world
        .acts
        .iter()
        .zip(&world.clients)
        .find_map(|(acts, client)| (*acts > 0 && !client.is_gone()).then_some(client))
    {
        let why = format!("client {} still has something in mind", client.number);
        return Err((client.instance, why));
    }
    // Those inside first: what waits outside may wait for them.
    for instance in world.instances.iter().rev() {
        let id = instance.id;
        let checked = match instance.nested.is_some() && world.is_over(id) {
            true => is_gone(world, id),
            false => leads_nothing(world, id).and_then(|()| is_whole(world, id)),
        };
        checked.map_err(|why| (id, why))?;
    }
    numbered_once(world).map_err(|why| (ROOT, why))?;
    passed::truly(world).map_err(|why| (ROOT, why))?;
    all_answered(world).map_err(|why| (ROOT, why))
}

/// One number names one job of the root and of the instances it declares.
fn numbered_once(world: &World) -> Result<(), String> {
    let mut given = BTreeSet::new();
    let sharing = world
        .instances
        .iter()
        .filter(|instance| instance.id == ROOT || instance.settings.place.name.is_some());
    for instance in sharing {
        for (job, known) in &world.nature.judge(instance.id).durable().jobs {
            if known.submit.pass.is_none() && !given.insert(*job) {
                return Err(format!("number {job} was given twice in queue instances"));
            }
        }
    }
    Ok(())
}

/// Nothing is left of an instance that is over.
fn is_gone(world: &World, id: InstanceId) -> Result<(), String> {
    let instance = &world.instances[id.place()];
    if instance.leader.is_some() {
        return Err("its leader leads nobody's instance".to_owned());
    }
    if let Some(epoch) = instance.shells.keys().next() {
        return Err(format!("its shell {epoch} is nobody's"));
    }
    if let Some((part, task)) = world.nature.judge(id).running().next() {
        return Err(format!(
            "task {task} of part {part} runs in nobody's instance"
        ));
    }
    match world
        .agents
        .iter()
        .position(|agent| agent.hosted.contains_key(&id))
    {
        Some(machine) => Err(format!("agent {machine} hosts a rank of nobody's instance")),
        None => Ok(()),
    }
}

/// The tree of ranks is whole: each rank is reached, over ranks nearer to the leader.
fn is_whole(world: &World, id: InstanceId) -> Result<(), String> {
    let instance = &world.instances[id.place()];
    let Some(leader) = &instance.leader else {
        return Ok(());
    };
    let (Some(head), Some(door)) = (leader.head(), leader.door_ref()) else {
        return Ok(());
    };
    let reached = head.reached_ranks();
    for rank in world.ranks_of(id).iter() {
        if !reached.contains(rank) {
            return Err(format!(
                "rank {rank} is not reached, though nothing is in its way"
            ));
        }
        if rank > 0 && door.overlay().parent_of(Rank(rank)).is_none() {
            return Err(format!("rank {rank} is reached over nobody"));
        }
    }
    Ok(())
}

/// An instance that lives has nothing to do and has done everything.
fn leads_nothing(world: &World, id: InstanceId) -> Result<(), String> {
    let (instance, judge) = (&world.instances[id.place()], world.nature.judge(id));
    if instance.leader.is_none() {
        return Err("no leader came back".to_owned());
    }
    if !instance.journal.is_idle() {
        return Err("records wait for the disk and nobody writes them".to_owned());
    }
    let ledger = judge.durable();
    let is_open = |job: &&Job| job.state != JobState::Inactive;
    let open = ledger
        .jobs
        .values()
        .filter(is_open)
        .find(|job| !lasts(ledger, job));
    if let Some(job) = open {
        // What could start and does not tells more.
        nothing_waits_for_what_is_met(world, id)?;
        nothing_waits_that_could_start(world, id)?;
        return Err(format!(
            "job {} never ends: it is in {}",
            job.id,
            job.state.name()
        ));
    }
    let found = |part: &Part| ledger.jobs.get(&part.job);
    let forgotten = |part: &Part| !found(part).is_some_and(|job| lasts(ledger, job));
    if let Some((part, task)) = judge.running().find(|(part, _)| forgotten(part)) {
        return Err(format!("task {task} of part {part} runs for nobody"));
    }
    for (epoch, shell) in &instance.shells {
        if let Some((part, state)) = shell.remembers(forgotten) {
            return Err(format!(
                "shell {epoch} remembers part {part} for ever: {state:?}"
            ));
        }
    }
    kept(world, id)
}

fn all_answered(world: &World) -> Result<(), String> {
    let owed = |(client, call): &(usize, &Call)| {
        let (id, rank) = (world.clients[*client].instance, world.clients[*client].rank);
        // A node that has left an instance has no rank of it that could answer.
        let is_there = world.ranks_of(id).contains(rank.0);
        is_there && !waits_for_what_lasts(world, id, call)
    };
    match world.unanswered().find(owed) {
        Some((number, call)) => Err(format!(
            "client {number} gets no answer to {} {}",
            call.topic,
            String::from_utf8_lossy(&call.body)
        )),
        None => Ok(()),
    }
}

/// What was acknowledged is there, and rows are what events say.
fn kept(world: &World, id: InstanceId) -> Result<(), String> {
    let judge = world.nature.judge(id);
    let ledger = judge.durable();
    let missing = |job: &&JobId| !ledger.jobs.contains_key(job);
    if let Some(job) = judge.acknowledged().iter().find(missing) {
        return Err(format!("acknowledged job {job} disappeared"));
    }
    let over = ledger.jobs.iter();
    for (job, found) in over.filter(|(_, job)| job.state == JobState::Inactive) {
        let right = eddy_modules::row::row(found, String::new());
        match world.instances[id.place()].journal.row(*job) {
            Some(found) if found.row == right => {}
            Some(_) => return Err(format!("the row of job {job} is not what its events say")),
            None => return Err(format!("job {job} is over and has no row")),
        }
    }
    Ok(())
}
