//! Shares: the worked examples of the source systems, and the laws of each algorithm.

mod laws;

use super::adjusted::{Wanting, adjusted_fair_shares, theoretical_share};
use super::*;
use crate::amounts::{Amounts, Kinds};
use crate::policy::{Blend, Preference, Shape, Share, ShareRules, TicketFloor, WithinPass};

/// Indented lines `name shares` or `name shares usage`, the latter being users; `parent` for
/// the parent's shares.
fn given(text: &str) -> (Tree, Usage) {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let mut used = Vec::new();
    let (accounts, _) = accounts(&lines, 0, "", &mut used);
    let tree = Tree::new(&accounts).unwrap();
    let of = |id| {
        used.iter()
            .find(|(path, _)| path == tree.path(id))
            .map_or(0.0, |(_, used)| *used)
    };
    let usage = Usage::new(&tree, of, None);
    (tree, usage)
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn accounts(
    lines: &[&str],
    from: usize,
    above: &str,
    used: &mut Vec<(String, f64)>,
) -> (Vec<Account>, usize) {
    let (mut list, mut at) = (Vec::new(), from);
    let level = lines.get(from).map_or(0, |line| depth(line));
    while at < lines.len() && depth(lines[at]) == level {
        let words: Vec<&str> = lines[at].split_whitespace().collect();
        let path = if above.is_empty() {
            words[0].into()
        } else {
            format!("{above}/{}", words[0])
        };
        at += 1;
        let members = match words.get(2) {
            Some(usage) => {
                used.push((path, usage.parse().unwrap()));
                Members::User
            }
            None if at < lines.len() && depth(lines[at]) > level => {
                let (members, next) = accounts(lines, at, &path, used);
                at = next;
                Members::Under(members)
            }
            None => Members::Under(Vec::new()),
        };
        let shares = match words[1] {
            "parent" => Shares::Parent,
            shares => Shares::Of(shares.parse().unwrap()),
        };
        list.push(Account {
            name: words[0].into(),
            shares,
            members,
        });
    }
    (list, at)
}

fn ranked(text: &str) -> Vec<(String, u32)> {
    let (tree, usage) = given(text);
    let ranks = fair_tree::ranks(&tree, &usage);
    let order = ranks.order.iter();
    order
        .map(|&id| (tree.name(id).to_owned(), ranks.rank[id.0 as usize]))
        .collect()
}

fn names(ranked: &[(String, u32)]) -> Vec<&str> {
    ranked.iter().map(|(name, _)| name.as_str()).collect()
}

fn ranks(ranked: &[(String, u32)]) -> Vec<u32> {
    ranked.iter().map(|(_, rank)| *rank).collect()
}

#[test]
fn bad_trees_are_refused_by_path() {
    let account = |name: &str, shares, members| Account {
        name: name.into(),
        shares: Shares::Of(shares),
        members,
    };
    let under = |members| vec![account("a", 1, Members::Under(members))];
    let error = |accounts: &[Account]| Tree::new(accounts).unwrap_err().to_string();
    let twice = under(vec![
        account("u", 1, Members::User),
        account("u", 2, Members::User),
    ]);
    assert_eq!(error(&twice), "accounts: `a/u` is given twice");
    let negative = under(vec![account("u", -1, Members::User)]);
    assert!(error(&negative).starts_with("accounts.a/u.shares: -1 is given; allowed are 0 to"));
    let unnamed = under(vec![account("", 1, Members::User)]);
    assert!(error(&unnamed).starts_with("accounts: name `` under `a` is given"));
    let deep = (0..70).fold(Vec::new(), |members, _| under(members));
    assert!(error(&deep).contains("levels below the root"));
}

/// The published test of Slurm: an account whose members compete one level up, a user with its
/// account's shares, one without any.
#[test]
fn members_of_an_account_with_parent_shares_compete_above() {
    let (tree, usage) = given(
        "
top 100
  other 1 100
h 50
  ra1 parent 20
  ra2 40 20
  ra3 50 25
  ta parent
    std1 parent 10
    std2 30 10
    std3 50 25
",
    );
    let due = tree.normalized_shares();
    let effective = classic::effective_usage(&tree, &usage);
    let factors = classic::factors(&tree, &usage, Shape::Exp2, 1.0);
    let expected = [
        ("h", 0.333_333, 0.523_810, 0.336_475),
        ("h/ra1", 0.333_333, 0.523_810, 0.336_475),
        ("h/ra2", 0.078_431, 0.196_078, 0.176_777),
        ("h/ra3", 0.098_039, 0.238_095, 0.185_749),
        ("h/ta", 0.333_333, 0.523_810, 0.336_475),
        ("h/ta/std1", 0.333_333, 0.523_810, 0.336_475),
        ("h/ta/std2", 0.058_824, 0.131_653, 0.211_966),
        ("h/ta/std3", 0.098_039, 0.238_095, 0.185_749),
    ];
    for (path, share, used, factor) in expected {
        let id = tree.find(path).unwrap();
        let at = id.0 as usize;
        assert!((due[at] - share).abs() < 1e-6, "{path} {}", due[at]);
        assert!(
            (effective[at] - used).abs() < 1e-6,
            "{path} {}",
            effective[at]
        );
        assert!(
            (factors[at] - factor).abs() < 1e-6,
            "{path} {}",
            factors[at]
        );
        assert_eq!(
            classic::effective_usage_of(&tree, &usage, id),
            effective[at]
        );
    }
}

fn classic(blend: Blend) -> Share {
    Share::Classic {
        shape: Shape::Exp2,
        damping: 1.0,
        blend,
    }
}

/// The factor of each of these, where these users have work waiting.
fn factors_of<const N: usize>(text: &str, blend: Blend, of: [&str; N], waits: &[&str]) -> [f64; N] {
    let (tree, usage) = given(text);
    let kinds = Kinds::default();
    let present = Present {
        total: Amounts::NONE,
        kinds: &kinds,
        held: &|_| Amounts::NONE,
        active: &|id| waits.contains(&tree.path(id)),
    };
    let rules = ShareRules {
        algorithm: classic(blend),
        within_pass: WithinPass::Projected,
    };
    let book = Book::new(&rules, &tree, usage, &present).unwrap();
    of.map(|path| book.factor(tree.find(path).unwrap()))
}

/// Slurm's blend has them level where the one has four times what the other has.
#[test]
fn siblings_of_unlike_shares_are_level_where_each_had_its_own() {
    let of = ["a/wide", "a/slim", "b"];
    let fair = "a 3\n  wide 2 50\n  slim 1 25\nb 1 25\n";
    let waits = &of;
    assert_eq!(factors_of(fair, Blend::Active, of, waits), [0.5, 0.5, 0.5]);
    let unfair = "a 3\n  wide 2 60\n  slim 1 15\nb 1 25\n";
    let [wide, slim, b] = factors_of(unfair, Blend::Active, of, waits);
    assert!(wide < b && b == slim, "{wide} {b} {slim}");
    let [wide, slim, _] = factors_of(unfair, Blend::Part, of, waits);
    assert!((wide - slim).abs() < 1e-9, "{wide} {slim}");
}

#[test]
fn who_is_idle_takes_nothing_from_those_beside_him() {
    let given = "a 1\n  busy 1 50\n  idle 1 0\nb 1 50\n";
    let of = ["a/busy", "b"];
    assert_eq!(factors_of(given, Blend::Active, of, &of), [0.5, 0.5]);
    let [busy, b] = factors_of(given, Blend::Part, of, &of);
    assert!(busy < b, "{busy} {b}");
    // He that was idle comes: he is where his account is, and before who had all of it.
    let of = ["a/idle", "b", "a/busy"];
    let [idle, b, busy] = factors_of(given, Blend::Active, of, &of);
    assert!(idle == b && b > busy, "{idle} {b} {busy}");
}

/// What a pass plans moves both alike, whoever of the two asks.
#[test]
fn a_charge_counts_in_the_blend_of_those_who_wait() {
    let (tree, usage) = given("a 1\n  u 1 10\n  v 1 10\nb 1 20\n");
    let user = tree.find("a/u").unwrap();
    let mut charged = book(
        &tree,
        usage.clone(),
        classic(Blend::Active),
        WithinPass::Projected,
    );
    let ask = Ask {
        charge: 20.0,
        ..Ask::default()
    };
    charged.charge(user, &ask);
    let (_, used) = given("a 1\n  u 1 30\n  v 1 10\nb 1 20\n");
    let anew = book(&tree, used, classic(Blend::Active), WithinPass::Projected);
    for id in tree.nodes() {
        assert!((charged.factor(id) - anew.factor(id)).abs() < 1e-12);
        let at = id.0 as usize;
        let effective = (charged.effective_usage()[at], anew.effective_usage()[at]);
        assert!((effective.0 - effective.1).abs() < 1e-12);
    }
}

#[test]
fn nobody_with_usage_has_the_whole_and_nobody_without_shares_anything() {
    let (tree, usage) = given("a 0 0\nb 1 0\n");
    assert_eq!(
        classic::factors(&tree, &usage, Shape::Exp2, 1.0)[1..],
        [0.0, 1.0]
    );
    assert_eq!(project::left_over(1e6, 0.0, 0.0), 1e6);
    assert_eq!(project::left_over(1e6, 300.0, 200.0), 0.0);
}

const LEAVES_1: &str = "
  leaf.1.1 10000 100
  leaf.1.2 1000 10
  leaf.1.3 100000 10
";

/// Trees of flux-accounting's tests; of equals the smaller shares come first.
#[test]
fn accounts_that_are_level_are_taken_together() {
    let small_tie = format!(
        "account1 1000{LEAVES_1}account2 100
  leaf.2.1 10000 10
  leaf.2.2 1000 1
  leaf.2.3 100000 1
account3 10
  leaf.3.1 100 0
  leaf.3.2 10 1
"
    );
    let ranked = ranked(&small_tie);
    let order = ["3.1", "3.2", "1.3", "2.3", "1.2", "2.2", "1.1", "2.1"];
    assert_eq!(names(&ranked), order.map(|name| format!("leaf.{name}")));
    assert_eq!(ranks(&ranked), [8, 7, 6, 6, 4, 4, 4, 4]);
}

#[test]
fn a_user_level_with_an_account_ranks_with_its_best() {
    let text = format!("leaf.0.1 100 12\naccount1 1000{LEAVES_1}account3 10\n  leaf.3.2 10 1\n");
    let ranked = ranked(&text);
    assert_eq!(
        names(&ranked),
        ["leaf.3.2", "leaf.0.1", "leaf.1.3", "leaf.1.2", "leaf.1.1"]
    );
    assert_eq!(ranks(&ranked), [5, 4, 4, 2, 2]);
}

#[test]
fn who_has_no_shares_is_last_whatever_was_used() {
    let ranked = ranked("a 0 0\nb 0 5\nc 1 100\nd 1 0\n");
    assert_eq!(names(&ranked), ["d", "c", "a", "b"]);
    assert_eq!(ranks(&ranked), [4, 3, 2, 2]);
}

/// Sevenths are no floats: only exact comparison finds z and w level, over two accounts that are.
#[test]
fn levels_are_compared_exactly() {
    let ranked = ranked("a 1\n  x 3 7\n  y 1 7\nb 2\n  z 9 21\n  w 3 7\n");
    assert_eq!(names(&ranked), ["x", "w", "z", "y"]);
    assert_eq!(ranks(&ranked), [4, 3, 3, 1]);
}

#[test]
fn tickets_of_the_published_example() {
    let text = "
A 40
  B 30
    user1 1 20
  C 10
    user2 1 25
    user3 1 0
D 60
  E 25
    user4 1 25
  F 35
    user5 1 0
";
    let (tree, usage) = given(text);
    let usage = Usage {
        machine: 100.0,
        ..usage
    };
    let active = |id: NodeId| ["user2", "user5"].contains(&tree.name(id));
    let held = ticket::distribute(&tree, &usage, TicketFloor::Overall, 1000.0, active);
    let of = |path: &str| held[tree.find(path).unwrap().0 as usize];
    assert!((of("A/C/user2").unwrap() - 20_000.0 / 101.0).abs() < 1e-9);
    assert_eq!(of("A/B"), None);
    let priorities = ticket::priorities(&tree, &held);
    let user2 = priorities[tree.find("A/C/user2").unwrap().0 as usize];
    assert!((user2 - 20.0 / 81.0).abs() < 1e-12);
    let siblings = ticket::factors(&tree, &usage, TicketFloor::Siblings);
    let f = siblings[tree.find("D/F").unwrap().0 as usize];
    assert!((f - 60.0).abs() < 1e-9, "0.35 over 1 % of 35/60");
}

#[test]
fn a_share_that_demand_leaves_goes_to_the_others() {
    let wanting = |demand| Wanting {
        weight: 1.0,
        demand,
    };
    let dues = adjusted_fair_shares(&[wanting(0.01), wanting(0.4), wanting(10.0)]);
    let capped: Vec<f64> = dues.iter().map(|due| due.capped).collect();
    let uncapped: Vec<f64> = dues.iter().map(|due| due.uncapped).collect();
    for (got, expected) in capped.iter().zip([0.01, 0.4, 0.59]) {
        assert!((got - expected).abs() < 1e-12);
    }
    for (got, expected) in uncapped.iter().zip([0.380_833_333_333_333_3, 0.495, 0.59]) {
        assert!((got - expected).abs() < 1e-12);
    }
    let none = adjusted_fair_shares(&[wanting(0.0); 3]);
    assert!(
        none.iter()
            .all(|due| due.capped == 0.0 && (due.uncapped - 1.0).abs() < 1e-12)
    );
    assert!((theoretical_share(&[wanting(0.01)], 1.0) - 0.99).abs() < 1e-12);
}

fn book<'t>(tree: &'t Tree, usage: Usage, algorithm: Share, within_pass: WithinPass) -> Book<'t> {
    let kinds = Kinds::new(["cores", "memory"]).unwrap();
    let mut total = Amounts::NONE;
    (total[0], total[1]) = (100_000, 1_000_000);
    let present = Present {
        total,
        kinds: &kinds,
        held: &|_| Amounts::NONE,
        active: &|_| true,
    };
    let rules = ShareRules {
        algorithm,
        within_pass,
    };
    Book::new(&rules, tree, usage, &present).unwrap()
}

fn every_algorithm() -> Vec<Share> {
    let resources = [("cores".to_owned(), 1.0), ("memory".to_owned(), 1.0)].into();
    vec![
        Share::None,
        Share::Classic {
            shape: Shape::Exp2,
            damping: 1.0,
            blend: Blend::Part,
        },
        Share::Classic {
            shape: Shape::Linear,
            damping: 1.0,
            blend: Blend::Part,
        },
        Share::Classic {
            shape: Shape::Ratio,
            damping: 2.0,
            blend: Blend::Active,
        },
        Share::Ticket {
            floor: TicketFloor::Overall,
            tickets: 1000.0,
        },
        Share::FairTree,
        Share::ProjectRatio { max: 1e6 },
        Share::PbsTree { minimum_usage: 1.0 },
        Share::PriorityFloor { floor: 0.5 },
        Share::Drf {
            resources,
            protected_fraction: 1.0,
            prefer_large: Preference::Off,
        },
    ]
}

/// acctA 10 and acctB 25 shares, one unit used by each: B, B again, then A.
#[test]
fn planned_starts_move_the_order_of_a_pass() {
    let (tree, usage) = given("acctA 10 1\nacctB 25 1\n");
    let algorithm = Share::PbsTree { minimum_usage: 1.0 };
    let (a, b) = (NodeId(1), NodeId(2));
    let one = Ask {
        charge: 1.0,
        ..Ask::default()
    };
    let mut moving = book(
        &tree,
        usage.clone(),
        algorithm.clone(),
        WithinPass::Projected,
    );
    let first = |book: &Book<'_>| match book.first_of((a, &one), (b, &one)).is_lt() {
        true => a,
        false => b,
    };
    let mut picked = Vec::new();
    for _ in 0..3 {
        let next = first(&moving);
        moving.charge(next, &one);
        picked.push(next);
    }
    assert_eq!(picked, [b, b, a]);
    moving.uncharge(a, &one);
    assert_eq!(first(&moving), a);
    let mut fixed = book(&tree, usage, algorithm, WithinPass::Static);
    (0..9).for_each(|_| fixed.charge(b, &one));
    assert_eq!(first(&fixed), b);
}

#[test]
fn a_cost_is_that_of_the_scarcest_resource() {
    let (tree, usage) = given("a 1 0\nb 2 0\n");
    let mut book = book(
        &tree,
        usage,
        every_algorithm().pop().unwrap(),
        WithinPass::Projected,
    );
    let mut ask = Ask::default();
    (ask.amounts[0], ask.amounts[1]) = (10_000, 300_000);
    assert_eq!(book.key(NodeId(1), &ask), 0.3);
    book.charge(NodeId(2), &ask);
    assert_eq!(book.key(NodeId(2), &Ask::default()), 0.15);
    assert_eq!(book.key(NodeId(2), &ask), 0.3);
}

#[test]
fn resources_that_nobody_counts_are_refused() {
    let kinds = Kinds::new(["cores"]).unwrap();
    let costs = |pairs: &[(&str, f64)]| {
        let resources = pairs
            .iter()
            .map(|(name, by)| ((*name).to_owned(), *by))
            .collect();
        drf::Costs::new(Amounts::NONE, &kinds, &resources).map_err(|error| error.to_string())
    };
    let none = "share.resources: none is given; allowed is at least one with a multiplier above 0";
    assert_eq!(costs(&[]).unwrap_err(), none);
    assert_eq!(costs(&[("cores", 0.0)]).unwrap_err(), none);
    let unknown = "share.resources.tape: it is given; allowed are cores";
    assert_eq!(costs(&[("tape", 1.0)]).unwrap_err(), unknown);
    assert!(
        costs(&[("cores", f64::NAN)])
            .unwrap_err()
            .contains("NaN is given")
    );
}
