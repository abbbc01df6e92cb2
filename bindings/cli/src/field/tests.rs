//! Formats of listings.

use eddy_wire::id::{Attempt, JobId};

use super::*;

fn row() -> JobRow {
    JobRow {
        id: JobId(1000),
        name: "a-long-name-of-a-job".into(),
        userid: 0,
        state: JobState::Run,
        result: None,
        returncode: None,
        status: None,
        attempt: Attempt(1),
        queue: String::new(),
        urgency: 16,
        priority: Some(16),
        reason: String::new(),
        nnodes: 2,
        ncores: 8,
        ngpus: 0,
        ntasks: 8,
        nodelist: "n[1-2]".into(),
        duration: Some(90.0),
        t_submit: Time(1_000_000),
        t_alloc: Some(Time(2_000_000)),
        t_run: Some(Time(3_000_000)),
        t_finish: None,
        t_inactive: None,
    }
}

fn scene() -> Scene {
    Scene {
        users: Users::read(),
        now: Time(4_500_000),
        spelling: Spelling::Ascii,
    }
}

fn line(format: &str) -> String {
    match Format::parse(format).expect("a format") {
        Format::Template(template) => template.row(&row(), &scene()),
        Format::Columns(columns) => {
            let cells = columns
                .iter()
                .map(|(_, _, shown)| shown.cell(&row(), &scene()));
            cells.collect::<Vec<_>>().join(" ")
        }
    }
}

#[test]
fn a_template_has_widths_sides_and_conversions() {
    assert_eq!(
        line("{id.dec:>6}|{name:<6.4}|{state_single}"),
        "  1000|a-lo  |R"
    );
    assert_eq!(
        line("{runtime}{runtime!F:>6}{duration!H:>8}"),
        "1.500000  1.5s 0:01:30"
    );
    assert_eq!(line("{{{nnodes:^5}}} ?:{queue}"), "{  2  } ");
    assert_eq!(line("{t_submit} {t_inactive!d}."), "1.000000 .");
}

#[test]
fn names_make_columns_and_what_is_missing_is_a_dash() {
    assert_eq!(line("id.dec,state returncode,ncores"), "1000 RUN - 8");
    assert!(
        line("default").ends_with("1.5s n[1-2]"),
        "{}",
        line("default")
    );
    assert!(line("long").contains(" RUN "));
}

#[test]
fn what_is_no_format_is_refused_by_what_it_says() {
    let refused = |format: &str| Format::parse(format).err().expect("refused").to_string();
    assert!(refused("id,bogus").starts_with("`bogus` is not a field; there are id "));
    assert!(refused("{id").contains("a brace at byte 0"));
    assert!(refused("id}").contains("names") || refused("id}").contains("is not a field"));
    assert!(refused("{id!z}").contains("conversion !z is unknown"));
    assert!(refused("{id:>x}").contains("`x` is not a width"));
    assert!(refused(",").contains("format is empty"));
}
