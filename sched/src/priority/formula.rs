//! The language of formulas: numbers, names, `+ - * / **`, parentheses, functions.
//!
//! Parsed when a policy is loaded, so that a wrong name or a missing argument is
//! told then, with its column, and never at a pass. The text is kept as it was
//! written. Evaluates single values; `program` does columns.

mod parse;

use thiserror::Error;

pub(super) use parse::{Expr, Function, Operator};

/// The names that a formula may use.
///
/// A variable is a column of jobs, numbered by the caller; a constant is a weight of the policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    variables: Vec<String>,
    constants: Vec<(String, f64)>,
}

impl Names {
    /// These variables, numbered in their order.
    pub fn new<S: Into<String>>(variables: impl IntoIterator<Item = S>) -> Names {
        Names {
            variables: variables.into_iter().map(Into::into).collect(),
            constants: Vec::new(),
        }
    }

    /// And this constant; the later of two of one name counts, and a variable before it.
    #[must_use]
    pub fn constant(mut self, name: &str, value: f64) -> Names {
        self.constants.retain(|(known, _)| known != name);
        self.constants.push((name.to_owned(), value));
        self
    }

    /// The variables in the order of their numbers.
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    fn resolve(&self, name: &str) -> Option<Expr> {
        if let Some(at) = self.variables.iter().position(|known| known == name) {
            return Some(Expr::Variable(at));
        }
        let constant = self.constants.iter().find(|(known, _)| known == name);
        constant.map(|(_, value)| Expr::Number(*value))
    }

    fn all(&self) -> String {
        let constants = self.constants.iter().map(|(name, _)| name.as_str());
        let mut all: Vec<&str> = self
            .variables
            .iter()
            .map(String::as_str)
            .chain(constants)
            .collect();
        all.sort_unstable();
        all.join(" ")
    }
}

/// Why a formula is not one. Columns count characters from 1.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FormulaError {
    /// A name that is not known.
    #[error("column {column}: name `{name}` is given; known are {known}")]
    Name {
        /// Where.
        column: usize,
        /// As given.
        name: String,
        /// With spaces between.
        known: String,
    },
    /// A function that is not known.
    #[error("column {column}: function `{name}` is given; known are {known}")]
    Function {
        /// Where.
        column: usize,
        /// As given.
        name: String,
        /// With spaces between.
        known: String,
    },
    /// Too few or too many arguments.
    #[error("column {column}: `{name}` is given {given} arguments; allowed are {allowed}")]
    Arity {
        /// Of the function.
        column: usize,
        /// The function.
        name: String,
        /// How many.
        given: usize,
        /// In words.
        allowed: &'static str,
    },
    /// Something else than what must stand there.
    #[error("column {column}: {given} is given; allowed is {allowed}")]
    Unexpected {
        /// Where.
        column: usize,
        /// What stands there.
        given: String,
        /// What may.
        allowed: &'static str,
    },
    /// A number, or a part made of numbers alone, that is infinite or none.
    #[error("column {column}: the constant is {given}; allowed are finite numbers")]
    NotFinite {
        /// Where the part begins.
        column: usize,
        /// Its value.
        given: f64,
    },
    /// Too long or nested too deep to be meant.
    #[error("column {column}: the formula is larger than {allowed} operations deep")]
    Deep {
        /// Where it became so.
        column: usize,
        /// How deep it may be.
        allowed: usize,
    },
}

/// A formula that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    text: String,
    expr: Expr,
}

impl Formula {
    /// Parses and checks a formula.
    ///
    /// # Errors
    /// [`FormulaError`] with the column of the first thing that is wrong.
    pub fn parse(text: &str, names: &Names) -> Result<Formula, FormulaError> {
        let expr = parse::parse(text, names)?;
        Ok(Formula {
            text: text.to_owned(),
            expr,
        })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn expr(&self) -> &Expr {
        &self.expr
    }

    /// The variables it uses, by number, each once.
    pub fn uses(&self) -> Vec<usize> {
        let mut uses = Vec::new();
        self.expr.variables(&mut uses);
        uses.sort_unstable();
        uses.dedup();
        uses
    }

    /// The value for one job, whose variables these are. `None` where it is no number: a division
    /// by zero, a root of less than 0, an overflow.
    pub fn value(&self, variables: &[f64]) -> Option<f64> {
        self.expr.value(variables)
    }
}
