//! Durations as people write them (RFC 23): `90s`, `1.5h`, `inf`.
//!
//! Command lines, configuration and transcripts. Decimal arithmetic, not
//! floating point: `0.1s` is 100,000 microseconds. Knows no calendar and no
//! clock.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Microseconds in a second.
pub const SECOND: i64 = 1_000_000;

/// The most microseconds of a JSON number of seconds: below 2^32 seconds (136 years) a 64-bit
/// float tells each microsecond from the next, so that what is read is what was written.
pub const NUMBER_MAX: i64 = u32::MAX as i64 * SECOND;

/// The longest text looked at as a duration, in bytes.
pub const FSD_TEXT_MAX: usize = 64;

/// A duration that a person wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fsd {
    /// So many microseconds, never negative.
    Finite(i64),
    /// Without end.
    Infinite,
}

/// Why a text or number is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FsdError {
    /// Nothing but white space.
    #[error("duration is empty; allowed are a number and ms, s, m, h or d, and inf")]
    Empty,
    /// Longer than [`FSD_TEXT_MAX`].
    #[error("duration has {given} bytes; allowed are at most {FSD_TEXT_MAX}")]
    TooLong {
        /// Length of the text.
        given: usize,
    },
    /// Below zero.
    #[error("duration `{given}` is negative; allowed are 0 and more")]
    Negative {
        /// As given.
        given: String,
    },
    /// Not a number at all.
    #[error(
        "duration `{given}` is not a number; allowed are a number and ms, s, m, h or d, and inf"
    )]
    NotANumber {
        /// As given.
        given: String,
    },
    /// Something else than a unit after the number.
    #[error("duration `{given}` has the unit `{unit}`; allowed are ms, s, m, h and d")]
    Unit {
        /// As given.
        given: String,
        /// What follows the number.
        unit: String,
    },
    /// More microseconds than can be held: 292,000 years of text, 136 of a document's number.
    #[error("duration `{given}` is over {most} seconds")]
    Overflow {
        /// As given.
        given: String,
        /// The most seconds allowed.
        most: i64,
    },
}

/// What a number without unit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bare {
    Seconds,
    Minutes,
}

/// Units, the longest first, with their microseconds.
const UNITS: [(&str, i64); 5] = [
    ("d", 86_400 * SECOND),
    ("h", 3_600 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
    ("ms", 1_000),
];

/// A duration in the form of RFC 23; a number without unit counts seconds.
pub fn parse_fsd(text: &str) -> Result<Fsd, FsdError> {
    parse(text, Bare::Seconds)
}

/// A duration as `-t` takes it: a number without unit counts minutes.
pub fn parse_minutes_or_fsd(text: &str) -> Result<Fsd, FsdError> {
    parse(text, Bare::Minutes)
}

/// Seconds of a document as microseconds, rounded to the nearest. NaN, negative numbers and
/// those over [`NUMBER_MAX`] are refused.
pub fn micros_of_seconds(seconds: f64) -> Result<i64, FsdError> {
    let given = || format!("{seconds}");
    if seconds.is_nan() {
        return Err(FsdError::NotANumber { given: given() });
    }
    if seconds < 0.0 {
        return Err(FsdError::Negative { given: given() });
    }
    let micros = (seconds * SECOND as f64).round();
    if micros > NUMBER_MAX as f64 {
        return Err(FsdError::Overflow {
            given: given(),
            most: NUMBER_MAX / SECOND,
        });
    }
    Ok(micros as i64)
}

/// Microseconds as a JSON number of seconds: whole if they are.
pub fn seconds_of_micros(micros: i64) -> serde_json::Number {
    if micros % SECOND == 0 {
        return (micros / SECOND).into();
    }
    serde_json::Number::from_f64(micros as f64 / SECOND as f64).expect("a quotient is finite")
}

fn parse(given: &str, bare: Bare) -> Result<Fsd, FsdError> {
    let text = given.trim();
    if text.is_empty() {
        return Err(FsdError::Empty);
    }
    if text.len() > FSD_TEXT_MAX {
        return Err(FsdError::TooLong { given: text.len() });
    }
    if text.starts_with('-') {
        return Err(FsdError::Negative {
            given: text.to_owned(),
        });
    }
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    if ["inf", "infinity"]
        .iter()
        .any(|word| unsigned.eq_ignore_ascii_case(word))
    {
        return Ok(Fsd::Infinite);
    }
    let decimal = Decimal::read(unsigned).ok_or_else(|| FsdError::NotANumber {
        given: text.to_owned(),
    })?;
    let unit = &unsigned[decimal.length..];
    let micros = match (unit, bare) {
        ("", Bare::Seconds) => SECOND,
        ("", Bare::Minutes) => 60 * SECOND,
        _ => match UNITS.iter().find(|(name, _)| *name == unit) {
            Some(&(_, micros)) => micros,
            None => {
                return Err(FsdError::Unit {
                    given: text.to_owned(),
                    unit: unit.to_owned(),
                });
            }
        },
    };
    let micros = decimal.times(micros);
    let most = i64::MAX / SECOND;
    micros.map(Fsd::Finite).ok_or_else(|| FsdError::Overflow {
        given: text.to_owned(),
        most,
    })
}

/// `digits` times ten to the `exponent`, and how many bytes of text said so.
struct Decimal {
    digits: u128,
    exponent: i32,
    length: usize,
}

impl Decimal {
    /// How many digits are looked at; what comes after cannot move a microsecond.
    const DIGITS_MAX: u32 = 26;

    /// The number a text begins with, as `strtod` reads it without its hexadecimal forms.
    fn read(text: &str) -> Option<Decimal> {
        let bytes = text.as_bytes();
        let (mut digits, mut exponent, mut kept) = (0u128, 0i32, 0u32);
        let (mut at, mut seen, mut point) = (0, 0, 0);
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'0'..=b'9' => {
                    seen += 1;
                    if kept < Decimal::DIGITS_MAX {
                        digits = digits * 10 + u128::from(byte - b'0');
                        kept += u32::from(digits > 0);
                        exponent -= point;
                    } else {
                        exponent += 1 - point;
                    }
                }
                b'.' if point == 0 => point = 1,
                _ => break,
            }
            at += 1;
        }
        if seen == 0 {
            return None;
        }
        let (written, length) = read_exponent(&bytes[at..]);
        Some(Decimal {
            digits,
            exponent: exponent.saturating_add(written),
            length: at + length,
        })
    }

    /// This times `micros`, to the nearest; nothing if it does not fit.
    fn times(&self, micros: i64) -> Option<i64> {
        // At most 26 digits and 37 bits: under 124 bits.
        let product = self.digits * u128::from(micros.unsigned_abs());
        if product == 0 {
            return Some(0);
        }
        let power = 10u128.checked_pow(self.exponent.unsigned_abs());
        let rounded = match (self.exponent >= 0, power) {
            (true, None) => return None,
            (true, Some(power)) => product.checked_mul(power)?,
            (false, None) => 0,
            (false, Some(power)) => {
                product / power + u128::from(product % power >= power.div_ceil(2))
            }
        };
        i64::try_from(rounded).ok()
    }
}

/// The exponent at the start of `bytes` and its length; no exponent is 0 of length 0.
fn read_exponent(bytes: &[u8]) -> (i32, usize) {
    let sign = match bytes {
        [b'e' | b'E', b'-', ..] => -1,
        [b'e' | b'E', ..] => 1,
        _ => return (0, 0),
    };
    let start = 1 + usize::from(matches!(bytes.get(1), Some(b'+' | b'-')));
    let digits = bytes[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let (mut value, mut length) = (0i32, start);
    for digit in digits {
        value = value
            .saturating_mul(10)
            .saturating_add(i32::from(digit - b'0'));
        length += 1;
    }
    if length == start {
        (0, 0)
    } else {
        (sign * value, length)
    }
}

impl FromStr for Fsd {
    type Err = FsdError;

    fn from_str(text: &str) -> Result<Fsd, FsdError> {
        parse_fsd(text)
    }
}

impl fmt::Display for Fsd {
    /// Exactly, in the longest unit that needs at most three decimals, else in seconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = match *self {
            Fsd::Infinite => return f.write_str("inf"),
            Fsd::Finite(0) => return f.write_str("0s"),
            Fsd::Finite(micros) => i128::from(micros),
        };
        for (name, unit) in UNITS.map(|(name, unit)| (name, i128::from(unit))) {
            let short =
                (micros * 1_000) % unit == 0 && (name != "ms" || micros < i128::from(SECOND));
            if micros >= unit && short {
                return write!(f, "{}{name}", Thousandths(micros * 1_000 / unit));
            }
        }
        let (whole, part) = (micros / i128::from(SECOND), micros % i128::from(SECOND));
        let decimals = format!("{part:06}");
        write!(f, "{whole}.{}s", decimals.trim_end_matches('0'))
    }
}

struct Thousandths(i128);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000, self.0 % 1_000);
        if part == 0 {
            return write!(f, "{whole}");
        }
        let decimals = format!("{part:03}");
        write!(f, "{whole}.{}", decimals.trim_end_matches('0'))
    }
}
