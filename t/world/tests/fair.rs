//! Accounts get what they are due, however they ask for it.

use eddy_wire::time::Span;
use eddy_world::trial::fair::{DUE, Mix, at_each_half_life};

#[test]
fn four_accounts_that_ask_in_four_ways_get_their_shares() {
    let mix = Mix {
        short: Span::seconds(20),
        ..Mix::default()
    };
    let told = at_each_half_life(&mix, 5).expect("promises are kept");
    for (at, parts) in told.iter().enumerate().skip(3) {
        for (part, due) in parts.of.iter().zip(DUE) {
            assert!(
                (part - due).abs() <= 0.02,
                "half-life {}: {parts:?}",
                at + 1
            );
        }
    }
}
