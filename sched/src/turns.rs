//! Whose turn it is: the place of each waiting job, by the policy's order.
//!
//! Asked by the planner when a job comes to wait and when values are made anew. It
//! keeps no job and knows no room.

use eddy_wire::id::JobId;
use eddy_wire::plan::Want;

/// How many values of an order decide; further ones are not looked at.
const VALUES: usize = 4;

/// The turn of a job: the lesser is earlier. The job's number decides last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    values: [i64; VALUES],
    pub job: JobId,
}

impl Turn {
    /// By values of which the higher is earlier.
    pub fn new(values: &[f64], job: JobId) -> Turn {
        let mut keys = [0; VALUES];
        for (key, value) in keys.iter_mut().zip(values) {
            *key = !rising(*value);
        }
        Turn { values: keys, job }
    }

    /// The turn by what was recorded alone: who is to be first, then by number.
    pub fn recorded(want: &Want, job: JobId) -> Turn {
        let mut values = [0; VALUES];
        values[0] = !want.priority;
        Turn { values, job }
    }
}

/// A number that rises as the value does, for every value there is.
fn rising(value: f64) -> i64 {
    let bits = value.to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}
