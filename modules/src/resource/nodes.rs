//! Which nodes there are: the recorded inventory, what it rests on, and how it
//! grows and shrinks (`overlay.add`, `overlay.remove`).
//!
//! A rank that was taken out never comes back, whatever a leader is told later:
//! that is kept in the record of the inventory ([`Basis`]). What a leader is
//! told at its start counts only if it is another than what was told when the
//! inventory was last replaced; else what was added and taken out since stands.

use std::sync::Arc;

use eddy_broker::{Outbox, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Added, Basis, Kind};
use eddy_wire::hash::Hash;
use eddy_wire::id::{Rank, Seq};
use eddy_wire::idset::{ID_MAX, Idset};
use eddy_wire::resource_set::{NodeSet, RANKS_MAX, ResourceSet};
use eddy_wire::services::child::ChildOf;
use eddy_wire::services::overlay::{ADDITIONS_KEPT, AddRequest, RemoveRequest};
use eddy_wire::time::Time;
use uuid::Uuid;

use super::staying::Staying;
use crate::settings::Settings;

/// The inventory.
pub(super) struct Nodes {
    /// What this leader was told it owns, and that as a hash.
    told: Arc<ResourceSet>,
    told_hash: Hash,
    /// The job that the instance is, if it is in another.
    child: Option<ChildOf>,
    /// Ranks on the leader's own node: not to be taken out.
    local: Idset,
    recorded: Option<Recorded>,
}

struct Recorded {
    set: Arc<ResourceSet>,
    basis: Basis,
    ranks: Idset,
    seq: Seq,
}

impl Nodes {
    pub(super) fn new(settings: &Settings) -> Nodes {
        let told = Arc::clone(&settings.inventory);
        Nodes {
            told_hash: hash(&told),
            told,
            child: settings.place.child,
            local: settings.local.clone(),
            recorded: None,
        }
    }

    /// Folds the record of an inventory.
    pub(super) fn defined(&mut self, set: &Arc<ResourceSet>, basis: &Basis, seq: Seq) {
        self.recorded = Some(Recorded {
            ranks: set.ranks(),
            set: Arc::clone(set),
            basis: basis.clone(),
            seq,
        });
    }

    pub(super) fn seq(&self) -> Option<Seq> {
        self.recorded.as_ref().map(|recorded| recorded.seq)
    }

    /// Everything.
    pub(super) fn all(&self) -> &ResourceSet {
        self.recorded
            .as_ref()
            .map_or(&self.told, |known| &known.set)
    }

    /// Its ranks.
    pub(super) fn ranks(&self) -> Idset {
        match &self.recorded {
            Some(known) => known.ranks.clone(),
            None => self.told.ranks(),
        }
    }

    /// What a new leader has to record of its inventory, if anything.
    pub(super) fn owed(&self) -> Option<Kind> {
        let Some(known) = &self.recorded else {
            return Some(self.define(self.told.as_ref().clone(), &Basis::default(), None));
        };
        let same_times = known.set.expiration == self.told.expiration
            && known.set.starttime == self.told.starttime;
        if self.is_granted_anew(known) {
            // Its nodes have new numbers, of which none is gone.
            let basis = Basis {
                removed: Idset::new(),
                ..known.basis.clone()
            };
            return Some(self.define(self.told.as_ref().clone(), &basis, None));
        }
        match &known.basis.told {
            Some(told) if *told == self.told_hash && same_times => None,
            // It is the same grant, which has another end since.
            Some(told) if *told == self.told_hash && self.is_granted_then(known) => None,
            // The nodes as they came to be, for as long as is said now.
            Some(told) if *told == self.told_hash => {
                let mut set = known.set.as_ref().clone();
                (set.starttime, set.expiration) = (self.told.starttime, self.told.expiration);
                Some(self.define(set, &known.basis, None))
            }
            // A record of before this was kept: nothing was ever added.
            None if known.set == self.told => None,
            Some(_) | None => {
                let left = self.told.ranks().difference(&known.basis.removed);
                Some(self.define(self.told.restrict(&left), &known.basis, None))
            }
        }
    }

    /// Whether what is recorded is the grant that this leader was told of, as the parent has changed it since.
    fn is_granted_then(&self, known: &Recorded) -> bool {
        self.child.is_some() && known.set.starttime == self.told.starttime
    }

    /// Whether the instance is another job of its parent than the leader was of that recorded it.
    fn is_granted_anew(&self, known: &Recorded) -> bool {
        self.child.is_some() && known.set.starttime != self.told.starttime
    }

    /// The parent has said anew what the instance has: what is to be recorded, if it is news. Ranks
    /// that are gone are so for good.
    pub(super) fn granted(&self, set: ResourceSet) -> Option<Kind> {
        let known = self.recorded.as_ref()?;
        let same_nodes = known.set.nodes == set.nodes && known.set.properties == set.properties;
        if same_nodes && known.set.expiration == set.expiration {
            return None;
        }
        let mut basis = known.basis.clone();
        let gone = known.ranks.difference(&set.ranks());
        basis.removed = basis.removed.union(&gone).difference(&set.ranks());
        Some(self.define(set, &basis, None))
    }

    /// The record of this set, which follows an inventory with that basis, by the user who asks for it.
    fn define(&self, set: ResourceSet, before: &Basis, by: Option<u32>) -> Kind {
        let after_last = |set: &ResourceSet| {
            let last = set.nodes.last_key_value();
            last.map_or(0, |(rank, _)| rank.0.saturating_add(1))
        };
        let basis = Basis {
            told: Some(self.told_hash),
            ranks: before
                .ranks
                .max(after_last(&set))
                .max(after_last(self.all())),
            removed: before.removed.clone(),
            added: before.added.clone(),
            userid: by,
        };
        Kind::ResourceDefine(Arc::new(set), basis)
    }

    fn basis(&self) -> Basis {
        let known = self.recorded.as_ref();
        known.map(|known| known.basis.clone()).unwrap_or_default()
    }

    /// `overlay.add`: nodes like the last one that is not the leader's own (or
    /// like its last), each with a rank that nobody had.
    pub(super) fn add(
        &self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let AddRequest { count, key } = request.parse()?;
        if let Some(added) = self.added(count, key)? {
            out.reply(request.caller, &added);
            return Ok(());
        }
        let all = self.all();
        let most = RANKS_MAX.saturating_sub(all.nnodes());
        if count == 0 || u64::from(count) > most {
            let text = format!("count: {count} given, allowed are 1 to {most}");
            return Err(Refusal::invalid(text));
        }
        let by = Some(request.uid);
        let Kind::ResourceDefine(mut set, mut basis) = self.define(all.clone(), &self.basis(), by)
        else {
            unreachable!("an inventory is defined by nothing else")
        };
        let first = basis.ranks;
        if u64::from(first) + u64::from(count) > u64::from(ID_MAX) {
            let text =
                format!("count: {count} given, rank {first} is the next and {ID_MAX} the last");
            return Err(Refusal::new(Code::TooLarge, text));
        }
        let Some((like, node)) = self.model() else {
            return Err(Refusal::invalid("count: the instance has no node to go by"));
        };
        let grown = Arc::make_mut(&mut set);
        for rank in first..first + count {
            let host = host_of(&node.host, rank);
            grown.nodes.insert(
                Rank(rank),
                NodeSet {
                    host,
                    ..node.clone()
                },
            );
        }
        let having = grown.properties.values_mut();
        for ranks in having.filter(|ranks| ranks.contains(like.0)) {
            ranks.insert_range(first, first + count - 1);
        }
        basis.ranks = first + count;
        let added = Added { key, first, count };
        basis.added.push(added);
        let forgotten = basis.added.len().saturating_sub(ADDITIONS_KEPT);
        basis.added.drain(..forgotten);
        out.append_own(now, Kind::ResourceDefine(set, basis));
        out.reply(request.caller, &ranks_of(added));
        Ok(())
    }

    /// What was added under this key, if anything was.
    fn added(&self, count: u32, key: Uuid) -> Result<Option<Vec<Rank>>, Refusal> {
        let known = self.recorded.iter().flat_map(|known| &known.basis.added);
        match known.copied().find(|added| added.key == key) {
            None => Ok(None),
            Some(added) if added.count == count => Ok(Some(ranks_of(added))),
            Some(added) => {
                let before = added.count;
                let text = format!("key: {key} added {before} nodes, now {count} are asked for");
                Err(Refusal::new(Code::Conflict, text))
            }
        }
    }

    fn model(&self) -> Option<(Rank, &NodeSet)> {
        let all = &self.all().nodes;
        let remote = all
            .iter()
            .rev()
            .find(|(rank, _)| !self.local.contains(rank.0));
        let node = remote.or_else(|| all.last_key_value());
        node.map(|(rank, node)| (*rank, node))
    }

    /// `overlay.remove`: takes ranks out for good. Asked again it is done already.
    pub(super) fn remove(
        &self,
        now: Time,
        request: &Request,
        staying: &Staying,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: RemoveRequest = request.parse()?;
        let mut basis = self.basis();
        let ranks = body.ranks.difference(&basis.removed);
        if body.ranks.is_empty() {
            let text = "ranks: none given, at least one rank is needed";
            return Err(Refusal::invalid(text));
        }
        if ranks.is_empty() {
            out.reply(request.caller, &());
            return Ok(());
        }
        self.removable(&ranks, staying)?;
        basis.removed = basis.removed.union(&ranks);
        let left = self.all().restrict(&self.ranks().difference(&ranks));
        out.append_own(now, self.define(left, &basis, Some(request.uid)));
        out.reply(request.caller, &());
        Ok(())
    }

    fn removable(&self, ranks: &Idset, staying: &Staying) -> Result<(), Refusal> {
        let foreign = ranks.difference(&self.ranks());
        if !foreign.is_empty() {
            let text = format!("ranks: {foreign} given, the inventory has {}", self.ranks());
            return Err(Refusal::not_found(text));
        }
        let own = ranks.intersect(&self.local);
        if !own.is_empty() {
            let text = format!(
                "ranks: {own} given, which are on the leader's own node; others are allowed"
            );
            return Err(Refusal::invalid(text));
        }
        // What runs there and holds nothing ends or goes before the rank's shell does.
        let Some((job, rank)) = staying.on(ranks) else {
            return Ok(());
        };
        let job = job.f58_ascii();
        let text =
            format!("ranks: job {job} holds rank {rank}; drain it and wait, or cancel the job");
        Err(Refusal::new(Code::Busy, text))
    }
}

fn ranks_of(added: Added) -> Vec<Rank> {
    let end = added.first.saturating_add(added.count);
    (added.first..end).map(Rank).collect()
}

/// What was told, as a hash: nodes and properties, not for how long.
pub(super) fn hash(told: &ResourceSet) -> Hash {
    let nodes = ResourceSet {
        starttime: 0,
        expiration: 0,
        nslots: None,
        ..told.clone()
    };
    Hash::of(nodes.to_value().to_string().as_bytes())
}

/// The name of a node like this one: its name up to the number at its end, and
/// the rank.
fn host_of(like: &str, rank: u32) -> Arc<str> {
    let base = like.trim_end_matches(|c: char| c.is_ascii_digit());
    let base = if base.is_empty() { "node" } else { base };
    format!("{base}{rank}").into()
}
