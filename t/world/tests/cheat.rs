//! Nobody gets more than one who asks plainly for the same work, whatever he tries.

use eddy_world::trial::cheat::{Cheat, Duel, duel};

/// The most that a way to ask may be worth, as a part of what the plain one is given.
const GAIN_MAX: f64 = 0.01;

/// For whom other orders are tried too.
const OTHER: &str = "slurm-fair-tree";

fn mine(cheat: Cheat, preset: &'static str) -> Duel {
    let halves = match cheat {
        // Of those there are many.
        Cheat::Tiny | Cheat::Splitting => 3,
        _ if preset == OTHER => 3,
        _ => 6,
    };
    let nodes = match cheat {
        // Else there is nothing to grow by but all the rest.
        Cheat::Growing | Cheat::GrowingLeast => 4,
        _ => Duel::default().nodes,
    };
    Duel {
        nodes,
        halves,
        preset,
        ..Duel::default()
    }
}

fn gains_nothing(cheat: Cheat, preset: &'static str) {
    let mine = mine(cheat, preset);
    let score = duel(cheat, &mine).expect("promises are kept");
    assert!(score.gain() <= GAIN_MAX, "{cheat:?}: {score:?}");
    // Who is never given what he asks for has not tried.
    let grows = matches!(cheat, Cheat::Growing | Cheat::GrowingLeast);
    assert!(!grows || score.grown > 20, "{cheat:?}: {score:?}");
}

macro_rules! cheats {
    ($($name:ident: $cheat:ident,)*) => {
        $(#[test]
        fn $name() {
            gains_nothing(Cheat::$cheat, "flux");
        })*

        mod by_fair_tree {
            use super::*;

            $(#[test]
            fn $name() {
                gains_nothing(Cheat::$cheat, OTHER);
            })*
        }

        #[test]
        fn all_are_tried() {
            let tried = [$(Cheat::$cheat),*];
            let all = Cheat::ALL.iter().map(|(_, cheat)| cheat);
            let left: Vec<&Cheat> = all.filter(|cheat| !tried.contains(cheat)).collect();
            // Age and width count, as the policy says.
            assert_eq!(left, [&Cheat::Reserving, &Cheat::Stuffing]);
        }
    };
}

cheats! {
    two_who_ask_alike_get_alike: Plain,
    a_submission_past_the_root_waits_its_turn: Direct,
    an_instance_that_holds_on_pays_for_what_it_holds: Holding,
    an_instance_that_grows_pays_for_what_it_asks_for: Growing,
    an_instance_that_takes_what_it_can_get_pays_for_it: GrowingLeast,
    time_on_hold_is_no_wait: Held,
    many_small_jobs_are_what_they_add_up_to: Splitting,
    cores_that_are_of_no_use_are_paid_for: InflatingSize,
    time_that_is_not_used_is_no_gain: InflatingTime,
    no_limit_is_no_gain: Endless,
    what_is_cancelled_is_paid_for: Cancelling,
    what_is_requeued_is_paid_for_and_waits: Requeueing,
    an_account_of_many_names_is_one_account: ManyNames,
    tiny_jobs_are_what_they_add_up_to: Tiny,
    a_clock_that_is_stepped_favours_nobody: ClockSteps,
    an_order_among_ones_own_is_no_gain: Ordering,
}

/// What a weight is for is a gain with it, and none without.
fn gains_by(weight: &str, cheat: Cheat) {
    let weighed = duel(cheat, &Duel::default()).expect("promises are kept");
    assert!(weighed.gain() > GAIN_MAX, "{weighed:?}");
    let without = Duel {
        over: format!("priority.weights.{weight} = 0"),
        ..Duel::default()
    };
    let score = duel(cheat, &without).expect("promises are kept");
    assert!(score.gain() <= GAIN_MAX, "{score:?}");
}

#[test]
fn who_has_more_waiting_gains_by_its_age_alone() {
    gains_by("wait", Cheat::Stuffing);
}

/// Ranks of accounts outweigh age and size where they are as `slurm-fair-tree` has them.
#[test]
fn age_and_size_are_worth_nothing_by_fair_tree() {
    for cheat in [Cheat::Stuffing, Cheat::Reserving] {
        gains_nothing(cheat, OTHER);
    }
}

#[test]
fn who_wants_all_of_the_machine_gains_less_by_its_size_than_counts() {
    let score = duel(Cheat::Reserving, &Duel::default()).expect("promises are kept");
    assert!(score.gain() <= GAIN_MAX, "{score:?}");
}
