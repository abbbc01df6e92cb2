//! Reading a JSON document into typed values, with the path of what is wrong.
//!
//! The parsers of jobspecs and resource sets use it. It knows no format: it
//! takes a document apart and says where it could not.

use std::fmt;

use serde_json::{Map, Value};
use thiserror::Error;

/// The place of a value in its document: `resources[0].with[1].count`. Costs nothing until an
/// error prints it.
#[derive(Clone, Copy, Debug)]
pub enum Path<'p> {
    /// The document.
    Root,
    /// A member of the object at this path.
    Key(&'p Path<'p>, &'p str),
    /// An element of the array at this path.
    Index(&'p Path<'p>, usize),
}

impl<'p> Path<'p> {
    /// The member `key` of the object here.
    pub fn key(&'p self, key: &'p str) -> Path<'p> {
        Path::Key(self, key)
    }

    /// The element `at` of the array here.
    pub fn index(&'p self, at: usize) -> Path<'p> {
        Path::Index(self, at)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(Path::Root, key) => f.write_str(key),
            Path::Key(parent, key) => write!(f, "{parent}.{key}"),
            Path::Index(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}

/// What is wrong with a value of a document, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FieldError {
    /// A key that must be there is not.
    #[error("{path}: is missing; allowed is {allowed}")]
    Missing {
        /// Where.
        path: String,
        /// What belongs there.
        allowed: &'static str,
    },
    /// A value of another type.
    #[error("{place}: is {given}; allowed is {allowed}", place = Place(path))]
    Type {
        /// Where; empty is the document itself.
        path: String,
        /// The type of what is there.
        given: &'static str,
        /// What belongs there.
        allowed: &'static str,
    },
    /// A key that the format does not have.
    #[error("{path}: unknown key, allowed: {}", allowed.join(", "))]
    Unknown {
        /// Where.
        path: String,
        /// The keys that belong beside it.
        allowed: &'static [&'static str],
    },
    /// A number that is not in its range.
    #[error("{path}: is {given}; allowed are {least} to {most}")]
    Range {
        /// Where.
        path: String,
        /// The number, as written.
        given: String,
        /// The least allowed.
        least: u64,
        /// The most allowed.
        most: u64,
    },
    /// A list or object with nothing in it.
    #[error("{path}: is empty; allowed is {allowed}")]
    Empty {
        /// Where.
        path: String,
        /// What belongs there.
        allowed: &'static str,
    },
    /// A text with a NUL in it, which no program can be given.
    #[error("{path}: holds a NUL character")]
    Nul {
        /// Where.
        path: String,
    },
}

struct Place<'a>(&'a str);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() {
            "the document"
        } else {
            self.0
        })
    }
}

/// An object being taken apart.
#[derive(Debug)]
pub struct Object<'p> {
    /// What has not been taken yet.
    pub rest: Map<String, Value>,
    /// Where the object is.
    pub path: Path<'p>,
}

impl<'p> Object<'p> {
    /// The object that `value` is; its keys may be any.
    pub fn open(value: Value, path: Path<'p>) -> Result<Object<'p>, FieldError> {
        match value {
            Value::Object(rest) => Ok(Object { rest, path }),
            other => Err(wrong(path, &other, "an object")),
        }
    }

    /// The object that `value` is; a key other than `allowed` is refused.
    pub fn closed(
        value: Value,
        path: Path<'p>,
        allowed: &'static [&'static str],
    ) -> Result<Object<'p>, FieldError> {
        let object = Object::open(value, path)?;
        match object
            .rest
            .keys()
            .find(|key| !allowed.contains(&key.as_str()))
        {
            None => Ok(object),
            Some(key) => {
                let path = object.path.key(key).to_string();
                Err(FieldError::Unknown { path, allowed })
            }
        }
    }

    /// Takes the value of `key` out, if the key is there.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.rest.shift_remove(key)
    }

    /// Takes the value of `key` out; `allowed` says what it should be if it is missing.
    pub fn need(&mut self, key: &str, allowed: &'static str) -> Result<Value, FieldError> {
        self.take(key).ok_or_else(|| FieldError::Missing {
            path: self.path.key(key).to_string(),
            allowed,
        })
    }

    /// Takes the text of `key` out, if the key is there.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, FieldError> {
        self.take(key)
            .map(|value| text(value, self.path.key(key)))
            .transpose()
    }

    /// Takes the object of `key` out; empty if the key is not there.
    pub fn map(&mut self, key: &str) -> Result<Map<String, Value>, FieldError> {
        match self.take(key) {
            None => Ok(Map::new()),
            Some(value) => Ok(Object::open(value, self.path.key(key))?.rest),
        }
    }
}

/// The text that `value` is.
pub fn text(value: Value, path: Path<'_>) -> Result<String, FieldError> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(wrong(path, &other, "a string")),
    }
}

/// The text that `value` is, fit to be given to a program: without NUL.
pub fn program_text(value: Value, path: Path<'_>) -> Result<String, FieldError> {
    let text = text(value, path)?;
    if text.contains('\0') {
        return Err(FieldError::Nul {
            path: path.to_string(),
        });
    }
    Ok(text)
}

/// The elements of the array that `value` is.
pub fn array(value: Value, path: Path<'_>) -> Result<Vec<Value>, FieldError> {
    match value {
        Value::Array(elements) => Ok(elements),
        other => Err(wrong(path, &other, "an array")),
    }
}

/// The elements of the array that `value` is, at least one.
pub fn some_of(
    value: Value,
    path: Path<'_>,
    allowed: &'static str,
) -> Result<Vec<Value>, FieldError> {
    let elements = array(value, path)?;
    if elements.is_empty() {
        return Err(FieldError::Empty {
            path: path.to_string(),
            allowed,
        });
    }
    Ok(elements)
}

/// The whole number from `least` to `most` that `value` is.
pub fn whole(value: &Value, path: Path<'_>, least: u64, most: u64) -> Result<u64, FieldError> {
    let Value::Number(number) = value else {
        return Err(wrong(path, value, "a whole number"));
    };
    match number.as_u64() {
        Some(n) if n >= least && n <= most => Ok(n),
        None if number.is_f64() => Err(wrong(path, value, "a whole number")),
        _ => {
            let given = number.to_string();
            Err(FieldError::Range {
                path: path.to_string(),
                given,
                least,
                most,
            })
        }
    }
}

/// The error that `value` is not `allowed`.
pub fn wrong(path: Path<'_>, value: &Value, allowed: &'static str) -> FieldError {
    FieldError::Type {
        path: path.to_string(),
        given: type_name(value),
        allowed,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number with a fraction",
        Value::Number(_) => "a whole number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// An error and its causes in one line, for those who can carry only one text (serde).
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}
