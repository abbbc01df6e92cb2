//! Amounts of several kinds of resources at once: a small fixed vector.
//!
//! Rounds, shares and charges count with it; which position is which resource
//! says a [`Kinds`]. Whole cores, GPUs and bytes are counted in thousandths, so
//! that a fraction of a core can be asked for and sums stay exact. It knows no
//! nodes and no jobs.

use std::ops::{Add, AddAssign, Index, IndexMut, Sub, SubAssign};

use thiserror::Error;

/// Kinds of resources that one policy can count.
pub const KINDS_MAX: usize = 8;

/// One unit of a resource (a core, a GPU, a byte) in an [`Amounts`].
pub const UNIT: i64 = 1000;

/// The names of the resources counted, in the order of the positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds(Vec<String>);

/// Why a list of resources cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KindsError {
    /// More kinds than there are positions.
    #[error("resources: {given} kinds are given; allowed are {KINDS_MAX}")]
    TooMany {
        /// How many.
        given: usize,
    },
    /// The same name twice.
    #[error("resources: `{0}` is given twice")]
    Twice(String),
}

impl Kinds {
    /// These names, each once.
    ///
    /// # Errors
    /// [`KindsError`] for more than [`KINDS_MAX`] and for a name given twice.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Result<Kinds, KindsError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        if names.len() > KINDS_MAX {
            return Err(KindsError::TooMany { given: names.len() });
        }
        match (1..names.len()).find(|&at| names[..at].contains(&names[at])) {
            Some(at) => Err(KindsError::Twice(names[at].clone())),
            None => Ok(Kinds(names)),
        }
    }

    /// The position of a name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|known| known == name)
    }

    /// The names in the order of their positions.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

/// How much of each kind, in thousandths of its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amounts([i64; KINDS_MAX]);

impl Amounts {
    /// Nothing of anything.
    pub const NONE: Amounts = Amounts([0; KINDS_MAX]);

    /// Whether there is at least as much of every kind.
    pub fn holds(&self, need: &Amounts) -> bool {
        self.0.iter().zip(&need.0).all(|(have, want)| have >= want)
    }

    /// Whether nothing of any kind is there.
    pub fn is_none(&self) -> bool {
        self.0.iter().all(|&amount| amount == 0)
    }

    /// So many times as much of each kind; at most what can be counted.
    #[must_use]
    pub fn times(&self, n: i64) -> Amounts {
        Amounts(self.0.map(|amount| amount.saturating_mul(n)))
    }

    /// The lesser of each kind.
    #[must_use]
    pub fn least(&self, other: &Amounts) -> Amounts {
        Amounts(std::array::from_fn(|at| self.0[at].min(other.0[at])))
    }

    /// The greater of each kind.
    #[must_use]
    pub fn most(&self, other: &Amounts) -> Amounts {
        Amounts(std::array::from_fn(|at| self.0[at].max(other.0[at])))
    }

    /// Each kind in the order of the positions.
    pub fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        self.0.iter().copied()
    }
}

impl Index<usize> for Amounts {
    type Output = i64;
    fn index(&self, at: usize) -> &i64 {
        &self.0[at]
    }
}

impl IndexMut<usize> for Amounts {
    fn index_mut(&mut self, at: usize) -> &mut i64 {
        &mut self.0[at]
    }
}

impl Add for Amounts {
    type Output = Amounts;
    fn add(self, other: Amounts) -> Amounts {
        Amounts(std::array::from_fn(|at| {
            self.0[at].saturating_add(other.0[at])
        }))
    }
}

impl Sub for Amounts {
    type Output = Amounts;
    fn sub(self, other: Amounts) -> Amounts {
        Amounts(std::array::from_fn(|at| {
            self.0[at].saturating_sub(other.0[at])
        }))
    }
}

impl AddAssign for Amounts {
    fn add_assign(&mut self, other: Amounts) {
        *self = *self + other;
    }
}

impl SubAssign for Amounts {
    fn sub_assign(&mut self, other: Amounts) {
        *self = *self - other;
    }
}
