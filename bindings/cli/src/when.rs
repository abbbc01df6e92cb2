//! Instants and lengths of time as command lines take and show them.
//!
//! The only file of the command that asks the clock for listings.

use anyhow::{Context, ensure};
use eddy_wire::fsd::{Fsd, NUMBER_MAX, parse_fsd};
use eddy_wire::time::{Span, Time};
use jiff::Timestamp;
use jiff::civil::{self, Date, DateTime};
use jiff::tz::TimeZone;

use crate::request::eligible::later;

/// The wall clock now.
pub fn now() -> Time {
    Time(Timestamp::now().as_microsecond())
}

/// `--since`: seconds since 1970, a date, a date and time, or `-FSD` before now.
pub fn parse(text: &str, now: Time) -> anyhow::Result<Time> {
    let text = text.trim();
    if let Some(ago) = text.strip_prefix('-') {
        return match parse_fsd(ago)? {
            Fsd::Finite(micros) => Ok(Time(now.0.saturating_sub(micros))),
            Fsd::Infinite => Ok(Time(0)),
        };
    }
    if let Some(time) = text.parse().ok().and_then(Time::from_seconds) {
        return Ok(time);
    }
    if let Ok(stamp) = text.parse::<Timestamp>() {
        return Ok(Time(stamp.as_microsecond()));
    }
    let local = text
        .parse::<DateTime>()
        .or_else(|_| text.parse::<Date>().map(DateTime::from));
    let zoned = local
        .ok()
        .and_then(|local| local.to_zoned(TimeZone::system()).ok())
        .with_context(|| format!("`{text}` is not a time; allowed are seconds since 1970, 2026-01-31, 2026-01-31T12:00:00 and -FSD"))?;
    Ok(Time(zoned.timestamp().as_microsecond()))
}

/// `--begin-time`: `+FSD`, `now`, `now+LENGTH`, a time of day (the next), `tomorrow`, or what [`parse`]
/// takes. No later than an instance counts.
pub fn begin(text: &str, now: Time) -> anyhow::Result<Time> {
    let text = text.trim();
    let at = begin_of(text, now)?;
    let (given, last) = (at.utc(), Time(NUMBER_MAX));
    ensure!(
        at <= last,
        "`{text}` is {given}; allowed are times up to {}",
        last.utc()
    );
    Ok(at)
}

fn begin_of(text: &str, now: Time) -> anyhow::Result<Time> {
    if let Some(length) = text.strip_prefix("now+").or(text.strip_prefix('+')) {
        return Ok(now.after(Span(later(length)?)));
    }
    let of_day = match text {
        "now" => return Ok(now),
        "midnight" => "00:00",
        "noon" => "12:00",
        "teatime" => "16:00",
        other => other,
    };
    let here = Timestamp::from_microsecond(now.0)?.to_zoned(TimeZone::system());
    if text == "tomorrow" {
        let midnight = here.tomorrow()?.start_of_day()?;
        return Ok(Time(midnight.timestamp().as_microsecond()));
    }
    if let Some(clock) = time_of_day(of_day) {
        let today = here.with().time(clock).build()?;
        let next = match today > here {
            true => today,
            false => here.tomorrow()?.with().time(clock).build()?,
        };
        return Ok(Time(next.timestamp().as_microsecond()));
    }
    parse(text, now)
        .ok()
        .filter(|_| !text.starts_with('-'))
        .with_context(|| format!("`{text}` is not a time; allowed are +1h, now+30min, 16:00, midnight, noon, tomorrow, 2026-01-31, 2026-01-31T12:00 and seconds since 1970"))
}

/// `16:00` or `16:00:30`.
fn time_of_day(text: &str) -> Option<civil::Time> {
    let mut parts = text.split(':').map(|part| part.parse::<i8>().ok());
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = match parts.next() {
        Some(second) => second?,
        None => 0,
    };
    if parts.next().is_some() {
        return None;
    }
    civil::Time::new(hour, minute, second, 0).ok()
}

/// The date and time on the wall here: `2026-01-31T12:00:00`.
pub fn local(time: Time) -> String {
    match Timestamp::from_microsecond(time.0) {
        Ok(stamp) => stamp
            .to_zoned(TimeZone::system())
            .strftime("%Y-%m-%dT%H:%M:%S")
            .to_string(),
        Err(_) => time.to_string(),
    }
}

/// A length of time rounded for reading: `1.234s`, `2.5m`, `3.125h`.
pub fn short(span: Span) -> String {
    let micros = span.0.max(0);
    let unit = match micros {
        ..60_000_000 => 1_000,
        60_000_000..3_600_000_000 => 60_000,
        3_600_000_000..86_400_000_000 => 3_600_000,
        _ => 86_400_000,
    };
    let rounded = (micros + unit / 2) / unit * unit;
    match rounded {
        // Under a second, milliseconds read better than a fraction.
        1..1_000_000 => format!("{}s", trimmed(rounded)),
        _ => Fsd::Finite(rounded).to_string(),
    }
}

fn trimmed(micros: i64) -> String {
    format!("{:.3}", micros as f64 / 1e6)
        .trim_end_matches('0')
        .to_owned()
}

/// `H:MM:SS`, as Slurm's users read it.
pub fn clock(span: Span) -> String {
    let seconds = span.0.max(0) / 1_000_000;
    format!(
        "{}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_seconds_a_date_or_so_long_ago() {
        let now = Time(1_800_000_000_000_000);
        let read = |text| parse(text, now).expect("a time").0;
        assert_eq!(read("1700000000.5"), 1_700_000_000_500_000);
        assert_eq!(read("-1h"), now.0 - 3_600_000_000);
        assert_eq!(read("2026-01-31T12:00:00Z"), 1_769_860_800_000_000);
        assert!(parse("2026-01-31", now).is_ok());
        assert!(parse("yesterday", now).is_err() && parse("nan", now).is_err());
    }

    #[test]
    fn a_begin_time_is_in_a_while_or_at_a_time() {
        let now = Time(1_800_000_000_500_000);
        let read = |text| begin(text, now).map(|time| time.0 - now.0).ok();
        assert_eq!(read("now"), Some(0));
        assert_eq!(read("+1h"), Some(3_600_000_000));
        assert_eq!(read("now+2min"), Some(120_000_000));
        assert_eq!(read("1800000001"), Some(500_000));
        for of_day in ["16:00", "noon", "00:00:30", "tomorrow"] {
            let next = read(of_day).expect("a time of day");
            assert!(next > 0 && next <= 90_000_000_000, "{of_day}: {next}");
        }
        for wrong in ["-1h", "soon", "25:00", "1:2:3:4", "now+", "+inf", ""] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lengths_are_rounded_for_reading() {
        let text = |micros| short(Span(micros));
        assert_eq!(text(0), "0s");
        assert_eq!(text(1_234_567), "1.235s");
        assert_eq!(text(123_456), "0.123s");
        assert_eq!(text(90_000_000), "1.5m");
        assert_eq!(text(-5), "0s");
        assert_eq!(clock(Span::seconds(3_723)), "1:02:03");
    }
}
