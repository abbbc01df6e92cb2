//! The state of a running instance as [`crate::rounds::schedule`] takes it.
//!
//! Made by `evict` for one round. A job on more than one node, or of more than one slot, is a gang.
//! What may not be taken from belongs to nobody there, and counts as held by its account.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::jobspec::Sharing;
use eddy_wire::plan::Owner;
use eddy_wire::time::Time;

use super::taking::Standing;
use super::{Certainty, Planner};
use crate::accounts::{KINDS, account_of, amounts};
use crate::amounts::{Amounts, Kinds};
use crate::need::{Need, Spread};
use crate::occupancy::{Ask, parts};
use crate::rooms::Room;
use crate::rounds::{Account, Gang, Job, Node, Run, Service, State};
use crate::turns::Turn;

/// So many who wait are part of it, the first of each account, and so many slots of them.
const WAITING_MAX: usize = 4096;
const MEMBERS_MAX: usize = 16_384;

/// The state of a round, and which job each of its jobs is a part of.
pub(super) struct Scene {
    pub state: State,
    pub members: Vec<JobId>,
    pub waiting: BTreeMap<JobId, (Turn, Arc<Ask>)>,
}

impl Planner {
    /// The state that the round is a function of: what may not be taken from is of no account
    /// there, and yet its account's.
    pub(super) fn scene(&self, now: Time) -> Scene {
        let inventory = self.occupancy.inventory();
        let mut scene = Scene {
            state: State {
                now,
                kinds: Kinds::new(KINDS).expect("three names"),
                ..State::default()
            },
            members: Vec::new(),
            waiting: BTreeMap::new(),
        };
        let all = |at: usize| self.counted(&inventory.capacity(at));
        scene.state.nodes = (0..inventory.len())
            .map(|at| Node {
                rank: at as u32,
                capacity: all(at),
                service: match inventory.is_serving(at) {
                    true => Service::Up,
                    false => Service::Down,
                },
                ..Node::default()
            })
            .collect();
        scene.state.buckets.preempt = self.taking.round.bucket;
        let mut accounts: BTreeMap<String, Account> = BTreeMap::new();
        let lines = self.table.iter().flat_map(|table| table.asked());
        let mut asked: BTreeMap<String, Amounts> = BTreeMap::new();
        for (name, sum) in lines {
            accounts.insert(name.to_owned(), Account::new(name));
            asked.insert(name.to_owned(), sum);
        }
        for name in self.occupancy.accounts().holders() {
            accounts
                .entry(name.to_owned())
                .or_insert_with(|| Account::new(name));
        }
        let waiting = self.heads(accounts.len());
        let ids: BTreeSet<JobId> = self
            .holdings
            .keys()
            .chain(waiting.keys())
            .copied()
            .collect();
        for job in ids {
            match waiting.get(&job) {
                Some((turn, ask, place)) => self.add_waiting(&mut scene, (*turn, ask), *place),
                None => self.add_run(&mut scene, job, now, &mut accounts),
            }
        }
        self.add_elsewhere(&mut accounts);
        let weights = self.turns.weights();
        self.add_claims(&mut scene, &mut accounts);
        for (name, account) in &mut accounts {
            let has = self.occupancy.accounts().has(name);
            let asked = asked.get(name).copied().unwrap_or(Amounts::NONE);
            account.demand = Some(has + asked);
            if let Some(weight) = weights.get(name) {
                account.factor = 1.0 / weight.max(crate::table::WEIGHT_MIN);
            }
        }
        scene.state.accounts = accounts.into_values().collect();
        scene
    }

    /// In thousandths; memory counts only where it is known.
    fn counted(&self, room: &Room) -> Amounts {
        let known = Room {
            memory: match room.memory {
                Room::NO_LIMIT => 0,
                known => known,
            },
            ..*room
        };
        amounts(&known)
    }

    /// The first who wait of each account, and the place of each in it.
    fn heads(&self, accounts: usize) -> BTreeMap<JobId, (Turn, Arc<Ask>, i64)> {
        let per = (WAITING_MAX / accounts.max(1)).max(1);
        let mut slots = 0;
        let mut heads = BTreeMap::new();
        for (turn, ask, place) in self.table.iter().flat_map(|table| table.firsts(per)) {
            let count = ask.need.count() as usize;
            // Gangs of jobs take from nobody.
            if ask.shape().is_none() || slots + count > MEMBERS_MAX {
                continue;
            }
            slots += count;
            heads.insert(turn.job, (turn, Arc::clone(ask), place));
        }
        heads
    }

    fn add_waiting(&self, scene: &mut Scene, (turn, ask): (Turn, &Arc<Ask>), place: i64) {
        let owner = &ask.want.owner;
        let count = ask.need.count();
        let request = self.member(&ask.need);
        let gang = (count > 1).then(|| Gang {
            id: turn.job.0.to_string(),
            cardinality: u32::try_from(count).unwrap_or(u32::MAX),
            minimum: u32::try_from(count).unwrap_or(u32::MAX),
            uniform: None,
        });
        for _ in 0..count {
            scene.state.jobs.push(Job {
                id: JobId(scene.members.len() as u64),
                account: account_of(owner),
                class: class_of(owner),
                priority: place,
                submit: Time(turn.job.0 as i64),
                request,
                gang: gang.clone(),
                ..Job::default()
            });
            scene.members.push(turn.job);
        }
        scene.waiting.insert(turn.job, (turn, Arc::clone(ask)));
    }

    /// What one slot, or one node, of a need takes.
    fn member(&self, need: &Need) -> Amounts {
        match (need.sharing, need.spread) {
            (Sharing::Shared, _) => self.counted(&need.least()),
            // A whole node, as they are on average.
            (Sharing::Exclusive, _) => {
                let one = match need.spread {
                    Spread::Nodes { nodes, .. } => nodes.max(1),
                    Spread::Slots(slots) => slots.max(1),
                };
                let all = self.occupancy.accounts().asks(need);
                let mut each = all;
                (0..KINDS.len()).for_each(|at| each[at] = all[at] / one as i64);
                each
            }
        }
    }

    fn add_run(
        &self,
        scene: &mut Scene,
        job: JobId,
        now: Time,
        accounts: &mut BTreeMap<String, Account>,
    ) {
        let holding = &self.holdings[&job];
        let inventory = self.occupancy.inventory();
        let on: Vec<(usize, Room)> = parts(inventory, &holding.set).collect();
        if on.is_empty() || self.taking.ending.contains_key(&job) {
            return;
        }
        let sum = on
            .iter()
            .fold(Amounts::NONE, |sum, (_, room)| sum + self.counted(room));
        let start = Time(holding.set.starttime);
        let owner = holding.owner.as_ref().filter(|owner| {
            let qos = Standing::of(owner);
            let open = self.exempt_until(job, self.qos_of(&qos)) <= now;
            let is_open = open && !self.taking.spared.contains(&job);
            is_open && holding.certainty == Certainty::Held
        });
        if let (None, Some(spared)) = (owner, &holding.owner) {
            hold(accounts, spared, sum, &self.policy.placement.default_class);
        }
        let gang = (on.len() > 1).then(|| Gang {
            id: job.0.to_string(),
            cardinality: on.len() as u32,
            minimum: on.len() as u32,
            uniform: None,
        });
        for (at, room) in &on {
            let member = JobId(scene.members.len() as u64);
            scene.members.push(job);
            scene.state.runs.push(Run {
                job: Job {
                    id: member,
                    // Of no account: it is left alone.
                    account: owner.map_or_else(String::new, account_of),
                    class: holding.owner.as_ref().map_or_else(String::new, class_of),
                    submit: Time(job.0 as i64),
                    request: self.counted(room),
                    gang: gang.clone().filter(|_| owner.is_some()),
                    ..Job::default()
                },
                node: *at as u32,
                start,
                priority: None,
            });
        }
    }

    /// What accounts hold in other lines.
    fn add_elsewhere(&self, accounts: &mut BTreeMap<String, Account>) {
        for one in self.charged.values() {
            let Some(owner) = &one.owner else { continue };
            let rooms = one.set.nodes.values().map(|node| Room {
                cores: node.cores.len(),
                gpus: node.gpus.len(),
                memory: node.memory,
            });
            let sum = rooms.fold(Amounts::NONE, |sum, room| sum + self.counted(&room));
            hold(accounts, owner, sum, &self.policy.placement.default_class);
        }
    }

    /// What is kept for those who have claims is theirs already.
    fn add_claims(&self, scene: &mut Scene, accounts: &mut BTreeMap<String, Account>) {
        for (job, claim) in &self.taking.claims {
            let owner = &self.waiting[job].want.owner;
            let mut sum = Amounts::NONE;
            for (at, room) in self.occupancy.takes(&claim.spot) {
                let request = self.counted(&room);
                sum += request;
                let id = JobId(scene.members.len() as u64);
                scene.members.push(*job);
                scene.state.runs.push(Run {
                    job: Job {
                        id,
                        request,
                        ..Job::default()
                    },
                    node: at as u32,
                    ..Run::default()
                });
            }
            hold(accounts, owner, sum, &self.policy.placement.default_class);
        }
    }
}

/// An account holds so much that nobody takes from it.
fn hold(accounts: &mut BTreeMap<String, Account>, owner: &Owner, sum: Amounts, default: &str) {
    let class = match class_of(owner) {
        class if class.is_empty() => default.to_owned(),
        class => class,
    };
    if let Some(account) = accounts.get_mut(&account_of(owner)) {
        *account.held.entry(class).or_default() += sum;
    }
}

pub(super) fn class_of(owner: &Owner) -> String {
    owner
        .class
        .as_ref()
        .map_or_else(String::new, ToString::to_string)
}
