//! Accounts get what they are due, however they ask for it.

use eddy_wire::idset::Idset;
use eddy_wire::time::Span;
use eddy_world::call::Ask;
use eddy_world::trial::fair::{Demand, Mix, at_each_half_life};
use eddy_world::trial::{Door, Ground, Party, Trial, parts, work};

/// By how much an account may have more or less than its due, as a part of that.
const OFF_MAX: f64 = 0.02;
/// So many half-lives are played; it is looked at the end of each after the third.
const HALVES: u32 = 9;

/// Slurm's blend, which does not promise it, is told apart.
#[test]
fn accounts_of_unlike_shares_do_not_get_them_by_slurms_blend() {
    let mix = Mix {
        short: Span::seconds(100),
        over: "share.blend = \"part\"".to_owned(),
        ..Mix::default()
    };
    let told = at_each_half_life(&mix, 3).expect("promises are kept");
    assert!(told[2].of[1] < mix.due()[1] - 0.05, "{told:?}");
}

#[test]
fn four_accounts_that_ask_in_four_ways_get_their_shares() {
    let mix = Mix {
        short: Span::seconds(20),
        ..Mix::default()
    };
    let told = at_each_half_life(&mix, HALVES).expect("promises are kept");
    for (at, parts) in told.iter().enumerate().skip(3) {
        // Of its own due, not of the machine: an eighth is missed by no more than a four-hundredth.
        assert!(
            mix.off(&parts.of) <= OFF_MAX,
            "half-life {}: {told:?}",
            at + 1
        );
        assert!(parts.busy > 0.98, "half-life {}: {told:?}", at + 1);
    }
    let inside = |at: usize| told[at].inside;
    for at in 1..told.len() {
        assert!(inside(at) >= inside(at - 1) + 100, "{told:?}");
    }
}

/// With the times of a real site, so that who is wide waits for hours: neither that nor its width is worth more than
/// it may be.
#[test]
fn jobs_of_half_a_day_get_no_more_for_being_wide_and_long_in_line() {
    let long = Span::seconds(12 * 3600);
    let mix = Mix {
        long,
        half: Span(long.0 * 14),
        short: Span(long.0 / 50),
        ..Mix::default()
    };
    let told = at_each_half_life(&mix, 6).expect("promises are kept");
    for parts in told.iter().skip(3) {
        assert!(mix.off(&parts.of) <= OFF_MAX, "{told:?}");
    }
}

/// Whose limits are twice what they run have less than they are due: who runs longer, the more.
#[test]
fn limits_of_twice_the_time_cost_what_they_say_too_much() {
    let mix = Mix {
        short: Span::seconds(50),
        limits: 200,
        ..Mix::default()
    };
    let bound = OFF_MAX + mix.misled();
    assert!(bound < 0.05, "{bound}");
    let told = at_each_half_life(&mix, 6).expect("promises are kept");
    for parts in told.iter().skip(3) {
        assert!(mix.off(&parts.of) <= bound, "{bound}: {told:?}");
    }
}

const WIDEST: u32 = 8;

fn two(nodes: u32, half: Span) -> Ground {
    by(nodes, half, "projected")
}

fn by(nodes: u32, half: Span, within: &str) -> Ground {
    let half = half.0 as f64 / 1e6;
    Ground {
        nodes,
        cores: 1,
        message: Span::ZERO,
        policy: format!(
            "preset = \"flux\"\nusage.decay.half = \"{half}s\"\nshare.within_pass = \"{within}\""
        ),
        queues: vec!["q"],
        accounts: vec![("a", None, 3), ("b", None, 1)],
        members: vec![("a", 1), ("b", 1)],
    }
}

/// After an outage: jobs of all widths wait, and all nodes come at once. What each has of them then.
fn after_an_outage(within: &str) -> [f64; 2] {
    let ground = by(64, Span::seconds(7 * 86_400), within);
    let mut trial = Trial::new(ground).unwrap();
    trial.close();
    trial.run(Span::seconds(1), |_, _| {}).unwrap();
    for width in 1..=WIDEST {
        // The one that is due less came first.
        for party in [Party(1), Party(0)] {
            let hour = Span::seconds(3600);
            let ask = Ask {
                cc: Some(Idset::first_ids(20)),
                queue: Some("q".to_owned()).filter(|_| width % 2 == 0),
                ..work(width, hour, hour)
            };
            trial.submit(party, Door::Root, &ask);
        }
    }
    trial.run(Span::seconds(1), |_, _| {}).unwrap();
    assert!(
        trial
            .got
            .core_seconds(trial.begun(), trial.world.nature.now)
            .is_empty()
    );
    trial.open();
    let open = trial.world.nature.now;
    trial.run(Span::seconds(1), |_, _| {}).unwrap();
    let had = trial.got.core_seconds(open, trial.world.nature.now);
    [Party(0), Party(1)].map(|party| had.get(&party).copied().unwrap_or(0.0))
}

#[test]
fn the_first_pass_over_an_empty_machine_divides_it_by_the_shares() {
    let [a, b] = after_an_outage("projected");
    assert!((a + b - 64.0).abs() < 1e-3, "{a} {b}");
    assert!((a - 48.0).abs() <= f64::from(WIDEST), "{a} {b}");
    // Where a pass does not know what it has planned, whoever came first has all.
    let [a, b] = after_an_outage("static");
    assert!(a < 1.0 && b > 63.0, "{a} {b}");
}

/// Three to one, then three to nine.
#[test]
fn a_change_of_shares_is_followed() {
    let half = Span::seconds(2000);
    let mut trial = Trial::new(two(8, half)).unwrap();
    let mut demand = Demand::new(2);
    let ask = work(1, Span::seconds(20), Span::seconds(24));
    for party in [Party(0), Party(1)] {
        demand.submit(&mut trial, party, (Door::Root, &ask), 16);
    }
    let mut had = |trial: &mut Trial| {
        let span = Span(half.0 * 4);
        trial
            .run(span, |trial, told| {
                if demand.hear(told, 16) {
                    demand.submit(trial, told.party, (Door::Root, &ask), 8);
                }
            })
            .unwrap();
        parts(&trial.got.faded(half, trial.world.nature.now), 2)
    };
    let before = had(&mut trial);
    assert!((before[0] - 0.75).abs() <= 0.02, "{before:?}");
    trial.share("b", 9);
    let after = had(&mut trial);
    assert!((after[0] - 0.25).abs() <= 0.02, "{after:?}");
}
