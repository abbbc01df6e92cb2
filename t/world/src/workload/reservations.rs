//! Reservations that come and go, and jobs that name them.

use eddy_wire::idset::Idset;
use eddy_wire::reservation::Purpose;
use eddy_wire::services::reservation::{CreateRequest, Running, Which};
use eddy_wire::services::resource::Targets;
use eddy_wire::time::Span;

use crate::call::{Ask, Call};
use crate::client::Client;
use crate::instance::Nodes;
use crate::nature::Nature;

const NAMES: [&str; 3] = ["r0", "r1", "r2"];

/// A reservation is made or ended.
pub(super) fn reserve(nature: &mut Nature, client: &Client, nodes: Nodes) -> Call {
    let now = nature.clock(0).wall;
    let random = &mut nature.random;
    let name = *random.pick(&NAMES);
    if random.chance(25) {
        return Call::unreserve(name);
    }
    let ranks = |count: u32, first: u32| Idset::range(first, (first + count).min(nodes.count) - 1);
    let count = random.between(1, i64::from(nodes.count)) as u32;
    let first = random.below(u64::from(nodes.count)) as u32;
    let request = CreateRequest {
        name: name.parse().expect("a name"),
        from: now.after(Span(random.between(-1_000_000, 20_000_000))),
        span: Span(random.between(1, 40_000_000)),
        nodes: match random.chance(50) {
            true => Which::Count(count),
            false => Which::Named(Targets::Ranks(ranks(count, first))),
        },
        purpose: match random.chance(30) {
            true => Purpose::Maintenance,
            false => Purpose::Jobs {
                // As long as there are no accounts one that names any is refused.
                accounts: match count.is_multiple_of(2) {
                    true => Vec::new(),
                    false => vec!["inner".parse().expect("a name")],
                },
                users: vec![client.user],
            },
        },
        running: match random.chance(50) {
            true => Running::Ignore,
            false => Running::Refuse,
        },
        once: None,
    };
    Call::reserve(&request)
}

/// A job names a reservation now and then, and has an end.
pub(super) fn name(nature: &mut Nature, ask: &mut Ask) {
    if nature.random.chance(8) {
        ask.reservation = Some((*nature.random.pick(&NAMES)).to_owned());
        ask.limit = *nature.random.pick(&[0.001, 0.5, 2.0, 10.0]);
        ask.ranks = None;
    }
}
