//! The planner's fair share is that of the whole tree: held against shares, usage and ledger put
//! together from the same books without a planner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_wire::account::{Account, Change, Member, Name, Shares};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Request;
use eddy_wire::plan::{Delta, Owner, SharesTold, Used, Verdict, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{MICROS, Time};
use fastrand::Rng;

use super::model::{inventory, nodes};
use crate::Planner;
use crate::amounts::{Amounts, Kinds};
use crate::policy::Policy;
use crate::policy::read::read;
use crate::share::{self, Book, Members, Present, Tree, Usage};
use crate::usage::{Bound, Ledger, Meter, Tariff};

const NOW: Time = Time(1_800_000_000 * MICROS);
const POLICIES: [&str; 5] = [
    "flux",
    "slurm-fair-tree",
    "slurm-ticket",
    "pbs-it4i",
    "flux-accounting",
];

type Holder = (Name, u32);
type Told = fn(JobId, Owner, Arc<ResourceSet>) -> Delta;

/// Accounts, members and what they used.
struct Site {
    accounts: BTreeMap<Name, (Option<Name>, Shares)>,
    members: BTreeMap<Holder, Shares>,
    used: Vec<Used>,
    waiting: BTreeSet<Holder>,
}

fn shares(rng: &mut Rng) -> Shares {
    match rng.u32(0..10) {
        0 => Shares::Parent,
        count => Shares::Of(count / 2),
    }
}

impl Site {
    fn drawn(rng: &mut Rng) -> Site {
        let name = |at: usize| format!("a{at}").parse::<Name>().expect("a name");
        let mut accounts = BTreeMap::new();
        for at in 0..rng.usize(1..7) {
            let parent = (at > 0 && rng.bool()).then(|| name(rng.usize(0..at)));
            accounts.insert(name(at), (parent, shares(rng)));
        }
        let mut members = BTreeMap::new();
        for _ in 0..rng.usize(1..10) {
            let account = name(rng.usize(0..accounts.len()));
            members.insert((account, rng.u32(0..5)), shares(rng));
        }
        let all: Vec<Holder> = members.keys().cloned().collect();
        let one = |rng: &mut Rng| all[rng.usize(0..all.len())].clone();
        let used = (0..rng.usize(0..20)).map(|_| {
            let (account, user) = one(rng);
            let from = NOW.0 - rng.i64(1..30 * 86_400) * MICROS;
            let to = (from + rng.i64(1..86_400) * MICROS).min(NOW.0);
            let seconds = (to - from) as f64 / MICROS as f64;
            Used {
                owner: owner(&(account, user)),
                from: Time(from),
                to: Time(to),
                nodes: seconds,
                cores: seconds * f64::from(rng.u32(1..64)),
                gpus: 0.0,
                memory: 0.0,
            }
        });
        let used = used.collect();
        let waiting = (0..rng.usize(1..5)).map(|_| one(rng)).collect();
        Site {
            accounts,
            members,
            used,
            waiting,
        }
    }

    fn changes(&self) -> Vec<Change> {
        let accounts = self.accounts.iter().map(|(name, (parent, shares))| {
            let value = Account {
                parent: parent.clone(),
                shares: *shares,
                ..Account::default()
            };
            Change::Account {
                name: name.clone(),
                value: Some(value),
            }
        });
        let members = self.members.iter().map(|((account, user), shares)| {
            let value = Member {
                shares: *shares,
                ..Member::default()
            };
            Change::Member {
                account: account.clone(),
                user: *user,
                value: Some(value),
            }
        });
        accounts.chain(members).collect()
    }

    /// Accounts before users, unlike the planner's.
    fn branch(&self, above: Option<&Name>, holders: &mut Vec<Holder>) -> Vec<share::Account> {
        let convert = |shares: Shares| match shares {
            Shares::Of(count) => share::Shares::Of(i64::from(count)),
            Shares::Parent => share::Shares::Parent,
        };
        let mut all = Vec::new();
        for (name, (parent, own)) in &self.accounts {
            if parent.as_ref() != above {
                continue;
            }
            let mut under = self.branch(Some(name), holders);
            for (holder, own) in self.members.iter().filter(|((of, _), _)| of == name) {
                holders.push(holder.clone());
                under.push(share::Account {
                    name: format!("user {}", holder.1),
                    shares: convert(*own),
                    members: Members::User,
                });
            }
            all.push(share::Account {
                name: name.to_string(),
                shares: convert(*own),
                members: Members::Under(under),
            });
        }
        all
    }

    fn factors(&self, policy: &Policy) -> BTreeMap<Holder, f64> {
        let meter = |name: &str| Meter {
            name: name.to_owned(),
            bound: Bound::Node,
            capacity: 0.0,
        };
        let meters = ["nodes", "cores", "gpus", "memory"].map(meter);
        let tariff = Tariff::new(&policy.usage, &meters).expect("rules");
        let mut ledger = Ledger::new(policy.usage.decay.clone());
        let mut steps: Vec<(Time, String, f64)> = Vec::new();
        for used in &self.used {
            let seconds = (used.to - used.from).0 as f64 / MICROS as f64;
            let rate = tariff.weigh(&[used.nodes / seconds, used.cores / seconds, 0.0, 0.0]);
            let name = format!("{:?} {}", used.owner.account, used.owner.user);
            steps.push((used.from, name.clone(), rate));
            steps.push((used.to, name, -rate));
        }
        steps.sort_by_key(|(at, ..)| *at);
        for (at, name, rate) in steps {
            let holder = ledger.holder(&name);
            ledger.using(holder, at, rate);
        }
        let mut holders = Vec::new();
        let tree = Tree::new(&self.branch(None, &mut holders)).expect("a tree");
        let of: BTreeMap<_, _> = tree.users().iter().zip(&holders).collect();
        let usage = Usage::new(
            &tree,
            |id| {
                let (account, user) = of[&id];
                let found = ledger.find(&format!("{:?} {user}", Some(account)));
                found.map_or(0.0, |holder| ledger.usage(holder, NOW))
            },
            None,
        );
        let kinds = Kinds::default();
        let present = Present {
            total: Amounts::NONE,
            kinds: &kinds,
            held: &|_| Amounts::NONE,
            active: &|id| {
                of.get(&id)
                    .is_some_and(|holder| self.waiting.contains(*holder))
            },
        };
        let book = Book::new(&policy.share, &tree, usage, &present).expect("a book");
        let factors = tree.users().iter().map(|id| book.factor(*id));
        holders.iter().cloned().zip(factors).collect()
    }
}

fn owner((account, user): &Holder) -> Owner {
    Owner {
        user: *user,
        account: Some(account.clone()),
        ..Owner::default()
    }
}

/// What the planner is to tell by one of the policies, which it obeys from the beginning or after another.
fn agree(from: impl Fn(u64) -> Option<&'static str>) {
    for seed in 0..500 {
        let rng = &mut Rng::with_seed(seed);
        let site = Site::drawn(rng);
        let preset = POLICIES[seed as usize % POLICIES.len()];
        let text = format!("preset = \"{preset}\"\nshare.within_pass = \"static\"");
        let policy = read(&text).expect("a policy");
        let before = from(seed).map(|before| read(before).expect("a policy"));
        let mut planner = Planner::with(before.clone().unwrap_or_else(|| policy.clone()));
        planner.apply(Delta::Inventory(inventory(&[(4, 0, 0)])));
        planner.apply(Delta::Up(Idset::one(0)));
        let mut changes = site.changes();
        rng.shuffle(&mut changes);
        for change in changes {
            planner.apply(Delta::Account(Box::new(change)));
        }
        planner.apply(Delta::Used(site.used.clone().into()));
        for (at, holder) in site.waiting.iter().enumerate() {
            let want = Want {
                owner: owner(holder),
                ..Want::of(16, nodes(1, 1, 4))
            };
            planner.apply(Delta::Want(JobId(at as u64 + 1), want));
        }
        if before.is_some() {
            planner.plan(NOW, 0);
            planner.apply(Delta::Policy(text.as_str().into()));
            planner.apply(Delta::Past(site.used.clone().into()));
        }
        planner.apply(Delta::Shares(1));
        let told = planner.plan(NOW, 0).shares.expect("they were asked for");
        let expected = site.factors(&policy);
        let rows: Vec<_> = told.rows.iter().filter(|row| row.user.is_some()).collect();
        assert_eq!(rows.len(), expected.len(), "seed {seed}");
        for row in rows {
            let account = row.account.clone().expect("a member");
            let expected = expected[&(account, row.user.expect("a user"))];
            let scale = expected.abs().max(1.0);
            assert!(
                (row.factor - expected).abs() < 1e-9 * scale,
                "seed {seed}, {preset}: {row:?} is to have {expected}"
            );
        }
    }
}

#[test]
fn the_planners_fair_share_is_that_of_the_same_books_without_a_planner() {
    agree(|_| None);
}

/// By the policy of now, also what was used under one that weighs or forgets otherwise.
#[test]
fn what_was_used_is_reckoned_anew_by_another_policy() {
    const BEFORE: [&str; 5] = [
        "preset = \"fcfs\"",
        "preset = \"easy\"",
        "preset = \"armada\"",
        "preset = \"slurm-fair-tree\"",
        "preset = \"flux\"\nusage.decay = { form = \"exponential\", half = \"1s\" }",
    ];
    agree(|seed| Some(BEFORE[seed as usize / POLICIES.len() % BEFORE.len()]));
}

/// Who still runs is charged from his beginning, as by a planner that comes new.
#[test]
fn who_runs_is_charged_from_his_beginning_by_another_policy() {
    let text = "preset = \"flux\"\nshare.within_pass = \"static\"";
    let set = inventory(&[(4, 0, 0)]);
    let mut holding = (*set).clone();
    holding.starttime = NOW.0 - 1_000 * MICROS;
    let told = |begins: &str, then: Option<&str>| {
        let mut planner = Planner::with(read(begins).expect("a policy"));
        planner.apply(Delta::Inventory(Arc::clone(&set)));
        planner.apply(Delta::Up(Idset::one(0)));
        let owner = Owner {
            user: 7,
            ..Owner::default()
        };
        planner.apply(Delta::Held(JobId(1), owner, Arc::new(holding.clone())));
        planner.plan(NOW, 0);
        if let Some(then) = then {
            planner.apply(Delta::Policy(then.into()));
            planner.apply(Delta::Past(Arc::from([])));
        }
        planner.apply(Delta::Shares(1));
        let told = planner.plan(NOW, 0).shares.expect("they were asked for");
        told.rows.iter().map(|row| row.usage).collect::<Vec<_>>()
    };
    let expected = told(text, None);
    assert!(expected.iter().any(|used| *used > 3_900.0), "{expected:?}");
    for before in ["preset = \"fcfs\"", "preset = \"armada\""] {
        assert_eq!(told(before, Some(text)), expected, "{before}");
    }
}

/// What gives nodes back is charged for what it held until then, once, and from then on for the rest.
#[test]
fn who_gives_nodes_back_is_charged_for_each_once() {
    let text =
        "preset = \"flux\"\nusage.decay = { form = \"none\" }\nshare.within_pass = \"static\"";
    let policy = read(text).expect("a policy");
    let mut planner = Planner::with(policy);
    planner.apply(Delta::Inventory(inventory(&[
        (4, 0, 0),
        (4, 0, 0),
        (4, 0, 0),
    ])));
    planner.apply(Delta::Up(Idset::first_ids(3)));
    let holder = Owner {
        user: 7,
        ..Owner::default()
    };
    let hours = |count: i64| Time(NOW.0 + count * 3600 * MICROS);
    let whole = |nodes: u32| {
        let mut set = (*inventory(&[(4, 0, 0), (4, 0, 0), (4, 0, 0)])).clone();
        set.nodes.retain(|rank, _| rank.0 < nodes);
        set.starttime = NOW.0;
        Arc::new(set)
    };
    let used = |planner: &mut Planner, now: Time| {
        planner.apply(Delta::Shares(1));
        let told = planner.plan(now, 9).shares.expect("they were asked for");
        let row = told.rows.into_iter().find(|row| row.user == Some(7));
        row.map_or(0.0, |row| row.usage)
    };
    used(&mut planner, hours(0));
    planner.apply(Delta::Held(JobId(1), holder.clone(), whole(3)));
    let three = used(&mut planner, hours(1));
    for nodes in [2, 1] {
        planner.apply(Delta::Held(JobId(1), holder.clone(), whole(nodes)));
        let same = used(&mut planner, hours(1));
        assert!((same - three).abs() < 1e-6 * three, "{same}, not {three}");
    }
    let later = used(&mut planner, hours(2));
    let one = three / 3.0;
    assert!(
        (later - three - one).abs() < 1e-6 * three,
        "{later}, {three} before"
    );
}

/// What changes is heard of when the planner plans, and nothing may have had it do so for long.
#[test]
fn who_gives_nodes_back_long_after_the_last_pass_is_charged_once() {
    let policy = read("preset = \"flux\"\nusage.decay = { form = \"none\" }");
    let mut planner = Planner::with(policy.expect("a policy"));
    planner.apply(Delta::Inventory(inventory(&[(4, 0, 0), (4, 0, 0)])));
    planner.apply(Delta::Up(Idset::first_ids(2)));
    let at = |seconds: i64| Time(NOW.0 + seconds * MICROS);
    let whole = |nodes: u32| {
        let mut set = (*inventory(&[(4, 0, 0), (4, 0, 0)])).clone();
        set.nodes.retain(|rank, _| rank.0 < nodes);
        set.starttime = NOW.0;
        Arc::new(set)
    };
    let used = |planner: &mut Planner, now: Time| {
        planner.apply(Delta::Shares(1));
        let told = planner.plan(now, 9).shares.expect("they were asked for");
        let row = told.rows.into_iter().find(|row| row.user == Some(7));
        row.map_or(0.0, |row| row.usage)
    };
    let holder = Owner {
        user: 7,
        ..Owner::default()
    };
    assert_eq!(used(&mut planner, at(0)), 0.0);
    planner.apply(Delta::Held(JobId(1), holder.clone(), whole(2)));
    assert_eq!(used(&mut planner, at(10)), 80.0);
    planner.apply(Delta::Held(JobId(1), holder, whole(1)));
    assert_eq!(used(&mut planner, at(100)), 800.0);
    planner.apply(Delta::Freed(JobId(1)));
    assert_eq!(used(&mut planner, at(110)), 840.0);
}

/// Here and in another line: by what he may still use he is due less at once.
#[test]
fn a_limit_that_is_changed_counts_in_the_pass_that_follows() {
    let all = inventory(&[(4, 0, 0)]);
    let holder = Owner {
        user: 7,
        ..Owner::default()
    };
    for told in [Delta::Held as Told, Delta::Charged] {
        let policy = read("preset = \"flux\"\nusage.decay = { form = \"none\" }");
        let mut planner = Planner::with(policy.expect("a policy"));
        planner.apply(Delta::Inventory(Arc::clone(&all)));
        planner.apply(Delta::Up(Idset::one(0)));
        let lasts = |seconds: i64| {
            let mut set = (*all).clone();
            (set.starttime, set.expiration) = (NOW.0, NOW.0 + seconds * MICROS);
            told(JobId(1), holder.clone(), Arc::new(set))
        };
        let planned = |planner: &mut Planner| {
            planner.apply(Delta::Shares(1));
            let told = planner.plan(NOW, 9).shares.expect("they were asked for");
            let row = told.rows.into_iter().find(|row| row.user == Some(7));
            row.map_or(0.0, |row| row.planned)
        };
        planner.apply(lasts(100));
        assert_eq!(planned(&mut planner), 400.0);
        planner.apply(lasts(1000));
        assert_eq!(planned(&mut planner), 4000.0);
    }
}

/// What is told of with other news is charged from its grant on, and until the pass that hears of its end.
#[test]
fn what_else_changes_moves_no_beginning_and_no_end_of_what_is_charged() {
    let text = "preset = \"flux\"\nusage.decay = { form = \"none\" }";
    let all = inventory(&[(4, 0, 0), (4, 0, 0)]);
    let at = |seconds: i64| Time(NOW.0 + seconds * MICROS);
    let used = |planner: &mut Planner, now: Time| {
        planner.apply(Delta::Shares(1));
        let told = planner.plan(now, 9).shares.expect("they were asked for");
        let row = told.rows.into_iter().find(|row| row.user == Some(7));
        row.map_or(0.0, |row| row.usage)
    };
    let holder = Owner {
        user: 7,
        ..Owner::default()
    };
    for other in [
        Delta::Inventory(Arc::clone(&all)),
        Delta::Policy(text.into()),
    ] {
        let mut planner = Planner::with(read(text).expect("a policy"));
        planner.apply(Delta::Inventory(Arc::clone(&all)));
        planner.apply(Delta::Up(Idset::first_ids(2)));
        used(&mut planner, at(0));
        let mut set = (*all).clone();
        set.starttime = at(90).0;
        planner.apply(Delta::Held(JobId(1), holder.clone(), Arc::new(set)));
        planner.apply(other.clone());
        assert_eq!(used(&mut planner, at(100)), 80.0, "{other:?}");
        planner.apply(Delta::Freed(JobId(1)));
        planner.apply(other.clone());
        assert_eq!(used(&mut planner, at(200)), 880.0, "{other:?}");
        assert_eq!(used(&mut planner, at(300)), 880.0, "{other:?}");
    }
}

/// In an instance that ends whoever has no limit ends with it at the latest: so his grant says.
#[test]
fn who_has_no_limit_may_use_no_more_than_his_grant_says() {
    let policy = read("preset = \"flux\"").expect("a policy");
    let mut planner = Planner::with(policy);
    planner.apply(Delta::Inventory(inventory(&[(4, 0, 0)])));
    planner.apply(Delta::Up(Idset::one(0)));
    let want = Want {
        owner: Owner {
            user: 7,
            ..Owner::default()
        },
        ..Want::of(16, nodes(1, 1, 4))
    };
    let owner = want.owner.clone();
    planner.apply(Delta::Want(JobId(1), want));
    let outcome = planner.plan(NOW, 9);
    let Some((_, Verdict::Start(set))) = outcome.verdicts.first() else {
        panic!("it starts: {outcome:?}");
    };
    let mut set = (**set).clone();
    set.expiration = set.starttime + 60 * MICROS;
    planner.apply(Delta::Held(JobId(1), owner, Arc::new(set)));
    // With whoever comes to wait what each is due is made anew.
    planner.apply(Delta::Want(JobId(2), Want::of(16, nodes(1, 1, 4))));
    planner.apply(Delta::Shares(1));
    let told = planner.plan(NOW, 9).shares.expect("they were asked for");
    let planned = told.rows.iter().filter(|row| row.user == Some(7));
    assert_eq!(planned.map(|row| row.planned).sum::<f64>(), 240.0);
}

/// So its grant says already as it is proposed, whatever limit it has itself.
#[test]
fn who_begins_may_use_no_more_than_is_left_of_the_instance() {
    for limit in [None, Some(100 * MICROS)] {
        let mut planner = Planner::with(read("preset = \"flux\"").expect("a policy"));
        let mut all = (*inventory(&[(4, 0, 0)])).clone();
        all.expiration = NOW.0 + 60 * MICROS;
        planner.apply(Delta::Inventory(Arc::new(all)));
        planner.apply(Delta::Up(Idset::one(0)));
        let request = Request {
            duration: limit,
            ..nodes(1, 1, 4)
        };
        let owner = Owner {
            user: 7,
            ..Owner::default()
        };
        let want = Want {
            owner: owner.clone(),
            ..Want::of(16, request)
        };
        planner.apply(Delta::Want(JobId(1), want));
        planner.apply(Delta::Shares(1));
        let outcome = planner.plan(NOW, 9);
        let planned = |told: SharesTold| -> f64 {
            let own = told.rows.iter().filter(|row| row.user == Some(7));
            own.map(|row| row.planned).sum()
        };
        let Some((_, Verdict::Start(set))) = outcome.verdicts.into_iter().next() else {
            panic!("it starts");
        };
        assert_eq!(outcome.shares.map(planned), Some(240.0), "{limit:?}");
        planner.apply(Delta::Held(JobId(1), owner, set));
        planner.apply(Delta::Shares(1));
        let told = planner.plan(NOW, 9).shares;
        assert_eq!(told.map(planned), Some(240.0), "{limit:?}, recorded");
    }
}

/// The line is as old as the policy lets it be; what is told is of the moment of the question.
#[test]
fn what_is_told_of_use_and_of_plans_is_of_one_moment() {
    let text = "preset = \"flux\"\nusage.decay = { form = \"none\" }\npriority.refresh = \"1h\"";
    let mut planner = Planner::with(read(text).expect("a policy"));
    let all = inventory(&[(4, 0, 0)]);
    planner.apply(Delta::Inventory(Arc::clone(&all)));
    planner.apply(Delta::Up(Idset::one(0)));
    let holder = Owner {
        user: 7,
        ..Owner::default()
    };
    let at = |seconds: i64| Time(NOW.0 + seconds * MICROS);
    let mut set = (*all).clone();
    (set.starttime, set.expiration) = (NOW.0, at(60).0);
    planner.apply(Delta::Held(JobId(1), holder, Arc::new(set)));
    for (seconds, used, planned) in [(0, 0.0, 240.0), (30, 120.0, 120.0), (60, 240.0, 0.0)] {
        planner.apply(Delta::Shares(1));
        let told = planner.plan(at(seconds), 9).shares.expect("asked for");
        let row = told.rows.iter().find(|row| row.user == Some(7));
        let row = row.expect("whoever holds something is told of");
        assert_eq!(
            (row.usage, row.planned),
            (used, planned),
            "after {seconds} s"
        );
    }
}

/// Among those who wait in `a` user 1 has used no more than his share while user 2, who used most, is among them, and
/// twice as much once that one's last job is cancelled: who waits in `b` is before him then.
#[test]
fn who_leaves_counts_no_more_among_those_who_wait_from_the_next_pass_on() {
    let name = |name: &str| name.parse::<Name>().expect("a name");
    let mut planner = Planner::with(read("preset = \"flux\"").expect("a preset"));
    planner.apply(Delta::Inventory(inventory(&[(4, 0, 0); 2])));
    for account in ["a", "b"] {
        planner.apply(Delta::Account(Box::new(Change::Account {
            name: name(account),
            value: Some(Account::default()),
        })));
    }
    let holders = [
        ("a", 1, 10.0),
        ("a", 2, 20.0),
        ("b", 3, 36.0),
        ("a", 4, 0.0),
    ];
    for (account, user, cores) in holders {
        let holder = (name(account), user);
        planner.apply(Delta::Account(Box::new(Change::Member {
            account: holder.0.clone(),
            user,
            value: Some(Member::default()),
        })));
        planner.apply(Delta::Used(
            [Used {
                owner: owner(&holder),
                from: Time(NOW.0 - MICROS),
                to: NOW,
                nodes: 1.0,
                cores,
                gpus: 0.0,
                memory: 0.0,
            }]
            .into(),
        ));
        // The last waits for both.
        let ranks = if user == 4 { 2 } else { 1 };
        let want = Want {
            owner: owner(&holder),
            ..Want::of(16, nodes(ranks, 1, 4))
        };
        planner.apply(Delta::Want(JobId(u64::from(user)), want));
    }
    let before = planner.plan(NOW, 10);
    assert_eq!(before.verdicts, [], "no node is there");
    planner.apply(Delta::Unwant(JobId(2)));
    planner.apply(Delta::Up(Idset::first_ids(1)));
    let after = planner.plan(NOW, 10).verdicts;
    let begun: Vec<JobId> = after.iter().map(|(job, _)| *job).collect();
    assert_eq!(begun, [JobId(3)]);
}
