//! How many of a resource: a number, a set of acceptable numbers, or a range
//! with a step (RFC 14), and the text form of ranges (RFC 45): `2-16:2:*`.

use std::fmt;
use std::str::FromStr;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use thiserror::Error;

use crate::field::{self, FieldError, Object, Path};
use crate::idset::{ID_MAX, Idset, IdsetError};

use super::JobspecError;

/// A count of a vertex; never 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// Exactly so many.
    Exactly(u32),
    /// As many as the scheduler likes of these.
    OneOf(Idset),
    /// As many as the scheduler likes of this range.
    Range(CountRange),
}

/// Numbers from `min`, each made from the one before by `operator` and `operand`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountRange {
    /// The least; at least 1, and 2 if the operator is a power.
    pub min: u32,
    /// Not to be exceeded, if there is a limit.
    pub max: Option<u32>,
    /// At least 1 to add, 2 to multiply or raise.
    pub operand: u32,
    /// How the next number is made.
    pub operator: Operator,
}

/// How the next number of a range is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `*`
    Multiply,
    /// `^`
    Power,
}

/// Why a text or object is not a count.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CountError {
    /// A set of counts that is not an idset.
    #[error(transparent)]
    Idset(#[from] IdsetError),
    /// A count of nothing.
    #[error("count holds 0; allowed are 1 to {ID_MAX}")]
    Zero,
    /// No count at all.
    #[error("count is empty")]
    Empty,
    /// Not `min-max:operand:operator` or `min+:operand:operator`.
    #[error("range `{given}` is not of the form min-max:operand:operator or min+:operand:operator")]
    Form {
        /// As given.
        given: String,
    },
    /// A number with leading zeros, or over the limit.
    #[error("range has `{given}`; allowed are 1 to {ID_MAX}, without leading zeros")]
    Number {
        /// The number.
        given: String,
    },
    /// The limit is below the start.
    #[error("range goes from {min} to {max}; the maximum must not be below the minimum")]
    Backwards {
        /// The start.
        min: u32,
        /// The limit.
        max: u32,
    },
    /// The operator would not get on.
    #[error("range has min {min}, operand {operand} and operator {operator}, which never grows")]
    Stuck {
        /// The start.
        min: u32,
        /// The operand.
        operand: u32,
        /// The operator.
        operator: Operator,
    },
    /// An operator that does not exist.
    #[error("range has the operator `{given}`; allowed are +, * and ^")]
    Operator {
        /// As given.
        given: String,
    },
}

const RANGE: &[&str] = &["min", "max", "operand", "operator"];

impl Count {
    /// The one number this count can be, if it can be only one.
    pub fn fixed(&self) -> Option<u32> {
        match self {
            Count::Exactly(count) => Some(*count),
            Count::OneOf(set) if set.len() == 1 => set.first(),
            Count::Range(range) if range.max == Some(range.min) => Some(range.min),
            Count::OneOf(_) | Count::Range(_) => None,
        }
    }

    /// The count that a value of a jobspec is.
    pub(super) fn read(value: Value, path: Path<'_>) -> Result<Count, JobspecError> {
        let located = |source| JobspecError::Count {
            path: path.to_string(),
            source,
        };
        match value {
            Value::Number(_) => {
                let count = field::whole(&value, path, 1, u64::from(ID_MAX))?;
                Ok(Count::Exactly(count as u32))
            }
            Value::String(text) => text.parse().map_err(located),
            Value::Object(_) => {
                let mut range = Object::closed(value, path, RANGE)?;
                read_range(&mut range, path)?
                    .checked()
                    .map(Count::Range)
                    .map_err(located)
            }
            other => {
                let allowed = "a whole number, a string or an object";
                Err(field::wrong(path, &other, allowed).into())
            }
        }
    }
}

fn read_range(range: &mut Object<'_>, path: Path<'_>) -> Result<CountRange, JobspecError> {
    let mut number = |key: &str| -> Result<Option<u32>, FieldError> {
        let value = range.take(key);
        let whole = value.map(|value| field::whole(&value, path.key(key), 1, u64::from(ID_MAX)));
        Ok(whole.transpose()?.map(|number| number as u32))
    };
    let (min, max, operand) = (number("min")?, number("max")?, number("operand")?);
    let Some(min) = min else {
        let path = path.key("min").to_string();
        return Err(FieldError::Missing {
            path,
            allowed: "a whole number",
        }
        .into());
    };
    let operator = match range.text("operator")? {
        None => Operator::Add,
        Some(text) => text.parse().map_err(|source| {
            let path = path.key("operator").to_string();
            JobspecError::Count { path, source }
        })?,
    };
    Ok(CountRange {
        min,
        max,
        operand: operand.unwrap_or(1),
        operator,
    })
}

impl CountRange {
    fn checked(self) -> Result<CountRange, CountError> {
        let CountRange {
            min,
            max,
            operand,
            operator,
        } = self;
        if let Some(max) = max.filter(|&max| max < min) {
            return Err(CountError::Backwards { min, max });
        }
        let grows = match operator {
            Operator::Add => operand >= 1,
            Operator::Multiply => operand >= 2,
            Operator::Power => operand >= 2 && min >= 2,
        };
        if grows {
            Ok(self)
        } else {
            Err(CountError::Stuck {
                min,
                operand,
                operator,
            })
        }
    }
}

impl FromStr for Count {
    type Err = CountError;

    /// An idset (RFC 22) or a range (RFC 45), with or without brackets around; `1-4` is both,
    /// and the same.
    fn from_str(text: &str) -> Result<Count, CountError> {
        if text.contains(['+', ':', '*', '^']) {
            return text.parse().map(Count::Range);
        }
        let set: Idset = text.parse()?;
        if set.contains(0) {
            return Err(CountError::Zero);
        }
        match set.ranges() {
            [] => Err(CountError::Empty),
            &[(only, last)] if only == last => Ok(Count::Exactly(only)),
            &[(min, max)] => {
                let operator = Operator::Add;
                Ok(Count::Range(CountRange {
                    min,
                    max: Some(max),
                    operand: 1,
                    operator,
                }))
            }
            _ => Ok(Count::OneOf(set)),
        }
    }
}

impl FromStr for CountRange {
    type Err = CountError;

    fn from_str(text: &str) -> Result<CountRange, CountError> {
        let form = || CountError::Form {
            given: text.chars().take(64).collect(),
        };
        let inner = match (text.strip_prefix('['), text.ends_with(']')) {
            (Some(rest), true) => &rest[..rest.len() - 1],
            (None, false) => text,
            _ => return Err(form()),
        };
        let mut parts = inner.splitn(4, ':');
        let bounds = parts.next().ok_or_else(form)?;
        let operand = parts.next().map(read_number).transpose()?.unwrap_or(1);
        let operator = parts
            .next()
            .map(str::parse)
            .transpose()?
            .unwrap_or(Operator::Add);
        if parts.next().is_some() {
            return Err(form());
        }
        let (min, max) = match bounds.strip_suffix('+') {
            Some(min) => (read_number(min)?, None),
            None => {
                let (min, max) = bounds.split_once('-').ok_or_else(form)?;
                (read_number(min)?, Some(read_number(max)?))
            }
        };
        CountRange {
            min,
            max,
            operand,
            operator,
        }
        .checked()
    }
}

fn read_number(text: &str) -> Result<u32, CountError> {
    let plain = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if plain && number <= ID_MAX => Ok(number),
        _ => Err(CountError::Number {
            given: text.chars().take(64).collect(),
        }),
    }
}

impl FromStr for Operator {
    type Err = CountError;

    fn from_str(text: &str) -> Result<Operator, CountError> {
        match text {
            "+" => Ok(Operator::Add),
            "*" => Ok(Operator::Multiply),
            "^" => Ok(Operator::Power),
            _ => Err(CountError::Operator {
                given: text.chars().take(64).collect(),
            }),
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Add => "+",
            Operator::Multiply => "*",
            Operator::Power => "^",
        })
    }
}

impl fmt::Display for CountRange {
    /// The shortest form of RFC 45.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.max {
            Some(max) => write!(f, "{}-{max}", self.min)?,
            None => write!(f, "{}+", self.min)?,
        }
        match (self.operand, self.operator) {
            (1, Operator::Add) => Ok(()),
            (operand, Operator::Add) => write!(f, ":{operand}"),
            (operand, operator) => write!(f, ":{operand}:{operator}"),
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Count::Exactly(count) => fmt::Display::fmt(count, f),
            Count::OneOf(set) => fmt::Display::fmt(set, f),
            Count::Range(range) => fmt::Display::fmt(range, f),
        }
    }
}

impl Serialize for Count {
    /// A range is an object, which older readers know as well.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Count::Exactly(count) => serializer.serialize_u32(*count),
            Count::OneOf(set) => serializer.collect_str(set),
            Count::Range(range) => {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("min", &range.min)?;
                if let Some(max) = range.max {
                    map.serialize_entry("max", &max)?;
                }
                // The old schema wants `operand` and `operator` wherever `max` is.
                if range.max.is_some() || range.operand != 1 || range.operator != Operator::Add {
                    map.serialize_entry("operand", &range.operand)?;
                    map.serialize_entry("operator", &range.operator.to_string())?;
                }
                map.end()
            }
        }
    }
}
