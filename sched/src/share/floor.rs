//! Priority by decayed usage with a floor, where less is better (Armada's first
//! scheduler, HTCondor), and the shares that follow.
//!
//! Asked by the book and by slices. What decays is the ledger's business.

/// What stands for the priority of an account that has no record yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrecorded {
    /// The floor times its factor, as if it had used nothing (what eddy does).
    FloorTimesFactor,
    /// The bare floor (Armada's later form).
    BareFloor,
}

/// The effective priority: at least the floor, times the account's factor; less is better.
pub fn effective(recorded: Option<f64>, factor: f64, floor: f64, unrecorded: Unrecorded) -> f64 {
    match (recorded, unrecorded) {
        (Some(priority), _) => priority.max(floor) * factor,
        (None, Unrecorded::FloorTimesFactor) => floor * factor,
        (None, Unrecorded::BareFloor) => floor,
    }
}

/// Shares in inverse proportion to priorities, which sum to 1; those of 0 or less, or that are no
/// number, have none. Nothing for nobody.
pub fn inverse_shares(priorities: &[f64]) -> Vec<f64> {
    let inverse = |&priority: &f64| if priority > 0.0 { 1.0 / priority } else { 0.0 };
    let sum: f64 = priorities.iter().map(inverse).sum();
    let share = |priority| {
        if sum > 0.0 {
            inverse(priority) / sum
        } else {
            0.0
        }
    };
    priorities.iter().map(share).collect()
}

/// Quotas as they count in a pool: scaled down alike where they sum to more than it has, never up
/// (HTCondor group quotas).
pub fn quotas(wanted: &[f64], pool: f64) -> Vec<f64> {
    let sum: f64 = wanted.iter().sum();
    let scale = if sum > pool && sum > 0.0 {
        pool.max(0.0) / sum
    } else {
        1.0
    };
    wanted.iter().map(|quota| quota * scale).collect()
}
