//! A workflow in instances of its own: every job is counted, and four grants are paid for.

use std::collections::BTreeMap;

use eddy_wire::idset::Idset;
use eddy_wire::lifecycle::JobState;
use eddy_wire::time::Span;
use eddy_world::call::{Ask, Call, key};
use eddy_world::nature::InstanceId;
use eddy_world::trial::{Door, Ground, Party, Trial, instance, work};

const INSTANCES: usize = 4;
const JOBS: u32 = 2_500;
const CORES: u32 = 4;
const ME: Party = Party(0);

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
    let grants = &trial.got.ran;
    assert_eq!(grants.len(), INSTANCES);
    let held: i64 = grants
        .iter()
        .map(|one| (one.to - one.from).0 * one.cores as i64)
        .sum();
    let told = trial.usage()?.ok_or("nothing is told of usage")?;
    let charged: Vec<(u32, u128)> = told
        .rows
        .iter()
        .map(|row| (row.payer.user, row.charged.cores + row.running.cores))
        .collect();
    assert_eq!(charged, [(ME.user(), held as u128)]);
    Ok(())
}
