//! Worlds in which much is limited: of accounts, members, users, QoS and queues, by all that can be limited,
//! and for so little that somebody waits; and some that begin shortly before midnight, when periods do.
//!
//! Drawn apart from all else, so that worlds are otherwise as they were.

use std::sync::Arc;

use eddy_sched::policy::Policy;
use eddy_wire::account::Limits;
use eddy_wire::time::{MICROS, Span};
use serde_json::Value;

use crate::broken::Rule;
use crate::instance::Nodes;
use crate::nature::BEGIN;
use crate::random::Random;
use crate::workload::limits::{binding, limits};
use crate::workload::{Limited, OWN_QUEUES, QOS};
use crate::world::{ADMINISTRATOR, World};

const DAY: i64 = 86_400 * MICROS;

/// So in a third of all worlds, and in all where that is not heard; not where another rule is broken.
pub(super) fn limited(world: &mut World, seed: u64, horizon: Span) {
    let mut random = Random::new(seed ^ 0x11_417);
    let is_so = random.chance(33);
    let is_so = match world.nature.broken {
        None => is_so,
        Some(rule) => matches!(
            rule,
            Rule::CoresUnheard | Rule::PeriodUnheard | Rule::GradeUnheard
        ),
    };
    if !is_so {
        return;
    }
    world.habits.limits = Limited::All;
    let nodes = world.nodes;
    let each = each(&mut Random::new(seed ^ 0x11_418), nodes);
    let first = binding(&mut random, nodes, &each);
    world.call(ADMINISTRATOR, first);
    let breaks_grades = world.nature.breaks(Rule::GradeUnheard);
    let settings = &mut world.root().settings;
    for qos in &mut settings.qos {
        if random.chance(30) {
            qos.limits = lasting(&mut random, nodes);
        }
        if random.chance(20) {
            qos.user_limits = lasting(&mut random, nodes);
        }
        qos.limits_waived = random.chance(20);
    }
    let is_ordered = Random::new(seed ^ 0x11_419).chance(40);
    if is_ordered || breaks_grades {
        by_qos(Arc::make_mut(&mut settings.policy));
    }
    let own = settings.queues.iter_mut();
    for queue in own.filter(|queue| queue.name == OWN_QUEUES[1]) {
        // How many of it may run is drawn elsewhere.
        let more = lasting(&mut random, nodes);
        (queue.rules.limits.nodes, queue.rules.limits.cores) = (more.nodes, more.cores);
        queue.rules.user_limits = lasting(&mut random, nodes);
    }
    if random.chance(50) || world.nature.breaks(Rule::PeriodUnheard) {
        let midnight = (BEGIN.0.div_euclid(DAY) + 1) * DAY - BEGIN.0;
        let before = random.between(1_000_000, horizon.0.max(1_000_000));
        for machine in &mut world.nature.machines {
            machine.step(Span(midnight - before));
        }
    }
}

/// Those who are as urgent come in the order of their QoS: so do those whom a limit keeps back.
fn by_qos(policy: &mut Policy) {
    let rules = &mut policy.priority;
    rules.order = vec!["urgency".to_owned(), "qos".to_owned()];
    let values = QOS.iter().zip([1.0, 0.5, 0.0]);
    let values = values.map(|(name, value)| ((*name).to_owned(), value));
    rules.factors.qos.extend(values);
}

/// In a third of them what one job may have and take, and how many GPUs all may. Drawn apart: these came later.
fn each(random: &mut Random, nodes: Nodes) -> Limits {
    if !random.chance(33) {
        return Limits::default();
    }
    let mut some = |percent, most: u32| {
        let drawn = random.between(1, i64::from(most.max(1)));
        random.chance(percent).then_some(drawn as u32)
    };
    let limits = Limits {
        job_nodes: some(30, nodes.count),
        job_cores: some(50, nodes.cores),
        job_gpus: some(30, nodes.gpus),
        gpus: some(70, nodes.gpus),
        ..Limits::default()
    };
    let job_time = random
        .chance(50)
        .then(|| Span(*random.pick(&[10, 30, 100]) * MICROS));
    let mut memory = |percent, most: u64| {
        let drawn = random.between(1, most.max(1) as i64);
        (random.chance(percent) && most > 0).then_some(drawn as u64)
    };
    Limits {
        job_time,
        job_memory: memory(40, nodes.memory),
        memory: memory(60, nodes.memory * u64::from(nodes.count)),
        ..limits
    }
}

/// Limits that nobody waits for longer than others run: nobody changes those of a configuration.
fn lasting(random: &mut Random, nodes: Nodes) -> Limits {
    let Value::Object(mut drawn) = limits(random, nodes) else {
        return Limits::default();
    };
    for budget in ["core_minutes", "period", "carry"] {
        drawn.remove(budget);
    }
    drawn.remove("submitted_jobs");
    let limits: Limits = serde_json::from_value(Value::Object(drawn)).expect("limits");
    Limits {
        excess: Default::default(),
        ..limits
    }
}
