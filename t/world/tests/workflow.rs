//! A workflow in instances of its own: every job is counted, and four grants are paid for.

use std::collections::BTreeMap;

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::child::Stage;
use eddy_wire::time::Span;
use eddy_world::call::{Ask, Call, key};
use eddy_world::nature::InstanceId;
use eddy_world::trial::{Door, Ground, Party, Trial, instance, work};

const INSTANCES: usize = 4;
const JOBS: u32 = 2_500;
const CORES: u32 = 4;
const ME: Party = Party(0);
const OTHER: Party = Party(1);

#[test]
fn ten_thousand_jobs_in_four_instances_are_their_users_and_four_grants_are_charged()
-> Result<(), String> {
    let mut trial = Trial::new(Ground {
        nodes: INSTANCES as u32,
        cores: CORES,
        message: Span::ZERO,
        policy: "preset = \"flux\"".to_owned(),
        queues: Vec::new(),
        accounts: vec![("flows", None, 1), ("others", None, 1)],
        members: vec![("flows", 1), ("others", 1)],
    })?;
    // Each step lasts as long as its jobs need, and a bit.
    let last = Span::seconds(700);
    for _ in 0..INSTANCES {
        trial.submit(ME, Door::Root, &instance(1, last, Span::seconds(800)));
    }
    trial.run(Span::seconds(5), |_, _| {})?;
    let steps: Vec<InstanceId> = (1..trial.world.instances.len() as u32)
        .map(InstanceId)
        .collect();
    assert_eq!(steps.len(), INSTANCES);
    for id in &steps {
        let client = trial.world.add_client_of(ME.user(), *id, 0);
        let nature = &mut trial.world.nature;
        let key = key(nature.now, &mut nature.random);
        let many = Ask {
            cc: Some(Idset::first_ids(JOBS)),
            ..work(1, Span::seconds(1), Span::ZERO)
        };
        trial
            .world
            .call(client, Call::submit(ME.user(), &many, key));
    }
    trial.run(Span::seconds(1000), |_, _| {})?;
    let mut users: BTreeMap<u32, usize> = BTreeMap::new();
    for id in &steps {
        let jobs = trial.world.nature.judge(*id).recorded().jobs.values();
        // But for the program of the step itself.
        for job in jobs.filter(|job| job.submit.spec.jobspec.name() == "job") {
            assert_eq!(job.state, JobState::Inactive);
            *users.entry(job.submit.user).or_default() += 1;
        }
    }
    assert_eq!(
        users,
        BTreeMap::from([(ME.user(), INSTANCES * JOBS as usize)])
    );
    let grants = trial.got.ran.clone();
    assert_eq!(grants.len(), INSTANCES);
    let own: Vec<JobId> = grants.iter().map(|one| one.job).collect();
    told_by_the_root(&mut trial, &own)?;
    let held: i64 = grants
        .iter()
        .map(|one| (one.to - one.from).0 * one.cores as i64)
        .sum();
    let told = trial.usage()?.ok_or("nothing is told of usage")?;
    // Nothing is charged to anybody for what ran inside, and all that was held is somebody's.
    assert_eq!(told.identity.charged.cores, held as u128);
    let charged: Vec<(u32, u128)> = told
        .rows
        .iter()
        .map(|row| (row.payer.user, row.charged.cores + row.running.cores))
        .collect();
    assert_eq!(charged, [(ME.user(), held as u128)]);
    Ok(())
}

/// What the root says of its instances to their user: every job is counted, in the one it was in. Nobody else is told.
fn told_by_the_root(trial: &mut Trial, steps: &[JobId]) -> Result<(), String> {
    for step in steps {
        let rows = trial.child(ME, *step)?;
        let [row] = rows.as_slice() else {
            return Err(format!("{} rows of step {step}", rows.len()));
        };
        assert_eq!((row.job, row.stage), (*step, Stage::Over));
        let told = row.summary;
        // The program of the step is one more.
        assert_eq!(told.completed, u64::from(JOBS) + 1, "{row:?}");
        assert_eq!((told.failed, told.pending, told.running), (0, 0, 0));
        assert!(
            trial
                .child(OTHER, *step)?
                .iter()
                .all(|row| row.uri.is_none())
        );
    }
    Ok(())
}
