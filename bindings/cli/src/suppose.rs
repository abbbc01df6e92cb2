//! What a job would have to ask for otherwise: as `eddy why --if` takes it, and
//! as advice is spelled.
//!
//! Used by `why`. It asks nobody and reads no file.

use anyhow::{Context, bail};
use eddy_wire::fsd::{Fsd, FsdError, parse_minutes_or_fsd};
use eddy_wire::plan::Suppose;
use eddy_wire::time::Span;

use crate::when;

/// Reads `nodes=2,time=1h`.
///
/// # Errors
/// The word that is not understood, with what is allowed.
pub fn parse(text: &str) -> anyhow::Result<Suppose> {
    let mut suppose = Suppose::default();
    let mut keys: Vec<&str> = Vec::new();
    for word in text.split(',').map(str::trim) {
        let Some((key, value)) = word.split_once('=') else {
            bail!(
                "--if: `{word}` is no KEY=VALUE; allowed keys are nodes, slots, time and urgency"
            );
        };
        if keys.contains(&key) {
            bail!("--if: {key}: given twice; once is allowed");
        }
        keys.push(key);
        let number = || {
            let number = value.parse::<u32>();
            number.with_context(|| format!("--if: {key}: `{value}` is not a number from 1 on"))
        };
        match key {
            "nodes" => suppose.nodes = Some(number()?),
            "slots" => suppose.slots = Some(number()?),
            "urgency" => {
                let urgency = value.parse();
                suppose.urgency = Some(urgency.with_context(|| {
                    format!("--if: urgency: `{value}` given, allowed are 1 to 31")
                })?);
            }
            "time" => match parse_minutes_or_fsd(value) {
                Ok(Fsd::Finite(micros)) => suppose.limit = Some(Span(micros)),
                Ok(Fsd::Infinite) | Err(FsdError::NotANumber { .. } | FsdError::Empty) => {
                    bail!(
                        "--if: time: `{value}` given; allowed are minutes, or a number with ms, s, m, h or d"
                    )
                }
                Err(error) => return Err(error).context("--if: time"),
            },
            _ => bail!("--if: `{key}` given; allowed are nodes, slots, time and urgency"),
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
    let words = [
        number("-N", suppose.nodes),
        number("-n", suppose.slots),
        suppose
            .limit
            .map(|limit| format!("-t {}", when::short(limit))),
        number("--urgency", suppose.urgency.map(u32::from)),
    ];
    words
        .into_iter()
        .flatten()
        .collect::<Vec<String>>()
        .join(" ")
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
    }

    #[test]
    fn what_is_wrong_is_refused_by_its_word() {
        let said = |text| parse(text).expect_err("it is wrong").to_string();
        assert_eq!(
            said("nodes"),
            "--if: `nodes` is no KEY=VALUE; allowed keys are nodes, slots, time and urgency"
        );
        assert_eq!(
            said("node=2"),
            "--if: `node` given; allowed are nodes, slots, time and urgency"
        );
        assert_eq!(
            said("nodes=-2"),
            "--if: nodes: `-2` is not a number from 1 on"
        );
        assert_eq!(
            said("nodes=0"),
            "--if: nodes: 0 given, allowed is 1 or more"
        );
        assert_eq!(
            said("urgency=99"),
            "--if: urgency: 99 given, allowed are 1 to 31"
        );
        assert_eq!(
            said("time=1,time=2"),
            "--if: time: given twice; once is allowed"
        );
        assert_eq!(
            said("nodes=1,slots=2"),
            "--if: slots: 2 given together with 1 nodes; one of the two is allowed"
        );
        for text in ["time=banana", "time=inf", "time="] {
            let given = text.trim_start_matches("time=");
            assert_eq!(
                said(text),
                format!(
                    "--if: time: `{given}` given; allowed are minutes, or a number with ms, s, m, h or d"
                )
            );
        }
        for text in ["time=soon", "time=inf", "=", "", "urgency=300"] {
            assert!(parse(text).is_err(), "`{text}` was read");
        }
    }
}
