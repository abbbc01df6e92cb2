//! Shares that others' lack of demand leaves over, handed out again (Armada).
//!
//! Asked by eviction, which protects what an account should have, and by listings.

/// Sharing stops when less than this is left over …
const LEFT_MOST: f64 = 0.01;
/// … or after so many times.
const PASSES_MAX: usize = 10;

/// An account that wants something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanting {
    /// 1 over its priority factor.
    pub weight: f64,
    /// The cost of all it wants, as a part of the whole; 1 where there is nothing to be had.
    pub demand: f64,
}

/// What an account is due, as parts of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Due {
    /// By weight alone.
    pub fair: f64,
    /// With what others leave, at most its demand: what it should have now.
    pub capped: f64,
    /// With what others leave, were its demand endless: nobody is punished for being modest.
    pub uncapped: f64,
}

#[derive(Clone, Copy, Default)]
struct State {
    due: Due,
    spare: f64,
    sated: bool,
}

/// What each account is due. In each pass the accounts that want more split what is left over by
/// weight; what exceeds a demand is left over for the next.
pub fn adjusted_fair_shares(accounts: &[Wanting]) -> Vec<Due> {
    let all: f64 = accounts.iter().map(|account| account.weight).sum();
    let mut states = vec![State::default(); accounts.len()];
    for (state, account) in states.iter_mut().zip(accounts) {
        state.due.fair = part(account.weight, all);
    }
    let mut left = 1.0;
    for _ in 0..PASSES_MAX {
        if left <= LEFT_MOST {
            break;
        }
        let hungry = accounts
            .iter()
            .zip(&states)
            .filter(|(_, state)| !state.sated);
        let weights: f64 = hungry.map(|(account, _)| account.weight).sum();
        for (state, account) in states.iter_mut().zip(accounts) {
            // A sated account is asked what it would have, were it still among the hungry.
            let among = weights + if state.sated { account.weight } else { 0.0 };
            state.due.uncapped += part(account.weight, among) * (left - state.spare);
        }
        if weights <= 0.0 {
            break;
        }
        left = hand_out(accounts, &mut states, left, weights);
    }
    states.iter().map(|state| state.due).collect()
}

/// One pass; what exceeds demands.
fn hand_out(accounts: &[Wanting], states: &mut [State], left: f64, weights: f64) -> f64 {
    let mut over = 0.0;
    for (state, account) in states.iter_mut().zip(accounts) {
        if !state.sated {
            state.due.capped += part(account.weight, weights) * left;
        }
        state.spare = (state.due.capped - account.demand).max(0.0);
        if state.spare > 0.0 {
            state.due.capped = account.demand;
            state.sated = true;
            over += state.spare;
        }
    }
    over
}

fn part(weight: f64, all: f64) -> f64 {
    if all > 0.0 { weight / all } else { 0.0 }
}

/// What a new account of this weight, that wants everything, would be due beside these.
pub fn theoretical_share(accounts: &[Wanting], weight: f64) -> f64 {
    let mut accounts = accounts.to_vec();
    accounts.push(Wanting {
        weight,
        demand: f64::INFINITY,
    });
    adjusted_fair_shares(&accounts)
        .last()
        .map_or(0.0, |due| due.capped)
}
