//! What a job would have to ask for otherwise: as `eddy why --if` takes it, and
//! as advice is spelled.
//!
//! Used by `why`. It asks nobody and reads no file.

use anyhow::{anyhow, bail};
use eddy_wire::fsd::Fsd;
use eddy_wire::plan::Suppose;
use eddy_wire::services::job::URGENCY_MAX;
use eddy_wire::time::Span;

use crate::number::{COUNTS, number};
use crate::table::escaped;
use crate::when;

/// What may be supposed.
const KEYS: &str = "nodes, slots, time, urgency, queue, account and qos";

/// Reads `nodes=2,time=1h`.
///
/// # Errors
/// The word that is not understood, with what is allowed.
pub fn parse(text: &str) -> anyhow::Result<Suppose> {
    let mut suppose = Suppose::default();
    let mut keys: Vec<&str> = Vec::new();
    for word in text.split(',').map(str::trim) {
        let Some((key, value)) = word.split_once('=') else {
            bail!("--if: `{word}` is no KEY=VALUE; allowed keys are {KEYS}");
        };
        if keys.contains(&key) {
            bail!("--if: {key}: given twice; once is allowed");
        }
        keys.push(key);
        let wrong = |allowed: String| anyhow!("--if: {key}: `{value}` given; {allowed}");
        let count = || number(COUNTS)(value).map_err(wrong);
        let name = || match value.is_empty() {
            true => Err(wrong("a name is needed".to_owned())),
            false => Ok(value.to_owned()),
        };
        match key {
            "nodes" => suppose.nodes = Some(count()?),
            "slots" => suppose.slots = Some(count()?),
            "urgency" => {
                let urgency = number(1..=URGENCY_MAX)(value);
                suppose.urgency = Some(urgency.map_err(wrong)?);
            }
            "time" => {
                suppose.limit = Some(match when::limit(value) {
                    Some(Fsd::Finite(micros)) => Span(micros),
                    Some(Fsd::Infinite) => Span::ZERO,
                    None => return Err(wrong(format!("allowed are {}, and inf", when::LIMITS))),
                });
            }
            "queue" => suppose.queue = Some(name()?),
            "account" => suppose.account = Some(name()?),
            "qos" => suppose.qos = Some(name()?),
            _ => bail!("--if: `{key}` given; allowed are {KEYS}"),
        }
    }
    if let Err(error) = suppose.check() {
        let text = error.to_string();
        bail!("--if: {}", text.strip_prefix("suppose.").unwrap_or(&text));
    }
    Ok(suppose)
}

/// Spelled as options of `eddy submit`: `-N 2 -t 1h`.
pub fn options(suppose: &Suppose) -> String {
    let number = |option: &str, number: Option<u32>| number.map(|of| format!("{option} {of}"));
    let name = |option: &str, name: &Option<String>| {
        let name = name.as_ref()?;
        Some(format!("{option} {}", escaped(name)))
    };
    let words = [
        number("-N", suppose.nodes),
        number("-n", suppose.slots),
        suppose.limit.map(limit),
        number("--urgency", suppose.urgency.map(u32::from)),
        name("-q", &suppose.queue),
        name("-A", &suppose.account),
        name("--qos", &suppose.qos),
    ];
    words
        .into_iter()
        .flatten()
        .collect::<Vec<String>>()
        .join(" ")
}

fn limit(limit: Span) -> String {
    match limit {
        Span::ZERO => "-t inf".to_owned(),
        limit => format!("-t {}", when::short(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_spelled_as_options() {
        let read = |text| options(&parse(text).expect("it is right"));
        assert_eq!(read("nodes=2,time=1h"), "-N 2 -t 1h");
        assert_eq!(read("slots=3, urgency=20"), "-n 3 --urgency 20");
        assert_eq!(read("time=90"), "-t 1.5h");
        assert_eq!(read("time=inf"), "-t inf");
        assert_eq!(read("queue=q,account=a,qos=high"), "-q q -A a --qos high");
    }

    #[test]
    fn what_is_wrong_is_refused_by_its_word() {
        let said = |text: &str| parse(text).expect_err("it is wrong").to_string();
        assert_eq!(
            said("nodes"),
            "--if: `nodes` is no KEY=VALUE; allowed keys are nodes, slots, time, urgency, queue, account and qos"
        );
        assert_eq!(
            said("node=2"),
            "--if: `node` given; allowed are nodes, slots, time, urgency, queue, account and qos"
        );
        for number in ["-2", "0", "1-2", "99999999999", "x", ""] {
            for key in ["nodes", "slots"] {
                assert_eq!(
                    said(&format!("{key}={number}")),
                    format!("--if: {key}: `{number}` given; allowed are 1 to 2147483647")
                );
            }
        }
        for urgency in ["0", "32", "300", "-1", "x"] {
            assert_eq!(
                said(&format!("urgency={urgency}")),
                format!("--if: urgency: `{urgency}` given; allowed are 1 to 31")
            );
        }
        assert_eq!(
            said("time=1,time=2"),
            "--if: time: given twice; once is allowed"
        );
        assert_eq!(
            said("nodes=1,slots=2"),
            "--if: slots: 2 given together with 1 nodes; one of the two is allowed"
        );
        for time in ["banana", "", "0", "-1", "1x", "1:60:00", "99999999999"] {
            assert_eq!(
                said(&format!("time={time}")),
                format!(
                    "--if: time: `{time}` given; allowed are minutes (90), a number with ms, s, m, h or d \
                     (1.5h), or M:SS, H:MM:SS and D-HH[:MM[:SS]], over 0 and up to 4294967295 s, and inf"
                )
            );
        }
        for text in ["time=soon", "=", "", "urgency=300"] {
            assert!(parse(text).is_err(), "`{text}` was read");
        }
    }
}
