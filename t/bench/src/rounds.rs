//! Alternating rounds: each thing that is compared is taken once, then each once more, so that what the
//! machine does to one it does to all. Used by every bench; knows nothing of what is measured.

use serde::Serialize;

/// One thing to be taken once a round.
pub struct Entry<'a> {
    name: &'static str,
    unit: &'static str,
    take: Box<dyn FnMut() -> anyhow::Result<f64> + 'a>,
}

impl<'a> Entry<'a> {
    /// `take` measures once and gives a figure in `unit`.
    pub fn new(
        name: &'static str,
        unit: &'static str,
        take: impl FnMut() -> anyhow::Result<f64> + 'a,
    ) -> Self {
        Self {
            name,
            unit,
            take: Box::new(take),
        }
    }
}

/// What was seen of one thing.
#[derive(Clone, Debug)]
pub struct Series {
    /// What was measured.
    pub name: String,
    /// Of each figure.
    pub unit: &'static str,
    /// In the order in which they were taken; the same place is the same round.
    pub figures: Vec<f64>,
}

impl Series {
    /// A series without figures yet.
    #[must_use]
    pub fn new(name: impl Into<String>, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            unit,
            figures: Vec::new(),
        }
    }

    /// Figures of this series by those of another of the same rounds, in percent.
    #[must_use]
    pub fn percent_of(&self, other: &Self, name: &str) -> Self {
        let pairs = self.figures.iter().zip(&other.figures);
        let figures = pairs.map(|(mine, theirs)| mine * 100.0 / theirs).collect();
        Self {
            name: name.to_owned(),
            unit: "%",
            figures,
        }
    }

    /// The series in short.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary::of(&self.figures)
    }
}

/// A series in short. A bench of many small figures says so by quantiles of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The middle figure.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many there are.
    pub n: usize,
}

impl Summary {
    /// Of no figures: all zero.
    #[must_use]
    pub fn of(figures: &[f64]) -> Self {
        let n = figures.len();
        Self {
            median: quantile(figures, 0.5),
            min: quantile(figures, 0.0),
            max: quantile(figures, 1.0),
            n,
        }
    }
}

/// The figure below which a share of the others lies: 0.5 is the median. Of no figures: zero.
#[must_use]
pub fn quantile(figures: &[f64], share: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if share == 0.5 && n % 2 == 0 => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
        // Nearest rank: the share is a constant between 0 and 1, so the index is in bounds.
        n => sorted[((n as f64 * share).ceil() as usize).clamp(1, n) - 1],
    }
}

/// Takes every entry once, `rounds` times over. The order turns round from one round to the next, so
/// that none is always the first after another.
///
/// # Errors
/// The first that an entry gives.
pub fn alternate(rounds: usize, mut entries: Vec<Entry<'_>>) -> anyhow::Result<Vec<Series>> {
    let mut series: Vec<Series> = entries
        .iter()
        .map(|entry| Series::new(entry.name, entry.unit))
        .collect();
    for round in 0..rounds {
        for step in 0..entries.len() {
            let index = if round % 2 == 0 {
                step
            } else {
                entries.len() - 1 - step
            };
            series[index].figures.push((entries[index].take)()?);
        }
    }
    Ok(series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_figures_that_were_seen() {
        let figures: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&figures, 0.99), 99.0);
        assert_eq!(quantile(&figures, 0.5), 50.5);
        assert_eq!(
            Summary::of(&[3.0, 1.0, 2.0]),
            Summary {
                median: 2.0,
                min: 1.0,
                max: 3.0,
                n: 3
            }
        );
        assert_eq!(
            Summary::of(&[]),
            Summary {
                median: 0.0,
                min: 0.0,
                max: 0.0,
                n: 0
            }
        );
    }

    #[test]
    fn rounds_alternate_and_turn_round() {
        let seen = std::cell::RefCell::new(String::new());
        let entry = |name| {
            let seen = &seen;
            Entry::new(name, "s", move || {
                seen.borrow_mut().push_str(name);
                Ok(seen.borrow().len() as f64)
            })
        };
        let series = alternate(2, vec![entry("a"), entry("b"), entry("c")]).unwrap();
        assert_eq!(*seen.borrow(), "abccba");
        assert_eq!(series[0].figures, [1.0, 6.0]);
        assert_eq!(
            series[2].percent_of(&series[0], "x").figures,
            [300.0, 400.0 / 6.0]
        );
    }
}
