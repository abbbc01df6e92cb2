//! Nodes that go back to the parent while the instance goes on.
//!
//! Asked to, the instance takes them out of service (`drain`) and notes that they go back
//! (`give-back`); once nothing runs on one it says so to the parent, again over each new channel,
//! until that has taken it out of the grant. Ends no job that holds something there: who wants that
//! cancels it. What takes nothing (`eddy exec`, the ground of an elastic instance) keeps no node.

use std::collections::BTreeMap;

use eddy_broker::{Effect, Outbox, Request, ToParent, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::{Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::services::grant::{GrantRow, GrantState, ReleaseRequest, Which};
use eddy_wire::time::Time;

use super::staying::Staying;
use super::{Resource, targets};
use crate::once;
use crate::settings::Place;

/// Why nodes that go back are drained.
const REASON: &str = "it goes back to the instance around this one";

/// What goes back.
pub(super) struct Giving {
    holding: Holding,
    /// Ranks that the leader serves itself.
    local: Idset,
    leaving: BTreeMap<Rank, Seq>,
    /// What the parent was told over the present channel.
    told: Idset,
    /// What the parent takes back by itself.
    taken: Idset,
}

/// Whose what the instance has is.
enum Holding {
    /// Its own.
    Own,
    /// A queue's, by its configuration.
    Declared(String),
    /// The parent's, for as long as the instance wants it.
    Granted,
}

impl Giving {
    pub(super) fn new(place: &Place, local: &Idset) -> Giving {
        Giving {
            holding: match (&place.child, &place.name) {
                (None, _) => Holding::Own,
                (Some(_), Some(name)) => Holding::Declared(name.clone()),
                (Some(_), None) => Holding::Granted,
            },
            local: local.clone(),
            leaving: BTreeMap::new(),
            told: Idset::new(),
            taken: Idset::new(),
        }
    }

    pub(super) fn apply(&mut self, record: &Record) {
        match &record.event.kind {
            Kind::GiveBack(ranks) => {
                let ranks = ranks.iter().map(Rank);
                self.leaving.extend(ranks.map(|rank| (rank, record.seq)));
            }
            Kind::Undrain(ranks, _) => self.leaving.retain(|rank, _| !ranks.contains(rank.0)),
            Kind::ResourceDefine(set, _) => {
                self.leaving.retain(|rank, _| set.nodes.contains_key(rank));
            }
            _ => {}
        }
    }

    pub(super) fn live(&self, seqs: &mut Vec<Seq>) {
        seqs.extend(self.leaving.values());
    }

    /// The channel stands anew: what was told may not have been heard.
    pub(super) fn told_anew(&mut self) {
        self.told = Idset::new();
    }

    /// Whether these ranks may stay after all: they may not where the parent may take them by now, or does.
    pub(super) fn may_stay(&self, ranks: &Idset) -> Result<(), Refusal> {
        let (gone, taken) = (ranks.intersect(&self.told), ranks.intersect(&self.taken));
        let (which, why) = match (gone.is_empty(), taken.is_empty()) {
            (true, true) => return Ok(()),
            (false, _) => (gone, "have gone back"),
            (true, false) => (taken, "the instance around this one takes back"),
        };
        Err(Refusal::new(
            Code::Conflict,
            format!("targets: ranks {which} given, which {why}"),
        ))
    }

    /// Tells the parent of those on which nobody stays any more.
    pub(super) fn give(&mut self, staying: &Staying, out: &mut Outbox) {
        let leaving = self.leaving.keys();
        let idle = leaving.filter(|rank| !staying.is_on(**rank));
        let idle: Idset = idle.map(|rank| rank.0).collect();
        if !idle.is_empty() && idle != self.told {
            self.told.clone_from(&idle);
            out.effect(Effect::Parent(ToParent::Release(idle)));
        }
    }

    pub(super) fn may(&self) -> Result<(), Refusal> {
        let text = match &self.holding {
            Holding::Granted => return Ok(()),
            Holding::Own => {
                "this instance is no job of another: what it has is its own; `eddy overlay remove` \
                 takes ranks out"
                    .to_owned()
            }
            Holding::Declared(name) => {
                format!("`{name}` is a queue's instance: its configuration says what it holds")
            }
        };
        Err(Refusal::new(Code::Denied, text))
    }

    fn state(&self, rank: Rank) -> GrantState {
        match (self.local.contains(rank.0), self.leaving.get(&rank)) {
            (true, _) => GrantState::Leader,
            (false, Some(_)) => GrantState::Leaving,
            (false, None) => GrantState::Held,
        }
    }
}

impl Resource {
    /// `grant.list`
    pub(super) fn granted_rows(&self) -> Result<Vec<GrantRow>, Refusal> {
        if let Holding::Own = self.giving.holding {
            self.giving.may()?;
        }
        let jobs = self.jobs_on();
        let nodes = self.all().nodes.iter();
        let row = |(rank, node): (&Rank, &eddy_wire::resource_set::NodeSet)| GrantRow {
            rank: *rank,
            host: node.host.to_string(),
            ncores: node.cores.len() as u32,
            ngpus: node.gpus.len() as u32,
            jobs: jobs.get(rank).copied().unwrap_or(0),
            by: self.arriving.by(*rank),
            state: self.giving.state(*rank),
        };
        Ok(nodes.map(row).collect())
    }

    /// `grant.release`
    pub(super) fn release(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: ReleaseRequest = request.parse()?;
        self.giving.may()?;
        let ranks = match &body.nodes {
            Which::Named(named) => targets::ranks("nodes", named, self.all())?,
            Which::Count(count) => self.least_used(*count)?,
        };
        let own = ranks.intersect(&self.giving.local);
        if !own.is_empty() {
            let text = format!(
                "nodes: ranks {own} given, where the instance's leader is; allowed are others: they \
                 go back with the instance"
            );
            return Err(Refusal::invalid(text));
        }
        self.leave(now, &ranks, request.uid, out);
        once::reply(now, request, body.once, &ranks, out);
        Ok(())
    }

    /// The parent takes nodes back.
    pub(super) fn take_back(&mut self, now: Time, ranks: &Idset, out: &mut Outbox) {
        self.giving.taken.clone_from(ranks);
        let own = ranks.intersect(&self.nodes.ranks());
        self.leave(now, &own, u32::MAX, out);
    }

    /// Nodes on which nothing has run for long go back by themselves, where that is wanted.
    pub(super) fn give_idle(&self, now: Time, out: &mut Outbox) {
        if !self.idling.is_wanted() || self.giving.may().is_err() {
            return;
        }
        let all = self.all().nodes.keys();
        let stays = |rank: &&Rank| !self.giving.leaving.contains_key(rank);
        let (may_go, staying): (Vec<Rank>, Vec<Rank>) = all
            .filter(stays)
            .partition(|rank| self.giving.state(**rank) == GrantState::Held);
        let due = self.idling.due(now, &may_go, staying.len());
        let ranks: Idset = due.now.iter().map(|rank| rank.0).collect();
        self.leave(now, &ranks, u32::MAX, out);
        if let Some(next) = due.next {
            out.volatile(Volatile::Wake(next));
        }
    }

    /// One record for each, as with drains: they leave one by one.
    fn leave(&self, now: Time, ranks: &Idset, user: u32, out: &mut Outbox) {
        let is_new = |rank: &u32| !self.giving.leaving.contains_key(&Rank(*rank));
        for rank in ranks.iter().filter(is_new) {
            let (one, reason) = (Idset::one(rank), REASON.to_owned());
            if !self.drained.contains_key(&Rank(rank)) {
                out.append_own(now, Kind::Drain(one.clone(), reason, user));
            }
            out.append_own(now, Kind::GiveBack(one));
        }
    }

    /// So many ranks that stay yet: those on which least runs.
    fn least_used(&self, count: u32) -> Result<Idset, Refusal> {
        let jobs = self.jobs_on();
        let ranks = self.all().nodes.keys();
        let held = ranks.filter(|rank| self.giving.state(**rank) == GrantState::Held);
        let mut held: Vec<(u32, std::cmp::Reverse<u32>)> = held
            .map(|rank| {
                (
                    jobs.get(rank).copied().unwrap_or(0),
                    std::cmp::Reverse(rank.0),
                )
            })
            .collect();
        if count == 0 || count as usize > held.len() {
            let text = match held.len() {
                0 => format!("nodes: {count} given, none but the leader's is held"),
                most => format!("nodes: {count} given, allowed are 1 to {most}"),
            };
            return Err(Refusal::invalid(text));
        }
        held.sort_unstable();
        let chosen = held.into_iter().take(count as usize);
        Ok(chosen.map(|(_, rank)| rank.0).collect())
    }
}
