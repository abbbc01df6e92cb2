//! The instances that the configuration declares, as far as records tell:
//! which has a job, and which dies too often to be started again.
//!
//! Folded by ingest, which submits their jobs, and by nest, which relays to
//! them: both see the same, since both fold the same records. It proposes
//! nothing itself.

use std::collections::{BTreeMap, VecDeque};

use eddy_wire::event::{Kind, Record};
use eddy_wire::hash::Hash;
use eddy_wire::id::{JobId, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Leader, Work};
use eddy_wire::queue::Turn;
use eddy_wire::services::job::URGENCY_MAX;
use eddy_wire::time::{Span, Time};
use serde_json::{Map, Value, json};
use uuid::{Builder, Uuid, Variant, Version};

use crate::live::Change;
use crate::nest::hung;
use crate::settings::{Damage, Declared, Elastic, Extent, Queue, Settings};

/// So many ends within [`ENDS_SPAN`] are too many.
const ENDS_MAX: usize = 5;
/// In which time.
const ENDS_SPAN: Span = Span::seconds(600);
/// The note of where a declared instance is at home, a memo of no job.
const HOME_KEY: &str = "instance-home";
/// Their jobs go before everything else.
pub const FLEET_URGENCY: u8 = URGENCY_MAX;

/// The declared instances by name.
#[derive(Debug, Default)]
pub struct Fleet {
    members: BTreeMap<String, Member>,
    /// Which of them serves a queue.
    serves: BTreeMap<String, String>,
    damage: Damage,
}

#[derive(Debug)]
struct Member {
    declared: Declared,
    /// The ranks where it came up last, and the note that says so, which is
    /// owed while there is none. Its journal is on the first of them, so its next
    /// job goes there too.
    home: Option<(Idset, Option<Seq>)>,
    /// What its job was given. It is at home there when its leader has said hello: one that
    /// never came so far has left nothing there to come back to.
    given: Option<Idset>,
    job: Option<JobId>,
    /// Its job, or the last that it had in this leader's life.
    last: Option<JobId>,
    /// The job whose leader said hello last in this leader's life.
    came: Option<JobId>,
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
            home: None,
            given: None,
            job: None,
            last: None,
            came: None,
            why: String::new(),
            ends: VecDeque::new(),
            down: None,
        };
        let named = |declared: &Declared| (declared.name.clone(), member(declared));
        Fleet {
            members: settings.declared.iter().map(named).collect(),
            serves: serves(&settings.queues),
            damage: settings.damage,
        }
    }

    /// Folds a record.
    pub fn apply(&mut self, record: &Record) {
        if self.members.is_empty() {
            return;
        }
        match (&record.event.kind, record.event.job) {
            (Kind::LeaderStart(_), _) => {
                for member in self.members.values_mut() {
                    member.begins_anew();
                    member.came = None;
                }
            }
            (Kind::Queue(turned), _) if turned.turn == Turn::Start => {
                let name = self.serves.get(&turned.queue);
                if let Some(member) = name.and_then(|name| self.members.get_mut(name)) {
                    member.begins_anew();
                }
            }
            (Kind::Submit(submit), Some(job)) => {
                if let Work::Instance { name: Some(name) } = &submit.spec.request.work
                    && let Some(member) = self.members.get_mut(name)
                {
                    member.job = Some(job);
                    member.last = Some(job);
                    member.why.clear();
                }
            }
            (Kind::Memo(memo), None) => {
                if let Some((name, ranks)) = home_of(memo)
                    && let Some(member) = self.members.get_mut(name)
                {
                    member.home = Some((ranks, Some(record.seq)));
                }
                if let Some(change) = Change::told(memo) {
                    self.serves = serves(&change.live.queues);
                }
            }
            (Kind::Alloc(grant), Some(job)) => {
                if let Some(member) = self.of(job) {
                    // Its leader may be beside what others hold.
                    let own = grant.set.nodes.iter().filter(|(_, node)| !node.is_empty());
                    let own: Idset = own.map(|(rank, _)| rank.0).collect();
                    member.given = Some(match own.is_empty() {
                        true => grant.set.ranks(),
                        false => own,
                    });
                }
            }
            (Kind::Adopt(_), Some(job)) => {
                if let Some(member) = self.of(job) {
                    member.comes(job);
                }
            }
            (Kind::Exception(exception), Some(job)) if exception.severity == 0 => {
                if let Some(member) = self.of(job) {
                    member.why = format!("; {}: {}", exception.kind, exception.note);
                    if let Some(why) = hung::ends(exception) {
                        member.down = Some(format!("{why}, last job {job}"));
                    }
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

    /// Those that have no job and are to have one, with the ranks that are others'.
    pub fn missing(&self) -> Vec<(Declared, Idset)> {
        let missing = |member: &&Member| member.job.is_none() && member.down.is_none();
        let members = self.members.values().filter(missing);
        let with_others = |member: &Member| (self.at_home(member), self.of_others(member));
        members.map(with_others).collect()
    }

    /// As it is declared, on the nodes where it was before, unless the
    /// configuration names others or another number of them.
    fn at_home(&self, member: &Member) -> Declared {
        let mut declared = member.declared.clone();
        if let Extent::Fixed { ranks, .. } = &mut declared.extent {
            *ranks = self.ranks_of(member);
        }
        declared
    }

    /// The ranks that are a member's, where that is known: those that it names, or its home if nobody else names that.
    fn ranks_of(&self, member: &Member) -> Option<Idset> {
        let Extent::Fixed { nodes, ranks } = &member.declared.extent else {
            return None;
        };
        let home = || {
            let (home, _) = member.home.as_ref()?;
            let others = self.members.values();
            let mut named = others.filter_map(Member::names);
            let is_own = home.len() == u64::from(*nodes);
            (is_own && named.all(|named| named.is_disjoint(home))).then(|| home.clone())
        };
        ranks.clone().or_else(home)
    }

    /// What others name, or are at home on.
    fn of_others(&self, member: &Member) -> Idset {
        let others = self.members.values();
        let others = others.filter(|other| other.declared.name != member.declared.name);
        let theirs = others.filter_map(|other| self.ranks_of(other));
        theirs.fold(Idset::new(), |all, one| all.union(&one))
    }

    /// The notes that are owed: where an instance is at home from now on.
    pub fn notes(&self) -> impl Iterator<Item = Kind> {
        self.members
            .values()
            .filter_map(|member| match &member.home {
                Some((ranks, None)) => {
                    let note = json!({"instance": member.declared.name, "ranks": ranks});
                    Some(Kind::Memo(Map::from_iter([(HOME_KEY.to_owned(), note)])))
                }
                Some((_, Some(_))) | None => None,
            })
    }

    /// The records this rests on that no job keeps.
    pub fn live(&self, seqs: &mut Vec<Seq>) {
        let homes = self
            .members
            .values()
            .filter_map(|member| member.home.as_ref());
        seqs.extend(homes.filter_map(|(_, note)| *note));
    }

    /// Whether an instance of that name is declared.
    pub fn declares(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Whether that job is one's, or was the last that one had.
    pub fn is_its(&self, job: JobId) -> bool {
        let mut members = self.members.values();
        members.any(|member| member.last == Some(job))
    }

    /// Whether it is declared and either there or on its way.
    pub fn is_up(&self, name: &str) -> bool {
        let member = self.members.get(name);
        member.is_some_and(|member| member.down.is_none())
    }

    /// What it is to do where its journal is damaged: what its parent was told, until it came once.
    pub fn damage(&self, name: &str) -> Damage {
        match self.members.get(name) {
            Some(member) if member.came.is_none() => self.damage,
            Some(_) | None => Damage::Refuse,
        }
    }

    /// That it is not started again, and why, as a sentence.
    pub fn down(&self, name: &str) -> Option<String> {
        let why = self.why_down(name)?;
        Some(format!("instance `{name}` is down: {why}"))
    }

    /// Why it is not started again.
    pub fn why_down(&self, name: &str) -> Option<&str> {
        self.members.get(name)?.down.as_deref()
    }
}

fn home_of(memo: &Map<String, Value>) -> Option<(&str, Idset)> {
    let note = memo.get(HOME_KEY)?;
    let ranks = serde_json::from_value(note.get("ranks")?.clone()).ok()?;
    Some((note.get("instance")?.as_str()?, ranks))
}

/// Which instances serve which queues.
fn serves(queues: &[Queue]) -> BTreeMap<String, String> {
    let serves = |queue: &Queue| Some((queue.name.clone(), queue.instance.clone()?));
    queues.iter().filter_map(serves).collect()
}

impl Member {
    /// Whatever became of it before counts no more: one that is down is tried again.
    fn begins_anew(&mut self) {
        self.ends.clear();
        self.down = None;
    }

    /// The leader of its job said hello.
    fn comes(&mut self, job: JobId) {
        self.came = Some(job);
        if let Some(ranks) = self.given.clone()
            && !self.is_at_home(&ranks)
        {
            self.home = Some((ranks, None));
        }
    }

    fn is_at_home(&self, ranks: &Idset) -> bool {
        self.home.as_ref().is_some_and(|(home, _)| home == ranks)
    }

    /// The ranks that the configuration names for it.
    fn names(&self) -> Option<&Idset> {
        match &self.declared.extent {
            Extent::Fixed { ranks, .. } => ranks.as_ref(),
            Extent::Elastic(_) => None,
        }
    }

    fn ended(&mut self, t: Time, job: JobId) {
        self.job = None;
        self.given = None;
        self.ends.push_back(t);
        while self.ends.front().is_some_and(|end| *end + ENDS_SPAN < t) {
            self.ends.pop_front();
        }
        if self.ends.len() >= ENDS_MAX && self.down.is_none() {
            let why = &self.why;
            self.down = Some(format!(
                "its job ended {ENDS_MAX} times within 10 minutes, last job {job}{why}"
            ));
        }
    }
}

/// The jobspec of a declared instance, which takes none of the ranks that are others'. An elastic one begins
/// beside what runs on the leader's own node, of these ranks; more come to it later (`exec/seats.rs`). One of a
/// fixed size may have its leader there, too (`sched/seated.rs`).
pub fn jobspec((declared, others): &(Declared, Idset), local: &Idset, command: &[String]) -> Value {
    let mut words: Vec<&str> = command.iter().map(String::as_str).collect();
    for set in &declared.set {
        words.extend(["-S", set.as_str()]);
    }
    let core = json!({"type": "core", "count": 1});
    let slot = json!({"type": "slot", "count": 1, "label": "task", "with": [core]});
    let mut system = json!({
        "duration": 0,
        "instance": {"name": declared.name},
        "job": {"name": declared.name},
    });
    let (nodes, exclusive, ranks) = match &declared.extent {
        Extent::Fixed { nodes, ranks } => {
            if declared.leader == Leader::Parent {
                system["instance"]["leader"] = json!(Leader::Parent);
            }
            (u64::from(*nodes), true, ranks.clone())
        }
        Extent::Elastic(Elastic { ranks, .. }) => {
            let first = local.first().map_or_else(Idset::new, Idset::one);
            let own = ranks
                .as_ref()
                .map_or(local.clone(), |ranks| local.intersect(ranks));
            let own = own.union(&first);
            system["beside"] = json!(true);
            (own.len(), false, Some(own))
        }
    };
    match ranks {
        Some(ranks) => system["constraints"] = json!({"ranks": [ranks.to_string()]}),
        None if others.is_empty() => {}
        None => system["constraints"] = json!({"not": [{"ranks": [others.to_string()]}]}),
    }
    let node = json!({"type": "node", "count": nodes, "exclusive": exclusive, "with": [slot]});
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

#[cfg(test)]
mod tests;
