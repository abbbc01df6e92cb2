//! The lines of a job's event log (RFC 18, 21), as records make them.
//!
//! Whoever shows records calls it: streams of events, event logs, histories. A record that can be
//! followed by one thing only stands for that, too, and each of both is a line, so that who waits for
//! an event of RFC 21 hears of it. What a record implies is among its lines, and has none of its own. It reads no
//! journal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::event::{EVENT_VERSION, Entry, Kind, Record};
use crate::id::Seq;
use crate::json::to_string as json;
use crate::time::Time;

/// One line of an event log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventsLine {
    /// The place of its record in the journal.
    pub seq: Seq,
    /// When.
    pub timestamp: Time,
    /// The event's name.
    pub name: String,
    /// Its context, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<RawValue>>,
}

/// A record as it stands on disk.
#[derive(Clone, Debug)]
pub struct Told {
    /// The version that it was written by.
    pub version: u16,
    /// Its own line.
    pub line: EventsLine,
}

/// What a `submit` says of where the job enters its life.
#[derive(Deserialize)]
struct Entering {
    #[serde(default)]
    entry: Entry,
}

/// What an `alloc` says of where the job is passed to.
#[derive(Deserialize)]
struct Granted {
    passed: Option<Box<RawValue>>,
}

/// What a `release` says of what was held.
#[derive(Deserialize)]
struct Released {
    #[serde(default)]
    free: bool,
    /// Of tasks whose end it is, too.
    #[serde(default)]
    status: Option<i32>,
    /// Whether the job is over by it.
    #[serde(default)]
    over: bool,
}

impl EventsLine {
    /// The lines of a record of this version of eddy.
    pub fn of(record: &Record) -> Vec<EventsLine> {
        let told = Told {
            version: EVENT_VERSION,
            line: EventsLine {
                seq: record.seq,
                timestamp: record.event.t,
                name: record.event.kind.name().to_owned(),
                context: EventsLine::raw(record.event.kind.context()),
            },
        };
        told.lines()
    }

    /// Context text as it stands on disk: empty is none, other text is JSON.
    pub fn raw(context: String) -> Option<Box<RawValue>> {
        if context.is_empty() {
            None
        } else {
            RawValue::from_string(context).ok()
        }
    }

    /// What else its record stands for.
    fn implied(&self, name: &str) -> EventsLine {
        EventsLine {
            seq: self.seq,
            timestamp: self.timestamp,
            name: name.to_owned(),
            context: None,
        }
    }

    /// What each payer was charged may be longer than a message; `usage.report` tells of it.
    fn without_accounts(self) -> EventsLine {
        let Some(mut context) = self.context::<BTreeMap<String, Box<RawValue>>>() else {
            return self;
        };
        context.remove("accounts");
        EventsLine {
            context: EventsLine::raw(json(&context)),
            ..self
        }
    }

    fn context<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_str(self.context.as_ref()?.get()).ok()
    }
}

impl Told {
    /// Its lines, in the order of RFC 21, all with its place and time.
    pub fn lines(self) -> Vec<EventsLine> {
        let Told { line, .. } = self;
        let entry = |line: &EventsLine| line.context().map(|Entering { entry }| entry);
        match line.name.as_str() {
            "submit" => {
                let place = match entry(&line) {
                    None | Some(Entry::New) => return vec![line],
                    Some(Entry::Priority) => None,
                    Some(Entry::Queued(place)) => Some(EventsLine {
                        context: EventsLine::raw(Kind::Priority(place).context()),
                        ..line.implied("priority")
                    }),
                };
                let (validate, depend) = (line.implied("validate"), line.implied("depend"));
                [line, validate, depend].into_iter().chain(place).collect()
            }
            "alloc" if let Some(to) = line.context().and_then(|Granted { passed }| passed) => {
                let passed = EventsLine {
                    context: Some(to),
                    ..line.implied("passed")
                };
                vec![passed, line]
            }
            "release" => match line.context() {
                Some(Released {
                    free: true,
                    status,
                    over,
                }) => {
                    let free = line.implied("free");
                    let clean = over.then(|| line.implied("clean"));
                    let finish = status.map(|status| EventsLine {
                        context: EventsLine::raw(Kind::Finish(status).context()),
                        ..line.implied("finish")
                    });
                    let finish = finish.into_iter();
                    finish.chain([line, free]).chain(clean).collect()
                }
                _ => vec![line],
            },
            "usage" | "usage-day" => vec![line.without_accounts()],
            _ => vec![line],
        }
    }
}

impl PartialEq for EventsLine {
    fn eq(&self, other: &EventsLine) -> bool {
        let text = |line: &EventsLine| line.context.as_ref().map(|raw| raw.get().to_owned());
        (self.seq, self.timestamp, &self.name) == (other.seq, other.timestamp, &other.name)
            && text(self) == text(other)
    }
}
