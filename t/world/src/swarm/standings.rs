//! Worlds in which jobs stand above each other: by QoS and class, and in some of them there is too little for
//! all, so that instances and jobs are taken from.

use eddy_modules::settings::{Class, Qos};
use eddy_wire::account::Name;
use eddy_wire::preempt::Mode;
use eddy_wire::time::Span;

use crate::broken::Rule;
use crate::nature::ROOT;
use crate::random::Random;
use crate::workload::{QOS, Standings};
use crate::world::{Visitors, World};

/// So much a client does where there is too little.
const BUSY: u32 = 24;

/// In a third of all worlds jobs of the root may take from others.
pub(super) fn standings(world: &mut World, random: &mut Random) {
    if !random.chance(33) {
        return;
    }
    let mut all = Vec::new();
    for (name, below) in ranked() {
        let mut qos = Qos::named(name);
        qos.preempts = below;
        qos.exempt = *random.pick(&[Span::ZERO, Span::ZERO, Span::seconds(2), Span::seconds(20)]);
        qos.grace = *random.pick(&[None, Some(Span::millis(500)), Some(Span::seconds(8))]);
        qos.mode = *random.pick(&[Mode::Requeue, Mode::Suspend, Mode::Suspend, Mode::Cancel]);
        qos.shrink = qos.grace.is_some();
        all.push(qos);
    }
    stand(world, all, Standings::Many);
}

/// Whether in the world of that seed there is too little for all: drawn apart from all else.
pub(super) fn is_scarce(world: &World, seed: u64) -> bool {
    is_given_late(world) || Random::new(seed ^ 0x5ca7ce).chance(15)
}

/// Whether instances do not give what they are to give: that is a finding only where they live on for long after that,
/// there is too little for all, and nothing else went wrong.
pub(super) fn is_given_late(world: &World) -> bool {
    world.nature.breaks(Rule::GiftsKept)
}

/// Instances of a low standing have most of what there is, and others come soon.
pub(super) fn scarce(world: &mut World, seed: u64) {
    let mut random = Random::new(seed ^ 0x5ca7e);
    let mut all = Vec::new();
    for (name, below) in ranked() {
        let mut qos = Qos::named(name);
        qos.preempts = below;
        qos.exempt = *random.pick(&[Span::ZERO, Span::ZERO, Span::ZERO, Span::seconds(2)]);
        qos.grace = *random.pick(&[None, Some(Span::millis(500)), Some(Span::seconds(4))]);
        qos.mode = *random.pick(&[Mode::Requeue, Mode::Requeue, Mode::Cancel]);
        qos.shrink = random.chance(80);
        all.push(qos);
    }
    stand(world, all, Standings::Scarce);
    let longest = if is_given_late(world) { 300 } else { 40 };
    world.habits.longest = Span::seconds(longest);
    world.pause = Span(*random.pick(&[100_000, 400_000, 1_000_000]));
    let busy = world.acts.iter_mut().filter(|acts| **acts > 0);
    busy.for_each(|acts| *acts = BUSY);
    world.visitors = Visitors::Busy(BUSY / 4);
}

/// Each QoS with those below it.
fn ranked() -> impl Iterator<Item = (Name, Vec<Name>)> {
    let names = QOS.map(|name| name.parse::<Name>().expect("a name"));
    (0..names.len()).map(move |at| (names[at].clone(), names[at + 1..].to_vec()))
}

fn stand(world: &mut World, all: Vec<Qos>, ranks: Standings) {
    world.nature.oracle(ROOT).set_qos(&all);
    let settings = &mut world.root().settings;
    settings.qos = all;
    // Known by name whatever policy is obeyed.
    settings.classes = ["default", "preemptible"]
        .map(|name| Class {
            name: name.parse().expect("a name"),
            priority: 0,
        })
        .to_vec();
    world.habits.ranks = ranks;
}
