//! What runs cost and how that is forgotten: part (a) of a policy.
//!
//! Folds of (ledger, time, runs): calling them twice as often changes nothing.
//! It does not know who is due what.
//!
//! - `charge`: amounts of a run become one number.
//! - `decay`: how that number fades.
//! - `ledger`: who has used how much, until when.
//! - `short`: runs that ended early and still count as held for a while.

mod charge;
mod decay;
mod ledger;
mod short;

pub use charge::{Bound, Meter, Run, Tariff, TariffError, scarcity};
pub use decay::{faded, floored, halved, per_second_approximation, toward};
pub use ledger::{HolderId, Ledger, Standing};
pub use short::{Ended, ShortRuns};

#[cfg(test)]
mod tests;
