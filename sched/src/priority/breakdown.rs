//! A value taken apart: which part of a formula gave how much.
//!
//! Asked by explanation and `eddy priority`. A formula that is a sum is split at
//! its top; a term that is a weight times something is told as such.

use super::formula::{Expr, Formula, Function, Names, Operator};

/// One term of a sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// What is weighted, as a formula.
    pub name: String,
    /// Its value.
    pub factor: f64,
    /// The numbers it is multiplied by.
    pub weight: f64,
    /// What it adds: 0 where it is no number.
    pub contribution: f64,
}

/// The terms of a formula for one job, whose variables these are, in the order written. Their
/// contributions add up to the value, up to rounding.
pub fn breakdown(formula: &Formula, names: &Names, variables: &[f64]) -> Vec<Term> {
    let mut terms = Vec::new();
    split(formula.expr(), 1.0, &mut terms);
    terms
        .into_iter()
        .map(|(expr, weight)| {
            let factor = expr.map_or(Some(1.0), |expr| expr.value(variables));
            let product = factor.map(|factor| factor * weight);
            Term {
                name: expr.map_or_else(|| "constant".to_owned(), |expr| written(expr, names)),
                factor: factor.unwrap_or(0.0),
                weight,
                contribution: product.filter(|product| product.is_finite()).unwrap_or(0.0),
            }
        })
        .collect()
}

/// `None` is a term of numbers alone.
fn split<'e>(expr: &'e Expr, weight: f64, terms: &mut Vec<(Option<&'e Expr>, f64)>) {
    match expr {
        Expr::Number(number) => terms.push((None, weight * number)),
        Expr::Negative(of) => split(of, -weight, terms),
        Expr::Binary(Operator::Add, x, y) => {
            split(x, weight, terms);
            split(y, weight, terms);
        }
        Expr::Binary(Operator::Subtract, x, y) => {
            split(x, weight, terms);
            split(y, -weight, terms);
        }
        Expr::Binary(Operator::Multiply, x, y) => match (number(x), number(y)) {
            (Some(by), _) => split(y, weight * by, terms),
            (_, Some(by)) => split(x, weight * by, terms),
            (None, None) => terms.push((Some(expr), weight)),
        },
        Expr::Binary(Operator::Divide, x, y) => match number(y) {
            Some(by) => split(x, weight / by, terms),
            None => terms.push((Some(expr), weight)),
        },
        Expr::Binary(Operator::Power, ..) | Expr::Variable(_) | Expr::Call(..) => {
            terms.push((Some(expr), weight));
        }
    }
}

/// The value of a part of numbers alone.
fn number(expr: &Expr) -> Option<f64> {
    let mut found = Vec::new();
    expr.variables(&mut found);
    match found.is_empty() {
        true => expr.value(&[]),
        false => None,
    }
}

fn written(expr: &Expr, names: &Names) -> String {
    match expr {
        Expr::Number(number) => number.to_string(),
        Expr::Variable(at) => names.variables().get(*at).cloned().unwrap_or_default(),
        Expr::Negative(of) => format!("-{}", written(of, names)),
        Expr::Binary(operator, x, y) => {
            let sign = match operator {
                Operator::Add => "+",
                Operator::Subtract => "-",
                Operator::Multiply => "*",
                Operator::Divide => "/",
                Operator::Power => "**",
            };
            format!("({} {sign} {})", written(x, names), written(y, names))
        }
        Expr::Call(function, of) => {
            let of: Vec<String> = of.iter().map(|part| written(part, names)).collect();
            format!("{}({})", called(*function), of.join(", "))
        }
    }
}

fn called(function: Function) -> String {
    format!("{function:?}").to_lowercase()
}
