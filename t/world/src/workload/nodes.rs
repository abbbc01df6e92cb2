//! What submissions ask of nodes: that they are like this, and that tasks lie in sockets.

use crate::call::{Ask, InSockets, Nests};
use crate::instance::Nodes;
use crate::random::Random;

/// Now and then its tasks lie in sockets, where there are several.
pub(super) fn sockets(random: &mut Random, ask: &mut Ask, nodes: Nodes) {
    if nodes.sockets < 2 || !random.chance(25) || ask.nests != Nests::No || ask.gang.is_some() {
        return;
    }
    let count = random.between(1, i64::from(nodes.sockets)) as u32;
    ask.most = None;
    let most = (nodes.cores / nodes.sockets).max(1);
    ask.cores = random.between(1, i64::from(most)) as u32;
    ask.sockets = Some(match random.below(4) {
        0..2 => InSockets::Of(count),
        2 => InSockets::Alone(count),
        _ => InSockets::Each(count),
    });
}

/// Now and then only some nodes will do, in some instances none.
pub(super) fn constrain(random: &mut Random, ask: &mut Ask) {
    const LIKE: [&str; 9] = [
        "odd",
        "^odd",
        "odd",
        "rack=r0",
        "rack=r1|odd",
        "host:node[0-1]",
        "-host:node0",
        "rank:1-3 -rack=r1",
        "(odd rank:0-2)|gpu",
    ];
    if ask.nests != Nests::Beside && random.chance(15) {
        ask.requires = Some((*random.pick(&LIKE)).to_owned());
    }
}
