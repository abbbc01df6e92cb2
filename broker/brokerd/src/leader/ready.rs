//! When whoever started this leader is told: once a job submitted then would
//! find its shells there, or a moment later all the same.
//!
//! Used by the leader's loop from its start until then. It counts ranks whose
//! shell has said hello; it starts and watches nothing.

use std::collections::BTreeMap;

use eddy_broker::Effect;
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::Epoch;
use eddy_wire::idset::Idset;
use eddy_wire::shell::FromShell;
use eddy_wire::time::{Span, Time};

use super::Ready;
use crate::config::InstanceConfig;

/// How long a start waits for its shells, however few they are.
const PATIENCE: Span = Span::seconds(2);
/// And for each rank.
const PATIENCE_PER_RANK: Span = Span::millis(20);

/// Whom to tell what, and what for.
#[derive(Debug)]
pub struct Announcement {
    ready: Ready,
    uri: String,
    until: Time,
    ranks: Idset,
    quorum: u64,
    /// Which ranks each life of a shell serves.
    served: BTreeMap<Epoch, Idset>,
    /// Ranks whose shell was there.
    there: Idset,
    /// What else a person is to know of the start.
    notes: Vec<String>,
}

impl Announcement {
    /// For an instance with these ranks.
    pub fn new(
        ready: Ready,
        uri: String,
        ranks: Idset,
        config: &InstanceConfig,
        now: Time,
    ) -> Announcement {
        let all = ranks.len();
        let grown = Span(PATIENCE_PER_RANK.0.saturating_mul(all as i64));
        let patience = Span(PATIENCE.0.saturating_add(grown.0));
        let quorum = config.quorum.map_or(all, u64::from);
        Announcement {
            ready,
            uri,
            until: now.after(config.quorum_timeout.unwrap_or(patience)),
            quorum: quorum.min(all),
            ranks,
            served: BTreeMap::new(),
            there: Idset::new(),
            notes: Vec::new(),
        }
    }

    /// The same, with a line for each of these.
    pub fn with_notes(self, notes: Vec<String>) -> Announcement {
        Announcement { notes, ..self }
    }

    /// When to tell although shells are missing.
    pub fn until(&self) -> Time {
        self.until
    }

    /// Learns of shells from what is recorded.
    pub fn record(&mut self, record: &Record) {
        match &record.event.kind {
            Kind::ShellStart(ranks, epoch) => self.serves(*epoch, ranks),
            Kind::ResourceDefine(set, _) => self.ranks = set.ranks(),
            _ => {}
        }
    }

    /// Learns of shells from what is to be done.
    pub fn effect(&mut self, effect: &Effect) {
        if let Effect::LaunchShell(ranks, epoch) | Effect::CheckShell(ranks, epoch) = effect {
            self.serves(*epoch, ranks);
        }
    }

    fn serves(&mut self, epoch: Epoch, ranks: &Idset) {
        let known = self.served.insert(epoch, ranks.clone());
        // A shell that is there and serves more ranks now.
        if known.is_some_and(|known| !known.is_empty() && self.there.contains_all(&known)) {
            self.there = self.there.union(ranks);
        }
    }

    /// A shell said something.
    pub fn word(&mut self, epoch: Epoch, word: &FromShell) {
        if let (FromShell::Hello { .. }, Some(ranks)) = (word, self.served.get(&epoch)) {
            self.there = self.there.union(ranks);
        }
    }

    /// Whether it is time to tell.
    pub fn is_due(&self, now: Time) -> bool {
        self.until <= now || self.has_quorum()
    }

    fn has_quorum(&self) -> bool {
        self.there.intersect(&self.ranks).len() >= self.quorum
    }

    /// Tells where clients connect, and in further lines what is to be known and who is missing.
    pub fn tell(self) {
        let mut lines = vec![self.uri.clone()];
        lines.extend(self.notes.iter().map(|note| note.replace('\n', " ")));
        if !self.has_quorum() {
            let missing = self.ranks.difference(&self.there);
            tracing::warn!(%missing, "shells are missing at the start");
            lines.push(format!("no shell yet on ranks {missing}"));
        }
        self.ready.tell(&lines.join("\n"));
    }
}
