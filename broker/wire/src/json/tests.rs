//! Whether what is written is what serde_json writes: of every shape of a value, and of any value.

use std::collections::BTreeMap;
use std::fmt;

use proptest::prelude::*;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn alike<T: ?Sized + Serialize>(value: &T) {
    let theirs = serde_json::to_string(value).expect("JSON");
    assert_eq!(super::to_string(value), theirs);
    assert_eq!(super::to_vec(value), theirs.into_bytes());
}

#[test]
fn texts_are_those_of_serde_json() {
    let values = [
        json!(null),
        json!("\"\\\u{1}\n\u{e9}\u{1f600}"),
        json!({"": [], "a b": {"c": [0.1, -7, 1e300, u64::MAX, i64::MIN, true, false]}}),
        json!({"a\"b": {}, "c\\": [[], {}, [[]], "{", "[", ","]}),
        Value::String("x".repeat(5_000)),
    ];
    values.iter().for_each(alike);
}

#[derive(Serialize)]
struct Unit;

#[derive(Serialize)]
struct New(i128);

#[derive(Serialize)]
struct Pair(f32, char);

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    OneUnit,
    New(u8),
    Two(u16, u128),
    Struct { some: Option<i8>, none: Option<()> },
}

#[derive(Serialize)]
struct Outer {
    #[serde(flatten)]
    pair: BTreeMap<u8, &'static str>,
    shapes: Vec<Shape>,
}

#[test]
fn every_shape_of_a_value_is_written_as_serde_json_does() {
    let shapes = || {
        let (some, none) = (Some(-1), None);
        vec![
            Shape::OneUnit,
            Shape::New(0),
            Shape::Two(10, u128::MAX),
            Shape::Struct { some, none },
        ]
    };
    shapes().iter().for_each(alike);
    alike(&(Unit, New(i128::MIN), Pair(1.5, '"'), f64::NAN, ()));
    alike(&Outer {
        pair: BTreeMap::from([(1, "one"), (10, "\t")]),
        shapes: shapes(),
    });
    alike(&BTreeMap::from([(true, 'a'), (false, '\u{7f}')]));
    alike(&BTreeMap::from([(-5i64, [1u8, 2])]));
    alike(&BTreeMap::from([(Shape::OneUnit, Some(New(3)))]));
}

#[test]
fn what_is_json_already_is_written_as_it_is() {
    let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("JSON");
    let all = [raw("{\"a\": [1, \"\\n\"]}"), raw("\"text\""), raw(" 7")];
    alike(&all);
    alike(&json!({"a": "b\n"}));
    alike(&BTreeMap::from([("r", &all[0]), ("s", &all[1])]));
    alike(&(&all[1], "\"after\"", &all[2]));
}

/// Shown in two pieces.
struct Shown(&'static str, &'static str);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)?;
        f.write_str(self.1)
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[test]
fn what_is_shown_is_escaped_piece_by_piece() {
    alike(&[
        Shown("", ""),
        Shown("a\"", "b\\"),
        Shown("plain text", "\u{e9}"),
    ]);
    alike(&BTreeMap::from([("k", Shown("0-3", ",7"))]));
}

#[test]
#[should_panic(expected = "key must be a string")]
fn a_key_that_is_no_text_is_refused() {
    super::to_vec(&BTreeMap::from([((1, 2), 3)]));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[ -~]{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_is_written_as_serde_json_does(value in any_value()) {
        alike(&value);
    }

    #[test]
    fn any_bytes_are_looked_over_alike(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        alike(&text);
    }
}
