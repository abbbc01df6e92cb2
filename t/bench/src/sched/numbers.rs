//! A refresh of priorities, and of fair shares.

use anyhow::Context as _;
use eddy_sched::amounts::{Amounts, Kinds};
use eddy_sched::policy::{ShareRules, preset};
use eddy_sched::priority::{Column, Formula, Names, Order, Program};
use eddy_sched::share::{Account, Book, Members, Present, Shares, Tree, Usage};

use super::growth::exponent;
use crate::process::own_cpu;
use crate::report::Report;
use crate::rounds::Series;

/// A refresh of the priorities of 1,000,000 jobs of 10,000 associations: values, then their order.
pub fn priorities(rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    const JOBS: usize = 1_000_000;
    const ASSOCIATIONS: usize = 10_000;
    let names = Names::new(["wait", "fair_share", "size"]);
    let formula = Formula::parse("10000 * wait + 100000 * fair_share + 1000 * size", &names);
    let program = Program::new(&formula.context("the formula")?);
    let ids: Vec<u64> = (0..JOBS as u64).collect();
    let at: Vec<f64> = ids.iter().map(|id| (id % 86_400) as f64).collect();
    let size: Vec<f64> = ids.iter().map(|id| (id % 97) as f64 / 97.0).collect();
    let of: Vec<u32> = (0..JOBS as u32)
        .map(|id| id % ASSOCIATIONS as u32)
        .collect();
    let table: Vec<f64> = (0..ASSOCIATIONS)
        .map(|at| at as f64 / ASSOCIATIONS as f64)
        .collect();
    let (mut order, mut values) = (Order::new(), Vec::new());
    let mut series = Series::new("refresh of 1,000,000 priorities", "ms");
    for round in 0..=rounds {
        let now = 100_000.0 + round as f64;
        let whole = 604_800.0;
        let columns = [
            Column::Since {
                at: &at,
                now,
                whole,
            },
            Column::Of {
                table: &table,
                of: &of,
            },
            Column::Each(&size),
        ];
        let spent = own_cpu()?;
        program.run(&columns, JOBS, &mut values);
        order.refresh(&[&values], &ids);
        // The first has no order to mend.
        if round > 0 {
            series.figures.push((own_cpu()? - spent) * 1e3);
        }
    }
    report.add_budgeted(&series, "<= 100 ms");
    Ok(())
}

/// The rules of every algorithm of shares, by a preset that has it.
const SHARES: [&str; 6] = [
    "slurm-fair-tree",
    "slurm-ticket",
    "flux-accounting",
    "pbs-it4i",
    "armada-legacy",
    "flux",
];

/// Factors of all users under every algorithm, of 1,000 and of 100,000 users.
pub fn shares(rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    for preset_name in SHARES {
        let rules = preset(preset_name).context("a preset of that name")?.share;
        let mut points = Vec::new();
        for users in [1000, 100_000] {
            let name = format!("shares of {preset_name}, {users} users");
            let mut series = Series::new(name, "ms");
            for _ in 0..rounds {
                series.figures.push(factors(&rules, users)? * 1e3);
            }
            points.push((users as f64, series.summary().median));
            report.add_budgeted(&series, "<= 50 ms, goal 10 ms");
        }
        let mut growth = Series::new(format!("shares of {preset_name}: growth"), "power");
        growth.figures.push(exponent(&points));
        report.add_budgeted(&growth, "<= 1.2");
    }
    Ok(())
}

/// Seconds for the factors of all users, a hundred in each account.
fn factors(rules: &ShareRules, users: i64) -> anyhow::Result<f64> {
    let user = |at: i64| Account {
        name: format!("u{at}"),
        shares: Shares::Of(1 + at % 7),
        members: Members::User,
    };
    let account = |at: i64| Account {
        name: format!("a{at}"),
        shares: Shares::Of(1 + at % 13),
        members: Members::Under((0..100).map(user).collect()),
    };
    let accounts: Vec<Account> = (0..users / 100).map(account).collect();
    let tree = Tree::new(&accounts).context("the tree")?;
    let usage = Usage::new(
        &tree,
        |id| f64::from(id.0.wrapping_mul(2_654_435_761) >> 8),
        None,
    );
    let present = Present {
        total: Amounts::NONE,
        kinds: &Kinds::default(),
        held: &|_| Amounts::NONE,
        active: &|_| true,
    };
    let spent = own_cpu()?;
    let book = Book::new(rules, &tree, usage, &present)?;
    for &id in tree.users() {
        std::hint::black_box(book.factor(id));
    }
    Ok(own_cpu()? - spent)
}
