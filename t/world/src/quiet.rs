//! What must be true when nothing is under way: in a lull, and at the end.

use eddy_sched::Planner;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::{Delta, Unavailable, Verdict};
use eddy_wire::time::Span;

use crate::journal::Room;
use crate::replay;
use crate::world::World;

/// Longer than anything takes that is not a wait.
const LULL: Span = Span::seconds(3);

/// Whether everything that was begun is done, so that only timers are left.
pub fn is_lull(world: &World) -> bool {
    let now = world.nature.now;
    let quiet = world
        .nature
        .queue
        .next_at()
        .is_none_or(|at| at > now.after(LULL));
    let instance = &world.instance;
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

/// A plan made from scratch over what is recorded starts nothing.
pub fn nothing_waits_that_could_start(world: &World) -> Result<(), String> {
    let ledger = world.nature.oracle.durable();
    let shells = world.instance.shells.keys();
    let online = shells
        .filter_map(|epoch| ledger.shells.get(epoch))
        .fold(Idset::new(), |all, ranks| all.union(ranks));
    let up = online.difference(&ledger.drained);
    let mut planner = Planner::new();
    planner.apply(Delta::Inventory(ledger.inventory.clone()));
    planner.apply(Delta::Down(ledger.inventory.ranks(), Unavailable::Offline));
    planner.apply(Delta::Up(up));
    for (job, grant) in &ledger.held {
        planner.apply(Delta::Held(*job, grant.set.clone()));
    }
    for (id, job) in &ledger.jobs {
        let priority = job
            .priority
            .filter(|_| job.state == JobState::Sched)
            .unwrap_or(0);
        if priority > 0 {
            let request = job.submit.spec.request.clone();
            planner.apply(Delta::Want(*id, priority, request));
        }
    }
    match planner.plan(world.nature.now, 1).verdicts.first() {
        None => Ok(()),
        Some((job, Verdict::Start(_))) => {
            Err(format!("job {job} waits, though a plan could start it"))
        }
        Some((job, Verdict::Never(reason))) => Err(format!("job {job} waits, though it {reason}")),
    }
}

/// In a lull every shell is connected: what is to be killed is, and nothing runs over its limit.
pub fn nothing_runs_that_should_end(world: &World) -> Result<(), String> {
    let Some(leader) = &world.instance.leader else {
        return Ok(());
    };
    let now = leader.would_say(&world.nature);
    let ledger = world.nature.oracle.durable();
    for (part, task) in world.nature.oracle.running() {
        let (id, attempt) = (part.job, part.attempt);
        let Some(job) = ledger.jobs.get(&id).filter(|job| job.attempt == attempt) else {
            return Err(format!(
                "task {task} of job {id} runs on after its attempt {attempt}"
            ));
        };
        let grace = world.instance.settings.kill_grace;
        let due = job.end.as_ref().map(|end| end.t.after(grace));
        if due.is_some_and(|due| due < now) {
            return Err(format!(
                "task {task} of job {id} runs on though its KILL was due"
            ));
        }
        if job.end.is_some() && !world.nature.oracle.was_asked_to_end(&part) {
            return Err(format!(
                "task {task} of job {id} is to end, and nobody told it"
            ));
        }
        let limit = job.submit.spec.request.duration.map(Span);
        let until = job
            .started
            .zip(limit)
            .map(|(started, limit)| started.after(limit));
        if job.end.is_none() && until.is_some_and(|until| until < now) {
            return Err(format!("job {id} runs over its time limit"));
        }
    }
    Ok(())
}

/// The faults are over and nothing happens any more: every promise is kept.
pub fn is_at_rest(world: &mut World) -> Result<(), String> {
    if world.instance.leader.is_none() {
        return Err("no leader came back".to_owned());
    }
    if !world.instance.journal.is_idle() {
        return Err("records wait for the disk and nobody writes them".to_owned());
    }
    let ledger = world.nature.oracle.durable();
    let open = ledger
        .jobs
        .values()
        .find(|job| job.state != JobState::Inactive);
    if let Some(job) = open {
        return Err(format!(
            "job {} never ends: it is in {}",
            job.id,
            job.state.name()
        ));
    }
    if let Some((part, task)) = world.nature.oracle.running().next() {
        return Err(format!("task {task} of part {part} runs for nobody"));
    }
    if let Some((number, call)) = world.unanswered().next() {
        return Err(format!(
            "client {number} gets no answer to {:?}",
            call.about
        ));
    }
    for (epoch, shell) in &world.instance.shells {
        if let Some((part, state)) = shell.remembers() {
            return Err(format!(
                "shell {epoch} remembers part {part} for ever: {state:?}"
            ));
        }
    }
    kept(world)?;
    let now = world.nature.now;
    replay::agrees_with_life(&mut world.instance, now)
}

/// What was acknowledged is there, and rows are what events say.
fn kept(world: &World) -> Result<(), String> {
    let ledger = world.nature.oracle.durable();
    let missing = |job: &&JobId| !ledger.jobs.contains_key(job);
    if let Some(job) = world.nature.oracle.acknowledged().iter().find(missing) {
        return Err(format!("acknowledged job {job} disappeared"));
    }
    for (id, job) in &ledger.jobs {
        let right = eddy_modules::row::row(job, String::new());
        match world.instance.journal.row(*id) {
            Some(found) if found.row == right => {}
            Some(_) => return Err(format!("the row of job {id} is not what its events say")),
            None => return Err(format!("job {id} is over and has no row")),
        }
    }
    Ok(())
}
