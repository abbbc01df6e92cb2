//! JSON as it is written: into journals, messages and answers.
//!
//! The same texts as serde_json's own writers give, and by serde_json. It hands over most of a text a byte
//! at a time (quotes, colons, braces), and a call for each is what writing costs: here they are pushed.
//! Reads nothing.

use std::io;

use serde::Serialize;

/// The text of `value`.
///
/// # Panics
/// A map of it has keys that are no texts, or a `Serialize` of ours fails: neither type is of this crate's.
pub fn to_vec<T: ?Sized + Serialize>(value: &T) -> Vec<u8> {
    let mut sink = Sink(Vec::with_capacity(256));
    serde_json::to_writer(&mut sink, value).expect("types of the wire are JSON");
    sink.0
}

/// The same as a string.
///
/// # Panics
/// As [`to_vec`].
pub fn to_string<T: ?Sized + Serialize>(value: &T) -> String {
    String::from_utf8(to_vec(value)).expect("JSON is UTF-8")
}

/// Where serde_json writes to.
struct Sink(Vec<u8>);

impl io::Write for Sink {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match bytes {
            [byte] => self.0.push(*byte),
            _ => self.0.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn texts_are_those_of_serde_json() {
        let values = [
            json!(null),
            json!("\"\\\u{1}\n\u{e9}\u{1f600}"),
            json!({"": [], "a b": {"c": [0.1, -7, 1e300, u64::MAX, true]}}),
            Value::String("x".repeat(1_000)),
        ];
        for value in values {
            let theirs = serde_json::to_string(&value).expect("JSON");
            assert_eq!(super::to_string(&value), theirs);
            assert_eq!(super::to_vec(&value), theirs.into_bytes());
        }
    }
}
