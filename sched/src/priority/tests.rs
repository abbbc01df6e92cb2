//! Formulas, orders and factors: worked examples, errors, and equal results by every way.

use eddy_wire::time::Span;
use proptest::prelude::*;

use super::flux::{Weights, accounting, field, field_of};
use super::*;
use crate::policy::SizeFavour;

fn names() -> Names {
    Names::new(["wait", "fair_share", "size"]).constant("w", 1000.0)
}

fn value(text: &str) -> Option<f64> {
    Formula::parse(text, &names())
        .unwrap()
        .value(&[0.25, 0.5, 0.0])
}

fn error(text: &str) -> String {
    Formula::parse(text, &names()).unwrap_err().to_string()
}

#[test]
fn formulas_are_read_as_in_python() {
    assert_eq!(value("w * wait + 10000*fair_share - 2"), Some(5248.0));
    assert_eq!(value("-2 ** 2"), Some(-4.0));
    assert_eq!(value("2 ** 3 ** 2"), Some(512.0));
    assert_eq!(value("2 ** -1"), Some(0.5));
    assert_eq!(value("12 / 4 / 3 - 1 - 1"), Some(-1.0));
    assert_eq!(value("ceil(fabs(-1*(380/100.00)*sqrt(4)))"), Some(8.0));
    assert_eq!(
        value("clamp(5, 0, 1) + max(1, 2, 3) + min(4e0, .5)"),
        Some(4.5)
    );
    assert_eq!(
        value("pow(2,-(fair_share/wait)) + log10(100) + +1"),
        Some(3.25)
    );
}

#[test]
fn what_is_wrong_is_told_with_its_column() {
    let known = "fair_share size w wait";
    assert_eq!(
        error("1 + fare"),
        format!("column 5: name `fare` is given; known are {known}")
    );
    assert_eq!(
        error("pow(1)"),
        "column 1: `pow` is given 1 arguments; allowed are 2"
    );
    assert!(error("wait + sinh(1)").starts_with("column 8: function `sinh` is given; known are"));
    let parts = "a number, a name, a function or a part in parentheses";
    assert_eq!(
        error("2 *"),
        format!("column 4: the end is given; allowed is {parts}")
    );
    assert_eq!(
        error(""),
        format!("column 1: the end is given; allowed is {parts}")
    );
    let rest = "allowed is an operator or the end";
    assert_eq!(
        error("wait size"),
        format!("column 6: `size` is given; {rest}")
    );
    assert_eq!(error("(wait))"), format!("column 7: `)` is given; {rest}"));
    assert_eq!(
        error("(wait"),
        "column 6: the end is given; allowed is an operator or `)`"
    );
    assert!(error("wait ; 1").starts_with("column 6: `;` is given"));
    assert!(error("1.2.3").starts_with("column 4: `0.3` is given"));
}

#[test]
fn constants_that_are_no_numbers_are_refused() {
    let finite = "allowed are finite numbers";
    assert_eq!(
        error("wait + 1/0"),
        format!("column 8: the constant is inf; {finite}")
    );
    assert_eq!(
        error("1e999"),
        format!("column 1: the constant is inf; {finite}")
    );
    assert_eq!(
        error("wait * sqrt(-1)"),
        format!("column 8: the constant is NaN; {finite}")
    );
    let names = Names::new(["x"]).constant("w", f64::INFINITY);
    assert!(Formula::parse("w", &names).is_err());
}

#[test]
fn a_formula_that_is_too_deep_is_refused_and_not_run() {
    assert!(error(&"(".repeat(10_000)).contains("operations deep"));
    assert!(error(&"-".repeat(10_000)).contains("operations deep"));
    assert!(error(&format!("1{}", "+1".repeat(10_000))).contains("operations deep"));
}

#[test]
fn a_value_that_is_no_number_counts_as_nothing_and_is_marked() {
    let names = Names::new(["x", "y"]);
    let program = Program::new(&Formula::parse("min(1/x, 5) + y", &names).unwrap());
    let (x, y) = ([1.0, 0.0, 2.0], [1.0, 1.0, f64::NAN]);
    let mut values = Vec::new();
    let marks = program.run(&[Column::Each(&x), Column::Each(&y)], 3, &mut values);
    assert_eq!(values, [2.0, 0.0, 0.5]);
    let expected = Marks {
        factors: vec![2],
        values: vec![1],
    };
    assert_eq!(marks, expected);
}

#[test]
fn columns_are_read_as_they_are_meant() {
    let names = Names::new(["same", "each", "of", "since", "part"]);
    let text = "same + 10*each + 100*of + 1000*since + 10000*part";
    let program = Program::new(&Formula::parse(text, &names).unwrap());
    let since = |whole| Column::Since {
        at: &[5.0, 20.0],
        now: 10.0,
        whole,
    };
    let of = Column::Of {
        table: &[7.0, 3.0],
        of: &[1, 0],
    };
    let columns = [
        Column::Same(1.0),
        Column::Each(&[2.0, 4.0]),
        of,
        since(f64::INFINITY),
        since(10.0),
    ];
    let mut values = Vec::new();
    program.run(&columns, 2, &mut values);
    assert_eq!(
        values,
        [1.0 + 20.0 + 300.0 + 5000.0 + 5000.0, 1.0 + 40.0 + 700.0]
    );
}

#[test]
fn each_term_of_a_sum_is_told() {
    let text = "w*wait - (fair_share*4)/2 + 7 + max(size, wait)*3";
    let formula = Formula::parse(text, &names()).unwrap();
    let variables = [0.25, 0.5, 0.0];
    let terms = breakdown(&formula, &names(), &variables);
    let term = |name: &str, factor, weight, contribution| Term {
        name: name.to_owned(),
        factor,
        weight,
        contribution,
    };
    let expected = [
        term("wait", 0.25, 1000.0, 250.0),
        term("fair_share", 0.5, -2.0, -1.0),
        term("constant", 1.0, 7.0, 7.0),
        term("max(size, wait)", 0.25, 3.0, 0.75),
    ];
    assert_eq!(terms, expected);
}

fn ordered(lists: &[&[f64]], ids: &[u64]) -> Vec<u32> {
    let mut order = Order::new();
    order.refresh(lists, ids);
    order.rows().collect()
}

#[test]
fn the_next_list_decides_where_one_is_level_and_last_the_id() {
    let class = [0.0, 1.0, 1.0, 1.0];
    let priority = [-1.0, -5.0, -2.0, -2.0];
    assert_eq!(
        ordered(&[&class, &priority], &[10, 11, 13, 12]),
        [3, 2, 1, 0]
    );
    assert_eq!(ordered(&[], &[3, 1, 2]), [1, 2, 0]);
    assert_eq!(
        ordered(&[&[0.0, -0.0, f64::NAN, f64::NEG_INFINITY]], &[4, 3, 2, 1]),
        [1, 0, 3, 2]
    );
}

#[test]
fn fields_of_flux_are_never_held_nor_expedited_by_their_value() {
    assert_eq!(
        [field(-5.0), field(0.4), field(2.5), field(1e12)],
        [1, 1, 3, u32::MAX - 1]
    );
    assert_eq!(
        [field_of(9.0, 0), field_of(9.0, 31), field_of(9.0, 16)],
        [0, u32::MAX, 9]
    );
    assert_eq!(field(f64::NAN), 1);
    let weights = Weights::default();
    assert_eq!(accounting(&weights, 0.453_21, 0.0, 0.0, 15), 44_321);
    assert_eq!(accounting(&weights, 0.0, 0.0, 0.0, 15), 0);
}

#[test]
fn factors_stay_within_0_and_1() {
    let week = Span::seconds(604_800);
    assert_eq!(factors::wait(Span::seconds(151_200), week), 0.25);
    assert_eq!(factors::wait(Span::seconds(-1), week), 0.0);
    assert_eq!(factors::wait(Span::seconds(1_209_600), week), 1.0);
    let job = [(1.0, 100.0), (1.0, 3200.0)];
    assert_eq!(factors::size(&job, SizeFavour::Large), 0.005_156_25);
    assert_eq!(factors::size(&job, SizeFavour::Small), 0.994_843_75);
    assert_eq!(factors::size(&[(1.0, 0.0)], SizeFavour::Small), 0.0);
    assert_eq!([factors::user(None), factors::user(Some(3.0))], [1.0, 1.0]);
    assert_eq!(
        [factors::first_come(3, 1), factors::first_come(3, 9)],
        [2, 1]
    );
    assert!(held_back(7.0, Some(7.0)) && !held_back(8.0, Some(7.0)) && !held_back(-1.0, None));
}

fn texts() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("a".to_owned()),
        Just("b".to_owned()),
        (-9_i32..9).prop_map(|n| format!("({n})")),
    ];
    leaf.prop_recursive(4, 24, 3, |part| {
        let two = (part.clone(), part.clone());
        prop_oneof![
            (
                two.clone(),
                prop::sample::select(vec!["+", "-", "*", "/", "**"])
            )
                .prop_map(|((x, y), sign)| format!("({x} {sign} {y})")),
            (two, prop::sample::select(vec!["min", "max", "pow"]))
                .prop_map(|((x, y), name)| format!("{name}({x}, {y})")),
            (
                part.clone(),
                prop::sample::select(vec!["abs", "sqrt", "log", "exp", "ceil"])
            )
                .prop_map(|(x, name)| format!("{name}({x})")),
            (part.clone(), part.clone(), part)
                .prop_map(|(x, y, z)| format!("clamp({x}, {y}, {z})")),
        ]
    })
}

/// Numbers among which equals, infinities and none are common.
fn odd_numbers() -> impl Strategy<Value = f64> {
    prop_oneof![
        -3.0..3.0_f64,
        Just(0.0),
        Just(-0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
    ]
}

proptest! {
    #[test]
    fn columns_and_single_jobs_give_the_same(
        text in texts(),
        rows in prop::collection::vec((-5.0..5.0_f64, -5.0..5.0_f64), 1..1500),
    ) {
        let names = Names::new(["a", "b"]);
        // Constant parts that are no number are refused when a formula is loaded.
        if let Ok(formula) = Formula::parse(&text, &names) {
            let (a, b): (Vec<f64>, Vec<f64>) = rows.iter().copied().unzip();
            let mut values = Vec::new();
            let columns = [Column::Each(&a), Column::Each(&b)];
            let marks = Program::new(&formula).run(&columns, rows.len(), &mut values);
            for (row, &(a, b)) in rows.iter().enumerate() {
                let single = formula.value(&[a, b]);
                let marked = marks.values.binary_search(&(row as u32)).is_ok();
                prop_assert_eq!(single.is_none(), marked, "{} at {} {}", text, a, b);
                prop_assert_eq!(single.unwrap_or(0.0), values[row], "{} at {} {}", text, a, b);
            }
        }
    }

    #[test]
    fn parsing_never_panics(text in "[a-c0-9+*/(), .eE^-]{0,60}") {
        let _ = Formula::parse(&text, &Names::new(["a", "b"]));
    }

    #[test]
    fn a_mended_order_is_that_made_anew(
        first in prop::collection::vec(odd_numbers(), 1..200),
        changes in prop::collection::vec((any::<prop::sample::Index>(), odd_numbers()), 0..30),
    ) {
        let ids: Vec<u64> = (0..first.len() as u64).map(|id| id * 7 % 11).collect();
        let mut kept = Order::new();
        let mut values = first;
        kept.refresh(&[&values], &ids);
        for (at, change) in changes {
            let at = at.index(values.len());
            values[at] = change;
            kept.refresh(&[&values, &ids.iter().map(|&id| id as f64).collect::<Vec<_>>()], &ids);
        }
        kept.refresh(&[&values], &ids);
        prop_assert_eq!(kept.rows().collect::<Vec<_>>(), ordered(&[&values], &ids));
    }

    #[test]
    fn contributions_add_up(text in texts(), a in -5.0..5.0_f64, b in -5.0..5.0_f64) {
        let names = Names::new(["a", "b"]);
        let formula = Formula::parse(&text, &names);
        if let Some((formula, value)) = formula.ok().and_then(|f| Some((f.clone(), f.value(&[a, b])?))) {
            let terms = breakdown(&formula, &names, &[a, b]);
            let sum: f64 = terms.iter().map(|term| term.contribution).sum();
            let scale: f64 = terms.iter().map(|term| term.contribution.abs()).sum::<f64>().max(1.0);
            prop_assert!((sum - value).abs() <= 1e-9 * scale, "{} {} {}", text, sum, value);
        }
    }
}
