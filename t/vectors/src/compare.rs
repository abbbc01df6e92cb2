//! Whether what was computed is what a case expects.
//!
//! Objects are compared by the fields that are expected: a kind may compute
//! more. Lists must be as long; numbers may be off by the tolerance. What is
//! expected as `NAME_between` is a least and a most of one number.

use serde_json::{Map, Number, Value};

/// Whether all that is expected was computed, numbers within `tolerance`.
pub fn same(got: &Value, expected: &Value, tolerance: f64) -> bool {
    match (got, expected) {
        (Value::Object(got), Value::Object(expected)) => {
            expected.iter().all(|(name, value)| match got.get(name) {
                Some(Value::Number(got)) if name.ends_with("_between") => {
                    within(got, value, tolerance)
                }
                Some(got) => same(got, value, tolerance),
                None => false,
            })
        }
        (Value::Array(got), Value::Array(expected)) => {
            got.len() == expected.len()
                && got
                    .iter()
                    .zip(expected)
                    .all(|(got, value)| same(got, value, tolerance))
        }
        (Value::Number(got), Value::Number(expected)) => match (got.as_f64(), expected.as_f64()) {
            (Some(got), Some(expected)) => (got - expected).abs() <= tolerance || got == expected,
            _ => false,
        },
        (got, expected) => got == expected,
    }
}

/// Whether a number is from the first of two to the second.
fn within(got: &Number, bounds: &Value, tolerance: f64) -> bool {
    let bound = |at: usize| bounds.get(at).and_then(Value::as_f64);
    match (got.as_f64(), bound(0), bound(1)) {
        (Some(got), Some(least), Some(most)) => least - tolerance <= got && got <= most + tolerance,
        (_, _, _) => false,
    }
}

/// What was computed of the fields that are expected, to be printed beside them.
pub fn part(got: &Value, expected: &Value) -> Value {
    match (got, expected) {
        (Value::Object(got), Value::Object(expected)) => Value::Object(
            expected
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), part(got.get(name)?, value))))
                .collect::<Map<_, _>>(),
        ),
        (got, _) => got.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_expected_counts() {
        assert!(same(&json!({"a": 1, "b": 2}), &json!({"a": 1.0}), 0.0));
        assert!(!same(&json!({"b": 2}), &json!({"a": 1}), 0.0));
        assert!(!same(&json!([1]), &json!([1, 2]), 0.0));
        assert!(same(&json!([1.0]), &json!([1.000_01]), 0.001));
        assert!(!same(&json!(null), &json!(0), 1.0));
    }

    #[test]
    fn a_number_is_held_against_both_its_bounds() {
        let between = |got: f64| {
            same(
                &json!({"x_between": got}),
                &json!({"x_between": [1, 2]}),
                0.0,
            )
        };
        assert!(between(1.0) && between(1.5) && between(2.0));
        assert!(!between(0.9) && !between(2.1) && !between(f64::NAN));
    }
}
