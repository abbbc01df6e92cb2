//! Whether a parent and those that it passed jobs to tell the same of them.

use eddy_wire::job::Job;
use eddy_wire::lifecycle::JobState;
use eddy_wire::suspension::Standing;

use super::SIGKILL;
use crate::world::World;

/// What was passed down is what the parent has under that number, and both tell the same of it.
pub(super) fn truly(world: &World) -> Result<(), String> {
    for instance in &world.instances {
        let Some(parent) = instance.nested.as_ref().map(|nested| nested.parent) else {
            continue;
        };
        let above = world.nature.judge(parent).durable();
        for (id, job) in &world.nature.judge(instance.id).durable().jobs {
            let Some(pass) = &job.submit.pass else {
                continue;
            };
            let Some(outside) = above.jobs.get(id) else {
                return Err(format!("job {id} was passed down by nobody"));
            };
            if outside.submit.spec.hash != job.submit.spec.hash || outside.attempt < pass.attempt {
                return Err(format!("job {id} is another one where it was passed to"));
            }
            let is_same = outside.attempt == pass.attempt;
            if is_same && !world.is_over(instance.id) {
                stands_alike(outside, job)?;
            }
            let is_over = |job: &Job| job.state == JobState::Inactive;
            if is_same && is_over(outside) && !is_over(job) && !world.is_over(instance.id) {
                return Err(format!("job {id} is over, and not where it was passed to"));
            }
            // What an instance said as it ended may be lost, and then counts as killed.
            let is_lost = outside.end.is_some() && outside.status == Some(SIGKILL);
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
