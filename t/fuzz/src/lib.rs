//! Each parser as a plain function over bytes: it must not panic, and what it
//! prints it must read back as the same.
//!
//! `tests/seeded.rs` runs every one with a seeded generator on each change;
//! `cargo-fuzz/` wraps the same functions for a coverage-guided search. It
//! judges no value: that is the work of the crates' own tests.

pub mod corpus;
pub mod generate;

use std::fmt::{Debug, Display};
use std::str::FromStr;

use eddy_wire::event::{EVENT_VERSION, Kind};
use eddy_wire::eventlog::EventLine;
use eddy_wire::fsd::{Fsd, parse_minutes_or_fsd};
use eddy_wire::hash::Hash;
use eddy_wire::hostlist::Hostlist;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Count, Jobspec, Need, format_bytes, parse_bytes};
use eddy_wire::message::Message;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::{instance, job, kvs, resource};
use eddy_wire::shell::{FromShell, ToShell};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A parser under test: panics if a promise is broken.
pub type Target = fn(&[u8]);

/// All targets by name. Each has examples in [`corpus::examples`] and a file in
/// `cargo-fuzz/fuzz_targets`.
pub const TARGETS: &[(&str, Target)] = &[
    ("job_id", job_id),
    ("idset", idset),
    ("hostlist", hostlist),
    ("fsd", fsd),
    ("bytes", bytes),
    ("count", count),
    ("hash", hash),
    ("event_line", event_line),
    ("resource_set", resource_set),
    ("jobspec", jobspec),
    ("need", need),
    ("message", message),
    ("event", event),
    ("request", request),
    ("shell_words", shell_words),
];

/// Runs the target of this name; there must be one.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS
        .iter()
        .find(|(known, _)| *known == name)
        .expect("a target's name");
    target(data);
}

/// Job ids (RFC 19): every spelling of a number reads back as it.
pub fn job_id(data: &[u8]) {
    if let Some(id) = reads_back::<JobId>(data) {
        for text in [id.f58(), id.f58_ascii(), id.dothex()] {
            assert_eq!(text.parse(), Ok(id), "{text}");
        }
    }
}

/// Sets of ids (RFC 22): the printed form is the only one of its set.
pub fn idset(data: &[u8]) {
    if let Some(set) = reads_back::<Idset>(data) {
        assert!(set.difference(&set).is_empty());
        assert_eq!(set.union(&set), set);
        assert_eq!(set.ranges().is_empty(), set.is_empty());
    }
}

/// Host lists (RFC 29): no more hosts than the limit, and the same ones again.
pub fn hostlist(data: &[u8]) {
    if let Some(list) = reads_back::<Hostlist>(data) {
        assert!(list.len() <= eddy_wire::hostlist::HOSTLIST_HOSTS_MAX);
    }
}

/// Durations (RFC 23), of files and of command lines: never negative.
pub fn fsd(data: &[u8]) {
    reads_back::<Fsd>(data);
    let minutes = str::from_utf8(data)
        .ok()
        .and_then(|text| parse_minutes_or_fsd(text).ok());
    if let Some(Fsd::Finite(micros)) = minutes {
        assert!(micros >= 0);
    }
}

/// Amounts of memory.
pub fn bytes(data: &[u8]) {
    let amount = str::from_utf8(data)
        .ok()
        .and_then(|text| parse_bytes(text).ok());
    if let Some(amount) = amount {
        assert_eq!(parse_bytes(&format_bytes(amount)), Ok(amount));
    }
}

/// Counts of a resource (RFC 22, RFC 45).
pub fn count(data: &[u8]) {
    reads_back::<Count>(data);
}

/// Hashes.
pub fn hash(data: &[u8]) {
    reads_back::<Hash>(data);
}

/// Lines of an eventlog (RFC 18).
pub fn event_line(data: &[u8]) {
    let parsed = str::from_utf8(data)
        .ok()
        .and_then(|text| EventLine::parse(text).ok());
    if let Some(event) = parsed {
        assert_eq!(EventLine::parse(&event.encode()), Ok(event));
    }
}

/// R version 1 (RFC 20).
pub fn resource_set(data: &[u8]) {
    let parsed = str::from_utf8(data)
        .ok()
        .and_then(|text| ResourceSet::parse(text).ok());
    if let Some(set) = parsed {
        assert_eq!(ResourceSet::from_value(set.to_value()), Ok(set.clone()));
        assert!(set.contains(&set));
    }
}

/// Jobspecs (RFC 14), JSON or YAML: what is read is what is written, and asking for the
/// request of anything does not panic.
pub fn jobspec(data: &[u8]) {
    if let Ok(jobspec) = Jobspec::parse(data) {
        assert_eq!(
            Jobspec::from_json(jobspec.to_json().as_bytes()),
            Ok(jobspec.clone())
        );
        if let Ok(request) = jobspec.request() {
            assert!(request.slots > 0 && request.ntasks > 0);
        }
        for need in jobspec.needs().unwrap_or_default() {
            assert_eq!(Need::of_description(&need.description()), Some(need));
        }
        let _ = jobspec.job_set();
    }
}

/// What a record says a job waits for: its words never fail, its description reads back.
pub fn need(data: &[u8]) {
    let text = str::from_utf8(data).ok();
    if let Some(need) = text.and_then(Need::of_description) {
        assert_eq!(Need::of_description(&need.description()), Some(need));
        assert!(!need.to_string().is_empty());
    }
}

/// The value that `data` is, if it is one; its text must read back as the same value and
/// the same text.
fn reads_back<T>(data: &[u8]) -> Option<T>
where
    T: FromStr + Display + Debug + PartialEq,
    T::Err: Debug + PartialEq,
{
    let value: T = str::from_utf8(data).ok()?.parse().ok()?;
    let text = value.to_string();
    let again: T = text.parse().expect("what was printed reads back");
    assert_eq!(again.to_string(), text);
    assert_eq!(again, value);
    Some(value)
}

/// Messages of the sockets: what is read is written back as the same bytes.
pub fn message(data: &[u8]) {
    let bytes = bytes::Bytes::copy_from_slice(data);
    if let Ok(message) = Message::decode(&bytes) {
        let again = message.encode().expect("it was within the limits");
        // The fourth byte is reserved: read as it comes, written as 0.
        assert_eq!(again[..3], bytes[..3]);
        assert_eq!(again[4..], bytes[4..]);
    }
}

/// Events of the journal, `name` and context on the line after it: a context
/// that is read is written and read back as the same.
pub fn event(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let (name, context) = text.split_once('\n').unwrap_or((text, ""));
    let nowhere = &mut |_: &Hash, _: &Hash| None;
    if let Ok(kind) = Kind::decode(name, EVENT_VERSION, context, nowhere) {
        assert_eq!(kind.name(), name);
        let printed = kind.context();
        let again = Kind::decode(name, EVENT_VERSION, &printed, nowhere);
        assert_eq!(again, Ok(kind), "{printed}");
    }
}

/// Bodies of requests: every service's, tried on the same text.
pub fn request(data: &[u8]) {
    stable::<job::SubmitRequest>(data);
    stable::<job::JobSet>(data);
    stable::<job::CollectRequest>(data);
    stable::<job::EventsRequest>(data);
    stable::<job::OutputRequest>(data);
    stable::<job::InputRequest>(data);
    stable::<job::RaiseRequest>(data);
    stable::<job::KillRequest>(data);
    stable::<job::UrgencyRequest>(data);
    stable::<job::UpdateRequest>(data);
    stable::<job::RequeueRequest>(data);
    stable::<job::ListRequest>(data);
    stable::<job::InfoRequest>(data);
    stable::<resource::DrainRequest>(data);
    stable::<resource::UndrainRequest>(data);
    stable::<resource::DeadRequest>(data);
    stable::<kvs::PutRequest>(data);
    stable::<kvs::KeyRequest>(data);
    stable::<kvs::DeleteRequest>(data);
    stable::<instance::StreamRequest>(data);
    stable::<instance::CommitsRequest>(data);
    stable::<instance::ShutdownRequest>(data);
    stable::<instance::PingRequest>(data);
}

/// What a broker and a shell say to each other.
pub fn shell_words(data: &[u8]) {
    stable::<ToShell>(data);
    stable::<FromShell>(data);
}

/// What is read is printed, and the print is read and printed as the same.
fn stable<T: DeserializeOwned + Serialize>(data: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<T>(data) {
        let printed = serde_json::to_string(&value).expect("it came from JSON");
        let again: T = serde_json::from_str(&printed).expect("its own output");
        assert_eq!(serde_json::to_string(&again).expect("as before"), printed);
    }
}
