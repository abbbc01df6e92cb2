//! Lists of values become one total order of jobs, highest first.
//!
//! Kept between refreshes: most jobs keep their places, so the order is mended
//! rather than made anew, in time that grows with how many moved. It knows no
//! formula and no job: rows and ids are given.

use std::cmp::Ordering;

/// With more than one in so many out of place a plain sort is faster.
const MOVED_MOST: usize = 8;

/// Whether a job is held back by the threshold of a policy: at or below it.
pub fn held_back(value: f64, threshold: Option<f64>) -> bool {
    threshold.is_some_and(|threshold| value <= threshold)
}

/// The order of rows by lists of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    rows: Vec<(u64, u32)>,
}

impl Order {
    /// Nobody waits.
    pub fn new() -> Order {
        Order::default()
    }

    /// Orders the rows of `ids` by the first list of values, highest first, equals by the next list,
    /// and last by id, lowest first. All lists are as long as `ids`; without any list the id
    /// decides. A value that is no number counts as the least.
    pub fn refresh(&mut self, values: &[&[f64]], ids: &[u64]) {
        let key = |row: u32| {
            values
                .first()
                .map_or(0, |list| descending(list[row as usize]))
        };
        let order = |a: &(u64, u32), b: &(u64, u32)| {
            a.0.cmp(&b.0).then_with(|| later(values, ids, a.1, b.1))
        };
        if self.rows.len() != ids.len() {
            self.rows.clear();
            self.rows
                .extend((0..ids.len() as u32).map(|row| (key(row), row)));
            self.rows.sort_unstable_by(order);
            return;
        }
        for entry in &mut self.rows {
            entry.0 = key(entry.1);
        }
        mend(&mut self.rows, order);
    }

    /// The rows, the first to run first.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.rows.iter().map(|&(_, row)| row)
    }
}

/// Where the first list is level.
fn later(values: &[&[f64]], ids: &[u64], a: u32, b: u32) -> Ordering {
    let (a, b) = (a as usize, b as usize);
    for list in values.iter().skip(1) {
        match descending(list[a]).cmp(&descending(list[b])) {
            Ordering::Equal => {}
            different => return different,
        }
    }
    ids[a].cmp(&ids[b]).then(a.cmp(&b))
}

/// A number whose order is that of values from the highest; 0 and -0 are level.
pub(crate) fn descending(value: f64) -> u64 {
    let value = if value.is_nan() {
        f64::NEG_INFINITY
    } else {
        value + 0.0
    };
    let bits = value.to_bits();
    match bits >> 63 {
        0 => !(bits | 1 << 63),
        _ => bits,
    }
}

/// The value of which this is the [`descending`] number.
pub(crate) fn ascending(number: u64) -> f64 {
    match number >> 63 {
        0 => f64::from_bits(!number & !(1 << 63)),
        _ => f64::from_bits(number),
    }
}

/// Sorts what is nearly sorted: those out of place are taken out, sorted and merged back.
fn mend<T: Copy>(items: &mut [T], order: impl Fn(&T, &T) -> Ordering) {
    let later = |a: &T, b: &T| order(a, b) == Ordering::Greater;
    let Some(first) = items.windows(2).position(|pair| later(&pair[0], &pair[1])) else {
        return;
    };
    let most = items.len() / MOVED_MOST;
    let mut moved: Vec<T> = Vec::new();
    let mut kept = first + 1;
    for at in first + 1..items.len() {
        let item = items[at];
        if !later(&items[kept - 1], &item) {
            items[kept] = item;
            kept += 1;
        } else if kept > 1 && !later(&items[kept - 2], &item) {
            // The one before is the odd one: it jumped ahead of all that follow.
            moved.push(items[kept - 1]);
            items[kept - 1] = item;
        } else {
            moved.push(item);
        }
        if moved.len() > most {
            // Places between are free: all that was taken out goes back there in any order.
            let from = at + 1 - moved.len();
            items[from..=at].copy_from_slice(&moved);
            items.sort_unstable_by(&order);
            return;
        }
    }
    moved.sort_unstable_by(&order);
    merge(items, kept, &moved, later);
}

/// From the back, so that nothing is overwritten before it is moved.
fn merge<T: Copy>(items: &mut [T], mut kept: usize, moved: &[T], later: impl Fn(&T, &T) -> bool) {
    let mut left = moved.len();
    while left > 0 {
        let at = kept + left - 1;
        if kept > 0 && later(&items[kept - 1], &moved[left - 1]) {
            items[at] = items[kept - 1];
            kept -= 1;
        } else {
            items[at] = moved[left - 1];
            left -= 1;
        }
    }
}
