//! Laws that hold for every algorithm over any tree.

use proptest::prelude::*;

use super::*;

/// Two levels: accounts with shares and users with shares and usage.
type Plan = Vec<(i64, Vec<(i64, u32)>)>;

fn plans() -> impl Strategy<Value = Plan> {
    let user = (
        0_i64..50,
        prop_oneof![Just(0_u32), 0_u32..5, 0_u32..100_000],
    );
    let account = (0_i64..50, prop::collection::vec(user, 0..5));
    prop::collection::vec(account, 1..6)
}

fn built(plan: &Plan, shares_by: i64, usage_by: f64) -> (Tree, Usage) {
    let mut used = Vec::new();
    let accounts: Vec<Account> = plan
        .iter()
        .enumerate()
        .map(|(at, (shares, users))| {
            let users = users.iter().enumerate().map(|(user, (shares, usage))| {
                used.push((format!("a{at}/u{user}"), f64::from(*usage) * usage_by));
                Account {
                    name: format!("u{user}"),
                    shares: Shares::Of(shares * shares_by),
                    members: Members::User,
                }
            });
            Account {
                name: format!("a{at}"),
                shares: Shares::Of(shares * shares_by),
                members: Members::Under(users.collect()),
            }
        })
        .collect();
    let tree = Tree::new(&accounts).unwrap();
    let of = |id| {
        used.iter()
            .find(|(path, _)| path == tree.path(id))
            .map_or(0.0, |(_, used)| *used)
    };
    let usage = Usage::new(&tree, of, None);
    (tree, usage)
}

fn factors(tree: &Tree, usage: &Usage, algorithm: &Share) -> Vec<f64> {
    let book = book(tree, usage.clone(), algorithm.clone(), WithinPass::Static);
    tree.users().iter().map(|&id| book.factor(id)).collect()
}

/// Those whose usage has a unit of its own: a minimum or a floor.
fn has_unit(algorithm: &Share) -> bool {
    matches!(
        algorithm,
        Share::PbsTree { .. } | Share::PriorityFloor { .. }
    )
}

proptest! {
    #[test]
    fn all_shares_times_k_change_no_order(plan in plans(), k in 1_i64..1000) {
        let (one, other) = (built(&plan, 1, 1.0), built(&plan, k, 1.0));
        for algorithm in every_algorithm() {
            let (a, b) = (factors(&one.0, &one.1, &algorithm), factors(&other.0, &other.1, &algorithm));
            for (a, b) in a.iter().zip(&b) {
                prop_assert!((a - b).abs() <= 1e-9 * a.abs().max(1.0), "{algorithm:?} {a} {b}");
            }
        }
    }

    #[test]
    fn all_usage_times_k_changes_no_factor(plan in plans(), k in 1_u32..1000) {
        let (one, other) = (built(&plan, 1, 1.0), built(&plan, 1, f64::from(k)));
        for algorithm in every_algorithm().iter().filter(|algorithm| !has_unit(algorithm)) {
            let (a, b) = (factors(&one.0, &one.1, algorithm), factors(&other.0, &other.1, algorithm));
            for (a, b) in a.iter().zip(&b) {
                prop_assert!((a - b).abs() <= 1e-9 * a.abs().max(1.0), "{algorithm:?} {a} {b}");
            }
        }
    }

    #[test]
    fn factors_are_finite_and_in_range(plan in plans()) {
        let (tree, usage) = built(&plan, 1, 1.0);
        for algorithm in every_algorithm() {
            let most = match algorithm { Share::ProjectRatio { max } => max, _ => 1.0 };
            for factor in factors(&tree, &usage, &algorithm) {
                prop_assert!((0.0..=most).contains(&factor), "{algorithm:?} {factor}");
            }
        }
    }

    /// More usage never makes a user better, more shares never worse.
    #[test]
    fn usage_lowers_and_shares_raise(plan in plans(), account in 0_usize..6, user in 0_usize..5) {
        let account = account % plan.len();
        prop_assume!(!plan[account].1.is_empty());
        let user = user % plan[account].1.len();
        let (tree, usage) = built(&plan, 1, 1.0);
        let mine = tree.find(&format!("a{account}/u{user}")).unwrap();
        let place = tree.users().iter().position(|&id| id == mine).unwrap();
        let nothing_used = plan[account].1[user].1 == 0;
        let (mut used, mut shared) = (plan.clone(), plan);
        used[account].1[user].1 += 1000;
        shared[account].1[user].0 += 10;
        for algorithm in every_algorithm() {
            let of = |(tree, usage): (Tree, Usage)| factors(&tree, &usage, &algorithm)[place];
            let before = factors(&tree, &usage, &algorithm)[place];
            let near = 1e-9 * before.abs().max(1.0);
            let after = of(built(&used, 1, 1.0));
            // The PBS minimum counts for a user but not in the sums above it.
            let minimum = matches!(algorithm, Share::PbsTree { .. }) && nothing_used;
            // A ticket factor is told against the most tickets of anybody: the usage of one makes
            // that of others a smaller part, and who has the most may lose by it.
            let excused = minimum || matches!(algorithm, Share::Ticket { .. });
            prop_assert!(excused || after <= before + near, "{algorithm:?} used {before} {after}");
            // The blend of the classic shapes and of PBS takes more of the account's usage with
            // more of its shares, and tickets weigh a share twice: see the documents.
            if matches!(algorithm, Share::FairTree | Share::PriorityFloor { .. } | Share::Drf { .. }) {
                let after = of(built(&shared, 1, 1.0));
                prop_assert!(after >= before - near, "{algorithm:?} shared {before} {after}");
            }
        }
    }

    #[test]
    fn shares_of_those_with_any_sum_to_one(plan in plans()) {
        let plan: Plan = plan.into_iter().filter(|(shares, users)| {
            *shares > 0 && users.iter().any(|(shares, _)| *shares > 0)
        }).collect();
        prop_assume!(!plan.is_empty());
        let (tree, _) = built(&plan, 1, 1.0);
        let due = tree.normalized_shares();
        let sum: f64 = tree.users().iter().map(|id| due[id.0 as usize]).sum();
        prop_assert!((sum - 1.0).abs() < 1e-9);
    }

    #[test]
    fn ranks_agree_with_paths_and_count_users(plan in plans()) {
        let (tree, usage) = built(&plan, 1, 1.0);
        let ranks = fair_tree::ranks(&tree, &usage);
        prop_assert_eq!(ranks.order.len(), tree.users().len());
        prop_assert!(ranks.order.first().is_none_or(|id| ranks.factor(*id) == 1.0));
        for pair in ranks.order.windows(2) {
            let order = fair_tree::first_of(&tree, &usage, pair[0], pair[1]);
            prop_assert!(ranks.rank[pair[0].0 as usize] >= ranks.rank[pair[1].0 as usize]);
            prop_assert!(order.is_le(), "a pair of one level is turned");
        }
    }

    #[test]
    fn what_is_charged_and_uncharged_was_never(plan in plans(), charge in 0_u32..1000) {
        let (tree, usage) = built(&plan, 1, 1.0);
        let ask = Ask { charge: f64::from(charge), ..Ask::default() };
        for algorithm in every_algorithm() {
            let mut book = book(&tree, usage.clone(), algorithm, WithinPass::Projected);
            let before: Vec<f64> = tree.nodes().map(|id| book.factor(id)).collect();
            tree.users().iter().for_each(|&id| book.charge(id, &ask));
            tree.users().iter().for_each(|&id| book.uncharge(id, &ask));
            let after: Vec<f64> = tree.nodes().map(|id| book.factor(id)).collect();
            prop_assert_eq!(before, after);
        }
    }

    #[test]
    fn capped_shares_never_exceed_demand_nor_the_whole(
        accounts in prop::collection::vec((0.01..10.0_f64, 0.0..2.0_f64), 1..40),
    ) {
        let accounts: Vec<Wanting> =
            accounts.into_iter().map(|(weight, demand)| Wanting { weight, demand }).collect();
        let dues = adjusted_fair_shares(&accounts);
        let sum: f64 = dues.iter().map(|due| due.capped).sum();
        prop_assert!(sum <= 1.0 + 1e-9);
        for (due, account) in dues.iter().zip(&accounts) {
            prop_assert!(due.capped <= account.demand + 1e-9);
            prop_assert!(due.uncapped >= due.capped - 1e-9);
            prop_assert!(due.capped >= due.fair.min(account.demand) - 1e-9, "less than its share");
        }
    }
}
