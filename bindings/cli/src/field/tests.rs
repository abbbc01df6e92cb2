//! Formats of listings.

use eddy_wire::id::Attempt;
use eddy_wire::preempt::{Mode, Preempted, Preemption};

use super::*;

/// One that runs on two nodes.
pub(crate) fn row() -> JobRow {
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
        account: String::new(),
        qos: String::new(),
        class: String::new(),
        job_set: String::new(),
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
        standing: Default::default(),
        suspended: Default::default(),
        t_suspend: None,
        t_unended: None,
        preemptions: 0,
        preempted: None,
        gives: Vec::new(),
        is_instance: false,
        exception: None,
        dependencies: Vec::new(),
        key: None,
        cwd: None,
    }
}

fn scene() -> Scene {
    Scene {
        users: Users::read(),
        now: Time(4_500_000),
        spelling: Spelling::Ascii,
        children: BTreeMap::new(),
        path: None,
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
fn a_job_that_waits_again_for_anothers_sake_says_so_before_its_reason() {
    let info = |row: &JobRow| match Format::parse("contextual_info").expect("a format") {
        Format::Columns(columns) => columns[0].2.cell(row, &scene()),
        Format::Template(_) => panic!("a name is a column"),
    };
    let preemption = Preemption {
        by: JobId(4),
        until: Time(0),
        cause: Default::default(),
        mode: Mode::Requeue,
        grace: 0,
        why: "QoS high preempts QoS low".into(),
    };
    let mut row = JobRow {
        state: JobState::Sched,
        reason: "waits for 4 cores".into(),
        attempt: Attempt(2),
        preemptions: 1,
        preempted: Some(Preempted {
            attempt: Attempt(1),
            t: Time(0),
            preemption,
        }),
        ..row()
    };
    assert_eq!(info(&row), "preempted for job f5; waits for 4 cores");
    // The attempt after that ended otherwise.
    row.attempt = Attempt(3);
    assert_eq!(info(&row), "waits for 4 cores");
    row.preempted = None;
    assert_eq!(
        info(&row),
        "preempted for another user's job; waits for 4 cores"
    );
    row.preemptions = 0;
    assert_eq!(info(&row), "waits for 4 cores");
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

#[test]
fn a_job_that_is_an_instance_shows_what_it_has_come_to() {
    let mut row = row();
    row.state = JobState::Run;
    row.reason = String::new();
    let child = ChildRow {
        job: row.id,
        name: "batch".into(),
        instance: None,
        uri: Some("local:///tmp/x/local".into()),
        statedir: None,
        stage: eddy_wire::services::child::Stage::Serving,
        nnodes: 1,
        ncores: 4,
        queues: Vec::new(),
        declared: false,
        until: None,
        summary: Summary {
            pending: 3,
            running: 2,
            completed: 4,
            failed: 1,
            ..Summary::default()
        },
    };
    let mut scene = scene();
    scene.children.insert(row.id, child);
    scene.path = Some("905".into());
    let Format::Template(template) =
        Format::parse("{id} {uri} {instance.running} {instance.summary}").expect("a format")
    else {
        panic!("a template");
    };
    let id = scene.spelling.show(row.id);
    assert_eq!(
        template.row(&row, &scene),
        format!("fGc/{id} local:///tmp/x/local 2 serving, 3 pending, 2 running, 5 done")
    );
}
