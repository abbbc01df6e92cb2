//! Nobody gets more than one who asks plainly for the same work, whatever he tries.

use eddy_world::trial::cheat::{Cheat, Duel, duel};

/// The most that a way to ask may be worth, as a part of what the plain one is given.
const GAIN_MAX: f64 = 0.01;

fn gains_nothing(cheat: Cheat) {
    let halves = match cheat {
        // Of those there are many.
        Cheat::Tiny | Cheat::Splitting => 3,
        _ => 6,
    };
    let mine = Duel {
        halves,
        ..Duel::default()
    };
    let score = duel(cheat, &mine).expect("promises are kept");
    assert!(score.gain() <= GAIN_MAX, "{cheat:?}: {score:?}");
}

macro_rules! cheats {
    ($($name:ident: $cheat:ident,)*) => {
        $(#[test]
        fn $name() {
            gains_nothing(Cheat::$cheat);
        })*

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
    an_instance_that_holds_on_pays_for_what_it_holds: Growing,
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

#[test]
fn who_wants_all_of_the_machine_gains_by_its_size_alone() {
    gains_by("size", Cheat::Reserving);
}
