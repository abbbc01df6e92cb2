//! What jobs of a round do: a script that writes its begin and its end to a
//! ledger outside of the instance, so that there is a truth to compare with.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, ensure};
use eddy_cli_tests::place::Place;

use super::dice::Dice;

/// One line of the ledger is one write at its end, so that no two mix.
const SCRIPT: &str = r#"#!/bin/sh
# $1 what to do, $2 exit code or signal, $3 seconds
say() { echo "$EDDY_JOB_ID $EDDY_JOB_ATTEMPT $EDDY_TASK_RANK $*" >>"${0%/*}/ledger"; }
say begin
case $1 in
stubborn) trap '' TERM ;;
daemon) setsid sleep 1000 </dev/null >/dev/null 2>&1 & ;;
child) sleep 1000 & ;;
speak) seq 1 2000 ;;
esac
sleep "$3"
case $1 in
signal) say end $((128 + $2)); kill -"$2" $$ ;;
*) say end "$2"; exit "$2" ;;
esac
"#;

/// What one job does, and so how it must end if nobody disturbs it.
#[derive(Clone, Debug)]
pub struct Task {
    words: Vec<String>,
    /// Exit code of each of its tasks.
    pub code: i32,
}

impl Task {
    /// A random one of the script at `path`.
    pub fn any(path: &str, dice: &mut Dice) -> Task {
        let kind = dice.pick(&[
            "exit", "exit", "exit", "signal", "daemon", "child", "speak", "stubborn",
        ]);
        let (argument, code) = match kind {
            "signal" => {
                let signal = dice.pick(&[9, 15, 10]);
                (signal, 128 + signal)
            }
            _ => {
                let code = dice.pick(&[0, 0, 0, 1, 7, 42]);
                (code, code)
            }
        };
        let millis = dice.pick(&[0, 0, 5, 20, 50, 150, 400]);
        let seconds = format!("{:.3}", f64::from(millis) / 1000.0);
        let words = [path, kind, &argument.to_string(), &seconds]
            .map(str::to_owned)
            .to_vec();
        Task { words, code }
    }

    /// The command.
    pub fn words(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }
}

/// Puts the script into a place and gives its path.
pub fn install(place: &Place) -> anyhow::Result<String> {
    fs::write(place.path().join("ledger"), "")?;
    place.script("task", SCRIPT)
}

/// One task of one attempt of a job.
pub type Run = (u64, u64, u64);

/// What tasks wrote.
#[derive(Debug, Default)]
pub struct Ledger {
    /// How often each began.
    pub begun: BTreeMap<Run, u32>,
    /// With what code each ended that came so far.
    pub ended: BTreeMap<Run, i32>,
}

impl Ledger {
    /// Reads it.
    pub fn read(place: &Place) -> anyhow::Result<Ledger> {
        let mut ledger = Ledger::default();
        for line in fs::read_to_string(place.path().join("ledger"))?.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| -> anyhow::Result<u64> {
                let word = words.get(at).with_context(|| format!("ledger: `{line}`"))?;
                word.parse().with_context(|| format!("ledger: `{line}`"))
            };
            let run = (number(0)?, number(1)?, number(2)?);
            match words.get(3) {
                Some(&"begin") => *ledger.begun.entry(run).or_default() += 1,
                Some(&"end") => {
                    let code = number(4)? as i32;
                    ensure!(
                        ledger.ended.insert(run, code).is_none(),
                        "ended twice: `{line}`"
                    );
                }
                _ => anyhow::bail!("ledger: `{line}`"),
            }
        }
        Ok(ledger)
    }
}
