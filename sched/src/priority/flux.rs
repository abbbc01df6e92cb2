//! The priority field of Flux jobs, and the sum of flux-accounting.
//!
//! Asked where a priority is shown or sent: 32 bits, 0 is held, the largest is
//! expedited. Orders never use it: they compare the value itself.

/// The urgency at which a job is held.
pub const URGENCY_HOLD: u8 = 0;
/// The urgency that neither raises nor lowers.
pub const URGENCY_DEFAULT: u8 = 16;
/// The urgency at which a job is before all others.
pub const URGENCY_EXPEDITE: u8 = 31;

/// The field of an ordinary job: rounded half away from zero, within 1 and 4294967294, so that a
/// low value does not look held nor a high one expedited. No number counts as 0.
pub fn field(value: f64) -> u32 {
    let value = if value.is_nan() { 0.0 } else { value.round() };
    value.clamp(1.0, f64::from(u32::MAX - 1)) as u32
}

/// The field of a job with an urgency: held and expedited come before any value.
pub fn field_of(value: f64, urgency: u8) -> u32 {
    match urgency {
        URGENCY_HOLD => 0,
        URGENCY_EXPEDITE.. => u32::MAX,
        _ => field(value),
    }
}

/// Weights of flux-accounting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Of the fair share, 0 to 1.
    pub fair_share: f64,
    /// Of the queue's number.
    pub queue: f64,
    /// Of the bank's number.
    pub bank: f64,
    /// Of how far the urgency is from 16.
    pub urgency: f64,
}

impl Default for Weights {
    fn default() -> Weights {
        Weights {
            fair_share: 100_000.0,
            queue: 10_000.0,
            bank: 0.0,
            urgency: 1000.0,
        }
    }
}

/// The priority that flux-accounting gives: the weighted sum, rounded; below 0 it is 0, as there.
pub fn accounting(weights: &Weights, fair_share: f64, queue: f64, bank: f64, urgency: u8) -> u32 {
    let from_default = f64::from(urgency) - f64::from(URGENCY_DEFAULT);
    let sum = weights.fair_share * fair_share
        + weights.queue * queue
        + weights.bank * bank
        + weights.urgency * from_default;
    match urgency {
        URGENCY_HOLD => 0,
        URGENCY_EXPEDITE.. => u32::MAX,
        _ if sum.round() < 1.0 => 0,
        _ => field(sum),
    }
}
