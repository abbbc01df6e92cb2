//! The gate: an effect leaves only when everything recorded before it is
//! durable.
//!
//! One place obeys the rule "durable, then visible", so that no module has to.

use std::collections::VecDeque;

use eddy_wire::id::Seq;

use crate::effect::Effect;

/// Effects waiting for the disk, in order.
#[derive(Debug, Default)]
pub struct Gate {
    durable: Seq,
    held: VecDeque<(Seq, Effect)>,
}

impl Gate {
    /// A gate that knows everything up to `durable` to be on disk.
    pub fn new(durable: Seq) -> Gate {
        Gate {
            durable,
            held: VecDeque::new(),
        }
    }

    /// The last record known to be durable.
    pub fn durable(&self) -> Seq {
        self.durable
    }

    /// How many effects wait.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Takes an effect that tells of records up to `after`; gives it back if it
    /// may leave at once.
    pub fn pass(&mut self, after: Seq, effect: Effect) -> Option<Effect> {
        // Order among effects is kept even when this one needs no waiting.
        if after <= self.durable && self.held.is_empty() {
            return Some(effect);
        }
        self.held.push_back((after, effect));
        None
    }

    /// Records up to `seq` are on disk: what may leave now, in order.
    pub fn durable_to(&mut self, seq: Seq) -> Vec<Effect> {
        assert!(
            seq >= self.durable,
            "the disk went back from {} to {seq}",
            self.durable
        );
        self.durable = seq;
        let ready = self.held.partition_point(|(after, _)| *after <= seq);
        self.held.drain(..ready).map(|(_, effect)| effect).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eddy_wire::time::Time;

    fn wake(t: i64) -> Effect {
        Effect::Wake(Time(t))
    }

    #[test]
    fn an_effect_waits_for_its_record_and_no_longer() {
        let mut gate = Gate::new(Seq(5));
        assert_eq!(gate.pass(Seq(5), wake(1)), Some(wake(1)));
        assert_eq!(gate.pass(Seq(7), wake(2)), None);
        assert_eq!(gate.pass(Seq(9), wake(3)), None);
        assert_eq!(gate.durable_to(Seq(6)), vec![]);
        assert_eq!(gate.durable_to(Seq(8)), vec![wake(2)]);
        assert_eq!(gate.len(), 1);
        assert_eq!(gate.durable_to(Seq(9)), vec![wake(3)]);
    }

    #[test]
    fn an_effect_never_overtakes_an_earlier_one() {
        let mut gate = Gate::new(Seq(5));
        assert_eq!(gate.pass(Seq(6), wake(1)), None);
        assert_eq!(
            gate.pass(Seq(5), wake(2)),
            None,
            "it waits behind the first"
        );
        assert_eq!(gate.durable_to(Seq(6)), vec![wake(1), wake(2)]);
    }
}
