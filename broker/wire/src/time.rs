//! Broker time: instants and spans in whole microseconds.
//!
//! Every crate takes `now: Time` as an argument; only a driver asks a clock.
//! This file never reads one.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Microseconds in a second.
pub const MICROS: i64 = 1_000_000;

/// An instant of broker time: microseconds since 1970-01-01T00:00:00Z.
///
/// On the wire (RFC 18 time stamps, listings) it is seconds with six decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

/// A length of time in microseconds; never negative where it is a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub i64);

impl Time {
    /// Seconds since 1970 as a float: only for output, never for arithmetic.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / MICROS as f64
    }

    /// The instant a float of seconds names, rounded to the microsecond.
    /// `None` when it is not finite or beyond the range of `i64`.
    pub fn from_seconds(seconds: f64) -> Option<Time> {
        micros(seconds).map(Time)
    }

    /// The date and time of day in UTC, in whole seconds (RFC 3339): `2026-11-21T14:00:00Z`.
    pub fn utc(self) -> String {
        let seconds = self.0.div_euclid(MICROS);
        let (year, month, day) = civil(seconds.div_euclid(86_400));
        let of_day = seconds.rem_euclid(86_400);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// Later by `span`, at most the largest instant.
    pub fn after(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// `n` whole seconds.
    pub const fn seconds(n: i64) -> Span {
        Span(n * MICROS)
    }

    /// `n` whole milliseconds.
    pub const fn millis(n: i64) -> Span {
        Span(n * 1000)
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        self.after(span)
    }
}

impl Sub for Time {
    type Output = Span;
    fn sub(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// Year, month and day of the Gregorian calendar, so many days after 1970-01-01. Counted in eras of
/// 400 years that begin in March, so that the leap day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

fn micros(seconds: f64) -> Option<i64> {
    let micros = (seconds * MICROS as f64).round();
    (micros.is_finite() && micros.abs() < i64::MAX as f64).then_some(micros as i64)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fixed(self.0, f)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fixed(self.0, f)
    }
}

fn fixed(micros: i64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let sign = if micros < 0 { "-" } else { "" };
    let whole = micros.unsigned_abs();
    write!(
        f,
        "{sign}{}.{:06}",
        whole / MICROS as u64,
        whole % MICROS as u64
    )
}

macro_rules! seconds_on_the_wire {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_f64(self.0 as f64 / MICROS as f64)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let seconds = f64::deserialize(deserializer)?;
                micros(seconds).map($name).ok_or_else(|| {
                    serde::de::Error::custom(format!("time {seconds} is out of range"))
                })
            }
        }
    };
}
seconds_on_the_wire!(Time);
seconds_on_the_wire!(Span);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_survives_the_wire_to_the_microsecond() {
        for micros in [0, 1, 999_999, 1_763_690_000_123_457] {
            let text = serde_json::to_string(&Time(micros)).expect("a number");
            let back: Time = serde_json::from_str(&text).expect("its own output");
            assert_eq!(back, Time(micros), "{text}");
        }
    }

    #[test]
    fn a_time_has_a_date() {
        let utc = |seconds: i64| Time(seconds * MICROS).utc();
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(utc(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(utc(-1), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn seconds_that_are_no_number_are_no_time() {
        assert_eq!(Time::from_seconds(f64::NAN), None);
        assert_eq!(Time::from_seconds(f64::INFINITY), None);
        assert_eq!(Time::from_seconds(1e300), None);
    }
}
