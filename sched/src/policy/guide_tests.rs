//! The numbers of `doc/guide/policies.md`, computed by the code that obeys policies.

use super::read::read;
use super::*;
use crate::priority::Formula;
use crate::share::drf::dominant;
use crate::share::floor::inverse_shares;
use crate::share::{Account, Members, NodeId, Shares, Tree, Usage, fair_tree, ticket};

const GUIDE: &str = include_str!("../../../doc/guide/policies.md");

/// The line is in the guide, as it is.
fn says(line: &str) {
    assert!(
        GUIDE.lines().any(|found| found == line),
        "the guide is to say: {line}"
    );
}

/// The value of a preset's first formula where these factors are so, and all others 0.
fn value(name: &str, factors: &[(&str, f64)]) -> f64 {
    let rules = preset(name).expect("it is there").priority;
    let formula = Formula::parse(&rules.order[0], &rules.names()).expect("it is checked");
    let mut values = vec![0.0; FACTORS.len()];
    for (name, value) in factors {
        let at = FACTORS.iter().position(|known| known == name);
        values[at.expect("a factor")] = *value;
    }
    formula.value(&values).expect("a number")
}

#[test]
fn a_margin_where_the_order_stands_is_refused_as_in_the_guide() {
    let text = |preset: &str| format!("preset = \"{preset}\"\nqueue.displace_margin = 0.1\n");
    let errors = read(&text("conservative")).expect_err("it would do nothing");
    assert_eq!(errors.len(), 1);
    says(&format!("{}: {}", errors[0].path, errors[0].wrong));
    for preset in ["flux", "hybrid-8"] {
        // Here it counts, and there it is warned of.
        assert!(read(&text(preset)).is_ok(), "{preset}");
    }
    let aged = format!(
        "{}priority.order = [\"urgency + wait\"]\n",
        text("conservative")
    );
    assert!(read(&aged).is_ok());
}

#[test]
fn six_factors_are_as_in_the_guide() {
    let of = |qos: f64, fair_share: f64, days: f64| {
        let factors = [
            ("qos", qos),
            ("fair_share", fair_share),
            ("wait", days / 7.0),
            ("size", 0.1),
            ("user", 1.0),
        ];
        value("flux", &factors)
    };
    let (a, b, c) = (of(0.5, 0.2, 3.0), of(0.5, 0.9, 0.0), of(1.0, 0.0, 0.0));
    says(&format!(
        "job a: qos normal,   fair_share 0.2, waited 3d: {a:.1}"
    ));
    says(&format!(
        "job b: qos normal,   fair_share 0.9, waited 0s: {b:.1}"
    ));
    says(&format!(
        "job c: qos expedite, fair_share 0.0, waited 0s: {c:.1}"
    ));
    assert!(c > b && b > a);
}

/// A, with ten users who used half of what is due to it, and B, with one who used half as much again.
fn unequal() -> (Tree, Usage) {
    let user = |name: String| Account {
        name,
        shares: Shares::Of(1),
        members: Members::User,
    };
    let account = |name: &str, members| Account {
        name: name.to_owned(),
        shares: Shares::Of(1),
        members: Members::Under(members),
    };
    let ten = (0..10).map(|at| user(format!("a{at}"))).collect();
    let accounts = [account("A", ten), account("B", vec![user("b".to_owned())])];
    let tree = Tree::new(&accounts).expect("a tree");
    let used = |id: NodeId| if tree.path(id) == "B/b" { 75.0 } else { 2.5 };
    let usage = Usage::new(&tree, used, None);
    (tree, usage)
}

#[test]
fn tickets_do_not_keep_their_promise_and_fair_tree_does() {
    let (tree, usage) = unequal();
    let a = tree.find("A/a0").expect("a user");
    let b = tree.find("B/b").expect("a user");
    let Share::Ticket { floor, tickets } = preset("slurm-ticket").expect("there").share.algorithm
    else {
        panic!("it is of tickets");
    };
    let held = ticket::distribute(&tree, &usage, floor, tickets, |_| true);
    let factors = ticket::priorities(&tree, &held);
    let of = |id: NodeId| (held[id.0 as usize].expect("active"), factors[id.0 as usize]);
    let ((of_a, factor_a), (of_b, factor_b)) = (of(a), of(b));
    says(&format!(
        "each user of A: {of_a:.0} tickets of {tickets}, factor {factor_a:.2}"
    ));
    says(&format!(
        "the user of B: {of_b:.0} tickets of {tickets}, factor {factor_b:.2}"
    ));
    assert!(factor_a < factor_b);

    let ranks = fair_tree::ranks(&tree, &usage);
    says(&format!("each user of A: factor {:.2}", ranks.factor(a)));
    says(&format!("the user of B: factor {:.2}", ranks.factor(b)));
    assert!(ranks.factor(a) > ranks.factor(b));
}

#[test]
fn the_formula_of_pbs_is_as_in_the_guide() {
    let of = |queue: f64, used: f64, days: f64| {
        let fair_share = 1e6 * (1.0 - used);
        let eligible = days * 86_400.0;
        let factors = [
            ("queue", queue),
            ("fair_share", fair_share),
            ("eligible", eligible),
        ];
        format!("{:.1}", value("pbs-it4i", &factors))
    };
    says(&format!(
        "queue 150, project used 20 % of all, eligible 10d: {}",
        of(150.0, 0.2, 10.0)
    ));
    says(&format!(
        "queue 0, project used nothing, eligible 0s: {}",
        of(0.0, 0.0, 0.0)
    ));
    says(&format!(
        "queue 1, project used all, eligible 0s: {}",
        of(1.0, 1.0, 0.0)
    ));
    says(&format!(
        "queue 0, project used nothing, eligible 1d: {}",
        of(0.0, 0.0, 1.0)
    ));
}

#[test]
fn the_sum_of_flux_accounting_is_as_in_the_guide() {
    for urgency in [16.0, 31.0] {
        let factors = [("fair_share", 0.75), ("queue", 1.0), ("urgency", urgency)];
        let sum = value("flux-accounting", &factors);
        says(&format!(
            "fair_share 0.75, queue 1, urgency {urgency}: {sum}"
        ));
    }
}

#[test]
fn costs_and_slices_are_as_in_the_guide() {
    let cost = |cores: f64, memory: f64| dominant([(cores, 100.0, 1.0), (memory, 400.0, 1.0)]);
    says(&format!(
        "account A holds 10 cores and 80 GiB: {:.2}",
        cost(10.0, 80.0)
    ));
    says(&format!(
        "account B holds 15 cores and 20 GiB: {:.2}",
        cost(15.0, 20.0)
    ));
    for (at, part) in inverse_shares(&[1.0, 2.0]).into_iter().enumerate() {
        says(&format!(
            "usage {}: {:.1} % of what there is",
            at + 1,
            part * 100.0
        ));
    }
}

#[test]
fn what_the_guide_overrides_is_accepted_and_its_errors_are_told() {
    let mut blocks = GUIDE
        .split("```")
        .filter_map(|block| block.strip_prefix("toml\n"));
    let ours = blocks.next().expect("an example");
    let policy = read(ours).expect("it is a policy");
    assert_eq!(policy.priority.weights["fair_share"], 500_000.0);
    assert_eq!(policy.priority.weights["qos"], 1e6);
    let wrong = ours
        .replace("half", "hlaf")
        .replace("fair_share = 500000", "qos = -1");
    for error in read(&wrong).expect_err("two are wrong") {
        says(&format!("eddy policy check: ours.toml: {error}"));
    }
}
