//! The filters of a world: what each says of a submission is in the name of the job.
//!
//! `a~first:no~second:up` is refused by the filter `first`. Words are `no`, `up` (urgency 20), `two`
//! (the queue `own-two`), `bad` (a queue that is not there), `late` and `dies`; nothing is `accept`.

use eddy_wire::filter::{Asked, Filter, OnFailure, Ruling};
use eddy_wire::fsd::seconds_of_micros;
use eddy_wire::time::Span;
use serde_json::{Map, Value, json};

use crate::workload::OWN_QUEUES;

/// What a filter does with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Nothing.
    Accepts,
    /// Refuses it.
    Refuses,
    /// Asks for urgency 20.
    Raises,
    /// Puts it into `own-two`.
    Moves,
    /// Puts it into a queue that is not there.
    Spoils,
    /// Says nothing in time.
    IsLate,
    /// Ends.
    Dies,
}

/// The words, as clients draw them.
pub const WORDS: [&str; 6] = ["no", "up", "two", "bad", "late", "dies"];
/// The urgency that filters ask for.
pub const RAISED: u8 = 20;

/// A queue that is not there.
pub const NOWHERE: &str = "nowhere";

/// Two of them: what the first does not rule is refused, what the second does not is taken.
pub fn two() -> Vec<Filter> {
    vec![
        filter("first", OnFailure::Refuse),
        filter("second", OnFailure::Accept),
    ]
}

/// One that has two seconds.
pub fn filter(name: &str, on_failure: OnFailure) -> Filter {
    Filter {
        name: name.parse().expect("a name"),
        command: vec![name.to_owned()],
        timeout: Span::seconds(2),
        on_failure,
    }
}

/// What this filter does with a job of this name.
pub fn does(filter: &Filter, job: &str) -> Does {
    let words = job.split('~').skip(1);
    let mut own = words.filter_map(|word| word.split_once(':'));
    match own.find(|(name, _)| *name == filter.name.as_str()) {
        Some((_, "no")) => Does::Refuses,
        Some((_, "up")) => Does::Raises,
        Some((_, "two")) => Does::Moves,
        Some((_, "bad")) => Does::Spoils,
        Some((_, "late")) => Does::IsLate,
        Some((_, "dies")) => Does::Dies,
        Some(_) | None => Does::Accepts,
    }
}

/// What comes of asking it, and after how long at least.
pub fn ruling(filter: &Filter, asked: &Asked) -> (Ruling, Span) {
    let name = asked.fields.get("name").and_then(Value::as_str);
    let set =
        |field: &str, value: Value| Ruling::Modify(Map::from_iter([(field.to_owned(), value)]));
    let at_once = |ruling| (ruling, Span::ZERO);
    match does(filter, name.unwrap_or_default()) {
        Does::Accepts => at_once(Ruling::Accept),
        Does::Refuses => at_once(Ruling::Refuse("not this one".to_owned())),
        Does::Raises => at_once(set("urgency", json!(RAISED))),
        Does::Moves => at_once(set("queue", json!(OWN_QUEUES[1]))),
        Does::Spoils => at_once(set("queue", json!(NOWHERE))),
        Does::Dies => at_once(Ruling::Failed(
            "its process ended with exit code 1".to_owned(),
        )),
        Does::IsLate => {
            let seconds = seconds_of_micros(filter.timeout.0);
            let why = format!("no answer within {seconds} s");
            (Ruling::Failed(why), filter.timeout)
        }
    }
}
