//! Whether a parent and those that it passed jobs to tell the same of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::gang;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::job::Job;
use eddy_wire::jobspec::Work;
use eddy_wire::lifecycle::JobState;
use eddy_wire::suspension::Standing;

use super::SIGKILL;
use super::lasting::is_unheard;
use crate::nature::InstanceId;
use crate::oracle::Ledger;
use crate::world::World;

/// What was passed down is what the parent has under that number, and both tell the same of it.
pub(super) fn truly(world: &World) -> Result<(), String> {
    for instance in &world.instances {
        let Some(parent) = instance.nested.as_ref().map(|nested| nested.parent) else {
            continue;
        };
        let above = world.nature.judge(parent).durable();
        let below = world.nature.judge(instance.id).durable();
        for (id, job) in &below.jobs {
            let Some(pass) = &job.submit.pass else {
                continue;
            };
            // Its parent refused it, or knew it already, or its user ended it; or it had no time to hear of it.
            let ended = job.end.as_ref().map(|end| &end.exception);
            let is_member = gang::of(&job.submit.spec).is_ok_and(|gang| gang.is_some());
            let is_said = |note: &str| {
                // Under its key are other jobs, or its gang cannot have it; what else is refused is recorded there.
                note.starts_with("the parent refuses it: key ")
                    || note.starts_with("the parent refuses it: ") && is_member
                    || note.starts_with("it is job ")
                    || note.ends_with(", which was to grow by it, is over")
                    // Who takes no part in limits that came since: here, as at the parent.
                    || note.ends_with("gangs are served where there is none")
            };
            let is_willed = ended.is_some_and(|end| {
                end.userid.is_some() || end.kind == "dependency" || is_said(&end.note)
            });
            let is_void = job.state == JobState::Inactive && job.t_alloc.is_none() && is_willed;
            let is_lost = world.is_over(instance.id) || is_unheard(below, job);
            if job.submit.is_taken_here() && (is_void || is_lost) && !above.jobs.contains_key(id) {
                continue;
            }
            let Some(outside) = above.jobs.get(id) else {
                return Err(format!("job {id} was passed down by nobody"));
            };
            let is_same = outside.attempt == pass.attempt;
            if !is_asked_for(above, outside, (job, is_same)) || outside.attempt < pass.attempt {
                return Err(format!("job {id} is another one where it was passed to"));
            }
            if is_same && !world.is_over(instance.id) {
                stands_alike(outside, job)?;
            }
            let is_over = |job: &Job| job.state == JobState::Inactive;
            if is_same && is_over(outside) && !is_over(job) && !world.is_over(instance.id) {
                return Err(format!("job {id} is over, and not where it was passed to"));
            }
            // What an instance said as it ended may be lost, and then counts as killed.
            let unheard = outside.end.as_ref().is_some_and(|end| {
                let note = &end.exception.note;
                note.ends_with("took it, and has lost what became of it")
                    || note.contains("; it ended there with the wait status ")
            });
            let is_killed = outside.end.is_some() && outside.status == Some(SIGKILL);
            let is_lost = is_killed || unheard;
            if is_same && job.state == JobState::Inactive {
                if outside.state != JobState::Inactive && !world.is_over(instance.id) {
                    return Err(format!(
                        "job {id} is over where it was passed to, and not here"
                    ));
                }
                if job.status.is_some() && outside.status != job.status && !is_lost {
                    let (there, here) = (job.status, outside.status);
                    return Err(format!(
                        "job {id} ended with {there:?} there and {here:?} here"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Whether a job is what is asked for under its number. Who waits again may be other than it was passed down before,
/// and who was taken may have another name.
fn is_asked_for(above: &Ledger, outside: &Job, (inside, is_same): (&Job, bool)) -> bool {
    match is_same && !inside.submit.is_taken_here() {
        true => above.asks_for(outside, &inside.submit),
        false => outside.submit.sent() == inside.submit.sent(),
    }
}

/// What an instance that was passed down has is what its parent has it hold.
fn holds_alike(outside: &Job, inside: &Job) -> Result<(), String> {
    let goes_on = |job: &Job| job.end.is_none() && job.state == JobState::Run;
    let is_instance = outside.submit.spec.request.work != Work::Tasks;
    if !is_instance || !goes_on(outside) || !goes_on(inside) {
        return Ok(());
    }
    let nodes = |job: &Job| -> Vec<(Arc<str>, Idset)> {
        let nodes = job
            .grant()
            .into_iter()
            .flat_map(|grant| grant.set.nodes.values());
        let mut nodes: Vec<_> = nodes
            .map(|node| (Arc::clone(&node.host), node.cores.clone()))
            .collect();
        nodes.sort_by(|a, b| a.0.cmp(&b.0));
        nodes
    };
    let (here, there) = (nodes(outside), nodes(inside));
    match here == there {
        true => Ok(()),
        false => Err(format!(
            "job {} holds {here:?}, and {there:?} where it was passed to",
            outside.id
        )),
    }
}

/// Instances that hold other nodes than they have where they were passed to, by those and their job there.
pub fn unlike(world: &World) -> BTreeMap<(InstanceId, JobId), String> {
    let mut unlike = BTreeMap::new();
    for instance in &world.instances {
        let parent = instance.nested.as_ref().map(|nested| nested.parent);
        let Some(parent) = parent.filter(|_| !world.is_over(instance.id)) else {
            continue;
        };
        let above = &world.nature.judge(parent).durable().jobs;
        for (id, job) in &world.nature.judge(instance.id).durable().jobs {
            let outside = above.get(id).filter(|outside| {
                let pass = job.submit.pass.as_ref();
                pass.is_some_and(|pass| pass.attempt == outside.attempt)
            });
            if let Some(Err(why)) = outside.map(|outside| holds_alike(outside, job)) {
                unlike.insert((instance.id, *id), why);
            }
        }
    }
    unlike
}

/// Whether a job that was passed down runs or not its parent says.
fn stands_alike(outside: &Job, inside: &Job) -> Result<(), String> {
    let alike = match (outside.suspension.standing(), inside.suspension.standing()) {
        (Standing::Runs, Standing::Runs) => true,
        (Standing::Suspended | Standing::Resuming, Standing::Suspended) => true,
        (Standing::Runs | Standing::Suspended | Standing::Resuming | Standing::Stopping, _) => {
            false
        }
    };
    let ends = |job: &Job| job.end.is_some() || job.state != JobState::Run;
    match alike || ends(outside) || ends(inside) {
        true => Ok(()),
        false => Err(format!(
            "job {} is {:?}, and {:?} where it was passed to",
            outside.id,
            outside.suspension.standing(),
            inside.suspension.standing()
        )),
    }
}
