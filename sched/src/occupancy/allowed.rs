//! What may be started of what there is room for: what accounts hold, and the gate
//! of the policy's limits.
//!
//! Asked by [`super::Occupancy`] before it looks for room, and charged where it
//! takes some; the table of accounts that take turns asks the same.

use eddy_wire::plan::Owner;
use eddy_wire::time::Time;

use super::{Ask, Occupancy};
use crate::accounts::{Accounts, Gate, Stop};
use crate::amounts::Amounts;

impl Occupancy {
    /// What each account holds.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// The same, to be told of starts and ends.
    pub fn accounts_mut(&mut self) -> &mut Accounts {
        &mut self.accounts
    }

    /// How much may be started.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// A pass begins.
    pub fn begin(&mut self, now: Time) {
        self.gate.begin(now);
    }

    /// Nothing is limited any more: of a copy on which something is tried.
    pub fn open(&mut self) {
        self.gate = Gate::default();
    }

    /// Whether a job of somebody may start that asks for so much.
    pub fn pass(&mut self, owner: &Owner, asks: &Amounts) -> Result<(), Stop> {
        self.gate.pass(&self.accounts, owner, asks)
    }

    /// What it will hold, with its gang.
    pub fn asks(&self, ask: &Ask) -> Amounts {
        let each = ask.each().map(|one| self.accounts.asks(&one.need));
        each.fold(Amounts::NONE, |sum, asks| sum + asks)
    }

    /// Whether it is more than its account may have at all.
    pub fn is_beyond(&self, ask: &Ask) -> bool {
        let asks = self.asks(ask);
        self.gate.is_beyond(&self.accounts, &ask.want.owner, &asks)
    }

    /// The limit that would hold it back now.
    pub fn limit(&self, ask: &Ask) -> Option<Stop> {
        let asks = self.asks(ask);
        self.gate.look(&self.accounts, &ask.want.owner, &asks).err()
    }

    pub(super) fn is_limited(&mut self, ask: &Ask) -> bool {
        if self.gate.is_open() {
            return false;
        }
        let asks = self.asks(ask);
        self.pass(&ask.want.owner, &asks).is_err()
    }

    pub(super) fn charge(&mut self, ask: &Ask) {
        if !self.gate.is_open() {
            let asks = self.accounts.asks(&ask.need);
            self.gate.charge(&ask.want.owner, &asks);
        }
    }
}
