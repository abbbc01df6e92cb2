//! Instants and lengths of time as command lines take and show them.
//!
//! The only file of the command that asks the clock for listings.

use anyhow::{Context, bail, ensure};
use eddy_wire::fsd::{Fsd, NUMBER_MAX, SECOND, parse_fsd, parse_minutes_or_fsd};
use eddy_wire::time::{Span, Time};
use jiff::Timestamp;
use jiff::civil::{self, Date, DateTime};
use jiff::tz::TimeZone;

use crate::request::eligible::later;

/// The wall clock now.
pub fn now() -> Time {
    Time(Timestamp::now().as_microsecond())
}

/// What a time limit may be, but for `inf`.
pub const LIMITS: &str = "minutes (90), a number with ms, s, m, h or d (1.5h), or M:SS, H:MM:SS and D-HH[:MM[:SS]], over 0 and up \
     to 4294967295 s";

/// A time limit, of [`LIMITS`] or without end.
pub fn limit(text: &str) -> Option<Fsd> {
    let limit = parse_minutes_or_fsd(text).ok();
    let limit = limit.or_else(|| clocked(text).map(Fsd::Finite));
    limit.filter(|limit| matches!(limit, Fsd::Finite(1..=NUMBER_MAX) | Fsd::Infinite))
}

/// A length of time with colons, as Slurm and PBS have it; with days in front as Slurm has it. Only what
/// cannot be read as Flux's: a number alone is not. The first field may be any number.
fn clocked(text: &str) -> Option<i64> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(days), rest),
        None => (None, text),
    };
    let fields: Vec<&str> = days.into_iter().chain(rest.split(':')).collect();
    // What each of them counts, in seconds.
    let units: &[i64] = match (days, fields.len()) {
        (Some(_), 2..=4) => &[86_400, 3600, 60, 1],
        (None, 2) => &[60, 1],
        (None, 3) => &[3600, 60, 1],
        _ => return None,
    };
    let mut seconds: i64 = 0;
    for (at, (field, unit)) in fields.iter().zip(units).enumerate() {
        let number: u32 = field.parse().ok().filter(|_| !field.starts_with('+'))?;
        // As many as make one of the field before.
        let below = at.checked_sub(1).map(|before| units[before] / unit);
        if below.is_some_and(|below| i64::from(number) >= below) {
            return None;
        }
        seconds += i64::from(number) * unit;
    }
    seconds.checked_mul(SECOND)
}

/// A length of time that is not 0 and ends; `option` is what gave it.
pub fn length(option: &str, text: &str) -> anyhow::Result<Span> {
    match parse_fsd(text) {
        Ok(Fsd::Finite(micros @ 1..=NUMBER_MAX)) => Ok(Span(micros)),
        _ => bail!(
            "{option}: `{text}` given; allowed are seconds, or a number with ms, s, m, h or d (1.5h), \
             over 0 and up to {} s",
            NUMBER_MAX / SECOND
        ),
    }
}

/// `--since`, as of now.
pub fn since(text: &str) -> anyhow::Result<Time> {
    parse(text, now()).context("--since")
}

/// Seconds since 1970, a date, a date and time, or `-FSD` before now.
fn parse(text: &str, now: Time) -> anyhow::Result<Time> {
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
    let local = local
        .ok()
        .with_context(|| format!("`{text}` is not a time; allowed are seconds since 1970, 2026-01-31, 2026-01-31T12:00:00 and -FSD"))?;
    Ok(match local.to_zoned(TimeZone::system()) {
        Ok(zoned) => Time(zoned.timestamp().as_microsecond()),
        // The last hours of the year 9999 and the first of -9999 are no instants everywhere.
        Err(_) if local.year() > 0 => Time(Timestamp::MAX.as_microsecond()),
        Err(_) => Time(Timestamp::MIN.as_microsecond()),
    })
}

/// `--begin-time`: `+FSD`, `now`, `now+LENGTH`, a time of day (the next), `tomorrow`, or what [`parse`]
/// takes. No later than an instance counts.
pub fn begin(text: &str, now: Time) -> anyhow::Result<Time> {
    let text = text.trim();
    let at = begin_of(text, now)?;
    let last = Time(NUMBER_MAX);
    ensure!(
        at <= last,
        "`{text}` given; allowed are times up to {}",
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
        .with_context(|| format!("`{text}` given; allowed are +1h, now+30min, 16:00, midnight, noon, tomorrow, 2026-01-31, 2026-01-31T12:00 and seconds since 1970"))
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

/// What stands before an instant in what an instance says, and what in turn before that: a begin time, and the end of
/// the period that a limit is of.
const BEFORE: [(&str, &str); 2] = [("", "its begin time "), ("limit `", " until ")];

/// The same text, with these instants as [`local`] has them. Others may be the words of a person, and stay.
pub fn here(text: &str) -> String {
    let begun = text.to_owned();
    BEFORE.iter().fold(begun, |text, (first, then)| {
        shown_here(&text, first, then).unwrap_or(text)
    })
}

/// The same with the instant behind both; none if there is none.
fn shown_here(text: &str, first: &str, then: &str) -> Option<String> {
    let begins = text.find(first)?;
    let at = begins + text[begins..].find(then)? + then.len();
    let (before, rest) = text.split_at(at);
    let (instant, after) = rest.split_at(rest.find('Z')? + 1);
    let stamp: Timestamp = instant.parse().ok()?;
    let shown = local(Time(stamp.as_microsecond()));
    Some(format!("{before}{shown}{after}"))
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
    fn what_is_no_begin_time_is_told_what_is() {
        let now = Time(1_800_000_000_500_000);
        let said = |text| begin(text, now).expect_err(text).to_string();
        for late in ["9999-12-31", "9999-12-31T23:59", "5000-01-01", "+100000d"] {
            let last = format!("`{late}` given; allowed are times up to 2106-02-07T06:28:15Z");
            assert_eq!(said(late), last);
        }
        for wrong in ["now-1h", "-1h", "99999999999999999999"] {
            let begins = format!("`{wrong}` given; allowed are +1h, now+30min, 16:00, ");
            assert!(said(wrong).starts_with(&begins), "{}", said(wrong));
        }
        // What is past is a time.
        assert!(begin("1999-01-01", now).is_ok());
    }

    #[test]
    fn a_limit_is_over_nothing_and_may_be_without_end() {
        let minute = 60 * SECOND;
        assert_eq!(limit("90"), Some(Fsd::Finite(90 * minute)));
        assert_eq!(limit("inf"), Some(Fsd::Infinite));
        let second = SECOND;
        for (clock, micros) in [
            ("10:00", 10 * minute),
            ("90:30", 90 * minute + 30 * second),
            ("1:30:00", 90 * minute),
            ("36:00:00", 36 * 60 * minute),
            ("0:00:05", 5 * second),
            ("2-12", 60 * 60 * minute),
            ("1-00:30", (24 * 60 + 30) * minute),
            ("1-00:30:01", (24 * 60 + 30) * minute + second),
        ] {
            assert_eq!(limit(clock), Some(Fsd::Finite(micros)), "{clock}");
        }
        for wrong in [
            "0:00", "1:60", "1:2:3:4", "1-24", ":30", "1:", "1:+5", "-1:00", "1.5:00", "1-2-3",
        ] {
            assert_eq!(limit(wrong), None, "{wrong}");
        }
        for wrong in ["0", "-1", "1x", "", "99999999999"] {
            assert_eq!(limit(wrong), None, "{wrong}");
            assert!(length("--duration", wrong).is_err(), "{wrong}");
        }
        assert!(LIMITS.contains(&(NUMBER_MAX / SECOND).to_string()));
        assert_eq!(
            length("--duration", "inf").expect_err("no end").to_string(),
            "--duration: `inf` given; allowed are seconds, or a number with ms, s, m, h or d (1.5h), over 0 \
             and up to 4294967295 s"
        );
    }

    #[test]
    fn begin_times_and_ends_of_periods_are_as_on_the_wall_here() {
        let at = "2025-11-21T01:53:20Z";
        let shown = local(Time(1_763_690_000_000_000));
        assert_eq!(
            here(&format!("waits for its begin time {at}, job f3 over")),
            format!("waits for its begin time {shown}, job f3 over")
        );
        assert_eq!(
            here(&format!(
                "limit `budget` of user ann is 5 s until {at}, 1 of them carried over: 5 s are taken"
            )),
            format!(
                "limit `budget` of user ann is 5 s until {shown}, 1 of them carried over: 5 s are taken"
            )
        );
        let said = format!("is down until {at}: back at {at}");
        assert_eq!(here(&said), said);
        assert_eq!(
            here("waits for its begin time soon"),
            "waits for its begin time soon"
        );
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
