//! Signals by name and number, for `job kill -s` and `why`.

use anyhow::bail;

/// Linux's numbers, which are the same on every machine eddy runs on.
const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

/// The name of a signal that has one.
pub fn named(number: i32) -> Option<&'static str> {
    let known = SIGNALS.iter().find(|(_, known)| *known == number);
    known.map(|(name, _)| *name)
}

/// The signal that `TERM`, `sigterm` or `15` names.
pub fn parse(text: &str) -> anyhow::Result<i32> {
    if let Ok(number) = text.parse::<i32>() {
        return match number {
            1..=64 => Ok(number),
            _ => bail!("signal {number} does not exist; allowed are 1 to 64"),
        };
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    match SIGNALS.iter().find(|(known, _)| *known == name) {
        Some((_, number)) => Ok(*number),
        None => bail!("`{text}` is not a signal; allowed are 1 to 64 and names such as TERM"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_and_a_number() {
        for text in ["15", "TERM", "SIGTERM", "sigterm"] {
            assert_eq!(parse(text).expect("a signal"), 15);
        }
        for text in ["0", "65", "-1", "FOO", ""] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
