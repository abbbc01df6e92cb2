//! The signal by which a job's tasks hear some time before that their time limit ends them.
//!
//! Said by the shell option `signal` (Flux's, `--signal`): an object of `signum` and `timeleft`.

use serde_json::Value;

use crate::fsd::micros_of_seconds;
use crate::jobspec::Jobspec;
use crate::time::Span;

/// The shell option.
pub const OPTION: &str = "signal";

/// The signal where none is said: SIGUSR1.
pub const SIGNAL: i32 = 10;
/// How long before the end where that is not said.
pub const LEFT: Span = Span::seconds(60);

/// What the tasks of a job are sent, and how long before they are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Number of the signal, 1 to 64.
    pub signal: i32,
    /// How long before.
    pub left: Span,
}

/// What a job asks for, if it does.
///
/// # Errors
/// The option is not what belongs there; by its path, with what was given and what is allowed.
pub fn of(jobspec: &Jobspec) -> Result<Option<Warning>, String> {
    let path = format!("attributes.system.shell.options.{OPTION}");
    let (number, time) = match jobspec.shell_option(OPTION) {
        None => return Ok(None),
        Some(Value::Object(object)) => {
            if let Some(key) = object
                .keys()
                .find(|key| *key != "signum" && *key != "timeleft")
            {
                return Err(format!(
                    "{path}: `{}` given, allowed are signum and timeleft",
                    key.escape_debug()
                ));
            }
            (object.get("signum"), object.get("timeleft"))
        }
        Some(value) if *value == 0 || *value == false => return Ok(None),
        Some(value) if *value == 1 || *value == true => (None, None),
        Some(value) => {
            return Err(format!(
                "{path}: {value} given, allowed are signum and timeleft in an object, 0 and 1"
            ));
        }
    };
    let signal = match number {
        None => SIGNAL,
        Some(value) => {
            let number = value.as_i64().filter(|number| (1..=64).contains(number));
            let number = number.and_then(|number| i32::try_from(number).ok());
            number.ok_or_else(|| format!("{path}.signum: {value} given, allowed are 1 to 64"))?
        }
    };
    let left = match time {
        None => LEFT,
        Some(value) => {
            let micros = value
                .as_f64()
                .and_then(|seconds| micros_of_seconds(seconds).ok());
            let micros = micros.filter(|micros| *micros > 0);
            Span(micros.ok_or_else(|| {
                format!(
                    "{path}.timeleft: {value} given, allowed is a number of seconds of more than 0"
                )
            })?)
        }
    };
    Ok(Some(Warning { signal, left }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jobspec::Ask;

    fn read(value: Value) -> Result<Option<Warning>, String> {
        let ask = Ask {
            command: vec!["true".to_owned()],
            shell_options: vec![(OPTION.to_owned(), value)],
            ..Ask::default()
        };
        of(&ask.jobspec().expect("a jobspec"))
    }

    #[test]
    fn what_is_not_said_is_usr1_a_minute_before() {
        let warning = |signal, seconds| {
            let left = Span::seconds(seconds);
            Ok(Some(Warning { signal, left }))
        };
        assert_eq!(read(json!(1)), warning(10, 60));
        assert_eq!(read(json!({})), warning(10, 60));
        assert_eq!(read(json!({"signum": 12})), warning(12, 60));
        assert_eq!(read(json!({"timeleft": 5})), warning(10, 5));
        assert_eq!(read(json!(0)), Ok(None));
    }

    #[test]
    fn what_is_no_signal_or_time_is_refused_by_its_path() {
        for (value, why) in [
            (
                json!("USR1"),
                "signal: \"USR1\" given, allowed are signum and timeleft",
            ),
            (
                json!({"sig": 1}),
                "signal: `sig` given, allowed are signum and timeleft",
            ),
            (
                json!({"signum": 65}),
                "signal.signum: 65 given, allowed are 1 to 64",
            ),
            (
                json!({"timeleft": 0}),
                "signal.timeleft: 0 given, allowed is a number",
            ),
        ] {
            let text = read(value).expect_err(why);
            assert!(
                text.starts_with(&format!("attributes.system.shell.options.{why}")),
                "{text}"
            );
        }
    }
}
