//! The instances that the configuration declares, as far as records tell:
//! which has a job, and which dies too often to be started again.
//!
//! Folded by ingest, which submits their jobs, and by nest, which relays to
//! them: both see the same, since both fold the same records. It proposes
//! nothing itself.

use std::collections::{BTreeMap, VecDeque};

use eddy_wire::event::{Kind, Record};
use eddy_wire::hash::Hash;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Work;
use eddy_wire::services::job::URGENCY_MAX;
use eddy_wire::time::{Span, Time};
use serde_json::{Value, json};
use uuid::{Builder, Uuid, Variant, Version};

use crate::settings::{Declared, Settings};

/// So many ends within [`ENDS_SPAN`] are too many.
const ENDS_MAX: usize = 5;
/// In which time.
const ENDS_SPAN: Span = Span::seconds(600);
/// Their jobs go before everything else.
pub const FLEET_URGENCY: u8 = URGENCY_MAX;

/// The declared instances by name.
#[derive(Debug)]
pub struct Fleet {
    members: BTreeMap<String, Member>,
}

#[derive(Debug)]
struct Member {
    declared: Declared,
    job: Option<JobId>,
    /// Why its job is ending.
    why: String,
    /// When its last jobs of this leader's life ended.
    ends: VecDeque<Time>,
    down: Option<String>,
}

impl Fleet {
    /// What the settings declare, of which nothing is known yet.
    pub fn new(settings: &Settings) -> Fleet {
        let member = |declared: &Declared| Member {
            declared: declared.clone(),
            job: None,
            why: String::new(),
            ends: VecDeque::new(),
            down: None,
        };
        let named = |declared: &Declared| (declared.name.clone(), member(declared));
        let members = settings.declared.iter().map(named).collect();
        Fleet { members }
    }

    /// Folds a record.
    pub fn apply(&mut self, record: &Record) {
        if self.members.is_empty() {
            return;
        }
        match (&record.event.kind, record.event.job) {
            (Kind::LeaderStart(_), _) => {
                for member in self.members.values_mut() {
                    member.ends.clear();
                    member.down = None;
                }
            }
            (Kind::Submit(submit), Some(job)) => {
                if let Work::Instance { name: Some(name) } = &submit.spec.request.work
                    && let Some(member) = self.members.get_mut(name)
                {
                    member.job = Some(job);
                    member.why.clear();
                }
            }
            (Kind::Exception(exception), Some(job)) if exception.severity == 0 => {
                if let Some(member) = self.of(job) {
                    member.why = format!("; {}: {}", exception.kind, exception.note);
                }
            }
            (Kind::Clean, Some(job)) => {
                if let Some(member) = self.of(job) {
                    member.ended(record.event.t, job);
                }
            }
            _ => {}
        }
    }

    fn of(&mut self, job: JobId) -> Option<&mut Member> {
        let mut members = self.members.values_mut();
        members.find(|member| member.job == Some(job))
    }

    /// Those that have no job and are to have one.
    pub fn missing(&self) -> Vec<Declared> {
        let missing = |member: &&Member| member.job.is_none() && member.down.is_none();
        let members = self.members.values().filter(missing);
        members.map(|member| member.declared.clone()).collect()
    }

    /// Whether it is declared and either there or on its way.
    pub fn is_up(&self, name: &str) -> bool {
        let member = self.members.get(name);
        member.is_some_and(|member| member.down.is_none())
    }

    /// Why it is not started again.
    pub fn down(&self, name: &str) -> Option<&str> {
        self.members.get(name)?.down.as_deref()
    }
}

impl Member {
    fn ended(&mut self, t: Time, job: JobId) {
        self.job = None;
        self.ends.push_back(t);
        while self.ends.front().is_some_and(|end| *end + ENDS_SPAN < t) {
            self.ends.pop_front();
        }
        if self.ends.len() >= ENDS_MAX {
            let (name, why) = (&self.declared.name, &self.why);
            self.down = Some(format!(
                "instance `{name}` is down: its job ended {ENDS_MAX} times within 10 minutes, \
                 last job {job}{why}"
            ));
        }
    }
}

/// The jobspec of a declared instance.
pub fn jobspec(declared: &Declared, command: &[String]) -> Value {
    let mut words: Vec<&str> = command.iter().map(String::as_str).collect();
    for set in &declared.set {
        words.extend(["-S", set.as_str()]);
    }
    let core = json!({"type": "core", "count": 1});
    let slot = json!({"type": "slot", "count": 1, "label": "task", "with": [core]});
    let node = json!({"type": "node", "count": declared.nodes, "exclusive": true, "with": [slot]});
    let mut system = json!({
        "duration": 0,
        "instance": {"name": declared.name},
        "job": {"name": declared.name},
    });
    if let Some(ranks) = &declared.ranks {
        system["constraints"] = json!({"ranks": [ranks.to_string()]});
    }
    json!({
        "version": 1,
        "resources": [node],
        "tasks": [{"command": words, "slot": "task", "count": {"total": 1}}],
        "attributes": {"system": system},
    })
}

/// The key under which a declared instance's job is submitted: fixed by its
/// number, of version 8 (RFC 9562), which no sender's key has.
pub fn key(name: &str, job: JobId) -> Uuid {
    let Hash(bytes) = Hash::of(format!("eddy declared instance {name} {job}").as_bytes());
    let first = bytes.first_chunk::<16>().expect("a hash has 32 bytes");
    Builder::from_bytes(*first)
        .with_version(Version::Custom)
        .with_variant(Variant::RFC4122)
        .into_uuid()
}
